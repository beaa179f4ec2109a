# The bridge alone: put it under your agent's image, or copy /opt/acpbridge into that one.
#
#   docker build -t acpbridge .
#   docker run -i --rm acpbridge run -- AGENT...
FROM python:3.11-slim AS builder
WORKDIR /src
COPY . .
# The same script that people and CI run; no extras.
RUN .ci/install /opt/acpbridge ""

FROM python:3.11-slim
# Same base, so that the environment's links to the interpreter hold.
RUN useradd --create-home --uid 10001 acpbridge
COPY --from=builder /opt/acpbridge /opt/acpbridge
ENV PATH=/opt/acpbridge/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER acpbridge
WORKDIR /home/acpbridge
ENTRYPOINT ["acpbridge"]

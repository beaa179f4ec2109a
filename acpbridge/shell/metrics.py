"""The page of `/metrics`: Prometheus' text format, version 0.0.4.

Names and numbers only: no session id, no path, nothing that a client or an agent has said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@frozen
class Family:
    """One metric with all its values."""

    name: str
    """Without the prefix `acpbridge_`; a counter's ends with `_total`."""
    help: str
    """One line."""
    values: Mapping[str, float]
    """By the value of `label`; without a label there is one, under ""."""
    label: str = ""

    def lines(self) -> Iterable[str]:
        """As the format wants them."""
        name = f"acpbridge_{self.name}"
        yield f"# HELP {name} {self.help}"
        yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        for key, value in sorted(self.values.items()):
            labels = f'{{{self.label}="{_escaped(key)}"}}' if self.label else ""
            yield f"{name}{labels} {value:.17g}"


def page(families: Iterable[Family]) -> str:
    """The whole text."""
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

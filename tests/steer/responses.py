"""The OpenAI Responses API, streaming: what codex-acp's engine calls."""

from __future__ import annotations

import json

from attrs import define, field

from tests.hermes.record import Body
from tests.steer.dialect import INPUT_TOKENS, OUTPUT_TOKENS, Dialect, Item, Kind, Voice, joined

ROLES: dict[str, Kind] = {"user": "user", "assistant": "assistant"}


def items(body: Body) -> list[Item]:
    """Messages, calls and their results, in the order of the request."""
    found: list[Item] = []
    for entry in body.get("input") or []:
        kind = str(entry.get("type", "message"))
        if kind == "message":
            role = ROLES.get(entry.get("role"), "other")
            found.append(Item(role, joined(entry.get("content"))))
        elif kind.endswith("_call"):
            found.append(Item("call", str(entry.get("arguments") or entry.get("input"))))
        elif kind.endswith("_output"):
            output = entry.get("output")
            found.append(Item("result", output if isinstance(output, str) else joined(output)))
        else:
            found.append(Item("other", ""))
    return found


@define(eq=False)
class ResponsesVoice(Voice):
    """One answer as ``response.created`` … ``response.completed``."""

    _sequence: int = 0
    _done: list[Body] = field(factory=list)
    """Output items that are closed."""
    _text: str | None = None
    """The text of the message that is open."""

    async def begin(self) -> None:
        await self._emit("response.created", response=self._response("in_progress"))

    async def say(self, text: str) -> None:
        place = {"item_id": self._message_id, "output_index": len(self._done), "content_index": 0}
        if self._text is None:
            self._text = ""
            await self._item("added", self._message("in_progress", []))
            part = {"type": "output_text", "text": "", "annotations": []}
            await self._emit("response.content_part.added", **place, part=part)
        self._text += text
        await self._emit("response.output_text.delta", **place, delta=text)

    async def call(self, name: str, arguments: Body) -> None:
        await self._close_text()
        item = {
            "id": f"fc_{self.serial:04}_{len(self._done)}",
            "type": "function_call",
            "call_id": f"call_{self.serial:04}_{len(self._done)}",
            "name": name,
            "arguments": json.dumps(arguments),
        }
        await self._item("added", item)
        await self._close(item)

    async def end(self) -> None:
        await self._close_text()
        await self._emit("response.completed", response=self._response("completed"))

    @property
    def _message_id(self) -> str:
        return f"msg_{self.serial:04}_{len(self._done)}"

    def _message(self, status: str, content: list[Body]) -> Body:
        head = {"id": self._message_id, "type": "message", "role": "assistant"}
        return {**head, "status": status, "content": content}

    def _response(self, status: str) -> Body:
        body = {"id": f"resp_{self.serial:04}", "object": "response", "created_at": 0}
        body |= {"status": status, "model": self.model, "output": self._done, "usage": None}
        if status == "completed":
            body["usage"] = {
                "input_tokens": INPUT_TOKENS,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": OUTPUT_TOKENS,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            }
        return body

    async def _close_text(self) -> None:
        if self._text is not None:
            part = {"type": "output_text", "text": self._text, "annotations": []}
            self._text = None
            await self._close(self._message("completed", [part]))

    async def _close(self, item: Body) -> None:
        await self._item("done", item)
        self._done.append(item)

    async def _item(self, what: str, item: Body) -> None:
        await self._emit(f"response.output_item.{what}", output_index=len(self._done), item=item)

    async def _emit(self, name: str, **members: object) -> None:
        await self.emit(name, {"sequence_number": self._sequence, **members})
        self._sequence += 1


def fault(text: str) -> Body:
    """The body of an HTTP error."""
    return {"error": {"message": text, "type": "server_error", "code": None}}


RESPONSES = Dialect(endpoint="/responses", items=items, voice=ResponsesVoice, fault=fault)

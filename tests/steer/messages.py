"""The Anthropic Messages API, streaming: what claude-agent-acp's engine calls."""

from __future__ import annotations

import json

from attrs import define

from tests.hermes.record import Body
from tests.steer.dialect import INPUT_TOKENS, OUTPUT_TOKENS, Dialect, Item, Kind, Voice, joined
from tests.steer.dialect import parts as parts_of

ROLES: dict[str, Kind] = {"user": "user", "assistant": "assistant"}


def items(body: Body) -> list[Item]:
    """Each content block is an item of its own: the engine puts reminders beside a text."""
    found: list[Item] = []
    for message in body.get("messages") or []:
        role = ROLES.get(message.get("role"), "other")
        for part in parts_of(message.get("content")):
            match part.get("type"):
                case "text":
                    found.append(Item(role, part["text"]))
                case "tool_use":
                    found.append(Item("call", json.dumps(part.get("input"))))
                case "tool_result":
                    found.append(Item("result", joined(part.get("content"))))
                case _:
                    found.append(Item("other", ""))
    return found


@define(eq=False)
class MessagesVoice(Voice):
    """One answer as ``message_start`` … ``message_stop``."""

    _index: int = -1
    _is_in_text: bool = False
    _reason: str = "end_turn"

    async def begin(self) -> None:
        message: Body = {
            "id": f"msg_{self.serial:04}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 1},
        }
        await self.emit("message_start", {"message": message})

    async def say(self, text: str) -> None:
        if not self._is_in_text:
            self._is_in_text = True
            await self._open({"type": "text", "text": ""})
        await self._delta({"type": "text_delta", "text": text})

    async def call(self, name: str, arguments: Body) -> None:
        await self._close_text()
        call_id = f"toolu_{self.serial:04}_{self._index + 1}"
        await self._open({"type": "tool_use", "id": call_id, "name": name, "input": {}})
        await self._delta({"type": "input_json_delta", "partial_json": json.dumps(arguments)})
        await self.emit("content_block_stop", {"index": self._index})
        self._reason = "tool_use"

    async def end(self) -> None:
        await self._close_text()
        delta = {"stop_reason": self._reason, "stop_sequence": None}
        usage = {"output_tokens": OUTPUT_TOKENS}
        await self.emit("message_delta", {"delta": delta, "usage": usage})
        await self.emit("message_stop", {})

    async def _open(self, block: Body) -> None:
        self._index += 1
        await self.emit("content_block_start", {"index": self._index, "content_block": block})

    async def _delta(self, delta: Body) -> None:
        await self.emit("content_block_delta", {"index": self._index, "delta": delta})

    async def _close_text(self) -> None:
        if self._is_in_text:
            self._is_in_text = False
            await self.emit("content_block_stop", {"index": self._index})


def fault(text: str) -> Body:
    """The body of an HTTP error."""
    return {"type": "error", "error": {"type": "api_error", "message": text}}


MESSAGES = Dialect(endpoint="/messages", items=items, voice=MessagesVoice, fault=fault)

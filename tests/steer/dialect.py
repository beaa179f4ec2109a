"""What two model APIs have in common: how a conversation reads, how an answer is spoken.

`messages.py` and `responses.py` fill this in; `model.py` knows no API by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from attrs import define, frozen

from tests.hermes.record import Body

Kind = Literal["user", "assistant", "call", "result", "other"]

INPUT_TOKENS = 100
OUTPUT_TOKENS = 10


@frozen
class Item:
    """One piece of the conversation that a request carries."""

    kind: Kind
    text: str


@define(eq=False)
class Voice(ABC):
    """One answer in the events of its API: begin, then say and call, then end."""

    emit: Callable[[str, Body], Awaitable[None]]
    """Sends one event: its name and its members."""
    serial: int
    """The number of this answer; the ids of messages and calls are made of it."""
    model: str
    """The name that the request used for the model."""

    @abstractmethod
    async def begin(self) -> None:
        """Open the answer."""

    @abstractmethod
    async def say(self, text: str) -> None:
        """One piece of text."""

    @abstractmethod
    async def call(self, name: str, arguments: Body) -> None:
        """One whole tool call."""

    @abstractmethod
    async def end(self) -> None:
        """Close what is open, and the answer."""


@frozen
class Dialect:
    """One model API."""

    endpoint: str
    """How the path of a model call ends."""
    items: Callable[[Body], list[Item]]
    """The conversation in a request, oldest first."""
    voice: Callable[[Callable[[str, Body], Awaitable[None]], int, str], Voice]
    fault: Callable[[str], Body]
    """The body of an HTTP error with this text."""


def parts(content: Any) -> list[Body]:
    """The parts of a message's content, which may be one string."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content or [] if isinstance(part, dict)]


def joined(content: Any) -> str:
    """All texts of a message's content."""
    return "\n".join(_texts(parts(content)))


def _texts(found: Iterable[Body]) -> list[str]:
    return [part["text"] for part in found if isinstance(part.get("text"), str)]

"""What the seed of a crash schedule decides before anything happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from random import Random

BOUNDARIES = (60, 90, 140, 240)
"""A kill is drawn from the first so many boundaries of a life; it takes some 25 to open it."""


@frozen
class Draw:
    """One schedule."""

    agent: str
    client: str
    midturn: str
    undelivered: str
    notices: bool
    keys: bool
    """The client names its prompts and sends those without an answer again after a crash."""
    kills: tuple[int, ...]
    """For each life but the last: the boundary at which it is killed; 0: it is ended in order."""
    steps: int
    """Moves of a life that is not the last."""
    prompts: int
    """Prompts of the first life, at most."""
    knows: bool
    """The agent finds the conversation again."""
    resumes: bool
    slow_disk: float
    """How seldom the disk moves."""

    def text(self) -> str:
        """For people."""
        return str(self)


def draw(chance: Random) -> Draw:
    """From the seed."""
    lives = chance.choice((2, 2, 2, 3, 4))
    return Draw(
        agent=chance.choice(("generic", "hermes", "claude")),
        client=chance.choice(("generic", "codeg")),
        midturn=chance.choice(("auto", "auto", "queue")),
        undelivered=chance.choice(("keep", "send")),
        notices=chance.random() < 0.5,
        keys=chance.random() < 0.5,
        kills=tuple(_kill(chance) for _ in range(lives - 1)),
        steps=chance.choice((20, 60, 150)),
        prompts=chance.randint(1, 6),
        knows=chance.random() < 0.85,
        resumes=chance.random() < 0.3,
        slow_disk=chance.choice((0.2, 1.0, 4.0)),
    )


def _kill(chance: Random) -> int:
    return 0 if chance.random() < 0.1 else chance.randint(1, chance.choice(BOUNDARIES))

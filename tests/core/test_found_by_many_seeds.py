"""What a hundred thousand seeds of the simulator found, each as its smallest script."""

from __future__ import annotations

from tests.core.reach import initialized
from tests.core.script import Talk, answer, chunk, ended, notify, prompt, request


def test_a_close_that_crosses_a_resume_closes_what_the_agent_then_knows() -> None:
    """R20, R23: answered here alone, it left a session open that nobody remembered (63437)."""
    talk = Talk("generic")
    talk.open()
    talk.die()
    talk.client(request("r", "session/resume", {"sessionId": "s1", "cwd": "/w", "mcpServers": []}))
    initialized(talk)
    talk.client(request("c", "session/close", {"sessionId": "s1"}))

    assert "session/close" in [frame["method"] for frame in talk.got()]


def test_each_response_has_a_gap_and_a_longest_wait_of_its_own() -> None:
    """D2: a response that had waited for long took a later one with it, too soon (26108)."""
    talk = Talk("generic", "codeg", queue_prompts_max=1)
    talk.open()
    talk.client(prompt(1, "one"), prompt(2, "two"), prompt(3, "three"))
    for _ in range(11):
        talk.agent(chunk("a"))
        talk.wait(0.09)
    talk.seen()
    talk.agent(chunk("b"), ended(1))
    talk.wait(0.05)
    assert [3] == owed_ids(talk), "its second is over, and updates never stopped"
    talk.wait(0.06)
    assert [1] == owed_ids(talk)


def owed_ids(talk: Talk) -> list[object]:
    """The ids of the responses that the client got since the last look."""
    return [one["id"] for one in talk.seen() if "result" in one]


def test_a_steer_into_a_turn_that_nobody_saw_is_not_answered_with_an_owner_that_never_ran() -> None:
    """R14, R15: the agent took the owner from its queue; what the steer joined goes on (90365)."""
    talk = Talk("codex")
    talk.open(steering=True)
    talk.client(prompt(1, "one"), prompt(2, "two"))
    steer = talk.got()[-1]
    assert "_session/steering" == steer["method"]
    talk.client(notify("$/cancel_request", {"requestId": 1}))
    talk.agent(answer(1, {"stopReason": "cancelled"}), answer(steer["id"], {"outcome": "injected"}))
    assert [1] == owed_ids(talk)
    talk.agent(chunk("a"))
    assert [] == owed_ids(talk)
    talk.wait(100.0)

    assert [2] == owed_ids(talk)

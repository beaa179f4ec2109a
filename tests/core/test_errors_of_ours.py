"""Every error of our own: its kind, its code, what it says, and how Codeg hears it (section 7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acpbridge.core.events import ClientGarbled
from acpbridge.core.model import Prompt
from acpbridge.core.replies import ERROR_CODES, refusal
from acpbridge.wire.ids import RpcId
from acpbridge.wire.lines import Oversize
from tests.core import reach
from tests.core.as_written import AS_WRITTEN
from tests.core.reach import forget, initialized, owed
from tests.core.script import (
    REDIRECTED,
    Json,
    Talk,
    chunk,
    ended,
    error,
    prompt,
)


def busy(client: str) -> Talk:
    talk = Talk("hermes", client, midturn="reject")
    reach.working(talk)
    talk.client(prompt("p", "mine"))
    return talk


def queue_full(client: str) -> Talk:
    talk = Talk("hermes", client, queue_prompts_max=1)
    reach.working(talk)
    talk.client(prompt(2), prompt("p", "mine"))
    return talk


def not_durable(client: str) -> Talk:
    talk = Talk("hermes", client)
    reach.idle(talk)
    talk.disk = False
    talk.client(prompt("p", "mine"))
    talk.persist_failed("no space left on device")
    return talk


def delivery_unknown(client: str) -> Talk:
    """Two prompts at the agent: only tapes do that, until there is steering."""
    talk = Talk("hermes", client)
    reach.idle(talk)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"))
    talk.client(prompt("p", "mine"))
    talk.agent(chunk(REDIRECTED), ended("p", usage=False))
    forget(talk)
    talk.agent(error(1, -32000, "boom"))
    return talk


def agent_exited(client: str) -> Talk:
    talk = Talk("hermes", client)
    reach.idle(talk)
    talk.client(prompt("p", "mine"))
    talk.die("exit status 9")
    return talk


def session_lost(client: str) -> Talk:
    talk = Talk("hermes", client)
    reach.lost(talk)
    talk.client(prompt("p", "mine"))
    initialized(talk)
    talk.agent(error(owed(talk, "session/load")["id"], -32002))
    return talk


def wedged(client: str) -> Talk:
    """A client that has cancelled does not listen; so this one has a stuck turn of its own."""
    talk = Talk("hermes", client, restart=False)
    reach.wedged(talk)
    talk.bridge.capabilities = {}
    talk.client(prompt("p", "mine"))
    return talk


def frame_too_large(client: str) -> Talk:
    talk = Talk("hermes", client)
    reach.idle(talk)
    head = b'{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"s1","x":"'
    talk.feed(ClientGarbled(Oversize(head, 70_000_000, b'"}}')))
    return talk


TABLE: dict[str, tuple[int, Callable[[str], Talk], tuple[str, ...]]] = {
    "busy": (-32050, busy, ("busy", "midturn")),
    "queue-full": (-32051, queue_full, ("queue_prompts_max", "cancel")),
    "not-durable": (-32052, not_durable, ("no space left", "not sent", "Mend that")),
    "delivery-unknown": (-32053, delivery_unknown, ("may have run",)),
    "agent-exited": (-32054, agent_exited, ("exit status 9", "may have run", "Look at")),
    "session-lost": (-32055, session_lost, ("s1", "not sent")),
    "wedged": (-32056, wedged, ("wedged", "not sent")),
    "frame-too-large": (-32057, frame_too_large, ("line_bytes_max", "raise the limit")),
}
"""Kind: (code, how to come by it for the prompt `p`, what its message must name)."""


def test_the_table_is_whole_and_the_codes_are_where_they_belong() -> None:
    """Section 7: -32050 to -32069, each its own."""
    # A client of `run` observes nothing; the hub's own tests come by this one.
    assert {kind: row[0] for kind, row in TABLE.items()} | {"observer": -32058} == ERROR_CODES
    assert len(ERROR_CODES) == len(set(ERROR_CODES.values()))
    assert all(-32069 <= code <= -32050 for code in ERROR_CODES.values())


@pytest.mark.parametrize("kind", TABLE)
def test_an_error_of_ours_has_its_code_its_kind_and_a_message_that_helps(kind: str) -> None:
    """Section 7: programs read the kind, people the message: the thing and the remedy."""
    code, bring, words = TABLE[kind]

    told = answer_to_p(bring("generic"))

    assert (code, {"acpbridge": {"kind": kind}}) == (told["error"]["code"], told["error"]["data"])
    assert [] == [word for word in words if word not in told["error"]["message"]]
    assert {"jsonrpc", "id", "error"} == set(told)


def answer_to_p(talk: Talk) -> Json:
    """The one response to the prompt, which nothing that waits may add to."""
    talk.wait(2.0)
    (told,) = [line for line in talk.seen() if line.get("id") == "p"]
    return told


@pytest.mark.parametrize("kind", TABLE)
def test_codeg_hears_it_as_text_and_an_end_of_turn(kind: str) -> None:
    """Section 7: an error on a live prompt kills its connection, `refusal` cancels the row."""
    _, bring, words = TABLE[kind]
    talk = bring("codeg")
    talk.wait(2.0)
    lines = talk.seen()

    (told,) = [line for line in lines if line.get("id") == "p"]
    said = [line for line in lines[: lines.index(told)] if "params" in line][-1]
    assert {"stopReason": "end_turn", "_meta": {"acpbridge": {"kind": kind}}} == told["result"]
    assert "agent_message_chunk" == said["params"]["update"]["sessionUpdate"]
    text = said["params"]["update"]["content"]["text"]
    assert [] == [word for word in words if word not in text]


@pytest.mark.parametrize("kind", TABLE)
def test_the_session_takes_the_next_prompt_in_words_or_deeds(kind: str) -> None:
    """I10: after any fault the next prompt on the same connection runs or is refused in words."""
    talk = TABLE[kind][1]("generic")
    talk.persisted()
    talk.disk = True
    forget(talk)

    talk.client(prompt("next", "next"))
    sent = reach.obey(talk)
    for id_ in (1, 2):
        if any(int(one.id) == id_ for one in at_agent(talk) if one.id.isdigit()):
            talk.agent(ended(id_))
    sent += reach.obey(talk)

    refused = [line for line in talk.seen() if line.get("id") == "next"]
    assert "next" in reach.texts(sent) or 1 == len(refused), talk.show()


def at_agent(talk: Talk) -> list[Prompt]:
    return talk.bridge.sessions["s1"].at_agent


def test_a_refusal_answers_under_the_very_bytes_of_the_id() -> None:
    line = refusal(RpcId(b"1.50"), "busy", 'a "quoted" word')

    assert line.startswith(b'{"jsonrpc":"2.0","id":1.50,"error":{"code":-32050,')

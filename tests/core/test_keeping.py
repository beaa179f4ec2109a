"""What outlives a run: undelivered prompts, prompt keys, the tip of an alias chain (R20, R25)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.effects import Adopt, PersistAlias, Tell
from acpbridge.core.events import KeptPrompt, KeyFound, PersistFailed, Recovered
from tests.core.left import (
    CONTENT,
    DONE,
    LEFT,
    MAYBE,
    keyed,
    load,
    loaded,
    loads,
    opened,
    thoughts,
)
from tests.core.reach import forget, kinds, texts
from tests.core.script import (
    Talk,
    answer,
    cancel,
    chunk,
    ended,
    error,
    new_result,
    prompt,
)


# -- a session from before this run -------------------------------------------------------------
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_load_waits_until_the_journal_has_said_what_it_knows(method: str) -> None:
    """R25: the tip must be known before the agent is asked for the session."""
    talk = Talk("generic")
    talk.initialize()
    talk.hold_recovery = True
    forget(talk)
    talk.client(load("l", method=method), prompt(1, "one"))
    assert [] == talk.got()
    talk.feed(Recovered("s1", generation=2, tip="t9"))

    (asked,) = talk.got()
    assert (method, "t9") == (asked["method"], asked["params"]["sessionId"])
    talk.agent(answer("l", new_result("t9")))
    (sent,) = talk.got()
    assert "t9" == sent["params"]["sessionId"]
    talk.agent(chunk("a", "t9"), ended(1))
    assert {"s1"} == {one["params"]["sessionId"] for one in talk.seen() if "params" in one}


def test_a_later_load_waits_for_no_look() -> None:
    talk = loads()
    loaded(talk)
    talk.hold_recovery = True
    talk.client(load("m"))

    assert ["session/load"] == kinds(talk.got())


def test_what_was_kept_is_told_once_in_the_next_prompt_s_turn() -> None:
    """Codeg drops what comes outside a turn; and told is remembered, with the words."""
    talk = loads(LEFT, MAYBE, DONE)
    loaded(talk)
    talk.client(prompt(1, "one"))
    (told,) = thoughts(talk)

    for words in ("left behind", "maybe", "done", "may have run", "`acpbridge prompts`"):
        assert words in told
    assert [Tell((7, 8, 9))] == talk.asked
    talk.agent(chunk("a"), ended(1))
    talk.wait(1.0)
    talk.client(prompt(2, "two"))
    assert [] == thoughts(talk)


def test_many_kept_prompts_are_counted() -> None:
    talk = loads(*(KeptPrompt(number, "undelivered", f"n{number}") for number in range(5)))
    loaded(talk)
    talk.client(prompt(1, "one"))
    (told,) = thoughts(talk)

    assert "2 more" in told
    assert "n4" not in told


def test_a_session_that_a_live_bridge_holds_is_loaded_and_told_of() -> None:
    """The rows stay with their bridge; the load is answered as ever."""
    talk = loads(pid=4711)
    loaded(talk)
    talk.client(prompt(1, "one"))

    assert ["one"] == texts(talk.got())[-1:]
    (told,) = thoughts(talk)
    assert "4711" in told


def test_what_falls_to_us_later_is_told_in_the_turn_that_is_open() -> None:
    """The other bridge's lock falls while a prompt of ours runs."""
    talk = loads(pid=4711)
    loaded(talk)
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"))
    talk.seen()
    talk.feed(Recovered("s1", (MAYBE,)))

    (told,) = thoughts(talk)
    assert "maybe" in told


def test_what_is_known_of_a_session_that_nobody_has_opened_is_only_noted() -> None:
    talk = Talk("generic")
    talk.initialize()
    talk.seen()
    talk.feed(Recovered("", (MAYBE,)))

    assert [] == talk.seen()
    assert 1 == talk.count("prompts_recovered")


# -- undelivered = send ---------------------------------------------------------------------------
def test_undelivered_prompts_are_sent_in_order_before_any_new_one() -> None:
    """R20: with `send` the conversation goes on where it was cut off."""
    second = KeptPrompt(8, "undelivered", "next", CONTENT.replace(b"behind", b"second"))
    talk = loads(LEFT, second, policy="send")
    talk.client(prompt(1, "one"))
    loaded(talk)
    sent = []
    for _ in range(3):
        (frame,) = talk.got()
        sent.append(frame["params"]["prompt"][0]["text"])
        talk.agent(chunk("a"), ended(frame["id"]))
        talk.wait(1.0)

    assert ["left behind", "left second", "one"] == sent
    assert [Adopt(7, 1, "s1"), Adopt(8, 2, "s1")] == talk.asked
    assert [(1, "end_turn")] == [one for one in kinds(talk.seen()) if one[0] == 1]
    done = [one.prompt for one in talk.persists if one.state == "answered"]
    assert [1, 2, 3] == sorted(done)


def test_they_go_before_what_the_client_wrote_while_the_journal_was_asked() -> None:
    """I5: what was accepted first goes first, also across a crash."""
    talk = Talk("generic", undelivered="send")
    talk.initialize()
    talk.hold_recovery = True
    forget(talk)
    talk.client(load("l"), prompt(1, "one"), prompt(2, "two"))
    second = KeptPrompt(8, "undelivered", "next", CONTENT.replace(b"behind", b"second"))
    talk.feed(Recovered("s1", (LEFT, second)))
    loaded(talk)
    sent = []
    for _ in range(4):
        (frame,) = [one for one in talk.got() if one["method"] == "session/prompt"]
        sent += texts([frame])
        talk.agent(chunk("a"), ended(frame["id"]))
        talk.wait(1.0)

    assert ["left behind", "left second", "one", "two"] == sent


def test_one_that_another_bridge_took_is_not_sent() -> None:
    """The intent to send it fails, and nobody is told of what is not lost."""
    talk = loads(LEFT, policy="send")
    talk.disk = False
    loaded(talk)
    assert [] == talk.got()
    talk.persist_failed("another bridge has taken it")
    talk.disk = True
    talk.client(prompt(1, "one"))

    assert ["one"] == texts(talk.got())
    assert "accepted" == [one.state for one in talk.persists if one.prompt == 1][-1]


def test_a_load_that_fails_leaves_them_undelivered() -> None:
    """R4: what nobody asked for now is refused to nobody, and can be found again."""
    talk = loads(LEFT, policy="send")
    talk.agent(error("l", -32002))
    talk.wait(1.0)

    assert [] == talk.got()
    assert "accepted" == talk.persists[-1].state
    assert ["l"] == [one["id"] for one in talk.seen() if "id" in one]


# -- aliases ------------------------------------------------------------------------------------
def test_an_alias_is_remembered_with_its_generation() -> None:
    """R25: a session opened anew behind the client's id is found again after a restart."""
    talk = Talk("generic")
    talk.open()
    talk.die()
    talk.client(prompt(1, "one"))
    (asked,) = talk.got()
    talk.agent(answer(asked["id"], {"protocolVersion": 1}))
    (anew,) = talk.got()
    talk.agent(answer(anew["id"], new_result("s2")))

    assert [PersistAlias("s1", 1, "s2")] == talk.asked


# -- keys ---------------------------------------------------------------------------------------
def test_a_key_that_has_not_run_goes_and_is_recorded_with_it() -> None:
    talk = opened()
    talk.client(keyed(1, "one"))

    assert ["one"] == texts(talk.got())
    assert ["k"] == [one.key for one in talk.persists if one.state == "accepted"]


def test_a_second_request_of_a_running_key_shares_its_answer() -> None:
    """The same key never runs twice; each request gets the one answer under its own id."""
    talk = opened("codeg")
    talk.client(keyed(1, "one"), keyed(2, "one"), prompt(3, "three"), keyed("x", "one"))
    talk.agent(chunk("a"), ended(1))
    talk.wait(1.0)

    assert ["one", "three"] == texts(talk.got())
    answers = [one for one in talk.seen() if "id" in one]
    assert [1, 2, "x"] == [one["id"] for one in answers]
    assert 1 == len({str(one["result"]) for one in answers})


def test_followers_of_a_queued_key_share_its_cancel() -> None:
    talk = opened()
    talk.client(prompt(1, "one"), keyed(2, "two"), keyed(3, "two"), cancel())

    assert [(2, "cancelled"), (3, "cancelled")] == kinds(talk.seen())


def test_a_key_that_has_settled_gets_the_stored_result() -> None:
    """Also after a restart: whoever asks with the key gets what it was answered, byte for byte."""
    talk = opened("codeg")
    stored = b'{"stopReason":"end_turn","n":1e2}'
    talk.keys["k"] = KeptPrompt(5, "answered", "one", answer=stored)
    talk.client(keyed(1, "one"))
    talk.wait(1.0)

    assert [] == talk.got()
    assert any(stored in line for line in talk.client_lines)
    assert "accepted" not in [one.state for one in talk.persists]


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (KeptPrompt(5, "unknown", "one"), "delivery-unknown"),
        (KeptPrompt(5, "answered", "one"), "delivery-unknown"),
        (KeptPrompt(5, "started", "one", pid=4711), "busy"),
    ],
)
def test_a_key_without_a_result_is_refused_in_words(found: KeptPrompt, kind: str) -> None:
    talk = opened()
    talk.keys["k"] = found
    talk.client(keyed(1, "one"), prompt(2, "two"))

    (refused,) = talk.seen()
    assert kind == refused["error"]["data"]["acpbridge"]["kind"]
    assert ["two"] == texts(talk.got())


def test_a_key_that_was_never_delivered_is_taken_over() -> None:
    talk = opened()
    talk.keys["k"] = LEFT
    talk.client(keyed(1, "one"))

    assert ["one"] == texts(talk.got())
    assert [Adopt(7, 2, "s1")] == talk.asked


def test_a_prompt_that_passes_one_with_a_key_on_its_way_to_the_journal_loses_nothing() -> None:
    """The journal begins rows in the order of numbers: a lower one behind a higher is not begun."""
    talk = opened()
    turn = prompt(1, "one")
    talk.client(turn)
    talk.hold_recovery = True
    talk.client(keyed(2, "two"), prompt(3, "three"))
    talk.feed(KeyFound(talk.bridge.last_token))

    numbers = [one.prompt for one in talk.persists if one.state == "accepted"]
    assert 3 == len(set(numbers))
    assert sorted(numbers) == numbers


def test_while_it_is_looked_up_nothing_overtakes_and_a_cancel_ends_it() -> None:
    """I5, R16."""
    talk = opened()
    talk.hold_recovery = True
    talk.client(keyed(1, "one"), prompt(2, "two"))
    assert [] == talk.got()
    talk.wait(3.0)
    (waits,) = thoughts(talk)
    assert "looked up" in waits
    talk.client(cancel())
    assert [(1, "cancelled"), (2, "cancelled")] == kinds(talk.seen())
    talk.feed(KeyFound(1))

    assert [] == talk.got()


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_disk_that_cannot_look_it_up_refuses_the_prompt(*, is_cancelled: bool) -> None:
    """I3: sent anyway, it might run twice."""
    talk = opened()
    talk.hold_recovery = True
    talk.client(keyed(1, "one"), *([cancel()] if is_cancelled else []))
    talk.seen()
    talk.feed(PersistFailed(1, "disk I/O error"))
    refused = talk.seen()

    assert [] == talk.got()
    assert ([] if is_cancelled else ["not-durable"]) == [
        one["error"]["data"]["acpbridge"]["kind"] for one in refused
    ]


@pytest.mark.parametrize("key", [7, "", "k" * 257, None, ["k"]])
def test_a_key_that_is_no_usable_text_is_none(key: Any) -> None:
    talk = opened()
    talk.client(keyed(1, "one", key), keyed(2, "two", key))

    assert ["one"] == texts(talk.got())
    assert {""} == {one.key for one in talk.persists}


def test_a_load_that_brings_nothing_back_of_a_session_with_turns_is_no_load() -> None:
    """R25, S13.4: an agent that "succeeds" in loading nothing; no prompt goes into the void."""
    talk = loads(settled=True)
    talk.client(prompt(3, "three"))
    talk.agent(answer("l", {}))
    talk.wait(1.0)

    assert [] == talk.got()
    told = talk.seen()
    assert ["session-lost"] == [
        one["error"]["data"]["acpbridge"]["kind"] for one in told if one.get("id") == "l"
    ]

    whole = loads(settled=True)
    whole.client(prompt(3, "three"))
    whole.agent(chunk("history"), answer("l", {}))
    assert ["session/prompt"] == kinds(whole.got())

"""The scripted agent does what was read of Hermes 0.20, and the harness what it promises.

A fake is evidence only as far as its behaviour is pinned down; what Hermes 0.19 does as well
(queued receipts, wedge, drained turns) is held to the recorded order of frames.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from tests.hermes.conftest import Open
from tests.hermes.peer import AgentGone, Peer
from tests.hermes.processes import arguments, wait_gone
from tests.hermes.record import Seen
from tests.hermes.script import script
from tests.hermes.scripted_turns import WEDGE_DETAILS

pytestmark = pytest.mark.process

REDIRECTED = "Redirected the active turn with your correction."
QUEUED = "Queued for the next turn. (1 queued)"
FAKE = {"stopReason": "end_turn"}


def entries(peer: Peer, key: str) -> list[object]:
    """One kind of entry of the agent's log: "got" frames or "ran" texts."""
    lines = (peer.home.root / "log.jsonl").read_text().splitlines()
    return [entry[key] for entry in map(json.loads, lines) if key in entry]


async def release(peer: Peer, gate: str) -> None:
    await peer.notify("_test/release", {"gate": gate})


def is_usage(seen: Seen) -> bool:
    return seen.kind == "usage_update"


async def test_redirect_folds_a_prompt_into_the_running_turn(open_scripted: Open) -> None:
    peer = await open_scripted("redirect")
    session = await peer.new_session()
    first = await peer.prompt(session, script("one", ["say", "A0 "], ["gate", "g"], ["say", "A1"]))
    await peer.wait_text("A0")
    second = await peer.prompt(session, script("two", ["say", " B"]))
    answer = await peer.answer(second)
    await release(peer, "g")
    end = await peer.answer(first)

    assert answer.body["result"] == FAKE
    assert peer.story(session) == [
        f"says A0 {REDIRECTED}",
        "answers two: end_turn",
        "says A1 B",
        "answers one: end_turn",
    ]
    assert end.body["result"]["usage"]["totalTokens"] == 20


async def test_queued_runs_a_prompt_behind_its_echo_in_the_same_turn(open_scripted: Open) -> None:
    """The order of frames is that of the recorded mid-turn-prompt tape of 0.19."""
    peer = await open_scripted("queued")
    session = await peer.new_session()
    text = script("two", ["say", "B"])
    first = await peer.prompt(session, script("one", ["say", "A0 "], ["gate", "g"], ["say", "A1"]))
    await peer.wait_text("A0")
    second = await peer.prompt(session, text)
    await peer.answer(second)
    await release(peer, "g")
    end = await peer.answer(first)

    assert peer.story(session) == [
        f"says A0 {QUEUED}",
        "answers two: end_turn",
        "says A1",
        f"user {text}",
        "says B",
        "answers one: end_turn",
    ]
    at = peer.frames.index(end)
    assert [is_usage(seen) for seen in peer.frames[at - 3 : at]] == [False, True, True]


async def test_bare_answers_each_prompt_by_its_own_turn(open_scripted: Open) -> None:
    peer = await open_scripted("bare")
    session = await peer.new_session()
    first, one = peer.prompt_frame(session, script("one", ["gate", "g"], ["say", "A"]))
    second, two = peer.prompt_frame(session, script("two", ["say", "B"]))
    await peer.send_many(first, second)
    await release(peer, "g")
    await peer.answer(two)

    assert peer.story(session) == [
        "says A",
        "answers one: end_turn",
        "says B",
        "answers two: end_turn",
    ]
    assert len(peer.answers(one)) == 1


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [
        ("poison-error", "error -32603"),
        ("poison-cancelled", "cancelled"),
        ("no-poison", "end_turn"),
    ],
)
async def test_idle_cancel_poisons_the_next_prompt(
    open_scripted: Open, mode: str, outcome: str
) -> None:
    peer = await open_scripted(f"redirect,{mode}")
    session = await peer.new_session()
    await peer.cancel(session)
    await peer.answer(await peer.prompt(session, script("one", ["stop", "end_turn"])))
    await peer.answer(await peer.prompt(session, script("two", ["say", "B"])))

    wedged = [f"says {QUEUED}"] if mode == "poison-error" else ["says B"]
    assert peer.story(session) == [
        f"answers one: {outcome}",
        *wedged,
        "answers two: end_turn",
    ]


async def test_cancel_during_a_tool_wedges_until_a_fork(open_scripted: Open) -> None:
    peer = await open_scripted("queued")
    session = await peer.new_session()
    first = await peer.prompt(session, script("one", ["tool", "terminal", {"gate": "never"}]))
    await peer.wait_kind("tool_call")
    await peer.cancel(session)
    error = (await peer.answer(first)).body["error"]
    await peer.answer(await peer.prompt(session, script("two", ["say", "never"])))
    params = {"sessionId": session, "cwd": str(peer.home.work), "mcpServers": []}
    fork = (await peer.request("session/fork", params))["result"]["sessionId"]
    await peer.answer(await peer.prompt(fork, script("three", ["say", "C"])))

    assert (error["code"], error["data"]["details"]) == (-32603, WEDGE_DETAILS)
    assert peer.story(session)[-2:] == [f"says {QUEUED}", "answers two: end_turn"]
    assert peer.story(fork) == ["says C", "answers three: end_turn"]


async def test_cancel_while_text_streams_lets_queued_prompts_run(open_scripted: Open) -> None:
    """As in the recorded cancel-with-queued tape."""
    peer = await open_scripted("queued")
    session = await peer.new_session()
    text = script("two", ["say", "B"])
    first = await peer.prompt(session, script("one", ["say", "A"], ["gate", "never"]))
    await peer.wait_text("A")
    await peer.answer(await peer.prompt(session, text))
    await peer.cancel(session)
    await peer.answer(first)

    assert peer.story(session)[-3:] == [f"user {text}", "says B", "answers one: cancelled"]


async def test_background_turn_takes_a_redirect_and_ends_with_usage(open_scripted: Open) -> None:
    """S16 b: a silent turn that no request owns eats the prompt that meets it."""
    peer = await open_scripted("redirect")
    session = await peer.new_session()
    background = script("work", ["gate", "g"], ["say", "bg2"])
    await peer.notify("_test/background", {"sessionId": session, "script": background})
    await peer.notify("_test/receipt", {"sessionId": session, "before": "bg1 ", "between": " x "})
    sent = await peer.prompt(session, script("two", ["say", " reaction"]))
    answer = await peer.answer(sent)
    await release(peer, "g")
    await peer.wait_for(is_usage, after=await peer.wait_text(" reaction"))

    assert answer.body["result"] == FAKE
    assert peer.story(session) == [
        f"says bg1 {REDIRECTED} x ",
        "answers two: end_turn",
        "says bg2 reaction",
    ]
    assert entries(peer, "ran") == [script("two", ["say", " reaction"])]


async def test_background_turn_opens_with_its_notice(open_scripted: Open) -> None:
    """S16 a and c: the notice is the only start, and a queued prompt drains in the same turn."""
    peer = await open_scripted("queued")
    session = await peer.new_session()
    text = script("two", ["say", "B"])
    params = {
        "sessionId": session,
        "notice": "a process ended",
        "script": script("w", ["gate", "g"]),
    }
    await peer.notify("_test/background", params)
    await peer.wait_kind("user_message_chunk")
    await peer.answer(await peer.prompt(session, text))
    await release(peer, "g")
    await peer.wait_text("B")

    assert peer.story(session) == [
        "user a process ended",
        f"says {QUEUED}",
        "answers two: end_turn",
        f"user {text}",
        "says B",
    ]


async def test_rotation_changes_the_internal_id_and_restart_loads_the_tip(
    open_scripted: Open,
) -> None:
    peer = await open_scripted("redirect")
    session = await peer.new_session()
    await peer.answer(await peer.prompt(session, script("one", ["say", "A"])))
    await peer.notify("_test/rotate", {"sessionId": session})
    await peer.answer(await peer.prompt(session, script("two", ["say", "B"])))
    await peer.restart()
    await peer.initialize()
    (listed,) = (await peer.request("session/list", {}))["result"]["sessions"]
    at = len(peer.frames)
    params = {"cwd": str(peer.home.work), "mcpServers": []}
    loaded = await peer.request("session/load", {"sessionId": listed["sessionId"], **params})
    unknown = await peer.request("session/load", {"sessionId": "nobody", **params})

    assert listed["sessionId"] != session
    meta = loaded["result"]["_meta"]["hermes"]["sessionProvenance"]
    assert meta["rootHermesSessionId"] == session
    assert [seen.text for seen in peer.frames[at:] if seen.text] == [
        script("two", ["say", "B"]),
        "B",
    ]
    assert unknown["result"] == {}


async def test_permission_is_asked_and_its_answer_said(open_scripted: Open) -> None:
    peer = await open_scripted("redirect")
    peer.on_permission = lambda request: {"outcome": {"outcome": "selected", "optionId": "deny"}}
    session = await peer.new_session()
    await peer.answer(await peer.prompt(session, script("one", ["permission", "rm -rf ./build"])))

    assert peer.story(session) == [
        "asks session/request_permission",
        "says deny",
        "answers one: end_turn",
    ]


async def test_a_fifth_turn_waits_for_one_of_four(open_scripted: Open) -> None:
    peer = await open_scripted("queued")
    sessions = [await peer.new_session() for _ in range(5)]
    for number, session in enumerate(sessions):
        await peer.prompt(
            session, script(f"s{number}", ["say", f"s{number}"], ["gate", f"{number}"])
        )
    await peer.fence()

    assert peer.story(sessions[3]) == ["says s3"]
    assert peer.story(sessions[4]) == []

    await release(peer, "0")
    await peer.wait_text("s4")


async def test_death_is_told_with_the_end_of_stderr(open_scripted: Open) -> None:
    peer = await open_scripted("bare")
    session = await peer.new_session()
    sent = await peer.prompt(session, script("one", ["stderr", 3], ["die", 7]))

    with pytest.raises(AgentGone, match="eee"):
        await peer.answer(sent)
    assert await peer.wait_exit() == 7


async def test_every_wait_has_a_bound(open_scripted: Open) -> None:
    peer = await open_scripted("bare")

    with pytest.raises(TimeoutError, match="text 'never' did not come"):
        await peer.wait_text("never", within_s=0.01)


async def test_stop_leaves_no_grandchild_behind(open_scripted: Open) -> None:
    """Tests must not pile up agents and their tools, even if SIGTERM is ignored."""
    peer = await open_scripted("bare,ignore-term")
    session = await peer.new_session()
    await peer.answer(await peer.prompt(session, script("one", ["spawn", 600])))
    pid = int(peer.story(session)[0].removeprefix("says pid "))
    assert arguments(pid) == ["sleep", "600"]

    with trio.fail_after(30):
        assert await peer.stop(grace_s=0.1) is None
    await wait_gone(pid, within_s=30)


async def test_a_file_opens_a_gate(open_scripted: Open, tmp_path: Path) -> None:
    peer = await open_scripted("bare")
    session = await peer.new_session()
    path = tmp_path / "go"
    sent = await peer.prompt(session, script("one", ["file", str(path)], ["say", "seen"]))
    await peer.fence()
    assert peer.story(session) == []

    path.touch()
    await peer.answer(sent)
    assert peer.story(session) == ["says seen", "answers one: end_turn"]

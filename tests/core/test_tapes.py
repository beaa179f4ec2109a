"""Every tape of every agent, played as it was written: is each answer seen for what it is?

What is expected is derived from the tape alone (`tapes.py`) or stands in the tables below, each row
of which was looked up in its tape; the core is never asked what to expect.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from acpbridge.config import load_settings
from acpbridge.core.events import AgentExited, ClientClosed
from acpbridge.errors import UsageFault
from acpbridge.profiles import agent_called
from tests.core.as_written import Replay, play
from tests.core.script import Json
from tests.core.tape_tables import (
    DISBELIEVED,
    DOUBTED,
    ENDS,
    HIDDEN,
    KEPT_BACK,
    LISTED_TWICE,
    OWNERLESS,
    RECEIPTS,
    REWORDED,
    UNANSWERED,
    UNKNOWN,
    WAITED,
    WEDGES,
)
from tests.core.tapes import (
    FIXTURES,
    Tape,
    answered,
    elided,
    ownerless_stretches,
    processes,
    tapes,
)

PROCESSES = [process for tape in tapes() for process in processes(tape)]
each_process = pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)


# -- the tapes -----------------------------------------------------------------------------------
def test_all_tapes_are_there() -> None:
    """The counts of fixtures/README.md; a tape that is not read proves nothing."""
    counts = Counter(tape.agent for tape in tapes())

    assert {
        "claude-agent-acp-0.101.0": 53,
        "codex-acp-2.6.0": 54,
        "hermes-0.19.0": 54,
    } == counts
    assert 161 == len(tapes())


def test_cut_texts_are_made_whole_at_their_recorded_length() -> None:
    """Big frames are the point of big-frames: 3 MiB from the agent, 2 MiB from the client."""
    big = next(tape for tape in tapes() if tape.scenario == "big-frames")
    chunk, prompt = (line for line in big.lines if len(line.raw) > 1 << 20)

    assert (3 << 20) == len(chunk.text)
    assert 3145932 == len(chunk.raw)
    assert 2097346 == len(prompt.raw)
    assert prompt.params["prompt"][0]["text"].endswith('@@[["say", "got it"]]')


def test_making_whole_and_cutting_are_each_others_opposite() -> None:
    """Expectations stand in files with their long texts cut: the cut must lose nothing else."""
    for tape in tapes():
        rows = (FIXTURES / tape.agent / f"{tape.scenario}.jsonl").read_text("utf-8").splitlines()
        recorded = [json.loads(row)["frame"] for row in rows[1:]]
        cut = [elided(line.frame) for line in tape.lines]

        assert len(recorded) == len(cut)
        assert recorded == [
            frame if "__elided__" in was else now
            for frame, was, now in zip(recorded, recorded, cut, strict=True)
        ]


# -- what is an answer ---------------------------------------------------------------------------
def test_the_tapes_hold_22_receipts_and_they_are_these() -> None:
    """The number of the design, found again by a rule over the tapes: bare, behind a listed text.

    All are Hermes'. A receipt that the tables do not know, or a real answer that reads like one,
    changes this list.
    """
    assert RECEIPTS.keys() == _of_kind("receipt")
    assert 22 == len(RECEIPTS)


def test_all_other_answers_are_named_by_the_tables_or_real() -> None:
    assert WEDGES.keys() == _of_kind("wedge")
    assert UNKNOWN.keys() == _of_kind("unknown")
    assert UNANSWERED.keys() == _of_kind("none")
    assert 447 == len(_of_kind("real"))


def _of_kind(kind: str) -> set[tuple[str, str]]:
    return {
        (process.name, prompt.id)
        for process in PROCESSES
        for prompt in answered(process)
        if prompt.kind == kind
    }


@each_process
def test_each_answer_is_seen_for_what_it_is(process: Tape) -> None:
    """R8, R10: a real answer leaves byte for byte, once; a receipt never leaves as an answer."""
    replay = play(process)
    for prompt in answered(process):
        got = replay.responses(prompt.id)
        if prompt.kind == "real":
            assert prompt.response is not None
            assert [prompt.response.raw] == got
        elif prompt.kind != "none":
            table = {"receipt": RECEIPTS, "wedge": WEDGES, "unknown": UNKNOWN}[prompt.kind]
            told = table[process.name, prompt.id]

            assert ([] if told == "waits" else [told]) == [outcome(line) for line in got]


def outcome(line: bytes) -> str:
    """What a response of the bridge's own says, in a word of the tables above."""
    frame = json.loads(line)
    if "error" in frame:
        return str(frame["error"]["data"]["acpbridge"]["kind"])
    result = frame["result"]
    if result["stopReason"] == "cancelled":
        return "cancelled"
    return str(result["_meta"]["acpbridge"]["completion"])


@each_process
def test_an_answer_of_the_agent_is_never_held_for_long_or_put_in_doubt(process: Tape) -> None:
    """R11, R12: on 161 tapes one answer is doubted, an empty one, and it passes as it came."""
    replay = play(process)
    counters = replay.talk.bridge.counters

    assert DOUBTED.get(process.name, 0) == counters.get("empty_answer_held", 0)
    assert 0 == counters.get("suspect_answer_held", 0)
    assert 0 == counters.get("doubted_answer_was_receipt", 0)


@each_process
def test_nothing_happens_that_cannot_happen(process: Tape) -> None:
    """The cells marked `never`, and answers that nobody waits for."""
    counters = play(process).talk.bridge.counters
    kept_back = len(KEPT_BACK.get(process.name, []))

    assert kept_back == counters.get("unknown_answer_dropped", 0)
    for name in ("unexpected_event", "second_answer_dropped"):
        assert 0 == counters.get(name, 0)


# -- what is a turn ------------------------------------------------------------------------------
@each_process
def test_only_work_opens_a_turn(process: Tape) -> None:
    """Titles, usage, commands, replays and late tool updates open none (design, "work").

    The table, a rule over the tape and the bridge agree on every tape, also on those with a turn
    that really has no owner.
    """
    expected = OWNERLESS.get(process.name, 0)

    assert expected == ownerless_stretches(process)
    assert expected == play(process).talk.count("ownerless_turn")


@each_process
def test_every_session_is_at_rest_when_its_prompts_are_answered(process: Tape) -> None:
    """No frame behind the last answer keeps a session busy for longer than its marker says."""
    replay = play(process)
    waiting = {
        prompt.prompt.session for prompt in answered(process) if not replay.responses(prompt.id)
    }
    for session in replay.talk.bridge.sessions.values():
        if session.id not in waiting:
            assert session.phase.value in {"idle", "wedged"}
            assert [] == session.at_agent


# -- what goes through ---------------------------------------------------------------------------
@each_process
def test_frames_of_the_agent_leave_in_order_and_byte_for_byte(process: Tape) -> None:
    """I6, I7: nothing is lost, changed or reordered but the texts of receipts."""
    replay = play(process)
    receipts = [prompt.said[-1].raw for prompt in answered(process) if prompt.kind == "receipt"]
    expected = [raw for raw in replay.fed if passes_in_order(raw)]
    for raw in receipts:
        expected.remove(raw)
    got = [raw for raw in replay.client_lines if passes_in_order(raw) and not is_own(raw)]
    hidden = HIDDEN.get(process.name, 0)

    assert hidden == len(expected) - len(got)
    if hidden:
        rest = iter(expected)
        assert all(raw in rest for raw in got)
    else:
        assert expected == got


def passes_in_order(raw: bytes) -> bool:
    """Requests and notifications; `$/cancel_request` is looked at by itself, responses too."""
    frame = json.loads(raw)
    return "method" in frame and frame["method"] != "$/cancel_request"


def is_own(raw: bytes) -> bool:
    """Whether the bridge wrote this in its own name."""
    return b'"_meta":{"acpbridge":' in raw


@each_process
def test_updates_before_a_response_are_written_before_it(process: Tape) -> None:
    """I6: what the agent said before its response is there when the response is."""
    replay = play(process)
    receipts = [prompt.said[-1].raw for prompt in answered(process) if prompt.kind == "receipt"]
    if process.name in HIDDEN:
        return
    before: dict[bytes, int] = {}
    count = 0
    for raw in replay.fed:
        if raw in receipts:
            receipts.remove(raw)
        elif passes_in_order(raw):
            count += 1
        else:
            before[raw] = count
    count = 0
    for raw in replay.client_lines:
        if passes_in_order(raw) and not is_own(raw):
            count += 1
        elif raw in before:
            assert before[raw] <= count


@each_process
def test_requests_of_the_client_leave_at_once_and_byte_for_byte(process: Tape) -> None:
    """I5, I7, and the promise of this module: nothing here waits, and nothing is skipped."""
    replay = play(process)
    kept_back = KEPT_BACK.get(process.name, [])
    asked = [
        line
        for line in process.lines
        if line.side == "client" and line.method and line.id and line.id not in kept_back
    ]
    kept = [line.raw for line in asked if (process.name, line.id) not in REWORDED]
    written = [raw for raw in replay.talk.agent_lines if is_request(raw)]
    reworded = [raw for raw in written if raw not in kept]

    assert kept_back == replay.unwritten
    assert len(asked) == len(written)
    assert kept == [raw for raw in written if raw in kept]
    assert len(asked) - len(kept) == len(reworded)


def is_request(raw: bytes) -> bool:
    frame = json.loads(raw)
    return "method" in frame and "id" in frame


@each_process
def test_every_other_request_is_answered_with_the_agents_bytes(process: Tape) -> None:
    """I1, I7 for what is no prompt; a "success" with nothing in it is not believed (R25)."""
    replay = play(process)
    prompts = {prompt.id for prompt in answered(process)}
    for line in process.lines:
        if line.side == "agent" and line.is_response and line.id not in prompts:
            got = replay.responses(line.id)

            if line.id in KEPT_BACK.get(process.name, []):
                assert ["promptRequired"] == [json.loads(raw)["result"]["outcome"] for raw in got]
            elif (process.name, line.id) in DISBELIEVED:
                assert ["session-lost"] == [outcome(raw) for raw in got]
            elif (process.name, line.id) == LISTED_TWICE:
                result = line.frame["result"]
                once = {**line.frame, "result": {**result, "sessions": result["sessions"][:1]}}
                assert [once] == [json.loads(raw) for raw in got]
            else:
                assert [line.raw] == got


@each_process
def test_a_request_of_the_agent_is_withdrawn_once_when_its_turn_is_cancelled(process: Tape) -> None:
    """R17: by the bridge or by the agent, whoever is first, and never twice."""
    replay = play(process)
    taken_back = [
        json.loads(raw)["params"]["requestId"]
        for raw in replay.client_lines
        if b'"$/cancel_request"' in raw
    ]
    expected = (
        [0] if process.scenario in {"cancel-while-permission-open", "permission-cancel"} else []
    )

    assert expected == taken_back


# -- what is never answered ----------------------------------------------------------------------
@pytest.mark.parametrize(("name", "id_"), UNANSWERED)
def test_a_prompt_without_an_answer_is_told_what_became_of_it(name: str, id_: str) -> None:
    """I1, I10, R18, R22: killed says "may have run"; else it waits for something with a name."""
    why = UNANSWERED[name, id_]
    process = next(one for one in PROCESSES if one.name == name)
    replay = play.__wrapped__(process)
    talk = replay.talk
    if why == "closed":
        talk.feed(ClientClosed())
        assert 1 == len(talk.stops)
    if why in {"closed", "killed"}:
        talk.feed(AgentExited(1, "killed by SIGKILL"))
    talk.wait(60.0)

    assert ENDS[why] == [outcome(line) for line in replay.responses(id_)]
    if why == "deadlock":
        assert "running" == next(iter(talk.bridge.sessions.values())).phase.value
    else:
        over = ("settled", "cancelled", "refused", "unknown")
        assert len(answered(process)) == sum(one.state in over for one in talk.persists)


@each_process
def test_only_a_prompt_under_a_receipt_waits_and_says_so(process: Tape) -> None:
    """I10: it waits for something that has a name; no other prompt of a tape waits for long."""
    waits = {name for (name, _), told in RECEIPTS.items() if told == "waits"} | WAITED
    said = [frame["params"]["update"]["content"]["text"] for frame in own_updates(play(process))]

    assert (1 if process.name in waits else 0) == len(said)
    assert all("keeps this message" in text for text in said)


def own_updates(replay: Replay) -> list[Json]:
    frames = [json.loads(raw) for raw in replay.client_lines if is_own(raw)]
    return [frame for frame in frames if frame.get("method") == "session/update"]


# -- the frame around it -------------------------------------------------------------------------
def test_a_user_cannot_ask_for_what_only_these_tests_do() -> None:
    """Writing at once is what loses messages; no configuration may bring it back (R2)."""
    with pytest.raises(UsageFault, match="midturn"):
        load_settings(options={"midturn": "forward"}, environ={})


@pytest.mark.parametrize("name", ["claude", "codex", "hermes"])
def test_the_agents_own_words_choose_its_profile(name: str) -> None:
    """`agentInfo.name` of every initialize result on tape."""
    for process in PROCESSES:
        if not process.agent.startswith(name):
            continue
        results = (line for line in process.lines if line.is_response and line.side == "agent")
        result = next(results).frame["result"]
        info = result["info" if process.scenario == "initialize-v2" else "agentInfo"]

        assert name == agent_called(info["name"]).name

"""What the profiles say of real agents, and how they are found (R1, R10, R12)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from acpbridge.profiles import (
    AGENTS,
    CLIENTS,
    AgentProfile,
    agent_called,
    agent_named,
    client_called,
    client_named,
    is_fifo,
    reaches,
    version_tuple,
)

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
HERMES = agent_named("hermes")

Line = tuple[str, dict[str, object]]
"""Who wrote it, and the frame."""


def tapes(agent: str) -> Iterator[list[Line]]:
    """The frames of each tape of an agent, with who wrote them."""
    for path in sorted(FIXTURES.glob(f"{agent}-*/*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
        yield [(row["from"], row["frame"]) for row in rows]


def texts(frames: list[Line]) -> list[str]:
    """The agent's message chunks."""
    found = []
    for side, frame in frames:
        params = frame.get("params")
        update = params.get("update", {}) if isinstance(params, dict) else {}
        if side == "agent" and update.get("sessionUpdate") == "agent_message_chunk":
            found.append(update["content"].get("text", ""))
    return found


# -- finding them -------------------------------------------------------------------------------
@pytest.mark.parametrize("agent", ["hermes", "claude", "codex"])
def test_an_agent_is_known_by_the_name_that_its_tapes_show(agent: str) -> None:
    """`agentInfo.name`, as every recorded initialize result has it."""
    names = {
        result["agentInfo"]["name"]
        for frames in tapes(agent)
        for _, frame in frames
        if isinstance(result := frame.get("result"), dict) and "agentInfo" in result
    }

    assert 1 == len(names)
    assert agent_named(agent) is agent_called(names.pop())


def test_who_is_not_known_is_generic() -> None:
    """An unknown name is no fault; an unknown profile is a mistake of whoever chose it."""
    assert agent_named("generic") is agent_called("some-agent") is agent_called("")
    assert client_named("generic") is client_called("zed")
    assert client_named("codeg") is client_called("codeg")
    with pytest.raises(KeyError):
        agent_named("some-agent")
    with pytest.raises(KeyError):
        client_named("some-client")


def test_the_tables_are_keyed_by_name() -> None:
    assert {name: name for name in AGENTS} == {name: one.name for name, one in AGENTS.items()}
    assert {name: name for name in CLIENTS} == {name: one.name for name, one in CLIENTS.items()}


def test_no_two_profiles_claim_one_name() -> None:
    """Else the order of the table would decide."""
    claimed = [name for one in AGENTS.values() for name in one.agent_names]
    claimed += [name for one in CLIENTS.values() for name in one.client_names]

    assert sorted(set(claimed)) == sorted(claimed)


# -- versions -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("2.3.0", (2, 3)),
        ("2.3", (2, 3)),
        ("v2.10.1", (2, 10, 1)),
        ("2.10.1-beta.7", (2, 10, 1)),
        ("2.2rc9", (2, 2)),
        ("2.3.x", (2, 3)),
        ("0.0", ()),
        ("²", ()),
        ("", ()),
        ("nightly", ()),
    ],
)
def test_a_version_is_its_leading_numbers(version: str, numbers: tuple[int, ...]) -> None:
    """Whatever an agent calls a version, comparing it must not raise, nor read 2.2rc9 as 2.29."""
    assert numbers == version_tuple(version)


@pytest.mark.parametrize(
    ("agent", "version", "fifo"),
    [
        ("codex", "2.2.9", False),
        ("codex", "2.3.0", True),
        ("codex", "2.3", True),
        ("codex", "2.2rc9", False),
        ("codex", "10.0.0", True),
        ("codex", "", False),
        ("claude", "", True),
        ("claude", "0.101.0", True),
        ("hermes", "0.19.0", False),
        ("generic", "99", False),
    ],
)
def test_which_builds_serialise_honestly(agent: str, version: str, fifo: bool) -> None:
    """R1: claude, and codex from 2.3."""
    assert fifo is is_fifo(agent_named(agent), version)


# -- receipts -----------------------------------------------------------------------------------
def test_hermes_receipts_are_those_of_the_tapes_and_nothing_else_is_one() -> None:
    """R10: over every chunk that real Hermes was recorded with."""
    said = [text for frames in tapes("hermes") for text in texts(frames)]
    taken = {text for text in said if HERMES.receipt_kind(text)}
    looks_like_one = {text for text in said if "queued for" in text.lower()}

    assert len(said) > 300
    assert {f"Queued for the next turn. ({n} queued)" for n in (1, 2, 3)} <= taken
    assert looks_like_one == taken


def test_each_hermes_receipt_of_a_tape_stands_just_before_a_bare_answer() -> None:
    """R10: what makes the sentence a receipt is the answer behind it."""
    followed = 0
    for frames in tapes("hermes"):
        said = [(side, frame) for side, frame in frames if side == "agent"]
        for at, (_, frame) in enumerate(said):
            if HERMES.receipt_kind((texts([("agent", frame)]) or [""])[0]):
                behind = [one.get("result") for _, one in said[at + 1 : at + 4]]
                followed += {"stopReason": "end_turn"} in behind

    assert 20 <= followed


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Queued for the next turn. (12 queued)", "queued"),
        ("No active turn — queued for the next turn. (1 queued)", "queued"),
        ("Redirected the active turn with your correction.", "redirected"),
        ("⏩ Steer queued for the active turn: be brief\nand more", "redirected"),
        ("Queued for the next turn. (1 queued)\n", ""),
        ("Queued for the next turn. ( queued)", ""),
        ("", ""),
    ],
)
def test_hermes_sentences_have_their_kinds(text: str, kind: str) -> None:
    """R10; hermes 0.20 and newer were read, not recorded."""
    assert kind == HERMES.receipt_kind(text)


def test_no_other_agent_of_the_tapes_says_such_a_thing() -> None:
    """R10: claude and codex give no receipts, and need no look."""
    for agent in ("claude", "codex"):
        assert () == agent_named(agent).receipt_heads
        assert [] == [
            text for frames in tapes(agent) for text in texts(frames) if HERMES.receipt_kind(text)
        ]


def test_configuration_adds_sentences() -> None:
    """A new sentence of an agent needs no new code; the old ones stay, and so does the profile."""
    added = evolve(
        HERMES,
        receipts_queued=(*HERMES.receipts_queued, r"Noted as number \d+\."),
        receipts_redirected=(*HERMES.receipts_redirected, "Got it"),
    )

    assert "queued" == added.receipt_kind("Noted as number 7.")
    assert "redirected" == added.receipt_kind("Got it")
    assert "queued" == added.receipt_kind("Queued for the next turn. (1 queued)")
    assert {"Noted as number ", "Got it"} == {*added.receipt_heads} - {*HERMES.receipt_heads}
    assert "" == HERMES.receipt_kind("Got it")


@pytest.mark.parametrize(
    ("pattern", "head"),
    [
        (r"Queued\. \(\d+ queued\)", "Queued. ("),
        (r"⏩ Steer — queued: (?s:.*)", "⏩ Steer — queued: "),
        ("Queued?", "Queue"),
        ("Queued*", "Queue"),
        ("Queued{0,1}", "Queue"),
        ("Queued+", "Queued"),
        (r"Q\.?", "Q"),
        (r"Q\d?", "Q"),
        (r"\(x\)", "(x)"),
        (r"\?\*", "?*"),
        (r"\\d", "\\d"),
        (r"\d+ queued", ""),
        ("a|b", ""),
        (r"a\|b", ""),
        ("ab|cd", ""),
        ("(Queued)", ""),
        ("(?i)queued", ""),
        ("[Q]ueued", ""),
        (".*", ""),
        ("^Queued", ""),
        ("Queued$", "Queued"),
        ("plain", "plain"),
    ],
)
def test_a_pattern_s_head_is_what_every_match_begins_with(pattern: str, head: str) -> None:
    """R10: too long a head would hide a receipt from the look; too short costs a look."""
    profile = AgentProfile("x", receipts_queued=(pattern,))

    assert (head,) == profile.receipt_heads


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"Queued\. \(\d+ queued\)", "Queued. (1 queued)"),
        ("Queued?", "Queue"),
        ("Queued*x", "Queuex"),
        ("Queued{0}!", "Queue!"),
        ("a|b", "b"),
        (r"a\|b", "a|b"),
        (r"\\d", "\\d"),
        ("(?i)queued", "QUEUED"),
        (r"⏩ (?s:.*)", "⏩ \n"),
        ("x y", "x y"),
    ],
)
def test_a_head_never_hides_a_text_that_its_pattern_takes(pattern: str, text: str) -> None:
    profile = AgentProfile("x", receipts_redirected=(pattern,))

    assert "redirected" == profile.receipt_kind(text)
    assert text.startswith(profile.receipt_heads)


def test_the_first_kind_that_fits_is_taken() -> None:
    """A sentence that both lists take is the careful one: it waits for its echo."""
    both = AgentProfile("x", receipts_queued=("a.*",), receipts_redirected=("ab", "b"))

    assert ["queued", "redirected", ""] == [both.receipt_kind(text) for text in ("ab", "b", "c")]
    assert ("a", "ab", "b") == both.receipt_heads


# -- what the tapes show of completions ----------------------------------------------------------
@pytest.mark.parametrize("agent", ["hermes", "claude", "codex"])
def test_these_agents_completions_carry_usage(agent: str) -> None:
    """R12: a bare `end_turn` is remarkable where most have usage."""
    results = [
        result
        for frames in tapes(agent)
        for side, frame in frames
        if side == "agent"
        and isinstance(result := frame.get("result"), dict)
        and result.get("stopReason") == "end_turn"
    ]
    with_usage = [result for result in results if result.get("usage")]

    assert agent_named(agent).completions_carry_usage
    assert len(with_usage) > len(results) / 2


# -- versions of steering builds ---------------------------------------------------------
@pytest.mark.parametrize(
    ("version", "since", "is_there"),
    [
        ("", "", True),
        ("0.1", "", True),
        ("0.65.0", "0.65.0", True),
        ("v0.65", "0.65.0", True),
        ("0.101.0", "0.65.0", True),
        ("0.64.2", "0.65.0", False),
        ("0.65.0-beta.1", "0.65.0", False),
        ("0.66.0-beta.1", "0.65.0", True),
        ("", "0.65.0", False),
        ("unknown", "0.65.0", False),
    ],
)
def test_a_build_reaches_a_version(version: str, since: str, is_there: bool) -> None:
    """R1: what cannot be read is not taken for safe; a pre-release is older than its release."""
    assert is_there is reaches(version, since)

"""Tables: what counts as the same, what is said of what is not."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from acpbridge.store.tape_match import closest, differences, first_text, is_same, label
from acpbridge.store.tape_reader import Regrown
from tests.store.taped import Json, Row, answer, cancel, prompt, recording, request

if TYPE_CHECKING:
    from pathlib import Path

SURROUNDINGS = (
    "_meta",
    "additionalDirectories",
    "cwd",
    "mcpServers",
    "messageId",
    "protocolVersion",
)
A: Json = {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}]}


def grown(head: str, length: int) -> Regrown:
    text = Regrown((head * length)[:length])
    text.head, text.cut = head, f"{head}...<elided {length - len(head)} chars>"
    return text


def said(method: str, live: Json, recorded: Json) -> list[str]:
    return [str(one) for one in differences(method, live, recorded)]


@pytest.mark.parametrize("method", ["initialize", "session/new"])
def test_who_asks_and_where_is_no_content(method: str) -> None:
    live = {"clientInfo": {"name": "Zed"}, "protocolVersion": 2, "cwd": "/home", "x": 1}

    assert [] == said(method, live, {"cwd": "/workspace", "mcpServers": []})


@pytest.mark.parametrize(
    ("method", "name"),
    [*product(["session/prompt", "session/load", "anything"], SURROUNDINGS)],
)
def test_surroundings_are_no_content_but_tell_equals_apart(method: str, name: str) -> None:
    assert [] == said(method, {**A, name: 1}, {**A, name: 2})
    assert [] == said(method, {**A, name: 1}, A)
    assert not is_same({**A, name: 1}, {**A, name: 2})
    assert is_same({**A, name: 1}, {**A, name: 1})


def test_meta_inside_is_no_content_and_cwd_inside_is() -> None:
    assert [] == said("x", {"a": [{"_meta": 1}]}, {"a": [{"_meta": {"b": 2}}]})
    assert ["a.cwd is 1 here and 2 there"] == said("x", {"a": {"cwd": 1}}, {"a": {"cwd": 2}})


@pytest.mark.parametrize(
    ("live", "recorded", "difference"),
    [
        ({"a": "x"}, {"a": "x"}, None),
        ({"a": "x"}, {"a": "y"}, 'a is "x" here and "y" there'),
        ({"a": 1}, {"a": 1.0}, None),
        ({"a": 1}, {"a": True}, "a is 1 here and true there"),
        ({"a": 1}, {"a": "1"}, 'a is 1 here and "1" there'),
        ({"a": None}, {}, None),
        ({}, {"a": None}, None),
        ({}, {"a": 0}, "a is absent here and 0 there"),
        ({"a": {"b": []}}, {}, 'a is {"b":[]} here and absent there'),
        ({"a": []}, {"a": {}}, "a is [] here and {} there"),
        ({"a": [1]}, {"a": [1, 2]}, "a[1] is absent here and 2 there"),
        ({"a": [1, 2]}, {"a": [1]}, "a[1] is 2 here and absent there"),
        ({"a": {"b": [{"c": "x"}]}}, {"a": {"b": [{"c": "y"}]}}, 'a.b[0].c is "x" here'),
        ({"a": "one\ntwo"}, {"a": "one"}, 'a is "one two" here and "one" there'),
        ({"a": "xyzX"}, {"a": grown("xy", 4)}, None),
        ({"a": "xyzXY"}, {"a": grown("xy", 4)}, 'a is "xyzXY" here and "xyxy" there'),
    ],
)
def test_what_differs(live: Json, recorded: Json, difference: str | None) -> None:
    found = said("any", live, recorded)

    assert found == [] if difference is None else found[0].startswith(difference)
    assert len(found) == (difference is not None)


def test_a_long_text_is_shown_where_it_differs() -> None:
    """The first 48 characters of two long prompts are usually the same."""
    live, recorded = "x" * 500 + "HERE" + "y" * 500, "x" * 500 + "THERE" + "y" * 500
    (text,) = said("any", {"a": live}, {"a": recorded})

    assert "HEREyyy" in text
    assert "THEREyyy" in text
    assert '"…xxx' in text
    assert len(text) < 150


def test_a_text_that_only_goes_on_is_shown_at_its_end() -> None:
    (text,) = said("any", {"a": "x" * 200}, {"a": "x" * 200 + "more"})

    assert 'xxx" here and "…xxx' in text
    assert 'more" there' in text


def test_a_long_value_is_cut() -> None:
    (text,) = said("any", {"a": list(range(100))}, {"a": 1})

    assert "…" in text
    assert len(text) < 100


# --- the closest ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("count to nine", 2),
        ("count to ten", 2),
        ("sing a song", 3),
        ("sing", 3),
    ],
)
def test_the_closest_prompt_is_the_most_alike(text: str, line: int, tmp_path: Path) -> None:
    rows: list[Row] = [
        (0.0, "client", prompt(1, "count to nine")),
        (0.1, "client", prompt(2, "sing a song")),
        (0.2, "client", cancel()),
    ]
    entries = recording(tmp_path, rows).entries
    live = prompt(9, text)["params"]
    found = closest("session/prompt", live, entries)

    assert found is not None
    assert line == found[0].number
    assert bool(found[1]) == (text not in {"count to nine", "sing a song"})


def test_another_session_is_further_away_than_other_words(tmp_path: Path) -> None:
    rows: list[Row] = [
        (0.0, "client", prompt(1, "a", session="other")),
        (0.1, "client", prompt(2, "ab")),
    ]
    found = closest("session/prompt", A, recording(tmp_path, rows).entries)

    assert found is not None
    assert found[0].number == 3


def test_of_equally_far_ones_the_first(tmp_path: Path) -> None:
    rows: list[Row] = [(0.0, "client", request(at, "x", a=at)) for at in range(3)]
    found = closest("x", {"a": 9}, recording(tmp_path, rows).entries)

    assert found is not None
    assert found[0].number == 2


def test_there_is_none_without_the_method(tmp_path: Path) -> None:
    rows: list[Row] = [(0.0, "client", cancel())]

    assert closest("session/prompt", A, recording(tmp_path, rows).entries) is None


# --- in words ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("what", "words"),
    [
        (prompt(1, "hello"), 'line 2 (session/prompt "hello")'),
        (prompt(1, "a" * 99), f'line 2 (session/prompt "{"a" * 39}…")'),
        (cancel(), "line 2 (session/cancel)"),
        (answer(0), "line 2 (the answer to the agent's request 0)"),
        ("garbage", "line 2 (no JSON)"),
    ],
)
def test_a_recorded_line_in_words(what: Any, words: str, tmp_path: Path) -> None:
    (entry,) = recording(tmp_path, [(0.0, "client", what)]).entries

    assert words == label(entry)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (A, "a"),
        ({"prompt": [{"type": "image"}, {"type": "text", "text": "b"}]}, "b"),
        ({"prompt": "x"}, ""),
        ({"prompt": [1, {"text": 2}]}, ""),
        ({}, ""),
    ],
)
def test_the_first_text_of_a_prompt(params: Json, text: str) -> None:
    assert text == first_text(params)

"""What of a prompt is kept, and that nothing beside it reaches the disk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpbridge.store.journal import content_of, text_of
from acpbridge.store.journal_content import FIRST_WORDS_CHARS_MAX, first_words
from tests.store.journal.made import entry, go

if TYPE_CHECKING:
    from pathlib import Path

    from acpbridge.store.journal import Journal

PLANTED = "planted-secret-4711"


def line(prompt: str, meta: str = "{}") -> bytes:
    return (
        '{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":'
        f'{{"_meta":{meta},"sessionId":"s-1","prompt":{prompt},"mcpServers":[{meta}]}}}}'
    ).encode()


@pytest.mark.parametrize(
    "prompt",
    [
        '[{"type":"text","text":"a"}]',
        ' [ {"type" : "text", "text":"\\u00fc \\ud800", "n": 1.0e400} ] ',
        '[{"type":"text","text":"my _meta is mine"}]',
        "[]",
        '"no list"',
    ],
)
def test_the_bytes_are_those_of_the_client(prompt: str) -> None:
    assert prompt.strip().encode() == content_of(line(prompt))


def test_without_a_prompt_there_is_nothing() -> None:
    assert b"" == content_of(b'{"method":"session/prompt","params":{}}')


@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        ('[{"_meta":{"k":"S"},"type":"text","text":"a"}]', '[{"type":"text","text":"a"}]'),
        ('[{"type":"text","text":"a","\\u005fmeta":"S"}]', '[{"type":"text","text":"a"}]'),
        (
            '[{"type":"resource","resource":{"uri":"u","_meta":"S"},"_meta":{"S":1}},"x"]',
            '[{"type":"resource","resource":{"uri":"u"}},"x"]',
        ),
    ],
)
def test_a_meta_inside_a_block_is_cut_out(prompt: str, kept: str) -> None:
    assert kept.encode() == content_of(line(prompt.replace("S", PLANTED)))


@settings(max_examples=100)
@given(
    st.recursive(
        st.text() | st.integers(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["_meta", "a", "b"]), inner)
        ),
    )
)
def test_no_meta_is_left_at_any_depth(value: object) -> None:
    kept = content_of(line(json.dumps(value)))

    assert _without_meta(value) == json.loads(kept)


def _without_meta(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_meta(of) for key, of in value.items() if key != "_meta"}
    return [_without_meta(of) for of in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'[{"type":"text","text":"a"},{"type":"text","text":"b\\n"}]', "a\nb\n"),
        (b'[{"type":"image","mimeType":"image/png","data":"AA=="}]', "[image image/png]"),
        (b'[{"type":"resource_link","uri":"file:///a","name":"a"}]', "[resource_link file:///a]"),
        (b'[{"type":"resource","resource":{"uri":"x:y","text":"t"}}]', "[resource x:y]"),
        (b'[{"type":"text"},{},7]', "[text]\n[block]\n"),
        (b"", ""),
        (b"{}", ""),
    ],
)
def test_how_a_prompt_reads(content: bytes, text: str) -> None:
    assert text == text_of(content)


def test_first_words_are_one_line_and_bounded() -> None:
    def words(text: str) -> str:
        return first_words(json.dumps([{"type": "text", "text": text}]).encode())

    assert "a b" == words("  a\n\tb ")
    assert "x" * FIRST_WORDS_CHARS_MAX == words("x" * FIRST_WORDS_CHARS_MAX)
    assert "x" * (FIRST_WORDS_CHARS_MAX - 1) + "…" == words("x" * (FIRST_WORDS_CHARS_MAX + 1))


def test_a_planted_secret_is_not_on_the_disk(journal: Journal, tmp_path: Path) -> None:
    raw = line('[{"type":"text","text":"visible-words"}]', json.dumps({"token": PLANTED}))
    journal.record([entry(1, "accepted", content=content_of(raw))])
    go(journal, 1, "sending", reason=f"--api-key {PLANTED}")
    disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    # It does look where the bytes are: into the -wal as well.
    assert b"visible-words" in disk
    assert PLANTED.encode() not in disk

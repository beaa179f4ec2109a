from __future__ import annotations

import json
from typing import Any

import pytest

from acpbridge.cli.demo_view import Style
from acpbridge.cli.tail_view import CELL_CHARS_MAX, TITLES_MAX, View
from acpbridge.wire.frame import Frame, peek


def view(*, colour: bool = False, unicode: bool = True) -> View:
    return View(Style(80, has_colour=colour, has_unicode=unicode))


def framed(method: str, params: Any, **more: Any) -> Frame:
    line = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
    found = peek(line, strict=False)
    assert isinstance(found, Frame)
    return found


def update(variant: str, **of: Any) -> Frame:
    return framed("session/update", {"sessionId": "s", "update": {"sessionUpdate": variant, **of}})


def chunk(text: str, who: str = "agent_message") -> Frame:
    return update(f"{who}_chunk", content={"type": "text", "text": text})


def shown(*frames: Frame, **style: bool) -> str:
    seen = view(**style)
    return "".join(seen.show(frame) for frame in frames)


def test_what_ends_within_a_text_ends_its_line() -> None:
    """The terminal's next prompt is not to stand behind it."""
    seen = view()
    assert "1 2" == seen.show(chunk("1 ")) + seen.show(chunk("2"))
    assert "\n" == seen.close()
    assert "" == seen.close()


def test_a_conversation_reads_from_top_to_bottom() -> None:
    found = shown(
        chunk("Count to 3.\nSlowly.", "user_message"),
        chunk("They want ", "agent_thought"),
        chunk("numbers.", "agent_thought"),
        chunk("1 "),
        chunk("2 3\n"),
        update("tool_call", toolCallId="t", title="ls", status="pending"),
        update("tool_call_update", toolCallId="t", status="in_progress"),
        update("tool_call_update", toolCallId="t", status="failed"),
        chunk("Done."),
        framed("_acpbridge/turn_ended", {"sessionId": "s", "result": {"stopReason": "end_turn"}}),
        update("usage_update", used=1),
    )

    assert (
        "> Count to 3.\n"
        "> Slowly.\n"
        "They want numbers.\n"
        "1 2 3\n"
        "[tool] ls\n"
        "[tool] ls: failed\n"
        "Done.\n"
        "── end_turn ────────────────────────────\n"
    ) == found


def test_colour_ends_before_each_line_does() -> None:
    """So that an interrupted tail leaves no terminal dim."""
    found = shown(chunk("a\nb", "agent_thought"), chunk("c"), colour=True)

    assert "\x1b[2ma\x1b[0m\n\x1b[2mb\x1b[0m\nc" == found


EVIL = "\x1b]0;title\x07\x1b[2J\rX\u009b31m\u202egnp.exe"


@pytest.mark.parametrize(
    "frame",
    [
        chunk(EVIL),
        chunk(EVIL, "agent_thought"),
        chunk(EVIL, "user_message"),
        update("tool_call", toolCallId=EVIL, title=EVIL),
        update("tool_call", toolCallId="t", title=EVIL, status="completed"),
        update("plan", entries=[{"content": EVIL, "status": "in_progress"}]),
        update("agent_message_chunk", content={"type": EVIL}),
        framed("session/request_permission", {"toolCall": {"title": EVIL}, "options": []}, id=1),
        framed("elicitation/create", {"message": EVIL}, id=1),
        framed("_acpbridge/turn_ended", {"error": {"message": EVIL}}),
        framed("_acpbridge/turn_ended", {"result": {"stopReason": EVIL}}),
    ],
)
def test_nothing_that_was_said_reaches_the_terminal_raw(frame: Frame) -> None:
    found = shown(frame) + view().say(EVIL)

    assert "title" in found
    assert not any(ord(char) < 32 and char != "\n" for char in found)
    assert "\x9b" not in found
    assert "\u202e" not in found, "it turns the direction of what follows"


def test_a_question_and_its_end() -> None:
    call = {"toolCallId": "t"}
    options = [{"name": "Allow"}, {"name": "Reject"}, "odd"]
    found = shown(
        update("tool_call", toolCallId="t", title="rm -r /"),
        framed("session/request_permission", {"toolCall": call, "options": options}, id="a-1"),
        framed("$/cancel_request", {"requestId": "a-1"}),
        framed("$/cancel_request", {"requestId": "a-1"}),
        framed("elicitation/create", {"message": "Which one?"}, id=7),
        framed("fs/read_text_file", {"path": "x"}, id=8),
    )

    assert (
        "[tool] rm -r /\n"
        "[permission] rm -r /: Allow | Reject\n"
        "[permission] rm -r /: resolved\n"
        "[question] Which one?\n"
    ) == found


def test_a_plan_is_one_line() -> None:
    entries = [
        {"content": "look", "status": "completed"},
        {"content": "leap", "status": "in_progress"},
        {"content": "land", "status": "pending"},
        "odd",
    ]

    assert "[plan] 1 of 3 done. leap\n" == shown(update("plan", entries=entries))
    assert "[plan] 0 of 0 done.\n" == shown(update("plan", entries=None))


def test_what_is_no_text_is_named() -> None:
    found = shown(
        update("agent_message_chunk", content={"type": "image", "data": "…"}),
        update("agent_message_chunk", content=None),
        chunk(""),
    )

    assert "[image]" == found


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "the turn has ended"),
        ({"result": {}}, "the turn has ended"),
        ({"error": {"message": "no model"}}, "error: no model"),
    ],
)
def test_how_a_turn_has_ended(params: dict[str, Any], words: str) -> None:
    found = shown(framed("_acpbridge/turn_ended", params), unicode=False)

    assert found.startswith(f"-- {words} --")
    assert found.isascii()


ODD: list[Any] = [None, 1, [], {}, "x"]


@pytest.mark.parametrize("value", ODD)
def test_odd_shapes_are_no_fault(value: Any) -> None:
    for variant in ("tool_call", "tool_call_update", "plan", "user_message_chunk", "new_thing"):
        of = {"content": value, "title": value, "toolCallId": value, "status": value}
        shown(update(variant, **of, entries=value))
    asked = framed("session/request_permission", {"toolCall": value, "options": value}, id=1)

    assert "[permission] : \n" == shown(asked)
    assert "" == shown(framed("other", value))


def test_memory_and_lines_are_bounded() -> None:
    seen = view()
    for number in range(TITLES_MAX + 10):
        seen.show(update("tool_call", toolCallId=f"t{number}", title="x" * 1000))
        seen.show(framed("elicitation/create", {"message": "y"}, id=number))

    assert len(seen._titles) == len(seen._questions) == TITLES_MAX
    line = shown(update("tool_call", toolCallId="t", title="x" * 1000))
    assert len(line) == len("[tool] \n") + CELL_CHARS_MAX


def test_a_response_is_not_shown() -> None:
    found = peek(b'{"jsonrpc":"2.0","id":1,"result":{}}', strict=False)
    assert isinstance(found, Frame)

    assert "" == shown(found)

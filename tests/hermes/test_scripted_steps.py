"""The steps and switches of the scripted agent that process tests of the shell lean on."""

from __future__ import annotations

import pytest

from tests.hermes.conftest import Open
from tests.hermes.peer import AgentGone
from tests.hermes.record import Body
from tests.hermes.script import Step, script

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (["say", "x"], ["says x", "answers p: end_turn"]),
        (["think", "x"], ["thinks x", "answers p: end_turn"]),
        (["user", "x"], ["user x", "answers p: end_turn"]),
        (["stream", 2, 0.001, "w"], ["says w0 w1 ", "answers p: end_turn"]),
        (["big", 3], ["says xxx", "answers p: end_turn"]),
        (["sleep", 0.001], ["answers p: end_turn"]),
        (["tool", "t", {"sleep": 0.001}], ["calls t", "answers p: end_turn"]),
        (["plan", "x"], ["answers p: end_turn"]),
        (["stop", "max_tokens"], ["answers p: max_tokens"]),
        (["fail", -32000, "no", "why"], ["answers p: error -32000"]),
        (["environ", "LANG"], ["says C.UTF-8", "answers p: end_turn"]),
        (["environ", "NO_SUCH_NAME"], ["says (unset)", "answers p: end_turn"]),
        (["wrong"], ["says (unknown step ['wrong'])", "answers p: end_turn"]),
    ],
)
async def test_step(open_scripted: Open, step: Step, told: list[str]) -> None:
    peer = await open_scripted("bare")
    session = await peer.new_session()
    await peer.answer(await peer.prompt(session, script("p", step)))

    assert peer.story(session) == told


async def test_a_program_without_steps_and_a_text_without_program(open_scripted: Open) -> None:
    peer = await open_scripted("bare")
    session = await peer.new_session()
    await peer.answer(await peer.prompt(session, script("p")))
    await peer.answer(await peer.prompt(session, "hello"))

    assert peer.story(session) == [
        "answers p: end_turn",
        "says echo: hello",
        "answers hello: end_turn",
    ]


async def test_arguments_that_a_client_appends_reach_the_agent(open_scripted: Open) -> None:
    peer = await open_scripted("bare")
    session = await peer.new_session()
    await peer.answer(await peer.prompt(session, script("p", ["argv"])))

    assert '["bare", "--state",' in peer.story(session)[0]


async def test_any_request_to_the_client_and_its_answer(open_scripted: Open) -> None:
    peer = await open_scripted("bare")
    session = await peer.new_session()
    params = {"sessionId": session, "path": "/a"}
    sent = await peer.prompt(session, script("p", ["ask", "fs/read_text_file", params]))
    asked = await peer.wait_for(lambda seen: seen.body.get("method") == "fs/read_text_file")
    await peer.reply(asked.body, {"content": "words"})
    await peer.answer(sent)

    assert asked.body["id"] == 0, "the agent's ids overlap the client's"
    assert '{"content": "words"}' in peer.story(session)[1]


async def test_noise_is_no_frame(open_scripted: Open) -> None:
    peer = await open_scripted("bare")
    session = await peer.new_session()
    await peer.answer(await peer.prompt(session, script("p", ["noise", "┊ $ ls"])))

    assert peer.noise == ["┊ $ ls".encode()]
    assert peer.story(session) == ["answers p: end_turn"]


async def test_notices_and_frames_on_demand(open_scripted: Open) -> None:
    peer = await open_scripted("redirect")
    session = await peer.new_session()
    notice: Body = {"sessionId": session, "toolCallId": "t", "command": "ls", "status": "exited"}
    frame: Body = {"jsonrpc": "2.0", "method": "_any/thing", "params": {"x": 1}}
    await peer.notify("_test/process", notice)
    await peer.notify("_test/emit", {"frame": frame})
    first = await peer.wait_for(lambda seen: seen.body.get("method") == "_hermes/process")
    second = await peer.wait_for(lambda seen: seen.body.get("method") == "_any/thing")

    assert first.body["params"] == notice
    assert second.body == frame


async def test_death_and_silence_on_demand(open_scripted: Open) -> None:
    peer = await open_scripted("redirect")
    await peer.notify("_test/mute", {})
    with pytest.raises(TimeoutError):
        await peer.request("session/list", {}, within_s=0.05)
    await peer.restart()
    await peer.initialize()
    await peer.notify("_test/die", {"code": 9})

    with pytest.raises(AgentGone):
        await peer.request("session/list", {})
    assert await peer.wait_exit() == 9


@pytest.mark.parametrize(("mode", "lingers"), [("bare", False), ("bare,linger", True)])
async def test_end_of_stdin_while_a_turn_runs(
    open_scripted: Open, mode: str, lingers: bool
) -> None:
    peer = await open_scripted(mode)
    session = await peer.new_session()
    rest_s = 0.2 if lingers else 60.0
    await peer.prompt(session, script("p", ["say", "x"], ["sleep", rest_s], ["say", "y"]))
    await peer.wait_text("x")
    await peer.close_stdin()

    assert await peer.wait_exit() == 0
    assert ("answers p: end_turn" in peer.story(session)) is lingers


async def test_unknown_methods(open_scripted: Open) -> None:
    """Hermes answers any underscore method with null, which reads as success."""
    hermes, bare = await open_scripted("redirect"), await open_scripted("bare")

    assert (await hermes.request("_session/steering", {}))["result"] is None
    assert (await bare.request("_session/steering", {}))["error"]["code"] == -32601
    assert (await hermes.request("ping", {}))["error"]["code"] == -32601

"""The real steering agents behind the bridge that only queues.

What `--midturn queue` promises for every agent, on the two that could be steered as well.
"""

from __future__ import annotations

import pytest

from tests.hermes.record import Sent
from tests.hermes.script import script
from tests.steer.conftest import COPY, Open
from tests.steer.model import SteerModel
from tests.steer.talk import HELD, SteerPeer

pytestmark = [pytest.mark.steer, pytest.mark.process]


def check(peer: SteerPeer, *prompts: Sent) -> None:
    """What holds in every scenario: one answer each, and nothing steered."""
    for sent in prompts:
        assert len(peer.answers(sent)) == 1, sent
    assert not peer.noise
    written = (peer.home.root / COPY).read_bytes()
    assert b'"outcome":"injected"' not in written


async def test_what_the_agent_writes_arrives_byte_for_byte(
    open_agent: Open, model: SteerModel
) -> None:
    """From the advert of steering to the prompt's answer; R8: the agent's own needs no tag."""
    peer = await open_agent("bridged", "--midturn", "queue")
    session = await peer.new_session()
    text = script("one", ["say", 'Hello "w\u00f6rld" \u2028 '], ["say", "done."])
    sent = await peer.prompt(session, text)
    answer = await peer.answer(sent)
    code = await peer.stop()

    # Only now is the copy whole: tee writes to the pipe first.
    written = (peer.home.root / COPY).read_bytes().split(b"\n")[:-1]
    assert code == 0, "asked to stop, and the agent was let go in time"
    assert len(peer.lines) >= 4
    assert peer.lines == written[: len(peer.lines)]
    assert peer.told(session) == [
        'says Hello "w\u00f6rld" \u2028 done.',
        "answers one: end_turn",
    ]
    assert "acpbridge" not in (answer.body["result"].get("_meta") or {})
    assert [asked.texts for asked in model.asked] == [[text]]
    check(peer, sent)


async def test_prompts_mid_turn_each_get_their_own_turn(
    open_agent: Open, model: SteerModel
) -> None:
    """A bare claude folds these two into one model call and answers one of them too early."""
    peer = await open_agent("bridged", "--midturn", "queue")
    session = await peer.new_session()
    texts = [script("two", ["say", "B"]), script("three", ["say", "C"])]
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    frames, waiting = zip(*(peer.prompt_frame(session, text) for text in texts), strict=True)
    await peer.send_many(*frames)
    await peer.fence()

    assert peer.told(session) == ["says A0 "]
    assert len(model.asked) == 1

    model.release("g")
    await peer.answer(waiting[-1])

    assert peer.told(session) == [
        "says A0 A1",
        "answers one: end_turn",
        "says B",
        "answers two: end_turn",
        "says C",
        "answers three: end_turn",
    ]
    assert [asked.texts for asked in model.asked] == [[HELD], [HELD, texts[0]], [HELD, *texts]]
    assert await model.wholes() == [True, True, True]
    check(peer, first, *waiting)


async def test_cancel_takes_the_queue_with_it(open_agent: Open, model: SteerModel) -> None:
    """A bare codex still runs the prompt that waited; here it was never given away."""
    peer = await open_agent("bridged", "--midturn", "queue")
    session = await peer.new_session()
    texts = [script("two", ["say", "B"]), script("three", ["say", "C"])]
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    second = await peer.prompt(session, texts[0])
    await peer.fence()
    await peer.cancel(session)
    await peer.answer(first)
    third = await peer.prompt(session, texts[1])
    await peer.answer(third)

    assert peer.told(session) == [
        "says A0 ",
        "answers two: cancelled",
        "answers one: cancelled",
        "says C",
        "answers three: end_turn",
    ]
    assert model.times(texts[0]) == 0
    assert model.times(texts[1]) == 1
    check(peer, first, second, third)

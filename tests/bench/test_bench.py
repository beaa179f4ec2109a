"""The benchmark measures what it says: checked by its answers, never by the clock.

A bench that counts wrong would praise a bridge that loses updates, so each of its checks is shown
to bite, and a small run of all of it is done for real.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.__main__ import NAMES, main, measure_all
from tests.bench.alone import ALONE
from tests.bench.client import Client, Lost, Updates
from tests.bench.judge import GOALS, Goal, Verdict, judge, ratios
from tests.bench.measure import Sizes
from tests.bench.report import report
from tests.bench.rounds import Results, order
from tests.bench.targets import BARE, BATCH, BRIDGE, RAW, TARGETS, Target, compile_agent, running
from tests.bench.websocket import Frames, WebSocketWire

NO_CC = "no C compiler (cc) on PATH: the bench's agent is written in C"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason=NO_CC)

TINY = Sizes(
    round_trips=20,
    warm_up_trips=5,
    small=300,
    large=30,
    frames_mib=(1,),
    starts=1,
    stall_mb=12,
    still_s=0.25,
    linear=200,
    sessions=20,
    crowd_sessions=10,
    reconnects=10,
    passes=1,
    verify=True,
)
STYLES = ("plain", "hermes", "escaped", "tool")


class Script:
    """The far end of a connection: says what is written here, in pieces of any size."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.sent: list[bytes] = []
        self._pieces = iter(pieces)

    def send(self, line: bytes) -> None:
        self.sent.append(line)

    def read(self) -> bytes:
        piece = next(self._pieces, None)
        if piece is None:
            raise EOFError("the script has ended")
        return piece

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_agent(tmp_path_factory.mktemp("agent"))


def lines(updates: Updates, session: str = "s", rpc_id: int = 1) -> list[bytes]:
    """What a faithful bridge passes on of these updates, and the answer."""
    head, tail = updates.around(session)
    answer = b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn","usage":{}}}\n' % rpc_id
    return [*(b"%b%010d%b" % (head, n, tail) for n in range(updates.number)), answer]


def dropped(sent: list[bytes]) -> list[bytes]:
    return [*sent[:1], *sent[2:]]


def doubled(sent: list[bytes]) -> list[bytes]:
    return [sent[0], *sent]


def swapped(sent: list[bytes]) -> list[bytes]:
    return [sent[1], sent[0], *sent[2:]]


def shortened(sent: list[bytes]) -> list[bytes]:
    return [sent[0].replace(b"abc", b"ab", 1), *sent[1:]]


def another_answer(sent: list[bytes]) -> list[bytes]:
    return [*sent[:-1], sent[-1].replace(b'"id":1', b'"id":2')]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("piece", [1, 7, 1000, 100_000])
def test_a_faithful_stream_is_believed_however_it_is_cut(piece: int, verify: bool) -> None:
    updates = Updates(5, 100)
    data = b"".join(lines(updates))
    wire = Script([data[at : at + piece] for at in range(0, len(data), piece)])

    turn = Client(wire).turn("s", updates, verify=verify)

    assert turn.answer["stopReason"] == "end_turn"
    assert b"BENCH 5 100 plain" in wire.sent[0]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("spoil", [dropped, doubled, shortened, another_answer])
def test_a_stream_that_is_not_what_was_sent_is_seen(
    spoil: Callable[[list[bytes]], list[bytes]], verify: bool
) -> None:
    updates = Updates(5, 100)

    with pytest.raises(Lost):
        Client(Script(spoil(lines(updates)))).turn("s", updates, verify=verify)


def test_an_order_that_changed_is_seen_where_it_is_asked_for() -> None:
    updates = Updates(5, 100)

    with pytest.raises(Lost):
        Client(Script(swapped(lines(updates)))).turn("s", updates, verify=True)


def test_an_error_is_no_answer() -> None:
    refused = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}\n'

    with pytest.raises(Lost):
        Client(Script([refused])).open_session()
    with pytest.raises(Lost):
        Client(Script([refused])).round_trip("s")


def test_a_prompt_that_arrived_changed_is_seen() -> None:
    wire = Script([b'{"id":1,"result":{"_meta":{"bytes":1,"crc32":1}}}\n'])

    with pytest.raises(Lost):
        Client(wire).check("s", 1000)

    assert json.loads(wire.sent[0])["params"]["prompt"][0]["text"].startswith("CHECK")


@needs_cc
@pytest.mark.process
@pytest.mark.parametrize("style", STYLES)
def test_the_agent_and_the_client_mean_the_same_bytes(agent: Path, style: str) -> None:
    with running(BARE, agent) as run:
        session = run.client.open_session()
        for size in (10, 11, 200, 1000):
            run.client.turn(session, Updates(12, size, style), verify=True)
            run.client.turn(session, Updates(12, size, style), verify=False)
        for line in lines(Updates(2, 200, style)):
            json.loads(line)


@needs_cc
@pytest.mark.process
def test_a_small_run_of_everything(agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All targets that are installed pass every byte on, and acpbridge holds a stalled client."""
    said: list[str] = []

    results = measure_all(NAMES, rounds=1, sizes=TINY, targets=TARGETS, say=said.append)

    assert [] == results.faults
    assert {"round 1 of 1", *(f"acpbridge alone: {name}" for name in ALONE)} == set(said)
    (figures,) = results.rounds
    present = {target.name for target in TARGETS if not target.is_missing}
    assert present == set(figures)
    assert {BARE.name, RAW.name, BATCH.name, BRIDGE.name} <= present
    for name in present:
        assert 2 == figures[name]["frame_1_ways"]
        assert {"trip_p50_us", "small_per_s", "tool_per_s", "large_per_s"} <= set(figures[name])
    assert 0 == figures[BARE.name]["idle_mib"]
    assert 0 < figures[BRIDGE.name]["trip_cpu_us"]
    assert 1 == len(results.starts)
    # All of it was there afterwards, and not all of it had been taken before.
    assert [12.0, 12.0] == [round(mb, 1) for mb in results.alone["stall_read_mb"]]
    assert all(held < 12 for held in results.alone["stall_held_mib"])
    text = report(results, TINY)
    for word in (
        *present,
        "cores",
        "Python",
        "Load average",
        "Only ratios of one run count",
        "Goals",
    ):
        assert word in text


@needs_cc
@pytest.mark.process
def test_a_target_that_breaks_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    broken = Target("broken", ("false",))
    absent = Target("absent", ("{agent}",), needs="no-such-program")
    results = measure_all(
        ["trip"],
        rounds=1,
        sizes=TINY,
        targets=(broken, absent, BARE),
        say=lambda _: None,
    )

    assert ["absent"] == results.missing
    assert "trip_p50_us" in results.rounds[0][BARE.name]
    (fault,) = results.faults
    assert fault.startswith("broken, round 1, start: ")
    text = report(results, TINY)
    assert "absent: not installed" in text
    assert fault in text


@needs_cc
@pytest.mark.process
def test_a_target_that_hangs_is_killed(agent: Path) -> None:
    # What it echoes is a request, which answers nothing.
    silent = Target("silent", ("cat",))

    with pytest.raises((Lost, EOFError)), running(silent, agent, limit_s=0.2) as run:
        run.client.open_session()


def test_the_command_line_refuses_a_part_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["--only", "trip,tripe"])

    assert 2 == refused.value.code
    assert "no part tripe" in capsys.readouterr().err


def test_rounds_turn_and_come_back() -> None:
    """So that no target always runs first, or always behind the same one."""
    rounds = ["".join(order("ABC", number)) for number in range(6)]

    assert ["ABC", "CBA", "BCA", "ACB", "CAB", "BAC"] == rounds


def test_ratios_are_of_one_round() -> None:
    """Two rounds of different speed, the same ratio: medians of rates would tell another."""
    fast = {BARE.name: {"small_per_s": 100.0}, BRIDGE.name: {"small_per_s": 50.0}}
    slow = {BARE.name: {"small_per_s": 10.0}, BRIDGE.name: {"small_per_s": 5.0}}
    half = {BARE.name: {"small_per_s": 10.0}, BRIDGE.name: {}}

    results = Results(rounds=[fast, slow, half])

    assert [0.5, 0.5] == ratios(results, "small_per_s", BRIDGE.name, BARE.name)


@pytest.mark.parametrize("goal", GOALS, ids=[goal.name for goal in GOALS])
def test_a_goal_is_met_at_its_limit_and_missed_past_it(goal: Goal) -> None:
    past = goal.limit * (0.99 if goal.is_floor else 1.01)

    assert Verdict(goal, [goal.limit]).is_met is True
    assert Verdict(goal, [past]).is_met is False
    assert Verdict(goal, []).is_met is None
    assert str(Verdict(goal, [past])).startswith("FAIL")


def test_nothing_measured_is_nothing_passed() -> None:
    assert {None} == {verdict.is_met for verdict in judge(Results())}


def frames(payloads: list[tuple[int, bytes]]) -> bytes:
    """Server frames, unmasked: (first byte, payload)."""
    data = b""
    for first, payload in payloads:
        size = len(payload)
        if size < 126:
            data += bytes([first, size])
        elif size < 1 << 16:
            data += bytes([first, 126]) + size.to_bytes(2)
        else:
            data += bytes([first, 127]) + size.to_bytes(8)
        data += payload
    return data


@pytest.fixture
def plugs() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("piece", [1, 2, 3, 1000, 100_000])
def test_websocket_messages_are_lines(piece: int) -> None:
    """Of every length form, in fragments, with a ping between; cut anywhere."""
    ping = (0x89, b"ping")
    data = frames([(0x81, b"a"), ping, (0x01, b"b" * 300), (0x80, b"c"), (0x81, b"d" * 66_000)])
    reader = Frames()

    got = b"".join(reader.feed(data[at : at + piece]) for at in range(0, len(data), piece))

    assert b"a\n" + b"b" * 300 + b"c\n" + b"d" * 66_000 + b"\n" == got


@pytest.mark.parametrize("size", [5, 125, 126, 65_535, 65_536])
def test_websocket_lines_are_masked_messages(
    plugs: tuple[socket.socket, socket.socket], size: int
) -> None:
    ours, theirs = plugs
    line = bytes(size)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    WebSocketWire(ours).send(line)
    got = theirs.recv(1 << 18)
    while len(got) < size:
        got += theirs.recv(1 << 18)

    assert 0x81 == got[0]
    assert got[1] & 0x80
    assert line == got[-size:]


def test_websocket_close_is_the_end(plugs: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = plugs
    theirs.sendall(frames([(0x88, b"")]))

    with pytest.raises(EOFError):
        WebSocketWire(ours).read()

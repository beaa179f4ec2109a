"""One line from a daemon to whoever started it."""

from __future__ import annotations

import os

import pytest

from acpbridge.errors import AcpBridgeError, AgentFault, UsageFault
from acpbridge.shell.ready import READY, TAKEN, Ready, told
from acpbridge.shell.unix import AlreadyOwnedFault


def heard(*words: str | AcpBridgeError) -> str:
    """All that comes out of the pipe."""
    read_fd, write_fd = os.pipe()
    os.set_inheritable(write_fd, True)
    ready = Ready(write_fd)
    assert not os.get_inheritable(write_fd)
    for word in words:
        if isinstance(word, str):
            ready.say(word)
        else:
            ready.say_fault(word)
    with os.fdopen(read_fd) as pipe:
        return pipe.read()


def test_it_says_one_thing_once() -> None:
    assert "ready\n" == heard(READY, TAKEN, UsageFault("x", "y"))
    assert READY == told("ready\n").word


def test_a_fault_arrives_as_it_was() -> None:
    said = told(heard(AgentFault("agent_not_started", "cannot start: größer;\nsee the log")))

    assert said.fault is not None
    assert "cannot start: größer;; see the log (agent_not_started)" == str(said.fault)
    assert said.fault.exit_code == 3


def test_whoever_finds_the_path_owned_is_a_client() -> None:
    assert TAKEN == told(heard(AlreadyOwnedFault("socket_in_use", "by another"))).word


@pytest.mark.parametrize("line", ["", "\n", "rea", "Traceback (most recent call last):\n"])
def test_what_is_no_word_of_ours_says_nothing(line: str) -> None:
    said = told(line)

    assert ("", None) == (said.word, said.fault)


def test_where_nobody_waits_nothing_is_said() -> None:
    Ready(None).say(READY)


def test_whoever_has_lost_patience_is_no_fault() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    Ready(write_fd).say(READY)

"""What the processes of the tests do; run as `python -m tests.store.journal.programs NAME …`.

They answer on stdout, a line of JSON each.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from acpbridge.errors import StateDirFault
from acpbridge.store.journal import Archive, Journal, JournalFault
from tests.store.journal.made import PATHS, entry, go

if TYPE_CHECKING:
    from collections.abc import Callable

WAY = PATHS["answered"]
NOBODY = 65534


def write(folder: str, writers: str, prompts: str) -> None:
    """Processes that record whole lives of prompts, all from the same moment on."""

    def one(nonce: str, go_on: int) -> None:
        os.read(go_on, 1)
        journal = Journal.open(Path(folder), nonce, 1)
        for number in range(1, int(prompts) + 1):
            journal.record([entry(number, "accepted"), entry(number, "sending")])
            go(journal, number, "written")
            journal.record([entry(number, state) for state in WAY[3:]])
        journal.close()

    _at_once([f"w{number}" for number in range(int(writers))], one)


def take(folder: str, takers: str) -> None:
    """Processes that take over what is there to take; each says what it got, as one line."""

    def one(nonce: str, go_on: int) -> None:
        journal = Journal.open(Path(folder), nonce, 1)
        os.read(go_on, 1)
        taken = [row.id for row in journal.take_over(2)]
        os.write(1, (json.dumps({"taken": taken}) + "\n").encode())
        journal.close()

    _at_once([f"t{number}" for number in range(int(takers))], one)


def _at_once(nonces: list[str], one: Callable[[str, int], None]) -> None:
    """Fork a process for each nonce, let them go together, and say how they ended."""
    go_on, nudge = os.pipe()
    children = []
    for nonce in nonces:
        child = os.fork()
        if child == 0:
            os.close(nudge)
            try:
                one(nonce, go_on)
            except BaseException as error:  # noqa: BLE001 - the parent shows what it was
                say(nonce=nonce, error=repr(error))
                os._exit(1)
            os._exit(0)
        children.append(child)
    os.write(nudge, b"x" * len(children))
    say(ends=[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


def kill(folder: str, rounds: str, seed: str) -> None:
    """Start writers one after the other and kill -9 each in the middle; say what each had said."""
    chance = random.Random(seed)
    for number in range(int(rounds)):
        nonce = f"victim-{number}"
        heard, said = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(heard)
            _victim(Path(folder), nonce, said)
        os.close(said)
        acknowledged = b""
        wanted = chance.randint(1, 40)
        while acknowledged.count(b"\n") < wanted:
            acknowledged += os.read(heard, 4_096)
        os.kill(child, signal.SIGKILL)
        while more := os.read(heard, 65_536):
            acknowledged += more
        os.close(heard)
        os.waitpid(child, 0)
        lines = acknowledged[: acknowledged.rfind(b"\n")].decode().split("\n")
        say(nonce=nonce, said=[line.split() for line in lines])


def _victim(folder: Path, nonce: str, said: int) -> None:
    journal = Journal.open(folder, nonce, 1)
    number = 0
    while True:
        number += 1
        for state in WAY:
            journal.record([entry(number, state)])
            os.write(said, f"{number} {state}\n".encode())


def fail(folder: str) -> None:
    """Let each write and sync fail in turn (`failing.c` is preloaded); say what became of it."""
    shim = ctypes.CDLL(None)
    journal = Journal.open(Path(folder), "one", 1)
    faults = [("sync", errno.EIO), ("write", errno.EIO), ("write", errno.ENOSPC)]
    number = 0
    for what, error in faults:
        for after in range(3):
            number += 1
            go(journal, number, "accepted")
            shim.fail_from(what.encode(), after, error)
            kind = ""
            try:
                journal.record([entry(number, "sending")])
            except JournalFault as fault:
                kind = fault.kind
            shim.fail_from(b"", 0, 0)
            [row] = journal.list_prompts(limit=1)
            before = row.state
            if kind:
                go(journal, number, "sending")
            go(journal, number, "written")
            say(what=what, error=errno.errorcode[error], after=after, kind=kind, state=before)
    # And an end right behind a sync that failed: what is on the disk then is open.
    go(journal, number + 1, "accepted")
    shim.fail_from(b"sync", 0, errno.EIO)
    try:
        go(journal, number + 1, "sending")
    except JournalFault as fault:
        say(last=fault.kind)
    os.kill(os.getpid(), signal.SIGKILL)


def readonly() -> None:
    """Open a journal that cannot be written, as somebody whom permissions bind."""
    with tempfile.TemporaryDirectory(prefix="acpbridge-journal-") as folder:
        # Once as ourselves: what Python loads only when it is needed may be out of reach later.
        Journal.open(Path(folder) / "warm", "one", 1).close()
        state = Path(folder) / "state"
        state.mkdir(mode=0o700)
        us = os.geteuid()
        if us == 0:
            Path(folder).chmod(0o755)
            os.chown(state, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            _readonly(state)
        finally:
            os.seteuid(us)


def _readonly(state: Path) -> None:
    journal = Journal.open(state, "one", 1)
    go(journal, 1, "accepted")
    journal.close()
    path = state / "journal-1.db"
    for name, directory_mode, file_mode in (("directory", 0o500, 0o600), ("file", 0o700, 0o400)):
        path.chmod(file_mode)
        state.chmod(directory_mode)
        try:
            go(Journal.open(state, "two", 1), 1, "accepted")
            say(name=name, kind="none", text="")
        except StateDirFault as fault:
            say(name=name, kind=getattr(fault, "kind", "directory"), text=str(fault))
        state.chmod(0o700)
    path.chmod(0o600)
    archive = Archive.open(state)
    assert archive is not None
    say(states=[row.state for row in archive.list_prompts()])
    archive.close()


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


PROGRAMS: dict[str, Callable[..., None]] = {
    "write": write,
    "take": take,
    "kill": kill,
    "fail": fail,
    "readonly": readonly,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])

"""The shim as a file: what is ours, what is written over, what a PATH starts."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acpbridge.errors import UsageFault
from acpbridge.store.shim import (
    VERSION,
    check_hermes,
    find_hermes,
    install,
    is_shim,
    on_path,
    read_shim,
    uninstall,
    version_of,
)
from acpbridge.store.shim_status import look

BRIDGE = ("/opt/acpbridge/bin/acpbridge",)
MODULE = ("/usr/bin/python3", "-P", "-m", "acpbridge")
ODD = ["plain", "with space", "it's", 'say "x"', "$HOME `x` \\n", "ünï", "a=b;c&d|e", "-x"]
ODD.append(os.fsdecode(b"no utf-8 \xff"))


def program(path: Path, text: str = "exit 0") -> Path:
    """An executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def search(*folders: Path | str) -> str:
    return os.pathsep.join(map(str, folders))


@pytest.fixture
def real(tmp_path: Path) -> Path:
    return program(tmp_path / "real" / "hermes")


# -- install -----------------------------------------------------------------------------------
@pytest.mark.parametrize("bridge", [BRIDGE, MODULE])
@pytest.mark.parametrize("name", ODD)
def test_what_was_installed_can_be_read(tmp_path: Path, name: str, bridge: tuple[str, ...]) -> None:
    real = program(tmp_path / name / "hermes")
    own = (str(tmp_path / name / "acpbridge"), *bridge[1:])

    done = install(tmp_path / "shims" / name, real, own)
    shim = read_shim(done.path)

    assert ("written", 0o755) == (done.change, stat.S_IMODE(done.path.stat().st_mode))
    assert shim is not None
    assert (VERSION, real, own, True) == (
        shim.version,
        shim.hermes,
        shim.bridge,
        shim.is_current,
    )


def written(path: Path) -> tuple[int, int]:
    """Changes with the file's content, mode or place, and not with its being read."""
    told = path.lstat()
    return told.st_ino, told.st_ctime_ns


def test_a_second_install_changes_nothing(tmp_path: Path, real: Path) -> None:
    first = install(tmp_path, real, BRIDGE)
    before = written(first.path)

    assert "kept" == install(tmp_path, real, BRIDGE).change
    assert before == written(first.path)


def test_a_lost_mode_is_mended(tmp_path: Path, real: Path) -> None:
    path = install(tmp_path, real, BRIDGE).path
    path.chmod(0o644)

    assert "updated" == install(tmp_path, real, BRIDGE).change
    assert 0o755 == stat.S_IMODE(path.stat().st_mode)


def test_an_older_shim_is_brought_up_to_date(tmp_path: Path, real: Path) -> None:
    path = tmp_path / "hermes"
    path.write_text("#!/bin/sh\n# acpbridge-shim 0\nexec something else\n")
    old = read_shim(path)

    done = install(tmp_path, real, BRIDGE)

    assert old is not None
    assert (0, None, (), False) == (old.version, old.hermes, old.bridge, old.is_current)
    assert "updated" == done.change
    assert VERSION == getattr(read_shim(path), "version", None)


def test_another_hermes_is_an_update(tmp_path: Path, real: Path) -> None:
    install(tmp_path, real, BRIDGE)
    other = program(tmp_path / "other" / "hermes")

    assert "updated" == install(tmp_path, other, BRIDGE).change
    assert other == getattr(read_shim(tmp_path / "hermes"), "hermes", None)


def a_program(path: Path) -> None:
    program(path)


def a_text(path: Path) -> None:
    path.write_text("notes\n# acpbridge-shim 1\n")


def an_empty_file(path: Path) -> None:
    path.touch()


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    path.symlink_to(program(path.with_name("elsewhere")))


def a_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def a_link_to_a_shim(path: Path) -> None:
    """The link is somebody's, whatever it leads to."""
    path.symlink_to(install(path.parent / "sub", program(path.with_name("h")), BRIDGE).path)


FOREIGN = [a_program, a_text, an_empty_file, a_folder, a_link, a_dangling_link, a_link_to_a_shim]


@pytest.mark.parametrize("make", FOREIGN)
def test_what_is_not_ours_is_left_alone(
    tmp_path: Path, real: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "hermes"
    make(path)
    # Read long ago, so that most file systems note the next reading: that is no change.
    os.utime(path, (0, path.lstat().st_mtime), follow_symlinks=False)
    before = sorted(tmp_path.iterdir()), written(path)

    with pytest.raises(UsageFault, match=r"choose another --dir, or move it away") as installing:
        install(tmp_path, real, BRIDGE)
    with pytest.raises(UsageFault, match="it stays as it is"):
        uninstall(tmp_path)

    assert "shim_foreign" == installing.value.code
    assert before == (sorted(tmp_path.iterdir()), written(path))


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, real: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UsageFault, match=r"cannot write .*: Not a directory; choose another"):
        install(tmp_path / "file" / "shims", real, BRIDGE)


@pytest.mark.parametrize("name", ["new\nline", "tab\t", "\x1b[2J"])
def test_a_path_that_would_break_the_script_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageFault, match="control character"):
        install(tmp_path, tmp_path / name, BRIDGE)

    assert [] == list(tmp_path.iterdir())


def test_an_install_leaves_nothing_beside_the_shim(tmp_path: Path, real: Path) -> None:
    install(tmp_path / "shims", real, BRIDGE)

    assert ["hermes"] == [path.name for path in (tmp_path / "shims").iterdir()]


def test_uninstall_removes_the_shim_and_nothing_else(tmp_path: Path, real: Path) -> None:
    path = install(tmp_path / "shims", real, BRIDGE).path
    (path.parent / "other").touch()

    assert path == uninstall(path.parent)
    assert uninstall(path.parent) is None
    assert ["other"] == [one.name for one in path.parent.iterdir()]


def test_an_older_shim_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "hermes").write_text("#!/bin/sh\n# acpbridge-shim 0\n")

    assert tmp_path / "hermes" == uninstall(tmp_path)


# -- the real one ------------------------------------------------------------------------------
def test_the_real_one_is_the_first_that_is_no_shim(tmp_path: Path, real: Path) -> None:
    shims = install(tmp_path / "shims", real, BRIDGE).path.parent
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "hermes").symlink_to(shims / "hermes")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "hermes").write_text("not executable")
    path = search("", ".", "relative", shims, linked, tmp_path / "text", real.parent)

    assert real == find_hermes(path)
    assert [shims / "hermes", linked / "hermes", real] == on_path(path)
    assert is_shim(linked / "hermes")
    assert find_hermes(search(shims, linked)) is None


def test_a_relative_folder_is_left_out(
    tmp_path: Path, real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It, and the empty one, mean the folder that one happens to be in."""
    monkeypatch.chdir(real.parent)

    assert [] == on_path(search("", ".", "../real"))
    assert [real] == on_path(search("../real", real.parent))


def test_a_link_to_the_real_one_stays_a_link(tmp_path: Path, real: Path) -> None:
    """An upgrade moves what it leads to."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hermes").symlink_to(real)

    assert tmp_path / "bin" / "hermes" == find_hermes(search(tmp_path / "bin"))


def test_the_named_one_is_made_absolute(
    tmp_path: Path, real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert real == check_hermes(Path("real/../real/hermes"))


def test_a_shim_is_not_taken_for_the_real_one(tmp_path: Path, real: Path) -> None:
    path = install(tmp_path / "shims", real, BRIDGE).path

    with pytest.raises(UsageFault, match="is a shim itself"):
        check_hermes(path)


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_cannot_be_started_is_not_taken(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageFault, match="no program that can be started"):
        check_hermes(tmp_path / name)


# -- versions ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("echo hermes 0.20.5", "0.20.5"),
        ("echo 'Hermes Agent v1.2.3-rc.1 (2026)' >&2", "1.2.3-rc.1"),
        ("echo none; exit 3", None),
        ("kill -9 $$", None),
    ],
)
def test_a_version_is_the_first_that_it_prints(
    tmp_path: Path, text: str, version: str | None
) -> None:
    assert version == version_of(program(tmp_path / "x", f'[ "$1" = --version ] || exit 9\n{text}'))


def test_what_is_not_there_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path / "missing") is None


def test_what_hangs_has_no_version(tmp_path: Path) -> None:
    """Nor does what it started, which holds the pipe open behind it."""
    hangs = program(tmp_path / "x", "sleep 60 &\nsleep 60")

    assert version_of(hangs, wait_s=0.2) is None


def test_this_python_has_a_version() -> None:
    assert sys.version.split()[0] == version_of(sys.executable)


# -- status ------------------------------------------------------------------------------------
@pytest.fixture
def shims(tmp_path: Path, real: Path) -> Path:
    bridge = program(tmp_path / "bridge" / "acpbridge")
    return install(tmp_path / "shims", real, (str(bridge),)).path.parent


def test_a_shim_in_front_is_all_right(tmp_path: Path, real: Path, shims: Path) -> None:
    seen = look(search(shims, real.parent), shims, tmp_path)

    assert (shims / "hermes", ()) == (seen.started, seen.remedies)
    assert seen.shim == seen.installed is not None


def test_a_trailing_slash_makes_no_difference(tmp_path: Path, real: Path, shims: Path) -> None:
    (remedy,) = look(search(real.parent, f"{shims}/"), shims, tmp_path).remedies

    assert f"{real} comes before {shims} on this PATH" in remedy


def test_a_shim_that_is_not_on_the_path_is_told(tmp_path: Path, real: Path, shims: Path) -> None:
    (remedy,) = look(search(real.parent), shims, tmp_path).remedies

    assert f"{shims} is not on this PATH" in remedy


def test_an_empty_path_starts_nothing(tmp_path: Path, shims: Path) -> None:
    seen = look("", shims, tmp_path)

    assert seen.started is None
    assert "is not on this PATH" in seen.remedies[0]


def test_no_shim_at_all_is_told(tmp_path: Path, real: Path) -> None:
    (remedy,) = look(search(real.parent), tmp_path / "none", tmp_path).remedies

    assert f"run acpbridge shim install --dir {tmp_path / 'none'}" in remedy


def test_a_real_one_that_is_gone_is_told(tmp_path: Path, real: Path, shims: Path) -> None:
    real.unlink()

    (remedy,) = look(search(shims), shims, tmp_path).remedies

    assert f"the real hermes is gone from {real}" in remedy


def test_a_real_one_that_became_a_shim_is_told(tmp_path: Path, real: Path, shims: Path) -> None:
    real.unlink()
    real.symlink_to(shims / "hermes")

    (remedy,) = look(search(shims), shims, tmp_path).remedies

    assert f"{real} is a shim too" in remedy


def test_a_bridge_that_is_gone_is_told(tmp_path: Path, shims: Path) -> None:
    (tmp_path / "bridge" / "acpbridge").unlink()

    (remedy,) = look(search(shims), shims, tmp_path).remedies

    assert "acpbridge is gone from" in remedy


def test_an_older_shim_is_told(tmp_path: Path, shims: Path) -> None:
    path = shims / "hermes"
    path.write_text(path.read_text().replace(f"acpbridge-shim {VERSION}", "acpbridge-shim 0"))

    (remedy,) = look(search(shims), shims, tmp_path).remedies

    assert "was written by another acpbridge" in remedy


def test_a_shim_that_cannot_be_read_is_told(tmp_path: Path, shims: Path) -> None:
    (shims / "hermes").write_text("#!/bin/sh\n# acpbridge-shim x\nhermes='\n")

    (remedy,) = look(search(shims), shims, tmp_path).remedies

    assert "cannot be read" in remedy


def test_the_folder_that_codeg_puts_in_front_is_looked_at(
    tmp_path: Path, real: Path, shims: Path
) -> None:
    """Its own npm folder, where its own Hermes install may have put one."""
    codeg = program(tmp_path / ".codeg" / "npm-global" / "bin" / "hermes").parent

    (remedy,) = look(search(shims, real.parent), shims, tmp_path).remedies

    assert f"Codeg puts {codeg} in front of its PATH" in remedy
    assert () == look(search(shims, codeg), shims, tmp_path).remedies

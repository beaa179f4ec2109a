from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from acpbridge.errors import StateDirFault
from acpbridge.store.state_dir import prepare_state_dir

if TYPE_CHECKING:
    from pathlib import Path


def test_it_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    path = prepare_state_dir(tmp_path / "deep" / "state")

    assert 0o700 == stat.S_IMODE(path.stat().st_mode)
    assert path == prepare_state_dir(path)


def test_a_file_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StateDirFault, match="choose --state-dir") as caught:
        prepare_state_dir(tmp_path / "state")

    assert caught.value.exit_code == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o500)
    with pytest.raises(StateDirFault, match="cannot write"):
        prepare_state_dir(tmp_path / "state")

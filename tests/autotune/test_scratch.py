from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from loopwright.autotune.scratch import ScratchFolder

HOLDER = """
import sys, time
from loopwright.autotune.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "file").write_text("x")
print(folder.path, flush=True)
time.sleep(100)
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        left = Path(holder.stdout.readline().strip())
        with ScratchFolder():
            assert (left / "file").exists()  # its holder lives
        holder.kill()
    with ScratchFolder() as folder:
        assert not left.exists() and folder.path.exists()
    assert not list(tmp_path.iterdir())


def test_folders_of_one_process_live_side_by_side(tmp_path: Path) -> None:
    with ScratchFolder() as first, ScratchFolder() as second:
        assert first.path != second.path and first.path.exists()
    first.close()
    assert not list(tmp_path.iterdir())

"""What is no log: one sentence that names the setting, and nothing waits."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from hostile_compiles import records_of
from loopwright.autotune.log import log_file
from loopwright.autotune.log.log_file import LogError
from loopwright.autotune.log.note import Note
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.cli import main

X = np.ones(48, np.float32)


def compiled(**options: Any) -> Any:
    return lw.compile(**options)(lambda x: x * 2 + 1)(X)


def made(folder: Path, kind: str) -> Path:
    path = folder / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    return path


KINDS = {
    "folder": "a folder, not a file",
    "fifo": "a FIFO, not a file",
    "device": "a device, not a file",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_named_with_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = made(tmp_path, kind)
    with pytest.raises(lw.LoopwrightValueError, match=rf"^log=: {path} .*{KINDS[kind]}"):
        compiled(log=path)
    with pytest.raises(lw.LoopwrightValueError, match=rf"^lw.log: .*{KINDS[kind]}"), lw.log(path):
        pass
    with pytest.raises(LogError, match=KINDS[kind]):
        TuningLog(path).append(Note("remark"))
    monkeypatch.setenv("LOOPWRIGHT_LOG", str(path))
    with pytest.raises(lw.LoopwrightValueError, match=rf"^LOOPWRIGHT_LOG: .*{KINDS[kind]}"):
        compiled()


@pytest.mark.parametrize("kind", [*KINDS, "loop"])
def test_the_command_line_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = made(tmp_path, kind)
    monkeypatch.setenv("LOOPWRIGHT_LOG", str(path))
    for action in ("list", "best", "stats", "verify", "prune", "migrate"):
        assert main(["log", action]) != 0
        told = capsys.readouterr().err
        assert f"LOOPWRIGHT_LOG={path}" in told and told.count("\n") == 1
    assert main(["log", "merge", str(path), "--into", str(tmp_path / "all")]) != 0
    assert main(["tune", "examples/digits.py:predict", "--budget", "1s", "--log", str(path)]) != 0
    assert f"--log {path}" in capsys.readouterr().err


def test_a_link_that_leads_nowhere_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "link"
    path.symlink_to(tmp_path / "missing")
    with pytest.warns(UserWarning, match=r"^log=: .* a link to .*missing, which is not there"):
        compiled(log=path)
    compiled(log=path)


def test_a_file_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_text("")
    real = os.open

    def forbidden(name: Any, *rest: Any, **more: Any) -> int:
        if Path(os.fsdecode(name)) == path:
            raise PermissionError(13, "Permission denied")
        return real(name, *rest, **more)

    monkeypatch.setattr(os, "open", forbidden)
    with pytest.raises(lw.LoopwrightValueError, match=r"^log=: .*: Permission denied"):
        compiled(log=path)


def test_a_lock_that_is_held_is_told_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    monkeypatch.setattr(log_file, "LOCK_SECONDS", 0.2)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LogError, match=r"held its lock for 0.2 seconds .*LOOPWRIGHT_LOG"):
            TuningLog(path).append(Note("remark"))
        compiled(log=path)  # who reads needs no lock
        assert main(["log", "prune", str(path)]) == 2
        assert capsys.readouterr().err.count("another process has held its lock") == 1
    TuningLog(path).append(Note("remark"))
    assert len(TuningLog(path).notes) == 1


def test_dev_null_is_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_LOG", os.devnull)
    np.testing.assert_array_equal(compiled(), X * 2 + 1)


def test_the_line_about_a_compile_tells_what_was_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    records = records_of(lambda x: x * 2 + 1, [X])
    for record in records:
        record["schedule"] = [["reorder", ["nothing", "i"]]]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    summary = lw.compile(lambda x: x * 2 + 1, log=path, threads=1).lower(X).built.summary
    assert "1 by the rules" in summary or "1 picked by the cost model" in summary
    assert summary.endswith("; passed over: an own record does not apply")


def test_a_log_that_fails_in_a_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: Any) -> int:
        raise LogError(Path("net.jsonl"), "No space left on device")

    monkeypatch.setattr("loopwright.commands.log._list", full)
    assert main(["log", "list"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("loopwright: tuning log net.jsonl: No space left on device (log=, ")
    assert told.count("\n") == 1

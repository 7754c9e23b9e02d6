from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from loopwright.autotune.log.log_file import LogError
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.record import MeasureRecord, TargetKey, Workload

TARGET = TargetKey("x86-64-v4", "cpu", 2, 1, 1, 2, 3)


def record(number: int, workload: str = "w", seconds: float = 1.0) -> MeasureRecord:
    return MeasureRecord(Workload(workload), TARGET, (["tile", number],), seconds=(seconds,))


def numbers(log: TuningLog) -> list[int]:
    return [r.schedule[0][1] for r in log]


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "log.jsonl"
    log = TuningLog(path)
    log.append(record(1))
    log.append([record(2), record(3, "other")])
    log.append([])
    assert numbers(log) == [1, 2, 3]
    again = TuningLog(path)
    assert again.records == log.records
    assert [r.schedule[0][1] for r in again.of("w")] == [1, 2]
    assert again.of("w", replace(TARGET, threads=2)) == []
    assert [w.hash for w in again.workloads()] == ["w", "other"]


def test_without_a_path_records_live_in_memory() -> None:
    log = TuningLog()
    log.append(record(1))
    assert log.refresh() == 0
    assert len(log.of("w")) == 1


def test_refresh_reads_only_what_is_new(tmp_path: Path) -> None:
    ours, theirs = TuningLog(tmp_path / "log"), TuningLog(tmp_path / "log")
    theirs.append([record(1), record(2)])
    assert ours.refresh() == 2
    ours.append(record(3))
    assert ours.refresh() == 0
    theirs.append(record(4))  # reads record 3 on the way
    assert numbers(theirs) == [1, 2, 3, 4]
    assert ours.refresh() == 1


def test_torn_foreign_and_future_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    good = record(1).to_json()
    path.write_bytes(
        b"\n".join(
            [
                good.encode(),
                good[: len(good) // 2].encode(),
                b'{"some": "other log"}',
                good.replace('"v": 1', '"v": 2').encode(),
                b"\xff\xfe\x00 not text",
                b"",
                b"42",
                record(2).to_json().encode(),
                b"",
            ]
        )
    )
    log = TuningLog(path)
    assert numbers(log) == [1, 2]
    assert str(log.skipped) == "2 torn, 2 foreign, 1 of a later version"


def test_a_torn_last_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(record(1).to_json() + "\n" + record(2).to_json()[:50])
    log = TuningLog(path)
    assert numbers(log) == [1]
    log.append(record(3))
    assert numbers(log) == numbers(TuningLog(path)) == [1, 3]
    assert log.skipped.torn == TuningLog(path).skipped.torn == 1


def test_a_last_line_without_a_line_end_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(record(1).to_json())
    log = TuningLog(path)
    log.append(record(2))
    log.refresh()
    assert numbers(log) == numbers(TuningLog(path)) == [1, 2]


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = TuningLog(path)
    log.append([record(1), record(2)])
    (tmp_path / "other").write_text(record(3).to_json() + "\n")
    (tmp_path / "other").replace(path)
    log.append(record(4))
    assert numbers(log) == numbers(TuningLog(path)) == [3, 4]
    path.unlink()
    with pytest.warns(UserWarning, match="without the 2 records that were known"):
        log.refresh()
    assert len(log) == 0


def test_a_full_disk_leaves_no_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    log = TuningLog(path)
    log.append(record(1))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))
    try:
        with pytest.raises(LogError, match=r"no space left|File too large"):
            log.append([record(2), record(3)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert numbers(log) == [1]
    log.append(record(4))
    assert numbers(TuningLog(path)) == [1, 4]


def test_a_device_without_space_is_an_error_with_the_path() -> None:
    log = TuningLog()
    log.path = Path("/dev/full")
    with pytest.raises(LogError, match="tuning log /dev/full: "):
        log.append(record(1))
    assert len(log) == 0


def test_a_log_that_cannot_be_written_says_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_text(record(1).to_json() + "\n")
    real = os.open

    def read_only(name: object, flags: int, *rest: int, **more: int | None) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(name, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", read_only)
    log = TuningLog(path)
    with pytest.raises(LogError, match="Read-only file system"):
        log.check_writable()
    assert numbers(log) == [1]


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="a folder, not a file"):
        TuningLog(tmp_path)


WRITER = textwrap.dedent(
    """
    import sys
    from loopwright.autotune.log.tuning_log import TuningLog
    from loopwright.autotune.record import MeasureRecord, TargetKey, Workload
    target = TargetKey("x86-64-v4", "cpu", 2, 1, 1, 2, 3)
    log = TuningLog(sys.argv[1])
    for i in range(int(sys.argv[3])):
        log.append(MeasureRecord(Workload(sys.argv[2]), target, (["tile", i],), seconds=(1.0,),
                                 detail="x" * 300))
        print(i, flush=True)
    """
)


def start_writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_several_processes_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writers = [start_writer(path, name, 200) for name in ("a", "b", "c")]
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    log = TuningLog(path)
    assert log.skipped.total == 0
    for name in ("a", "b", "c"):
        assert [r.schedule[0][1] for r in log.of(name)] == list(range(200))


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for round_ in range(4):
        writer = start_writer(path, f"w{round_}", 100_000)
        assert writer.stdout is not None
        acknowledged = -1
        for _ in range(20 * (round_ + 1)):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        log = TuningLog(path)
        assert len(log.of(f"w{round_}")) >= acknowledged + 1
    assert log.skipped.total == 0


def test_reading_ten_thousand_records_is_quick(tmp_path: Path) -> None:
    lines = [record(i, f"w{i % 20}").to_json() for i in range(10_000)]
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    log = TuningLog(tmp_path / "log")
    assert len(log) == 10_000
    assert json.loads(lines[0])["v"] == 1

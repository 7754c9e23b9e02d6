from __future__ import annotations

from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.logtool import tools as logtool
from loopwright.autotune.record import Check, MeasureRecord, TargetKey, Workload

TARGET = TargetKey("x86-64-v4", "cpu", 2, 1, 1, 2, 3)


def record(tile: int, seconds: float, workload: str = "w", error: str | None = None):
    return MeasureRecord(
        Workload(workload, f"text of {workload}"),
        TARGET,
        (["tile", tile],),
        sketch="s/1",
        seconds=() if error else (seconds,),
        error=error,
        checked=None if error else Check(0.0, 1e-5),
        time=f"2026-01-01T00:00:{tile:02}Z",
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    log = TuningLog(path)
    log.append(record(i, 1.0 + i) for i in range(10))
    log.append([record(10, 0, error="timeout"), record(0, 5.0, workload="v")])
    with path.open("a") as file:
        file.write('{"v": 7, "workload": {}}\n{"torn": \n{"foreign": 1}\n')
    return path


def test_list_has_a_row_per_workload_and_target(path: Path) -> None:
    rows = logtool.list_records(TuningLog(path))
    assert [(r.workload, r.tried, r.failed, r.best_seconds) for r in rows] == [
        ("w", 11, 1, 1.0),
        ("v", 1, 0, 5.0),
    ]
    assert rows[0].newest == "2026-01-01T00:00:10Z"


def test_best_can_be_filtered(path: Path) -> None:
    log = TuningLog(path)
    assert [r.cost for r in logtool.best(log)] == [1.0, 5.0]
    assert [r.cost for r in logtool.best(log, "text of v")] == [5.0]
    assert logtool.best(log, "x") == [r for r in logtool.best(log) if "x" in r.workload.text]


def test_merge_adds_what_is_new(path: Path, tmp_path: Path) -> None:
    other = TuningLog(tmp_path / "other")
    other.append([record(0, 1.0), record(77, 0.5)])
    report = logtool.merge([path, other.path, path], tmp_path / "all")
    assert (report.added, report.duplicates, report.skipped) == (13, 13, 6)
    assert len(TuningLog(tmp_path / "all")) == 13
    assert logtool.merge([path], tmp_path / "all").added == 0
    with pytest.raises(FileNotFoundError, match="no tuning log at"):
        logtool.merge([tmp_path / "nowhere"], tmp_path / "all")


def test_prune_keeps_the_fastest_and_the_future(path: Path) -> None:
    before = path.read_bytes()
    planned = logtool.prune(path, keep=3, write=False)
    assert path.read_bytes() == before
    assert logtool.prune(path, keep=3) == planned
    assert (planned.kept, planned.dropped_records, planned.dropped_lines) == (5, 8, 2)
    log = TuningLog(path)
    assert [r.cost for r in log] == [1.0, 2.0, 3.0, 5.0]
    assert log.skipped.future == 1 and log.skipped.total == 1
    assert list(path.parent.iterdir()) == [path]


def test_stats_count(path: Path) -> None:
    found = logtool.stats(TuningLog(path))
    assert (found.records, found.workloads, found.targets) == (12, 2, 1)
    assert found.errors == {"timeout": 1}
    assert (found.torn, found.foreign, found.future) == (1, 1, 1)
    assert found.measured_seconds == 60.0
    assert logtool.stats(TuningLog()).first == ""


def test_verify_names_the_lines(path: Path) -> None:
    report = logtool.verify(path)
    skipped = report.skipped
    assert (report.good, skipped.torn, skipped.foreign, skipped.future) == (12, 1, 1, 1)
    assert [p.line for p in report.problems] == [13, 14, 15]
    assert not report.ok

    def check(found: MeasureRecord) -> str | None:
        return "does not apply" if found.schedule == (["tile", 3],) else None

    report = logtool.verify(path, check)
    assert report.suspicious == 1
    assert report.problems[0] == logtool.Problem(4, "does not apply")


def test_what_tuning_writes_is_not_suspicious(tmp_path: Path) -> None:
    """Kernels that ran in their place in the program have no check of their own in the record."""
    log = tmp_path / "log"
    f = lw.compile(lambda x: np.maximum(x @ np.ones((784, 10), np.float32), 0), log=log)
    f.tune(np.ones((8, 784), np.float32), trials=2)
    assert any(record.cache == "place" for record in TuningLog(log))
    assert not logtool.verify(log).suspicious

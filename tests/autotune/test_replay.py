"""A run is repeated from its log: the same decisions, the same winners, no hardware."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loopwright.autotune.budget import Budget
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.logtool.replay import ReplayError, replay
from loopwright.autotune.program.program_tuner import tune_program
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.settings import DEFAULT_SETTINGS

from bench.one_task import tune_one
from bench.standins import SyntheticMeasurer, synthetic_task

SETTINGS = replace(DEFAULT_SETTINGS, near=24)
SIZES = {"big": (256, 256, 256), "small": (64, 100, 77)}
TASKS = [synthetic_task(SIZES["big"], "big", 3), synthetic_task(SIZES["small"], "small")]


def make_task(data: Any, target: Any):
    return synthetic_task(SIZES[data["name"]], data["name"], data["weight"])


def run_program(path: Path, budget: Budget, **options: Any) -> TuningLog:
    def measurer(task):
        return SyntheticMeasurer(
            task, noise=0.05, seed=5, fault=lambda row: "crash" if row[0] == 3 else None
        )

    tune_program(
        TASKS, measurer, TuningLog(path), TuneRequest(budget, settings=SETTINGS, **options)
    )
    return TuningLog(path)


@pytest.mark.parametrize("budget", [Budget(trials=150), Budget(seconds=0.8)], ids=str)
@pytest.mark.parametrize("strategy", ["guided", "random"])
def test_a_program_is_tuned_again(tmp_path: Path, budget: Budget, strategy: str) -> None:
    log = run_program(tmp_path / "log", budget, strategy=strategy, seed=3)
    found = replay(log, make_task=make_task)
    assert found.departure is None
    assert found.same and found.remarks == ()
    assert found.steps == found.length == len(log)
    assert [name for name, _, _ in found.winners] == ["big", "small"]


def test_a_run_that_went_on_from_a_log_is_repeated_as_it_was(tmp_path: Path) -> None:
    run_program(tmp_path / "log", Budget(trials=64))
    log = run_program(tmp_path / "log", Budget(trials=64), seed=1)
    first, second = (note for _, note in log.notes if note.kind == "run")
    assert second.number("known") == 64 + sum(r.raced for r in log if r.run == first.text("run"))
    for note in (first, second):
        found = replay(log, note.text("run")[:6], make_task)
        assert found.departure is None and found.same


def test_one_task_is_tuned_again(tmp_path: Path) -> None:
    log = TuningLog(tmp_path / "log")
    task = TASKS[0]
    suggestions = [task.space.default()[1]]
    tune_one(
        task,
        SyntheticMeasurer(task),
        log,
        Budget(seconds=0.5),
        settings=SETTINGS,
        suggestions={task.workload.hash: suggestions},
    )
    assert replay(TuningLog(log.path), make_task=make_task).same


def test_records_of_others_come_in_their_place(tmp_path: Path) -> None:
    """Another tuner appends to the same file, between two of our records."""
    path = tmp_path / "log"
    task = TASKS[0]

    class Disturbed(SyntheticMeasurer):
        def measure(self, candidates, best_seconds):
            for index, record in super().measure(candidates, best_seconds):
                if self.count % 10 == 0:
                    other = replace(record, seconds=(record.cost / 3,), time="", schedule=(
                        ["tile", [self.count % 12, 0, 0, 0, 0, 0, 0, 0]],
                    ))  # fmt: skip
                    TuningLog(path).append(other)
                yield index, record

    tune_one(task, Disturbed(task), TuningLog(path), Budget(trials=60), settings=SETTINGS)
    found = replay(TuningLog(path), make_task=make_task)
    assert found.departure is None and found.same


def test_a_run_that_was_cut_off_is_repeated_as_far_as_it_went(tmp_path: Path) -> None:
    whole = run_program(tmp_path / "log", Budget(trials=60))
    lines = whole.path.read_bytes().splitlines(keepends=True)  # type: ignore[union-attr]
    (tmp_path / "cut").write_bytes(b"".join(lines[:38]))
    found = replay(TuningLog(tmp_path / "cut"), make_task=make_task)
    assert (found.steps, found.length) == (37, 37)
    assert found.same


def test_where_it_first_departs_is_told(tmp_path: Path) -> None:
    log = run_program(tmp_path / "log", Budget(trials=60))
    changed = TuningLog()
    for number, entry in enumerate(log.entries()):
        if isinstance(entry, MeasureRecord) and number == 20:
            entry = replace(entry, schedule=(["tile", [1, 1, 1, 1, 1, 1, 1, 1]],))
        changed.append(entry)
    found = replay(changed, make_task=make_task)
    assert found.steps < 20 and not found.same
    assert found.departure is not None
    assert '[["tile",[1,1,1,1,1,1,1,1]]]' in found.departure
    assert "the engine asks for" in found.departure


def test_a_pruned_log_says_so(tmp_path: Path) -> None:
    log = run_program(tmp_path / "log", Budget(trials=40))
    rest = TuningLog()
    rest.append(entry for number, entry in enumerate(log.entries()) if number not in (5, 6))
    found = replay(rest, make_task=make_task)
    assert found.departure is not None

    both = TuningLog()
    both.append([log.records[0], *log.entries()])
    remark = "0 records stood before the run, now 1: the log was pruned or merged"
    assert remark in replay(both, make_task=make_task).remarks


def test_a_log_without_runs_or_without_that_one(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="this log notes no run"):
        replay(TuningLog())
    log = run_program(tmp_path / "log", Budget(trials=20))
    with pytest.raises(ReplayError, match="there is no run nowhere in this log; there are"):
        replay(log, "nowhere", make_task)

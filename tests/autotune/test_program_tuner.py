from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from loopwright.autotune.budget import BudgetClock
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.program.in_program import InProgram
from loopwright.autotune.program.program_tuner import ProgramResult, tune_program
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.settings import DEFAULT_SETTINGS

from bench.standins import SyntheticMeasurer, synthetic_task

TASKS = [
    synthetic_task((256, 256, 256), "large", weight=4),
    synthetic_task((64, 64, 64), "small"),
    synthetic_task((1024, 128, 32), "wide", weight=2),
]


WHOLE_BUDGET = replace(DEFAULT_SETTINGS, least_gain=0.0)  # none is given back, however slow we are


def run(log: TuningLog, budget: str = "240 trials", **options: object) -> ProgramResult:
    return tune_program(TASKS, SyntheticMeasurer, log, TuneRequest(budget, **options))  # type: ignore[arg-type]


def test_the_whole_program_gets_faster(tmp_path: Path) -> None:
    request = TuneRequest("320 trials", settings=WHOLE_BUDGET)
    # A clock that ticks when it is read: what a task gets does not depend on the machine.
    ticks = itertools.count()
    clock = BudgetClock(request.limits, now=lambda: 0.01 * next(ticks))
    log = TuningLog(tmp_path / "log")
    result = tune_program(TASKS, SyntheticMeasurer, log, request, clock)
    assert result.stopped == "budget" and result.trials == 320
    assert result.after < 0.7 * result.before
    assert all(t.best is not None and t.trials >= 16 for t in result.tasks)
    large, small, _ = result.tasks
    assert large.trials > small.trials  # it has most of the time
    totals = [total for _, total in result.history]
    assert totals[3:] == sorted(totals[3:], reverse=True)


def test_the_report_reads_like_a_table() -> None:
    result = run(TuningLog(), peak_flops=200e9, settings=WHOLE_BUDGET)
    lines = str(result).splitlines()
    assert len(lines) == 4
    assert lines[0].split()[:2] == ["large", "x4"]
    assert "% of peak" in lines[0] and " tried, " in lines[0] and lines[0].endswith(" % sure")
    assert "240 candidates" in lines[3] and "240 trials" in lines[3] and "x   " in lines[3]


def test_at_its_limit_a_program_has_nothing_to_gain() -> None:
    def at(share_of_limit: float) -> ProgramResult:
        tasks = [replace(t, seconds=1e-3, floor=1e-3 * share_of_limit) for t in TASKS]
        return tune_program(tasks, SyntheticMeasurer, TuningLog(), TuneRequest("64 trials"))

    result = at(0.98)
    assert (result.stopped, result.trials) == ("converged", 0) and result.completed
    assert "nothing to gain: less than 1 % of a call is expected" in str(result)
    assert at(0.5).trials > 0
    settled = replace(result, tasks=tuple(replace(t, after=1e-3) for t in result.tasks))
    assert "expected, 98% of the limit" in str(settled)


def test_failures_are_summed_up() -> None:
    def measurer(task):
        return SyntheticMeasurer(task, fault=lambda row: "crash" if row[6] == 1 else None)

    result = tune_program(TASKS, measurer, TuningLog(), TuneRequest("120 trials"))
    assert set(result.errors) == {"crash"}
    assert f", {result.errors['crash']} crash" in str(result)
    broken = tune_program(
        TASKS[:1],
        lambda t: SyntheticMeasurer(t, fault=lambda row: "timeout"),
        TuningLog(),
        TuneRequest("20 trials"),
    )
    assert broken.tasks[0].best is None
    assert "nothing ran (timeout)" in str(broken)
    assert broken.is_empty and "every candidate failed" in str(broken)
    assert "nothing to tune: " in str(replace(broken, tasks=()))


def test_a_second_run_goes_on(tmp_path: Path) -> None:
    first = run(TuningLog(tmp_path / "log"), "150 trials")
    second = run(TuningLog(tmp_path / "log"), "60 trials")
    assert second.after <= 1.05 * first.after
    assert second.before == pytest.approx(first.before, rel=0.05)


def test_no_tasks_are_done_at_once() -> None:
    result = tune_program([], SyntheticMeasurer, TuningLog(), TuneRequest("1h"))
    assert result.stopped == "exhausted" and result.after == 0.0
    assert "0 candidates" in str(result)


def test_a_budget_that_is_over_at_once_is_said() -> None:
    result = run(TuningLog(), budget="0.000001s")
    assert result.is_empty and not result.trials
    assert "nothing was measured: the budget was over before" in str(result)
    assert "0 ns" not in str(replace(result, in_program=InProgram(0.0, 0.0)))

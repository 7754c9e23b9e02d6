"""A stage of tuning that fails, or has no time left, is left out; the others go on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.budget import Budget
from loopwright.autotune.log.log_file import LogError
from loopwright.autotune.measure import kernels as kernel_tasks
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.program import program_tuner
from loopwright.autotune.program.program_tuner import ProgramResult
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.search.tuner import Tuner
from loopwright.tuning import comparing
from loopwright.tuning import tune as tuning
from loopwright.tuning.graph_choices import GraphTuner
from loopwright.tuning.time_plan import Stages, TimePlan
from planted_kernels import SETTINGS, TOOLCHAIN, make_task

X = np.random.default_rng(0).random((48, 48), dtype=np.float32)


NOTHING_TUNED = ProgramResult((), 0.0, Budget(), "budget")


def layer(x: Any) -> Any:
    return np.tanh(x @ x) + 1


def alone(x: Any) -> Any:
    """A program of one kernel, whose leaders race alone."""
    return np.tanh(x) + 1


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("planted")


@pytest.mark.parametrize(
    "place, name, said",
    [
        (tuning, "kernel_rounds", "the profile"),
        (GraphTuner, "decide", "choices in the graph"),
        (kernel_tasks, "task_of", ""),
        (tuning, "tune_tasks", "the search"),
        (program_tuner, "Tuner", ""),
        (Tuner, "step", ""),
        (Tuner, "finish", ""),
        (comparing, "keep_faster", "the leaders in the program"),
        (comparing, "settle", "the first build beside the last"),
    ],
)
def test_a_stage_that_fails_is_left_out(
    place: Any, name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place in (tuning, GraphTuner):  # without the search, which takes longest
        monkeypatch.setattr(tuning, "tune_tasks", lambda *_, **__: NOTHING_TUNED)
    monkeypatch.setattr(place, name, fail)
    program = alone if name == "finish" else layer
    function = lw.compile(program, log=tmp_path / "log.jsonl", threads=1)
    report = function.tune(X, trials=2)
    assert "planted" in " ".join(report.skipped) and f"left out: {said}" in str(report)
    np.testing.assert_allclose(function(X), program(X), rtol=1e-5)


def test_a_stage_without_time_is_left_out_and_a_log_error_is_not_caught() -> None:
    plan = TimePlan(Budget(seconds=10.0), 0.0, now=lambda: 9.0, call=0.5, build=0.4)
    stages = Stages(plan)
    assert stages.run("a", lambda: 1, 2, calls=1, builds=1) == 1
    assert stages.run("b", lambda: 1, 2, calls=2, builds=1) == 2
    assert stages.run("late", lambda: 1, 2, calls=2, builds=1, late=plan.grace) == 1
    assert stages.skipped == ["b: no time left for it"]
    assert stages.spent == {
        "start": 9.0,
        "choices in the graph": 0.0,
        "search": 0.0,
        "comparisons": 0.0,
    }

    def unwritable() -> int:
        raise LogError(None, "the disk is full")

    with pytest.raises(LogError):
        stages.run("c", unwritable, 2)


def test_nobody_waits_for_a_candidate_beyond_the_deadline() -> None:
    with NativeMeasurer(make_task(), TOOLCHAIN, SETTINGS) as measurer:
        good, endless = (Candidate((("plant", kind, 1),), "") for kind in ("good", "endless"))
        assert [index for index, _ in measurer.measure([good])] == [0]
        begun = time.monotonic()
        measurer.workers.deadline = begun + 0.5
        assert [*measurer.measure([endless])] == []
        assert time.monotonic() - begun < SETTINGS.first_timeout / 2

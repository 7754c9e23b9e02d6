"""No two candidates of a search are the same code on the threads that run it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import loopwright as lw
import numpy as np
import pytest
from loopwright import nn
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import on_one_thread, task_of
from loopwright.autotune.protocols import FloatArray, Population
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.search.tuner import Tuner
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule

from bench.standins import SyntheticSpace, synthetic_task
from tools.evaluate_model import matmul_prim

SMALL = replace(DEFAULT_SETTINGS, near=16, random=32)


def prim_of(function: Any, *specs: Any) -> Any:
    lowered = lower_module(lw.compile(function).trace(*specs).module)
    (prim,) = kernels_of(lowered).values()
    return prim


PRIMS = (
    matmul_prim(128, 96, 80),
    prim_of(lambda x: nn.max_pool2d(x, 3), lw.f32[1, 8, 33, 33]),
    prim_of(lambda x: nn.softmax(x), lw.f32[64, 1000]),
)


def proposals(task: Task, rounds: int, log: TuningLog) -> list[list[Any]]:
    """The schedules of some rounds, with times that are made up."""
    tuner = Tuner(task, cast("Any", None), log, TuneRequest(settings=SMALL))
    found: list[list[Any]] = []
    for number in range(rounds):
        rows = tuner._propose(24)
        for row in rows:
            found.append(task.space.schedule(row).to_json())
            seconds = (1e-3 + 1e-5 * len(found),)
            record = MeasureRecord(task.workload, task.key, tuple(found[-1]), "", seconds)
            tuner._know(record)
            log.append(record)
        tuner.search.observe(rows, np.full(len(rows), 1e-3 * (number + 1)))
    return found


@pytest.mark.parametrize("prim", PRIMS, ids=lambda prim: prim.name)
@pytest.mark.parametrize("threads", [1, 2])
def test_no_two_candidates_have_the_same_nest(prim: Any, threads: int) -> None:
    schedules = proposals(task_of(prim, Target.host(), threads), 3, TuningLog())
    steps = [on_one_thread(s) if threads == 1 else s for s in schedules]
    nests = {apply_schedule(prim, Schedule.from_json(s)) for s in steps}
    assert len(nests) == len(schedules) > 8


def test_the_twins_of_what_a_log_has_are_not_measured_again() -> None:
    log, task = TuningLog(), task_of(PRIMS[0], Target.host(), 1)
    known = {str(on_one_thread(s)) for s in proposals(task, 3, log)}
    again = {str(on_one_thread(s)) for s in proposals(task, 3, log)}
    assert len(again) > 10 and not known & again


class FeaturelessSpace(SyntheticSpace):
    """Rows whose features are all the same."""

    def features(self, rows: Population) -> FloatArray:
        return np.zeros_like(super().features(rows))


@pytest.mark.parametrize("distinct", [True, False])
def test_of_rows_with_equal_features_those_with_other_nests_are_measured(distinct: bool) -> None:
    task = synthetic_task()
    key_of = str if distinct else lambda schedule: "the same nest"
    task = replace(task, space=FeaturelessSpace(), nest_key=key_of, of_threads=())
    found = proposals(task, 3, TuningLog())
    assert len({str(schedule) for schedule in found}) == len(found)
    assert len(found) == (49 if distinct else 1)

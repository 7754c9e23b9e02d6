"""The budget "quick": the default row, then what the model rates best."""

from __future__ import annotations

import numpy as np
from loopwright.autotune.budget import Budget, BudgetClock
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.program.program_tuner import tune_program
from loopwright.autotune.protocols import Population
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.search.strategies import make_strategy
from loopwright.autotune.task import Task

from bench.standins import SyntheticMeasurer, SyntheticSpace, synthetic_task

SPACE = SyntheticSpace()


def perfect_score(rows: Population) -> np.ndarray:
    return -np.log(SPACE.seconds(rows)).astype(np.float32)


def test_the_default_row_comes_first_and_the_best_rated_after_it() -> None:
    rows = make_strategy("predicted", SPACE).propose(perfect_score, 8)
    assert (rows[0] == SPACE.default()[0]).all()
    scores = perfect_score(rows[1:])
    assert (np.diff(scores) <= 0).all()
    chance = SPACE.seconds(SPACE.sample(100, np.random.default_rng(1)))
    assert SPACE.seconds(rows).min() < np.quantile(chance, 0.1)


def test_suggestions_stand_between_the_default_and_the_others() -> None:
    strategy = make_strategy("predicted", SPACE)
    near = SPACE.sample(2, np.random.default_rng(5))
    strategy.suggest(np.concatenate([SPACE.default()[:1], near]))
    assert (strategy.propose(perfect_score, 8)[1:3] == near).all()


def test_eight_candidates_of_each_kernel_are_measured_whatever_the_first_takes() -> None:
    tasks = [synthetic_task((256, 256, 256)), synthetic_task((96, 200, 512))]
    request = TuneRequest("quick").resolved()
    assert request.strategy == "predicted" and request.limits == Budget(quick=True)
    log = TuningLog()
    result = tune_program(tasks, lambda task: SyntheticMeasurer(task), log, request)
    assert [task.trials for task in result.tasks] == [8, 8]
    assert all(task.after <= task.before for task in result.tasks)


def test_what_is_made_for_all_kernels_is_not_the_time_of_the_first() -> None:
    now = 0.0

    def slowly_made(task: Task) -> SyntheticMeasurer:
        nonlocal now
        now += 10.0
        return SyntheticMeasurer(task)

    request = TuneRequest("quick").resolved()
    clock = BudgetClock(request.limits, now=lambda: now)
    result = tune_program([synthetic_task()], slowly_made, TuningLog(), request, clock=clock)
    assert [task.trials for task in result.tasks] == [8]

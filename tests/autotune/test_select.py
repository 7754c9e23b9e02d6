"""What a kernel gets without measuring: the evidence it takes to leave the rules' default."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopwright.autotune.log.record import MeasureRecord
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.model.tree_model import TreeModel
from loopwright.autotune.select import SELECTION, candidates, choose_schedule
from loopwright.autotune.space.feature_list import FEATURE_NAMES
from loopwright.autotune.space.space import default_schedule
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target

from tools.evaluate_model import matmul_prim

TARGET = Target("x86-64-v3", "some CPU", 2, 32768, 1 << 20, 1 << 25)
PRIM = matmul_prim(96, 128, 160)
NEAR = matmul_prim(96, 144, 160)


class Opinion(TreeModel):
    """A model that likes schedules the more, the fewer rows their tiles have."""

    slope = 1.0

    def opinions(self, features: np.ndarray) -> np.ndarray:
        return -self.slope * features[None, :, FEATURE_NAMES.index("rows")]


def opinion(slope: float, levels: frozenset[str] = frozenset({"x86-64-v3"})) -> TreeModel:
    class Sloped(Opinion):
        pass

    Sloped.slope = slope
    none = np.zeros(1, np.int64)
    empty = none.astype(np.float32)
    return Sloped(1, none, none, none, empty, empty, 0, 0.0, len(FEATURE_NAMES), 0, levels)


def record(task: Task, row: np.ndarray, seconds: float) -> MeasureRecord:
    schedule = tuple(task.space.schedule(row).to_json())
    return MeasureRecord(task.workload, task.key, schedule, "tile", (seconds,))


def tuned(
    prim: object, target: Target, threads: int, gain: float
) -> tuple[TuningLog, list[object]]:
    """A log in which a schedule of one row is ``gain`` times faster than the default."""
    task = task_of(prim, target, threads)  # type: ignore[arg-type]
    default = task.space.default()[0]
    better = default.copy()
    better[2] = 0  # rows
    assert task.space.valid(better[None])[0] and not np.array_equal(better, default)
    log = TuningLog()
    log.append([record(task, default, 1e-4), record(task, better, 1e-4 / gain)])
    return log, task.space.schedule(better).to_json()


def test_without_logs_and_opinion_the_favourite_is_taken() -> None:
    default, sketch = default_schedule(PRIM, TARGET.with_threads(1))
    for model in (opinion(0.0), opinion(SELECTION.lead / 100)):
        chosen = choose_schedule(PRIM, TARGET, 1, [], model)
        assert (chosen.schedule, chosen.sketch, chosen.origin) == (default, sketch, "rules")


def test_a_clear_opinion_is_followed_where_the_model_was_trained() -> None:
    chosen = choose_schedule(PRIM, TARGET, 1, [], opinion(1.0))
    assert (
        chosen.origin == "model"
        and chosen.schedule != default_schedule(PRIM, TARGET.with_threads(1))[0]
    )
    assert chosen == choose_schedule(PRIM, TARGET, 1, [], opinion(1.0))
    other = choose_schedule(PRIM, TARGET, 1, [], opinion(1.0, frozenset({"x86-64"})))
    assert other.origin == "rules"


def test_a_record_of_its_own_needs_no_opinion() -> None:
    log, better = tuned(PRIM, TARGET, 1, 1.2)
    chosen = choose_schedule(PRIM, TARGET, 1, [log], opinion(-1.0))
    assert chosen.origin == "exact" and chosen.schedule.to_json() == better


@pytest.mark.parametrize(
    "gain, slope, origin",
    [
        (1.5, 0.005, "near"),  # faster there, and the model agrees
        (1.5, -0.005, "rules"),  # the model does not
        (1.02, 0.001, "rules"),  # hardly faster there
        (1.02, 1.0, "near"),  # but the model is sure
    ],
)
def test_a_near_shape_has_to_show_something(gain: float, slope: float, origin: str) -> None:
    log, _ = tuned(NEAR, TARGET, 1, gain)
    chosen = choose_schedule(PRIM, TARGET, 1, [log], opinion(slope))
    assert chosen.origin == origin
    default, _ = default_schedule(PRIM, TARGET.with_threads(1))
    assert (chosen.schedule == default) == (origin == "rules")


def test_the_best_of_several_neighbours_is_taken() -> None:
    log, _ = tuned(NEAR, TARGET, 1, 1.5)
    other = task_of(matmul_prim(96, 128, 176), TARGET, 1)
    default, few = other.space.default()[0], other.space.default()[0].copy()
    few[2] = max(0, few[2] - 1)
    log.append([record(other, default, 1e-4), record(other, few, 5e-5)])
    chosen = choose_schedule(PRIM, TARGET, 1, [log], opinion(0.005))
    task = task_of(PRIM, TARGET, 1)
    row = task.space.row_of(chosen.schedule)
    assert row is not None and row[2] == 0


def test_another_machine_is_a_prior_and_no_order() -> None:
    wide = replace(TARGET, cpu="another", l2=1 << 21)
    log, better = tuned(PRIM, wide, 1, 1.5)
    agreed = choose_schedule(PRIM, TARGET, 1, [log], opinion(0.005))
    assert agreed.origin == "compatible" and agreed.schedule.to_json() == better
    assert choose_schedule(PRIM, TARGET, 1, [log], opinion(-0.005)).origin == "rules"
    threads, _ = tuned(PRIM, TARGET, 2, 1.5)
    assert choose_schedule(PRIM, TARGET, 1, [threads], opinion(0.005)).origin == "compatible"


def test_a_machine_whose_code_does_not_run_here_says_nothing() -> None:
    log, _ = tuned(PRIM, replace(TARGET, isa="x86-64-v4"), 1, 1.5)
    assert choose_schedule(PRIM, TARGET, 1, [log], opinion(0.005)).origin == "rules"


def test_what_a_process_may_use_besides_its_threads_is_no_other_machine() -> None:
    pinned = replace(TARGET, cores=1, l3=1 << 24)  # under taskset, in another guest
    log, better = tuned(PRIM, pinned, 1, 1.02)
    chosen = choose_schedule(PRIM, TARGET, 1, [log], opinion(-1.0))
    assert chosen.origin == "exact" and chosen.schedule.to_json() == better


def test_other_threads_share_the_loops_of_the_default_schedule() -> None:
    space = task_of(PRIM, TARGET, 2).space
    log, _ = tuned(PRIM, TARGET, 1, 1.5)
    chosen = choose_schedule(PRIM, TARGET, 2, [log], opinion(0.005))
    row = space.row_of(chosen.schedule)
    assert chosen.origin == "compatible" and row is not None and row[2] == 0
    assert space.choices(row)["parallel"] == space.choices(space.default()[0])["parallel"] > 0


def test_a_shape_of_twice_the_columns_is_near() -> None:
    log, _ = tuned(matmul_prim(96, 256, 160), TARGET, 1, 1.5)
    assert choose_schedule(PRIM, TARGET, 1, [log], opinion(0.005)).origin == "near"
    log, _ = tuned(matmul_prim(96, 1024, 160), TARGET, 1, 1.5)
    chosen = choose_schedule(PRIM, TARGET, 1, [log], opinion(0.005))
    assert (chosen.origin, chosen.passed) == ("rules", ("a near shape is too far away",))


def test_own_records_that_do_not_apply_hide_none_that_does() -> None:
    log, better = tuned(PRIM, TARGET, 1, 1.5)
    task = task_of(PRIM, TARGET, 1)
    for number, steps in enumerate(([["reorder", ["nothing"]]], [3], [["split", "i", [1] * 90]])):
        log.append(
            MeasureRecord(task.workload, task.key, tuple(steps), "x", (1e-9 * (1 + number),))
        )
    found = list(candidates(PRIM, TARGET, 1, [log], opinion(0.0)))
    assert [c.origin for c in found] == ["exact", "exact", "rules"]
    assert found[0].schedule.to_json() == better
    assert found[0].passed == ("an own record does not apply",) * 3
    refused = [c.schedule for c in found]
    assert choose_schedule(PRIM, TARGET, 1, [log], opinion(0.0), refused).origin == "rules"


@pytest.mark.parametrize(
    "gain, slope, why",
    [
        (1.5, -0.005, "a near shape is not expected to be faster here"),
        (1.02, 0.001, "a near shape was not clearly faster there than the default schedule"),
    ],
)
def test_what_is_passed_over_is_told(gain: float, slope: float, why: str) -> None:
    log, _ = tuned(NEAR, TARGET, 1, gain)
    assert choose_schedule(PRIM, TARGET, 1, [log], opinion(slope)).passed == (why,)

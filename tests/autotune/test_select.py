"""What a kernel gets without measuring: the evidence it takes to leave the rules' default."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.selection.select import candidates, choose_schedule
from loopwright.autotune.space.space import default_schedule
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.ir.loop.workload import parse_workload

from tools.evaluate_model import matmul_prim

TARGET = Target("x86-64-v3", "some CPU", 2, 32768, 1 << 20, 1 << 25)
PRIM = matmul_prim(96, 128, 160)
NEAR = matmul_prim(96, 144, 160)


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


def test_without_logs_the_favourite_is_taken() -> None:
    default, sketch = default_schedule(PRIM, TARGET.with_threads(1))
    chosen = choose_schedule(PRIM, TARGET, 1, [])
    assert (chosen.schedule, chosen.sketch, chosen.origin) == (default, sketch, "rules")


def test_a_record_of_its_own_is_taken() -> None:
    log, better = tuned(PRIM, TARGET, 1, 1.2)
    chosen = choose_schedule(PRIM, TARGET, 1, [log])
    assert chosen.origin == "exact" and chosen.schedule.to_json() == better


@pytest.mark.parametrize("gain, origin", [(1.5, "near"), (1.08, "near"), (1.02, "rules")])
def test_a_near_shape_has_to_have_been_faster_there(gain: float, origin: str) -> None:
    log, _ = tuned(NEAR, TARGET, 1, gain)
    chosen = choose_schedule(PRIM, TARGET, 1, [log])
    assert chosen.origin == origin
    default, _ = default_schedule(PRIM, TARGET.with_threads(1))
    assert (chosen.schedule == default) == (origin == "rules")


def test_what_is_measured_before_it_is_taken_may_promise_less() -> None:
    log, _ = tuned(NEAR, TARGET, 1, 1.0)
    chosen = choose_schedule(PRIM, TARGET, 1, [log], measure=True)
    default, _ = default_schedule(PRIM, TARGET.with_threads(1))
    assert chosen.origin == "near" and [c.schedule for c in chosen.rivals] == [default]
    assert not choose_schedule(PRIM, TARGET, 1, [log]).rivals


def test_neighbours_whose_best_is_the_default_speak_against_a_record() -> None:
    log, _ = tuned(NEAR, TARGET, 1, 1.08)
    alone = choose_schedule(PRIM, TARGET, 1, [log])
    for rows in (92, 100):
        task = task_of(matmul_prim(rows, 128, 160), TARGET, 1)
        log.append([record(task, task.space.default()[0], 1e-4)])
    assert alone.origin == "near" and 1.03 < alone.gain < 1.08
    assert choose_schedule(PRIM, TARGET, 1, [log]).origin == "rules"


def test_the_most_promising_of_several_neighbours_is_first() -> None:
    log, _ = tuned(NEAR, TARGET, 1, 1.5)
    other = task_of(matmul_prim(96, 128, 176), TARGET, 1)
    default, few = other.space.default()[0], other.space.default()[0].copy()
    few[2] = max(0, few[2] - 1)
    log.append([record(other, default, 1e-4), record(other, few, 5e-5)])
    chosen = choose_schedule(PRIM, TARGET, 1, [log], measure=True)
    space = task_of(PRIM, TARGET, 1).space
    rows = [space.row_of(c.schedule) for c in (chosen, *chosen.rivals)]
    assert [int(row[2]) for row in rows if row is not None] == [few[2], 0, default[2]]


def test_another_machine_or_number_of_threads_is_evidence() -> None:
    wide = replace(TARGET, cpu="another", l2=1 << 21)
    log, better = tuned(PRIM, wide, 1, 1.5)
    chosen = choose_schedule(PRIM, TARGET, 1, [log])
    assert chosen.origin == "compatible" and chosen.schedule.to_json() == better
    assert chosen.source == "record of another, x86-64-v3, 1 thread"
    threads, _ = tuned(PRIM, TARGET, 2, 1.5)
    assert choose_schedule(PRIM, TARGET, 1, [threads]).origin == "compatible"


def test_a_record_of_longer_vectors_is_fitted_to_those_here() -> None:
    log, _ = tuned(PRIM, replace(TARGET, isa="x86-64-v4"), 1, 1.5)
    chosen = choose_schedule(PRIM, TARGET, 1, [log])
    assert chosen.origin == "compatible"
    space = task_of(PRIM, TARGET, 1).space
    row = space.row_of(chosen.schedule)
    assert row is not None
    tile = space.choices(row)
    assert tile["vectors"] * tile["rows"] < 16  # AVX2 has half the registers


def test_the_way_of_another_level_is_tried_with_a_tile_for_this_one() -> None:
    prim = parse_workload(
        "(x: float32[9, 96, 16]) -> y: float32[9, 16, 96] { y[i, j, l] = x[i, l, j] }", "turned"
    )
    there = task_of(prim, replace(TARGET, isa="x86-64-v4"), 1)
    first, *others = there.space.default()
    other = next(row for row in others if row[0] != first[0])
    varied = next(
        row
        for row in there.space.mutate(np.repeat(other[None], 64, axis=0), np.random.default_rng(0))
        if row[0] == other[0] and not np.array_equal(row, other)
    )
    log = TuningLog()
    log.append([record(there, first, 1e-4), record(there, varied, 5e-5)])
    chosen = choose_schedule(prim, TARGET, 1, [log], measure=True)
    space = task_of(prim, TARGET, 1).space
    rows = [space.row_of(c.schedule) for c in (chosen, *chosen.rivals[:-1])]
    wanted = next(row for row in space.default() if row[0] == other[0])
    assert any(row is not None and np.array_equal(row, wanted) for row in rows)


def test_what_a_process_may_use_besides_its_threads_is_no_other_machine() -> None:
    pinned = replace(TARGET, cores=1, l3=1 << 24)  # under taskset, in another guest
    log, better = tuned(PRIM, pinned, 1, 1.02)
    chosen = choose_schedule(PRIM, TARGET, 1, [log])
    assert chosen.origin == "exact" and chosen.schedule.to_json() == better


def test_other_threads_share_the_loops_of_the_default_schedule() -> None:
    space = task_of(PRIM, TARGET, 2).space
    log, _ = tuned(PRIM, TARGET, 1, 1.5)
    chosen = choose_schedule(PRIM, TARGET, 2, [log])
    row = space.row_of(chosen.schedule)
    assert chosen.origin == "compatible" and row is not None and row[2] == 0
    assert space.choices(row)["parallel"] == space.choices(space.default()[0])["parallel"] > 0


def test_a_shape_of_twice_the_columns_is_near() -> None:
    log, _ = tuned(matmul_prim(96, 256, 160), TARGET, 1, 1.5)
    assert choose_schedule(PRIM, TARGET, 1, [log]).origin == "near"
    log, _ = tuned(matmul_prim(96, 1024, 160), TARGET, 1, 1.5)
    assert choose_schedule(PRIM, TARGET, 1, [log]).gain < 1.15  # it says less
    log, _ = tuned(matmul_prim(96, 16384, 160), TARGET, 1, 1.5)
    chosen = choose_schedule(PRIM, TARGET, 1, [log])
    assert (chosen.origin, chosen.passed) == (
        "rules",
        ("a record of a near shape is too far away",),
    )


def test_own_records_that_do_not_apply_hide_none_that_does() -> None:
    log, better = tuned(PRIM, TARGET, 1, 1.5)
    task = task_of(PRIM, TARGET, 1)
    for number, steps in enumerate(([["reorder", ["nothing"]]], [3], [["split", "i", [1] * 90]])):
        log.append(
            MeasureRecord(task.workload, task.key, tuple(steps), "x", (1e-9 * (1 + number),))
        )
    found = list(candidates(PRIM, TARGET, 1, [log]))
    assert [c.origin for c in found] == ["exact", "exact", "rules"]
    assert found[0].schedule.to_json() == better
    assert found[0].passed == ("an own record does not apply",) * 3
    refused = [c.schedule for c in found]
    assert choose_schedule(PRIM, TARGET, 1, [log], refused).origin == "rules"


def test_what_is_passed_over_is_told() -> None:
    log, _ = tuned(NEAR, TARGET, 1, 1.02)
    why = "a record of a near shape was 1.02x the default's speed there"
    assert choose_schedule(PRIM, TARGET, 1, [log]).passed == (why,)

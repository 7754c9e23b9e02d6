"""The leaders' race: who takes part how long, what counts, and how sure the outcome is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import planted_kernels as planted
import pytest
from loopwright.autotune.comparison import compare
from loopwright.autotune.log.lookup import fastest, pooled_costs
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import tasks_of
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.measure.racing import race
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.codegen.target import Target
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.loop.expr import const, op, read
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage

from bench.one_task import tune_one
from bench.standins import SyntheticMeasurer, synthetic_task

TASK = synthetic_task()


class Stopwatch:
    """Entrants take what ``warm`` and ``place`` say, with noise that only adds time."""

    def __init__(self, warm: Sequence[float], place: Sequence[float], noise: float) -> None:
        self.times = {"warm": warm, "place": place}
        self.noise = noise
        self.rng = np.random.default_rng(5)
        self.asked: list[tuple[int, str]] = []

    def race(self, candidates, rounds, cache="warm"):
        self.asked.append((len(candidates), cache))
        for c in candidates:
            true = self.times[cache][c.row[0]]
            noise = np.abs(self.rng.normal(0, self.noise, rounds))
            yield MeasureRecord(
                TASK.workload, TASK.key, c.schedule, seconds=tuple(true * (1 + noise))
            )


def entrants(count: int) -> list[Candidate]:
    return [Candidate((["tile", [i]],), row=(i,)) for i in range(count)]


def test_a_clear_race_is_short() -> None:
    watch = Stopwatch([1.0, 0.7, 1.2], [3.0, 3.0, 3.0], 0.02)
    found = race(entrants(3), watch)  # type: ignore[arg-type]
    assert found.confidence > 0.99 and found.rounds == DEFAULT_SETTINGS.leader_rounds
    assert watch.asked == [(3, "warm")]
    assert all(r.raced and r.cache == "warm" for r in found.records)


def test_a_close_race_goes_on_and_losers_leave_it() -> None:
    watch = Stopwatch([1.0, 0.96, 1.0, 2.0], [9.0] * 4, 0.3)
    found = race(entrants(4), watch)  # type: ignore[arg-type]
    counts = [count for count, cache in watch.asked if cache == "warm"]
    assert len(counts) > 1 and counts[0] == 4 and counts[1] == 3
    assert found.rounds <= DEFAULT_SETTINGS.most_leader_rounds
    assert [len(r.seconds) for r in found.records] == [found.rounds] * 3 + [
        DEFAULT_SETTINGS.leader_rounds
    ]
    assert 0.0 < found.confidence < 1.0


def test_confidence_is_what_it_says() -> None:
    """Of many races of two schedules 6 % apart, the taken one is the best about as often."""
    claimed, true = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        samples = np.array([[1.06], [1.0]]) * (1 + np.abs(rng.normal(0, 0.08, (2, 7))))
        verdict = compare(samples)
        claimed.append(verdict.confidence)
        true.append(verdict.best == 1)
    assert abs(np.mean(claimed) - np.mean(true)) < 0.1
    assert 0.6 < np.mean(true) < 0.999
    assert compare([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]).wins.tolist() == [1.0, 0.0]


def test_what_counts_decides() -> None:
    """Fast with warm caches, slow in the program: where that counts, it loses."""
    winners = []
    for cache in ("warm", "place"):
        watch = Stopwatch([1.0, 0.8], [2.0, 3.0], 0.001)
        found = race(entrants(2), watch, cache)  # type: ignore[arg-type]
        back = [MeasureRecord.from_json(r.to_json()) for r in found.records]
        assert [r.cache for r in back] == [cache] * 2
        best = fastest(pooled_costs(back))
        assert best is not None
        winners.append(best[1].schedule[0][1])
        # One that was not raced is not preferred because its time was taken with warm caches.
        other = MeasureRecord(TASK.workload, TASK.key, (["tile", [7]],), seconds=(0.95,))
        best = fastest(pooled_costs([other, *back]))
        assert best is not None and best[1].schedule[0][1] == winners[-1]
    assert winners == [[1], [0]]


def test_times_in_a_program_count_before_times_alone() -> None:
    def one(tile: int, cache: str, time: str, *seconds: float) -> MeasureRecord:
        key, between = TASK.key, {"x1": 1 << 27} if cache == "place" else {}
        record = MeasureRecord(
            TASK.workload, key, (["tile", [tile]],), "", seconds, time=time, cache=cache
        )
        return replace(record, between=between)

    alone = [one(1, "warm", "2026-01-01", 1.0), one(2, "warm", "2026-01-01", 0.8)]
    here = [one(1, "place", "2026-01-02", 1.1), one(3, "place", "2026-01-02", 1.5)]
    back = [MeasureRecord.from_json(r.to_json()) for r in [*alone, *here]]
    assert back == [*alone, *here] and back[-1].between == {"x1": 1 << 27}
    costs = {key: cost for key, (cost, _) in pooled_costs(back).items()}
    # Of the second schedule only a time alone is known; nothing says how much longer it takes.
    assert [*costs.values()] == [1.1, 0.8, 1.5]
    raced = replace(here[0], raced=True, other_cache_seconds=(0.55,))
    first, second, third = (cost for cost, _ in pooled_costs([*alone, *here, raced]).values())
    assert first == 1.1 and second == pytest.approx(0.8 * 2 * 1.1) and third > 1.5


def test_failures_leave_the_race() -> None:
    class Failing(Stopwatch):
        def race(self, candidates, rounds, cache="warm"):
            for record in super().race(candidates, rounds, cache):
                bad = record.schedule[0][1] == [0]
                yield replace(record, error="wrong_result", seconds=()) if bad else record

    watch = Failing([0.1, 1.0], [1.0, 1.0], 0.01)
    found = race(entrants(2), watch)  # type: ignore[arg-type]
    assert [r.error for r in found.records] == ["wrong_result", None]
    assert found.confidence == 1.0
    none = race([], watch)  # type: ignore[arg-type]
    assert none.records == () and none.confidence == 0.0


def test_real_kernels_are_raced_both_ways() -> None:
    task = planted.make_task()
    far = dict.fromkeys((b.name for b in (*task.prim.params, *task.prim.output_buffers)), 1 << 24)
    task = replace(task, cache="place", between=far)
    with NativeMeasurer(task, planted.TOOLCHAIN, planted.SETTINGS) as measurer:
        both = [Candidate((("plant", "good", delay),)) for delay in (1, 3000)]
        found = race(
            both,
            measurer,
            "place",
            replace(planted.SETTINGS, leader_rounds=7, most_leader_rounds=7),
        )
    fast, slow = found.records
    assert fast.cache == "place" and len(fast.seconds) == 7 and len(fast.other_cache_seconds) == 3
    assert fast.between == far and fast.cost < slow.cost


def test_the_rest_of_the_program_says_which_cache_counts() -> None:
    def doubling(size: int) -> PrimFunc:
        body = op("multiply", read("x0", (symbol("i"),), FLOAT32), const(2.0, FLOAT32))
        stage = Stage(Buffer("out", (size,), FLOAT32), (Axis("i", size),), body)
        params = (Buffer("x0", (size,), FLOAT32, constant=True),)
        return PrimFunc("double", params, ("out",), (stage,))

    (alone,) = tasks_of([doubling(1 << 20)], Target.host(), 1)
    assert alone.cache == "warm"  # called again and again, it finds what its size leaves it
    small, large = tasks_of([doubling(1 << 10), doubling(1 << 20)], Target.host(), 1)
    assert (small.cache, large.cache) == ("place", "warm")
    assert small.between == {"x0": 8 << 20} and not large.between
    far = {small.workload.hash: {"x0": 3 << 20, "out": 0}}
    small, _ = tasks_of([doubling(1 << 10), doubling(1 << 20)], Target.host(), 1, between=far)
    assert small.between == {"x0": 3 << 20, "out": 0}


@pytest.mark.parametrize("noise", [0.001, 0.5])
def test_the_result_of_tuning_says_how_sure_it_is(noise: float) -> None:
    _, result = tune_one(TASK, SyntheticMeasurer(TASK, noise=noise), TuningLog(), "60 trials")
    assert result.confidence is not None and 0.0 < result.confidence <= 1.0
    if noise < 0.01:
        assert result.confidence > 0.95 and math.isfinite(result.after)

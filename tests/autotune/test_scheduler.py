from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from loopwright.autotune.program.scheduler import TaskScheduler, TaskState

from bench.scheduling import RoundRobin


class Curve:
    """A simulated task: its best time falls towards a limit, quickly or slowly."""

    def __init__(self, weight: float, start: float, limit: float, pace: float, seconds: float):
        self.weight, self.start, self.limit, self.pace = weight, start, limit, pace
        self.seconds = seconds

    def best(self, slices: int) -> float:
        return self.limit + (self.start - self.limit) * math.exp(-slices / self.pace)


def programs() -> list[list[Curve]]:
    rng = np.random.default_rng(4)
    return [
        [
            Curve(
                weight=float(rng.integers(1, 12)),
                start=float(start := 10 ** rng.uniform(-5, -2.5)),
                limit=float(start * rng.uniform(0.2, 0.95)),
                pace=float(rng.uniform(0.7, 8)),
                seconds=float(rng.uniform(0.5, 2)),
            )
            for _ in range(12)
        ]
        for _ in range(6)
    ]


def total_after(
    curves: Sequence[Curve], budget: float, choose: Callable[[list[TaskState]], int | None]
) -> float:
    states = [TaskState(c.weight) for c in curves]
    spent = 0.0
    while spent < budget and (index := choose(states)) is not None:
        curve, state = curves[index], states[index]
        state.after_slice(curve.seconds, curve.best(len(state.slices) + 1))
        spent += curve.seconds
    return sum(
        c.weight * (s.best if math.isfinite(s.best) else c.start) for c, s in zip(curves, states)
    )


def in_turns(states: list[TaskState]) -> int | None:
    return RoundRobin(states).next()


def test_the_scheduler_beats_round_robin() -> None:
    gains = []
    for curves in programs():
        for budget in (25.0, 50.0, 100.0):
            in_turn = total_after(curves, budget, in_turns)
            planned = total_after(curves, budget, lambda s: TaskScheduler(s).next())
            gains.append(in_turn / planned)
    assert min(gains) > 0.98
    assert float(np.exp(np.mean(np.log(gains)))) > 1.05


def test_every_task_gets_a_first_turn() -> None:
    states = [TaskState(1.0), TaskState(100.0), TaskState(1.0)]
    scheduler = TaskScheduler(states)
    seen = []
    for _ in range(3):
        index = scheduler.next()
        assert index is not None
        states[index].after_slice(1.0, 1e-3)
        seen.append(index)
    assert sorted(seen) == [0, 1, 2] and seen[0] == 1
    assert scheduler.next() == 1


def test_a_task_at_its_floor_or_exhausted_gets_no_more() -> None:
    done, other = TaskState(1000.0, floor=1e-3), TaskState(1.0)
    done.after_slice(1.0, 1e-3)
    other.after_slice(1.0, 1e-4)
    scheduler = TaskScheduler([done, other])
    assert scheduler.next() == 1
    other.exhausted = True
    assert scheduler.next() == 0
    done.exhausted = True
    assert scheduler.next() is None


def test_a_task_of_which_nothing_ran_is_tried_again_but_not_for_ever() -> None:
    broken, fine = TaskState(1.0), TaskState(1.0)
    scheduler = TaskScheduler([broken, fine])
    for state in (broken, fine):
        state.after_slice(1.0, math.inf if state is broken else 1e-3)
    turns = []
    for _ in range(30):
        index = scheduler.next()
        assert index is not None
        turns.append(index)
        scheduler.states[index].after_slice(1.0, math.inf if index == 0 else 1e-3)
    assert 1 <= turns.count(0) < 15


def test_the_largest_task_goes_first_while_no_time_is_known() -> None:
    """The model learns from what is measured first; kernels of a few numbers teach it little."""
    states = [TaskState(4.0, work=1e3), TaskState(1.0, work=1e9), TaskState(2.0, work=1e6)]
    order = []
    for _ in states:
        index = TaskScheduler(states).next()
        assert index is not None
        states[index].after_slice(1.0, 1e-3)
        order.append(index)
    assert order == [1, 2, 0]


def test_round_robin_gives_everyone_a_turn() -> None:
    states = [TaskState(), TaskState(), TaskState()]
    for _ in range(7):
        index = RoundRobin(states).next()
        assert index is not None
        states[index].after_slice(1.0, 1e-3)
    assert sorted(len(s.slices) for s in states) == [2, 2, 3]
    for state in states:
        state.exhausted = True
    assert RoundRobin(states).next() is None


def test_kernels_that_matter_are_tried_before_the_end() -> None:
    large = TaskState(weight=1.0, place=1.0, slices=[(1.0, 1.0)], best=1.0)
    small = TaskState(weight=1.0, place=0.02, floor=0.0199)
    tiny = TaskState(weight=1.0, place=0.002)
    scheduler = TaskScheduler([large, small, tiny])
    assert scheduler.next() == 0 == scheduler.next(left=60.0)  # there is next to nothing to gain
    assert scheduler.next(left=3.0) == 1  # but it has a share of the time
    small.after_slice(1.0, 0.02)
    assert scheduler.next(left=1.0) == 0

"""Schedules that are well-formed and ask for too much: random ones with huge numbers in them."""

from __future__ import annotations

import random
from math import prod

from loopwright.ir.errors import ScheduleError
from loopwright.ir.schedule.state import State
from loopwright.ir.schedule.steps import Schedule, Step, cut, split
from random_schedules import random_step

__all__ = ["hostile_schedule"]

HUGE = (1, 2, 3, 7, 16, 64, 100, 500, 1000, 4096, 65536, 1 << 20, 1 << 24, 1 << 28, 1 << 39)
WRITTEN_OUT = ("unroll", "unroll", "vectorize", "parallel")
MOST_POINTS = 150


def hostile_schedule(rng: random.Random, state: State) -> Schedule:
    """Up to twelve steps that the primitives accept, of every kind, many with huge numbers."""
    steps: list[Step] = []
    for _ in range(rng.randint(1, 12)):
        if not state.order:
            break
        step = _hostile_step(rng, state)
        try:
            state = step.apply(state)
        except ScheduleError:
            continue
        steps.append(step)
    return Schedule(tuple(steps))


def _hostile_step(rng: random.Random, state: State) -> Step:
    if rng.random() < 0.2:
        return Step(rng.choice(WRITTEN_OUT), (rng.choice(state.order),))
    step = random_step(rng, state)
    if step.name == "split" and rng.random() < 0.6:
        axis = step.args[0]
        inner = [rng.choice(HUGE) for _ in range(rng.choice((1, 1, 2, 3)))]
        return split(axis, (max(1, -(-state.extents[axis] // prod(inner))), *inner))
    if step.name == "cut" and rng.random() < 0.5 and state.extents[step.args[0]] > 1:
        inside = range(1, state.extents[step.args[0]])
        points = rng.sample(inside, min(len(inside), MOST_POINTS))
        return cut(step.args[0], sorted(points))
    large = [
        rng.choice(HUGE) if isinstance(arg, int) and rng.random() < 0.6 else arg
        for arg in step.args
    ]
    return Step(step.name, tuple(large))

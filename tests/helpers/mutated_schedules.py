"""Schedules changed as data, with no regard to what a rule would propose."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod

import numpy as np
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.state import State
from loopwright.ir.schedule.steps import Schedule, Step, state_of
from random_schedules import random_schedule, random_step

__all__ = ["mutated", "schedules"]

FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 100)
ANNOTATIONS = ("vectorize", "vectorize", "unroll", "unroll", "parallel")
SAMPLED = 6


def schedules(prim: PrimFunc, target: Target, rng: random.Random) -> Iterator[Schedule]:
    """Schedules without end: drawn from the space, mutated ones of those, and made from nothing.

    Most of the last two kinds are illegal.
    """
    space = ScheduleSpace(prim, target)
    rows = space.sample(SAMPLED, np.random.default_rng(rng.randrange(1 << 30)))
    sampled = [default_schedule(prim, target)[0], *(space.schedule(row) for row in rows)]
    yield from sampled[:3]
    while True:
        kind = rng.random()
        if kind < 0.65:
            yield mutated(rng.choice(sampled), prim, rng)
        elif kind < 0.8:
            yield annotated(random_schedule(rng, State.of(prim)), prim, rng)
        else:
            yield mutated(annotated(random_schedule(rng, State.of(prim)), prim, rng), prim, rng)


def mutated(schedule: Schedule, prim: PrimFunc, rng: random.Random) -> Schedule:
    """The schedule with one to four changes; each leaves the steps before it legal."""
    steps = list(schedule.steps)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        at = rng.randrange(len(steps) + 1)
        try:
            state = state_of(prim, Schedule(tuple(steps[:at])))
        except ScheduleError:
            continue
        if not state.order:
            break
        kind = rng.random()
        if kind < 0.2 or at == len(steps):
            steps.insert(at, random_step(rng, state))
        elif kind < 0.35:
            del steps[at]
        elif kind < 0.45:
            other = rng.randrange(len(steps))
            steps[at], steps[other] = steps[other], steps[at]
        else:
            steps[at] = changed(steps[at], state, rng)
    return Schedule(tuple(steps))


def changed(step: Step, state: State, rng: random.Random) -> Step:
    """The step with one of its arguments changed, or another step on the same loop."""
    if step.name == "split" and step.args[0] in state.extents:
        return resplit(step, state, rng)
    if step.name in ANNOTATIONS and rng.random() < 0.5:
        return Step(rng.choice(ANNOTATIONS), step.args)
    if step.name == "cache_write" and rng.random() < 0.5:
        return Step(
            step.name, (step.args[0], rng.choice(("registers", "stack", "tiles")), *step.args[2:])
        )
    args = list(step.args)
    n = rng.randrange(len(args))
    kind = step.primitive.kinds[n]
    if kind == "int":
        args[n] = rng.choice(FACTORS)
    elif kind == "ints":
        args[n] = tuple(rng.choice(FACTORS) for _ in args[n])
    elif kind == "names":
        args[n] = tuple(rng.sample(args[n], len(args[n])))
    else:
        stages = [s.name for s in state.prim.stages]
        buffers = list(state.prim.buffers)
        same = next((names for names in (stages, state.order, buffers) if args[n] in names), stages)
        args[n] = rng.choice(same)
    return Step(step.name, tuple(args))


def resplit(step: Step, state: State, rng: random.Random) -> Step:
    """A split of the same axis by other factors, mostly of as many."""
    axis, factors = step.args
    inner = list(factors[1:]) or [1]
    if rng.random() < 0.15:
        inner = [rng.choice(FACTORS) for _ in range(rng.choice((1, 2, 3)))]
    inner[rng.randrange(len(inner))] = rng.choice(FACTORS)
    return Step("split", (axis, (max(1, -(-state.extents[axis] // prod(inner))), *inner)))


def annotated(schedule: Schedule, prim: PrimFunc, rng: random.Random) -> Schedule:
    """The schedule with splits by whole vectors and some loops vectorised, unrolled, parallel."""
    steps = list(schedule.steps)
    for _ in range(rng.randint(1, 5)):
        try:
            state = state_of(prim, Schedule(tuple(steps)))
        except ScheduleError:
            break
        free = [a for a in state.extents if a in state.order]
        if free and rng.random() < 0.4:
            step = resplit(Step("split", (rng.choice(free), (1, 1))), state, rng)
        elif state.order:
            step = Step(rng.choice(ANNOTATIONS), (rng.choice(state.order[-4:]),))
        else:
            break
        try:
            step.apply(state)
        except ScheduleError:
            continue
        steps.append(step)
    return Schedule(tuple(steps))

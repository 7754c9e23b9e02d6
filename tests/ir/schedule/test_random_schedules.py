"""Random schedules: each is refused, or gives a loop nest that computes the same.

The sequences are made step by step against the state, so that most steps name what is there. Sizes
are small and odd, 0 and 1 among them.
"""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.space import ScheduleSpace
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_nest
from loopwright.ir.loop.verify import verify_nest, verify_prim
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.primitives import PRIMITIVES
from loopwright.ir.schedule.state import State
from loopwright.ir.schedule.steps import SIGNATURES, Schedule, Step, split
from prims import KINDS, make_prim, random_inputs, run_nest

SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8)
LIKELY = ("split", "split", "split", "reorder", "compute_at", "compute_at", "cache_write")


def random_step(rng: random.Random, state: State) -> Step:
    """A step whose arguments exist; whether it is legal is for the primitive to say."""
    name = rng.choice([*SIGNATURES, *LIKELY])
    stages = [s.name for s in state.prim.stages]
    axes = list(state.extents)
    if name == "split":
        axis = rng.choice(axes)
        inner = [rng.randint(1, 5) for _ in range(rng.choice((1, 1, 2)))]
        return split(axis, (max(1, -(-state.extents[axis] // prod(inner))), *inner))
    if name == "fuse":
        at, count = rng.randrange(len(state.order)), rng.choice((2, 2, 3))
        return Step("fuse", (state.order[at : at + count],))
    if name == "pack":
        params = [p.name for p in state.prim.params]
        return Step("pack", (rng.choice(params), rng.choice(axes), rng.randint(1, 4)))
    if name == "split_reduction":
        return Step(name, (rng.choice(stages), rng.choice(axes), rng.randint(2, 4)))
    if name == "cache_write":
        scope = rng.choice(("registers", "stack"))
        return Step(name, (rng.choice(stages), scope, rng.choice(state.order)))
    if name == "cache_read":
        params = [p.name for p in state.prim.params]
        return Step(name, (rng.choice(params), rng.choice(state.order)))
    args: list[object] = []
    for kind in SIGNATURES[name]:
        if kind == "names":
            count = min(len(state.order), rng.choice((2, 3, 4, 99)))
            args.append(tuple(rng.sample(state.order, count)))
        elif (not args and len(SIGNATURES[name]) == 2) or name in ("compute_inline", "stream"):
            args.append(rng.choice(stages))
        else:
            args.append(rng.choice(state.order))
    return Step(name, tuple(args))


def random_schedule(rng: random.Random, state: State) -> Schedule:
    steps: list[Step] = []
    for _ in range(rng.randint(1, 9)):
        if not state.order:
            break
        step = random_step(rng, state)
        try:
            state = PRIMITIVES[step.name](state, *step.args)
        except ScheduleError:
            continue
        steps.append(step)
    return Schedule(tuple(steps))


def check(prim, schedule, seed=0):
    """The nest of a schedule is well formed, reads back, and computes what the PrimFunc says."""
    nest = apply_schedule(prim, schedule)
    verify_nest(nest)
    assert parse_nest(str(nest)) == nest
    inputs = random_inputs(prim, np.random.default_rng(seed))
    expected = evaluate_prim(prim, inputs)
    found = run_nest(nest, inputs)
    for name in prim.outputs:
        np.testing.assert_array_equal(found[name], expected[name], f"{schedule}\n{nest}")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(
    sizes=st.tuples(*[st.sampled_from(SIZES)] * 3),
    rng=st.randoms(use_true_random=False),
)
def test_a_schedule_is_refused_or_right(kind, sizes, rng):
    prim = make_prim(kind, *sizes)
    verify_prim(prim)
    schedule = random_schedule(rng, State.of(prim))
    assert Schedule.from_json(schedule.to_json()) == schedule
    try:
        apply_schedule(prim, schedule)
    except ScheduleError:
        return
    check(prim, schedule)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (0, 3, 2), (3, 0, 2), (5, 19, 3)])
def test_every_row_of_a_space_is_right(kind, sizes):
    prim = make_prim(kind, *sizes)
    rng = np.random.default_rng(sum(sizes))
    space = ScheduleSpace(prim, Target.host())
    rows = np.concatenate([space.default(), space.sample(3, rng)])
    for row in rows[:5]:
        check(prim, space.schedule(row))

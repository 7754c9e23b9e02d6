"""Random schedules: each is refused, or gives a loop nest that computes the same.

Sizes are small and odd, 0 and 1 among them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_nest
from loopwright.ir.loop.verify import verify_nest, verify_prim
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.state import State
from loopwright.ir.schedule.steps import Schedule
from prims import KINDS, make_prim, random_inputs, run_nest
from random_schedules import random_schedule

SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8)


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

"""Normalisation along the first axis: sampled schedules are valid, and right on every target."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright import nn
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.schedule.apply import apply_schedule
from schedule_trial import Trial

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
COUNT = 20


@pytest.mark.parametrize("isa", LEVELS)
def test_sampled_schedules_of_a_layer_norm_of_columns(isa: str) -> None:
    """Its reductions and its map walk the same columns, in vectors that need not divide them."""
    traced = lw.compile(lambda x: nn.layer_norm(x, axis=0)).trace(lw.f32[40, 40])
    (prim,) = kernels_of(lower_module(traced.module)).values()
    target = HOST.with_isa(isa)
    space = ScheduleSpace(prim, target)
    rows = space.sample(COUNT, np.random.default_rng(0))
    assert len(rows) == COUNT
    trial = Trial(prim, 0, target, long_share=1)
    for row in rows:
        schedule = space.schedule(row)
        outcome = trial.run(apply_schedule(prim, schedule), [1, 2])
        assert outcome in ("", "repeated"), f"{outcome}\n{schedule}"
    assert len(trial.texts) > COUNT // 2
    trial.close()

"""Compiled code of random schedules computes what the PrimFunc says, and writes nowhere else."""

import random

import numpy as np
import pytest
from compiled import run_kernel
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.schedule.state import State
from prims import KINDS, make_prim, random_inputs
from random_schedules import random_schedule

SIZES = (1, 2, 3, 5, 8, 17, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_is_refused_or_compiles_to_the_same(kind):
    rng = random.Random(kind)
    target = Target.host()
    for seed in range(12):
        dtype = rng.choice(["int64", "int32", "float32", "float64"])
        prim = make_prim(kind, *(rng.choice(SIZES) for _ in range(3)), dtype=dtype)
        schedule = random_schedule(rng, State.of(prim))
        try:
            kernel = compile_kernel(prim, schedule, target)
        except ScheduleError:
            continue
        inputs = random_inputs(prim, np.random.default_rng(seed))
        expected = evaluate_prim(prim, inputs)
        found = run_kernel(kernel, target, inputs)
        for name, array in zip(prim.outputs, found, strict=True):
            np.testing.assert_array_equal(array, expected[name], f"{schedule}\n{kernel.nest}")

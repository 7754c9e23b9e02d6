"""Operators with statements, compiled: all samples, on every level of instructions.

Older levels than this machine's compile the default schedules alone, each of a quarter of the
samples: a schedule changes the loops, a level the instructions in them.
"""

import numpy as np
import pytest
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.one_kernel import run_kernel
from loopwright.codegen.target import Target
from loopwright.ir.loop.verify import verify_nest, verify_prim
from loopwright.ir.ops import all_operators
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule
from operators import Evaluated, array_type, assert_agree, has_statements, operator_prim, samples_of

STATEMENTS = {name: op for name, op in all_operators().items() if has_statements(op)}


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("isa", ["x86-64", "x86-64-v3", None])
def test_samples_are_compiled(name, isa):
    op, target = STATEMENTS[name], Target.host()
    target = target.with_isa(isa) if isa else target
    samples = samples_of(op)
    if isa is not None:
        samples = samples[2 * (isa != "x86-64") :: 4] or samples[:1]
    for sample in samples:
        attrs = op.complete_attrs(sample.attrs)
        prim = operator_prim(op, [array_type(a) for a in sample.args], attrs)
        verify_prim(prim)
        inputs = {f"x{n}": a for n, a in enumerate(sample.args)}
        expected = op.reference(sample.args, attrs)
        schedules = {default_schedule(prim, target)[0]: None}
        if isa is None:
            space = ScheduleSpace(prim, target)
            schedules[Schedule()] = None
            for row in space.sample(2, np.random.default_rng(1)):
                schedules[space.schedule(row)] = None
        for schedule in schedules:
            verify_nest(apply_schedule(prim, schedule))
            (result,) = run_kernel(compile_kernel(prim, schedule, target), inputs, target, 2)
            assert_agree(Evaluated(result, max(1, expected.size)), expected, sample.args)

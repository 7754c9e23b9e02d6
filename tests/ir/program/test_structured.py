"""Random programs with control flow: the passes change no result."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import HealthCheck, given, settings
from loopwright.ir.program.coalesce import coalesce
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.lifetimes import place_lifetimes
from loopwright.ir.program.nodes import Program
from loopwright.ir.program.order import order_calls
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.planner import lower_bound, plan_memory
from loopwright.ir.program.reads_first import order_reads
from loopwright.ir.program.registers import keep_in_registers
from loopwright.ir.program.return_in_place import return_in_place
from loopwright.ir.program.verify import verify
from random_structured import KERNELS, is_in_place, structured_programs

PASSES = [
    place_lifetimes,
    order_calls,
    partial(return_in_place, safe=is_in_place),
    partial(order_reads, safe=is_in_place),
    partial(coalesce, safe=is_in_place),
    partial(keep_in_registers, parallel=lambda call: call.kernel == "other"),
    plan_memory,
]


def _results(program: Program) -> list[np.ndarray]:
    inputs = [np.array(12345), np.arange(40) * 77 % 1009]
    return interpret(program, inputs, KERNELS)


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(structured_programs())
def test_each_pass_keeps_the_results(program: Program) -> None:
    expected = _results(verify(program))
    for change in PASSES:
        program = verify(change(program))
        assert change(program) is program
        for got, wanted in zip(_results(program), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
    assert parse_program(str(program)) == program
    assert lower_bound(program) <= (program.arena or 0) <= 1.5 * lower_bound(program)


@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(structured_programs())
def test_the_pipeline_settles_at_once(program: Program) -> None:
    after = verify(optimise(program, is_in_place))
    assert optimise(after, is_in_place) is after
    if after.updates:
        x = np.arange(40) * 77 % 1009
        interpret(after, [np.array(12345), x], KERNELS, update=True)
        np.testing.assert_array_equal(x, _results(program)[-1])

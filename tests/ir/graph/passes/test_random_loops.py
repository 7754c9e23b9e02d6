"""The passes over functions, branches and loops, one by one, on random programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from control_ways import failure
from graphs import assert_same_value
from loopwright.driver.built import Built
from loopwright.face.compiled_function import CompiledFunction
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.passes.batch_while_loops import batch_while_loops
from loopwright.ir.graph.passes.evaluate_partially import evaluate_partially
from loopwright.ir.graph.passes.fold_branches import fold_branches
from loopwright.ir.graph.passes.hoist_invariants import hoist_invariants
from loopwright.ir.graph.passes.inline_calls import inline_calls
from loopwright.ir.graph.passes.lower_to_primitives import lower_to_primitives
from loopwright.ir.graph.passes.merge_mutual_recursion import merge_mutual_recursion
from loopwright.ir.graph.passes.reduce_carries import reduce_carries
from loopwright.ir.graph.passes.simplify import simplify
from loopwright.ir.graph.passes.tail_calls_to_loops import tail_calls_to_loops
from loopwright.ir.graph.passes.unroll_loops import unroll_loops
from loopwright.ir.graph.passes.vectorise_loops import vectorise_loops
from loopwright.ir.graph.passes.while_to_for import while_to_for
from loopwright.ir.graph.verify import verify
from random_control import draw_control
from random_draw import RandomDraw

PASSES = (
    *(simplify, fold_branches, merge_mutual_recursion, evaluate_partially, tail_calls_to_loops),
    *(inline_calls, fold_branches, reduce_carries, while_to_for, lower_to_primitives),
    *(hoist_invariants, vectorise_loops, batch_while_loops, unroll_loops),
)


class PassByPass(CompiledFunction):
    """A compiled function whose graph the interpreter runs after each pass, with equal results."""

    def _build(self, traced: Any, *_: Any) -> Any:
        def run(arrays: Any) -> list[Any]:
            module = traced.module
            expected = evaluate(module, *arrays)
            for step in PASSES:
                module = verify(step(module))
                assert verify(step(module)) is module, step.__name__
                assert_same_value(evaluate(module, *arrays), expected, rtol=1e-9)
            results = expected if isinstance(expected, tuple) else (expected,)
            return [np.array(value) for value in results]  # an argument may be a result

        return Built(run)


@pytest.mark.parametrize("first", range(2000, 2050, 10))
def test_each_pass_keeps_the_meaning(first: int) -> None:
    for seed in range(first, first + 10):
        program = draw_control(RandomDraw(seed))
        text = failure(program, {"passes": PassByPass})
        assert not text or text.startswith("refused"), f"seed {seed}: {text}\n{program}"

"""What is computed before the program runs."""

from __future__ import annotations

import numpy as np
from graphs import check_pass, module, parse, tensor
from hypothesis import given, settings
from loopwright.ir.graph.nodes import Constant, Module
from loopwright.ir.graph.passes import fold_constants
from loopwright.ir.graph.verify import verify
from random_graphs import random_modules

W = np.arange(6, dtype="float32").reshape(2, 3)


def test_weights_are_transposed_once() -> None:
    check_pass(
        fold_constants,
        before="""fn (%x: Tensor[(4, 3), float32]) {
          %0 = transpose(meta[w]);
          nn.matmul(%x, multiply(%0, 2f))
        }""",
        after="fn (%x: Tensor[(4, 3), float32]) { nn.matmul(%x, meta[v]) }",
        constants={"w": W, "v": 2 * W.T},
    )


def test_folded_constants_keep_the_name_and_own_their_memory() -> None:
    program = parse("fn () { transpose(meta[w]) }", {"w": W})
    (result,) = [fold_constants(program).main.body.result]
    assert isinstance(result, Constant)
    assert result.name == "w"
    assert not result.value.flags.writeable
    assert not np.shares_memory(result.value, W)


def test_big_results_of_small_operands_are_left() -> None:
    text = "fn () { broadcast_to(1f, shape=[1000, 1000]) }"
    check_pass(fold_constants, before=text, after=text)


def test_arrays_that_count_or_repeat_are_left_to_the_kernel() -> None:
    text = 'fn () { full(shape=[8], fill_value=1.5, dtype="float32") }'
    check_pass(fold_constants, before=text, after=text)
    check_pass(
        fold_constants,
        before='fn () { full(shape=[], fill_value=1.5, dtype="float32") }',
        after="fn () { 1.5f }",
    )


def test_results_that_are_tuples() -> None:
    program = parse("fn () { %0 = split(meta[w], indices_or_sections=3, axis=1); %0.2 }", {"w": W})
    result = verify(fold_constants(program)).main.body.result
    assert isinstance(result, Constant)
    np.testing.assert_array_equal(result.value, W[:, 2:])


def test_known_conditions_leave_one_branch() -> None:
    check_pass(
        fold_constants,
        before="""fn (%x: float32) {
          %0 = less(1f, 2f);
          if (%0) { %1 = exp(%x); if (False) { %1 } else { sin(%1) } } else { %x }
        }""",
        after="fn (%x: float32) { %0 = exp(%x); sin(%0) }",
    )


def test_warnings_of_numpy_stay_inside() -> None:
    check_pass(fold_constants, before="fn () { divide(1f, log(0f)) }", after="fn () { -0f }")


@settings(max_examples=50)
@given(random_modules())
def test_nothing_to_fold_or_stable_after(program: Module) -> None:
    result = verify(fold_constants(program))
    assert fold_constants(result) is result


def test_symbolic_sizes_are_left() -> None:
    from loopwright.ir.dims import symbol

    n = symbol("n")
    one = Constant(np.ones((), "float32"))
    program = module(lambda m, x: m.add(x, m.broadcast_to(one, shape=(n,))), tensor(n))
    assert fold_constants(program) is program

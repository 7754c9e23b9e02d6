"""What is computed before the program runs."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from graphs import check_pass, module, parse, tensor
from hypothesis import given, settings
from loopwright.ir.dtype import dtype_of
from loopwright.ir.graph.nodes import Constant, Module
from loopwright.ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from loopwright.ir.graph.passes.fold_constants import fold_constants
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


def folded(program: Module) -> Module:
    return eliminate_dead_code(fold_constants(program))


def test_costly_functions_of_an_arange_are_computed_now() -> None:
    check_pass(
        folded,
        before="""fn (%x: Tensor[(65536), float32]) {
          %0 = arange(stop=65536, dtype="float32");
          add(%x, sin(%0))
        }""",
        after="fn (%x: Tensor[(65536), float32]) { add(%x, meta[s]) }",
        constants={"s": np.sin(np.arange(65536, dtype="float32"))},
    )


def test_a_cheap_map_of_an_arange_is_folded_if_it_is_small() -> None:
    check_pass(
        folded,
        before="""fn (%x: Tensor[(8), float32]) {
          %0 = arange(stop=8, dtype="float32");
          multiply(%x, add(%0, 1f))
        }""",
        after="fn (%x: Tensor[(8), float32]) { multiply(%x, meta[s]) }",
        constants={"s": np.arange(1, 9, dtype="float32")},
    )
    text = """fn (%x: Tensor[(4096, 4096), float32]) {
      %0 = arange(stop=4096);
      %1 = reshape(%0, newshape=[4096, 1]);
      %2 = greater_equal(%1, %0);
      where(%2, %x, 0f)
    }"""
    check_pass(folded, before=text, after=text)


def test_a_sum_over_what_was_left_is_computed_now() -> None:
    check_pass(
        folded,
        before="""fn () {
          %0 = iota(shape=[512, 512], axis=1, dtype="int64");
          %1 = add(%0, 1i64);
          sum(%1)
        }""",
        after="fn () { 67239936i64 }",
    )


def test_maps_of_arrays_of_one_value_hold_one_value() -> None:
    check_pass(
        folded,
        before="""fn (%x: Tensor[(3, 4), float32]) {
          %0 = full(shape=[4], fill_value=1.5);
          %1 = broadcast_to(multiply(%0, 2f), shape=[3, 4]);
          add(%x, %1)
        }""",
        after="""fn (%x: Tensor[(3, 4), float32]) {
          %0 = full(shape=[3, 4], fill_value=3.0);
          add(%x, %0)
        }""",
    )


def test_what_a_loop_begins_as_is_no_big_constant() -> None:
    def stacked(xs: Any) -> Any:
        return lw.scan(lambda carry, x: (carry + x, carry), 0.0, xs)[1]

    xs = np.arange(20_000.0)
    compiled = lw.compile(stacked)
    program = compiled.lower(xs).as_text("program")
    assert "call @full(@out %out)" in program
    np.testing.assert_array_equal(compiled(xs), np.cumsum(xs) - xs)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "bfloat16"])
def test_narrow_weights_stay_narrow(dtype) -> None:
    w = np.random.default_rng(0).integers(0, 100, (256, 300)).astype(dtype_of(dtype).numpy)
    x = np.random.default_rng(1).random((2, 256), np.float32)
    compiled = lw.compile(lambda x: x @ lw.xp.astype(lw.xp.asarray(w), np.float32))
    np.testing.assert_allclose(compiled(x), x.astype("d") @ w.astype("d"), rtol=1e-5)
    assert f"(256, 300), {dtype}]" in compiled.lower(x).as_text("kernels")


def test_few_narrow_elements_are_widened_when_compiled() -> None:
    w = np.arange(256, dtype=np.int8).reshape(16, 16)
    text = lw.compile(lambda x: x @ w).lower(np.ones((2, 16), np.float32)).as_text("kernels")
    assert "int8" not in text

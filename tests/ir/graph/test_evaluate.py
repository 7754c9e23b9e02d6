"""The interpreter that defines what a graph means."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import module, tensor
from loopwright.ir.dims import symbol
from loopwright.ir.errors import InternalError, LoopwrightTypeError
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.parser import parse_function, parse_module


def test_operators_and_tuples() -> None:
    x = np.arange(4, dtype="float32")
    made = parse_function("fn (%x: Tensor[(4), float32]) { %0 = (exp(%x), %x); (%0.1, %0.0) }")
    first, second = evaluate(made, x)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, np.exp(x))


def test_tuples_as_arguments() -> None:
    made = parse_function("fn (%p: (float32, float32)) { subtract(%p.0, %p.1) }")
    assert evaluate(made, (np.float32(3), np.float32(1))) == 2


def test_recursion_deeper_than_python_allows() -> None:
    program = parse_module(
        """
        def @main(%n: int64) -> int64 {
          if (less_equal(%n, 0i64)) { 0i64 } else { add(%n, @main(subtract(%n, 1i64))) }
        }"""
    )
    assert evaluate(program, np.int64(20_000)) == 20_000 * 20_001 // 2


def test_function_longer_than_python_allows() -> None:
    def make(m, x):
        for _ in range(100_000):
            x = m.negative(x)
        return x

    assert evaluate(module(make, tensor(1)), np.ones(1, "float32")) == 1


def test_closures_keep_what_they_were_made_with() -> None:
    program = parse_module(
        """
        def @adder(%a: float32) -> fn (Tensor[(), float32]) -> Tensor[(), float32] {
          %b = multiply(%a, 2f);
          fn (%x: float32) -> float32 { add(%x, %b) }
        }
        def @main(%x: float32) -> float32 {
          %f = @adder(1f);
          %g = @adder(10f);
          %0 = %f(%x);
          %g(%0)
        }"""
    )
    assert evaluate(program, np.float32(0)) == 22


def test_functions_as_arguments() -> None:
    program = parse_module(
        """
        def @twice(%f: fn (float32) -> float32, %x: float32) -> float32 { %f(%f(%x)) }
        def @double(%x: float32) -> float32 { add(%x, %x) }
        def @main(%x: float32) -> float32 { @twice(@double, %x) }"""
    )
    assert evaluate(program, np.float32(3)) == 12


def test_symbolic_sizes_come_from_the_arguments() -> None:
    n = symbol("n")
    program = module(lambda m, x: m.reshape(x, newshape=(2 * n,)), tensor(n, 2))
    assert evaluate(program, np.zeros((3, 2), "float32")).shape == (6,)


def test_only_the_branch_taken_is_computed() -> None:
    program = parse_module(
        """
        def @main(%p: bool) -> float32 { if (%p) { 1f } else { @forever(2f) } }
        def @forever(%x: float32) -> float32 { @forever(%x) }"""
    )
    assert evaluate(program, np.bool_(True)) == 1


def test_arguments_that_do_not_fit() -> None:
    n = symbol("n")
    program = module(lambda m, x, y: m.add(x, y), tensor(n), tensor(n))
    with pytest.raises(LoopwrightTypeError) as caught:
        evaluate(program, np.zeros(3, "float32"), np.zeros(4, "float32"))
    message = "argument x1 is Tensor[(4), float32], not Tensor[(n), float32]"
    assert caught.value.message == message
    with pytest.raises(LoopwrightTypeError, match="takes 2 arguments, not 1"):
        evaluate(program, np.zeros(3, "float32"))
    with pytest.raises(LoopwrightTypeError, match="float64"):
        evaluate(program, np.zeros(3), np.zeros(3))


def test_kernels_need_somebody_to_compute_them() -> None:
    with pytest.raises(InternalError, match="is not a graph function"):
        from loopwright.ir.graph.nodes import Module
        from loopwright.ir.loop.prim import PrimFunc

        evaluate(Module({"main": PrimFunc("main", (), (), ())}))

"""The interpreter that defines what a graph means."""

from __future__ import annotations

import tracemalloc

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


COLLATZ = """
fn (%n: int64) -> (int64, int64) {
  while (%k = %n, %steps = 0i64) { not_equal(%k, 1i64) } do {
    %odd = equal(floor_mod(%k, 2i64), 1i64);
    %next = if (%odd) { add(multiply(%k, 3i64), 1i64) } else { floor_divide(%k, 2i64) };
    (%next, add(%steps, 1i64))
  }
}"""


def test_while_carries_values_until_its_condition_fails() -> None:
    collatz = parse_function(COLLATZ)
    assert evaluate(collatz, np.int64(27)) == (1, 111)
    assert evaluate(collatz, np.int64(1)) == (1, 0)


def test_loops_inside_of_loops_see_the_variables_around_them() -> None:
    triangle = parse_function(
        """fn (%n: int64) {
          %total = for (%i < %n; %s = 0i64) {
            %row = for (%j < %i; %t = %s) { (add(%t, add(multiply(%i, %j), %n)),) };
            (%row.0,)
          };
          %total.0
        }"""
    )
    for n in (-1, 0, 1, 5):
        expected = sum(i * j + n for i in range(n) for j in range(i))
        assert evaluate(triangle, np.int64(n)) == expected


def test_carried_values_change_all_at_once() -> None:
    swap = parse_function(
        "fn (%a: float32, %b: float32) { for (%i < 3i64; %x = %a, %y = %b) { (%y, %x) } }"
    )
    assert evaluate(swap, np.float32(1), np.float32(2)) == (2, 1)


def test_loops_without_carry_end() -> None:
    assert evaluate(parse_function("fn () { for (%i < 3i64) { () } }")) == ()
    assert evaluate(parse_function("fn () { while () { False } do { () } }")) == ()


def test_closures_made_in_a_loop_keep_the_values_of_their_iteration() -> None:
    program = parse_function(
        """fn () {
          %first = fn (%x: int64) -> int64 { %x };
          %last = for (%i < 3i64; %f = %first) {
            %g = fn (%x: int64) -> int64 { add(%f(%x), %i) };
            (%g,)
          };
          %h = %last.0;
          %h(10i64)
        }"""
    )
    assert evaluate(program) == 13


def test_iterations_take_no_memory() -> None:
    count = parse_function(
        "fn (%n: int64) { while (%k = 0i64) { less(%k, %n) } do { (add(%k, 1i64),) } }"
    )
    tracemalloc.start()
    try:
        assert evaluate(count, np.int64(5_000)) == (5_000,)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000, "iterations leave something behind"


def test_function_longer_than_python_allows() -> None:
    def make(m, x):
        for _ in range(30_000):
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

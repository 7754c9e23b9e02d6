"""Common subexpressions and dead code."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from graphs import assert_same_value, check_pass, module, parse, random_args, tensor
from hypothesis import given, settings
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Constant, Module
from loopwright.ir.graph.passes.eliminate_common_subexpressions import (
    eliminate_common_subexpressions as share,
)
from loopwright.ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from loopwright.ir.graph.verify import verify
from random_graphs import random_modules


def test_chains_of_equal_values_collapse() -> None:
    check_pass(
        share,
        before="""fn (%x: float32) {
          %0 = exp(%x); %1 = sin(%0); %2 = exp(%x); %3 = sin(%2); (%1, %3)
        }""",
        after="fn (%x: float32) { %0 = exp(%x); %1 = sin(%0); (%1, %1) }",
    )


def test_attributes_and_constants_tell_values_apart() -> None:
    text = """fn (%x: Tensor[(2, 2), float32]) {
      (sum(%x, axis=[0]), sum(%x, axis=[1]), add(%x, 0f), add(%x, -0f), add(%x, 1f))
    }"""
    check_pass(share, before=text, after=text)


def test_small_constants_are_equal_by_content_and_big_ones_by_identity() -> None:
    def make(m, x):
        return [m.add(x, c) for c in constants]

    small = np.arange(4, dtype="float32")
    constants = [Constant(small), Constant(small.copy())]
    assert len(share(module(make, tensor(4))).main.body.bindings) == 2  # one add, the tuple
    big = np.zeros(1 << 14, "float32")
    constants = [Constant(big), Constant(big), Constant(big.copy())]
    assert len(share(module(make, tensor(1 << 14))).main.body.bindings) == 3


def test_branches_use_what_was_before_them_and_keep_what_is_theirs() -> None:
    check_pass(
        share,
        before="""fn (%p: bool, %x: float32) {
          %0 = exp(%x);
          %1 = if (%p) { %2 = exp(%x); %3 = sin(%x); add(%2, %3) } else { sin(%x) };
          %4 = sin(%x);
          add(%1, %4)
        }""",
        after="""fn (%p: bool, %x: float32) {
          %0 = exp(%x);
          %1 = if (%p) { %3 = sin(%x); add(%0, %3) } else { sin(%x) };
          %4 = sin(%x);
          add(%1, %4)
        }""",
    )


def test_calls_of_functions_are_shared_since_they_are_pure() -> None:
    callee = "def @f(%x: float32) -> float32 { exp(%x) }"
    check_pass(
        share,
        before=f"def @main(%x: float32) -> float32 {{ add(@f(%x), @f(%x)) }} {callee}",
        after=f"def @main(%x: float32) -> float32 {{ %0 = @f(%x); add(%0, %0) }} {callee}",
    )


def test_values_from_before_a_loop_are_known_in_it_and_not_the_other_way() -> None:
    check_pass(
        share,
        before="""fn (%n: int64, %x: float32) {
          %0 = exp(%x);
          %1 = while (%a = %x, %k = 0f) { less(add(exp(%x), %k), sin(%a)) } do {
            (add(add(exp(%x), sin(%a)), sin(%a)), add(%k, 1f))
          };
          %2 = sin(%x);
          (%1.0, %1.0, %0, %2)
        }""",
        after="""fn (%n: int64, %x: float32) {
          %0 = exp(%x);
          %1 = while (%a = %x, %k = 0f) { less(add(%0, %k), sin(%a)) } do {
            %s = sin(%a);
            (add(add(%0, %s), %s), add(%k, 1f))
          };
          %2 = sin(%x);
          %3 = %1.0;
          (%3, %3, %0, %2)
        }""",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # a ring of values that only feed each other
            """fn (%x: float32) {
              %0 = while (%a = %x, %k = 0f, %b = %x, %c = %x) { less(%k, 9f) } do {
                (add(%b, %c), add(%k, 1f), %c, %a)
              };
              %0.1
            }""",
            """fn (%x: float32) {
              %0 = while (%k = 0f) { less(%k, 9f) } do { (add(%k, 1f),) };
              %0.0
            }""",
        ),
        (  # the condition is a user, also if nobody reads the value behind the loop
            """fn (%x: float32) {
              %0 = while (%a = %x, %k = 0f) { less(%k, 9f) } do { (exp(%a), add(%k, 1f)) };
              %0.0
            }""",
            """fn (%x: float32) {
              %0 = while (%a = %x, %k = 0f) { less(%k, 9f) } do { (exp(%a), add(%k, 1f)) };
              %0.0
            }""",
        ),
        (
            """fn (%x: float32, %n: int64) {
              %0 = for (%i < %n; %a = %x) { (exp(%a),) };
              %1 = %0.0;
              sin(%x)
            }""",
            "fn (%x: float32, %n: int64) { sin(%x) }",
        ),
        (  # fields of branches, through other names and other loops' results
            """fn (%x: float32, %p: bool, %n: int64) {
              %0 = if (%p) { (exp(%x), sin(%x), %x) } else {
                for (%i < %n; %a = %x, %b = %x, %c = %x) { (sin(%b), %b, exp(%c)) }
              };
              %1 = %0;
              %1.0
            }""",
            """fn (%x: float32, %p: bool, %n: int64) {
              %0 = if (%p) { (exp(%x),) } else {
                %1 = for (%i < %n; %a = %x, %b = %x) { (sin(%b), %b) };
                (%1.0,)
              };
              %0.0
            }""",
        ),
        (  # an inner loop that is dead once the outer one does not carry its result
            """fn (%x: float32, %n: int64) {
              %0 = for (%i < %n; %a = %x, %b = %x) {
                %1 = for (%j < %i; %c = %b) { (exp(%c),) };
                (sin(%a), %1.0)
              };
              %0.0
            }""",
            """fn (%x: float32, %n: int64) {
              %0 = for (%i < %n; %a = %x) { (sin(%a),) };
              %0.0
            }""",
        ),
        (
            "fn (%n: int64) { for (%i < %n) { () } }",
            "fn (%n: int64) { for (%i < %n) { () } }",
        ),
    ],
)
def test_loops_and_branches_give_what_is_used(before: str, after: str) -> None:
    check_pass(eliminate_dead_code, before=before, after=after)


def test_dead_code_in_branches_and_functions() -> None:
    check_pass(
        eliminate_dead_code,
        before="""fn (%p: bool, %x: float32) {
          %0 = exp(%x);
          %1 = sin(%x);
          %f = fn (%y: float32) { %2 = cos(%y); %3 = add(%y, %1); %3 };
          if (%p) { %4 = tan(%0); %f(%x) } else { %x }
        }""",
        after="""fn (%p: bool, %x: float32) {
          %1 = sin(%x);
          %f = fn (%y: float32) { %3 = add(%y, %1); %3 };
          if (%p) { %f(%x) } else { %x }
        }""",
    )


def test_functions_that_call_each_other_go_if_nobody_else_calls_them() -> None:
    circle = """
      def @f(%x: float32) -> float32 { @g(%x) }
      def @g(%x: float32) -> float32 { @f(%x) }"""
    check_pass(
        eliminate_dead_code,
        before="def @main(%x: float32) -> float32 { %x }" + circle,
        after="def @main(%x: float32) -> float32 { %x }",
    )
    program = parse(circle)
    assert eliminate_dead_code(program) is program


@settings(max_examples=100)
@given(random_modules())
def test_meaning_is_kept(program: Module) -> None:
    args = random_args(program)
    for step in (share, eliminate_dead_code):
        result = verify(step(program))
        assert step(result) is result
        assert_same_value(evaluate(result, *args), evaluate(program, *args), rtol=0)


def test_reductions_are_shared_whether_or_not_they_keep_their_axes() -> None:
    check_pass(
        share,
        before="""fn (%x: Tensor[(2, 3), float32]) {
          %0 = sum(%x, axis=[0]); %1 = divide(%0, 2f);
          %2 = sum(%x, axis=[0], keepdims=True); %3 = divide(%2, 2f); %4 = sqrt(%3);
          %5 = sqrt(%1);
          (%1, %3, %4, %5)
        }""",
        after="""fn (%x: Tensor[(2, 3), float32]) {
          %0 = sum(%x, axis=[0]); %1 = divide(%0, 2f);
          %2 = reshape(%0, newshape=[1, 3]); %3 = reshape(%1, newshape=[1, 3]); %4 = sqrt(%3);
          %5 = reshape(%4, newshape=[3]);
          (%1, %3, %4, %5)
        }""",
    )


def test_axes_of_size_1_tell_values_apart_that_are_broadcast() -> None:
    # Square: a row added to the matrix is not a column added to it.
    text = """fn (%x: Tensor[(3, 3), float32]) {
      %0 = sum(%x, axis=[1]); %1 = add(%x, %0);
      %2 = reshape(%0, newshape=[3, 1]); %3 = add(%x, %2);
      %4 = max(%x, axis=[1], keepdims=True); %5 = max(%x, axis=[0], keepdims=True);
      %6 = add(%4, %5);
      (%1, %3, %6)
    }"""
    check_pass(share, before=text, after=text)


def test_histograms_of_one_array_share_their_bins() -> None:
    def means(values: Any, weights: Any) -> Any:
        return np.histogram(values, 900, weights=weights)[0] / np.histogram(values, 900)[0]

    values, weights = np.random.default_rng(0).random((2, 20000))
    compiled = lw.compile(means)
    program = compiled.lower(values, weights).as_text("program")
    assert sum("@in %values" in line for line in program.splitlines()[1:]) <= 3
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = means(values, weights)
    np.testing.assert_allclose(compiled(values, weights), expected, rtol=1e-12)

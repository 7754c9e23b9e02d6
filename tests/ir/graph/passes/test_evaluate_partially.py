"""Recursive calls whose arguments are known."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import parse
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Module
from loopwright.ir.graph.passes.evaluate_partially import MOST_UNFOLDED, evaluate_partially
from loopwright.ir.graph.verify import verify
from loopwright.ir.graph.walk import count_bindings, global_variables, setters

ACKERMANN = """
  def @f(%m: int64, %n: int64) -> int64 {
    if (equal(%m, 0i64)) { add(%n, 1i64) } else {
      if (equal(%n, 0i64)) { @f(subtract(%m, 1i64), 1i64) } else {
        @f(subtract(%m, 1i64), @f(%m, subtract(%n, 1i64)))
      }
    }
  }"""


def evaluated(text: str, *args: object) -> Module:
    """The module after the pass, which a second run leaves alone."""
    before = verify(parse(text))
    after = verify(evaluate_partially(before))
    assert evaluate_partially(after) is after
    np.testing.assert_equal(evaluate(after, *args), evaluate(before, *args))
    return after


@pytest.mark.parametrize("n", [0, 1, 24])
def test_fibonacci_numbers_take_linear_time(n: int) -> None:
    module = evaluated(f"""
      def @main(%x: int64) -> int64 {{ add(%x, @f({n}i64)) }}
      def @f(%n: int64) -> int64 {{
        if (less(%n, 2i64)) {{ %n }} else {{
          add(@f(subtract(%n, 1i64)), @f(subtract(%n, 2i64)))
        }}
      }}""", np.int64(3))  # fmt: skip
    assert list(module.functions) == ["main"] and count_bindings(module.main) == 1


def test_calls_that_are_arguments_of_calls() -> None:
    module = evaluated("def @main() -> int64 { @f(2i64, 3i64) }" + ACKERMANN)
    assert list(module.functions) == ["main"] and evaluate(module) == 9


def test_constants_are_seen_through_operators_and_tuples() -> None:
    module = evaluated(
        """
        def @main(%x: float32) -> float32 {
          %n = add(1, 2);
          %p = (%n, %x);
          @f(%p)
        }
        def @f(%p: (int32, float32)) -> float32 {
          if (equal(%p.0, 0)) { %p.1 } else {
            %less = subtract(%p.0, 1);
            %doubled = add(%p.1, %p.1);
            %q = (%less, %doubled);
            @f(%q)
          }
        }""",
        np.float32(1),
    )
    assert list(module.functions) == ["main"]


@pytest.mark.parametrize(
    "call",
    [
        "@f(%x, 100000)",  # too much is left
        "@g(%x, 0)",  # it may go on for ever
        "@g(%x, 100000)",
        "@h(%x, 1)",  # it does
    ],
)
def test_what_does_not_end_soon_is_called(call: str) -> None:
    program = parse(f"""
      def @main(%x: float32) -> float32 {{ {call} }}
      def @f(%x: float32, %n: int32) -> float32 {{
        if (equal(%n, 0)) {{ %x }} else {{ add(%x, @f(%x, subtract(%n, 1))) }}
      }}
      def @g(%x: float32, %n: int32) -> float32 {{
        if (less(%x, 0f)) {{ %x }} else {{ @g(sin(%x), add(%n, 1)) }}
      }}
      def @h(%x: float32, %n: int32) -> float32 {{ @h(%x, subtract(1, %n)) }}""")
    assert evaluate_partially(program) is program


def test_branches_that_stay_are_nested_a_few_times_at_most() -> None:
    text = """
      def @main(%x: float32) -> float32 {{ @f(%x, {n}) }}
      def @f(%x: float32, %n: int32) -> float32 {{
        if (equal(%n, 0)) {{ %x }} else {{
          if (less(%x, 0f)) {{ @f(sin(%x), subtract(%n, 1)) }} else {{ %x }}
        }}
      }}"""
    assert list(evaluated(text.format(n=3), np.float32(-2)).functions) == ["main"]
    assert len(evaluated(text.format(n=30), np.float32(-2)).functions) == 2


def test_trees_leave_few_bindings() -> None:
    text = """
      def @main(%x: float32) -> float32 {{ @f(%x, {n}) }}
      def @f(%x: float32, %n: int32) -> float32 {{
        if (equal(%n, 0)) {{ %x }} else {{
          %m = subtract(%n, 1);
          subtract(@f(sin(%x), %m), @f(cos(%x), %m))
        }}
      }}"""
    assert list(evaluated(text.format(n=3), np.float32(2)).functions) == ["main"]
    module = evaluated(text.format(n=12), np.float32(2))
    assert len(module.functions) == 2 and count_bindings(module.main) < MOST_UNFOLDED


def test_constants_that_are_handed_on_get_a_function() -> None:
    module = evaluated(
        """
        def @main(%x: float32, %n: int32) -> (float32, float32, float32, float32) {
          %0 = @f(%x, 2f, %n);
          %1 = @f(%0, 2f, %n);
          %2 = @f(%1, 3f, %n);
          %3 = @f(%x, %2, %n);
          (%0, %1, %2, %3)
        }
        def @f(%x: float32, %step: float32, %n: int32) -> float32 {
          if (equal(%n, 0)) { %x } else {
            add(%step, sin(@f(multiply(%x, %step), %step, subtract(%n, 1))))
          }
        }""",
        np.float32(1),
        np.int32(4),
    )
    assert list(module.functions) == ["main", "f", "f_1", "f_2"]
    assert [len(f.params) for f in module.functions.values()] == [2, 3, 2, 2]
    assert global_variables(module.main) == {"f": 1, "f_1": 2, "f_2": 1}


def test_loops_inside_are_copied() -> None:
    module = evaluated(
        """
        def @main(%x: float32) -> float32 { @f(%x, 3) }
        def @f(%x: float32, %n: int32) -> float32 {
          if (equal(%n, 0)) { %x } else {
            %0 = for (%i < 3i64; %y = %x) { %1 = sin(%y); (%1,) };
            @f(%0.0, subtract(%n, 1))
          }
        }""",
        np.float32(1),
    )
    assert list(module.functions) == ["main"] and str(module).count("for (") == 3


def test_each_call_sets_sizes_of_its_own() -> None:
    module = evaluated(
        """
        def @main(%x: Tensor[(6), bool], %y: Tensor[(6), bool]) -> int64 { @f(%x, %y, 2) }
        def @f[s in 0..6](%x: Tensor[(6), bool], %y: Tensor[(6), bool], %n: int32) -> int64 {
          %0 = sum(cast(%x, dtype="int64"), axis=[0]);
          %1 = set_size(%0, size=s, most=6);
          %2 = sum(true_places(%x, size=s), axis=[0]);
          if (equal(%n, 0)) { %2 } else { add(%2, @f(%y, %x, subtract(%n, 1))) }
        }""",
        np.array([True, False, True, True, False, True]),
        np.array([False, True, False, False, False, False]),
    )
    assert list(module.functions) == ["main"] and len(setters(module.main)) == 3

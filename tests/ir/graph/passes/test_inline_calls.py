"""Functions in the place of their calls."""

from __future__ import annotations

import numpy as np
from graphs import check_pass, parse
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.passes.inline_calls import inline_calls
from loopwright.ir.graph.verify import verify


def test_innermost_first_and_in_branches() -> None:
    check_pass(
        inline_calls,
        before="""
          def @main(%p: bool, %x: float32) -> float32 { if (%p) { @outer(%x) } else { %x } }
          def @outer(%x: float32) -> float32 { exp(@inner(%x)) }
          def @inner(%x: float32) -> float32 { sin(%x) }""",
        after="""def @main(%p: bool, %x: float32) -> float32 {
          if (%p) { %0 = sin(%x); exp(%0) } else { %x }
        }""",
    )


def test_recursive_functions_stay_but_what_they_call_is_inlined() -> None:
    text = """
      def @main(%x: float32) -> float32 { @twice(@loop(%x)) }
      def @loop(%x: float32) -> float32 {
        if (less(%x, 1f)) { %x } else { @loop(@half(%x)) }
      }
      def @half(%x: float32) -> float32 { multiply(%x, 0.5f) }
      def @twice(%x: float32) -> float32 { add(%x, %x) }"""
    program = parse(text)
    result = verify(inline_calls(program))
    assert list(result.functions) == ["main", "loop"]
    assert inline_calls(result) is result
    assert evaluate(result, np.float32(40)) == evaluate(program, np.float32(40)) == 1.25


def test_functions_that_are_bound_or_handed_over() -> None:
    check_pass(
        inline_calls,
        before="""fn (%x: float32) {
          %f = fn (%y: float32) { add(%y, %x) };
          %0 = %f(%x);
          %f(%0)
        }""",
        after="""fn (%x: float32) { %0 = add(%x, %x); add(%0, %x) }""",
    )
    check_pass(
        inline_calls,
        before="""
          def @twice(%f: fn (float32) -> float32, %x: float32) -> float32 { %f(%f(%x)) }
          def @main(%x: float32) -> float32 { %g = fn (%y: float32) { exp(%y) }; @twice(%g, %x) }
        """,
        after="""def @main(%x: float32) -> float32 { %0 = exp(%x); exp(%0) }""",
    )


def test_groups_stay() -> None:
    text = """
      def @main(%x: float32) -> float32 { @group(%x) }
      def @group(%x: float32, primitive=True, pattern=0) -> float32 { exp(%x) }"""
    check_pass(inline_calls, before=text, after=text)


def test_long_functions_are_copied_only_once() -> None:
    def program(calls: str) -> str:
        body = "".join(f"%{i + 1} = sin(%{i}); " for i in range(1500))
        return f"""
          def @main(%x: float32) -> float32 {{ {calls} }}
          def @long(%0: float32) -> float32 {{ {body} cos(%1500) }}"""

    assert len(inline_calls(parse(program("@long(%x)"))).functions) == 1
    twice = parse(program("@long(@long(%x))"))
    assert inline_calls(twice) is twice

"""Recursive functions: what becomes a loop, and what is merged."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import check_pass, parse, structural_equal
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Module, While
from loopwright.ir.graph.passes.merge_mutual_recursion import merge_mutual_recursion
from loopwright.ir.graph.passes.tail_calls_to_loops import tail_calls_to_loops
from loopwright.ir.graph.pipeline import GRAPH, default_pipeline
from loopwright.ir.graph.verify import verify
from loopwright.ir.graph.walk import global_variables
from loopwright.ir.pass_context import PassContext


def looped(text: str) -> Module:
    """The module with loops, which a second run leaves alone."""
    result = verify(tail_calls_to_loops(verify(parse(text))))
    assert tail_calls_to_loops(result) is result
    return result


def check_loop(text: str, *arguments: tuple[object, ...], name: str = "f") -> Module:
    """``@f`` calls itself no longer, and main's results are the same."""
    before, after = parse(text), looped(text)
    assert name not in global_variables(after.functions[name])
    for args in arguments:
        expected, result = evaluate(before, *args), evaluate(after, *args)
        np.testing.assert_equal(result, expected)
    return after


def test_several_calls_and_several_results() -> None:
    collatz = """
      def @main(%n: int64) -> (int64, int64) { @f(%n, 0i64, %n) }
      def @f(%n: int64, %steps: int64, %most: int64) -> (int64, int64) {
        if (less(%n, 2i64)) { (%steps, %most) } else {
          %even = equal(floor_mod(%n, 2i64), 0i64);
          %more = add(%steps, 1i64);
          if (greater(%steps, 100i64)) { (-1i64, %most) } else {
            if (%even) { @f(floor_divide(%n, 2i64), %more, %most) } else {
              %up = add(multiply(%n, 3i64), 1i64);
              @f(%up, %more, maximum(%most, %up))
            }
          }
        }
      }"""
    result = check_loop(collatz, *((np.int64(n),) for n in (0, 1, 2, 6, 7, 25, 27)))
    loop = next(b.value for b in result.functions["f"].body.bindings if isinstance(b.value, While))
    assert len(loop.params) == 3  # it decides first: results are not carried


def test_a_decision_that_takes_long_is_made_once() -> None:
    newton = """
      def @main(%a: Tensor[(9, 9), float32], %x: Tensor[(9), float32]) -> Tensor[(9), float32] {
        @f(%a, %x, 0)
      }
      def @f(%a: Tensor[(9, 9), float32], %x: Tensor[(9), float32], %n: int32)
          -> Tensor[(9), float32] {
        %y = tanh(nn.matmul(%a, %x));
        %change = max(abs(subtract(%y, %x)));
        if (less(%change, 0.5f)) { add(%y, 1f) } else {
          if (greater(%n, 3)) { %x } else { @f(%a, %y, add(%n, 1)) }
        }
      }"""
    rng = np.random.default_rng(0)
    args = [
        (np.float32(s) * rng.normal(size=(9, 9)).astype("f4"), np.ones(9, "f4")) for s in (0.1, 9)
    ]
    result = check_loop(newton, *args)
    assert str(result.functions["f"]).count("nn.matmul") == 1


def test_sums_are_carried() -> None:
    for op in ("add", "multiply", "bitwise_xor", "maximum", "minimum", "bitwise_and"):
        text = f"""
          def @main(%n: int64) -> int64 {{ @f(%n) }}
          def @f(%n: int64) -> int64 {{
            if (less_equal(%n, 1i64)) {{ 3i64 }} else {{
              %rest = @f(subtract(%n, 1i64));
              if (equal(%n, 7i64)) {{ @f(4i64) }} else {{ {op}(%n, %rest) }}
            }}
          }}"""
        module = looped(text)  # the call is in the wrong branch: it stays
        assert "f" in global_variables(module.functions["f"])
        text = text.replace("%rest = @f(subtract(%n, 1i64));", "").replace(
            "%n, %rest", "@f(subtract(%n, 1i64)), %n"
        )
        check_loop(text, *((np.int64(n),) for n in (0, 1, 2, 5, 9, 30)))


def test_sums_that_round_stay() -> None:
    text = """
      def @main(%x: float32, %n: int32) -> float32 { @f(%x, %n) }
      def @f(%x: float32, %n: int32) -> float32 {
        if (equal(%n, 0)) { 1f } else { multiply(%x, @f(%x, subtract(%n, 1))) }
      }"""
    program = parse(text)
    assert tail_calls_to_loops(program) is program


@pytest.mark.parametrize(
    "body",
    [
        "@f(add(%n, 1))",  # never ends: there is no result
        "%0 = @f(%n); add(%0, %0)",
        "if (less(%n, 0)) { %n } else { @f(@f(subtract(%n, 1))) }",
        "if (less(%n, 0)) { %n } else { add(@f(%n), multiply(@f(%n), %n)) }",
        "if (less(%n, 0)) { %n } else { "
        "if (less(%n, 3)) { add(%n, @f(%n)) } else { multiply(%n, @f(%n)) } }",
        "%0 = for (%i < 3i64; %k = %n) { %1 = @f(%k); (%1,) }; %0.0",
    ],
)
def test_other_recursion_stays(body: str) -> None:
    program = parse(f"""
      def @main(%n: int32) -> int32 {{ @f(%n) }}
      def @f(%n: int32) -> int32 {{ {body} }}""")
    assert tail_calls_to_loops(program) is program


def test_three_functions_are_merged_into_the_one_that_is_called() -> None:
    text = """
      def @main(%n: int32) -> int32 { add(@b(%n), @once(%n)) }
      def @once(%n: int32) -> int32 { @c(%n) }
      def @a(%n: int32) -> int32 { if (less(%n, 0)) { 1 } else { @b(subtract(%n, 1)) } }
      def @b(%n: int32) -> int32 { if (less(%n, 0)) { 2 } else { @c(subtract(%n, 1)) } }
      def @c(%n: int32) -> int32 { if (less(%n, 0)) { 3 } else { @a(subtract(%n, 1)) } }"""
    program = parse(text)
    result = verify(merge_mutual_recursion(program))
    assert set(result.functions) == {"main", "once", "b", "c"}
    assert merge_mutual_recursion(result) is result
    whole = PassContext(verify=True).run(program, default_pipeline(), GRAPH)
    assert set(global_variables(whole.main)) <= set(whole.functions)
    assert not any("@b(" in str(f) or "@c(" in str(f) for f in whole.functions.values())
    for n in (-1, 0, 1, 2, 3, 10):
        expected = evaluate(program, np.int32(n))
        assert evaluate(result, np.int32(n)) == evaluate(whole, np.int32(n)) == expected


def test_a_call_deep_inside_is_no_cycle_of_one() -> None:
    text = """
      def @main(%n: int32) -> int32 { @a(%n) }
      def @a(%n: int32) -> int32 { if (less(%n, 0)) { 1 } else { @a(@b(subtract(%n, 1))) } }
      def @b(%n: int32) -> int32 { if (less(%n, 0)) { 2 } else { @b(@a(subtract(%n, 3))) } }"""
    program = parse(text)
    assert structural_equal(merge_mutual_recursion(program), program)


def test_calls_take_no_frames() -> None:
    check_pass(
        tail_calls_to_loops,
        before="""
          def @main(%x: float32) -> float32 { @f(%x, 0) }
          def @f(%x: float32, %n: int32) -> float32 {
            %0 = greater_equal(%n, 1000);
            if (%0) { %x } else { @f(negative(%x), add(%n, 1)) }
          }""",
        after="""
          def @main(%x: float32) -> float32 { @f(%x, 0) }
          def @f(%x: float32, %n: int32) -> float32 {
            %0 = while (%y = %x, %m = %n) {
              less(%m, 1000)
            } do {
              %2 = negative(%y);
              %3 = add(%m, 1);
              (%2, %3)
            };
            %0.0
          }""",
    )


def test_results_that_are_taken_apart_and_put_together() -> None:
    text = """
      def @main(%a: int64, %b: int64) -> (int64, int64) {{ @f(%a, %b) }}
      def @f(%a: int64, %b: int64) -> (int64, int64) {{
        %0 = if (equal(%b, 0i64)) {{ (%a, %b) }} else {{
          %1 = @f(%b, floor_mod(%a, %b));
          {tuple}
        }};
        %2 = %0.0;
        %3 = %0.1;
        (%2, %3)
      }}"""
    check_loop(text.format(tuple="(%1.0, %1.1)"), (np.int64(48), np.int64(36)))
    for other in ("(%1.1, %1.0)", "(%1.0, %1.0)", "(%1.0, %a)"):
        program = parse(text.format(tuple=other))
        assert tail_calls_to_loops(program) is program

"""Loops: what they carry, and what leaves them."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import check_pass, parse
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.passes.fold_constants import fold_constants
from loopwright.ir.graph.passes.hoist_invariants import hoist_invariants
from loopwright.ir.graph.passes.reduce_carries import reduce_carries
from loopwright.ir.graph.passes.unroll_loops import unroll_loops
from loopwright.ir.graph.passes.while_to_for import while_to_for
from loopwright.ir.graph.verify import verify


def test_values_that_go_on_as_they_began() -> None:
    check_pass(
        reduce_carries,
        before="""fn (%n: int64, %x: float32) {
          %0 = while (%i = 0i64, %m = %n, %a = %x, %b = 2f, %c = %x) {
            less(%i, %m)
          } do {
            %1 = add(%i, 1i64);
            (%1, %m, %x, 2f, %a)
          };
          (%0.0, %0.1, %0.2, %0.3, %0.4)
        }""",
        after="""fn (%n: int64, %x: float32) {
          %0 = while (%i = 0i64) { less(%i, %n) } do { %1 = add(%i, 1i64); (%1,) };
          %2 = %0.0;
          (%2, %n, %x, 2f, %x)
        }""",
    )


def test_values_through_loops_inside() -> None:
    check_pass(
        reduce_carries,
        before="""fn (%w: Tensor[(4), float32], %x: Tensor[(4), float32]) {
          %0 = for (%i < 3i64; %v = %w, %a = %x) {
            %1 = for (%j < 3i64; %u = %v, %b = %a) { %2 = multiply(%b, %u); (%u, %2) };
            (%1.0, %1.1)
          };
          %0.1
        }""",
        after="""fn (%w: Tensor[(4), float32], %x: Tensor[(4), float32]) {
          %0 = for (%i < 3i64; %a = %x) {
            %1 = for (%j < 3i64; %b = %a) { %2 = multiply(%b, %w); (%2,) };
            (%1.0,)
          };
          %0.0
        }""",
    )


def test_equal_values_are_told_from_those_that_only_begin_alike() -> None:
    check_pass(
        reduce_carries,
        before="""fn (%n: int64) {
          %0 = for (%i < %n; %a = 0i64, %b = 0i64, %c = 0i64, %d = 0i64) {
            %1 = add(%a, %c);
            %2 = add(%b, %d);
            %3 = add(%c, 1i64);
            %4 = add(%d, 1i64);
            (%1, %2, %3, %4)
          };
          (%0.0, %0.1, %0.2, %0.3)
        }""",
        after="""fn (%n: int64) {
          %0 = for (%i < %n; %a = 0i64, %c = 0i64) {
            %1 = add(%a, %c);
            %3 = add(%c, 1i64);
            (%1, %3)
          };
          %5 = %0.0;
          %6 = %0.1;
          (%5, %5, %6, %6)
        }""",
    )
    apart = """fn (%n: int64) {
      %0 = for (%i < %n; %a = 0i64, %b = 0i64) { %1 = add(%b, 1i64); (%b, %1) };
      (%0.0, %0.1)
    }"""
    check_pass(reduce_carries, before=apart, after=apart)


def test_what_costs_less_than_reading_it_stays() -> None:
    stays = """fn (%x: Tensor[(64), float32], %n: int64) {
      %0 = for (%i < %n; %y = %x) {
        %1 = multiply(%x, 2f);
        %2 = reverse(%1, axis=[0]);
        %3 = add(%y, %2);
        (%3,)
      };
      %0.0
    }"""
    check_pass(hoist_invariants, before=stays, after=stays)


def test_scalars_and_what_they_are_made_of_move_out_of_all_loops() -> None:
    check_pass(
        hoist_invariants,
        before="""fn (%x: Tensor[(64), float32], %n: int64) {
          %0 = for (%i < %n; %y = %x) {
            %1 = for (%j < %n; %z = %y) {
              %2 = take(%x, 3, axis=0);
              %3 = sin(%2);
              %4 = multiply(%z, %3);
              (%4,)
            };
            (%1.0,)
          };
          %0.0
        }""",
        after="""fn (%x: Tensor[(64), float32], %n: int64) {
          %2 = take(%x, 3, axis=0);
          %3 = sin(%2);
          %0 = for (%i < %n; %y = %x) {
            %1 = for (%j < %n; %z = %y) { %4 = multiply(%z, %3); (%4,) };
            (%1.0,)
          };
          %0.0
        }""",
    )


def test_long_work_is_done_only_for_loops_that_run() -> None:
    body = """
      %1 = nn.matmul(%w, %w);
      %2 = nn.matmul(%y, %1);
      (%2,)
    """
    moved = """
        %1 = nn.matmul(%w, %w);
        (%1,)
      } else {
        %2 = full(shape=[99, 99], fill_value=0, dtype="float32");
        (%2,)
      };
      %5 = %4.0;
    """
    head = "fn (%w: Tensor[(99, 99), float32], %x: Tensor[(99), float32], %n: int64)"
    check_pass(
        hoist_invariants,
        before=f"{head} {{ %0 = for (%i < %n; %y = %x) {{ {body} }}; %0.0 }}",
        after=f"""{head} {{
          %3 = greater(%n, 0i64);
          %4 = if (%3) {{ {moved}
          %0 = for (%i < %n; %y = %x) {{ %2 = nn.matmul(%y, %5); (%2,) }};
          %0.0
        }}""",
    )
    check_pass(
        hoist_invariants,
        before=f"""{head} {{
          %0 = while (%y = %x) {{ less(take(%y, 0, axis=0), 9f) }} do {{ {body} }};
          %0.0
        }}""",
        after=f"""{head} {{
          %3 = take(%x, 0, axis=0);
          %6 = less(%3, 9f);
          %4 = if (%6) {{ {moved}
          %0 = while (%y = %x) {{ less(take(%y, 0, axis=0), 9f) }} do {{
            %2 = nn.matmul(%y, %5);
            (%2,)
          }};
          %0.0
        }}""",
    )


def test_a_condition_is_always_computed() -> None:
    check_pass(
        hoist_invariants,
        before="""fn (%w: Tensor[(99, 99), float32], %x: float32) {
          %0 = while (%y = %x) {
            %1 = nn.matmul(%w, %w);
            less(%y, max(%1, axis=None))
          } do { %2 = add(%y, 1f); (%2,) };
          %0.0
        }""",
        after="""fn (%w: Tensor[(99, 99), float32], %x: float32) {
          %1 = nn.matmul(%w, %w);
          %2 = max(%1, axis=None);
          %0 = while (%y = %x) { less(%y, %2) } do { %2 = add(%y, 1f); (%2,) };
          %0.0
        }""",
    )


@pytest.mark.parametrize(
    ("dtype", "first", "bound", "step", "counts"),
    [
        ("int64", "0i64", "%n", 1, True),
        ("int64", "3i64", "%n", 1, True),
        ("int64", "-3i64", "%n", 1, False),  # the distance may not fit
        ("int64", "%k", "%n", 1, False),
        ("int64", "0i64", "%n", 2, False),  # it may pass the bound, and wrap around
        ("int64", "1i64", "10i64", 4, True),
        ("int64", "10i64", "1i64", 4, True),
        ("int64", "0i64", f"{2**63 - 3}i64", 4, False),
        ("int32", "%k", "%n", 1, True),
        ("int32", "%k", "7", 3, True),
        ("int32", "-5", "7", 3, True),
        ("int16", "%k", "7i16", 3, True),
        ("uint8", "0u8", "%n", 1, False),
        ("float32", "0f", "%n", 1, False),
    ],
)
@pytest.mark.parametrize("mirrored", [False, True])
def test_counters(
    dtype: str, first: str, bound: str, step: int, counts: bool, mirrored: bool
) -> None:
    suffix = {"int64": "i64", "int32": "", "int16": "i16", "uint8": "u8", "float32": "f"}[dtype]
    test = f"greater({bound}, %i)" if mirrored else f"less(%i, {bound})"
    total = f"add({step}{suffix}, %i)" if mirrored else f"add(%i, {step}{suffix})"
    program = parse(f"""fn (%n: {dtype}, %k: {dtype}) {{
      %0 = while (%s = %k, %i = {first}, %last = %n) {{ {test} }} do {{
        %1 = {total};
        %2 = add(%s, multiply(%i, %i));
        (%2, %1, %i)
      }};
      (%0.0, %0.1, %0.2)
    }}""")
    result = verify(while_to_for(program))
    assert while_to_for(result) is result
    assert (result is not program) == counts
    for n, k in [(0, 0), (5, 2), (2, 5), (1, 1)] if counts else ():
        args = np.array(n, dtype), np.array(k, dtype)
        np.testing.assert_equal(evaluate(result, *args), evaluate(program, *args))


@pytest.mark.parametrize(
    "loop",
    [
        "{ logical_and(less(%i, %n), less(%s, 3i64)) } do { (add(%i, 1i64), add(%s, %s)) }",
        "{ less(%i, %s) } do { (add(%i, 1i64), add(%s, 1i64)) }",
        "{ less(%i, %n) } do { (subtract(%i, 1i64), %s) }",
        "{ less(%i, %n) } do { (add(%i, %n), %s) }",
        "{ less(%i, %n) } do { (add(%i, -1i64), %s) }",
        "{ less_equal(%i, %n) } do { (add(%i, 1i64), %s) }",
        "{ less(%s, %n) } do { (add(%i, 1i64), multiply(%s, 2i64)) }",
    ],
)
def test_loops_that_do_not_count_stay(loop: str) -> None:
    program = parse(f"fn (%n: int64) {{ %0 = while (%i = 0i64, %s = 1i64) {loop}; %0.1 }}")
    assert while_to_for(program) is program


def test_weights_of_layers_are_picked_while_compiling() -> None:
    text = """fn (%x: Tensor[(8), float32]) {{
      %0 = for (%i < {n}i64; %y = %x) {{
        %1 = take(meta[w], %i, axis=0);
        %2 = tanh(nn.matmul(%y, %1));
        (%2,)
      }};
      %0.0
    }}"""
    weights = np.random.default_rng(0).normal(size=(99, 8, 8)).astype("float32")
    for n, unrolled in ((20, True), (90, False)):
        program = parse(text.format(n=n), {"w": weights})
        result = verify(unroll_loops(program))
        assert (result is not program) == unrolled and unroll_loops(result) is result
        x = np.ones(8, "float32")
        np.testing.assert_allclose(evaluate(result, x), evaluate(program, x), rtol=1e-6)
    folded = str(fold_constants(unroll_loops(parse(text.format(n=2), {"w": weights}))))
    assert "take" not in folded


@pytest.mark.parametrize("trips", [-1, 0, 1])
def test_loops_of_no_and_of_one_iteration(trips: int) -> None:
    result = "%x" if trips < 1 else "%0 = nn.matmul(%x, %x); sin(sin(sin(%0)))"
    check_pass(
        unroll_loops,
        before=f"""fn (%x: Tensor[(8, 8), float32]) {{
          %0 = for (%i < {trips}i64; %y = %x) {{
            %1 = sin(sin(sin(nn.matmul(%y, %y))));
            (%1,)
          }};
          %0.0
        }}""",
        after=f"fn (%x: Tensor[(8, 8), float32]) {{ {result} }}",
    )


def test_long_loops_and_calls_stay() -> None:
    for n, body in (
        (9, "sin(cos(%y))"),
        (2, "@f(%y)"),
        (2, "squeeze(cumsum(expand_dims(%y, axis=0)))"),
    ):
        program = parse(f"""
          def @main(%x: float32) -> float32 {{
            %0 = for (%i < {n}i64; %y = %x) {{ %1 = {body}; (%1,) }};
            %0.0
          }}
          def @f(%x: float32) -> float32 {{ @f(%x) }}""")
        assert unroll_loops(program) is program

"""Passes on modules with branches, loops and functions that call themselves."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import assert_same_value, parse
from loopwright.driver.pipeline import called_kernels, kernels_of, lower_module
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Function, Module
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.passes.fold_scales import fold_scales
from loopwright.ir.graph.passes.fuse_operators import fuse_operators
from loopwright.ir.graph.passes.narrow_factors import narrow_factors
from loopwright.ir.graph.passes.pull_picks import pull_picks
from loopwright.ir.graph.passes.sink_transposes import sink_transposes
from loopwright.ir.graph.verify import verify

EVERYTHING = """
def @main(%w: Tensor[(4, 4), float32], %x: Tensor[(4), float32], %n: int64)
    -> (float64, int64, Tensor[(4), float32], int64) {
  %e = exp(%w);
  %z = while (%zr = 0f64, %zi = 0f64, %k = 0i64) {
    %size = add(multiply(%zr, %zr), multiply(%zi, %zi));
    logical_and(less_equal(%size, 4f64), less(%k, 100i64))
  } do {
    %r = add(subtract(multiply(%zr, %zr), multiply(%zi, %zi)), 0.25f64);
    %i = add(multiply(multiply(%zr, %zi), 2f64), 0.5f64);
    (%r, %i, add(%k, 1i64))
  };
  %v = for (%i < %n; %h = %x) {
    %row = take(%w, %i, axis=0);
    %m = nn.matmul(%h, %e);
    %big = greater(sum(%m, axis=[0]), 1f);
    %q = if (%big) { nn.softmax(%m) } else { add(nn.relu(%m), %row) };
    (%q,)
  };
  (%z.0, %z.2, %v.0, @count(%n))
}
def @count(%n: int64) -> int64 {
  if (less_equal(%n, 1i64)) { 1i64 } else { floor_mod(%n, @count(subtract(%n, 1i64))) }
}
"""


def operators_outside_of_groups(module: Module) -> list[str]:
    functions = {n: f for n, f in module.functions.items() if isinstance(f, Function)}
    own = Module({n: f for n, f in functions.items() if not f.attrs.get("primitive")})
    return [word for word in str(own).split() if word.startswith(("add(", "take(", "nn."))]


def test_every_block_of_every_function_becomes_groups() -> None:
    program = verify(parse_module(EVERYTHING))
    lowered = verify(lower_module(program))
    assert not operators_outside_of_groups(lowered)
    kernels = kernels_of(lowered)
    assert "count" in lowered.functions, "it calls itself, and not last"
    groups = {n for n, f in lowered.functions.items() if f.attrs.get("primitive")}
    assert kernels.keys() == groups
    assert {"matmul", "take", "maximum_add", "exp"} <= groups
    assert len(called_kernels(lowered)) >= len(groups)
    assert lower_module(lowered) is lowered
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((4, 4)).astype("float32"), rng.standard_normal(4).astype("float32")
    for n in (0, 1, 5):
        args = (w, x, np.int64(n))
        assert_same_value(evaluate(lowered, *args), evaluate(program, *args))


def fused(text: str) -> Module:
    program = verify(parse_module(text))
    result = verify(fuse_operators(program))
    assert fuse_operators(result) is result
    return result


def test_memory_that_nobody_has_written_is_a_group_of_its_own() -> None:
    result = fused(
        """def @main(%x: Tensor[(8), float32]) -> (Tensor[(8), float32], Tensor[(8), float32]) {
          %e = empty(shape=[8], dtype="float32");
          (exp(maximum(%x, %e)), exp(minimum(%x, %e)))
        }"""
    )
    groups = [f for f in result.functions.values() if f.attrs.get("primitive")]
    assert [len(f.body.bindings) for f in groups if "empty" in str(f)] == [1]


def test_groups_stay_inside_of_their_block() -> None:
    """What is computed before a loop is not computed again in each iteration."""
    result = fused(
        """def @main(%x: Tensor[(8), float32], %n: int64) -> Tensor[(8), float32] {
          %e = exp(%x);
          %l = for (%i < %n; %s = %x) {
            %t = multiply(%s, %e);
            (%t,)
          };
          negative(%l.0)
        }"""
    )
    assert str(result.main) == (
        """fn (%x: Tensor[(8), float32], %n: Tensor[(), int64]) -> Tensor[(8), float32] {
  %e = @exp(%x);
  %l = for (%i < %n; %s = %x) {
    %t = @multiply(%s, %e);
    (%t,)
  };
  %0 = %l.0;
  @negative(%0)
}"""
    )


@pytest.mark.parametrize(
    "inner",
    [
        "for (%i < 3i64; %s = %x) { (add(%s, %m),) }",
        "while (%s = %x) { greater(sum(%m, axis=[0]), sum(%s, axis=[0])) } do { (add(%s, %m),) }",
        "(if (greater(sum(%x, axis=[0]), 0f)) { add(%x, %m) } else { %x },)",
    ],
)
def test_index_maps_that_nested_blocks_read_are_arrays(inner: str) -> None:
    result = fused(
        f"""def @main(%x: Tensor[(8), float32]) -> Tensor[(8), float32] {{
          %m = reverse(exp(%x), axis=0);
          %l = {inner};
          %l.0
        }}"""
    )
    assert "%m = @exp_reverse(%x)" in str(result.main) or "%m = @exp(%x)" in str(result.main)


def test_branches_and_loops_order_what_they_read_before_them() -> None:
    """A group that joins readers on both sides of a loop would form a circle."""
    result = fused(
        """def @main(%x: Tensor[(8), float32], %n: int64)
             -> (Tensor[(8), float32], Tensor[(8), float32]) {
          %a = exp(%x);
          %l = for (%i < %n; %s = %a) { (multiply(%s, %a),) };
          %b = add(%a, %l.0);
          (%a, %b)
        }"""
    )
    text = str(result.main)
    assert text.index("@exp(") < text.index("for (") < text.index("@add(")


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (
            pull_picks,
            """fn (%x: Tensor[(64, 8), float32], %n: int64) {
              %e = exp(%x);
              %l = for (%i < %n; %s = meta[row]) { (add(%s, take(%e, %i, axis=0)),) };
              %l.0
            }""",
        ),
        (
            sink_transposes,
            """fn (%x: Tensor[(4, 8), float32], %w: Tensor[(8, 8), float32], %n: int64) {
              %t = transpose(nn.matmul(%x, %w), axes=[1, 0]);
              %l = for (%i < %n; %s = %t) { (add(sin(%t), %s),) };
              %l.0
            }""",
        ),
        (
            fold_scales,
            """fn (%x: Tensor[(4, 8), float32], %y: Tensor[(8, 8), float32], %n: int64) {
              %t = multiply(%x, 0.5f);
              %l = for (%i < %n; %s = %y) { (nn.matmul(%s, %s),) };
              %m = for (%i < %n; %s = %x) { (nn.matmul(%t, %y),) };
              (%l.0, %m.0)
            }""",
        ),
        (
            narrow_factors,
            """fn (%x: Tensor[(4, 16), int8], %n: int64) {
              %t = cast(%x, dtype="int32");
              %l = for (%i < %n; %s = meta[zero]) { (add(%s, nn.matmul(%t, meta[w])),) };
              %l.0
            }""",
        ),
    ],
)
def test_what_is_computed_before_a_loop_does_not_move_into_it(step, text: str) -> None:
    constants = {
        "row": np.zeros(8, "float32"),
        "w": np.arange(256, dtype="int32").reshape(16, 16) % 100,
        "zero": np.zeros((4, 16), "int32"),
    }
    program = verify(parse(text, constants))
    assert step(program) is program

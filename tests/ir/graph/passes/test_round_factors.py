"""round_factors: which products are rounded, and once only."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import parse
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Module
from loopwright.ir.graph.passes.round_factors import round_factors
from loopwright.ir.graph.verify import verify

ml_dtypes = pytest.importorskip("ml_dtypes")

W = np.linspace(-1, 1, 8 * 16, dtype=np.float32).reshape(8, 16)


def casts(module: Module) -> int:
    values = [b.value for b in module.main.body.bindings]
    return sum(
        isinstance(v, Call) and v.operator.name == "cast" and v.attrs["dtype"] == "bfloat16"
        for v in values
    )


@pytest.mark.parametrize(
    "text",
    [
        # Attention's products, of stacks of matrices.
        "fn (%x: Tensor[(2, 9, 16), float32], %y: Tensor[(2, 16, 9), float32])"
        " { nn.matmul(%x, %y) }",
        # A matrix and a vector, sums of few terms, other dtypes, a map.
        "fn (%x: Tensor[(9, 16), float32], %y: Tensor[(16), float32]) { nn.matmul(%x, %y) }",
        "fn (%x: Tensor[(9, 7), float32], %y: Tensor[(7, 9), float32]) { nn.matmul(%x, %y) }",
        "fn (%x: Tensor[(9, 16), float64], %y: Tensor[(16, 9), float64]) { nn.matmul(%x, %y) }",
        "fn (%x: Tensor[(9, 9), float32], %y: Tensor[(9, 9), float32]) { multiply(%x, %y) }",
        # Two channels, and channels by themselves.
        "fn (%x: Tensor[(1, 2, 9, 9), float32], %w: Tensor[(8, 2, 3, 3), float32])"
        " { nn.conv2d(%x, %w) }",
        "fn (%x: Tensor[(1, 16, 9, 9), float32], %w: Tensor[(16, 1, 3, 3), float32])"
        " { nn.conv2d(%x, %w, groups=16) }",
    ],
)
def test_what_stays_in_float32(text: str) -> None:
    module = parse(text)
    assert round_factors(module) is module


def test_weights_are_rounded_now_and_take_half_of_the_memory() -> None:
    text = "fn (%x: Tensor[(2, 5, 8), float32]) { nn.matmul(%x, meta[w]) }"
    result = round_factors(parse(text, {"w": W}))
    constants = [a for b in result.main.body.bindings for a in b.value.args if hasattr(a, "value")]
    (weights,) = constants
    np.testing.assert_array_equal(weights.value, W.astype(ml_dtypes.bfloat16))
    assert 2 * weights.value.nbytes == W.nbytes


def test_colours_get_a_channel_of_zeros() -> None:
    """Pairs of channels are multiplied: an odd one has none beside it."""
    w = np.ones((8, 3, 3, 3), np.float32)
    text = "fn (%x: Tensor[(1, 3, 9, 9), float32]) { nn.conv2d(%x, meta[w], padding=1) }"
    module = parse(text, {"w": w})
    result = round_factors(module)
    (call,) = [b.value for b in result.main.body.bindings if b.value.operator.name == "nn.conv2d"]
    assert [a.type.shape for a in call.args] == [(1, 4, 9, 9), (8, 4, 3, 3)]
    x = np.random.default_rng(0).integers(-9, 10, (1, 3, 9, 9)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(result, x), evaluate(module, x))


def test_a_value_that_several_products_read_is_rounded_once() -> None:
    text = (
        "fn (%x: Tensor[(5, 8), float32], %v: Tensor[(8, 8), float32]) {"
        " %0 = nn.matmul(%x, %v); %1 = nn.matmul(%x, meta[w]); (%0, %1) }"
    )
    assert casts(round_factors(parse(text, {"w": W}))) == 2


def test_what_is_bfloat16_already_is_not_rounded_again() -> None:
    text = (
        "fn (%x: Tensor[(5, 8), bfloat16], %v: Tensor[(8, 8), float32]) {"
        ' %0 = cast(%x, dtype="float32"); nn.matmul(%0, %v) }'
    )
    assert casts(round_factors(parse(text))) == 1


def test_what_a_branch_rounds_is_rounded_again_behind_it() -> None:
    text = """
    fn (%x: Tensor[(9, 16), float32], %w: Tensor[(16, 9), float32], %c: bool) {
      %0 = nn.matmul(%x, %w);
      %1 = if (%c) { nn.matmul(%x, transpose(%x)) } else {
        %v = nn.matmul(%x, add(%w, 1f));
        if (%c) { nn.matmul(%x, add(%w, 2f)) } else { %v }
      };
      %2 = if (%c) { nn.matmul(add(%x, 1f), %w) } else { %0 };
      %y = add(%x, 3f);
      %3 = if (%c) { nn.matmul(%y, %w) } else { %0 };
      (%1, %2, %3, nn.matmul(%y, %w))
    }"""
    module = verify(round_factors(parse(text)))
    assert casts(module) == 3  # of x, w and y, which branches see if they come before them

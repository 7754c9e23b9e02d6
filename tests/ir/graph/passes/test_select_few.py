"""Few elements from an end of an order are selected, in the order's own order of equal ones."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from graphs import check_pass, parse
from loopwright.ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from loopwright.ir.graph.passes.select_few import select_few

SLICES = [
    slice(None, 4),
    slice(-4, None),
    (slice(None, None, -1), slice(None, 4)),
    (slice(None, None, -1), slice(-4, None)),
    (slice(-4, None), slice(None, None, -1)),
    slice(None, -5, -1),
    -1,
]


def part(order: Any, index: Any) -> Any:
    for one in index if isinstance(index, tuple) else (index,):
        order = order[..., one]
    return order


@pytest.mark.parametrize("index", SLICES, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_equal_elements_and_nan_are_where_a_stable_sort_has_them(index: Any, axis: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 9, (64, 64)).astype(np.float64)
    x[rng.random(x.shape) < 0.02] = np.nan
    x[rng.random(x.shape) < 0.02] = -0.0

    def ends(x: Any) -> Any:
        order = np.argsort(x, axis=axis, kind="stable")
        return part(order.T if axis == 0 else order, index)

    np.testing.assert_array_equal(lw.compile(ends)(x), ends(x))


@pytest.mark.parametrize("index", SLICES, ids=str)
def test_no_row_is_sorted(index: Any) -> None:
    lowered = lw.compile(lambda x: part(np.argsort(x), index)).lower(lw.f32[96])
    text = lowered.as_text("kernels")
    assert "top_rows" in text
    assert "argsort_rows" not in text


@pytest.mark.parametrize(
    "text",
    [
        "strided_slice(nn.argsort(%x), begin=[0, 0], end=[4, 20], strides=[1, 1])",
        "strided_slice(nn.argsort(%x), begin=[0, 1], end=[4, 5], strides=[1, 1])",
        "strided_slice(nn.argsort(%x), begin=[0, 0], end=[2, 4], strides=[1, 1])",
        "strided_slice(nn.argsort(%x), begin=[0, 0], end=[4, 8], strides=[1, 2])",
        "strided_slice(reverse(nn.argsort(%x)), begin=[0, 0], end=[4, 4], strides=[1, 1])",
    ],
)
def test_many_or_others_are_left(text: str) -> None:
    program = parse(f"fn (%x: Tensor[(4, 96), float32]) {{ {text} }}")
    assert select_few(program) is program


def test_the_greatest_in_ascending_order() -> None:
    check_pass(
        lambda module: eliminate_dead_code(select_few(module)),
        before="""fn (%x: Tensor[(2, 96), float32]) {
          strided_slice(nn.argsort(%x), begin=[0, 92], end=[2, 96], strides=[1, 1])
        }""",
        after="""fn (%x: Tensor[(2, 96), float32]) {
          %0 = reverse(%x, axis=[1]);
          %1 = nn.top_k_indices(%0, k=4, axis=1);
          %2 = subtract(95i64, %1);
          reverse(%2, axis=[1])
        }""",
    )

"""Large pooling windows are reduced along one axis, then along the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import parse
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call
from loopwright.ir.graph.operator import Operator
from loopwright.ir.graph.passes.lower_to_primitives import lower_to_primitives


def windows(shape: str, pool: str) -> tuple[Any, list[tuple[int, ...]]]:
    program = parse(f"fn (%x: Tensor[({shape}), float32]) {{ {pool} }}")
    lowered = lower_to_primitives(program)
    calls = [b.value for b in lowered.main.body.bindings if isinstance(b.value, Call)]
    named = [c for c in calls if isinstance(c.op, Operator) and c.op.name == "reduce_window"]
    x = np.random.default_rng(2).standard_normal([*map(int, shape.split(","))])
    x = x.astype(np.float32)
    np.testing.assert_allclose(evaluate(lowered, x), evaluate(program, x), rtol=1e-5, atol=1e-6)
    return lowered, [c.attrs["window"] for c in named]


def test_a_large_window_takes_two_passes() -> None:
    pool = "nn.max_pool2d(%x, pool_size=[13, 13], strides=[1, 1], padding=[6, 6, 6, 6])"
    assert windows("1, 2, 20, 20", pool)[1] == [(1, 1, 13, 1), (1, 1, 1, 13)]


def test_the_axis_with_the_larger_stride_goes_first() -> None:
    pool = "nn.avg_pool2d(%x, pool_size=[7, 9], strides=[1, 3], layout='NHWC')".replace("'", '"')
    assert windows("1, 16, 30, 2", pool)[1] == [(1, 1, 9, 1), (1, 7, 1, 1)]


@pytest.mark.parametrize(
    "pool", ["pool_size=[3, 3], strides=[1, 1]", "pool_size=[7, 7], strides=[7, 7]"]
)
def test_small_windows_and_those_that_do_not_overlap_take_one(pool: str) -> None:
    assert len(windows("1, 2, 21, 21", f"nn.max_pool2d(%x, {pool})")[1]) == 1

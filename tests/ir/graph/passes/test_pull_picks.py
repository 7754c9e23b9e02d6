"""Few elements are picked before elementwise operators; what is stored anyway is left alone."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from graphs import check_pass, parse
from hypothesis import given, settings
from loopwright.ir.graph.nodes import Module
from loopwright.ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from loopwright.ir.graph.passes.pull_picks import pull_picks
from loopwright.ir.graph.verify import verify
from random_graphs import random_modules


def pulled(program: Module) -> Module:
    return eliminate_dead_code(pull_picks(program))


def test_a_gather_of_flattened_rows() -> None:
    check_pass(
        pulled,
        before="""fn (%x: Tensor[(4, 16), float32], %i: Tensor[(4), int64]) {
          %0 = exp(%x);
          %1 = reshape(multiply(%0, 2f), newshape=[64]);
          take(%1, %i, axis=0)
        }""",
        after="""fn (%x: Tensor[(4, 16), float32], %i: Tensor[(4), int64]) {
          %0 = reshape(%x, newshape=[64]);
          %1 = take(%0, %i, axis=0);
          multiply(exp(%1), 2f)
        }""",
    )


def test_a_slice_of_gathered_rows() -> None:
    check_pass(
        pulled,
        before="""fn (%x: Tensor[(4, 16, 9), float32], %i: Tensor[(20, 2), int64]) {
          %0 = take(%x, add(%i, 1i64), axis=1);
          strided_slice(%0, begin=[1, 0, 1, 0], end=[4, 20, 2, 9], strides=[2, 4, 1, 1])
        }""",
        after="""fn (%x: Tensor[(4, 16, 9), float32], %i: Tensor[(20, 2), int64]) {
          %0 = strided_slice(%x, begin=[1, 0, 0], end=[4, 16, 9], strides=[2, 1, 1]);
          %1 = strided_slice(%i, begin=[0, 1], end=[20, 2], strides=[4, 1]);
          take(%0, add(%1, 1i64), axis=1)
        }""",
    )
    check_pass(
        pulled,
        before="""fn (%x: Tensor[(4, 16), float32], %i: Tensor[(20), int64]) {
          %0 = take(%x, %i);
          %1 = take(%x, %i, axis=-2);
          %2 = strided_slice(%0, begin=[2], end=[4], strides=[1]);
          %3 = strided_slice(%1, begin=[2, 0], end=[4, 16], strides=[1, 1]);
          (%2, %3)
        }""",
        after="""fn (%x: Tensor[(4, 16), float32], %i: Tensor[(20), int64]) {
          %0 = strided_slice(%i, begin=[2], end=[4], strides=[1]);
          %1 = take(%x, %0);
          %2 = strided_slice(%i, begin=[2], end=[4], strides=[1]);
          %3 = take(%x, %2, axis=-2);
          (%1, %3)
        }""",
    )


def test_a_convolution_of_which_a_slice_is_read_is_one_of_a_slice() -> None:
    check_pass(
        pulled,
        before="""fn (%x: Tensor[(2, 9, 9, 3), float32], %w: Tensor[(3, 2, 3, 4), float32]) {
          %0 = conv2d_valid(%x, %w, strides=[1, 2], dilation=[2, 1]);
          %1 = strided_slice(%0, begin=[0, 1, 0, 0], end=[2, 4, 4, 4], strides=[1, 2, 1, 1]);
          strided_slice(%1, begin=[1, 0, 1, 0], end=[2, 2, 4, 4], strides=[1, 1, 2, 1])
        }""",
        after="""fn (%x: Tensor[(2, 9, 9, 3), float32], %w: Tensor[(3, 2, 3, 4), float32]) {
          %0 = strided_slice(%x, begin=[0, 1, 0, 0], end=[2, 8, 8, 3], strides=[1, 1, 1, 1]);
          %1 = strided_slice(%0, begin=[1, 0, 2, 0], end=[2, 7, 8, 3], strides=[1, 1, 1, 1]);
          conv2d_valid(%1, %w, strides=[2, 4], dilation=[2, 1])
        }""",
    )
    check_pass(
        pulled,
        before="""fn (%x: Tensor[(2, 9, 9, 3), float32], %w: Tensor[(3, 3, 3, 4), float32]) {
          %0 = conv2d_valid(%x, %w, strides=2);
          strided_slice(%0, begin=[0, 1, 0, 0], end=[2, 4, 2, 4], strides=[1, 1, 1, 1])
        }""",
        after="""fn (%x: Tensor[(2, 9, 9, 3), float32], %w: Tensor[(3, 3, 3, 4), float32]) {
          %0 = strided_slice(%x, begin=[0, 2, 0, 0], end=[2, 9, 5, 3], strides=[1, 1, 1, 1]);
          conv2d_valid(%0, %w, strides=[2, 2])
        }""",
    )


@pytest.mark.parametrize(
    "read",
    [
        "(strided_slice(%0, begin=[0, 1, 0], end=[2, 4, 4], strides=[1, 1, 1]), %0)",
        "strided_slice(%0, begin=[0, 1, 1], end=[2, 4, 4], strides=[1, 1, 1])",
        "strided_slice(%0, begin=[0, 4, 0], end=[2, 0, 4], strides=[1, -1, 1])",
        "strided_slice(%0, begin=[0, 4, 0], end=[2, 4, 4], strides=[1, 1, 1])",
    ],
)
def test_a_convolution_that_is_read_otherwise_is_left(read: str) -> None:
    text = f"""fn (%x: Tensor[(2, 9, 3), float32], %w: Tensor[(3, 3, 4), float32]) {{
      %0 = conv1d_valid(%x, %w);
      {read}
    }}"""
    program = parse(text)
    assert pull_picks(program) is program


@pytest.mark.parametrize(
    "text",
    [
        # An epilogue of a contraction: the kernel stores it and nothing else.
        """fn (%x: Tensor[(4, 5), float32], %w: Tensor[(5, 16), float32]) {
          %0 = nn.matmul(%x, %w);
          %1 = nn.relu(add(%0, 1f));
          strided_slice(%1, begin=[0, 0], end=[4, 1], strides=[1, 1])
        }""",
        # With a residual it is stored by the same kernel; picked before, both would be stored.
        """fn (%x: Tensor[(4, 16), float32], %w: Tensor[(16, 16), float32]) {
          %0 = exp(%x);
          %1 = nn.matmul(%0, %w);
          %2 = add(%0, add(%1, 1f));
          strided_slice(%2, begin=[0, 0], end=[4, 1], strides=[1, 1])
        }""",
        # Half of the elements are many.
        """fn (%x: Tensor[(4, 16), float32]) {
          %0 = exp(%x);
          strided_slice(%0, begin=[0, 0], end=[4, 8], strides=[1, 1])
        }""",
    ],
)
def test_what_is_stored_or_large_is_left(text: str) -> None:
    program = parse(text)
    assert pull_picks(program) is program


@settings(max_examples=50, deadline=None)
@given(random_modules())
def test_random_programs_stay_valid_and_the_pass_stops(program: Module) -> None:
    result = verify(pull_picks(program))
    assert pull_picks(result) is result


def cross_entropy(x: Any, y: Any) -> Any:
    return -np.take_along_axis(lw.nn.log_softmax(x), y[:, None], 1).mean()


def first_token(x: Any) -> Any:
    return lw.nn.layer_norm(x)[:, 0] * 2


def test_programs_that_pick() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((9, 70)).astype(np.float32), rng.integers(-70, 70, 9)
    z = x.astype(np.float64) - x.max(1, keepdims=True)
    logs = z - np.log(np.exp(z).sum(1, keepdims=True))
    f = lw.compile(cross_entropy, threads=1)
    np.testing.assert_allclose(f(x, y), -logs[np.arange(9), y].mean(), rtol=1e-6)
    outputs = [
        line.split("->")[1]
        for line in f.lower(x, y).as_text("kernels").splitlines()
        if line.startswith("prim")
    ]
    assert not [line for line in outputs if "70]" in line or "[630]" in line], outputs
    x = rng.standard_normal((3, 11, 20)).astype(np.float32)
    wide = x.astype(np.float64)
    norm = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(
        lw.compile(first_token, threads=1)(x), norm[:, 0] * 2, rtol=1e-5, atol=1e-6
    )

"""Matrices that are computed on the way into a product with a vector, on every level of the ISA."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.tolerance import tolerance

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def _dequantised(q, scale, v):
    return (q.astype(np.float32) * scale[:, None]) @ v


def _turned(q, scale, v):
    return v @ (np.tanh(q.astype(np.float32)) + scale)


def _weighed(q, scale, v):
    return np.maximum(np.exp(q * np.float32(0.01)) @ v, scale)


@pytest.mark.parametrize("function", [_dequantised, _turned, _weighed])
@settings(max_examples=9)
@given(
    isa=st.sampled_from(LEVELS),
    rows=st.integers(1, 70),
    columns=st.integers(1, 150),
    seed=st.integers(0, 99),
)
def test_one_kernel_and_the_right_result(isa, function, rows, columns, seed) -> None:
    rng = np.random.default_rng(seed)
    q = rng.integers(-128, 128, (rows, columns), np.int8)
    left = function is _turned
    scale = rng.standard_normal(columns if left else rows, np.float32)
    v = rng.standard_normal(rows if left else columns, np.float32)
    compiled = lw.compile(function, target=HOST.with_isa(isa))
    wanted = function(q, scale.astype(np.float64), v.astype(np.float64))
    term = max(1.0, 128 * np.abs(scale).max()) * np.abs(v).max()
    near = tolerance(FLOAT32, len(v), scale=float(term))
    np.testing.assert_allclose(compiled(q, scale, v), wanted, **near._asdict())
    assert compiled.lower(q, scale, v).as_text("kernels").count("\nprim @") == 1

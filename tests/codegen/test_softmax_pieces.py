"""Softmax of a long row that is the only one: in pieces, which are joined."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from compiled import lower, operator_module, run_kernel, run_module
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.dtype import dtype_of
from loopwright.ir.graph.limits import GraphLimits
from loopwright.ir.ops import get
from loopwright.ir.tolerance import tolerance

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def check(name: str, x: np.ndarray, isa: str = HOST.isa) -> None:
    module = lower(operator_module(get(name), (x,), {"axis": -1}))
    found = np.asarray(run_module(module, (x,), HOST.with_isa(isa), run_kernel))
    rtol, atol = tolerance(dtype_of(x), x.size, scale=1 / x.size)
    np.testing.assert_allclose(found, exact(name, x), rtol, atol)


def exact(name: str, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        shifted = x.astype(np.longdouble) - x.max()
        powers = np.exp(shifted)
        return powers / powers.sum() if name == "nn.softmax" else shifted - np.log(powers.sum())


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("name", ["nn.softmax", "nn.log_softmax"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pieces_give_the_row(name: str, dtype: str, isa: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 17_017)).astype(dtype) * 9
    x[0, 1001:2002] = -np.inf  # a piece of which nothing is left
    check(name, x, isa)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1.0, -90.0, 100.0, np.inf, -np.inf, np.nan]), min_size=12),
    st.sampled_from(["nn.softmax", "nn.log_softmax"]),
)
def test_infinities_and_broken_numbers(values: list[float], name: str) -> None:
    limits = GraphLimits(longest_lone_row=4, softmax_piece=6, softmax_shortest_piece=4)
    x = np.array(values[:12], np.float32)
    module = lower(operator_module(get(name), (x,), {"axis": 0}), limits)
    found = np.asarray(run_module(module, (x,), HOST, run_kernel))
    rtol, atol = tolerance(dtype_of(x), 12)
    np.testing.assert_allclose(found, exact(name, x), rtol, atol)


def test_a_long_row_takes_three_kernels_if_it_can_be_cut() -> None:
    def kernels(size: int) -> int:
        traced = lw.compile(lw.nn.softmax).trace(lw.f32[1, size])
        return len(kernels_of(lower_module(traced.module)))

    assert kernels(50_257) == 3
    assert kernels(50_261) == 4, "a prime"

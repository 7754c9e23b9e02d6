"""Chains of reductions along axes that are not the last: what stands side by side fills vectors."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.tolerance import tolerance

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def chains(axis: int) -> Any:
    def run(x: Any) -> tuple[Any, ...]:
        spread = x - np.mean(x, axis=axis, keepdims=True)
        e = np.exp(x - np.max(x, axis=axis, keepdims=True))
        return e / np.sum(e, axis=axis, keepdims=True), np.var(x, axis=axis), np.abs(spread)

    return run


@settings(max_examples=18, deadline=None)
@given(
    isa=st.sampled_from(LEVELS),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(14, 90)),
    axis=st.sampled_from([0, 1]),
    seed=st.integers(0, 2**32 - 1),
)
def test_columns_agree_with_doubles(
    isa: str, shape: tuple[int, int, int], axis: int, seed: int
) -> None:
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    found = lw.compile(chains(axis), target=HOST.with_isa(isa))(x)
    rtol, atol = tolerance(FLOAT32, shape[axis])
    for got, wanted in zip(found, chains(axis)(x.astype(np.float64)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol, atol)

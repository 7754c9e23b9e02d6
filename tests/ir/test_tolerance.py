"""The stated tolerances hold for sums taken in different orders, and are not idle."""

import numpy as np
import pytest
from loopwright.ir.dtype import DTYPES, FLOAT32, FLOAT64
from loopwright.ir.tolerance import tolerance


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if not d.is_inexact])
def test_integers_and_bools_are_exact(name):
    assert tolerance(DTYPES[name], 10**6, scale=100) == (0, 0)


@pytest.mark.parametrize("length", [1, 10, 1000, 100_000])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_sums_in_any_order_agree(length, low):
    rng = np.random.default_rng(length)
    terms = rng.uniform(low, 1, (20, length)).astype("float32")
    exact = terms.sum(axis=1, dtype="float64")
    rtol, atol = tolerance(FLOAT32, length)
    sequential = np.add.accumulate(terms, axis=1)[:, -1]
    np.testing.assert_allclose(sequential, exact, rtol, atol)
    np.testing.assert_allclose(terms.sum(axis=1), exact, rtol, atol)


def test_one_lost_term_is_noticed():
    terms = np.random.default_rng(0).uniform(-1, 1, 1000)
    rtol, atol = tolerance(FLOAT32, 1000)
    assert not np.isclose(terms[1:].sum(), terms.sum(), rtol, atol)


def test_tolerances_grow_with_length_scale_and_operations():
    assert tolerance(FLOAT32, 100) > tolerance(FLOAT32, 10) > tolerance(FLOAT32)
    assert tolerance(FLOAT32, 10, scale=4).atol > tolerance(FLOAT32, 10).atol
    assert tolerance(FLOAT32, operations=2).rtol < tolerance(FLOAT32, operations=9).rtol
    assert tolerance(FLOAT64, 100).rtol < 1e-6 * tolerance(FLOAT32, 100).rtol

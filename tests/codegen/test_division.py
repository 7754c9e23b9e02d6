"""Rows divided by one number each: correctly rounded without a division, at any exponent."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.codegen.target import ISA_LEVELS, Target

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
WIDTH = 512  # long enough for a loop over vectors, which is where quotients share their divisor


def divided(x: np.ndarray, y: np.ndarray, isa: str) -> np.ndarray:
    return lw.compile(lambda x, y: x / y, target=HOST.with_isa(isa))(x, y)


def numbers(rng: np.random.Generator, count: int, dtype: str, low: int, high: int) -> np.ndarray:
    """Random fractions with exponents from ``low`` to ``high``, of both signs."""
    fractions = rng.uniform(1.0, 2.0, count) * rng.choice([-1.0, 1.0], count)
    return np.ldexp(fractions.astype(dtype), rng.integers(low, high, count)).astype(dtype)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_are_those_of_a_division(dtype: str, isa: str, rng: np.random.Generator) -> None:
    info = np.finfo(dtype)
    # Quotients and remainders stay clear of the denormal numbers.
    x = numbers(rng, 64 * WIDTH, dtype, info.minexp // 2 + 3, info.maxexp // 2).reshape(64, WIDTH)
    x[:, :8] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.0], dtype)
    y = numbers(rng, 64, dtype, info.minexp // 2 + 3, info.maxexp // 2 - 3).reshape(64, 1)
    y[:8, 0] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.0], dtype)
    with np.errstate(all="ignore"):
        wanted = x / y
    found = divided(x, y, isa)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=30, deadline=None)
@given(isa=st.sampled_from(LEVELS), seed=st.integers(0, 2**32 - 1))
def test_quotients_at_the_ends_of_the_range_are_within_an_ulp(
    isa: str, dtype: str, seed: int
) -> None:
    info = np.finfo(dtype)
    rng = np.random.default_rng(seed)
    low, high = info.minexp - info.nmant, info.maxexp
    x = numbers(rng, 16 * WIDTH, dtype, low, high).reshape(16, WIDTH)
    y = numbers(rng, 16, dtype, low, high).reshape(16, 1)
    with np.errstate(all="ignore"):
        wanted = x / y
    found = divided(x, y, isa)
    finite = np.isfinite(wanted) & (np.abs(wanted) < info.max)
    ulp = np.spacing(np.abs(wanted[finite]))
    assert (np.abs(found[finite] - wanted[finite]) <= ulp).all()
    np.testing.assert_array_equal(found[~np.isfinite(wanted)], wanted[~np.isfinite(wanted)])


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_share_their_divisors(dtype: str, isa: str, rng: np.random.Generator) -> None:
    """Down a loop each lane has a divisor of its own."""
    low = np.finfo(dtype).minexp // 2 + 3
    x = -np.abs(numbers(rng, 64 * 300, dtype, low, 0).reshape(64, 300))
    x[5] = numbers(rng, 300, dtype, 0, -low)
    x[5, :6] = np.array([0.0, np.inf, -0.0, np.nan, -2.0, 1.0], dtype)
    with np.errstate(all="ignore"):
        wanted = x / np.max(x, axis=0)
    target = HOST.with_isa(isa)
    found = lw.compile(lambda x: x / np.max(x, axis=0), target=target)(x)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inverse_squares_are_powers(dtype: str, isa: str, rng: np.random.Generator) -> None:
    """Also where the square overflows or is denormal and the power is not."""
    info = np.finfo(dtype)
    edges = [0.0, np.inf, np.nan, 1.0, info.max, info.tiny, info.smallest_subnormal, 3.0]
    sizes = 2.0 ** np.arange(info.minexp // 2 - 30, -info.minexp // 2 + 40)
    x = np.concatenate([edges, rng.uniform(1, 2, sizes.size) * sizes, rng.uniform(0.5, 2, 500)])
    x = np.concatenate([x, -x]).astype(dtype)
    found = lw.compile(lambda x: x**-2, target=HOST.with_isa(isa))(x)
    with np.errstate(all="ignore"):
        exact = x.astype(np.longdouble) ** -2
        wanted = exact.astype(dtype)
    special = ~np.isfinite(wanted)
    np.testing.assert_array_equal(found[special], wanted[special])
    off = np.abs(found[~special] - exact[~special])
    assert np.all(off <= 1.01 * np.spacing(wanted[~special]))

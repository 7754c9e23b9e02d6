"""Complex arrays through the whole stack: compiled functions against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

Function = Callable[..., Any]


def drawn(*shape: int, dtype: str = "complex64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def check(function: Function, *args: Any) -> None:
    """The compiled function gives NumPy's results. Errors are relative to the greatest modulus, as
    the parts of a number share one bound."""
    results, expected = lw.compile(function)(*args), function(*args)
    several = isinstance(expected, tuple)
    pairs = zip(results, expected, strict=True) if several else [(results, expected)]
    for actual, wanted in pairs:
        wanted = np.asarray(wanted)
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
        rtol = 2e-5 if wanted.dtype in (np.complex64, np.float32) else 1e-12
        scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
        np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_arithmetic_and_parts(dtype: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return (
            x + y,
            x * y - 1j,
            2 * x,
            x / y,
            -x,
            abs(x),
            x.conj(),
            x.real,
            x.imag,
            np.angle(x),
            x == y,
            x != x,
            x.real + 2j,
            x.astype(np.complex64),
            np.isnan(x.real) | np.iscomplex(x),
        )

    check(function, drawn(5, 7, dtype=dtype), drawn(7, dtype=dtype, seed=1))


def test_shapes_sums_and_choices() -> None:
    def function(x: Any) -> Any:
        return (
            x.sum(),
            x.mean(axis=0),
            x.reshape(7, 5).T[1:3],
            np.concatenate([x, x * 1j]),
            x[:, ::2],
            np.where(x.real > 0, x, 0),
            np.zeros_like(x) + np.full((2, 1, 1), 1 - 2j),
        )

    check(function, drawn(5, 7))


def test_loops_and_branches_carry_complex_values() -> None:
    def function(c: Any) -> Any:
        z = lw.fori_loop(0, 5, lambda i, z: z * z + c, np.zeros_like(c))
        return lw.cond(abs(z).sum() > 1.0, lambda: z * 1j, lambda: z)

    check(function, drawn(4) * np.float32(0.3))


def test_python_complex_numbers_are_weak() -> None:
    def function(x: Any, number: Any) -> Any:
        return x * number

    check(function, drawn(3), 2 - 1j)
    check(function, np.arange(3, dtype=np.float32), 1j)
    check(function, np.arange(3), 1j)


def test_what_complex_numbers_do_not_have_names_them() -> None:
    with pytest.raises(TypeError, match="floor is not defined for complex64"):
        lw.compile(lambda x: np.floor(x))(drawn(3))

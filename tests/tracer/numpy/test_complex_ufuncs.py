"""Every ufunc that NumPy defines for complex numbers: random numbers, and special values."""

from __future__ import annotations

import itertools
from typing import Any

import loopwright as lw
import numpy as np
import pytest

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e-30, 3e30)
UNSPECIFIED = ("power", "pow", "float_power", "log1p", "multiply", "square")
"""Ufuncs whose special values C99 leaves open, or that are NumPy's but for an overflow of a product
which a fused multiply-add does not have; of log1p, NumPy's own loses small numbers."""


def ufuncs(operands: int, dtype: str) -> list[np.ufunc]:
    """NumPy's ufuncs of so many operands that take complex numbers."""
    found: dict[np.ufunc, None] = {}
    for value in vars(np).values():
        if isinstance(value, np.ufunc) and not value.signature and value.nout == 1:
            try:
                value.resolve_dtypes((*[np.dtype(dtype)] * value.nin, None))
            except TypeError:
                continue
            if value.nin == operands:
                found[value] = None
    return list(found)


def assert_near(name: str, actual: Any, wanted: Any) -> None:
    """The error of each part is small relative to the modulus, or to the part if that is all."""
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), name
    tolerance = 4e-6 if wanted.dtype in (np.complex64, np.float32) else 1e-14
    size = np.abs(wanted)
    parts = [(actual.real, wanted.real), (actual.imag, wanted.imag)]
    for one, other in parts if wanted.dtype.kind == "c" else [(actual * 1.0, wanted * 1.0)]:
        bound = tolerance * np.where(np.isfinite(size), size, np.abs(other))
        good = (one == other) | ((one != one) & (other != other)) | (np.abs(one - other) <= bound)
        bad = np.flatnonzero(~good)
        assert not len(bad), f"{name} {bad[:3]}: {actual[bad[:3]]}, NumPy's is {wanted[bad[:3]]}"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("operands", [1, 2])
def test_ufuncs(operands: int, dtype: str) -> None:
    rng = np.random.default_rng(operands)
    x, y = rng.normal(size=(2, 500)) * 3 + rng.normal(size=(2, 500)) * 2j
    edges = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL])
    pairs = [edges] if operands == 1 else [np.repeat(edges, 121), np.tile(edges, 121)]
    chosen = ufuncs(operands, dtype)
    args = [np.concatenate([drawn, edge]).astype(dtype) for drawn, edge in zip((x, y), pairs)]

    def function(*args: Any) -> Any:
        return tuple(u(*args) for u in chosen)

    with np.errstate(all="ignore"):
        for ufunc, actual in zip(chosen, lw.compile(function)(*args), strict=True):
            count = 500 if ufunc.__name__ in UNSPECIFIED else None
            assert_near(ufunc.__name__, actual[:count], ufunc(*args)[:count])


@pytest.mark.parametrize("ufunc", [np.add, np.multiply])
def test_arrays_without_elements_and_axes(ufunc: np.ufunc) -> None:
    shapes = ((), (0,), (3,), (0, 3), (1, 0))
    for first, second in itertools.product(shapes, shapes):
        x, y = np.ones(first, "complex64"), np.ones(second, "float32")
        try:
            wanted = ufunc(x, y)
        except ValueError:
            continue
        result = lw.compile(lambda x, y: ufunc(x, y))(x, y)
        assert_near(f"{first} and {second}", result, wanted)


def test_the_sign_of_zero_is_positive_zero() -> None:
    zeros = np.array([complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)])
    for dtype in ("complex64", "complex128"):
        sign = lw.compile(np.sign)(zeros.astype(dtype))
        assert not np.signbit(sign.real).any() and not np.signbit(sign.imag).any()


@pytest.mark.skipif(not hasattr(np, "vecmat"), reason="NumPy 2.2 has it")
def test_the_vector_of_vecmat_is_conjugated() -> None:
    v, m = np.array([1 + 2j, 2, -1j]), np.arange(6).reshape(3, 2) + 1j
    for vector, matrix in ((v, m), (v, m.real), (v.real, m), (v.astype("complex64"), m.real)):
        result, wanted = lw.compile(np.vecmat)(vector, matrix), np.vecmat(vector, matrix)
        assert_near("vecmat", result, wanted)

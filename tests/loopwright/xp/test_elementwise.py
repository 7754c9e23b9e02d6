"""Functions by element on special values, extremes and mixed dtypes, called on plain arrays.

The oracle is NumPy, whose results for real numbers are those of the standard's tables, signs of
zeros included. Of complex numbers the standard leaves signs of zeros open where parts are not
finite, and all special cases of ``pow``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loopwright import xp

INTS = "int8 int64 uint32"
REAL, COMPLEX, BOOL = "float32 float64", "complex64 complex128", "bool"
FLOATING = f"{REAL} {COMPLEX}"

DTYPES: dict[str, str] = {
    "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt tan "
    "tanh divide": FLOATING,
    "abs isfinite isinf isnan negative positive sign square add multiply subtract": (
        f"{INTS} {FLOATING}"
    ),
    "round": f"{INTS} {REAL}",
    "ceil floor trunc floor_divide remainder maximum minimum": f"{INTS} {REAL}",
    "conj real imag": COMPLEX,
    "signbit reciprocal atan2 copysign hypot logaddexp nextafter": REAL,
    "pow": f"{INTS} {REAL}",
    "less less_equal greater greater_equal": f"{INTS} {REAL} {BOOL}",
    "equal not_equal": f"{INTS} {FLOATING} {BOOL}",
    "logical_not logical_and logical_or logical_xor": BOOL,
    "bitwise_invert bitwise_and bitwise_or bitwise_xor": f"{INTS} {BOOL}",
    "bitwise_left_shift bitwise_right_shift": INTS,
}
CASES = [(n, d) for names, dtypes in DTYPES.items() for n in names.split() for d in dtypes.split()]

inf, nan = np.inf, np.nan
SPECIAL = [0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 1e15, -1e-15]
WHOLE = [0, 1, 2, 3, 5, 7, -1, -2, -5]


def _values(dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([True, False])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        ends = [limits.min, limits.max, limits.max - 1]
        return np.array([v for v in WHOLE + ends if limits.min <= v <= limits.max], kind)
    if kind.kind == "f":
        return np.array(SPECIAL, kind)
    values = np.empty((len(SPECIAL), len(SPECIAL)), kind)
    values.real, values.imag = np.array(SPECIAL)[:, None], np.array(SPECIAL)
    return values.ravel()


def _operands(name: str, dtype: str) -> tuple[Any, ...]:
    values = _values(dtype)
    if getattr(np, name).__class__ is not np.ufunc or getattr(np, name).nin == 1:
        return (values,)
    first, second = values[:, None], values[None, :: 7 if dtype in COMPLEX else 1]
    if dtype in INTS and ("shift" in name or name == "pow"):
        second = second & np.asarray(7, dtype)
    if dtype in INTS and name in ("floor_divide", "remainder"):
        second = np.where(second == 0, 1, second).astype(dtype)
    return first, second


@pytest.mark.parametrize("name, dtype", CASES)
def test_special_values(name: str, dtype: str) -> None:
    operands = _operands(name, dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(getattr(np, name)(*operands))
        result = np.asarray(getattr(xp, name)(*operands))
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    rtol = 1e-4 if dtype in ("float32", "complex64") else 1e-10
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(result, expected)
    elif expected.dtype.kind == "f":
        np.testing.assert_allclose(result, expected, rtol=rtol, equal_nan=True)
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(expected[zero]))
    else:
        _agree(result, expected, rtol)


def _agree(result: Any, expected: Any, rtol: float) -> None:
    """Complex numbers: close where finite; nan where nan; infinite where infinite."""
    finite = np.isfinite(expected)
    np.testing.assert_allclose(result[finite], expected[finite], rtol=rtol, atol=1e-14)
    np.testing.assert_array_equal(np.isinf(result), np.isinf(expected))
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))


MIXED = [("int8", "uint8"), ("int8", "int64"), ("uint32", "int16"), ("float32", "float64")]
MIXED += [("float32", "complex128"), ("complex64", "float64"), ("int32", "float32")]


@pytest.mark.parametrize("name", ["add", "multiply", "equal"])
@pytest.mark.parametrize("left, right", MIXED)
def test_mixed_dtypes_broadcast(name: str, left: str, right: str) -> None:
    a, b = np.arange(6).reshape(2, 1, 3).astype(left), np.arange(4).reshape(4, 1).astype(right)
    for x1, x2 in ((a, b), (b, a), (a[0, 0, 0], b), (a[:0], b)):
        result, expected = getattr(xp, name)(x1, x2), getattr(np, name)(x1, x2)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


NUMBERS = {"i": (True, 3), "u": (3,), "f": (2, 2.5, nan), "c": (2, 2.5, 1j)}


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64", "complex64"])
def test_python_numbers_take_the_dtype_of_the_array(dtype: str) -> None:
    x = np.arange(6).astype(dtype)
    for number in NUMBERS[x.dtype.kind]:
        assert xp.add(x, number).dtype == xp.add(number, x).dtype == x.dtype
        np.testing.assert_array_equal(xp.multiply(x, number), x * number)
        np.testing.assert_array_equal(xp.where(x == 1, x, number), np.where(x == 1, x, number))


@pytest.mark.parametrize("low, high", [(2, 5), (None, 5), (2, None), (None, None)])
def test_clip_keeps_the_dtype(low: Any, high: Any) -> None:
    x = np.arange(8, dtype=np.int8)
    result = xp.clip(x, low, high)
    assert result.dtype == np.int8 and result is not x
    np.testing.assert_array_equal(result, np.clip(x, low or 0, high or 7))


def test_clip_between_arrays() -> None:
    low = np.array([0.0, 3.0, nan])
    np.testing.assert_array_equal(xp.clip(np.array([-1.0, 2.0, 1.0]), low, 5.0), low)

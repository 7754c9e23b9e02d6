"""float16 is converted as NumPy does it, on every ISA level; operators round as NumPy's."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from compiled import RUNNABLE
from loopwright.codegen.target import Target

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
RNG = np.random.default_rng(0)


def same(got: Any, want: Any) -> None:
    """The same bits, of any nan."""
    assert got.dtype == want.dtype
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    bits = f"u{want.itemsize}"
    np.testing.assert_array_equal(got[number].view(bits), want[number].view(bits))


def borders(dtype: str) -> Any:
    """Every float16, the middle of each two, and the numbers beside both; random bits."""
    finite = HALVES[:0x7C00].astype(np.float64)
    middles = (finite[1:] + finite[:-1]) / 2
    near = np.concatenate([finite, middles, [65519.0, 65520.0, 65521.0, 1e30]]).astype(dtype)
    beside = [np.nextafter(near, np.array(way, dtype)) for way in (np.inf, -np.inf)]
    words = RNG.integers(0, 1 << 63, 50_000).view(f"f{np.dtype(dtype).itemsize}")
    values = np.concatenate([near, *beside, np.array([np.inf, np.nan], dtype)])
    return np.concatenate([values, -values, words]).astype(dtype)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_conversions_are_exact_or_round_to_even(isa: str) -> None:
    def cast(dtype: Any) -> Any:
        return lw.compile(lambda x: x.astype(dtype), target=Target(isa=isa))

    with np.errstate(all="ignore"):
        same(cast(np.float32)(HALVES), HALVES.astype(np.float32))
        for dtype in ("float32", "float64"):
            x = borders(dtype)
            same(cast(np.float16)(x), x.astype(np.float16))
        for dtype in ("int32", "uint8", "bool"):
            few = np.arange(256).astype(dtype)
            same(cast(np.float16)(few), few.astype(np.float16))
            np.testing.assert_array_equal(cast(dtype)(few.astype(np.float16)), few)


@pytest.mark.parametrize("isa", [RUNNABLE[-1], RUNNABLE[0]])
def test_operators_round_as_those_of_numpy(isa: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y, x * y, x / y, x * 3 - 0.5, np.where(x > y, x, y), np.sqrt(abs(x))

    x, y = HALVES, RNG.permutation(HALVES)
    with np.errstate(all="ignore"):
        for got, want in zip(lw.compile(f, target=Target(isa=isa))(x, y), f(x, y), strict=True):
            same(got, want)


def test_functions_reductions_and_products() -> None:
    x = RNG.uniform(-2, 2, (37, 20)).astype(np.float16)

    def f(x: Any) -> Any:
        x = x.copy()
        x[0] = 1
        return (
            np.exp(x), np.tanh(x), x.sum(axis=0), x.mean(), x.std(axis=1), x.max(axis=1),
            x @ x.T, np.sort(x, axis=1), np.cumsum(x, axis=0), np.concatenate([x, x[::-1]]),
            x.astype(np.int32), x.argmax(axis=1), np.arange(3, dtype=np.float16), x.reshape(-1)[5],
        )  # fmt: skip

    for got, want in zip(lw.compile(f)(x), f(x), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=4e-3, atol=1e-2)
    long = np.ones(70_000, np.float16)
    assert lw.compile(lambda x: (x / 64).sum())(long) == np.float16(70_000 / 64)


def test_promotion_is_that_of_numpy() -> None:
    half = np.float16([1, 2])
    for function in (
        lambda x: np.exp(np.int8([1, 2])) + x,
        lambda x: x + 1,
        lambda x: x * 2.5,
        lambda x: x + np.int8([3, 4]),
        lambda x: x + np.int16([3, 4]),
        lambda x: x + np.float32(1),
        lambda x: x + np.int64([1, 2]),
        lambda x: abs(x + 2j * x),
        lambda x: abs(np.fft.fft(x)),
        lambda x: np.fft.irfft(x),
    ):
        got, want = lw.compile(function)(half), function(half)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-3)


def test_what_only_moves_is_not_converted() -> None:
    def f(x: Any, i: Any) -> Any:
        y = np.pad(np.concatenate([x[::-1], x.T]), 1)
        y[i] = x[0, 0]
        y[2] = 3
        return np.tril(y)[:, i], np.diag(y), np.split(y, 2, axis=1)[1]

    x = np.arange(16).reshape(4, 4).astype(np.float16)
    compiled = lw.compile(f)
    assert "float32" not in compiled.lower(x, 1).as_text("kernels")
    for got, want in zip(compiled(x, 1), f(x, 1), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_loops_branches_and_writes_keep_halves() -> None:
    def f(x: Any) -> Any:
        y = lw.fori_loop(0, 5, lambda i, y: y * np.float16(0.5) + x, x)
        return lw.cond(y.sum() > 0, lambda: y, lambda: -y)

    x = np.float16([1, -0.5, 3])
    got, want = lw.compile(f)(x), f(x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.arange(1 << 16, dtype=np.uint16).view(bfloat16)
    y = RNG.permutation(x)
    words = np.concatenate([borders("float32"), x.astype(np.float32)])

    def bits(values: Any) -> Any:
        return np.where(np.isnan(values), bfloat16(1), values).view(np.uint16)

    def f(x: Any, y: Any, words: Any) -> Any:
        return x + y, x / y, x * 2, np.where(x > y, x, y), np.exp(x), words.astype(bfloat16)

    with np.errstate(all="ignore"):
        for isa in (RUNNABLE[-1], RUNNABLE[0]):
            made = lw.compile(f, target=Target(isa=isa))(x, y, words)
            for got, want in zip(made, f(x, y, words), strict=True):
                assert got.dtype == want.dtype == bfloat16
                np.testing.assert_array_equal(bits(got), bits(want))
    assert str(lw.bf16[3]) == "bfloat16[3]" and lw.compile(lambda x: x @ x).trace(lw.bf16[4, 4])

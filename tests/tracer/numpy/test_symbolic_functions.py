"""Functions with an axis of symbolic size, traced once, against NumPy at several sizes: what works
along that axis, arrays of its size that NumPy makes, and loops over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import UnsupportedError
from loopwright.ir.graph.evaluate import evaluate

F = np.float32
SIZES = (3, 0, 7, 1)
SOME = (3, 7, 1)


def values(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).normal(size=(n, 4)).astype(F)


def same(got: Any, want: Any) -> None:
    several = isinstance(want, tuple | list)
    for a, b in zip(got, want, strict=True) if several else [(got, want)]:
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [7, 4])
@pytest.mark.parametrize(
    ("f", "sizes"),
    [
        (lambda x: x + np.arange(x.shape[0], dtype=F)[:, None], SIZES),
        (lambda x: np.arange(1, x.shape[0] + 1, dtype="float64")[:, None] * x, SIZES),
        (lambda x: x * np.linspace(0, 1, x.shape[0])[:, None], SIZES),
        (lambda x: np.tri(x.shape[0], k=-1) + np.identity(x.shape[0]), SIZES),
        (lambda x: np.tri(x.shape[0], 4, dtype=F) * x, SIZES),
        (lambda x: (x @ x.T)[np.tril_indices(x.shape[0])], SIZES),
        (lambda x: x[np.triu_indices_from(x, 1)], SIZES),
        (lambda x: x * np.size(x) + np.shape(x)[0], SIZES),
        (lambda x: np.median(x, axis=0), SOME),
        (lambda x: np.median(x, axis=0, keepdims=True), (3, 8)),
        (lambda x: np.nanmedian(np.where(x > 1, np.nan, x), axis=0), SOME),
        (lambda x: np.nanmedian(np.where(x > 1, np.nan, x), axis=1), SIZES),
        (lambda x: np.quantile(x, [0.3, 0.7], axis=0), SOME),
        (lambda x: np.percentile(x, 30, method="higher"), SOME),
        (lambda x: np.take_along_axis(x, np.argsort(x, 0), 0), SIZES),
        (lambda x: np.take_along_axis(x, np.argsort(x, 1), 1), SIZES),
        (lambda x: (x @ x.T)[np.array([0, -1]), np.array([-1, 0])], SOME),
        (lambda x: x[np.arange(x.shape[0]), np.argmax(x, 1)], SIZES),
        (lambda x: np.insert(x, 1, 0, axis=0), SOME),
        (lambda x: np.insert(x, -1, x[0], axis=0), SOME),
        (lambda x: np.delete(x, 0, axis=0), SOME),
        (lambda x: np.delete(x, -2), SOME),
        (lambda x: np.fft.fftshift(x), SIZES),
        (lambda x: np.roll(x, -(x.shape[0] // 2), 0), SIZES),
        (lambda x: x[1:-1] * 2, SIZES),
        (lambda x: np.unique(np.round(x)), SIZES),
        (lambda x: np.unique(np.round(x), True, True, True), SIZES),
        (lambda x: np.linalg.solve(x.T @ x + np.eye(4), x.T), SIZES),
    ],
)
def test_a_function(f: Callable[..., Any], sizes: tuple[int, ...], size: int) -> None:
    made = lw.compile(f, dynamic={"x": {0: "n"}}).trace(values(size))
    for n in sizes:
        x = values(n)
        results = evaluate(made.module, x)
        leaves = list(results) if isinstance(results, tuple) else [results]
        same(made.result(leaves, [x]), f(x))


def halving(carry: Any, row: Any) -> Any:
    return carry * F(0.5) + row, carry.sum() + row


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lw.scan(halving, np.zeros(4, F), x),
        lambda x: lw.scan(halving, np.zeros(4, F), x, reverse=True, unroll=2),
        lambda x: lw.scan(lambda c, _: (c * F(0.5) + 1, c), F(0), None, length=x.shape[0]),
        lambda x: lw.scan(lambda c, r: (c + r, c), np.zeros(x.shape[0], F), x.T),
        lambda x: lw.map(lambda row: row @ row, x),
        lambda x: lw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1],
        lambda x: lw.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, x),
    ],
)
def test_a_loop(f: Callable[..., Any]) -> None:
    compiled = lw.compile(f, dynamic={"x": {0: "n"}})
    for n in SIZES:
        same(compiled(values(n)), f(values(n)))
    assert compiled.cache_info().misses == 1


def test_scans_of_two_symbolic_lengths_need_them_equal() -> None:
    @lw.compile(dynamic={"x": {0: "n"}, "y": {0: "m"}})
    def f(x: Any, y: Any) -> Any:
        return lw.scan(lambda c, rows: (c + rows[0] * rows[1], None), np.zeros(4, F), (x, y))[0]

    same(f(values(3), values(3)), (values(3) ** 2).sum(0))
    with pytest.raises(lw.LoopwrightError, match="xs\\[0\\] has n rows, xs\\[1\\] has m"):
        f(values(3), values(5))


def test_an_unrolled_scan_needs_its_length() -> None:
    @lw.compile(dynamic={"x": {0: "n"}})
    def f(x: Any) -> Any:
        return lw.scan(halving, np.zeros(4, F), x, unroll=True)

    with pytest.raises(UnsupportedError, match="unroll=True needs the number of rows"):
        f(values(3))


def test_foreign_functions_get_arrays_of_the_size_of_the_call() -> None:
    @lw.extern(results=lambda x: lw.f32[x.shape[0] * 2, x.shape[1]])
    def twice(x: Any) -> Any:
        return np.concatenate([x, x])

    f = lw.compile(lambda x: twice(x * 3) + 1, dynamic={"x": {0: "n"}})
    for n in SIZES:
        same(f(values(n)), np.concatenate([values(n)] * 2) * 3 + 1)

"""Complex arrays through the whole stack: compiled functions against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
        assert type(actual) is type(wanted)
        actual, wanted = np.asarray(actual), np.asarray(wanted)
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


def test_a_complex_constant_beside_a_loop() -> None:
    def f(c, a):
        c[...] = 1
        return np.maximum(c, 1)[-1], lw.fori_loop(0, len(a), lambda i, n: i * 2, 3)

    for size in (0, 2):
        c = np.array([2.0 + 1j, 3])
        given = lw.compile(f, dynamic={"a": {0: "n"}})(c, np.ones(size))
        assert given == f(c.copy(), np.ones(size)) and c.tolist() == [1, 1]


def test_python_complex_numbers_are_weak() -> None:
    def function(x: Any, number: Any) -> Any:
        return x * number

    check(function, drawn(3), 2 - 1j)
    check(function, np.arange(3, dtype=np.float32), 1j)
    check(function, np.arange(3), 1j)
    check(function, np.complex64(1 - 2j), 2)


FUNCTIONS: dict[str, Function] = {
    "prod": lambda x, y: (x.prod(), x.prod(0), np.prod(x, 1, keepdims=True)),
    "scans": lambda x, y: (x.cumsum(1), np.cumprod(x, 0)),
    "spread": lambda x, y: (x.var(), x.std(0), np.var(x, 1, ddof=1), np.average(x, axis=0)),
    "extremes": lambda x, y: (x.max(), x.min(0), np.max(np.round(x), 1), np.argmin(np.round(x), 1)),
    "truth": lambda x, y: (x.any(), np.all(x, 0), np.logical_not(x), x.astype(bool)),
    "matmul": lambda x, y: (x @ y.T, x @ y[0], y[0] @ x.T, np.dot(x[0], y[0]), np.inner(x, y)),
    "conjugated": lambda x, y: (np.vdot(x, y), np.vecdot(x, y), np.linalg.norm(x, axis=1)),
    "einsum": lambda x, y: (np.einsum("ij,kj->ik", x, y), np.einsum("ij,ij,kj->k", x, y, x)),
    "products": lambda x, y: (np.tensordot(x, y, ([0], [0])), np.outer(x[0], y[0]), np.kron(x, y)),
    "order": lambda x, y: (x < y, x <= y, x > y, x >= y, np.maximum(x, y), np.fmin(x, y)),
    "choice": lambda x, y: (np.where(x.real > 0, 1, y), np.clip(x, -1, 1), np.tril(x)),
    "index": lambda x, y: (x[[0, 2, 1]], x[:, np.array([0, 1])], np.take(x, [1, 2], axis=1)),
    "join": lambda x, y: (np.stack([x, y]), np.pad(x, 1), *np.split(x, 2), np.roll(x, 2, 1)),
    "powers": lambda x, y: (x**2, x**5, x**-1, x**0.5, x**y, 2**x, 1 / x),
    "rounding": lambda x, y: (np.round(x, 1), np.around(x), np.rint(x), np.nan_to_num(x)),
    "near": lambda x, y: (np.isclose(x, y), np.array_equal(x, x), np.isfinite(x), np.isreal(x)),
    "bytes": lambda x, y: (x.view(x.real.dtype), x.view(x.real.dtype)[:, ::2] * 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    for dtype in ("complex64", "complex128"):
        check(FUNCTIONS[name], drawn(6, 5, dtype=dtype), drawn(6, 5, dtype=dtype, seed=1))


def test_writes_through_parts_and_bytes() -> None:
    def parts(x: Any) -> Any:
        x.real = 2
        x.imag[1:3] = x.real[1:3] * 3
        x.real += 1
        x[0] = 5j
        floats = x.view(x.real.dtype)
        floats[:, 0] = 1
        return x.sum()

    def positions(x: Any) -> Any:
        x = x.copy()
        x[np.array([0, 1]), 2] += 2
        np.add.at(x, (np.array([0, 0, 1]), np.array([1, 1, 2])), 1j)
        x.real[x.real > 0] = 1
        return x

    for function in (parts, positions):
        x = drawn(4, 5)
        wanted = x.copy()
        check(function, x.copy())
        function(wanted)
        lw.compile(function)(x)
        np.testing.assert_array_equal(x, wanted)


def test_debugging_compares_complex_values() -> None:
    f = lw.compile(lambda x: (x * x + 1j, abs(x)))
    assert not lw.debug.compare(f, drawn(8)).differs


def test_orders_are_numpys() -> None:
    x = np.round(drawn(6, 9))
    x[0, 3], x[2, 1], x[2, 4] = complex(1, np.nan), complex(np.nan, 1), complex(np.nan, np.nan)
    f = lw.compile(lambda x: (np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None)))
    for actual, wanted in zip(f(x), (np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None))):
        np.testing.assert_array_equal(actual, wanted)
    position = lw.compile(np.argsort)(x)
    np.testing.assert_array_equal(np.take_along_axis(x, position, -1), np.sort(x))


def test_saved_functions_take_and_return_complex_arrays(tmp_path: Path) -> None:
    f = lw.compile(lambda x, number: x * x + number)
    x = drawn(5, 3)
    wanted = f(x, 2j)
    f.lower(x, 2j).save(tmp_path / "f.lw")
    np.testing.assert_array_equal(lw.load(tmp_path / "f.lw")(x, 2j), wanted)


def test_arrays_of_every_layout() -> None:
    x = drawn(6, 8)
    for view in (
        x[::2, ::-1].T,
        np.asfortranarray(x),
        x.astype(">c8"),
        np.frombuffer(b"0000" + x.tobytes(), "c8", offset=4),
        np.zeros((0, 3), np.complex64),
        np.array(1j),
    ):
        np.testing.assert_allclose(lw.compile(lambda x: x * 2j)(view), view * 2j, rtol=1e-6)


def test_what_complex_numbers_do_not_have_names_them() -> None:
    with pytest.raises(TypeError, match="floor is not defined for complex64"):
        lw.compile(lambda x: np.floor(x))(drawn(3))


def test_sums_and_products_of_arguments_read_them_in_order() -> None:
    def function(x: Any, v: Any) -> Any:
        return (x.sum(), x.sum(0), x.mean(1, keepdims=True), x @ v, x[1:].sum(), v.sum())

    check(function, drawn(3, 48), drawn(48, seed=1))
    check(function, drawn(5, 7, dtype="complex128"), drawn(7, dtype="complex128", seed=1))
    check(lambda x: (x.sum(), x.sum(1), x.prod(0)), np.zeros((2, 0), np.complex64))


def test_large_matrix_products() -> None:
    check(lambda a, b: a @ b, drawn(70, 80), drawn(80, 90, seed=1))


def test_convolutions_are_four_of_the_parts() -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal((*s, 2)).view(complex)[..., 0] for s in ((2, 3, 9), (4, 3, 3)))
    result = lw.compile(lambda x, w: lw.nn.conv1d(x, w))(x, w)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=-1)
    np.testing.assert_allclose(result, np.einsum("ncik,ock->noi", windows, w), rtol=1e-12)

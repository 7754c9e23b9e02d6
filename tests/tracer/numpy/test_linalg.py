"""``np.linalg`` on traced arrays agrees with NumPy: over stacks, dtypes and keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

L = np.linalg
RNG = np.random.default_rng(14)
A = RNG.standard_normal((5, 5))
S = A @ A.T + np.eye(5)
T = RNG.standard_normal((3, 5, 5))
M = RNG.standard_normal((4, 6))
N = RNG.standard_normal((2, 6, 4)).astype(np.float32)
Z = T + 1j * T[::-1]
INTEGERS = np.arange(9).reshape(3, 3)

USES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "solve": (L.solve, (A, M[:, :5].T)),
    "solve of a vector": (L.solve, (T.astype(np.float32), np.ones(5, np.float32))),
    "solve of stacks": (L.solve, (T[:, None], RNG.standard_normal((2, 5, 3)))),
    "solve of integers": (L.solve, ((10 * A).astype(np.int64), np.arange(5))),
    "solve of nothing": (L.solve, (np.zeros((0, 0)), np.zeros((0, 2)))),
    "inv": (L.inv, (T,)),
    "det": (L.det, (T,)),
    "slogdet": (L.slogdet, (T.astype(np.float32),)),
    "cholesky": (L.cholesky, (S,)),
    "cholesky upper": (lambda a: L.cholesky(a, upper=True), (S,)),
    "eigh": (L.eigh, (S,)),
    "eigh upper": (lambda a: L.eigh(a, "U"), (S,)),
    "eigvalsh": (L.eigvalsh, (T + np.swapaxes(T, -1, -2),)),
    "qr": (L.qr, (N,)),
    "qr of a wide one": (L.qr, (M,)),
    "qr complete": (lambda a: L.qr(a, "complete"), (N,)),
    "qr complete of a wide one": (lambda a: L.qr(a, "complete"), (M,)),
    "qr r": (lambda a: L.qr(a, "r"), (M,)),
    "qr raw": (lambda a: L.qr(a, "raw"), (M.T,)),
    "svd": (L.svd, (M,)),
    "svd reduced": (lambda a: L.svd(a, full_matrices=False), (N,)),
    "svd values": (lambda a: L.svd(a, compute_uv=False), (T,)),
    "svd of a symmetric one": (lambda a: L.svd(a, hermitian=True), (S,)),
    "svdvals": (L.svdvals, (M,)),
    "trace": (L.trace, (T[:, :4],)),
    "pinv": (L.pinv, (N,)),
    "pinv with a tolerance": (lambda a: L.pinv(a, rtol=0.5), (M,)),
    "pinv of a symmetric one": (lambda a: L.pinv(a, hermitian=True), (S,)),
    "matrix_rank": (L.matrix_rank, (T,)),
    "matrix_rank of integers": (L.matrix_rank, (INTEGERS,)),
    "matrix_rank with a tolerance": (lambda a: L.matrix_rank(a, tol=1.0), (M,)),
    "cond": (L.cond, (T,)),
    "cond 1": (lambda a: L.cond(a, 1), (T,)),
    "cond of a singular one": (lambda a: L.cond(a, np.inf), (np.ones((3, 3)),)),
    "cond -2": (lambda a: L.cond(a, -2), (M,)),
    "lstsq": (L.lstsq, (M, RNG.standard_normal(4))),
    "lstsq of a tall one": (L.lstsq, (M.T, RNG.standard_normal((6, 2)))),
    "lstsq in float32": (L.lstsq, (N[0], np.ones(6, np.float32))),
    "lstsq of many": (L.lstsq, (M, RNG.standard_normal((4, 2)))),
    "complex inv": (L.inv, (Z,)),
    "complex eig": (L.eig, (Z,)),
    "complex eigvals": (L.eigvals, (Z.astype(np.complex64),)),
    "complex eigh": (L.eigh, (Z,)),
    "complex qr": (L.qr, (Z,)),
    "complex svd": (L.svd, (Z,)),
    "complex slogdet": (L.slogdet, (Z,)),
    "matrix_power": (lambda a: L.matrix_power(a, 5), (A,)),
    "matrix_power -3": (lambda a: L.matrix_power(a, -3), (T,)),
    "matrix_power 0": (lambda a: L.matrix_power(a, 0), (INTEGERS,)),
    "multi_dot": (lambda a, b: L.multi_dot([a, b, a, b, b]), (A, S)),
    "multi_dot of vectors": (lambda a, b: L.multi_dot([b, a, a, b]), (A, S[0])),
    "tensorinv": (L.tensorinv, (RNG.standard_normal((4, 6, 8, 3)),)),
    "tensorsolve": (L.tensorsolve, (RNG.standard_normal((2, 6, 3, 4)), M[:2])),
    "norm 2": (lambda a: L.norm(a, 2), (M,)),
    "norm nuc": (lambda a: L.norm(a, "nuc", axis=(0, 2)), (T,)),
    "norm -2": (lambda a: L.norm(a, -2, axis=(2, 0), keepdims=True), (N,)),
    "matrix_norm": (lambda a: L.matrix_norm(a, ord="nuc"), (T,)),
}


@pytest.mark.parametrize("name", USES)
def test_it_is_numpys(name: str) -> None:
    function, arguments = USES[name]
    wanted, result = function(*arguments), lw.compile(function)(*arguments)
    assert type(result) is type(wanted) or not isinstance(wanted, tuple)
    pairs = zip(result, wanted, strict=True) if isinstance(wanted, tuple) else [(result, wanted)]
    for mine, theirs in pairs:
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        tolerance = 1e-5 if mine.real.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


def test_residuals_of_less_than_full_rank_are_an_error_if_they_are_used() -> None:
    a, b = np.ones((6, 4)), np.arange(6.0)
    wanted = L.lstsq(a, b)[0]
    np.testing.assert_allclose(lw.compile(lambda a, b: L.lstsq(a, b)[0])(a, b), wanted, rtol=1e-12)
    with pytest.raises(L.LinAlgError, match="the rank is 1, less than 4"):
        lw.compile(lambda a, b: L.lstsq(a, b)[1])(a, b)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_small_systems_are_straight_code(size: int) -> None:
    a = RNG.standard_normal((7, 2, size, size)) + 3 * np.eye(size)
    b = RNG.standard_normal((2, size, 2))
    s = a @ np.swapaxes(a, -1, -2)
    uses: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (L.solve, (a, b)),
        (L.solve, (a[0, 0], b[0, :, 0])),
        (L.inv, (a,)),
        (L.det, (a,)),
        (L.cholesky, (s,)),
        (lambda x: L.cholesky(x, upper=True), (s[0, 0],)),
    ]
    for function, arguments in uses:
        f, wanted = lw.compile(function), function(*arguments)
        np.testing.assert_allclose(f(*arguments), wanted, rtol=1e-9, atol=1e-9)
        assert "_small" in f.lower(*arguments).as_text("kernels")


@pytest.mark.parametrize("size", [5, 11])
def test_stacks_of_small_systems_run_in_lanes(size: int) -> None:
    a = RNG.standard_normal((19, size, size))
    b = RNG.standard_normal((19, size, 2)).astype(np.float32)
    uses: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (L.solve, (a, b)),
        (L.inv, (a,)),
        (L.det, (a,)),
    ]
    for function, arguments in uses:
        f, wanted = lw.compile(function), function(*arguments)
        np.testing.assert_allclose(f(*arguments), wanted, rtol=1e-9, atol=1e-9)
        assert "_small" in f.lower(*arguments).as_text("kernels")
    assert "_small" not in lw.compile(L.det).lower(a[:9]).as_text("kernels")  # too few for lanes
    a[7] = 1
    with pytest.raises(L.LinAlgError, match="Singular matrix"):
        lw.compile(L.solve)(a, b)
    np.testing.assert_allclose(lw.compile(L.det)(a), L.det(a), rtol=1e-9)
    a[7] = a[6] * np.where(np.eye(size), np.nan, 1)
    np.testing.assert_array_equal(np.isnan(lw.compile(L.inv)(a)), np.isnan(L.inv(a)))


def test_small_systems_fail_as_numpys() -> None:
    singular = np.stack([np.eye(3), np.ones((3, 3))])
    with pytest.raises(L.LinAlgError, match="Singular matrix"):
        lw.compile(L.inv)(singular)
    with pytest.raises(L.LinAlgError, match="Singular matrix"):
        lw.compile(L.solve)(np.zeros((2, 2)), np.ones(2))
    with pytest.raises(L.LinAlgError, match="not positive definite"):
        lw.compile(L.cholesky)(np.diag([1.0, -1.0]))
    np.testing.assert_array_equal(lw.compile(L.det)(singular), [1, 0])
    strange = np.array([[np.nan, 1], [1, 2]])
    np.testing.assert_array_equal(lw.compile(L.inv)(strange), L.inv(strange))


def test_a_kalman_filter_runs_without_a_library() -> None:
    step, noise = np.array([[1.0, 0.1], [0.0, 1.0]]), np.diag([0.01, 0.1])
    seen = RNG.standard_normal((30, 2))

    def filtered(seen: Any) -> Any:
        def advance(state: Any, z: Any) -> Any:
            x, p = step @ state[0], step @ state[1] @ step.T + noise
            gain = p @ np.linalg.inv(p + np.eye(2))
            x = x + gain @ (z - x)
            return (x, (np.eye(2) - gain) @ p), x

        return lw.scan(advance, (np.zeros(2), np.eye(2)), seen)[1]

    np.testing.assert_allclose(lw.compile(filtered)(seen), filtered(seen), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        (L.inv, np.ones((5, 5)), "Singular matrix"),
        (L.cholesky, -np.eye(5), "Matrix is not positive definite"),
        (L.eigvalsh, np.full((5, 5), np.nan), "Eigenvalues did not converge"),
        (L.svd, np.full((5, 5), np.nan), "SVD did not converge"),
    ],
)
def test_it_fails_as_numpy_does(function: Callable[..., Any], argument: Any, message: str) -> None:
    with pytest.raises(L.LinAlgError, match=message):
        function(argument)
    with pytest.raises(L.LinAlgError, match=message):
        lw.compile(function)(argument)


def _or_none(x: Any, *classes: Any) -> Any:
    try:
        return np.linalg.inv(x)
    except classes:
        return None


def _bare(x: Any) -> Any:
    try:
        return np.linalg.cholesky(x)
    except:  # noqa: E722
        return x


def _named(x: Any) -> Any:
    try:
        return np.linalg.solve(x, x)
    except KeyError:
        raise
    except np.linalg.LinAlgError:
        return x


def _outer(x: Any) -> Any:
    try:
        return _inner(x)
    except ValueError:
        return x


def _inner(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.linalg.inv(x)


def _others(x: Any) -> Any:
    try:
        x = np.linalg.inv(x)
    except KeyError:
        x = x + 1
    finally:
        x = x * 2
    return x


@pytest.mark.parametrize("size", [2, 40])
def test_handlers_that_would_never_run_are_refused(size: int) -> None:
    singular = np.zeros((size, size))
    for function in (_bare, _named, _outer, lambda x: _or_none(x, np.linalg.LinAlgError)):
        with pytest.raises(lw.LoopwrightError, match="would never run"):
            lw.compile(function)(singular)
    np.testing.assert_allclose(lw.compile(_others)(np.eye(size)), _others(np.eye(size)))

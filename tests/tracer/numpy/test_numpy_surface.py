"""Every NumPy function on traced arrays against NumPy itself: values, shapes and dtypes."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.core.dispatch import METHODS

R = np.random.default_rng(5)
A = R.normal(size=(3, 4)).astype(np.float32)
B = R.normal(size=(3, 4)).astype(np.float32)
P = (np.abs(A) + 0.5).astype(np.float32)
U = R.uniform(-0.9, 0.9, size=(3, 4)).astype(np.float32)
D = R.normal(size=(4, 5))
C = R.normal(size=(2, 3, 4)).astype(np.float32)
V = R.normal(size=4).astype(np.float32)
I = R.integers(-9, 9, size=(3, 4)).astype(np.int32)
J = R.integers(1, 6, size=(3, 4)).astype(np.int32)
K8 = R.integers(0, 100, size=(3, 4)).astype(np.int8)
U8 = R.integers(0, 200, size=(3, 4)).astype(np.uint8)
L = A > 0
M = B > 0
N = np.where(L, A, np.nan).astype(np.float32)
S = np.float32([[0.0, -0.0, np.inf], [-np.inf, np.nan, 1.5]])
SQ = R.normal(size=(4, 4)).astype(np.float32)
IDX = np.array([2, 0, -1, 1])
ROW = np.array([[0, 2], [1, -1]])

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def check(function: Callable[..., Any], *args: Any) -> None:
    """``function`` compiled and plain give the same."""
    with np.errstate(all="ignore"):
        expected = function(*args)
    result = lw.compile(function)(*args)
    many = isinstance(expected, tuple | list)
    assert type(result) is type(expected) or not many
    pairs = zip(result, expected, strict=True) if many else [(result, expected)]
    for got, want in pairs:
        want = np.asarray(want)
        got = np.asarray(got)
        assert got.dtype == want.dtype, (got.dtype, want.dtype)
        assert got.shape == want.shape
        loose = 1e-12 if want.dtype == np.float64 else 2e-5
        if want.dtype == np.float16:
            loose = 2e-3
        np.testing.assert_allclose(got, want, rtol=loose, atol=loose)


UNARY = [
    np.negative, np.positive, np.absolute, np.fabs, np.sign, np.sqrt, np.cbrt, np.square,
    np.reciprocal, np.floor, np.ceil, np.trunc, np.rint, np.exp, np.exp2, np.expm1, np.log,
    np.log1p, np.log2, np.log10, np.sin, np.cos, np.tan, np.arctan, np.sinh, np.cosh, np.tanh,
    np.arcsinh, np.isnan, np.isinf, np.isfinite, np.logical_not, np.deg2rad, np.rad2deg, np.radians,
    np.degrees, np.signbit,
    np.modf, np.conjugate, np.fix, np.nan_to_num, np.isposinf, np.isneginf, np.sinc, np.round,
    np.real, np.copy,
]  # fmt: skip


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_one_operand(function: Any) -> None:
    check(lambda x: function(x), P)
    check(lambda x: function(x), S)
    if function not in (np.fix, np.isposinf, np.isneginf):
        check(lambda x: function(x), J)
    check(lambda x: function(x), D)


@pytest.mark.parametrize("function", [np.arcsin, np.arccos, np.arctanh], ids=lambda f: f.__name__)
def test_one_operand_between_minus_one_and_one(function: Any) -> None:
    check(lambda x: function(x), U)


def test_arccosh() -> None:
    check(lambda x: np.arccosh(x), P + 1)


BINARY = [
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.fmod, np.maximum,
    np.minimum, np.fmax, np.fmin, np.power, np.float_power, np.copysign, np.arctan2, np.hypot,
    np.logaddexp, np.heaviside, np.equal, np.not_equal, np.less, np.less_equal, np.greater,
    np.greater_equal, np.logical_and, np.logical_or, np.logical_xor, np.divmod, np.isclose,
]  # fmt: skip


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_two_operands(function: Any) -> None:
    check(lambda x, y: function(x, y), P, B)
    check(lambda x, y: function(x, y), P, V)
    check(lambda x, y: function(x, y), J, P)
    check(lambda x, y: function(x, y), K8 + 1, J)
    check(lambda x: function(x, 3), P)
    check(lambda x: function(2.5, x), P)
    check(lambda x: function(x, np.float64(2)), P)


@pytest.mark.parametrize(
    "function",
    [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift],
    ids=lambda f: f.__name__,
)
def test_two_integers(function: Any) -> None:
    check(lambda x, y: function(x, y), I, J)
    check(lambda x, y: function(x, y), U8, np.uint8(3))
    check(lambda x: function(x, 1), J)


CASES: dict[str, Case] = {
    "invert": (lambda x: ~x, (I,)),
    "invert bool": (lambda x: ~x, (L,)),
    "bool algebra": (lambda x, y: (x & y) | (x ^ y), (L, M)),
    "operators": (lambda x, y: -(+x) * y - x / y + 2 * x - 1.5 / y, (A, P)),
    "reflected": (lambda x: (1 - x) + (2 / x) + (7 // x) + (7 % x) + 2**x, (P,)),
    "matmul array left": (lambda x: SQ @ x, (D,)),
    "abs": (lambda x: abs(x), (I,)),
    "divmod operator": (lambda x: divmod(x, 3), (I,)),
    "power 2": (lambda x: x**2, (I,)),
    "power half": (lambda x: x**0.5, (P,)),
    "power -1": (lambda x: x**-1, (P,)),
    "power 3.5": (lambda x: x**3.5, (P,)),
    "compare weak": (lambda x: (x < 1) & (x >= -1.5) & (x != 0), (A,)),
    "compare int out of range": (lambda x: x < 1000, (K8,)),
    "compare -1 with unsigned": (lambda x: (x > -1) & (x > -1) & (x != -5), (U8,)),
    "where": (lambda c, x, y: np.where(c, x, y), (L, A, I)),
    "where weak": (lambda x: np.where(x > 0, x, 0), (A,)),
    "where of ints": (lambda c, x: np.where(c, x, 1.5), (I, J)),
    "clip": (lambda x: np.clip(x, -0.5, 0.5), (A,)),
    "clip method": (lambda x: x.clip(0, None), (A,)),
    "clip arrays": (lambda x, y: np.clip(x, y, 1), (A, B)),
    "clip int": (lambda x: np.clip(x, -3, 3), (I,)),
    "clip below all": (lambda x: np.clip(x, -300, 5), (U8,)),
    "clip above all": (lambda x: np.clip(x, -300, 300), (K8,)),
    "clip int by float": (lambda x: np.clip(x, -3, 2.5), (I,)),
    "round decimals": (lambda x: np.round(x, 2), (D,)),
    "nan_to_num": (lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=-2), (S,)),
    "isclose nan": (lambda x: np.isclose(x, x, equal_nan=True), (S,)),
    "select": (lambda x: np.select([x < 0, x < 0.5], [x, x * 2], 7), (A,)),
    "astype": (lambda x: x.astype(np.float64), (A,)),
    "astype int": (lambda x: x.astype("int8"), (A,)),
    "astype bool": (lambda x: x.astype(bool), (I,)),
    "ufunc dtype": (lambda x: np.add(x, x, dtype=np.float64), (A,)),
    "sum": (lambda x: x.sum(), (A,)),
    "sum axis": (lambda x: np.sum(x, axis=1), (C,)),
    "sum axes": (lambda x: np.sum(x, axis=(0, -1), keepdims=True), (C,)),
    "sum int8": (lambda x: np.sum(x), (K8,)),
    "sum uint8": (lambda x: np.sum(x, 0), (U8,)),
    "sum bool": (lambda x: x.sum(), (L,)),
    "sum dtype": (lambda x: x.sum(dtype=np.float64), (A,)),
    "sum where": (lambda x, m: np.sum(x, where=m), (A, L)),
    "sum initial": (lambda x: np.sum(x, initial=10), (A,)),
    "prod": (lambda x: np.prod(x, 1), (A,)),
    "prod int": (lambda x: np.prod(x, 1), (J,)),
    "mean": (lambda x: x.mean(), (A,)),
    "mean int": (lambda x: np.mean(x, 0), (I,)),
    "mean where": (lambda x, m: np.mean(x, where=m), (A, L)),
    "var where": (lambda x: np.var(x, axis=1, where=x > -0.9), (A,)),
    "std of a mean": (lambda x: np.std(x, axis=0, mean=x[:1]), (A,)),
    "nanstd where": (lambda x: np.nanstd(np.where(x > 0.9, np.nan, x), where=x > 0), (A,)),
    "var": (lambda x: np.var(x, axis=1, ddof=1), (A,)),
    "std": (lambda x: x.std(0, keepdims=True), (A,)),
    "var int": (lambda x: x.var(), (I,)),
    "max": (lambda x: x.max(-1), (A,)),
    "min": (lambda x: np.min(x, (0, 1)), (A,)),
    "max initial": (lambda x: np.max(x, initial=100), (I,)),
    "any": (lambda x: np.any(x > 1, axis=0), (A,)),
    "all": (lambda x: (x > -100).all(), (A,)),
    "all of ints": (lambda x: np.all(x), (I,)),
    "argmax": (lambda x: x.argmax(), (A,)),
    "argmax axis": (lambda x: np.argmax(x, axis=-1), (C,)),
    "argmin keepdims": (lambda x: np.argmin(x, axis=1, keepdims=True), (A,)),
    "argmax bool": (lambda x: np.argmax(x, 1), (L,)),
    "count_nonzero": (lambda x: np.count_nonzero(x, axis=1), (I,)),
    "ptp": (lambda x: np.ptp(x, 1), (A,)),
    "average": (lambda x: np.average(x, 1), (A,)),
    "average weights": (lambda x, w: np.average(x, 1, w), (A, np.abs(V))),
    "average full weights": (lambda x, w: np.average(x, weights=w), (A, P)),
    "nansum": (lambda x: np.nansum(x, 0), (N,)),
    "nanmean": (lambda x: np.nanmean(x), (N,)),
    "nanmax": (lambda x: np.nanmax(x), (N,)),
    "nanmin": (lambda x: np.nanmin(x), (N,)),
    "allclose": (lambda x, y: np.allclose(x, y + 1e-9), (D, D)),
    "array_equal": (lambda x, y: np.array_equal(x, y), (A, A)),
    "array_equal shapes": (lambda x, y: np.array_equal(x, y), (A, V)),
    "add.reduce": (lambda x: np.add.reduce(x), (A,)),
    "maximum.reduce": (lambda x: np.maximum.reduce(x, axis=1), (A,)),
    "multiply.outer": (lambda x, y: np.multiply.outer(x, y), (V, D)),
    "reshape": (lambda x: np.reshape(x, (2, -1)), (A,)),
    "reshape method": (lambda x: x.reshape(6, 2).reshape((12,)).reshape([3, -1]), (A,)),
    "reshape scalar": (lambda x: x.reshape(()), (np.ones((1, 1)),)),
    "ravel": (lambda x: x.ravel() + x.flatten() + np.ravel(x), (A,)),
    "T": (lambda x: x.T, (C,)),
    "mT": (lambda x: np.matrix_transpose(x) + x.mT, (C,)),
    "transpose": (lambda x: x.transpose(1, 0, 2), (C,)),
    "transpose tuple": (lambda x: np.transpose(x, (2, 0, 1)), (C,)),
    "swapaxes": (lambda x: x.swapaxes(0, -1), (C,)),
    "moveaxis": (lambda x: np.moveaxis(x, 0, -1), (C,)),
    "moveaxis many": (lambda x: np.moveaxis(x, (0, 1), (2, 0)), (C,)),
    "expand_dims": (lambda x: np.expand_dims(x, (0, -1)), (A,)),
    "squeeze": (lambda x: np.squeeze(x[None, :, None]), (A,)),
    "squeeze axis": (lambda x: x[None, :, None].squeeze(0), (A,)),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, 3, 4)), (V,)),
    "broadcast_arrays": (lambda x, y: np.broadcast_arrays(x, y), (A, V)),
    "concatenate": (lambda x, y: np.concatenate([x, y, x]), (A, I)),
    "concatenate axis": (lambda x: np.concatenate((x, A), axis=-1), (A,)),
    "concatenate flat": (lambda x, y: np.concatenate([x, y], axis=None), (A, V)),
    "stack": (lambda x, y: np.stack([x, y], axis=1), (A, B)),
    "vstack": (lambda x, y: np.vstack([x, y]), (A, V)),
    "hstack": (lambda x, y: np.hstack([x, y]), (A, B)),
    "dstack": (lambda x, y: np.dstack([x, y]), (A, B)),
    "column_stack": (lambda x, y: np.column_stack([x, y]), (V, V)),
    "atleast": (lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), (V,)),
    "split": (lambda x: np.split(x, 2, axis=1), (A,)),
    "split at": (lambda x: np.split(x, [1, 3], axis=1), (A,)),
    "split beyond": (lambda x: np.split(x, [2, 9], axis=0), (A,)),
    "array_split": (lambda x: np.array_split(x, 3, axis=1), (A,)),
    "vsplit": (lambda x: np.vsplit(x, 3), (A,)),
    "hsplit": (lambda x: np.hsplit(x, 2), (A,)),
    "flip": (lambda x: np.flip(x), (A,)),
    "flipud fliplr": (lambda x: np.flipud(np.fliplr(x)), (A,)),
    "rot90": (lambda x: (np.rot90(x), np.rot90(x, 2), np.rot90(x, 3)), (A,)),
    "roll": (lambda x: np.roll(x, 2), (A,)),
    "roll axis": (lambda x: np.roll(x, (1, -1), axis=(0, 1)), (A,)),
    "tile": (lambda x: np.tile(x, (2, 1, 3)), (A,)),
    "repeat": (lambda x: np.repeat(x, 2, axis=1), (A,)),
    "repeat flat": (lambda x: x.repeat(3), (A,)),
    "pad": (lambda x: np.pad(x, ((1, 0), (2, 3)), constant_values=7), (A,)),
    "pad int": (lambda x: np.pad(x, 1), (I,)),
    "pad edge": (lambda x: np.pad(x, (1, 2), mode="edge"), (A,)),
    "pad reflect": (lambda x: np.pad(x, 2, mode="reflect"), (A,)),
    "tril": (lambda x: np.tril(x, 1), (SQ,)),
    "tril of a vector": (lambda x: np.tril(x), (V,)),
    "triu of a vector": (lambda x: np.triu(x, 1), (V,)),
    "triu": (lambda x: np.triu(x), (SQ,)),
    "diff": (lambda x: np.diff(x), (A,)),
    "diff 2": (lambda x: np.diff(x, 2, axis=0), (A,)),
    "diff prepend": (lambda x: np.diff(x, prepend=0), (A,)),
    "matmul": (lambda x, y: x @ y, (A, D.astype(np.float32))),
    "matmul mixed": (lambda x, y: x @ y, (A, D)),
    "matmul vectors": (lambda x, y: x @ y, (V, V)),
    "matmul batch": (lambda x, y: x @ y, (C, D)),
    "matmul int": (lambda x, y: x @ y.T, (I, J)),
    "dot": (lambda x, y: x.dot(y), (A, V)),
    "dot scalar": (lambda x: np.dot(x, 3), (A,)),
    "dot 3d": (lambda x, y: np.dot(x, y), (A, R.normal(size=(2, 4, 3)))),
    "inner": (lambda x, y: np.inner(x, y), (A, B)),
    "outer": (lambda x, y: np.outer(x, y), (V, A)),
    "vdot": (lambda x, y: np.vdot(x, y), (A, B)),
    "vecdot": (lambda x, y: np.vecdot(x, y), (A, B)),
    "tensordot": (lambda x, y: np.tensordot(x, y, axes=([2], [0])), (C, D)),
    "tensordot 2": (lambda x, y: np.tensordot(x, y), (C, A)),
    "kron": (lambda x, y: np.kron(x, y), (A, V)),
    "einsum": (lambda x, y: np.einsum("bij, jk -> bik", x, y), (C, D)),
    "einsum implicit": (lambda x, y: np.einsum("ij,jk", x, y), (A, D)),
    "einsum trace": (lambda x: np.einsum("ii->", x), (SQ,)),
    "trace": (lambda x: np.trace(x), (SQ,)),
    "diagonal": (lambda x: np.diagonal(x, 1), (A,)),
    "diagonal below": (lambda x: x.diagonal(-1), (A,)),
    "diag": (lambda x: np.diag(x, 1), (V,)),
    "diag below": (lambda x: np.diag(x, -2), (V,)),
    "diag of matrix": (lambda x: np.diag(x), (A,)),
    "norm": (lambda x: np.linalg.norm(x), (A,)),
    "norm axis": (lambda x: np.linalg.norm(x, axis=1, keepdims=True), (A,)),
    "norm 1": (lambda x: np.linalg.norm(x, 1), (V,)),
    "norm inf": (lambda x: np.linalg.norm(x, np.inf, axis=0), (A,)),
    "norm 3": (lambda x: np.linalg.norm(x, 3), (V,)),
    "norm 0": (lambda x: np.linalg.norm(x, 0), (V,)),
    "matrix norm": (lambda x: (np.linalg.norm(x, 1), np.linalg.norm(x, -np.inf)), (A,)),
    "matrix norm axes": (lambda x: np.linalg.norm(x, np.inf, axis=(2, 1)), (C,)),
    "vector_norm": (lambda x: np.linalg.vector_norm(x, axis=-1), (A,)),
    "matrix_norm": (lambda x: np.linalg.matrix_norm(x), (C,)),
    "cross": (lambda x, y: np.cross(x.T, y.T), (A, B)),
    "take": (lambda x: np.take(x, [2, 0], axis=0), (A,)),
    "take traced": (lambda x, i: np.take(x, i, axis=1), (A, IDX)),
    "take flat": (lambda x, i: x.take(i), (A, ROW)),
    "take wrap": (lambda x, i: np.take(x, i * 7, axis=1, mode="wrap"), (A, IDX)),
    "take clip": (lambda x, i: np.take(x, i * 7, axis=1, mode="clip"), (A, IDX)),
    "take from constant": (lambda i: lw.xp.take(D, i, axis=0), (IDX,)),
    "take_along_axis": (lambda x, i: np.take_along_axis(x, i, 1), (A, IDX[None, :].repeat(3, 0))),
    "zeros_like": (lambda x: np.zeros_like(x) + np.ones_like(x, dtype=np.float64), (A,)),
    "full_like": (lambda x: np.full_like(x, 3), (A,)),
    "empty_like": (lambda x: np.empty_like(x).shape, (A,)),
    "meshgrid": (lambda x, y: np.meshgrid(x, y), (V, D[0])),
    "meshgrid ij": (lambda x, y: np.meshgrid(x, y, indexing="ij"), (V, D[0])),
    "shape": (lambda x: np.reshape(x, np.shape(x)[::-1]) * np.ndim(x) * np.size(x), (A,)),
    "result_type": (lambda x, y: x.astype(np.result_type(x, y)), (A, D)),
    "iteration": (lambda x: sum(row.sum() for row in x), (A,)),
    "len": (lambda x: x * len(x), (A,)),
    "static branch": (lambda x: x.T if x.shape[0] == 3 else x, (A,)),
    "scalars": (lambda x, s: x * s + s, (A, 2.5)),
    "weak int": (lambda x, s: x * s, (K8, 2)),
    "weak int and float": (lambda x, s, t: x * (s * t), (A, 2, 0.5)),
    "number only": (lambda s: s * 2 + 1, (3,)),
    "quotient and rest of numbers": (lambda s, t: divmod(s, t), (7, 2.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_function(name: str) -> None:
    function, args = CASES[name]
    check(function, *args)


NUMBERS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"),
    *("and_", "or_", "xor", "eq", "lt", "neg", "pos", "abs", "invert"),
)


@pytest.mark.filterwarnings("ignore:Bitwise inversion")
@pytest.mark.parametrize("name", NUMBERS)
def test_bools_of_numbers_are_pythons(name: str) -> None:
    """To most of Python's operators True is the int 1; to NumPy's ufuncs it is a bool."""
    function = getattr(operator, name)
    if name in ("neg", "pos", "abs", "invert"):
        check(lambda a: function(a > 1.0), 2.5)
    else:
        check(lambda a, b: (function(a > 1.0, b > 1.0), function(True, b > 1.0)), 0.5, 2.5)


INDICES: dict[str, Callable[[Any], Any]] = {
    "int": lambda x: x[1],
    "negative": lambda x: x[-1, -2],
    "numpy int": lambda x: x[np.int64(1)],
    "slice": lambda x: x[1:, :2],
    "empty": lambda x: x[2:1],
    "beyond": lambda x: x[:, 1:99],
    "step": lambda x: x[::2, 1::2],
    "reversed": lambda x: x[::-1],
    "negative step": lambda x: x[:, ::-2],
    "negative step from": lambda x: x[1::-1, 2:0:-1],
    "none": lambda x: x[None, :, None],
    "ellipsis": lambda x: x[..., 0],
    "ellipsis middle": lambda x: x[0, ..., None, 1:],
    "array": lambda x: x[[1, 0]],
    "array axis 1": lambda x: x[:, [2, 0, -1]],
    "array 2d": lambda x: x[:, ROW % 3],
    "array then int": lambda x: x[[1, 0], 1],
    "int slice array": lambda x: x[0, :, [0, 1]],
    "two arrays": lambda x: x[[0, 1], [2, -1]],
    "two arrays broadcast": lambda x: x[[[0], [1]], [2, 0]],
    "arrays apart": lambda x: x[[0, 1, 1], :, [0, 1, 2]],
    "three arrays": lambda x: x[[0, 1], [1, 2], [3, 0]],
    "mask constant": lambda x: x[np.array([True, False])],
    "mask 2d constant": lambda x: x[np.eye(2, 3, dtype=bool)],
    "array after none": lambda x: x[None, [0, 1]],
    "empty list": lambda x: x[[]],
    "chained": lambda x: x[1][2:][0],
}


@pytest.mark.parametrize("name", INDICES)
def test_indexing(name: str) -> None:
    check(INDICES[name], C)


def test_int64_against_uint64_is_exact() -> None:
    big = np.array([2**63 - 1, -1, -(2**63), 5])
    unsigned = np.array([2**63, 2**64 - 1, 2**63, 5], np.uint64)
    for function in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
        check(lambda x, y, f=function: f(x, y), big, unsigned)
        check(lambda x, y, f=function: f(y, x), big, unsigned)


def test_indexing_by_traced_arrays() -> None:
    check(lambda x, i: x[i], C, np.array([1, 0, -1]))
    check(lambda x, i, j: x[i, j], C, np.array([1, 0, -1]), np.array([-3, 2, 1]))
    check(lambda x, i: x[:, i, 1:], C, ROW % 3)
    check(lambda x, i: x[..., i], C, np.int32(-1))


def test_nansum_of_some_elements() -> None:
    check(lambda x, m: np.nansum(x, axis=1, where=m, initial=2.0), N, M)


@pytest.mark.skipif(not hasattr(np, "unstack"), reason="NumPy 2.1 has it")
def test_unstack() -> None:
    check(lambda x: np.unstack(x, axis=1), A)


@pytest.mark.skipif(not hasattr(np, "matvec"), reason="NumPy 2.2 has it")
def test_matvec_and_vecmat() -> None:
    check(lambda x, y: np.matvec(x, y), A, V)
    check(lambda x, y: np.vecmat(y, x), D, V)


@pytest.mark.parametrize("name", ["vecdot", "matvec", "vecmat"])
def test_operands_without_the_axes_of_a_product(name: str) -> None:
    function = getattr(np, name, None)
    if function is None:
        pytest.skip("NumPy 2.2 has it")
    for arguments in ((A, 2.0), (2.0, A), (V, V))[: 2 if name == "vecdot" else 3]:
        with pytest.raises(ValueError, match="axes"):
            lw.compile(lambda x, y: function(x, y)).trace(*arguments)


def test_squares_of_bools() -> None:
    check(lambda x: (x**2, x**3, x**1, x[0, 0] ** 2, np.power(x, 2)), L)
    check(lambda x, p: x**p, L, 2)
    check(lambda x, p: x**p, L, 3)


def test_methods_are_those_of_numpy_arrays() -> None:
    own = {"matrix_transpose"}
    plain = {n for n in METHODS if "." not in n and not n.startswith("__")} - own
    assert plain <= set(dir(np.ndarray))


def test_windows_are_found_in_a_new_process() -> None:
    """Implementations are loaded with the first use of a module of NumPy's, whatever its depth."""
    code = """if True:
        import loopwright as lw, numpy as np
        from numpy.lib.stride_tricks import sliding_window_view
        print(lw.compile(lambda x: sliding_window_view(x, 2)[::2])(np.arange(5.0)).tolist())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[0.0, 1.0], [2.0, 3.0]]"

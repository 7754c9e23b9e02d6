"""Reductions, scans, sorts, shapes, linear algebra and transforms, called on plain arrays.

Every function meets an empty array, one of no axes where it takes one, and several dtypes, of which
each shape has two; the oracle is NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright import xp

RANDOM = np.random.default_rng(17)
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3)]
NEWER = ("cumulative_sum", "cumulative_prod", "unstack")  # NumPy 2.1
Case = Callable[[Any, Any], Any]


def _array(shape: tuple[int, ...], dtype: str) -> Any:
    values = RANDOM.integers(0, 6, shape).astype(dtype)
    return values + 1j * RANDOM.integers(0, 6, shape) if values.dtype.kind == "c" else values


def _cases(shapes: Sequence[tuple[int, ...]], *dtypes: str) -> Iterator[Any]:
    """An array of each shape and of all dtypes but one, round robin."""
    for n, shape in enumerate(shapes):
        for dtype in dtypes[: n % len(dtypes)] + dtypes[n % len(dtypes) + 1 :]:
            yield _array(shape, dtype)


def _check(function: Case, *operands: Any) -> None:
    if not {*function.__code__.co_names} & {*NEWER} <= {*dir(np)}:
        pytest.skip("the oracle is not in this NumPy")
    result, expected = function(xp, *operands), function(np, *operands)
    if not isinstance(expected, tuple | list):
        result, expected = [result], [expected]
    assert len(result) == len(expected)
    for r, e in zip(result, expected, strict=True):
        r, e = np.asarray(r), np.asarray(e)
        assert (r.dtype, r.shape) == (e.dtype, e.shape)
        np.testing.assert_allclose(r, e, rtol=1e-4, atol=1e-5)


ANY_RANK: dict[str, Case] = {
    "all": lambda m, x: m.all(x),
    "any": lambda m, x: m.any(x, keepdims=True),
    "count_nonzero": lambda m, x: m.count_nonzero(x, keepdims=True),
    "concat": lambda m, x: m.concat([x, x], axis=None),
    "stack": lambda m, x: m.stack([x, x], axis=-1),
    "roll": lambda m, x: m.roll(x, -1),
    "repeat": lambda m, x: m.repeat(x, 2),
    "tile": lambda m, x: m.tile(x, (2, 1, 2)),
    "flip": lambda m, x: m.flip(x),
    "expand_dims": lambda m, x: m.expand_dims(x, axis=-1),
    "astype": lambda m, x: m.astype(x, np.complex128),
    "reshape": lambda m, x: m.reshape(x, (-1, 1)) if x.size else m.reshape(x, (0, 4)),
    "full_like": lambda m, x: m.full_like(x, True),
}
NUMBERS: dict[str, Case] = {
    "sum": lambda m, x: m.sum(x),
    "prod": lambda m, x: m.prod(x, keepdims=True),
    "sum dtype": lambda m, x: m.sum(x, dtype=np.complex64),
}
WITH_AXES: dict[str, Case] = {
    "sum axis": lambda m, x: m.sum(x, axis=0),
    "no axes": lambda m, x: m.sum(x, axis=()),
    "cumulative_sum": lambda m, x: m.cumulative_sum(x, axis=-1),
    "cumulative_prod": lambda m, x: m.cumulative_prod(x, axis=0, include_initial=True),
    "diff": lambda m, x: m.diff(x, axis=-1, n=2, prepend=x, append=x),
    "take": lambda m, x: m.take(x, np.array([0, 0, -1])[: 3 * x.shape[0]], axis=0),
    "take_along_axis": lambda m, x: m.take_along_axis(x, np.zeros(x.shape, int), axis=0),
    "concat axis": lambda m, x: m.concat([x, x, x], axis=-1),
    "unstack": lambda m, x: m.unstack(x, axis=-1),
    "moveaxis": lambda m, x: m.moveaxis(x, 0, -1),
}
OF_ORDER: dict[str, Case] = {
    "sort": lambda m, x: m.sort(x, axis=0),
    "argsort": lambda m, x: m.argsort(x, axis=-1),
    "argmax": lambda m, x: m.argmax(x, axis=-1, keepdims=True) if x.shape[-1] else x,
    "max": lambda m, x: m.max(x, axis=-1) if x.shape[-1] else x,
    "searchsorted": lambda m, x: m.searchsorted(np.arange(5).astype(x.dtype), x, side="right"),
}
MATRICES: dict[str, Case] = {
    "tril": lambda m, x: m.tril(x, k=1),
    "triu": lambda m, x: m.triu(x, k=-1),
    "matrix_transpose": lambda m, x: m.matrix_transpose(x),
    "matmul": lambda m, x: m.matmul(x, m.matrix_transpose(x)),
    "tensordot": lambda m, x: m.tensordot(x, x, axes=0),
    "vecdot": lambda m, x: m.vecdot(x, x[..., :1, :], axis=-1),
    "diagonal": lambda m, x: m.linalg.diagonal(x, offset=1),
    "trace": lambda m, x: m.linalg.trace(x, offset=-1),
}
FLOATING: dict[str, Case] = {
    "mean": lambda m, x: m.mean(x, axis=-1, keepdims=True),
    "vector_norm": lambda m, x: m.linalg.vector_norm(x, axis=-1),
    "matrix_norm": lambda m, x: m.linalg.matrix_norm(x, keepdims=True),
    "nuc": lambda m, x: m.linalg.matrix_norm(x, ord="nuc"),
    "svdvals": lambda m, x: m.linalg.svdvals(x),
    "pinv": lambda m, x: m.linalg.pinv(x, rtol=1e-3),
    "matrix_rank": lambda m, x: m.linalg.matrix_rank(x),
    "qr": lambda m, x: [abs(part) for part in m.linalg.qr(x, mode="complete")],
    "det": lambda m, x: m.linalg.det(x[..., :2, :2]),
    "fft": lambda m, x: m.fft.fft(x, n=5, norm="ortho"),
    "ifftn": lambda m, x: m.fft.ifftn(x, axes=(-2, -1)),
    "hfft": lambda m, x: m.fft.hfft(x),
    "fftshift": lambda m, x: m.fft.fftshift(x, axes=-1),
}


@pytest.mark.parametrize("name", ANY_RANK)
def test_any_array(name: str) -> None:
    for x in _cases(SHAPES, "bool", "int8", "complex64"):
        _check(ANY_RANK[name], x)


@pytest.mark.parametrize("name", {**NUMBERS, **WITH_AXES})
def test_numbers(name: str) -> None:
    function = {**NUMBERS, **WITH_AXES}[name]
    for x in _cases(SHAPES[name in WITH_AXES :], "int8", "float32", "complex128"):
        _check(function, x)


@pytest.mark.parametrize("name", OF_ORDER)
def test_order(name: str) -> None:
    for x in _cases(SHAPES[1:], "int8", "uint64", "float32"):
        _check(OF_ORDER[name], x)


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str) -> None:
    for x in _cases(((2, 3), (0, 2), (2, 4, 3)), "int16", "float32", "complex128"):
        _check(MATRICES[name], x)


@pytest.mark.parametrize("name", FLOATING)
def test_floating(name: str) -> None:
    for x in _cases(((2, 3), (2, 4, 3), (0, 4, 3)), "float32", "float64", "complex64"):
        _check(FLOATING[name], x)


def test_cross_products_broadcast() -> None:
    x, y = _array((2, 3), "float64"), _array((4, 1, 3), "float64")
    np.testing.assert_array_equal(xp.linalg.cross(x, y), np.cross(x, y))


def test_norms_of_nothing_are_zero() -> None:
    x = np.zeros((0, 3), np.float32)
    assert [xp.linalg.matrix_norm(x, ord=order) for order in (np.inf, 2, "nuc", "fro")] == [0] * 4
    np.testing.assert_array_equal(xp.linalg.vector_norm(x, axis=0, ord=np.inf), np.zeros(3))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float64"])
def test_descending_sorts_are_stable(dtype: str) -> None:
    x = np.array([[3, 1, 3, 0, 1], [0, 0, 2, 2, 1]], dtype)
    order = xp.argsort(x, descending=True)
    np.testing.assert_array_equal(order, [[0, 2, 1, 4, 3], [2, 3, 4, 0, 1]])
    np.testing.assert_array_equal(xp.sort(x, descending=True), np.take_along_axis(x, order, -1))


def test_sizes_that_depend_on_values() -> None:
    x = np.array([[1.0, np.nan], [np.nan, 1.0]])
    every = xp.unique_all(x)
    assert len(every.values) == 3 and every.inverse_indices.shape == x.shape
    np.testing.assert_array_equal(every.values[every.inverse_indices], x)
    np.testing.assert_array_equal(xp.unique_counts(x).counts, [2, 1, 1])
    assert xp.unique_inverse(np.array(3)).inverse_indices.shape == ()
    np.testing.assert_array_equal(xp.nonzero(np.array([0, 2, 3]))[0], [1, 2])
    with pytest.raises(ValueError, match="without axes"):
        xp.nonzero(np.array(3))
    with pytest.raises(TypeError, match="unique_values: the size of the result depends on values"):
        lw.compile(lambda x: xp.unique_values(x))(x)


def test_limits_are_python_numbers() -> None:
    limits = xp.finfo(xp.complex64)
    assert limits == xp.finfo(np.ones(2, np.float32)) and limits.dtype == xp.float32
    assert all(type(v) is float for v in (limits.eps, limits.max, limits.smallest_normal))
    assert (xp.iinfo(np.ones(2, np.int8)).min, xp.iinfo(xp.uint64).max) == (-128, 2**64 - 1)
    assert xp.can_cast(np.ones(2, np.int8), xp.int16) and not xp.can_cast(xp.int16, xp.int8)
    assert xp.result_type(np.ones(2, np.float32), 2.5, xp.int8) == xp.float32
    assert xp.isdtype(xp.uint8, ("real floating", "integral"))


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert info.default_dtypes()["complex floating"] == xp.complex128
    assert [*info.dtypes(kind=("bool", "real floating"))] == ["bool", "float32", "float64"]
    assert len(info.dtypes()) == 13
    assert info.capabilities()["data-dependent shapes"]
    inside: list[Any] = []
    lw.compile(lambda x: (inside.append(info.capabilities()), x)[1])(np.ones(2))
    assert not inside[0]["data-dependent shapes"]


def test_copies_as_asked_for() -> None:
    x = np.arange(6)
    assert xp.asarray(x) is x and not np.shares_memory(xp.asarray(x, copy=True), x)
    assert xp.astype(x, xp.int64, copy=False) is x and xp.astype(x, xp.int64) is not x
    assert np.shares_memory(xp.reshape(x, (2, 3), copy=False), x)
    assert not np.shares_memory(xp.reshape(x, (2, 3), copy=True), x)
    with pytest.raises(ValueError, match="this reshape needs a copy"):
        xp.reshape(x.reshape(2, 3).T, (6,), copy=False)
    assert np.shares_memory(xp.from_dlpack(x), x)


@pytest.mark.parametrize("name", {**ANY_RANK, **NUMBERS, **WITH_AXES, **OF_ORDER})
def test_compiled_in_a_function(name: str) -> None:
    function = {**ANY_RANK, **NUMBERS, **WITH_AXES, **OF_ORDER}[name]
    if not {*function.__code__.co_names} & {*NEWER} <= {*dir(np)}:
        pytest.skip("the oracle is not in this NumPy")
    x = _array((2, 3), "float32")
    traced = lw.compile(lambda x: function(xp, x))(x)
    expected = function(np, x)
    for t, e in zip(*(v if isinstance(v, tuple) else (v,) for v in (traced, expected))):
        np.testing.assert_allclose(t, e, rtol=1e-5)


LISTS: dict[str, Case] = {
    "fftn": lambda m, x: m.fft.fftn(x, axes=[0]),
    "fftshift": lambda m, x: m.fft.fftshift(x, axes=[1]),
    "roll": lambda m, x: m.roll(x, [1, 2], axis=[0, 1]),
    "tensordot": lambda m, x: m.tensordot(x, x, axes=([0, 1], [0, 1])),
    "expand_dims": lambda m, x: m.expand_dims(x, 1),
    "pinv": lambda m, x: m.linalg.pinv(m.stack([x, x]), rtol=np.array([1e-3, 0.9], np.float32)),
}
"""Sequences of ints that are lists; ``rtol`` of each matrix of a stack; an axis by its place."""


@pytest.mark.parametrize("name", LISTS)
def test_lists_and_places(name: str) -> None:
    _check(LISTS[name], _array((2, 3), "float32"))

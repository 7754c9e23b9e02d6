"""Optional arguments of NumPy's functions do what they say, or are refused as by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightTypeError, UnsupportedError

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
V = np.float32([3, 1, 2, 1, 5])

MEMORY = {
    "reshape A": lambda x: np.reshape(x.T, (3, 4), order="A"),
    "reshape F": lambda x: np.reshape(x, (2, -1), order="F"),
    "reshape method A": lambda x: (x + 1).T.reshape(6, 2, order="A"),
    "reshape A of rows": lambda x: np.reshape(x, (4, 3), order="A"),
    "reshape A with gaps": lambda x: np.reshape(x[:, ::2], (2, 3), order="A"),
    "ravel K": lambda x: np.ravel(x.T, order="K"),
    "ravel F": lambda x: x.ravel("F"),
    "ravel A": lambda x: np.negative(x.T).ravel("A"),
    "flatten F": lambda x: x.flatten("F"),
    "flatten K": lambda x: x.T.flatten(order="K"),
    "flatten C": lambda x: x.T.flatten(),
    "full F": lambda x: np.full((3, 4), x[0, 0], order="F").ravel("K") + x.ravel("K"),
    "require F": lambda x: np.require(x, requirements="F").ravel("K"),
    "require": lambda x: np.require(x, requirements=["W"]).ravel("K"),
}


@pytest.mark.parametrize("name", MEMORY)
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_elements_are_read_in_the_order_asked_for(name: str, layout: Callable[..., Any]) -> None:
    x = layout(X)
    np.testing.assert_array_equal(lw.compile(MEMORY[name])(x), MEMORY[name](x))


def test_a_view_in_fortran_order_is_written_through() -> None:
    def write(x):
        x.T.reshape(-1, order="F")[1] = 0
        return x

    np.testing.assert_array_equal(lw.compile(write)(X.copy()), write(X.copy()))


def test_an_order_in_memory_that_is_no_order_of_axes_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="order='K' of an array with gaps"):
        lw.compile(lambda x: x[:, ::2].T.ravel("K"))(X)
    with pytest.raises(UnsupportedError, match="order='F' is not supported"):
        lw.compile(lambda x: np.zeros_like(x, order="F"))(X)


def zeros_in_fortran_order(x):
    made = np.zeros((3, 4), np.float32, order="F")
    made[0] = x[0]
    return made.ravel("K")


EITHER = {
    "concatenate": lambda x: np.concatenate([x, x], dtype="i4"),
    "concatenate no": lambda x: np.concatenate([x, x], dtype="f8", casting="no"),
    "concatenate unsafe": lambda x: np.concatenate([x, x], dtype="i4", casting="unsafe"),
    "stack": lambda x: np.stack([x, x], dtype="i4"),
    "stack wide": lambda x: np.stack([x, x], dtype="f8"),
    "vstack": lambda x: np.vstack([x, x], dtype="i4"),
    "hstack no": lambda x: np.hstack([x, x], dtype="f8", casting="no"),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x, dtype="i4"),
    "einsum wide": lambda x: np.einsum("ij,kj->ik", x, x, dtype="f8"),
    "add": lambda x: np.add(x, x, dtype="i4"),
    "add wide": lambda x: np.add(x, 1, dtype="f8"),
    "add of integers": lambda x: np.add(x.astype("i4"), 1.5, dtype="i4"),
    "add of bytes": lambda x: np.add(x.astype("u1"), 1, dtype="u1"),
    "add of integers as floats": lambda x: np.add(x.astype("i4"), 1, dtype="f4"),
    "clip": lambda x: np.clip(x, 0, 1, dtype="i4"),
    "clip wide": lambda x: np.clip(x, 0, 2, dtype="f8"),
    "astype by name": lambda x: x.astype(dtype="f8"),
    "astype safe": lambda x: x.astype("i4", casting="safe"),
    "array if needed": lambda x: np.array(x, copy=vars(np)["_CopyMode"].IF_NEEDED),
    "zeros in Fortran order": zeros_in_fortran_order,
    "device": lambda x: np.zeros_like(x, device="gpu"),
    "device of astype": lambda x: np.astype(x, "f8", device="gpu"),
    "device cpu": lambda x: np.zeros_like(x, device="cpu"),
}
"""Functions of a matrix that give NumPy's result, or the kind of its error."""

OF_A_VECTOR = {
    "partition": lambda v: np.partition(v, 9),
    "partition below": lambda v: np.partition(v, -6),
    "partition at two places": lambda v: np.partition(v, [1, -5])[[1, 0]],
    "argpartition": lambda v: np.argpartition(v, 9),
    "partition of a kind": lambda v: np.partition(v, 2, kind="bogus"),
    "sort of a kind": lambda v: np.sort(v, kind="bogus"),
    "sort of two kinds": lambda v: np.sort(v, kind="stable", stable=True),
    "sort in a heap": lambda v: np.sort(v, kind="heapsort"),
    "argsort": lambda v: np.argsort(v, stable=True),
    "argsort of a kind": lambda v: v.argsort(kind="bogus"),
    "isin by a table of floats": lambda v: np.isin(v, v[:2], kind="table"),
    "isin by a table": lambda v: np.isin(v.astype("i4"), [1, 3], kind="table"),
    "isin of a kind": lambda v: np.isin(v, v[:2], kind="bogus"),
}


@pytest.mark.parametrize("name", [*EITHER, *OF_A_VECTOR])
def test_an_argument_counts_as_in_numpy(name: str) -> None:
    function, x = (EITHER[name], X) if name in EITHER else (OF_A_VECTOR[name], V)
    try:
        expected = function(x.copy())
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        with pytest.raises(kind):
            lw.compile(function)(x.copy())
        return
    result = lw.compile(function)(x.copy())
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_as_strided_that_was_imported_by_name_says_what_to_write() -> None:
    from numpy.lib.stride_tricks import as_strided

    with pytest.raises(LoopwrightTypeError, match=r"try: np\.lib\.stride_tricks\.as_strided\("):
        lw.compile(lambda v: as_strided(v, (3, 3), (v.strides[0],) * 2))(V)


@pytest.mark.parametrize("function", [np.histogram, np.histogram_bin_edges])
def test_weights_of_another_shape_are_refused_as_by_numpy(function: Callable[..., Any]) -> None:
    for weights in (X[0], X.ravel()):
        for call in (function, lw.compile(lambda x, w: function(x, 3, weights=w))):
            with pytest.raises(ValueError, match="weights should have the same shape as a"):
                call(X, weights=weights) if call is function else call(X, weights)


UNREAD = {
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4), subok=True),
    "copy": lambda x: np.copy(x, subok=True),
    "einsum": lambda x: np.einsum("ij,kj", x, x, optimize="greedy"),
    "full_like": lambda x: np.full_like(x, 2, subok=False, device="cpu"),
    "median": lambda x: np.median(x + 1, 0, overwrite_input=True),
    "ones_like": lambda x: np.ones_like(x, np.int8, "K", True, device="cpu"),
    "percentile": lambda x: np.percentile(x + 1, 30, 0, overwrite_input=True),
    "sliding_window_view": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0, subok=True),
    "ufunc": lambda x: np.add(x, x, subok=False),
}
"""Arguments that change nothing for arrays of NumPy's own class, by name and by place."""


@pytest.mark.parametrize("name", UNREAD)
def test_what_changes_nothing_is_accepted_and_what_does_not_exist_is_not(name: str) -> None:
    result, wanted = lw.compile(UNREAD[name])(X), UNREAD[name](X)
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_devices_and_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match='only "cpu" is allowed: gpu'):
        lw.compile(lambda x: np.zeros_like(x, device="gpu"))(X)
    with pytest.raises(UnsupportedError, match="unexpected keyword argument 'subok'"):
        lw.compile(lambda x: x.sum(subok=True))(X)


BYTES = np.array([-128, 127, -1, 0, 5], np.int8)
REDUCED = {
    "add int8": lambda x: np.add.reduce(x, dtype=np.int8),
    "add bool": lambda x: np.add.reduce(x, dtype=bool),
    "multiply int16": lambda x: np.multiply.reduce(x + 1, dtype=np.int16),
    "add at": lambda x: np.add.reduceat(x, [0, 2], dtype=np.int8),
    "or from True": lambda x: np.logical_or.reduce(x * 0, initial=True),
    "and from False": lambda x: np.logical_and.reduce(x, where=x != 0, initial=False),
    "or of bool": lambda x: np.logical_or.reduce(x, dtype=bool),
    "maximum int32": lambda x: np.maximum.reduce(x, dtype=np.int32, initial=200),
}


@pytest.mark.parametrize("name", REDUCED)
def test_dtypes_and_first_values_of_reductions(name: str) -> None:
    result, wanted = lw.compile(REDUCED[name])(BYTES), REDUCED[name](BYTES)
    np.testing.assert_array_equal(result, wanted, strict=True)


NO_LOOP = {
    "divide": lambda x: np.divide(x, x, dtype=np.int16),
    "equal": lambda x: np.equal(x, x, dtype=np.float32),
    "hypot.outer": lambda x: np.hypot.outer(x, x, dtype=np.int32),
    "hypot.reduce": lambda x: np.hypot.reduce(x, dtype=np.int32),
    "isnan": lambda x: np.isnan(x, dtype=np.float64),
    "logical_and.reduce": lambda x: np.logical_and.reduce(x, dtype=np.int8),
    "matmul": lambda x: np.matmul(x, x, dtype=bool),
    "modf": lambda x: np.modf(x, dtype=np.int16),
}


@pytest.mark.parametrize("name", NO_LOOP)
def test_a_dtype_that_no_loop_has_is_refused_as_by_numpy(name: str) -> None:
    for function in (NO_LOOP[name], lw.compile(NO_LOOP[name])):
        with pytest.raises(TypeError):
            function(BYTES)


@pytest.mark.parametrize("option", [{"signature": "dd->d"}, {"order": "F"}, {"axes": [0, 0, ()]}])
def test_options_of_matmul_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=f"matmul: {next(iter(option))}= is not supported"):
        lw.compile(lambda x: np.matmul(x, x, **option))(BYTES)

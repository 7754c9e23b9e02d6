"""Layers without windows: dense, grouped products, pad, one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dtype import float_for
from ..core.argument_conversion import DTypeLike, Widths, by_numpy, checked
from ..core.emitting import common_dtype, dtype_argument, lift
from ..core.trace import active
from .apply import apply, apply_as_given


@checked
def dense(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight.T + bias`` for ``(..., k)``, ``(units, k)`` and ``(units,)``.

    >>> nn.dense(np.float32([1, 2]), np.float32([[3, 4]]), np.float32([1])).tolist()
    [12.0]
    """
    result = by_numpy(lambda: np.matmul(x, np.matrix_transpose(weight)))
    return result if bias is None else by_numpy(np.add, result, bias)


@checked
def grouped_matmul(a: Any, b: Any, ends: Any) -> Any:
    """Products of groups of rows, each with a matrix of its own, as mixtures of experts need them.

    The rows of ``a`` (rows, k) are sorted by group: those up to ``ends[0]`` are multiplied by
    ``b[0]``, those up to ``ends[1]`` by ``b[1]`` and so on, and rows behind the last end are zeros
    in the result (rows, n). For ``a`` (k, rows) and ``b`` (rows, n) the result is (groups, k, n):
    the product of the columns and rows of each group. ``ends`` are integers; one in front of an
    earlier one is taken as that, and one beyond the rows as their number.

    >>> rows, weights = np.ones((4, 2)), np.arange(3.0)[:, None, None] * np.ones((3, 2, 1))
    >>> grouped_matmul(rows, weights, np.array([1, 1, 3])).ravel().tolist()
    [0.0, 4.0, 4.0, 0.0]
    """
    dtype = float_for(common_dtype(a, b))
    if active() is not None:
        return apply_as_given("nn.grouped_matmul", lift(a, dtype), lift(b, dtype), ends)
    a, b = (np.asarray(x).astype(dtype.numpy, copy=False) for x in (a, b))
    return apply_as_given("nn.grouped_matmul", a, b, ends)


@checked
def pad(x: Any, pad_width: Widths, value: float = 0, mode: str = "constant") -> Any:
    """``np.pad`` with one ``value``; ``mode`` is ``"constant"``, ``"edge"`` or ``"reflect"``.

    >>> nn.pad(np.float32([1, 2]), ((1, 0),)).tolist()
    [0.0, 1.0, 2.0]
    """
    options = {"constant_values": value} if mode == "constant" else {}
    return by_numpy(np.pad, x, pad_width, mode=mode, **options)


@checked
def one_hot(indices: Any, depth: int, dtype: DTypeLike = np.float32) -> Any:
    """``result[..., j] = 1`` where ``j == indices[...]``, 0 elsewhere; a last axis of ``depth``.

    >>> nn.one_hot(np.array([0, 2]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return apply("one_hot", indices, floats=False, depth=depth, dtype=str(dtype_argument(dtype)))

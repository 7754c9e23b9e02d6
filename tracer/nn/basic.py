"""Layers without windows: dense, pad, one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.argument_conversion import DTypeLike, Widths, by_numpy, checked
from ..core.emitting import dtype_argument
from .apply import apply


@checked
def dense(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight.T + bias`` for ``(..., k)``, ``(units, k)`` and ``(units,)``."""
    result = by_numpy(lambda: np.matmul(x, np.matrix_transpose(weight)))
    return result if bias is None else by_numpy(np.add, result, bias)


@checked
def pad(x: Any, pad_width: Widths, value: float = 0, mode: str = "constant") -> Any:
    """``np.pad`` with one ``value``; ``mode`` is ``"constant"``, ``"edge"`` or ``"reflect"``."""
    options = {"constant_values": value} if mode == "constant" else {}
    return by_numpy(np.pad, x, pad_width, mode=mode, **options)


@checked
def one_hot(indices: Any, depth: int, dtype: DTypeLike = np.float32) -> Any:
    """``result[..., j] = 1`` where ``j == indices[...]``, 0 elsewhere; a last axis of ``depth``."""
    return apply("one_hot", indices, floats=False, depth=depth, dtype=str(dtype_argument(dtype)))

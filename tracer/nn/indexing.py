"""Gathers and scatters: reads and writes at indices that are data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.argument_conversion import checked
from ..core.emitting import common_dtype, lift
from ..core.trace import active
from .apply import apply_as_given


@checked
def gather_nd(x: Any, indices: Any, batch_dims: int = 0) -> Any:
    """The slices ``x[b, indices[b, m, 0], indices[b, m, 1], ...]`` for all ``m``.

    ``x`` and integer ``indices`` share their first ``batch_dims`` axes; the last axis of
    ``indices`` holds one index for each of the axes of ``x`` behind them. The result has the axes
    of ``indices`` but the last, then the rest of ``x``. Negative indices count from the end;
    others out of range read the nearest place (NumPy would raise).

    >>> gather_nd(np.arange(6).reshape(2, 3), np.array([[0, 1], [1, 2]])).tolist()
    [1, 5]
    """
    return apply_as_given("nn.gather_nd", x, indices, batch_dims=batch_dims)


@checked
def scatter_elements(
    x: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "none"
) -> Any:
    """``x`` with ``updates[i, j]`` joined to ``x[indices[i, j], j]`` (for axis 0), in order.

    ``indices`` are integers and ``updates`` have their shape; both have the rank of ``x`` and may
    be smaller. Negative indices count from the end; an update whose index is out of range is left
    out. The last of several for one element wins, unless ``reduction`` joins them: "add", "mul",
    "min", "max".

    >>> scatter_elements(np.zeros(4), np.array([1, 3, 1]), np.ones(3), reduction="add").tolist()
    [0.0, 2.0, 0.0, 1.0]
    """
    x, updates = _alike(x, updates)
    return apply_as_given(
        "nn.scatter_elements", x, indices, updates, axis=axis, reduction=reduction
    )


@checked
def scatter_nd(x: Any, indices: Any, updates: Any, reduction: str = "none") -> Any:
    """``x`` with ``updates[m]`` joined to ``x[indices[m, 0], indices[m, 1], ...]``, in order.

    The last axis of the integer ``indices`` holds one index for each of the first axes of ``x``;
    ``updates`` have the other axes of ``indices``, then the rest of ``x``. Negative indices count
    from the end; an update whose place is out of range is left out. The last of several for one
    place wins, unless ``reduction`` joins them: "add", "mul", "min", "max".

    >>> scatter_nd(np.zeros((3, 2)), np.array([[2], [0]]), np.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    """
    x, updates = _alike(x, updates)
    return apply_as_given("nn.scatter_nd", x, indices, updates, reduction=reduction)


def _alike(x: Any, updates: Any) -> tuple[Any, Any]:
    """The operands, updates in the dtype of the elements."""
    if active() is not None:
        x = lift(x)
        return x, lift(updates, x.type.dtype)
    x = np.asarray(x)
    return x, np.asarray(updates).astype(common_dtype(x).numpy, copy=False)


@checked
def top_k(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    """The ``k`` greatest (or least) elements along an axis in their order, and their positions.

    The positions are int64. Of equal elements the first is before; nan is the greatest. Raises
    LoopwrightValueError if the axis has fewer than ``k`` elements.

    >>> values, positions = top_k(np.array([3.0, 1.0, 4.0, 1.0, 5.0]), 2)
    >>> values.tolist(), positions.tolist()
    ([5.0, 4.0], [4, 2])
    """
    positions = apply_as_given("nn.top_k_indices", x, k=k, axis=axis, largest=largest)
    return np.take_along_axis(x, positions, axis=axis), positions

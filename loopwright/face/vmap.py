"""``lw.vmap``: functions of one row, called for all rows at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..tracer.transforms import vmap as traced
from .transforms import Transformed, check_function


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Returns the function that calls ``function`` for all rows of its arguments at once.

    ``in_axes`` says along which axis each positional argument has its rows: an int for all of
    them, or a tuple with an int, None (all rows share the argument), or containers of these for
    each. A negative axis counts from the end; keyword arguments have their rows along axis 0.
    ``out_axes`` says in the same way along which axis of the results the rows are to lie; None is
    for what does not depend on them. Arguments and results are arrays, or containers of them.

    Inside, there are no rows: shapes are those of one. Where a condition differs from row to row,
    both branches are computed, and a loop runs as long as any row needs it. What is compiled is one
    program for all rows, in which a matrix times vectors is a product of matrices.

    Raises LoopwrightValueError for numbers of rows that differ and an axis that is missing,
    LoopwrightTypeError for ``in_axes`` that do not fit, UnsupportedError where the size of an array
    would differ from row to row.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> def distance(a, b):
    ...     return np.sqrt(((a - b) ** 2).sum())
    >>> points, center = np.array([[3.0, 4.0], [0.0, 2.0]]), np.zeros(2)
    >>> lw.vmap(distance, in_axes=(0, None))(points, center)
    array([5., 2.])
    >>> lw.vmap(lw.vmap(distance, (None, 0)), (0, None))(points, points)
    array([[0.        , 3.60555128],
           [3.60555128, 0.        ]])
    """
    check_function("lw.vmap", function)

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return traced.vmap(function, args, kwargs, in_axes, out_axes)

    return Transformed(mapped, function)

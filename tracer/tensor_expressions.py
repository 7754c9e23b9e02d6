"""Tensor expressions, of which the bodies of ``lw.prim`` functions are made.

``map(shape, element)`` is a tensor whose element at ``(i, ...)`` is ``element(i, ...)``; ``sum``,
``prod``, ``max`` and ``min`` take ``(shape, over, element)`` and combine the elements
``element(i, ..., k, ...)`` for all k below ``over``. ``where(condition, a, b)`` reads nothing in
the branch that is not taken. Every scalar operator of the compiler is a function of its name:
``exp``, ``sqrt``, ``maximum``, ...
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..ir.loop.scalar import COMBINERS, SCALAR_OPS
from .prim import apply, reduction, where
from .prim import tensor_map as map

if TYPE_CHECKING:
    max = min = prod = sum = reduction("sum")

__all__ = ["map", "max", "min", "prod", "sum", "where"]


def __getattr__(name: str) -> Any:
    if name in COMBINERS and not name.startswith("_"):
        return reduction(name)
    if name in SCALAR_OPS:
        return functools.partial(apply, name)
    raise AttributeError(f"no tensor expression {name!r}")

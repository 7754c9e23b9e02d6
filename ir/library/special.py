"""Ufuncs of SciPy as library functions: names that begin with ``scipy.special.``.

They are declared one by one, when the first call of each is traced or a saved program asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..dims import IntExpr
from ..dtype import dtype_of
from ..errors import LoopwrightTypeError
from .gufunc import broadcast, quiet
from .registry import ArrayType, LibraryFunction, Typed, Values, register

PREFIX = "scipy.special."


def declare(name: str) -> bool:
    """Declares the function of that name; returns False if SciPy has no such ufunc."""
    try:
        import scipy.special
    except ImportError:
        return False
    ufunc: Any = getattr(scipy.special, name.removeprefix(PREFIX), None)
    if not isinstance(ufunc, np.ufunc) or ufunc.signature is not None:
        return False
    doc = f"``{name}``, computed by SciPy."
    ranks = (0,) * ufunc.nin
    register(LibraryFunction(name, doc, partial(_rule, ufunc), partial(_bind, ufunc), ranks))
    return True


def _rule(
    ufunc: np.ufunc, operands: Sequence[Typed], _options: Mapping[str, Any]
) -> Sequence[ArrayType]:
    given = tuple(o.dtype.numpy for o in operands)
    dtypes = ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout))
    if dtypes[: ufunc.nin] != given:
        raise LoopwrightTypeError(f"operands are {dtypes[: ufunc.nin]}, not {given}")
    shape: tuple[IntExpr, ...] = ()
    for operand in operands:
        shape = broadcast(shape, tuple(operand.shape))
    return [ArrayType(shape, dtype_of(d)) for d in dtypes[ufunc.nin :]]


def _bind(ufunc: np.ufunc, _options: Mapping[str, Any], _count: int) -> Values:
    return quiet(ufunc)

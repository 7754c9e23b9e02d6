"""Functions of sizes in a graph: of Python's numbers, and of symbolic ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ....ir.dims import Dim, int_max, int_min
from ....ir.dtype import FLOAT64
from ...core.emitting import lift
from ...core.symbolic_sizes import decided

SIZE_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    "sym_size.int": lambda x, dim: x.shape[dim],
    "sym_numel.default": lambda x: math.prod(x.shape),
}
"""Operators whose results are Python numbers."""

SYMBOLIC: dict[Any, Callable[..., Any]] = {
    torch.sym_max: max,
    torch.sym_min: min,
    torch.sym_float: float,
    torch.sym_int: int,
    torch.sym_not: operator.not_,
    torch.sym_sum: sum,
}


def _relation(name: str) -> Callable[..., bool]:
    return lambda left, right: decided(left, name, right)


OF_SIZES: dict[Any, Callable[..., Any]] = {
    torch.sym_max: int_max,
    torch.sym_min: int_min,
    torch.sym_float: lambda size: lift(size, FLOAT64),
    torch.sym_int: lambda size: size,
    operator.eq: _relation("=="),
    operator.ne: _relation("!="),
    operator.lt: _relation("<"),
    operator.le: _relation("<="),
    operator.gt: _relation(">"),
    operator.ge: _relation(">="),
    operator.truediv: lambda left, right: lift(left, FLOAT64) / lift(right, FLOAT64),
}
"""Functions of numbers for symbolic sizes. What their ranges leave open becomes a requirement."""


def lifted(target: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Returns arguments of an operator, some of them with symbolic sizes: those that stand for
    tensors or numbers are traced, and so is the first tensor, as NumPy does not know the sizes."""
    kinds = [str(argument.type) for argument in target._schema.arguments]
    if not kinds or kinds[0] != "Tensor":
        return args
    wide = [
        lift(arg) if isinstance(arg, Dim) and kind in ("Tensor", "number") else arg
        for arg, kind in zip(args, kinds, strict=False)
    ]
    return [lift(wide[0]) if isinstance(wide[0], np.ndarray) else wide[0], *wide[1:]]


def has_sizes(value: Any) -> bool:
    """True if there is a symbolic size in a value, or in lists and tuples there."""
    if isinstance(value, list | tuple):
        return any(map(has_sizes, value))
    return isinstance(value, Dim)

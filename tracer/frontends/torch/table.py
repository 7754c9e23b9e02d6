"""The table of ATen operators: one row per overload, written as a function of NumPy's arrays.

A converter is a plain Python function. Its parameters have the names and defaults of the operator's
schema; a tensor is a traced array, or a NumPy array if its values are known while the graph is
imported. It is written with NumPy, Python's operators and ``lw.nn``, as a user would write it. The
importer casts its results to the dtypes that PyTorch has for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from ....ir.dataclass import dataclass

Value: TypeAlias = Any
"""A traced array or a NumPy array."""

Fill: TypeAlias = Callable[[Any], Any]
"""Fills a new tensor with random numbers, and returns it."""

Converter: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Converter)


@dataclass(frozen=True, slots=True)
class Row:
    """The converter of an operator.

    ``promote`` says in which dtype PyTorch computes: ``"result"`` that of the result,
    ``"operands"`` the common dtype of the operands (comparisons); empty where they have one dtype
    or where it does not matter. The first argument of a converter that ``draws`` is a function of
    a shape, a dtype and a ``Fill``, which returns random numbers.
    """

    name: str
    function: Converter
    promote: str = ""
    draws: bool = False


ROWS: dict[str, Row] = {}
"""Rows by the name of an overload: ``add.Tensor``, or ``prims.iota.default`` outside of ATen."""


def aten(*names: str, promote: str = "", draws: bool = False) -> Callable[[F], F]:
    """Enters the decorated converter for each of the overloads ``names``."""

    def enter(function: F) -> F:
        for name in names:
            assert name not in ROWS, name
            ROWS[name] = Row(name, function, promote, draws)
        return function

    return enter

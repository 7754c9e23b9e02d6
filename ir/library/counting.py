"""``np.bincount`` where a value has no count: NumPy's result would have another size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dtype import DTYPES, Array
from .registry import ArrayType, LibraryFunction, Typed, Values, register

NAME = "numpy.bincount"


def _rule(_operands: Sequence[Typed], options: Mapping[str, Any]) -> Sequence[ArrayType]:
    return [ArrayType((options["minlength"],), DTYPES[options["dtype"]])]


def _bind(options: Mapping[str, Any], _count: int) -> Values:
    def refuse(x: Array, _counts: Array) -> None:
        if x.min() < 0:
            raise ValueError("'list' argument must have no negative elements")
        raise ValueError(
            f"np.bincount: the value {x.max()} has no count for minlength={options['minlength']}, "
            "and compiled code needs to know the size of the result"
        )

    return refuse


register(LibraryFunction(NAME, "Raises ValueError: a value has no count.", _rule, _bind))

"""The leaves of carried values, and of what branches give: their types, and which types meet.

A leaf is an array, a number, or a value that never changes (a string, a dtype, a function).

A Python number is weak, here as in NumPy: a carry that begins as one stays a Python number as long
as the body gives a Python number, and takes the dtype of the body's array scalar otherwise. Nothing
else may change from one iteration to the next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr
from ...ir.dtype import DType, dtype_of
from ...ir.errors import LoopwrightError, LoopwrightTypeError
from ...ir.graph.types import TensorType
from ..core.misuse import refuse_subclass, unsupported_dtype
from ..core.proxy import Proxy, WeakType
from ..core.pytree import Structure, flatten, paths
from ..core.symbolic_sizes import Size

_NUMBERS: dict[type, np.dtype[Any]] = {
    bool: np.dtype(bool),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


_FAMILIES = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
"""Kinds of dtypes in an order in which each holds the numbers of those before."""


@dataclass(frozen=True, slots=True)
class LeafType:
    """Shape and dtype of an array or number. ``weak`` is the type of a Python number; ``array`` is
    True for an array, also of rank 0, and False for a scalar, which cannot be written to."""

    shape: tuple[IntExpr, ...]
    dtype: DType
    weak: WeakType | None = None
    array: bool = True

    @property
    def tensor(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def __str__(self) -> str:
        return self.weak.__name__ if self.weak else self.tensor.short


@dataclass(frozen=True, slots=True)
class Fixed:
    """A leaf that is neither array nor number, which a loop cannot change."""

    value: Any

    def __str__(self) -> str:
        return f"a {type(self.value).__name__}"


def flattened(tree: Any) -> tuple[list[Any], Structure]:
    """Returns the leaves of a tree, symbolic sizes as traced numbers, and its containers."""
    leaves, structure = flatten(tree)
    return [v.number() if type(v) is Size else v for v in leaves], structure


def leaf_type(value: Any) -> LeafType | Fixed:
    """Returns the type of a leaf. LoopwrightTypeError for an array of a dtype that the language
    does not have."""
    if type(value) is Proxy:
        return LeafType(value.type.shape, value.type.dtype, value.weak, not value.is_scalar)
    number = _NUMBERS.get(type(value))
    if number is not None:
        return LeafType((), dtype_of(number), type(value), array=False)
    if not isinstance(value, np.ndarray | np.generic):
        return Fixed(value)
    refuse_subclass(value)
    try:
        return LeafType(value.shape, dtype_of(value.dtype), None, isinstance(value, np.ndarray))
    except TypeError as error:
        raise unsupported_dtype(error) from None


def carried(before: LeafType, after: LeafType) -> LeafType | None:
    """Returns the type of a carry that begins as ``before`` and of which the body gives ``after``;
    None if there is none.

    >>> from ...ir.dtype import FLOAT32, INT64
    >>> zero, one = LeafType((), INT64, int, False), LeafType((), FLOAT32, None, False)
    >>> str(carried(zero, one)), carried(one, LeafType((3,), FLOAT32))
    ('float32[]', None)
    """
    if before.shape != after.shape:
        return None
    if before.weak is None or after.weak is not None:
        return _met(before, after)
    if _FAMILIES[before.dtype.kind] > _FAMILIES[after.dtype.kind]:
        return replace(before, array=before.array)  # 0.5, which no integer holds, stays a float
    return replace(after, array=before.array)


def joined(one: LeafType, other: LeafType) -> LeafType | None:
    """Returns the type of what is one or the other of two branches' results; None if there is
    none."""
    if one.shape != other.shape:
        return None
    return _met(other, one) if one.weak is not None else _met(one, other)


def _met(one: LeafType, other: LeafType) -> LeafType | None:
    """Returns the type in which the two meet, of which ``one`` is an array if any is."""
    array = one.array or other.array
    if one.dtype == other.dtype:
        return LeafType(one.shape, one.dtype, one.weak and other.weak, array)
    if other.weak is None:
        return None
    kind: Any = one.weak or one.dtype.numpy
    numbers: dict[Any, Any] = {int: 0, float: 0.0, complex: 0j}
    meeting = np.result_type(*(numbers.get(k, k) for k in (kind, other.weak)))
    if one.weak is not None:
        weak: WeakType = {"f": float, "c": complex}.get(meeting.kind, int)
        return LeafType(one.shape, dtype_of(meeting), weak, array)
    return replace(one, array=array) if meeting == one.dtype.numpy else None


def check_fixed(operation: str, what: str, before: Any, after: Any) -> None:
    """Raises LoopwrightTypeError unless two leaves are the same unchangeable value."""
    if type(before) is type(after) and (before is after or before == after):
        return
    raise LoopwrightTypeError(
        f"{operation}: {what} is {before!r} at first and then {after!r}",
        hint="a number or an array for what changes",
    )


def check_structure(
    operation: str, first: str, one: Structure, second: str, other: Structure
) -> None:
    """Raises LoopwrightTypeError unless the two trees are of the same containers."""
    if one != other:
        raise LoopwrightTypeError(
            f"{operation}: {first} is {tree_text(one)}, and {second} {tree_text(other)}",
            hint="the same tuples, lists and dicts in both",
        )


def tree_text(structure: Structure) -> str:
    """Returns a tree in words.

    >>> from ..core.pytree import flatten
    >>> tree_text(flatten((1, {"a": 2, "b": None}))[1])
    "(*, {'a': *, 'b': None})"
    """
    root = "_"
    if paths(structure, root) == [root]:
        return "one array"
    return _tree_text(structure)


def _tree_text(structure: Any) -> str:
    if not hasattr(structure, "children"):
        return "*"
    children = [_tree_text(child) for child in structure.children]
    if structure.type is type(None):
        return "None"
    if structure.type is tuple:
        return f"({', '.join(children)}{',' if len(children) == 1 else ''})"
    if structure.type is list:
        return f"[{', '.join(children)}]"
    if isinstance(structure.aux, tuple) and len(structure.aux) == len(children):
        brackets = "{}" if issubclass(structure.type, dict) else "()"
        name = "" if issubclass(structure.type, dict) else structure.type.__name__
        sign = ": " if name == "" else "="
        keys = [repr(k) if name == "" else str(k) for k in structure.aux]
        items = ", ".join(f"{k}{sign}{c}" for k, c in zip(keys, children, strict=True))
        return f"{name}{brackets[0]}{items}{brackets[1]}"
    name = structure.aux if hasattr(structure.aux, "constructors") else structure.type.__name__
    return f"{name}({', '.join(children)})"


def differ(
    operation: str,
    path: str,
    first: str,
    one: LeafType | Fixed,
    second: str,
    other: LeafType | Fixed,
) -> LoopwrightError:
    """Returns the error for a leaf of two types: ``path`` is ``one`` according to ``first``, a verb
    and what follows it, and ``other`` according to ``second``."""
    hint = "arrays and numbers only"
    if isinstance(one, LeafType) and isinstance(other, LeafType):
        hint = f".astype(np.{one.dtype})"
        if one.shape != other.shape:
            hint = "np.broadcast_to at the start, or a fixed size of which a part is used"
    return LoopwrightTypeError(
        f"{operation}: {path} {first} {one}, and {second} {other}", hint=hint
    )

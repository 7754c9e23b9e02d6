"""The table of ATen operators: one row per overload, written as a function of NumPy's arrays.

A converter is a plain Python function. Its parameters have the names and defaults of the operator's
schema; a tensor is a traced array, or a NumPy array if its values are known while the graph is
imported. It is written with NumPy, Python's operators and ``lw.nn``, as a user would write it. The
importer casts its results to the dtypes that PyTorch has for them.

A converter gets the arguments that it has parameters for. What the others say must be their
default, or where and as what the result is stored, or stand in the row's ``ignores`` with a reason:
any other argument refuses the graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from ....ir.dataclass import dataclass
from ....ir.errors import UnsupportedError

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
    a shape, a dtype and a ``Fill``, which returns random numbers; that of one that reads
    ``memory`` is the list of ``Stored`` tensors that ``self`` is a view of, itself first.
    ``ignores`` are arguments that do not matter, by name.
    """

    name: str
    function: Converter
    promote: str = ""
    draws: bool = False
    memory: bool = False
    ignores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor and where its elements lie, counted in elements of its storage."""

    value: Value
    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any


_STORAGE = frozenset(("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"))
"""Arguments that say how a result is stored. The node's own tensor has all of it, and the importer
gives the result its dtype and the order of its axes. Who computes in ``dtype`` says ``promote``."""


def arguments(
    row: Row, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Returns the arguments of a call of ``target`` as the converter of ``row`` takes them.

    Raises UnsupportedError for an argument that the converter has no parameter for.
    """
    parameters = inspect.signature(row.function).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return args, dict(kwargs)
    taken = {p.name for p in parameters}
    schema = target._schema.arguments
    given = {a.name: value for a, value in zip(schema, args)} | dict(kwargs)
    for each in schema:
        name = each.name
        if name in taken or name not in given or name in _STORAGE or name in row.ignores:
            continue
        if not (each.has_default_value() and _same(given[name], each.default_value)):
            raise UnsupportedError(f"{row.name} with {name}={given[name]!r} is not supported")
    return (), {name: value for name, value in given.items() if name in taken}


def _same(value: Any, default: Any) -> bool:
    plain = (bool, int, float, str, list, type(None))
    return isinstance(value, plain) and value == default


ROWS: dict[str, Row] = {}
"""Rows by the name of an overload: ``add.Tensor``, or ``prims.iota.default`` outside of ATen."""


def aten(
    *names: str,
    promote: str = "",
    draws: bool = False,
    memory: bool = False,
    ignores: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Enters the decorated converter for each of the overloads ``names``."""

    def enter(function: F) -> F:
        for name in names:
            assert name not in ROWS, name
            ROWS[name] = Row(name, function, promote, draws, memory, ignores)
        return function

    return enter

"""What an operator is, and the table of all of them, which ``ir/ops`` fills.

One definition holds everything: documentation, attributes, type rule, fusion pattern, tensor
expression or decomposition, NumPy reference, samples. ``register`` refuses one without samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from ..errors import InternalError, LoopwrightTypeError, LoopwrightValueError
from ..loop.tensor import Map, Reduction, Tensor
from .types import TensorType, Type

__all__ = [
    "OPERATORS",
    "REQUIRED",
    "Attr",
    "Operator",
    "Pattern",
    "Sample",
    "all_operators",
    "get",
    "register",
]


OPERATORS: dict[str, Operator] = {}
"""Every operator by name. The graph's language is the same whatever operators there are."""


class Pattern(IntEnum):
    """Relay's fusion patterns: the greater of two is the pattern of their fusion."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    CONTRACTION = 4
    OPAQUE = 8


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of an operator. Values are hashable: numbers, strings, bools, None, tuples."""

    name: str
    doc: str
    default: Any = REQUIRED


@dataclass(frozen=True, slots=True)
class Sample:
    """One use of an operator, for the three-way test and the documentation.

    ``args`` are arrays (their values matter: a domain, special values, odd sizes).
    """

    args: tuple[np.ndarray[Any, Any], ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator of the graph IR.

    ``params`` names the operands; a last name that starts with ``*`` takes any number.
    ``infer(types, attrs)`` gives the result type or raises LoopwrightTypeError / ...ValueError.
    Exactly one of ``compute(tensors, attrs, type)``, which gives the tensor expression of the
    result, and ``decompose(builder, atoms, attrs)``, which emits other operators through a Builder
    and gives the result's atom, is there. ``reference(arrays, attrs)`` is NumPy.
    ``samples(rng)`` are at least one ``Sample``. ``cost`` is the arithmetic instructions that one
    element of the result takes; fusion decides by it what may be computed twice. ``maps`` says that
    the result is a map though the pattern is that of a contraction: what follows becomes a part of
    its expression.
    """

    name: str
    doc: str
    params: tuple[str, ...]
    pattern: Pattern
    infer: Callable[[tuple[Type, ...], Mapping[str, Any]], Type]
    reference: Callable[[Sequence[Any], Mapping[str, Any]], Any]
    samples: Callable[[np.random.Generator], Sequence[Sample]]
    attrs: tuple[Attr, ...] = ()
    compute: Callable[[Sequence[Tensor], Mapping[str, Any], TensorType], Map | Reduction] | None = (
        None
    )
    decompose: Callable[..., Any] | None = None
    cost: float = 1.0
    maps: bool = False

    def __repr__(self) -> str:
        return f"Operator({self.name})"

    def complete_attrs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """``given`` with defaults filled in, in declaration order; lists become tuples."""
        unknown = given.keys() - {a.name for a in self.attrs}
        if unknown:
            known = ", ".join(a.name for a in self.attrs) or "none"
            raise LoopwrightTypeError(
                f"{self.name} has no attribute {min(unknown)} (it has: {known})"
            )
        complete: dict[str, Any] = {}
        for attr in self.attrs:
            value = given.get(attr.name, attr.default)
            if value is REQUIRED:
                raise LoopwrightValueError(
                    f"{self.name} needs the attribute {attr.name}: {attr.doc}"
                )
            complete[attr.name] = _frozen(value)
        return complete


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_frozen(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


def register(operator: Operator) -> Operator:
    """Add an operator to the table; the name must be new, a meaning and samples must be given."""
    if operator.name in OPERATORS:
        raise InternalError(f"operator {operator.name} is registered twice")
    if (operator.compute is None) == (operator.decompose is None):
        raise InternalError(f"operator {operator.name} needs a compute or a decompose, not both")
    OPERATORS[operator.name] = operator
    return operator


def get(name: str) -> Operator:
    """The operator of that name; KeyError if there is none."""
    return OPERATORS[name]


def all_operators() -> dict[str, Operator]:
    """Every operator by name, in the order of registration."""
    return dict(OPERATORS)

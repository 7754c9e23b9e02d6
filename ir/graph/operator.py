"""The class of operators, and the table of all of them, which ``ir/ops`` fills.

One declaration holds everything: documentation, operands and attributes, type rule, fusion pattern,
meaning (a tensor expression, or a decomposition into other operators), NumPy reference, samples and
traits, derivative. ``ir/ops/declare.py`` makes an Operator from a decorated function; ``register``
refuses an incomplete one. A quantised form would be a further field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..errors import InternalError, LoopwrightTypeError, LoopwrightValueError
from ..loop.tensor import Map, Reduction, Statements, Tensor
from ..traits import Trait
from .types import TensorType, Type

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
    """An attribute of an operator. Values are hashable: numbers, strings, bools, None, tuples.

    ``kind`` is the annotation of the parameter that declares it (``int``, ``Axes``, ...).
    """

    name: str
    doc: str
    default: Any = REQUIRED
    kind: str = "Any"


@dataclass(frozen=True, slots=True)
class Sample:
    """One use of an operator, for the three-way test and the documentation.

    ``args`` are arrays (their values matter: a domain, special values, odd sizes).
    """

    args: tuple[np.ndarray[Any, Any], ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to compute an operator, by the value of its attribute ``algorithm``.

    ``error_growth`` bounds its error, as a multiple of that of sums of so many ``terms`` taken term
    by term. ``time`` is an estimate in a unit that all algorithms of a call share.
    """

    name: str
    error_growth: float
    terms: int
    time: float


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator of the graph IR.

    - ``params`` names the operands; a last name that starts with ``*`` takes any number of them.
    - ``infer(types, attrs)`` returns the result type, or raises LoopwrightTypeError or
      LoopwrightValueError.
    - Either ``compute(tensors, attrs, type)`` returns the tensor expression of the result, or
      ``decompose(builder, atoms, attrs)`` emits other operators and returns the result's atom.
      What a library computes (Trait.LIBRARY) has neither.
    - ``reference(arrays, attrs)`` computes the result with NumPy.
    - ``samples(rng)`` returns at least one ``Sample``.
    - ``dtypes`` are the kinds of dtype (NumPy's letters) that all operands may have.
    - ``cost`` is the number of arithmetic instructions for one element of the result; fusion
      decides by it which values may be computed twice.
    - ``terms`` is the number of terms of a sum that each element of an operand stands for.
    - ``algorithms(types, result, attrs, limits)`` returns the ways to compute it, the plain one
      first, if operands after the first are constants; none if the plain one is all there is.
    - ``batch(batch)`` emits the operator on stacks of operands (``ir/graph/vmap.py``), or returns
      None. Views, elementwise operators and reductions do without.
    - ``linear`` are the operands in which it is linear together, while the others stay: a slice of
      them. ``tangent(step)`` emits how the result changes with the operands, and
      ``transpose(step)``, of an operator that is linear, adds to the cotangents of its operands
      (``ir/graph/derivatives/rules.py``); what traits and decompositions tell needs no rule.
      ``not_differentiable`` is the reason why there is none. ``unfold`` is a decomposition for
      derivatives alone, of a primitive that is faster whole.
    - ``maps`` is True if the result is a map although the pattern is that of a contraction: the
      operators that follow become a part of its expression.
    """

    name: str
    doc: str
    params: tuple[str, ...]
    pattern: Pattern
    infer: Callable[[tuple[Type, ...], Mapping[str, Any]], Type]
    reference: Callable[[Sequence[Any], Mapping[str, Any]], Any]
    samples: Callable[[np.random.Generator], Sequence[Sample]]
    attrs: tuple[Attr, ...] = ()
    compute: (
        Callable[[Sequence[Tensor], Mapping[str, Any], TensorType], Map | Reduction | Statements]
        | None
    ) = None
    decompose: Callable[..., Any] | None = None
    dtypes: str = "biuf"
    cost: float = 1.0
    algorithms: Callable[..., Sequence[Algorithm]] | None = None
    batch: Callable[[Any], Any] | None = None
    linear: slice | None = None
    tangent: Callable[[Any], Any] | None = None
    transpose: Callable[[Any], None] | None = None
    not_differentiable: str = ""
    unfold: Callable[..., Any] | None = None
    maps: bool = False
    terms: int = 1
    traits: Trait = Trait.NONE

    def __repr__(self) -> str:
        return f"Operator({self.name})"

    def complete_attrs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns ``given`` with defaults filled in, in declaration order; lists become tuples."""
        unknown = given.keys() - {a.name for a in self.attrs}
        if unknown:
            names = ", ".join(a.name for a in self.attrs) or "none"
            raise LoopwrightTypeError(
                f"{self.name} has no attribute {min(unknown)} (it has: {names})"
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
    """Adds an operator to the table. Raises InternalError if its declaration is incomplete."""
    missing = _missing(operator)
    if missing:
        raise InternalError(f"operator {operator.name}: {missing}")
    OPERATORS[operator.name] = operator
    return operator


def _missing(operator: Operator) -> str:
    """Returns the first thing that the declaration lacks, or an empty string."""
    summary, _, body = operator.doc.partition("\n")
    if operator.name in OPERATORS:
        return "another operator has this name"
    if not summary.endswith("."):
        return "the documentation does not begin with a sentence, such as 'Sum.'"
    if f"{operator.name}(" not in body:
        return f"the documentation has no example that calls {operator.name}(...)"
    meanings = (operator.compute is not None) + (operator.decompose is not None)
    if meanings != (Trait.LIBRARY not in operator.traits):
        return "exactly one of a tensor expression and a decomposition gives its meaning"
    for attr in operator.attrs:
        if not attr.doc:
            return f"the attribute {attr.name} has no documentation"
    for part in ("infer", "reference", "samples"):
        if not callable(getattr(operator, part)):
            return f"{part} is missing"
    return ""


def get(name: str) -> Operator:
    """Returns the operator of that name; KeyError if there is none."""
    return OPERATORS[name]


def all_operators() -> dict[str, Operator]:
    """Returns every operator by name, in the order of registration."""
    return dict(OPERATORS)

"""The table of the rules, and the form of what they take and give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...errors import LoopwrightTypeError, UnsupportedError
from ...traits import Trait
from ..compose import F, Value
from ..operator import OPERATORS, Operator
from ..type_rules import shorts
from ..types import TensorType, TupleType


class Pair(NamedTuple):
    """A complex tensor: its real and its imaginary part, of one type."""

    re: Value
    im: Value


Operand: TypeAlias = Pair | Value
PairRule: TypeAlias = Callable[..., Any]

PAIR_RULES: dict[str, PairRule] = {}
"""Rules by operator: from its operands and attributes to its result, a pair or a real value."""


INTERLEAVED_RULES: dict[str, PairRule] = {}
"""Faster rules where the first operand is interleaved in memory: they have it as a tensor with
another last axis, of both parts, and return None where they do not apply."""


def pair_rule(op: Operator) -> PairRule | None:
    """Returns the rule of an operator: its entry in the table, or the one that its traits give."""
    if op.name in PAIR_RULES:
        return PAIR_RULES[op.name]
    if op.traits & (Trait.MOVES | Trait.LINEAR):
        return by_parts(op.name)
    of_two = Trait.MULTILINEAR in op.traits and op.decompose is None and len(op.params) == 2
    return by_products(op.name) if of_two else None


def by_parts(name: str) -> PairRule:
    """Returns the rule of an operator that treats both parts alike: it moves elements, or is
    linear. Of those that write elements, updates may be added to what is there."""

    def rule(*operands: Operand, **attrs: Any) -> Any:
        if (reduction := attrs.get("reduction", "none")) not in ("none", "add"):
            raise UnsupportedError(f"{name} by {reduction!r} is not supported for complex numbers")
        re, im = (
            apply(name, *(x[part] if isinstance(x, Pair) else x for x in operands), **attrs)
            for part in (0, 1)
        )
        if isinstance(re.atom.type, TupleType):
            return [Pair(*both) for both in zip(re.fields, im.fields, strict=True)]
        return Pair(re, im)

    return rule


def by_products(name: str) -> PairRule:
    """Returns the rule of a product: four of the parts."""

    def rule(x: Pair, y: Pair, **attrs: Any) -> Pair:
        re = apply(name, x.re, y.re, **attrs) - apply(name, x.im, y.im, **attrs)
        return Pair(re, apply(name, x.re, y.im, **attrs) + apply(name, x.im, y.re, **attrs))

    return rule


def apply(name: str, *operands: Any, **attrs: Any) -> Value:
    """Returns the result of the operator called ``name``."""
    space = F.nn if name.startswith("nn.") else F
    return getattr(space, name.removeprefix("nn."))(*operands, **attrs)


def is_composed(op: Operator) -> bool:
    """True for a composite that takes complex numbers because what it consists of does."""
    return op.decompose is not None and Trait.MULTILINEAR in op.traits


def on_pairs(*names: str) -> Callable[[PairRule], PairRule]:
    """Enters the decorated function into the table under each of ``names``."""

    def enter(rule: PairRule) -> PairRule:
        PAIR_RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


def on_interleaved(*names: str) -> Callable[[PairRule], PairRule]:
    """Enters the decorated function into that of rules for what is interleaved in memory."""

    def enter(rule: PairRule) -> PairRule:
        INTERLEAVED_RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


def require_pair_rule(name: str, operands: Sequence[TensorType]) -> None:
    """Raises LoopwrightTypeError unless the operator takes complex numbers."""
    op = OPERATORS[name]
    if pair_rule(op) is None and not is_composed(op):
        raise LoopwrightTypeError(
            f"is not defined for complex numbers, {shorts(operands)}",
            hint="x.real, x.imag or abs(x)",
        )

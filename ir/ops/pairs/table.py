"""The table of the rules, and the form of what they take and give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...errors import LoopwrightTypeError
from ...graph.types import TensorType
from ..compose import Value
from ..rules import shorts


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

COMPOSED = frozenset({"einsum", "nn.dense", "nn.scatter_nd"})
"""Composite operators that take complex numbers because the operators do that they consist of."""


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
    if name not in PAIR_RULES and name not in COMPOSED:
        raise LoopwrightTypeError(
            f"is not defined for complex numbers, {shorts(operands)}",
            hint="x.real, x.imag or abs(x)",
        )

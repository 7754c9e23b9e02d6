"""Rewrite rules written as equations of patterns.

::

    rule    ::= pattern "=" result ("if" condition ("and" condition)*)?
    pattern ::= operators "(" operand, ..., attribute "=" value, ... ")"
    operators ::= operator | "(" operator "|" ... ")"
    operand ::= name | number | pattern | "(" name ":=" pattern ")"
    value   ::= name | literal                 a name stands for whatever the attribute is
    result  ::= operator "(" ..., attribute "=" (name | literal | helper "(" name, ... ")") ")"
              | name | number

A number matches an array all of whose elements are that number, which float16 can hold, so that it
is the same one in every dtype. Where operators are commutative, conditions may hold one way round
alone. In them and in results ``shape`` and ``dtype`` are those of the value that is replaced, and
``result`` is that value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from ...dataclass import dataclass
from ...dtype import DType
from ...errors import InternalError
from .. import patterns
from ..builder import Builder
from ..loops import filled
from ..nodes import Atom, Call, Constant, Expr, Var, tensor_type
from ..operator import OPERATORS
from ..patterns import CallPattern, Captures, DataflowPattern, is_constant, wildcard
from ..types import TensorType

Helper: TypeAlias = Callable[..., Any]


@dataclass(slots=True)
class Facts:
    """Facts about the variables of a function, collected from its first binding to its last."""

    values: dict[Any, Expr] = field(default_factory=dict[Any, Expr])
    unseen_zero_sign: set[Var] = field(default_factory=set)
    no_negative_zero: set[Var] = field(default_factory=set)

    def number(self, atom: Atom) -> Any:
        """Returns the number that every element of ``atom`` is, or None."""
        return patterns.number_of(atom, self.values)


def dtype(atom: Atom) -> DType:
    """Returns the dtype of a tensor."""
    return tensor_type(atom).dtype


@dataclass(frozen=True, slots=True)
class Rule:
    """One equation. ``text`` is how it was written, ``needs`` are the operators and the numbers
    among the operands of what it matches."""

    text: str
    pattern: DataflowPattern
    result: Any
    conditions: Sequence[Any]
    needs: frozenset[Any]


def parse_rules(text: str) -> dict[str, list[Rule]]:
    """The rules in ``text`` by the operator they begin with.

    There is one per line; a line that ends with ``=`` or ``,`` goes on in the next. ``#`` is a
    comment.
    """
    rules: dict[str, list[Rule]] = {}
    for line in re.sub(r"([=,])\n\s*", r"\1 ", text).splitlines():
        line = line.partition("#")[0].strip()
        if not line:
            continue
        equation, _, condition = line.partition(" if ")
        left, equals, right = equation.partition(" = ")
        parts = [left, right, *(condition.split(" and ") if condition else ())]
        trees = (ast.parse(part.strip(), mode="eval").body for part in parts if part)
        pattern, result, *conditions = map(_pattern, trees)
        call = _call(pattern)
        if not equals or call is None:
            raise InternalError(f"not a rule: {line}")
        # One for each choice of operators: looking one up is all that most calls ever cost.
        for name, *needs in product(call.names, *map(_needed, call.args or ())):
            needed = frozenset(needs) - {None}
            rules.setdefault(name, []).append(Rule(line, pattern, result, conditions, needed))
    return rules


def _pattern(tree: ast.expr) -> DataflowPattern:
    """Returns what is written as an operand."""
    if isinstance(tree, ast.Name):
        return wildcard(tree.id)
    if isinstance(tree, ast.NamedExpr):
        return _pattern(tree.value).named(tree.target.id)
    if isinstance(tree, ast.Call):
        call = patterns.is_op(*ast.unparse(tree.func).split(" | "))(*map(_pattern, tree.args))
        attrs = {str(k.arg): _attribute(k.value) for k in tree.keywords}
        return call.has_attr(attrs) if attrs else call
    return is_constant(ast.literal_eval(tree))


def _attribute(tree: ast.expr) -> Any:
    """Returns what is written as an attribute."""
    return _pattern(tree) if isinstance(tree, ast.Name | ast.Call) else ast.literal_eval(tree)


def _call(pattern: DataflowPattern | None) -> CallPattern | None:
    """Returns the pattern of a call without its name and attributes."""
    while isinstance(pattern, wildcard | patterns.Attributed):
        pattern = pattern.pattern
    return pattern if isinstance(pattern, CallPattern) else None


def _needed(operand: DataflowPattern) -> Sequence[Any]:
    """Returns the operators or the number one of which an operand has to be; None for anything."""
    if (call := _call(operand)) is not None:
        return call.names
    number = operand.number if isinstance(operand, is_constant) else None
    if number is not None and float(np.float16(number)) != number:
        raise InternalError(f"{number} is not the same number in every dtype")
    return (number,)


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Rules by the operator they begin with, and the helpers that they name."""

    rules: Mapping[str, Sequence[Rule]]
    helpers: Mapping[str, Helper]

    def apply(self, facts: Facts, var: Var, call: Call, builder: Builder) -> Atom | None:
        """Applies the first rule that matches ``call``, the value of ``var``; None if none does."""
        candidates = self.rules.get(call.op.name, ())
        operands: set[Any] = set()  # the operators that make them, and the numbers that they are
        for atom in call.args if candidates else ():
            maker = facts.values.get(atom)
            operands |= {facts.number(atom), maker.op.name if isinstance(maker, Call) else None}
        for rule in candidates:
            if not rule.needs <= operands:
                continue
            facts.values[var] = call
            given: Captures = {"result": var}
            if isinstance(var.type, TensorType):
                given |= {"shape": var.type.shape, "dtype": var.type.dtype.name}
            for bound in rule.pattern.matches(var, facts.values, given):
                if all(self._value(condition, bound, facts) for condition in rule.conditions):
                    return _with_type(self._emit(rule.result, bound, facts, builder), var, builder)
        return None

    def _value(self, term: Any, bound: Captures, facts: Facts) -> Any:
        """Returns what a name stands for, a literal, or a helper applied to such."""
        if isinstance(term, wildcard):
            return bound[term.name]
        if not isinstance(term, CallPattern):
            return term
        args = (self._value(a, bound, facts) for a in term.args or ())
        return self.helpers[term.names[0]](facts, *args)

    def _emit(self, term: Any, bound: Captures, facts: Facts, builder: Builder) -> Atom:
        """Emits the right side of a rule; what it makes goes through the rules itself."""
        if isinstance(term, is_constant):
            return Constant(np.array(term.number, dtype(bound["result"]).numpy))
        call = _call(term)
        if call is None or call.names[0] in self.helpers:
            return self._value(term, bound, facts)
        args = [self._emit(a, bound, facts, builder) for a in call.args or ()]
        given = term.attrs if isinstance(term, patterns.Attributed) else ()
        attrs = {name: self._value(value, bound, facts) for name, value in given}
        new = builder.emit(OPERATORS[call.names[0]], args, attrs)
        made = facts.values[new] = builder.bindings[-1].value
        assert isinstance(made, Call)
        return self.apply(facts, new, made, builder) or new


def _with_type(atom: Atom, var: Var, builder: Builder) -> Atom:
    """``atom`` in the shape of ``var``: ``x + zeros((3, 1))`` has more axes than ``x``."""
    if atom.type == var.type:
        return atom
    if isinstance(atom, Constant) and atom.value.ndim == 0:
        return filled(var.type, atom.value.item(), builder)
    shape = tensor_type(var).shape
    return builder.emit(OPERATORS["broadcast_to"], (atom,), {"shape": shape})

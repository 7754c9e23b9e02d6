"""Rewrite rules written as equations, and the matcher that applies them.

::

    rule    ::= pattern "=" result ("if" condition ("and" condition)*)?
    pattern ::= operator "(" operand, ..., attribute "=" value, ... ")"
    operand ::= name | number | pattern        a name twice means the same value twice
    value   ::= name | literal                 a name stands for whatever the attribute is
    result  ::= operator "(" ..., attribute "=" (name | literal | helper "(" name, ... ")") ")"
              | name | number

A number matches an array all of whose elements are that number, which float16 can hold, so that it
is the same one in every dtype; for floats the sign of a zero counts. In conditions and results
``shape`` and ``dtype`` are those of the value that is replaced, and ``result`` is that value.
Commutative operators match either way round.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ...dataclass import dataclass
from ...dims import Dim
from ...dtype import DType
from ...errors import InternalError
from ...traits import Trait
from ..builder import Builder
from ..nodes import Atom, Call, Constant, Expr, GlobalVar, Var, tensor_type
from ..operator import OPERATORS
from ..structural import atom_key
from ..types import TensorType

Bound: TypeAlias = dict[str, Any]
Helper: TypeAlias = Callable[..., Any]

_COMPARED_ELEMENTS = 1 << 20
"""A constant of more elements is not searched for being the same number everywhere."""


@dataclass(slots=True)
class Facts:
    """Facts about the variables of a function, collected from its first binding to its last."""

    values: dict[Var, Expr] = field(default_factory=dict)
    unseen_zero_sign: set[Var] = field(default_factory=set)
    no_negative_zero: set[Var] = field(default_factory=set)

    def call(self, atom: Atom) -> Call | None:
        """Returns the operator call that makes ``atom``."""
        value = self.values.get(atom) if isinstance(atom, Var) else None
        if not isinstance(value, Call) or isinstance(value.op, GlobalVar | Var):
            return None
        return value

    def number(self, atom: Atom) -> Any:
        """Returns the number that every element of ``atom`` is, or None."""
        while (call := self.call(atom)) is not None and call.args:
            if operator_name(call) not in ("broadcast_to", "reshape"):
                return None
            atom = call.args[0]
        if isinstance(atom, Constant):
            array = atom.value
            if not 0 < array.size <= _COMPARED_ELEMENTS:
                return None
            first = array.flat[0]
            if array.flat[array.size - 1].tobytes() != first.tobytes():
                return None
            return (
                first
                if array.size == 1 or array.tobytes() == first.tobytes() * array.size
                else None
            )
        if call is not None and operator_name(call) == "full":
            value = call.attrs["fill_value"]
            return None if isinstance(value, Dim) else np.asarray(value, dtype(atom).numpy)[()]
        return None


def operator_name(call: Call) -> str:
    """Returns the name of the operator that ``call`` applies."""
    return call.op.name


def dtype(atom: Atom) -> DType:
    """Returns the dtype of a tensor."""
    return tensor_type(atom).dtype


@dataclass(frozen=True, slots=True)
class Name:
    """Stands for a value: the same one wherever it is written."""

    id: str


@dataclass(frozen=True, slots=True)
class Number:
    """A literal."""

    value: Any


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator (or helper) applied. ``swaps`` says that its two operands may change places."""

    op: str
    args: tuple[Term, ...]
    attrs: tuple[tuple[str, Term], ...]
    swaps: bool


Term: TypeAlias = Name | Number | Apply


@dataclass(frozen=True, slots=True)
class Rule:
    """One equation. ``text`` is how it was written, ``needs`` are the operators and the numbers
    among the operands of what it matches."""

    text: str
    pattern: Apply
    result: Term
    conditions: tuple[Term, ...]
    needs: frozenset[Any]


def parse_rules(text: str) -> dict[str, list[Rule]]:
    """The rules in ``text`` by the operator they begin with.

    There is one per line; a line that ends with ``=`` goes on in the next. ``#`` is a comment.
    """
    rules: dict[str, list[Rule]] = {}
    for line in re.sub(r"=\n\s*", "= ", text).splitlines():
        line = line.partition("#")[0].strip()
        if not line:
            continue
        equation, _, condition = line.partition(" if ")
        left, equals, right = equation.partition(" = ")
        pattern = _term(ast.parse(left.strip(), mode="eval").body)
        if not equals or not isinstance(pattern, Apply):
            raise InternalError(f"not a rule: {line}")
        conditions: tuple[Term, ...] = ()
        if condition:
            tree = ast.parse(condition.strip(), mode="eval").body
            parts = tree.values if isinstance(tree, ast.BoolOp) else [tree]
            conditions = tuple(map(_term, parts))
        result = _term(ast.parse(right.strip(), mode="eval").body)
        needs = frozenset(_needed(arg) for arg in pattern.args if not isinstance(arg, Name))
        rules.setdefault(pattern.op, []).append(Rule(line, pattern, result, conditions, needs))
    return rules


def _needed(operand: Apply | Number) -> Any:
    if isinstance(operand, Apply):
        return operand.op
    if float(np.float16(operand.value)) != operand.value:
        raise InternalError(f"{operand.value} is not the same number in every dtype")
    return operand.value


def _term(tree: ast.expr) -> Term:
    if isinstance(tree, ast.Name):
        return Name(tree.id)
    if isinstance(tree, ast.Call):
        op = ast.unparse(tree.func)
        attrs = tuple((str(k.arg), _term(k.value)) for k in tree.keywords)
        return Apply(op, tuple(map(_term, tree.args)), attrs, _is_commutative(op))
    return Number(ast.literal_eval(tree))


def _is_commutative(name: str) -> bool:
    op = OPERATORS.get(name)
    return op is not None and Trait.COMMUTATIVE in op.traits


def apply_rules(
    rules: Mapping[str, Sequence[Rule]],
    helpers: Mapping[str, Helper],
    facts: Facts,
    var: Var,
    call: Call,
    builder: Builder,
) -> Atom | None:
    """Applies the first rule that matches ``call``; None if none does."""
    candidates = rules.get(operator_name(call), ())
    operands = _operators_and_numbers(call, facts) if candidates else set()
    for rule in candidates:
        if not rule.needs <= operands:
            continue
        bound: Bound = {"result": var}
        if isinstance(var.type, TensorType):
            bound |= {"shape": var.type.shape, "dtype": var.type.dtype.name}
        if not _match_call(rule.pattern, call, bound, facts):
            continue
        if not all(_evaluate(c, bound, helpers, facts) for c in rule.conditions):
            continue
        result = _Emitter(rules, helpers, facts, var, bound, builder).emit(rule.result)
        return _with_type(result, var, builder)
    return None


def _operators_and_numbers(call: Call, facts: Facts) -> set[Any]:
    """Returns the operators that make operands of ``call``, and the numbers that operands are."""
    makers = (facts.call(atom) for atom in call.args)
    return {
        *(operator_name(maker) for maker in makers if maker is not None),
        *(facts.number(atom) for atom in call.args),
    }


def _match_call(pattern: Apply, call: Call, bound: Bound, facts: Facts) -> bool:
    if pattern.op != operator_name(call) or len(pattern.args) != len(call.args):
        return False
    if not all(_match_attr(term, call.attrs[name], bound) for name, term in pattern.attrs):
        return False
    before = dict(bound) if pattern.swaps else bound
    if _match_atoms(pattern, call.args, bound, facts):
        return True
    if not pattern.swaps:
        return False
    bound.clear()
    bound.update(before)
    return _match_atoms(pattern, call.args[::-1], bound, facts)


def _match_atoms(pattern: Apply, atoms: Sequence[Atom], bound: Bound, facts: Facts) -> bool:
    return all(_match_atom(p, a, bound, facts) for p, a in zip(pattern.args, atoms))


def _match_attr(pattern: Term, value: Any, bound: Bound) -> bool:
    if isinstance(pattern, Name):
        return bool(bound.setdefault(pattern.id, value) == value)
    literal = pattern.value if isinstance(pattern, Number) else None
    return type(literal) is type(value) and bool(literal == value)


def _match_atom(pattern: Term, atom: Atom, bound: Bound, facts: Facts) -> bool:
    if isinstance(pattern, Name):
        if pattern.id in bound:
            other = bound[pattern.id]
            return other is atom or atom_key(other) == atom_key(atom)
        bound[pattern.id] = atom
        return True
    if isinstance(pattern, Apply):
        call = facts.call(atom)
        return call is not None and _match_call(pattern, call, bound, facts)
    return _is_number(facts.number(atom), pattern.value)


def _is_number(value: Any, literal: bool | int | float) -> bool:
    if value is None or isinstance(literal, bool) != (value.dtype == np.bool_):
        return False
    if value.dtype.kind != "f":
        return bool(value == literal)
    return bool(value == literal and np.signbit(value) == np.signbit(literal))


def _evaluate(term: Term, bound: Bound, helpers: Mapping[str, Helper], facts: Facts) -> Any:
    """Returns a name, a literal or a helper applied to such."""
    if isinstance(term, Name):
        return bound[term.id]
    if isinstance(term, Number):
        return term.value
    return helpers[term.op](facts, *(_evaluate(a, bound, helpers, facts) for a in term.args))


@dataclass(slots=True)
class _Emitter:
    """Builds the right side of a rule; what it makes goes through the rules itself."""

    rules: Mapping[str, Sequence[Rule]]
    helpers: Mapping[str, Helper]
    facts: Facts
    var: Var
    bound: Bound
    builder: Builder

    def emit(self, term: Term) -> Atom:
        if isinstance(term, Name):
            return self.bound[term.id]
        if isinstance(term, Number):
            return Constant(np.array(term.value, dtype(self.var).numpy))
        if term.op in self.helpers:
            return _evaluate(term, self.bound, self.helpers, self.facts)
        args = [self.emit(a) for a in term.args]
        attrs = {
            name: _evaluate(value, self.bound, self.helpers, self.facts)
            for name, value in term.attrs
        }
        new = self.builder.emit(OPERATORS[term.op], args, attrs)
        call = self.builder.bindings[-1].value
        assert isinstance(call, Call)
        self.facts.values[new] = call
        rewritten = apply_rules(self.rules, self.helpers, self.facts, new, call, self.builder)
        return new if rewritten is None else rewritten


def _with_type(atom: Atom, var: Var, builder: Builder) -> Atom:
    """``found`` in the shape of ``var``: ``x + zeros((3, 1))`` has more axes than ``x``."""
    if atom.type == var.type:
        return atom
    assert isinstance(var.type, TensorType)
    if isinstance(atom, Constant) and atom.value.ndim == 0 and "full" in OPERATORS:
        attrs = {
            "shape": var.type.shape,
            "fill_value": atom.value.item(),
            "dtype": var.type.dtype.name,
        }
        return builder.emit(OPERATORS["full"], (), attrs)
    return builder.emit(OPERATORS["broadcast_to"], (atom,), {"shape": var.type.shape})

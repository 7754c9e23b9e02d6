"""Going over the atoms of an expression, the same way for every kind of node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from .nodes import (
    Atom,
    Block,
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Tuple,
    TupleGetItem,
    Var,
)

__all__ = [
    "count_bindings",
    "free_variables",
    "global_variables",
    "map_operands",
    "operands",
    "use_counts",
]


def operands(value: Expr) -> tuple[Atom, ...]:
    """The atoms ``value`` uses itself, without those that only its nested blocks use."""
    if isinstance(value, Call):
        return (value.op, *value.args) if isinstance(value.op, GlobalVar | Var) else value.args
    if isinstance(value, Tuple):
        return value.fields
    if isinstance(value, TupleGetItem):
        return (value.value,)
    if isinstance(value, If):
        return (value.condition,)
    if isinstance(value, Function):
        return ()
    return (value,)


def map_operands(value: Expr, replace: Callable[[Atom], Atom]) -> Expr:
    """``value`` with each of its own operands replaced; the same object if none changed."""
    old = operands(value)
    new = tuple(map(replace, old))
    if all(a is b for a, b in zip(new, old)):
        return value
    if isinstance(value, Call):
        if isinstance(value.op, GlobalVar | Var):
            callee = new[0]
            assert isinstance(callee, GlobalVar | Var)
            return Call(callee, new[1:], value.attrs, value.span)
        return Call(value.op, new, value.attrs, value.span)
    if isinstance(value, Tuple):
        return Tuple(new, value.span)
    if isinstance(value, TupleGetItem):
        return TupleGetItem(new[0], value.index, value.span)
    if isinstance(value, If):
        return If(new[0], value.then, value.orelse, value.span)
    return new[0]


def _walk(scope: Function | Block) -> Iterator[tuple[tuple[Var, ...], tuple[Atom, ...]]]:
    """(variables bound, atoms used) of every binding and block at any depth."""
    work: list[Function | Block] = [scope]
    while work:
        node = work.pop()
        if isinstance(node, Function):
            yield node.params, ()
            node = node.body
        yield (), (node.result,)
        for binding in node.bindings:
            value = binding.value
            yield (binding.var,), operands(value)
            if isinstance(value, If):
                work += [value.then, value.orelse]
            elif isinstance(value, Function):
                work.append(value)


def free_variables(scope: Function | Block) -> set[Var]:
    """The variables that ``scope`` uses and does not bind."""
    used: set[Var] = set()
    bound: set[Var] = set()
    for binds, uses in _walk(scope):
        bound.update(binds)
        used.update(a for a in uses if isinstance(a, Var))
    return used - bound


def global_variables(scope: Function | Block) -> Counter[str]:
    """The global functions that ``scope`` refers to, and how often."""
    return Counter(a.name for _, uses in _walk(scope) for a in uses if isinstance(a, GlobalVar))


def use_counts(scope: Function | Block) -> Counter[Var]:
    """How often each variable is used, at any depth."""
    return Counter(a for _, uses in _walk(scope) for a in uses if isinstance(a, Var))


def count_bindings(scope: Function | Block) -> int:
    """Bindings at any depth."""
    return sum(len(binds) for binds, uses in _walk(scope) if uses)

"""Walks over expressions and blocks, and the loop by which passes rebuild a function.

Every pass visits the operands of a binding first, then the binding, then the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..errors import InternalError
from .builder import Builder
from .nodes import (
    Atom,
    Binding,
    Block,
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)

__all__ = [
    "Step",
    "count_bindings",
    "free_variables",
    "global_variables",
    "map_functions",
    "map_operands",
    "operands",
    "rewrite_function",
    "use_counts",
]


def operands(value: Expr) -> tuple[Atom, ...]:
    """Returns the atoms ``value`` uses itself, without those that only its nested blocks use."""
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
    """Returns the variables that ``scope`` uses and does not bind."""
    used: set[Var] = set()
    bound: set[Var] = set()
    for binds, uses in _walk(scope):
        bound.update(binds)
        used.update(a for a in uses if isinstance(a, Var))
    return used - bound


def global_variables(scope: Function | Block) -> Counter[str]:
    """Returns the global functions that ``scope`` refers to, and how often."""
    return Counter(a.name for _, uses in _walk(scope) for a in uses if isinstance(a, GlobalVar))


def use_counts(scope: Function | Block) -> Counter[Var]:
    """Counts the uses of each variable, at any depth."""
    return Counter(a for _, uses in _walk(scope) for a in uses if isinstance(a, Var))


def count_bindings(scope: Function | Block) -> int:
    """Bindings at any depth."""
    return sum(len(binds) for binds, uses in _walk(scope) if uses)


Step: TypeAlias = Callable[[Var, Expr, Builder], Atom | None]


def map_functions(module: Module, change: Callable[[Function], Function]) -> Module:
    """``module`` with ``change`` applied to its functions; the same object if none changed."""
    for name, function in module.functions.items():
        if isinstance(function, Function):
            module = module.with_function(name, change(function))
    return module


def rewrite_function(
    function: Function,
    step: Step,
    *,
    enter: Callable[[], None] | None = None,
    leave: Callable[[], None] | None = None,
) -> Function:
    """Rebuilds ``function`` binding by binding; the same object comes back if nothing changed.

    ``step(var, value, builder)`` sees every binding once, its operands replaced already. It gives
    None to keep the binding, or the atom to use instead of ``var``, for which it may have emitted
    bindings into ``builder``. ``enter`` and ``leave`` are called around nested blocks.
    """
    return _Rewriter(step, enter or _nothing, leave or _nothing).function(function)


def _nothing() -> None:
    pass


class _Rewriter:
    def __init__(self, step: Step, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self.step, self.enter, self.leave = step, enter, leave
        self.instead: dict[Var, Atom] = {}

    def function(self, function: Function) -> Function:
        return function.with_body(self.block(function.body))

    def nested(self, value: Expr) -> Expr:
        """``value`` with the blocks inside it rewritten."""
        if isinstance(value, If):
            self.enter()
            then = self.block(value.then)
            self.leave()
            self.enter()
            orelse = self.block(value.orelse)
            self.leave()
            if then is value.then and orelse is value.orelse:
                return value
            return If(value.condition, then, orelse, value.span)
        if isinstance(value, Function):
            self.enter()
            function = self.function(value)
            self.leave()
            return function
        return value

    def atom(self, atom: Atom) -> Atom:
        return self.instead.get(atom, atom) if isinstance(atom, Var) else atom

    def block(self, block: Block) -> Block:
        builder = Builder()
        changed = False
        for binding in block.bindings:
            var, old = binding.var, binding.value
            value = self.nested(map_operands(old, self.atom) if self.instead else old)
            builder.span = var.span or getattr(value, "span", None)
            before = len(builder.bindings)
            replacement = self.step(var, value, builder)
            if replacement is None:
                if len(builder.bindings) != before:
                    raise InternalError(f"a pass kept %{var.name} but emitted bindings for it")
                builder.bindings.append(binding if value is old else Binding(var, value))
                changed = changed or value is not old
                continue
            if replacement.type != var.type:
                raise InternalError(
                    f"a pass replaced %{var.name}: {var.type} by a {replacement.type}",
                    span=var.span,
                )
            changed = True
            self.instead[var] = replacement
        result = self.atom(block.result)
        if not changed and result is block.result:
            return block
        return builder.block(result)

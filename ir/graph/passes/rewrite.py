"""The loop that passes over bindings share: operands first, then the binding, then the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...errors import InternalError
from ..builder import Builder
from ..nodes import Atom, Binding, Block, Expr, Function, If, Module, Var
from ..walk import map_operands

__all__ = ["Step", "map_functions", "rewrite_function"]

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
    """Rebuild ``function`` binding by binding; the same object comes back if nothing changed.

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
        body = self.block(function.body)
        if body is function.body:
            return function
        return Function(function.params, body, function.attrs, function.span)

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

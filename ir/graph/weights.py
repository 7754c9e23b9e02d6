"""Modules with other values for their constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .nodes import Atom, Binding, Block, Constant, Expr, Function, If, Module
from .walk import map_operands

__all__ = ["map_constants", "without_weights"]

LEAST_BYTES = 1 << 12
"""Constants smaller than this keep their values in ``without_weights``."""


def without_weights(module: Module) -> Module:
    """``module`` with zeros, which take no memory, in the place of its big constants.

    It has the types and the text of ``module``; it must not be compiled or run.
    """
    return map_constants(module, _weightless)


def _weightless(constant: Constant) -> Constant:
    value = constant.value
    if value.nbytes < LEAST_BYTES:
        return constant
    zeros = np.broadcast_to(np.zeros((), value.dtype), value.shape)
    return Constant(zeros, constant.name, constant.span)


def map_constants(module: Module, change: Callable[[Constant], Constant]) -> Module:
    """``module`` with each constant replaced; one that stands in several places is asked about
    once."""
    done: dict[int, Constant] = {}

    def atom(old: Atom) -> Atom:
        if not isinstance(old, Constant):
            return old
        if id(old) not in done:
            done[id(old)] = change(old)
        return done[id(old)]

    def block(old: Block) -> Block:
        return Block(tuple(Binding(b.var, expr(b.value)) for b in old.bindings), atom(old.result))

    def function(old: Function) -> Function:
        return old.with_body(block(old.body))

    def expr(old: Expr) -> Expr:
        new = map_operands(old, atom)
        if isinstance(new, If):
            return If(new.condition, block(new.then), block(new.orelse), new.span)
        return function(new) if isinstance(new, Function) else new

    for name, old in module.functions.items():
        if isinstance(old, Function):
            module = module.with_function(name, function(old))
    return module

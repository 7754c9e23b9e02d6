"""Modules with other values for their constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .nodes import Atom, Binding, Block, Constant, Expr, Module
from .walk import map_functions, map_operands, nested_blocks, with_nested_blocks

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

    def expr(old: Expr) -> Expr:
        return with_nested_blocks(map_operands(old, atom), [block(b) for b in nested_blocks(old)])

    return map_functions(module, lambda function: function.with_body(block(function.body)))

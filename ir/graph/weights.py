"""Constants of modules: other values for them, and the bytes that hold codes of few bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dtype import Array
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


def constants_of(module: Module) -> list[Array]:
    """The values of a module's constants, each once."""
    values: list[Array] = []

    def noted(constant: Constant) -> Constant:
        values.append(constant.value)
        return constant

    map_constants(module, noted)
    return values


def groups_of(codes: Array, bits: int, size: int) -> Array:
    """Returns the operand ``w`` of ``nn.matmul_nbits`` that holds these codes, uint8 (k, n), in
    groups of ``size`` rows.

    >>> codes = np.arange(16, dtype=np.uint8)[:, None]
    >>> [f"{b:02x}" for b in groups_of(codes, 4, 8)[:, 0]]
    ['40', '51', '62', '73', 'c8', 'd9', 'ea', 'fb']
    """
    count, rows = 8 // bits, size * bits // 8
    parts = codes.reshape(-1, count, rows, codes.shape[1])
    packed = np.zeros((len(parts), rows, codes.shape[1]), np.uint8)
    for part in range(count):
        packed |= parts[:, part] << np.uint8(part * bits)
    return packed.reshape(-1, codes.shape[1])


def codes_of(w: Array, bits: int, groups: int) -> Array:
    """Returns the codes, uint8 (k, n), of an operand ``w``: the inverse of ``groups_of``."""
    parts = w.reshape(groups, 1, -1, w.shape[1])
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None, None]
    return (parts >> shifts & np.uint8(2**bits - 1)).reshape(-1, w.shape[1])

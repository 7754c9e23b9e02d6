"""Blocks whose lanes are strided where they are stored, and whose iterations are contiguous.

::

    unroll t in 8:                              unroll t in 8 by transpose:
      vectorize l in 8 by [8]:            =>      vectorize l in 8 by [8]:
        y[l, t] = exp(x[t, l])                      y[l, t] = exp(x[t, l])
    vectorize l in 4 by [4]:                    vectorize l in 4 by [4]:
      unroll t in 2:                              unroll t in 2 by interleave:
        z[l, t] = x[t, l]                           z[l, t] = x[t, l]

A copy from such a block is one to such a block with its loops in each other's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.dims import IntExpr
from ...ir.loop.expr import Read, walk
from ...ir.loop.kinds import Instruction, LoopKind
from ...ir.loop.nest import Intrinsic, Loop, Nest, Stmt, Store, Vectors
from ...ir.loop.stride import flat_index, moves_by_sizes, stride_along
from ..target import Target
from .lanes import Machine, lanes_for
from .scope import Scope, rewrite
from .vectors import widths_of

SPARSE_BLOCK = 4
"""A block is transposed if at least 1 / SPARSE_BLOCK of it is used."""


def shuffle_blocks(nest: Nest, machine: Machine) -> Nest:
    """The nest in which such blocks are transposed, or interleaved, in registers."""

    def shuffled(stmt: Stmt, scope: Scope, _rest: Sequence[Stmt]) -> Sequence[Stmt] | None:
        if isinstance(stmt, Vectors):
            return (_interleaved(stmt, stmt, scope, machine.target),)
        inner = _only_vectors(stmt) if type(stmt) is Loop else None
        if inner is None or not isinstance(stmt, Loop):
            return None
        made = _transposed(stmt, inner, scope, machine)
        if made is None:
            made = _transposed_copy(stmt, inner, scope, machine)
        return None if made is None else (made,)

    return rewrite(nest, shuffled)


def _only_vectors(loop: Loop) -> Vectors | None:
    """The vector loop that is all of the body of an unrolled loop with several iterations."""
    if loop.kind != LoopKind.UNROLL or len(loop.body) != 1 or loop.trips < 2:
        return None
    inner = loop.body[0]
    if not isinstance(inner, Vectors) or not isinstance(inner.extent, int):
        return None
    return inner if inner.kind == LoopKind.VECTORIZE else None


def _transposed(loop: Loop, inner: Vectors, scope: Scope, machine: Machine) -> Loop | None:
    """The loop by the instruction; None if its stores are others, or read what they write."""
    lanes = lanes_for(inner.trips, machine.lanes)
    stored: set[str] = set()
    read: set[str] = set()
    for store in inner.body:
        if not isinstance(store, Store) or store.buffer not in scope.memory or lanes == 1:
            return None
        buffer = scope.memory[store.buffer]
        flat = flat_index(buffer, store.indices)
        if buffer.dtype.is_bool or not _is_transposed(flat, inner.var, loop.var):
            return None
        stored.add(store.buffer)
        read |= {n.buffer for n in walk(store.value) if isinstance(n, Read)}
    if len(stored) < len(inner.body) or stored & read:
        return None
    widths = widths_of(inner.trips, inner.trips, lanes, lanes)
    vectors = Vectors(inner.kind, inner.var, inner.extent, inner.body, widths)
    return Intrinsic(loop.kind, loop.var, loop.extent, (vectors,), Instruction.TRANSPOSE)


def _transposed_copy(loop: Loop, inner: Vectors, scope: Scope, machine: Machine) -> Loop | None:
    """The same for a copy, with its loops in each other's place."""
    if inner.trips < 2 or not all(_is_copy(each, loop.var, scope) for each in inner.body):
        return None
    if lanes_for(loop.trips, machine.lanes) * SPARSE_BLOCK < lanes_for(inner.trips, machine.lanes):
        return None  # most of the blocks would be empty
    vectors = Vectors(LoopKind.VECTORIZE, loop.var, loop.extent, inner.body, ())
    outer = Loop(LoopKind.UNROLL, inner.var, inner.extent, (vectors,))
    return _transposed(outer, vectors, scope, machine)


def _is_transposed(flat: IntExpr, lanes: str, iterations: str) -> bool:
    """True if an index moves by one in an iteration, and by more from lane to lane."""
    stride = stride_along(flat, lanes)
    far = moves_by_sizes(flat, lanes) if stride is None else stride not in (0, 1)
    return far and stride_along(flat, iterations) == 1


def _is_copy(stmt: Stmt, var: str, scope: Scope) -> bool:
    """True if a statement copies from memory, adjacent elements in the iterations of a loop."""
    value = stmt.value if isinstance(stmt, Store) and not stmt.stream else None
    if not isinstance(value, Read) or value.buffer not in scope.memory:
        return False
    indices = value.plain_indices
    if len(indices) < len(value.indices):  # data decides where it is
        return False
    return stride_along(flat_index(scope.memory[value.buffer], indices), var) == 1


def _interleaved(stmt: Loop, lanes: Vectors, scope: Scope, target: Target) -> Loop:
    """A vector loop, or one inside, whose inner loops are by the instruction where it is theirs."""
    body: list[Stmt] = []
    for inner in stmt.body:
        if type(inner) is Loop and _is_interleaved(inner, lanes, scope, target):
            loop = inner.kind, inner.var, inner.extent, inner.body
            body.append(Intrinsic(*loop, Instruction.INTERLEAVE))
        else:
            loops = isinstance(inner, Loop)
            body.append(_interleaved(inner, lanes, scope, target) if loops else inner)
    same = all(a is b for a, b in zip(body, stmt.body))
    return stmt if same else replace(stmt, body=tuple(body))


def _is_interleaved(loop: Loop, lanes: Vectors, scope: Scope, target: Target) -> bool:
    if len(loop.body) != 1:  # no statement is left where the addend is zero
        return False
    stmt, count = loop.body[0], loop.trips
    if not isinstance(stmt, Store) or stmt.stream or not isinstance(lanes.extent, int):
        return False
    buffer = scope.memory.get(stmt.buffer)
    if buffer is None or count not in (2, 4):
        return False
    if count * max(lanes.widths) * buffer.dtype.bytes > target.vector_bytes:
        return False  # LLVM splits longer vectors into single elements
    flat = flat_index(buffer, stmt.indices)
    return stride_along(flat, loop.var) == 1 and stride_along(flat, lanes.var) == count

"""Products of short whole numbers, added up in fours by one instruction (VNNI).

What is looked for is four neighbours of the reduced axis, unrolled inside a vector loop::

    vectorize j in 48:
      unroll k in 4:
        acc[i, j] += int32(x[i, 4 * p + k]) * int32(w.packed[..., j, k])

One operand is the same in all lanes, the other has the group of each lane side by side. The
instruction takes one operand without signs and one with signs; any other product of bytes is left
to plain code, unless the schedule shifts one of the operands (``shift_bytes``).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.dims import Dim, IntExpr
from ...ir.dtype import INT8, INT32, UINT8
from ...ir.loop.expr import Expr, Op, Read
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import Accumulate, Loop, Store
from ...ir.loop.stride import stride_along
from .access import mentions
from .memory import Env
from .values import ValueEmitter
from .writer import FunctionWriter, Value

__all__ = [
    "GROUP",
    "Dot",
    "dot_of",
    "emit_dot",
    "plain_indices",
    "store_interleaved",
]

GROUP = 4  # products that the instruction adds up in one lane


@dataclass(frozen=True, slots=True)
class Dot:
    """``stmt.buffer[...] += left * right``, two reads of bytes widened to int32."""

    stmt: Accumulate
    left: Read
    right: Read


def dot_of(loop: Loop) -> Dot | None:
    """The product that a loop over a group adds up, or None if it does something else."""
    if loop.kind != LoopKind.UNROLL or loop.extent != GROUP or len(loop.body) != 1:
        return None
    stmt = loop.body[0]
    if not isinstance(stmt, Accumulate) or stmt.combiner != "sum":
        return None
    if any(mentions(i, loop.var) for i in stmt.indices):
        return None
    value = stmt.value
    if not isinstance(value, Op) or value.name != "multiply" or value.dtype != INT32:
        return None
    left, right = (_bytes_of(arg) for arg in value.args)
    if left is None or right is None:
        return None
    return Dot(stmt, left, right)


def _bytes_of(expr: Expr) -> Read | None:
    """The read of a byte that ``expr`` widens."""
    if not isinstance(expr, Op) or expr.name != "cast" or not isinstance(expr.args[0], Read):
        return None
    inner = expr.args[0]
    return inner if inner.dtype in (INT8, UINT8) and plain_indices(inner) is not None else None


def plain_indices(node: Read) -> tuple[IntExpr, ...] | None:
    """The indices of a read, None if some come from data."""
    found = tuple(i for i in node.indices if isinstance(i, int | Dim))
    return found if len(found) == len(node.indices) else None


def dot_product(w: FunctionWriter, total: Value, unsigned: Value, signed: Value) -> Value:
    """``total`` and in each lane the sum of four products of bytes; all are int32 vectors."""
    symbol = f"llvm.x86.avx512.vpdpbusd.{32 * total.lanes}"
    return w.call(symbol, total, unsigned, signed, type="i32", lanes=total.lanes)


def store_interleaved(e: ValueEmitter, loop: Loop, env: Env) -> bool:
    """Store all turns of an unrolled loop inside a vector loop at once, if they fill the gaps
    between the lanes: four turns store lanes that are four elements apart."""
    if len(loop.body) != 1:  # none, where what it would add is zero
        return False
    stmt, lanes, count = loop.body[0], env.lanes, loop.extent
    if not isinstance(stmt, Store) or stmt.stream or lanes is None:
        return False
    place = e.places.get(stmt.buffer)
    if place is None or count not in (2, 4):
        return False
    if count * lanes.lanes * place.buffer.dtype.bytes > e.target.vector_bytes:
        return False  # LLVM takes apart what is longer, element by element
    flat = e.memory.flat_index(place, stmt.indices)
    if stride_along(flat, loop.var) != 1 or e.memory.lane_stride(flat, env) != count:
        return False
    turns = [
        e.w.splat(e.value(stmt.value, env.bind(loop.var, i)), lanes.lanes) for i in range(count)
    ]
    address = e.memory.address(place, flat, env.bind(loop.var, 0))
    e.memory.store(place, address, interleave(e.w, turns), count * lanes.active)
    return True


def interleave(w: FunctionWriter, turns: list[Value]) -> Value:
    """One vector with lane 0 of every turn, then lane 1 of every turn, and so on."""
    lanes, count = turns[0].lanes, len(turns)
    while len(turns) > 1:  # joined two by two, still one behind the other
        turns = [
            w.shuffle(a, b, tuple(range(2 * a.lanes))) for a, b in zip(turns[::2], turns[1::2])
        ]
    whole = turns[0]
    return w.shuffle(
        whole, whole, tuple(turn * lanes + lane for lane in range(lanes) for turn in range(count))
    )


def emit_dot(e: ValueEmitter, dot: Dot, loop: Loop, env: Env) -> bool:
    """Write the sum of a group; False if the operands do not lie as the instruction wants them."""
    held, lanes = e.registers.get(dot.stmt.buffer), env.lanes
    if held is None or lanes is None or not e.target.has_dots or lanes.lanes not in (4, 8, 16):
        return False
    start = env.bind(loop.var, 0)
    signs = [node.dtype == INT8 for node in (dot.left, dot.right)]
    if sum(signs) != 1:
        return False
    shared: Value | None = None
    own: Value | None = None
    shared_signed = False
    for node, signed in zip((dot.left, dot.right), signs):
        place, indices = e.places.get(node.buffer), plain_indices(node)
        if place is None or indices is None:
            return False
        flat = e.memory.flat_index(place, indices)
        if stride_along(flat, loop.var) != 1:
            return False
        apart = e.memory.lane_stride(flat, start)
        address = e.memory.address(place, flat, start)
        if apart == 0 and shared is None:
            word = e.memory.load_word(place, address)
            shared, shared_signed = e.w.splat(word, lanes.lanes), signed
        elif apart == GROUP and own is None:
            loaded = e.memory.load(place, address, GROUP * lanes.lanes, GROUP * lanes.active)
            own = e.w.words(loaded)
        else:
            return False
    assert shared is not None and own is not None
    at, moves = e.register_place(held, dot.stmt.indices, start)
    number = at // held.lanes
    if not moves or held.lanes != lanes.lanes or at % held.lanes or number not in held.values:
        return False
    total = held.values[number]
    unsigned, signed = (own, shared) if shared_signed else (shared, own)
    held.values[number] = dot_product(e.w, total, unsigned, signed)
    return True

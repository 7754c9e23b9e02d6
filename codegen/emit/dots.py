"""The intrinsic ``vnni``: products of bytes, added up in fours by one instruction; and groups of
vectors that are interleaved, as it reads them.
"""

from __future__ import annotations

from ...ir.dtype import INT8
from ...ir.loop.intrinsics import GROUP, dot_of
from ...ir.loop.nest import Intrinsic, Loop, Store
from ...ir.loop.stride import stride_along
from ..target import FEATURES
from .memory import Env
from .values import ValueEmitter
from .writer import FunctionWriter, Value


def dot_product(e: ValueEmitter, total: Value, unsigned: Value, signed: Value) -> Value:
    """``total`` and in each lane the sum of four products of bytes; all are int32 vectors."""
    row = next(FEATURES[name] for name in e.target.features if FEATURES[name].dot)
    if row.dot.endswith("i8"):
        unsigned, signed = (
            e.w.pure(f"bitcast {x} to <{GROUP * x.lanes} x i8>", "i8", GROUP * x.lanes, x.depth)
            for x in (unsigned, signed)
        )
    symbol = row.dot.format(32 * total.lanes)
    return e.w.call(symbol, total, unsigned, signed, type="i32", lanes=total.lanes)


def store_interleaved(e: ValueEmitter, loop: Loop, env: Env) -> bool:
    """Stores all iterations of an unrolled loop inside a vector loop at once, if together they are
    contiguous: four iterations store lanes with a stride of four elements.
    """
    if len(loop.body) != 1:  # no statement is left where the addend is zero
        return False
    stmt, lanes, count = loop.body[0], env.lanes, loop.trips
    if not isinstance(stmt, Store) or stmt.stream or lanes is None or lanes.mask:
        return False
    place = e.places.get(stmt.buffer)
    if place is None or count not in (2, 4):
        return False
    if count * lanes.lanes * place.buffer.dtype.bytes > e.target.vector_bytes:
        return False  # LLVM splits longer vectors into single elements
    flat = e.memory.flat_index(place, stmt.indices)
    if stride_along(flat, loop.var) != 1 or e.memory.lane_stride(flat, env) != count:
        return False
    vectors = [
        e.w.splat(e.value(stmt.value, env.bind(loop.var, i)), lanes.lanes) for i in range(count)
    ]
    address = e.memory.address(place, flat, env.bind(loop.var, 0))
    e.memory.store(place, address, interleave(e.w, vectors), count * lanes.active)
    return True


def interleave(w: FunctionWriter, vectors: list[Value]) -> Value:
    """One vector with lane 0 of every vector, then lane 1 of every vector, and so on."""
    lanes, count = vectors[0].lanes, len(vectors)
    while len(vectors) > 1:  # joined two by two, in their order
        vectors = [
            w.shuffle(a, b, tuple(range(2 * a.lanes))) for a, b in zip(vectors[::2], vectors[1::2])
        ]
    whole = vectors[0]
    return w.shuffle(
        whole, whole, tuple(n * lanes + lane for lane in range(lanes) for n in range(count))
    )


def emit_dot(e: ValueEmitter, loop: Intrinsic, env: Env) -> bool:
    """Emits the sum of a group by the instruction.

    Returns False if the sums are not in vectors that it takes; the loop is unrolled then.
    """
    dot, lanes = dot_of(loop), env.lanes
    held = e.registers.get(dot.stmt.buffer) if dot else None
    if dot is None or held is None or lanes is None or lanes.lanes not in (4, 8, 16) or lanes.mask:
        return False
    start = env.bind(loop.var, 0)
    at, moves = e.register_place(held, dot.stmt.indices, start)
    number = at // held.lanes
    if (
        not moves
        or held.lanes_of(number) != lanes.lanes
        or at % held.lanes
        or number not in held.values
    ):
        return False
    if dot.left.buffer not in e.places or dot.right.buffer not in e.places:
        return False
    values: dict[bool, Value] = {}  # by whether there are signs
    for node in (dot.left, dot.right):
        place = e.places[node.buffer]
        flat = e.memory.flat_index(place, node.plain_indices)
        address = e.memory.address(place, flat, start)
        if e.memory.lane_stride(flat, start) == 0:
            value = e.w.splat(e.memory.load_word(place, address), lanes.lanes)
        else:
            value = e.w.words(
                e.memory.load(place, address, GROUP * lanes.lanes, GROUP * lanes.active)
            )
        values[node.dtype == INT8] = value
    total = held.values[number]
    held.values[number] = dot_product(e, total, values[False], values[True])
    return True

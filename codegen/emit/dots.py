"""Dot products of lanes: products of short numbers, added up in groups by one instruction; and
groups of vectors that are interleaved, as it reads them.
"""

from __future__ import annotations

from ...ir.loop.expr import Expr, Op
from ...ir.loop.intrinsics import DOTS, dot_of, read_in
from ...ir.loop.nest import Intrinsic, Store
from ..llvm.writer import FunctionWriter, Value
from .memory import Env
from .values import ValueEmitter


def dot_product(e: ValueEmitter, name: str, total: Value, left: Value, right: Value) -> Value:
    """``total`` and in each lane the sum of a group of products, by the instruction of ``DOTS`` of
    that name; operands are vectors of words, as many as there are sums."""
    row = e.target.dot(name)
    assert row is not None
    if row.element != "i32":
        lanes = DOTS[name].group * total.lanes
        left, right = (e.w.recast(x, row.element, lanes) for x in (left, right))
    bits = 32 * total.lanes
    symbol = row.function.format(row.names.get(bits, bits))
    operands = (total, left, right) if row.totals else (left, right)
    made = e.w.call(symbol, *operands, type=total.type, lanes=total.lanes)
    return made if row.totals else e.w.add(total, made)


def store_interleaved(e: ValueEmitter, loop: Intrinsic, env: Env) -> None:
    """Stores all iterations of a loop inside a vector loop at once: they are contiguous."""
    (stmt,), lanes, count = loop.body, env.lanes, loop.trips
    assert isinstance(stmt, Store) and lanes is not None
    place = e.places[stmt.buffer]
    flat = e.memory.flat_index(place, stmt.indices)
    vectors = [
        e.w.splat(e.value(stmt.value, env.bind(loop.var, i)), lanes.lanes) for i in range(count)
    ]
    address = e.memory.address(place, flat, env.bind(loop.var, 0))
    e.memory.store(place, address, interleave(e.w, vectors), count * lanes.active)


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
    dot, lanes = dot_of(loop) if loop.instruction in DOTS else None, env.lanes
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
    kind = DOTS[loop.instruction]
    values: list[Value] = []
    is_swapped = dot.left.dtype.name != kind.left
    for factor in (dot.right, dot.left) if is_swapped else (dot.left, dot.right):
        node = read_in(factor)
        if node is None or node.buffer not in e.places:
            return False
        place = e.places[node.buffer]
        flat = e.memory.flat_index(place, node.plain_indices)
        address = e.memory.address(place, flat, start)
        if e.memory.lane_stride(flat, start) == 0:
            value = e.w.splat(e.memory.load_word(place, address), lanes.lanes)
        else:
            count, active = kind.group * lanes.lanes, kind.group * lanes.active
            loaded = e.memory.load(place, address, count, active)
            value = e.w.recast(_unpacked(e, factor, loaded, start), "i32", lanes.lanes)
        values.append(value)
    held.values[number] = dot_product(e, loop.instruction, held.values[number], *values)
    return True


def _unpacked(e: ValueEmitter, factor: Expr, loaded: Value, env: Env) -> Value:
    """Returns the bits that a factor takes of the elements that were loaded."""
    if not isinstance(factor, Op):
        return loaded
    inner, by = factor.args
    args = [_unpacked(e, inner, loaded, env), e.w.splat(e.value(by, env), loaded.lanes)]
    return e.scalars.apply(factor.name, args, [a.dtype for a in factor.args], factor.dtype)

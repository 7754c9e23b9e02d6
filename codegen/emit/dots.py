"""Products of short whole numbers, added up in fours by one instruction (VNNI).

What is looked for is four neighbours of the reduced axis, unrolled inside a vector loop::

    vectorize j in 48:
      unroll k in 4:
        acc[i, j] += int32(x[i, 4 * p + k]) * int32(w.packed[..., j, k])

One operand is the same in all lanes, the other has the group of each lane side by side. The
instruction wants one operand without a sign and the other with one. Two operands with signs are
multiplied as ``(x + 128) * w``, and what is too much, ``128 * w``, is added up beside it once for
all rows and taken off when the sums are read: the register tile *owes* it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.dims import Dim, IntExpr
from ...ir.dtype import DType
from ...ir.errors import ScheduleError
from ...ir.loop.expr import Expr, Op, Read
from ...ir.loop.nest import Accumulate, Loop, Store, statements
from ...ir.loop.stride import stride_along
from .access import mentions
from .memory import Env
from .registers import Registers
from .values import ValueEmitter
from .writer import FunctionWriter, Value

__all__ = [
    "GROUP",
    "Debts",
    "Dot",
    "dot_of",
    "emit_dot",
    "plain_indices",
    "signed_dots",
    "store_interleaved",
]

GROUP = 4  # products that the instruction adds up in one lane
SIGN = "-2139062144"  # four bytes of 128: flips the sign of each byte, or is 128 in each


@dataclass(frozen=True, slots=True)
class Dot:
    """``stmt.buffer[...] += left * right``, two reads of bytes widened to int32."""

    stmt: Accumulate
    left: Read
    right: Read


def dot_of(loop: Loop) -> Dot | None:
    """The product that a loop over a group adds up, or None if it does something else."""
    if loop.kind != "unroll" or loop.extent != GROUP or len(loop.body) != 1:
        return None
    stmt = loop.body[0]
    if not isinstance(stmt, Accumulate) or stmt.combiner != "sum":
        return None
    if any(mentions(i, loop.var) for i in stmt.indices):
        return None
    value = stmt.value
    if not isinstance(value, Op) or value.name != "multiply" or str(value.dtype) != "int32":
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
    return inner if _is_byte(inner.dtype) and plain_indices(inner) is not None else None


def _is_byte(dtype: DType) -> bool:
    return str(dtype) in ("int8", "uint8")


def plain_indices(node: Read) -> tuple[IntExpr, ...] | None:
    """The indices of a read, None if some come from data."""
    found = tuple(i for i in node.indices if isinstance(i, int | Dim))
    return found if len(found) == len(node.indices) else None


def dot_product(w: FunctionWriter, total: Value, unsigned: Value, signed: Value) -> Value:
    """``total`` and in each lane the sum of four products of bytes; all are int32 vectors."""
    symbol = f"llvm.x86.avx512.vpdpbusd.{32 * total.lanes}"
    return w.call(symbol, total, unsigned, signed, type="i32", lanes=total.lanes)


def flip_signs(w: FunctionWriter, value: Value) -> Value:
    """Bytes from -128..127 to 0..255."""
    return w.op("xor", value, sign_bits(w, value.lanes))


def sign_bits(w: FunctionWriter, lanes: int) -> Value:
    """128 in every byte. LLVM does not know it: it would flip one lane of a splat and broadcast the
    result from a register, on a port of the products, where a load broadcasts for nothing."""
    return w.opaque(w.splat(Value(SIGN, "i32"), lanes))


def store_interleaved(e: ValueEmitter, loop: Loop, env: Env) -> bool:
    """Store all turns of an unrolled loop inside a vector loop at once, if they fill the gaps
    between the lanes: four turns store lanes that are four elements apart."""
    stmt, lanes, count = loop.body[0], env.lanes, loop.extent
    if len(loop.body) != 1 or not isinstance(stmt, Store) or stmt.stream or lanes is None:
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
    shared: Value | None = None
    shared_signed = own_signed = False
    signs = [str(node.dtype) == "int8" for node in (dot.left, dot.right)]
    if not any(signs):
        return False
    own: Value | None = None
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
            own, own_signed = e.w.words(loaded), signed
        else:
            return False
    assert shared is not None and own is not None
    at, moves = e.register_place(held, dot.stmt.indices, start)
    number = at // held.lanes
    if not moves or held.lanes != lanes.lanes or at % held.lanes or number not in held.values:
        return False
    total = held.values[number]
    if not shared_signed:
        held.values[number] = dot_product(e.w, total, shared, own)
    elif not own_signed:
        held.values[number] = dot_product(e.w, total, own, shared)
    else:
        owed = held.owed.get(number, held.nothing)  # once for all rows alike
        held.owed[number] = dot_product(e.w, owed, sign_bits(e.w, lanes.lanes), own)
        held.values[number] = dot_product(e.w, total, flip_signs(e.w, shared), own)
    return True


class Debts:
    """What the vectors of a register tile owe at the end of a serial loop.

    Vectors of one column owe the same for the same operand, whichever row they are of. So what the
    turns of a loop add is one value per column, and holds for the rows that took part.
    """

    def __init__(self, held: Registers) -> None:
        self.held, self.before, self.locked = held, dict(held.owed), held.locked
        self.numbers = tuple(held.values)
        self.entered: dict[int, Value] = {}
        self.debtors: dict[int, set[int]] = {column: set() for column in self.columns}

    @property
    def name(self) -> str:
        return self.held.buffer.name

    @property
    def columns(self) -> set[int]:
        return {number % self.held.vectors for number in self.numbers}

    def enter(self, entered: dict[int, Value]) -> None:
        """Begin a turn, in which each column owes so much for those before."""
        held, self.entered = self.held, entered
        owing = {n for n, owed in self.before.items() if owed.name.startswith("%")}
        held.locked |= owing
        held.owed = {n: entered[n % held.vectors] for n in self.numbers}

    def ends(self, w: FunctionWriter) -> dict[int, Value]:
        """What each column owes after a turn. ScheduleError if its rows do not owe the same."""
        held = self.held
        ends = dict(self.entered)
        for number, owed in list(held.owed.items()):
            column = number % held.vectors
            if number not in self.numbers:
                held.settle(w, number)
            elif owed != self.entered[column]:
                if self.debtors[column] and owed != ends[column]:
                    raise ScheduleError(f"rows of {self.name} add products of different operands")
                self.debtors[column].add(number)
                ends[column] = owed
        return ends

    def leave(self, w: FunctionWriter, column: int, owed: Value) -> None:
        """Add what a column owes after the loop to what its rows owed before."""
        held = self.held
        held.locked = self.locked
        for number in self.numbers:
            if number % held.vectors != column:
                continue
            before = self.before.get(number, held.nothing)
            if number in self.debtors[column] and before.name.startswith("%"):
                held.owed[number] = w.op("add", before, owed)
            else:
                held.owed[number] = owed if number in self.debtors[column] else before


def signed_dots(stmt: Loop) -> set[str]:
    """The buffers to which a loop adds products of two operands with signs."""
    dots = [dot_of(s) for s in statements((stmt,)) if isinstance(s, Loop)]
    return {d.stmt.buffer for d in dots if d and str(d.left.dtype) == str(d.right.dtype) == "int8"}

"""Addresses, loads and stores of buffer elements, scalar or vector, whole or in part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ...ir import dims
from ...ir.dataclass import dataclass
from ...ir.dims import Dim, FloorDiv, IntExpr, Max, Min, Mod, Symbol, bounds, linear, mod
from ...ir.loop.prim import Buffer
from ...ir.loop.stride import flat_index, row_major, stride_along
from ..llvm.text import overload
from ..target import Target
from .writer import FunctionWriter, Value

_Linear = tuple[tuple[tuple[str, int], ...], int]
"""The symbols of an index with their coefficients, and its constant."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vector loop being written: lane l stands for ``var = offset + l``, for l < ``active``,
    and only where it is true in ``mask``, if there is one."""

    var: str
    offset: int
    lanes: int
    active: int
    mask: Value | None = None


@dataclass(frozen=True, slots=True)
class Env:
    """Values of loop variables: an int where the loop is unrolled, an SSA value elsewhere."""

    values: Mapping[str, int | Value]
    lanes: Lanes | None = None

    def bind(self, name: str, value: int | Value) -> Env:
        return Env({**self.values, name: value}, self.lanes)

    def lane(self, lane: int) -> Env:
        """The scalar environment of one lane."""
        assert self.lanes is not None
        return Env({**self.values, self.lanes.var: self.lanes.offset + lane})


@dataclass(slots=True)
class Place:
    """The address of a buffer. ``version`` counts this kernel's writes to it."""

    buffer: Buffer
    base: Value
    written: bool
    version: int = 0
    type: str = field(init=False)

    def __post_init__(self) -> None:
        self.type = self.buffer.dtype.llvm_memory

    @property
    def strides(self) -> tuple[IntExpr, ...]:
        return row_major(self.buffer)


class Memory:
    """Reads and writes through a FunctionWriter."""

    def __init__(self, writer: FunctionWriter, target: Target) -> None:
        self.w = writer
        self.target = target
        self.ranges: dict[str, tuple[int, int]] = {}  # of the variables of loops
        self.strides: dict[tuple[int, str], tuple[Dim, int | None]] = {}  # by an index's identity
        self.flat: dict[tuple[int, int], tuple[object, object, IntExpr]] = {}  # by that of both
        self.linear: dict[int, tuple[Dim, _Linear | None]] = {}  # by an index's identity
        self.sums: dict[tuple[tuple[str, int], ...], Value] = {}  # by names and factors
        self.moved: dict[object, Value] = {}  # by the base, names and factors

    # -- indices -------------------------------------------------------------------------------

    def flat_index(self, place: Place, indices: tuple[IntExpr, ...]) -> IntExpr:
        """The position of an element counted from the start of the buffer."""
        buffer = place.buffer
        entry = self.flat.get((id(buffer), id(indices)))
        if entry is None:
            entry = buffer, indices, flat_index(buffer, indices)
            self.flat[id(buffer), id(indices)] = entry
        return entry[2]

    def lane_stride(self, flat: IntExpr, env: Env) -> int | None:
        """Returns the distance of the index from lane to lane, or None if it is not constant."""
        if env.lanes is None or not isinstance(flat, Dim):
            return 0
        key = (id(flat), env.lanes.var)
        if key not in self.strides:
            self.strides[key] = (flat, stride_along(flat, env.lanes.var))
        return self.strides[key][1]

    def index_value(self, expr: IntExpr, env: Env) -> tuple[Value | None, int]:
        """``expr`` (at lane 0) as (SSA value, constant); constants of unrolled loops are folded."""
        terms, constant = self._terms(expr, env)
        return (self._total(terms) if terms else None), constant

    def _terms(self, expr: IntExpr, env: Env) -> tuple[list[tuple[Value, int]], int]:
        """``expr`` (at lane 0) as values with their factors, and a constant."""
        if not isinstance(expr, Dim):
            return [], expr
        entry = self.linear.get(id(expr))
        parts = entry[1] if entry is not None else self._linear(expr)
        constant = 0
        terms: list[tuple[Value, int]] = []
        if parts is not None:
            lanes, values = env.lanes, env.values
            lane_var = lanes.var if lanes is not None else ""
            constant = parts[1]
            for name, coefficient in parts[0]:
                at = lanes.offset if lanes is not None and name == lane_var else values[name]
                if isinstance(at, int):
                    constant += at * coefficient
                else:
                    terms.append((at, coefficient))
            return terms, constant
        for mono, coefficient in expr.terms:
            factors: list[Value] = []
            for atom in mono:
                value = self._atom(atom, env)
                if isinstance(value, int):
                    coefficient *= value
                else:
                    factors.append(value)
            if not factors:
                constant += coefficient
            elif coefficient:
                terms.append((self.product(factors), coefficient))
        return terms, constant

    def product(self, factors: Sequence[Value]) -> Value:
        """Returns the product of some values, those of outer loops multiplied first."""
        first, *others = sorted(factors, key=lambda factor: factor.depth)
        for factor in others:
            first = self.w.op("mul", first, factor)
        return first

    def _linear(self, expr: Dim) -> _Linear | None:
        """Symbols with their coefficients, and the constant; None if the index is not linear."""
        entry = self.linear.get(id(expr))
        if entry is None:
            parts = linear(expr)
            plain = None if parts is None else (tuple(parts[0].items()), parts[1])
            entry = self.linear[id(expr)] = expr, plain
        return entry[1]

    def _total(self, terms: list[tuple[Value, int]]) -> Value:
        """Returns the sum of scaled values, those of outer loops added first.

        A sum is emitted at the level of its deepest term, so it is visible wherever its terms are.
        """
        key = tuple((value.name, coefficient) for value, coefficient in terms)
        total = self.sums.get(key)
        if total is None:
            for value, coefficient in sorted(terms, key=lambda t: t[0].depth):
                scaled = self.w.scale(value, coefficient)
                total = scaled if total is None else self.w.add(total, scaled)
            assert total is not None
            self.sums[key] = total
        return total

    def _atom(self, atom: Symbol | FloorDiv | Mod | Min | Max, env: Env) -> int | Value:
        if isinstance(atom, Symbol):
            if env.lanes is not None and atom.name == env.lanes.var:
                return env.lanes.offset
            return env.values[atom.name]
        left, right = self.index(atom.left, env), self.index(atom.right, env)
        w = self.w
        if isinstance(atom, Min | Max):
            return w.intrinsic("smin" if isinstance(atom, Min) else "smax", left, right)
        if not left.name.startswith("%") and not right.name.startswith("%"):
            a, b = int(left.name), int(right.name)
            return a // b if isinstance(atom, FloorDiv) else a % b
        if dims.size_symbols(atom.left, atom.right):
            least = bounds(atom.right, self.ranges)
            if least is None or least[0] < 1:  # of no iterations
                right = w.intrinsic("smax", right, w.int(1))
            inside = bounds(atom.left, self.ranges)
            if inside is not None and inside[0] >= 0:
                return w.op("udiv" if isinstance(atom, FloorDiv) else "urem", left, right)
        # Divisors are positive; the quotient rounds to minus infinity.
        quotient, rest = w.op("sdiv", left, right), w.op("srem", left, right)
        below = w.op("icmp slt", rest, w.int(0), type="i1")
        if isinstance(atom, FloorDiv):
            return w.select(below, w.op("sub", quotient, w.int(1)), quotient)
        return w.select(below, w.op("add", rest, right), rest)

    def index(self, expr: IntExpr, env: Env) -> Value:
        """The int64 value of an index expression at lane 0."""
        index = self.known(expr, env)
        return self.w.int(index) if isinstance(index, int) else index

    def known(self, expr: IntExpr, env: Env) -> int | Value:
        """The same; a number, if that is known."""
        value, constant = self.index_value(expr, env)
        if value is None:
            return constant
        return self.w.op("add", value, self.w.int(constant)) if constant else value

    def address(self, place: Place, flat: IntExpr, env: Env, extra: Value | None = None) -> Value:
        """The address of an element (at lane 0); ``extra`` is added to the index."""
        terms, constant = self._terms(flat, env)
        base, type = place.base, place.type
        if extra is not None:
            value = self.w.add(self._total(terms), extra) if terms else extra
        elif terms:
            moved = self._moved(place, terms)
            if moved is not None:
                return self.w.offset(moved, type, None, constant) if constant else moved
            value = self._total(terms)
        else:
            value = None
        return self.w.offset(base, type, value, constant)

    def _moved(self, place: Place, terms: list[tuple[Value, int]]) -> Value | None:
        """The address that the innermost loop moves, from where the loops around it have placed
        it; None if it depends on another variable of that loop."""
        key = (place.base.name, *[(value.name, factor) for value, factor in terms])
        moved = self.moved.get(key)
        if moved is not None:
            return moved
        counter, factor = max(terms, key=lambda term: term[0].depth)
        outer = [term for term in terms if term[0].depth < counter.depth]
        if len(outer) + 1 < len(terms) or not self.w.is_counter(counter):
            return None
        begun = (
            self.w.offset(place.base, place.type, self._total(outer), 0) if outer else place.base
        )
        moved = self.w.along(begun, counter, factor * place.buffer.dtype.bytes)
        self.moved[key] = moved
        return moved

    # -- loads ---------------------------------------------------------------------------------

    def load(self, place: Place, address: Value, lanes: int, active: int) -> Value:
        """``lanes`` neighbours from ``address`` on; those from ``active`` on are not touched."""
        if active == lanes:
            return self._from_memory(place, self._load(place, address, lanes))
        wanted = tuple(l < active for l in range(lanes))
        zero = Value("zeroinitializer", place.type, lanes)
        return self._from_memory(place, self.load_some(place, address, wanted, zero))

    def _place_lanes(self, wide: Value, part: Value, start: int, count: int, lanes: int) -> Value:
        if count == 1:
            return self.w.insert(wide, part, start)
        grown = self.w.shuffle(part, part, tuple(i if i < count else 0 for i in range(lanes)))
        picks = tuple(lanes + i - start if start <= i < start + count else i for i in range(lanes))
        return self.w.shuffle(wide, grown, picks)

    def active_mask(self, lanes: int, active: int) -> Value:
        return self.mask_of(tuple(l < active for l in range(lanes)))

    def mask_of(self, wanted: tuple[bool, ...]) -> Value:
        """The literal that holds these bits."""
        bits = ", ".join(f"i1 {'true' if w else 'false'}" for w in wanted)
        return Value(f"<{bits}>", "i1", len(wanted))

    def load_some(
        self, place: Place, address: Value, wanted: tuple[bool, ...], other: Value
    ) -> Value:
        """Loads neighbours from ``address`` on, but touches only the lanes ``wanted``; the others
        hold ``other``.
        """
        lanes = len(wanted)
        if self.target.has_masks:
            return self.masked(place, address, self.mask_of(wanted), other)
        wide: Value = self.w.splat(other, lanes)
        for first, length in _runs(wanted):
            for start, count in _powers(length):
                where = self.w.offset(address, place.type, None, first + start)
                part = self._load(place, where, count)
                wide = self._place_lanes(wide, part, first + start, count, lanes)
        return wide

    def masked(
        self, place: Place, address: Value, mask: Value, other: Value | None = None
    ) -> Value:
        """A load that touches only the lanes of ``mask``; the others are ``other``, or zero."""
        lanes = mask.lanes
        full = Value("", place.type, lanes).full_type
        symbol = f"llvm.masked.load.{overload(place.type, lanes)}.p0"
        self.w.calls.add(f"declare {full} @{symbol}(ptr, <{lanes} x i1>, {full})")
        depth = self._load_depth(place, max(address.depth, mask.depth))
        align = place.buffer.dtype.bytes
        rest = f"{full} zeroinitializer" if other is None else str(self.w.splat(other, lanes))
        text = f"call {full} @{symbol}(ptr align {align} {address.name}, {mask}, {rest})"
        return self.w.pure(text, place.type, lanes, depth, self.version(place))

    def version(self, place: Place) -> object:
        """Returns a key that differs between loads of a place before and after a write to it."""
        return (place.version, place.buffer.name) if place.written else None

    def _load_depth(self, place: Place, depth: int) -> int:
        return self.w.depth if place.written else max(depth, self.w.guard_depth)

    def _load(self, place: Place, address: Value, lanes: int) -> Value:
        full = place.type if lanes == 1 else f"<{lanes} x {place.type}>"
        depth = self._load_depth(place, address.depth)
        text = f"load {full}, {address}, align {place.buffer.dtype.bytes}"
        return self.w.pure(text, place.type, lanes, depth, self.version(place))

    def load_word(self, place: Place, address: Value) -> Value:
        """Four neighbouring bytes as one int32."""
        depth = self._load_depth(place, address.depth)
        return self.w.pure(f"load i32, {address}, align 1", "i32", 1, depth, self.version(place))

    def _from_memory(self, place: Place, value: Value) -> Value:
        return self.w.convert("trunc", value, "i1") if place.buffer.dtype.is_bool else value

    def prefetch(self, address: Value, later: bool = False) -> None:
        """Prefetches the line of an address into all caches, or all but L1 if it is used ``later``,
        once per iteration of the loops that the address depends on.

        The address need not be valid.
        """
        self.w.calls.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        locality = 2 if later else 3
        text = f"call void @llvm.prefetch.p0({address}, i32 0, i32 {locality}, i32 1)"
        self.w.once(text, address.depth)

    # -- stores --------------------------------------------------------------------------------

    def is_aligned(self, place: Place, flat: IntExpr, env: Env) -> bool:
        """True if a vector at this index of an output starts on a multiple of its size.

        Outputs start on a multiple of 64 bytes if their size is one (see ``codegen.kernel``).
        """
        lanes = env.lanes
        if lanes is None or lanes.active < lanes.lanes or place.buffer.dtype.is_bool:
            return False
        if lanes.mask is not None:
            return False
        if mod(place.buffer.size * place.buffer.dtype.bytes, 64) != 0:
            return False
        steps = [lanes.offset]
        for mono, coefficient in flat.terms if isinstance(flat, Dim) else (((), flat),):
            if mono != (Symbol(lanes.var),):
                steps.append(coefficient)
        return all(step % lanes.lanes == 0 for step in steps)

    def lanes_before(self, end: Value, lanes: int) -> Value:
        """Returns the mask of the lanes whose number is less than ``end``, which is less than 128
        in size."""
        bits = min(64, self.target.vector_bytes * 8 // lanes)
        steps = ", ".join(f"i{bits} {lane}" for lane in range(lanes))
        if bits < 64:
            end = self.w.convert("trunc", end, f"i{bits}")
        numbers = Value(f"<{steps}>", f"i{bits}", lanes)
        return self.w.op("icmp slt", numbers, self.w.splat(end, lanes), type="i1")

    def masked_store(self, place: Place, address: Value, value: Value, mask: Value) -> None:
        """Write the lanes of ``mask`` from ``address`` on."""
        symbol = f"llvm.masked.store.{overload(place.type, value.lanes)}.p0"
        self.w.calls.add(f"declare void @{symbol}({value.full_type}, ptr, <{value.lanes} x i1>)")
        align = place.buffer.dtype.bytes
        self.w.line(f"call void @{symbol}({value}, ptr align {align} {address.name}, {mask})")

    def store(
        self,
        place: Place,
        address: Value,
        value: Value,
        active: int,
        stream: bool = False,
        mask: Value | None = None,
    ) -> None:
        """Write the first ``active`` lanes of ``value`` from ``address`` on, or those of ``mask``.

        ``stream`` writes a whole aligned vector by a non-temporal store.
        """
        if place.buffer.dtype.is_bool:
            value = self.w.convert("zext", value, "i8")
        align = place.buffer.dtype.bytes
        place.version += 1
        if mask is not None:
            self.masked_store(place, address, value, mask)
            return
        if stream:
            align *= value.lanes
            self.w.line(f"store {value}, {address}, align {align}, !nontemporal !0")
            self.w.streams = True
            return
        if active >= value.lanes:
            self.w.line(f"store {value}, {address}, align {align}")
            return
        # Not for one lane: LLVM 22.1 makes a masked store of a truncated value with one lane a
        # scalar store of the value before it was truncated, which also writes what is behind it.
        if self.target.has_masks and active > 1:
            self.masked_store(place, address, value, self.active_mask(value.lanes, active))
            return
        for start, count in _powers(active):
            if count == 1:
                part = self.w.extract(value, start)
            else:
                part = self.w.shuffle(value, value, tuple(range(start, start + count)))
            where = self.w.offset(address, place.type, None, start)
            self.w.line(f"store {part}, {where}, align {align}")


def _runs(wanted: tuple[bool, ...]) -> list[tuple[int, int]]:
    """The runs of true entries as (start, length)."""
    runs: list[tuple[int, int]] = []
    for l, w in enumerate(wanted):
        if w and runs and sum(runs[-1]) == l:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        elif w:
            runs.append((l, 1))
    return runs


def _powers(count: int) -> list[tuple[int, int]]:
    """A run of ``count`` cut into (start, power of two), longest first."""
    pieces, start = [], 0
    while start < count:
        size = 1 << ((count - start).bit_length() - 1)
        pieces.append((start, size))
        start += size
    return pieces

"""Addresses, loads and stores of buffer elements, scalar or vector, whole or in part."""

from __future__ import annotations

from dataclasses import field
from functools import cache

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, IntExpr, Symbol, mod
from ...ir.loop.prim import Buffer
from ...ir.loop.stride import flat_index, row_major
from ..llvm.indices import Env, Form, IndexWriter, Lanes, Parts
from ..llvm.text import full_type, overload
from ..llvm.writer import FunctionWriter, Value
from ..target import Target


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


__all__ = ["Env", "Form", "Lanes", "Memory", "Place", "first_lanes", "mask_of"]


class Memory(IndexWriter):
    """Reads and writes through a FunctionWriter."""

    def __init__(self, writer: FunctionWriter, target: Target) -> None:
        super().__init__(writer)
        self.target = target
        self.flat: dict[tuple[int, ...], tuple[object, object, Form]] = {}  # by identities

    # -- indices -------------------------------------------------------------------------------

    def flat_index(self, place: Place, indices: tuple[IntExpr, ...]) -> IntExpr:
        """The position of an element counted from the start of the buffer."""
        return self.flat_form(place, indices).index

    def flat_form(self, place: Place, indices: tuple[IntExpr, ...]) -> Form:
        """The prepared form of the position of an element."""
        buffer = place.buffer
        entry = self.flat.get((id(buffer), id(indices)))
        if entry is None:
            form = self.form(flat_index(buffer, indices))
            entry = self.flat[id(buffer), id(indices)] = buffer, indices, form
        return entry[2]

    def lane_stride(self, flat: IntExpr, env: Env) -> int | None:
        """Returns the distance of the index from lane to lane, or None if it is not constant."""
        return 0 if env.lanes is None else self.form(flat).stride(env.lanes.var)

    def address(self, place: Place, flat: IntExpr, env: Env, extra: Value | None = None) -> Value:
        """The address of an element (at lane 0); ``extra`` is added to the index."""
        return self.address_of(place, self.form(flat), env, extra)

    def address_of(self, place: Place, form: Form, env: Env, extra: Value | None = None) -> Value:
        """The same of an index's prepared form."""
        parts, constant = self.parts(form, env)
        if extra is not None:
            value = self.w.add(self.total(parts), extra) if parts.terms else extra
            return self.w.offset(place.base, place.type, value, constant)
        base = place.base
        if parts.terms:
            base = parts.addresses.get(base.name) or self._moved(place, parts)
            parts.addresses[place.base.name] = base
        return self.w.offset(base, place.type, None, constant) if constant else base

    def _moved(self, place: Place, parts: Parts) -> Value:
        """The address that the values of an index lead to. If one of them counts the innermost
        loop, that loop moves it, from where the loops around it have placed it."""
        terms = parts.terms
        counter, factor = max(terms, key=lambda term: term[0].depth)
        outer = [term for term in terms if term[0].depth < counter.depth]
        if len(outer) + 1 < len(terms) or not self.w.is_counter(counter):
            return self.w.offset(place.base, place.type, self.total(parts), 0)
        begun = self.w.offset(place.base, place.type, self.sum(outer), 0) if outer else place.base
        return self.w.along(begun, counter, factor * place.buffer.dtype.bytes)

    # -- loads ---------------------------------------------------------------------------------

    def load(self, place: Place, address: Value, lanes: int, active: int) -> Value:
        """``lanes`` neighbours from ``address`` on; those from ``active`` on are not touched."""
        if active == lanes:
            return self._from_memory(place, self._load(place, address, lanes))
        zero = Value("zeroinitializer", place.type, lanes)
        some = self.load_some(place, address, first_lanes(lanes, active), zero)
        return self._from_memory(place, some)

    def _place_lanes(self, wide: Value, part: Value, start: int, count: int, lanes: int) -> Value:
        if count == 1:
            return self.w.insert(wide, part, start)
        grown = self.w.shuffle(part, part, tuple(i if i < count else 0 for i in range(lanes)))
        picks = tuple(lanes + i - start if start <= i < start + count else i for i in range(lanes))
        return self.w.shuffle(wide, grown, picks)

    def active_mask(self, lanes: int, active: int) -> Value:
        return mask_of(first_lanes(lanes, active))

    def load_some(
        self, place: Place, address: Value, wanted: tuple[bool, ...], other: Value
    ) -> Value:
        """Loads neighbours from ``address`` on, but touches only the lanes ``wanted``; the others
        hold ``other``.
        """
        lanes = len(wanted)
        if self.target.has_masks:
            return self.masked(place, address, mask_of(wanted), other)
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
        full = full_type(place.type, lanes)
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
        depth = self._load_depth(place, address.depth)
        full, align = full_type(place.type, lanes), place.buffer.dtype.bytes
        text = f"load {full}, ptr {address.name}, align {align}"
        return self.w.pure(text, place.type, lanes, depth, self.version(place))

    def load_word(self, place: Place, address: Value) -> Value:
        """Neighbours that fill 32 bits as one int32."""
        depth = self._load_depth(place, address.depth)
        return self.w.pure(
            f"load i32, {address}, align {place.buffer.dtype.bytes}",
            "i32",
            1,
            depth,
            self.version(place),
        )

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


@cache
def mask_of(wanted: tuple[bool, ...]) -> Value:
    """The literal that holds these bits."""
    bits = ", ".join(f"i1 {str(w).lower()}" for w in wanted)
    return Value(f"<{bits}>", "i1", len(wanted))


@cache
def first_lanes(lanes: int, active: int) -> tuple[bool, ...]:
    """True for the first ``active`` lanes."""
    return tuple([lane < active for lane in range(lanes)])


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

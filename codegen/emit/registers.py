"""Private buffers held in SSA values: which lanes of which vectors an access reads or writes.

A buffer is held in vectors of ``lanes`` elements along one axis, each beginning at a multiple of
``lanes`` of its row; the last one is as short as the elements that are left allow::

    acc[2, 20], 8 lanes:    0 [0..7] 1 [8..15] 2 [16..19]    3 [0..7] 4 [8..15] 5 [16..19]

An access that wants exactly one of them finds it as it is; any other one is put together from the
vectors it touches, lane by lane. What was never written cannot be read.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr, as_int
from ...ir.errors import ScheduleError
from ...ir.loop.prim import Buffer
from ...ir.loop.stride import without_mod
from ..llvm.writer import FunctionWriter, Value
from ..lower.lanes import SHORTEST, lanes_for


@dataclass
class Registers:
    """A buffer in SSA values, by the number of the vector (see the module).

    ``written`` are the lanes of each that have a value, as bits.
    """

    buffer: Buffer
    lane_axis: int = -1
    lanes: int = 1
    values: dict[int, Value] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)

    @cached_property
    def width(self) -> int:
        return as_int(self.buffer.shape[self.lane_axis]) if self.buffer.shape else 1

    @property
    def vectors(self) -> int:
        """Vectors in a row."""
        return -(-self.width // self.lanes)

    def lanes_of(self, number: int) -> int:
        """Lanes of a vector: the last one of a row may be shorter."""
        left = self.width - number % self.vectors * self.lanes
        return lanes_for(left, self.lanes, SHORTEST)

    def flat_index(self, indices: tuple[IntExpr, ...]) -> IntExpr:
        """The number of an element, counted with the idle lanes, rows one after the other."""
        number: IntExpr = 0
        step = 1
        last = self.lane_axis % max(1, len(indices))
        order = [n for n in range(len(indices)) if n != last] + [last] * bool(indices)
        for n in reversed(order):
            number = number + without_mod(indices[n]) * step
            step *= as_int(self.buffer.shape[n]) if n != last else self.vectors * self.lanes
        return number

    # -- reading -------------------------------------------------------------------------------

    def read(self, w: FunctionWriter, at: int, lanes: int = 1, active: int = 1) -> Value:
        """Returns ``lanes`` neighbours from element ``at`` on; lanes from ``active`` on are
        arbitrary but not poison.
        """
        if active == lanes == self.lanes and self._is_whole(at):
            return self.values[at // lanes]
        pieces = self._pieces(at, active)
        vectors = [self._vector(w, number, lane, count) for number, lane, count in pieces]
        lane = pieces[0][1]
        if lanes == vectors[0].lanes and lane == 0 and len(pieces) == 1:
            return vectors[0]
        if lanes == 1:
            return w.extract(vectors[0], lane)
        if self.lanes == 1:
            wide = Value("zeroinitializer", vectors[0].type, lanes)
            for n, element in enumerate(vectors):
                wide = w.insert(wide, element, n)
            return wide
        picks = [lane] * lanes
        start = 0
        if len(pieces) > 1:  # a shuffle takes two vectors of one length
            vectors = [widened(w, vector, self.lanes) for vector in vectors]
        for n, (_, lane, count) in enumerate(pieces[:2]):
            picks[start : start + count] = range(
                n * self.lanes + lane, n * self.lanes + lane + count
            )
            start += count
        wide = w.shuffle(vectors[0], vectors[min(1, len(vectors) - 1)], tuple(picks))
        for vector, (_, lane, count) in zip(vectors[2:], pieces[2:]):
            wide = _blended(w, wide, start, vector, lane, count)
            start += count
        return wide

    def read_written(self, w: FunctionWriter, at: int, lanes: int, active: int) -> Value | None:
        """The same; None if some of these elements have no value yet."""
        for number, lane, count in self._pieces(at, active):
            wanted = _bits(lane, count)
            if self.written.get(number, 0) & wanted != wanted:
                return None
        return self.read(w, at, lanes, active)

    def _vector(self, _w: FunctionWriter, number: int, lane: int, count: int) -> Value:
        """A vector of which ``count`` lanes from ``lane`` on are read."""
        wanted = _bits(lane, count)
        if self.written.get(number, 0) & wanted != wanted:
            raise ScheduleError(f"{self.buffer.name} is read before it is written")
        return self.values[number]

    # -- writing -------------------------------------------------------------------------------

    def write(self, w: FunctionWriter, at: int, value: Value, active: int = 1) -> None:
        """Sets ``active`` elements from ``at`` on to the first lanes of ``value``."""
        if active == value.lanes == self.lanes and self._is_whole(at):
            self.values[at // active] = value
            return
        start = 0
        for number, lane, count in self._pieces(at, active):
            lanes = self.lanes_of(number)
            real = min(lanes, self.width - number % self.vectors * self.lanes)
            if lane == 0 and start == 0 and value.lanes == lanes and count >= real:
                self.values[number] = value
            elif self.lanes == 1:
                self.values[number] = value if value.lanes == 1 else w.extract(value, start)
            else:
                none = Value("zeroinitializer", value.type, lanes)
                old = self.values.get(number, none)
                self.values[number] = _blended(w, old, lane, value, start, count)
            self.written[number] = self.written.get(number, 0) | _bits(lane, count)
            start += count

    def _pieces(self, at: int, active: int) -> list[tuple[int, int, int]]:
        """The vectors that some neighbours lie in: their number, the first lane, how many lanes."""
        row = self.vectors * self.lanes
        if at < 0 or at % row + active > self.width or at // row >= self._rows:
            raise ScheduleError(f"{self.buffer.name} is used outside of its {self.width} lanes")
        pieces: list[tuple[int, int, int]] = []
        end = at + active
        while at < end:
            number, lane = divmod(at, self.lanes)
            count = min(self.lanes - lane, end - at)
            pieces.append((number, lane, count))
            at += count
        return pieces

    def _is_whole(self, at: int) -> bool:
        """True if a vector begins at an element of which all lanes have values."""
        return at % self.lanes == 0 and self.written.get(at // self.lanes) == self._all

    @cached_property
    def _all(self) -> int:
        """The bits of all lanes of a vector."""
        return _bits(0, self.lanes)

    @cached_property
    def _rows(self) -> int:
        return as_int(self.buffer.size) // max(1, self.width)

    def leave(self, depth: int) -> None:
        """Moves values written inside a loop to the level of the code around it, when it ends."""
        for number, value in self.values.items():
            if value.depth > depth:
                self.values[number] = value._replace(depth=depth)


def _bits(lane: int, count: int) -> int:
    return ((1 << count) - 1) << lane


def widened(w: FunctionWriter, value: Value, lanes: int) -> Value:
    """``value`` in a vector of ``lanes`` lanes; those beyond its own are arbitrary."""
    if value.lanes == lanes:
        return value
    return w.shuffle(value, value, tuple(min(l, value.lanes - 1) for l in range(lanes)))


def _blended(w: FunctionWriter, old: Value, to: int, value: Value, first: int, count: int) -> Value:
    """``old`` with ``count`` lanes from ``to`` on replaced by those of ``value`` from ``first``."""
    if value.lanes == 1:
        return w.insert(old, value, to)
    if count == 1:
        return w.insert(old, w.extract(value, first), to)
    inside = range(to, to + count)
    if value.lanes != old.lanes or first != to:
        moved = tuple(first + l - to if l in inside else first for l in range(old.lanes))
        value = w.shuffle(value, value, moved)
    bits = ", ".join(f"i1 {str(l in inside).lower()}" for l in range(old.lanes))
    return w.select(Value(f"<{bits}>", "i1", old.lanes), value, old)

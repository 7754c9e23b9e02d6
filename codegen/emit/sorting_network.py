"""Sorting networks: rows of vectors, sorted in registers."""

from __future__ import annotations

from ...ir.dtype import DType
from ...ir.loop.prim import Buffer
from ..elementary.emitter import Emitter, Value
from ..llvm import writer
from ..llvm.writer import POISON, FunctionWriter
from ..target import Target
from .memory import Memory, Place

ROWS = (1, 2, 4, 8, 16)
"""Registers that networks sort; half of the target's at most."""


def sort_symbol(dtype: DType) -> str:
    """Returns the name of the function ``(ptr, i64 count)`` that sorts integers of a dtype."""
    return f"lw_sort.{dtype}"


class SortingFunction:
    """A function of ``(ptr, i64 count)`` that is being written, with vectors of some lanes."""

    def __init__(
        self, symbol: str, dtype: DType, lanes: int, target: Target, more: str = ""
    ) -> None:
        self.w = FunctionWriter(symbol, f"ptr %p, i64 %n{more}")
        self.e, self.n = Emitter.of(self.w, target, writer.Value("%n", "i64"))
        self.lanes = lanes
        self.dtype = dtype
        self.sign, self.type = "s" if dtype.is_signed else "u", dtype.llvm
        self.memory = Memory(self.w, target)
        self.place = self.memory_at(writer.Value("%p", "ptr"), dtype)

    def memory_at(self, base: writer.Value, dtype: DType) -> Place:
        return Place(Buffer("sorted", (), dtype), base, True)

    def at(self, place: Place, index: Value | int, more: int = 0) -> writer.Value:
        """The address of an element."""
        if isinstance(index, int):
            return self.w.offset(place.base, self.type, None, index + more)
        return self.w.offset(place.base, self.type, index.ssa, more)

    def load(self, place: Place, index: Value | int, more: int = 0) -> Value:
        address = self.at(place, index, more)
        return Value(self.e, self.memory.load(place, address, self.lanes, self.lanes))

    def store(self, value: Value, place: Place, index: Value | int, more: int = 0) -> None:
        self.memory.store(place, self.at(place, index, more), value.ssa, self.lanes)

    def lanes_before(self, count: Value, first: int = 0) -> Value:
        """The lanes whose number, from ``first`` on, is less than a count."""
        numbers = ", ".join(f"i32 {first + lane}" for lane in range(self.lanes))
        short = self.w.splat(self.w.convert("trunc", count.ssa, "i32"), self.lanes)
        return Value(self.e, writer.Value(f"<{numbers}>", "i32", self.lanes)).below(
            Value(self.e, short)
        )


class SortingNetwork(SortingFunction):
    """Sorts at most ``rows`` registers of elements. Element e of the order lies in row e % rows and
    lane e // rows until rows are interleaved at the end."""

    def write(self, rows: int, greatest: int) -> str:
        lanes = self.lanes
        places = [self.at(self.place, row * lanes) for row in range(rows)]
        masks = [self.lanes_before(self.n, row * lanes).ssa for row in range(rows)]
        top = writer.Value(str(greatest), self.type)
        held = [
            self.memory.masked(self.place, place, mask, top)
            for place, mask in zip(places, masks, strict=True)
        ]
        size = 2
        while size <= rows * lanes:
            self.mirrored(held, size)
            step = size // 4
            while step:
                self.compared(held, step)
                step //= 2
            size *= 2
        for place, mask, value in zip(places, masks, self.interleaved(held), strict=True):
            self.memory.masked_store(self.place, place, value, mask)
        return self.w.text(linkage="internal ")

    def mirrored(self, held: list[writer.Value], size: int) -> None:
        """Compares each element of pieces of ``size`` with the one opposite to it."""
        rows = len(held)
        if size <= rows:
            for first in range(0, rows, size):
                for n in range(size // 2):
                    self.ordered(held, first + n, first + size - 1 - n)
            return
        flip = size // rows - 1
        bit = size // rows // 2
        mirrored_rows = [self.exchanged(value, flip) for value in held]
        for row, value in enumerate(list(held)):
            held[row] = self.kept(value, mirrored_rows[rows - 1 - row], bit)

    def compared(self, held: list[writer.Value], step: int) -> None:
        """Compares each element with the one ``step`` further."""
        rows = len(held)
        if step < rows:
            for row in range(rows):
                if not row & step:
                    self.ordered(held, row, row + step)
            return
        for row, value in enumerate(held):
            held[row] = self.kept(value, self.exchanged(value, step // rows), step // rows)

    def ordered(self, held: list[writer.Value], a: int, b: int) -> None:
        held[a], held[b] = self.extremes(held[a], held[b])

    def extremes(self, one: writer.Value, other: writer.Value) -> tuple[writer.Value, writer.Value]:
        least, greatest = (self.w.intrinsic(f"{self.sign}{m}", one, other) for m in ("min", "max"))
        return least, greatest

    def exchanged(self, value: writer.Value, flip: int) -> writer.Value:
        none = value._replace(name=POISON, depth=0)
        return self.w.shuffle(value, none, tuple([n ^ flip for n in range(self.lanes)]))

    def kept(self, value: writer.Value, other: writer.Value, bit: int) -> writer.Value:
        """The lesser of two in lanes without ``bit``, the greater in the others."""
        order = tuple([n + (self.lanes if n & bit else 0) for n in range(self.lanes)])
        return self.w.shuffle(*self.extremes(value, other), order)

    def interleaved(self, held: list[writer.Value]) -> list[writer.Value]:
        """The elements of all rows at lane 0, then those at lane 1, ..."""
        if len(held) == 1:
            return held
        even, odd = self.interleaved(held[0::2]), self.interleaved(held[1::2])
        half = self.lanes // 2
        result: list[writer.Value] = []
        for a, b in zip(even, odd, strict=True):
            for begin in (0, half):
                order = [begin + n // 2 + n % 2 * self.lanes for n in range(self.lanes)]
                result.append(self.w.shuffle(a, b, tuple(order)))
        return result

"""Sorting networks: rows of vectors, sorted in registers."""

from __future__ import annotations

from ...ir.dtype import DType
from ..target import Target

ROWS = (1, 2, 4, 8, 16)
"""Registers that networks sort; half of the target's at most."""


def sort_symbol(dtype: DType) -> str:
    """Returns the name of the function ``(ptr, i64 count)`` that sorts integers of a dtype."""
    return f"lw_sort.{dtype}"


class SortingNetwork:
    """Sorts vectors in registers."""

    def __init__(self, dtype: DType, target: Target) -> None:
        self.target, self.bits = target, dtype.bits
        self.scalar, self.sign = f"i{dtype.bits}", "s" if dtype.is_signed else "u"
        low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
        self.least, self.greatest = low, low + (1 << dtype.bits) - 1
        self.name = sort_symbol(dtype)
        self.lanes = target.vector_bytes // dtype.bytes
        self.vector = f"<{self.lanes} x {self.scalar}>"
        self.wide = self.lanes if self.groups() else 1
        self.rows = [rows for rows in ROWS if 2 * rows <= target.vector_registers]
        self.lines: list[str] = []
        self.count = 0
        self.declared: dict[str, None] = {}

    def groups(self) -> str:
        """Returns what puts lanes in two groups: a "table" of permutations of at most eight lanes,
        "compress"; "" if nothing does."""
        if self.bits < 32 or self.target.vector_bytes < 32:
            return ""
        return "table" if self.lanes <= 8 else "compress"

    def put(self, text: str) -> str:
        """Write an instruction; returns the name of its value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def call(self, result: str, function: str, *arguments: str) -> str:
        self.declare(result, function, arguments)
        return self.put(f"call {result} @{function}({', '.join(arguments)})")

    def declare(self, result: str, function: str, arguments: tuple[str, ...]) -> None:
        types = ", ".join(_type_of(a) for a in arguments)
        self.declared[f"declare {result} @{function}({types})"] = None

    def finish(self, header: str) -> str:
        body = "\n".join([header, *self.lines, "}"])
        self.lines, self.count = [], 0
        return body

    def splat(self, value: str, type: str, lanes: int) -> str:
        """A scalar in all lanes."""
        if lanes == 1:
            return value
        vector = f"<{lanes} x {type}>"
        one = self.put(f"insertelement {vector} poison, {type} {value}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.put(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def shuffle(self, a: str, b: str, order: list[int]) -> str:
        places = ", ".join(f"i32 {n}" for n in order)
        v = self.vector
        return self.put(f"shufflevector {v} {a}, {v} {b}, <{len(order)} x i32> <{places}>")

    def extreme(self, which: str, a: str, b: str) -> str:
        name = f"llvm.{self.sign}{which}.v{self.lanes}{self.scalar}"
        return self.call(self.vector, name, f"{self.vector} {a}", f"{self.vector} {b}")

    def at(self, pointer: str, index: str | int) -> str:
        return self.put(f"getelementptr {self.scalar}, ptr {pointer}, i64 {index}")

    def network(self, rows: int) -> str:
        """``(ptr, i64 count)``: sorts at most ``rows`` registers of elements. Element e of the
        order lies in row e % rows and lane e // rows until rows are interleaved at the end."""
        lanes, vector = self.lanes, self.vector
        bytes = self.bits // 8
        short = self.put("trunc i64 %n to i32")
        count = self.splat(short, "i32", lanes)
        masks: list[str] = []
        held: list[str] = []
        top = self.splat(str(self.greatest), self.scalar, lanes)
        for row in range(rows):
            places = ", ".join(f"i32 {row * lanes + n}" for n in range(lanes))
            masks.append(self.put(f"icmp ult <{lanes} x i32> <{places}>, {count}"))
            held.append(
                self.call(
                    vector,
                    f"llvm.masked.load.v{lanes}{self.scalar}.p0",
                    f"ptr align {bytes} {self.at('%p', row * lanes)}",
                    f"<{lanes} x i1> {masks[-1]}",
                    f"{vector} {top}",
                )
            )
        size = 2
        while size <= rows * lanes:
            self.mirrored(held, size)
            step = size // 4
            while step:
                self.compared(held, step)
                step //= 2
            size *= 2
        for row, value in enumerate(self.interleaved(held)):
            place = self.at("%p", row * lanes)
            arguments = (
                f"{vector} {value}",
                f"ptr align {bytes} {place}",
                f"<{lanes} x i1> {masks[row]}",
            )
            name = f"llvm.masked.store.v{lanes}{self.scalar}.p0"
            self.declare("void", name, arguments)
            self.lines.append(f"  call void @{name}({', '.join(arguments)})")
        self.lines.append("  ret void")
        return self.finish(f"define internal void @{self.name}.{rows}(ptr %p, i64 %n) nounwind {{")

    def mirrored(self, held: list[str], size: int) -> None:
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

    def compared(self, held: list[str], step: int) -> None:
        """Compares each element with the one ``step`` further."""
        rows = len(held)
        if step < rows:
            for row in range(rows):
                if not row & step:
                    self.ordered(held, row, row + step)
            return
        for row, value in enumerate(held):
            held[row] = self.kept(value, self.exchanged(value, step // rows), step // rows)

    def ordered(self, held: list[str], a: int, b: int) -> None:
        one, other = held[a], held[b]
        held[a], held[b] = self.extreme("min", one, other), self.extreme("max", one, other)

    def exchanged(self, value: str, flip: int) -> str:
        return self.shuffle(value, "poison", [n ^ flip for n in range(self.lanes)])

    def kept(self, value: str, other: str, bit: int) -> str:
        """The lesser of two in lanes without ``bit``, the greater in the others."""
        order = [n + (self.lanes if n & bit else 0) for n in range(self.lanes)]
        low, high = self.extreme("min", value, other), self.extreme("max", value, other)
        return self.shuffle(low, high, order)

    def interleaved(self, held: list[str]) -> list[str]:
        """The elements of all rows at lane 0, then those at lane 1, ..."""
        if len(held) == 1:
            return held
        even, odd = self.interleaved(held[0::2]), self.interleaved(held[1::2])
        half = self.lanes // 2
        result: list[str] = []
        for a, b in zip(even, odd, strict=True):
            for begin in (0, half):
                order = [begin + n // 2 + n % 2 * self.lanes for n in range(self.lanes)]
                result.append(self.shuffle(a, b, order))
        return result

    @property
    def kind(self) -> str:
        return self.vector if self.wide > 1 else self.scalar

    def load(self, pointer: str, n: int) -> str:
        place = self.at(pointer, n * self.wide)
        return self.put(f"load {self.kind}, ptr {place}, align {self.bits // 8}")

    def store(self, value: str, place: str) -> None:
        self.lines.append(f"  store {self.kind} {value}, ptr {place}, align {self.bits // 8}")


def _type_of(argument: str) -> str:
    """The type of an argument as it is written in a call."""
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    return argument.split(" ", 1)[0]

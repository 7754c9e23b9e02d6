"""Sorting of integers in memory, as LLVM text: a quicksort in vectors.

A piece is partitioned in place: vectors are read from the end with less room, their lanes put in
two groups by one permutation, and the result is stored at both ends, where later stores overwrite
what does not belong there ("Vectorized and performance-portable Quicksort", J. Wassenberg,
M. Blacher, J. Giesen, P. Sanders, 2022). Lanes are grouped by compression (AVX-512) or a table of
permutations (AVX2); without them a vector has one lane. Short pieces are sorted in registers by a
bitonic network over columns ("Sorting networks and their applications", K. Batcher, 1968), which
are transposed at the end.

The pivot is the median of a sample. Where that fails too often, it is the middle between the least
and the greatest element, so that the range of values halves: the time stays O(n bits). Equal
elements are no special case: if the pivot is the greatest element, one more partition by its
predecessor leaves only what is less.
"""

from __future__ import annotations

from ...ir.dtype import DType
from ..elementary.emitter import Value
from ..llvm import writer
from ..target import Target
from .sorting_network import ROWS, SortingFunction, SortingNetwork, sort_symbol

UNROLLED = 4
"""Vectors that the partition of a long piece reads at a time."""
LONG = 12
"""Vectors of a piece from which it is long."""


def sort_text(dtype: DType, target: Target) -> tuple[list[str], str]:
    """Returns the declarations, and the text of the function that sorts integers of a dtype with
    those that it calls."""
    return _Sorting(dtype, target).text()


class _Partition(SortingFunction):
    """``(ptr, i64 count, pivot)``: puts the elements up to the pivot in front, and returns their
    number. There are three blocks of ``unrolled`` vectors or more."""

    def __init__(self, name: str, dtype: DType, lanes: int, target: Target, unrolled: int) -> None:
        self.target, self.table, self.unrolled = target, f"@{name}.table", unrolled
        symbol = f"{name}.part{unrolled}"
        super().__init__(symbol, dtype, lanes, target, f", {dtype.llvm} %pivot")
        self.pivot = Value(self.e, self.w.splat(writer.Value("%pivot", self.type), lanes))
        base = self.w.alloca(self.type, lanes * (unrolled + 1))
        self.beside = self.memory_at(base, dtype)

    def write(self) -> str:
        lanes, e, n = self.lanes, self.e, self.n
        block = lanes * self.unrolled
        steps = range(0, block, lanes)
        rest = n & (block - 1)
        whole = n - rest
        # The elements behind whole blocks wait in memory, two blocks in registers.
        for step in steps:
            self.store(self.load(self.place, n - block, step), self.beside, step)
        end = whole - block
        first, last = ([self.load(self.place, at, step) for step in steps] for at in (0, end))

        def unfinished(state: list[Value]) -> Value:
            return state[2].below(state[3])

        def partitioned(state: list[Value]) -> list[Value]:
            low, high, begin, end, *current = state
            right = ((high - end) - (begin - low)) >> 63  # all ones if there is less room there
            moved = right & block
            last = end - moved
            source = begin + ((last - begin) & right)
            # The next vectors are on their way while these, whose number decides the way, are
            # stored.
            following = [self.load(self.place, source, step) for step in steps]
            return [*self.spread(current, low, high), begin + block - moved, last, *following]

        state = [e.constant(0), n, e.constant(block), end, *first]
        low, high, _, _, *current = e.repeat(state, unfinished, partitioned)
        begin, partial = block - rest, rest & (lanes - 1)
        end = begin + partial
        if self.target.has_masks and lanes > 1:
            low, high = self.partial(begin, partial, low, high)
        else:
            low, high, _ = e.repeat([low, high, begin], lambda s: s[2].below(end), self.one_by_one)

        def spread(state: list[Value]) -> list[Value]:
            low, high, at = state
            return [*self.spread([self.load(self.beside, at)], low, high), at + lanes]

        low, high, _ = e.repeat([low, high, end], lambda s: s[2].below(block), spread)
        low, _ = self.spread([*current, *last], low, high)
        self.w.result = low.ssa
        return self.w.text(linkage="internal ")

    def is_below(self, value: Value, pivot: Value) -> Value:
        """True for elements up to the pivot."""
        return value.compare("", f"{self.sign}le", pivot)

    def counted(self, chosen: Value) -> tuple[Value, Value]:
        """The lanes of a mask as an integer, and their number."""
        e, lanes, mask = self.e, self.lanes, chosen.ssa
        bits = Value(e, self.w.pure(f"bitcast {mask} to i{lanes}", f"i{lanes}", 1, mask.depth))
        return bits, e.cast("zext", e.intrinsic("ctpop", bits), "i64")

    def partial(self, begin: Value, count: Value, low: Value, high: Value) -> tuple[Value, Value]:
        """Stores the first ``count`` lanes at ``begin``, exactly."""
        value, valid = self.load(self.beside, begin), self.lanes_before(count)
        front = self.is_below(value, self.pivot) & valid
        _, below = self.counted(front)
        high = high - (count - below)
        self.compress_store(value, low, front)
        self.compress_store(value, high, front ^ valid)
        return low + below, high

    def one_by_one(self, state: list[Value]) -> list[Value]:
        """Stores an element at both ends."""
        low, high, at = state
        lanes, self.lanes = self.lanes, 1
        value = self.load(self.beside, at)
        high = high - 1
        self.store(value, self.place, low)
        self.store(value, self.place, high)
        self.lanes = lanes
        pivot = Value(self.e, writer.Value("%pivot", self.type))
        one = self.e.cast("zext", self.is_below(value, pivot), "i64")
        return [low + one, high + one, at + 1]

    def spread(self, values: list[Value], low: Value, high: Value) -> tuple[Value, Value]:
        """Stores vectors at both ends of the free memory, and returns where it then begins and
        ends."""
        for value in values:
            below = self.is_below(value, self.pivot)
            front, bits = value, below
            if self.lanes == 1:
                count = self.e.cast("zext", below, "i64")
            else:
                bits, count = self.counted(below)
                front = self.grouped(value, below, bits)
            self.store(front, self.place, low)
            high = high - self.lanes
            if _groups(self.lanes, self.type, self.target) == "compress":
                high = high + count
                self.compress_store(value, high, ~below)
            else:
                self.store(front, self.place, high)
                high = high + count
            low = low + count
        return low, high

    def grouped(self, value: Value, below: Value, bits: Value) -> Value:
        """The vector with lanes up to the pivot in front; behind them the others, if a table has
        their places."""
        w, lanes, ssa = self.w, self.lanes, value.ssa
        if _groups(lanes, self.type, self.target) == "compress":
            symbol = f"llvm.x86.avx512.mask.compress.v{lanes}{self.type}"
            zeros = ssa._replace(name="zeroinitializer", depth=0)
            given = (ssa, zeros, below.ssa)
            return Value(self.e, w.call(symbol, *given, type=self.type, lanes=lanes))
        number = w.convert("zext", bits.ssa, "i64")
        entry = w.offset(writer.Value(self.table, "ptr"), "[8 x i8]", number, 0)
        places = w.pure(f"load <8 x i8>, {entry}", "i8", 8, entry.depth)
        wide = lanes == 8 and self.type == "i64"
        order = w.convert("zext", places, "i64" if wide else "i32")
        if wide:
            moved = w.call("llvm.x86.avx512.permvar.di.512", ssa, order, type="i64", lanes=8)
            return Value(self.e, moved)
        words = w.pure(f"bitcast {ssa} to <8 x i32>", "i32", 8, ssa.depth)
        moved = w.call("llvm.x86.avx2.permd", words, order, type="i32", lanes=8)
        back = w.pure(f"bitcast {moved} to {ssa.full_type}", self.type, lanes, moved.depth)
        return Value(self.e, back)

    def compress_store(self, value: Value, index: Value, chosen: Value) -> None:
        """Stores the chosen lanes, and nothing behind them."""
        symbol = f"llvm.masked.compressstore.v{self.lanes}{self.type}"
        self.w.effect(symbol, value.ssa, self.at(self.place, index), chosen.ssa)
        self.place.version += 1


class _Quicksort(SortingFunction):
    """``(ptr, i64 count, i64 limit)``, which calls itself, with a limit of bad pivots; and the
    function that calls it."""

    def __init__(
        self, name: str, dtype: DType, lanes: int, target: Target, least: writer.Value
    ) -> None:
        super().__init__(f"{name}.rec", dtype, 1, target, ", i64 %limit")
        self.name, self.vector, self.least = name, lanes, Value(self.e, least)
        self.sample = self.memory_at(self.w.alloca(self.type, 4 * lanes), dtype)

    def write(self, rows: list[int], long: int) -> str:
        w, e, name, wide = self.w, self.e, self.name, self.vector
        here, limit = self.place.base, Value(e, writer.Value("%limit", "i64"))

        def split(n: Value, pivot: Value) -> Value:
            def call(unrolled: int) -> Value:
                return self.called("i64", f"part{unrolled}", self.place.base, n.ssa, pivot.ssa)

            few = n.below(long)
            many = ~few
            (large,) = w.where(many.ssa, lambda: [call(UNROLLED).ssa], [w.int(0)])
            (small,) = w.where(few.ssa, lambda: [call(1).ssa], [large])
            return Value(e, small)

        def divided(state: list[Value]) -> list[Value]:
            start, n, left = state
            self.place.base, self.place.version = start.ssa, self.place.version + 1
            (large,) = w.where(
                (~n.below(1024)).ssa, lambda: [self.median(n, 4).ssa], [self.median(n, 1).ssa]
            )
            spent = left.equals(0)
            (pivot,) = w.where(spent.ssa, lambda: [self.middle(n).ssa], [large])
            pivot = Value(e, pivot)
            k = split(n, pivot)
            left = left - e.cast("zext", ~spent, "i64")
            # The shorter part is sorted, and there is nothing of it if all are up to the pivot.
            others, behind = n - k, Value(e, self.at(self.place, k))
            front = k.below(others)
            first, length = e.select(front, start, behind), e.select(front, k, others)
            self.called("void", "rec", first.ssa, length.ssa, left.ssa)
            rest, count = e.select(front, behind, start), e.select(front, others, k)

            def less() -> list[writer.Value]:
                zero = [w.int(0)]
                some = pivot.differs(self.least)
                return w.where(some.ssa, lambda: [split(n, pivot - 1).ssa], zero)

            (count,) = w.where(k.equals(n).ssa, less, [count.ssa])
            return [rest, Value(e, count), left]

        most = rows[-1] * wide
        start, n, _ = e.repeat(
            [Value(e, here), self.n, limit], lambda s: ~s[1].below(most + 1), divided
        )

        def call(rows: int) -> None:
            self.called("void", str(rows), start.ssa, n.ssa)

        def network(first: int, *others: int) -> None:
            if not others:
                call(first)
                return
            fits = n.below(first * wide + 1).ssa
            w.branch(fits, lambda: call(first), lambda: network(*others))

        network(*rows)
        text = w.text(linkage="internal ")
        outer = SortingFunction(name, self.dtype, 1, e.target)
        zeros = outer.w.call(
            "llvm.ctlz.i64", outer.n.ssa, writer.Value("false", "i1"), type="i64", lanes=1
        )
        limit = (64 - Value(outer.e, zeros)) << 1
        outer.w.line(f"call void @{name}.rec(ptr %p, i64 %n, {limit.ssa})")
        w.calls |= outer.w.calls
        return text + outer.w.text(linkage="internal ")

    def called(self, type: str, function: str, *args: writer.Value) -> Value:
        """The result of a call of one of the functions."""
        result = self.w.fresh() if type != "void" else ""
        call = f"call {type} @{self.name}.{function}({', '.join(map(str, args))})"
        self.w.line(f"{result} = {call}" if result else call)
        return Value(self.e, writer.Value(result, type, 1, self.w.depth))

    def median(self, n: Value, rows: int) -> Value:
        """The median of a sample of so many vectors."""
        count = rows * self.vector
        step = n.apply("udiv", count)

        def copied(state: list[Value]) -> list[Value]:
            self.store(self.load(self.place, state[0] * step), self.sample, state[0])
            return [state[0] + 1]

        self.e.repeat([self.e.constant(0)], lambda s: s[0].below(count), copied)
        self.called("void", str(rows), self.sample.base, self.e.constant(count).ssa)
        self.sample.version += 1
        return self.load(self.sample, count // 2)

    def middle(self, n: Value) -> Value:
        """The number between the least and the greatest element."""
        first = self.load(self.place, 0)

        def extremes(state: list[Value]) -> list[Value]:
            low, high, at = state
            x = self.load(self.place, at)
            e, sign = self.e, self.sign
            return [e.intrinsic(f"{sign}min", low, x), e.intrinsic(f"{sign}max", high, x), at + 1]

        start = [first, first, self.e.constant(1)]
        low, high, _ = self.e.repeat(start, lambda s: s[2].below(n), extremes)
        return low + (high - low).logical_shift_right(1)


def _groups(lanes: int, type: str, target: Target) -> str:
    """Returns what puts lanes in two groups: a "table" of permutations of at most eight lanes,
    "compress"; "" if nothing does."""
    if type not in ("i32", "i64") or target.vector_bytes < 32:
        return ""
    return "table" if lanes <= 8 else "compress"


class _Sorting:
    """Writes the functions; ``lanes`` are those of networks, ``wide`` those of partitions."""

    def __init__(self, dtype: DType, target: Target) -> None:
        self.dtype, self.target = dtype, target
        self.scalar, self.sign = dtype.llvm, "s" if dtype.is_signed else "u"
        low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
        self.least, self.greatest = low, low + (1 << dtype.bits) - 1
        self.name = sort_symbol(dtype)
        self.lanes = target.vector_bytes // dtype.bytes
        self.groups = _groups(self.lanes, self.scalar, target)
        self.wide = self.lanes if self.groups else 1
        self.rows = [rows for rows in ROWS if 2 * rows <= target.vector_registers]

    def text(self) -> tuple[list[str], str]:
        declared: set[str] = set()
        parts = [self.table()] if self.groups == "table" else []
        for rows in self.rows:
            network = SortingNetwork(f"{self.name}.{rows}", self.dtype, self.lanes, self.target)
            parts.append(network.write(rows, self.greatest))
            declared |= network.w.calls
        for unrolled in (1, UNROLLED):
            given = (self.name, self.dtype, self.wide, self.target, unrolled)
            partition = _Partition(*given)
            parts.append(partition.write())
            declared |= partition.w.calls
        least = writer.Value(str(self.least), self.scalar)
        quicksort = _Quicksort(self.name, self.dtype, self.lanes, self.target, least)
        parts.append(quicksort.write(self.rows, LONG * max(self.lanes, self.wide)))
        declared |= quicksort.w.calls
        return sorted(declared), "\n".join([*parts, ""])

    def table(self) -> str:
        """The orders of the eighths of a vector that put the lanes of each mask's bits in front."""
        lanes = self.wide
        words = 8 // lanes
        rows: list[str] = []
        for mask in range(1 << lanes):
            order = sorted(range(lanes), key=lambda lane: not mask >> lane & 1)
            places = [lane * words + word for lane in order for word in range(words)]
            rows.append(f"[8 x i8] [{', '.join(f'i8 {p}' for p in places)}]")
        size = f"[{1 << lanes} x [8 x i8]]"
        return f"@{self.name}.table = internal constant {size} [{', '.join(rows)}], align 64"

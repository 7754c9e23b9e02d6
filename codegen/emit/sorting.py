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
from ..target import Target
from .sorting_network import SortingNetwork

UNROLLED = 4
"""Vectors that the partition of a long piece reads at a time."""
LONG = 12
"""Vectors of a piece from which it is long."""


def sort_text(dtype: DType, target: Target) -> tuple[list[str], str]:
    """Returns the declarations, and the text of the function that sorts integers of a dtype with
    those that it calls."""
    return _Sorting(dtype, target).text()


class _Sorting(SortingNetwork):
    """Writes the functions; ``lanes`` are those of networks, ``wide`` those of partitions."""

    def text(self) -> tuple[list[str], str]:
        parts = [self.network(rows) for rows in self.rows]
        parts += [self.partition(1), self.partition(UNROLLED), self.sort()]
        table = [self.table()] if self.groups() == "table" else []
        return [*self.declared], "\n".join([*table, *parts, ""])

    # -- instructions ----------------------------------------------------------------------------

    # -- networks --------------------------------------------------------------------------------

    # -- partitions ------------------------------------------------------------------------------

    def partition(self, unrolled: int) -> str:
        """``(ptr, i64 count, pivot)``: puts the elements up to the pivot in front, and returns
        their number. There are three blocks of ``unrolled`` vectors or more."""
        lanes, scalar = self.wide, self.scalar
        block = lanes * unrolled
        kind = self.kind
        lines = self.lines
        rest = self.put(f"and i64 %n, {block - 1}")
        whole = self.put(f"sub i64 %n, {rest}")
        # The elements behind whole blocks wait in memory, two blocks in registers.
        beside = self.put(f"alloca [{block + lanes} x {scalar}], align 64")
        tail = self.at("%p", self.put(f"sub i64 %n, {block}"))
        for n in range(unrolled):
            self.store(self.load(tail, n), self.at(beside, n * lanes))
        first = [self.load("%p", n) for n in range(unrolled)]
        end = self.put(f"sub i64 {whole}, {block}")
        last_at = self.at("%p", end)
        last = [self.load(last_at, n) for n in range(unrolled)]
        pivot = self.splat("%pivot", scalar, lanes)
        current = [f"%current{n}" for n in range(unrolled)]
        lines += [
            "  br label %head",
            "head:",
            *(
                f"  %current{n} = phi {kind} [ {first[n]}, %entry ], [ %following{n}, %step ]"
                for n in range(unrolled)
            ),
            "  %low = phi i64 [ 0, %entry ], [ %low.next, %step ]",
            "  %high = phi i64 [ %n, %entry ], [ %high.next, %step ]",
            f"  %begin = phi i64 [ {block}, %entry ], [ %begin.next, %step ]",
            f"  %end = phi i64 [ {end}, %entry ], [ %end.next, %step ]",
            "  %more = icmp ult i64 %begin, %end",
            "  br i1 %more, label %step, label %tail",
            "step:",
            "  %room = sub i64 %begin, %low",
            "  %other = sub i64 %high, %end",
            "  %difference = sub i64 %other, %room",
            "  %right = ashr i64 %difference, 63",  # all ones if there is less room there
            f"  %moved = and i64 %right, {block}",
            "  %end.next = sub i64 %end, %moved",
            f"  %begin.more = add i64 %begin, {block}",
            "  %begin.next = sub i64 %begin.more, %moved",
            "  %apart = sub i64 %end.next, %begin",
            "  %chosen = and i64 %apart, %right",
            "  %from = add i64 %begin, %chosen",
        ]
        source = self.at("%p", "%from")
        # The next vectors are on their way while these, whose number decides the way, are stored.
        following = [self.load(source, n) for n in range(unrolled)]
        low, high = self.spread(current, pivot, "%low", "%high")
        lines += [
            f"  %low.next = add i64 {low}, 0",
            f"  %high.next = add i64 {high}, 0",
            "  br label %head",
            "tail:",
            f"  %t.begin = sub i64 {block}, {rest}",
            f"  %partial = and i64 {rest}, {lanes - 1}",
            "  %t.end = add i64 %t.begin, %partial",
        ]
        if self.target.has_masks and lanes > 1:
            low, high = self.partial(beside, pivot)
            lines.append("  br label %whole")
            before, low_before, high_before = "tail", low, high
        else:
            self.one_by_one(beside)
            before, low_before, high_before = "one", "%t.low", "%t.high"
        lines += [
            "whole:",
            f"  %w = phi i64 [ %t.end, %{before} ], [ %w.next, %vector ]",
            f"  %w.low = phi i64 [ {low_before}, %{before} ], [ %w.low.next, %vector ]",
            f"  %w.high = phi i64 [ {high_before}, %{before} ], [ %w.high.next, %vector ]",
            f"  %w.more = icmp ult i64 %w, {block}",
            "  br i1 %w.more, label %vector, label %ending",
            "vector:",
        ]
        waiting = self.load(self.at(beside, "%w"), 0)
        low, high = self.spread([waiting], pivot, "%w.low", "%w.high")
        lines += [
            f"  %w.low.next = add i64 {low}, 0",
            f"  %w.high.next = add i64 {high}, 0",
            f"  %w.next = add i64 %w, {lanes}",
            "  br label %whole",
            "ending:",
        ]
        low, _ = self.spread([*current, *last], pivot, "%w.low", "%w.high")
        lines.append(f"  ret i64 {low}")
        lines.insert(0, "entry:")
        text = self.finish(
            f"define internal i64 @{self.name}.part{unrolled}"
            f"(ptr %p, i64 %n, {scalar} %pivot) nounwind {{"
        )
        for n, name in enumerate(following):
            text = text.replace(f"%following{n},", f"{name},")
        return text

    def partial(self, beside: str, pivot: str) -> tuple[str, str]:
        """Stores the first ``%partial`` lanes at ``%t.begin``, exactly."""
        lanes, flags = self.wide, f"<{self.wide} x i1>"
        value = self.load(self.at(beside, "%t.begin"), 0)
        below = self.put(f"icmp {self.sign}le {self.vector} {value}, {pivot}")
        number = self.splat(self.put("trunc i64 %partial to i32"), "i32", lanes)
        places = ", ".join(f"i32 {n}" for n in range(lanes))
        valid = self.put(f"icmp ult <{lanes} x i32> <{places}>, {number}")
        front = self.put(f"and {flags} {below}, {valid}")
        back = self.put(f"xor {flags} {front}, {valid}")
        mask = self.put(f"bitcast {flags} {front} to i{lanes}")
        some = self.call(f"i{lanes}", f"llvm.ctpop.i{lanes}", f"i{lanes} {mask}")
        count = self.put(f"zext i{lanes} {some} to i64")
        others = self.put(f"sub i64 %partial, {count}")
        high = self.put(f"sub i64 %high, {others}")
        self.compress_store(value, self.at("%p", "%low"), front)
        self.compress_store(value, self.at("%p", high), back)
        return self.put(f"add i64 %low, {count}"), high

    def one_by_one(self, beside: str) -> None:
        """Stores the elements from ``%t.begin`` to ``%t.end``, each at both ends."""
        scalar, lines = self.scalar, self.lines
        lines += [
            "  br label %one",
            "one:",
            "  %t = phi i64 [ %t.begin, %tail ], [ %t.next, %put ]",
            "  %t.low = phi i64 [ %low, %tail ], [ %t.low.next, %put ]",
            "  %t.high = phi i64 [ %high, %tail ], [ %t.high.next, %put ]",
            "  %t.more = icmp ult i64 %t, %t.end",
            "  br i1 %t.more, label %put, label %whole",
            "put:",
        ]
        value = self.put(f"load {scalar}, ptr {self.at(beside, '%t')}")
        lines += [
            f"  store {scalar} {value}, ptr {self.at('%p', '%t.low')}",
            "  %t.high.less = sub i64 %t.high, 1",
        ]
        lines += [
            f"  store {scalar} {value}, ptr {self.at('%p', '%t.high.less')}",
            f"  %t.below = icmp {self.sign}le {scalar} {value}, %pivot",
            "  %t.one = zext i1 %t.below to i64",
            "  %t.low.next = add i64 %t.low, %t.one",
            "  %t.high.next = add i64 %t.high.less, %t.one",
            "  %t.next = add i64 %t, 1",
            "  br label %one",
        ]

    def spread(self, values: list[str], pivot: str, low: str, high: str) -> tuple[str, str]:
        """Stores vectors at both ends of the free memory, and returns where it then begins and
        ends."""
        lanes = self.wide
        for value in values:
            mask = ""
            below = self.put(f"icmp {self.sign}le {self.kind} {value}, {pivot}")
            if lanes == 1:
                count = self.put(f"zext i1 {below} to i64")
                front = value
            else:
                mask = self.put(f"bitcast <{lanes} x i1> {below} to i{lanes}")
                some = self.call(f"i{lanes}", f"llvm.ctpop.i{lanes}", f"i{lanes} {mask}")
                count = self.put(f"zext i{lanes} {some} to i64")
                front = self.grouped(value, below, mask)
            self.store(front, self.at("%p", low))
            high = self.put(f"sub i64 {high}, {lanes}")
            if self.groups() == "compress":
                above = self.put(
                    f"bitcast i{lanes} {self.put(f'xor i{lanes} {mask}, -1')} to <{lanes} x i1>"
                )
                high = self.put(f"add i64 {high}, {count}")
                self.compress_store(value, self.at("%p", high), above)
            else:
                self.store(front, self.at("%p", high))
                high = self.put(f"add i64 {high}, {count}")
            low = self.put(f"add i64 {low}, {count}")
        return low, high

    def grouped(self, value: str, below: str, mask: str) -> str:
        """The vector with lanes up to the pivot in front; behind them the others, if a table has
        their places."""
        lanes, vector = self.wide, self.vector
        if self.groups() == "compress":
            return self.call(
                vector,
                f"llvm.x86.avx512.mask.compress.v{lanes}{self.scalar}",
                f"{vector} {value}",
                f"{vector} zeroinitializer",
                f"<{lanes} x i1> {below}",
            )
        number = self.put(f"zext i{lanes} {mask} to i64")
        entry = self.put(f"getelementptr [8 x i8], ptr @{self.name}.table, i64 {number}")
        places = self.put(f"load <8 x i8>, ptr {entry}")
        if lanes * self.bits == 512:
            order = self.put(f"zext <8 x i8> {places} to {vector}")
            name = "llvm.x86.avx512.permvar.di.512"
            return self.call(vector, name, f"{vector} {value}", f"{vector} {order}")
        words = "<8 x i32>"
        order = self.put(f"zext <8 x i8> {places} to {words}")
        given = self.put(f"bitcast {vector} {value} to {words}")
        moved = self.call(words, "llvm.x86.avx2.permd", f"{words} {given}", f"{words} {order}")
        return self.put(f"bitcast {words} {moved} to {vector}")

    def compress_store(self, value: str, place: str, chosen: str) -> None:
        """Stores the chosen lanes, and nothing behind them."""
        name = f"llvm.masked.compressstore.v{self.wide}{self.scalar}"
        arguments = (f"{self.vector} {value}", f"ptr {place}", f"<{self.wide} x i1> {chosen}")
        self.declare("void", name, arguments)
        self.lines.append(f"  call void @{name}({', '.join(arguments)})")

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

    # -- the sort --------------------------------------------------------------------------------

    def sort(self) -> str:
        """The function of the module, and the recursive one, which has a limit of bad pivots."""
        name, scalar, lanes = self.name, self.scalar, self.lanes
        least = f"llvm.{self.sign}min.{scalar}"
        greatest = f"llvm.{self.sign}max.{scalar}"
        for function in (least, greatest):
            self.declared[f"declare {scalar} @{function}({scalar}, {scalar})"] = None
        self.declared["declare i64 @llvm.ctlz.i64(i64, i1)"] = None
        long = LONG * max(lanes, self.wide)
        bases = "\n".join(
            f"""  %fits{rows} = icmp ule i64 %n, {rows * lanes}
  br i1 %fits{rows}, label %sort{rows}, label %over{rows}
sort{rows}:
  call void @{name}.{rows}(ptr %p, i64 %n)
  ret void
over{rows}:"""
            for rows in self.rows
        )
        samples = {rows: rows * lanes for rows in (1, 4)}
        sampling = "\n".join(
            f"""sample{rows}:
  %s{rows}.step = udiv i64 %n, {count}
  br label %s{rows}.head
s{rows}.head:
  %s{rows}.i = phi i64 [ 0, %sample{rows} ], [ %s{rows}.next, %s{rows}.head ]
  %s{rows}.at = mul i64 %s{rows}.i, %s{rows}.step
  %s{rows}.p = getelementptr {scalar}, ptr %p, i64 %s{rows}.at
  %s{rows}.x = load {scalar}, ptr %s{rows}.p
  %s{rows}.q = getelementptr {scalar}, ptr %sample, i64 %s{rows}.i
  store {scalar} %s{rows}.x, ptr %s{rows}.q
  %s{rows}.next = add i64 %s{rows}.i, 1
  %s{rows}.more = icmp ult i64 %s{rows}.next, {count}
  br i1 %s{rows}.more, label %s{rows}.head, label %s{rows}.done
s{rows}.done:
  call void @{name}.{rows}(ptr %sample, i64 {count})
  %s{rows}.m = getelementptr {scalar}, ptr %sample, i64 {count // 2}
  %s{rows}.pivot = load {scalar}, ptr %s{rows}.m
  br label %chosen"""
            for rows, count in samples.items()
        )
        return f"""define internal i64 @{name}.split(ptr %p, i64 %n, {scalar} %pivot) nounwind {{
  %long = icmp uge i64 %n, {long}
  br i1 %long, label %many, label %few
many:
  %m = call i64 @{name}.part{UNROLLED}(ptr %p, i64 %n, {scalar} %pivot)
  ret i64 %m
few:
  %f = call i64 @{name}.part1(ptr %p, i64 %n, {scalar} %pivot)
  ret i64 %f
}}
define internal void @{name}.rec(ptr %start, i64 %length, i64 %limit) nounwind {{
entry:
  %sample = alloca [{samples[4]} x {scalar}], align 64
  br label %head
head:
  %p = phi ptr [ %start, %entry ], [ %p.next, %again ], [ %p, %equal ]
  %n = phi i64 [ %length, %entry ], [ %n.next, %again ], [ %less, %equal ]
  %left = phi i64 [ %limit, %entry ], [ %left.next, %again ], [ %left.next, %equal ]
{bases}
  %spent = icmp eq i64 %left, 0
  br i1 %spent, label %range, label %sampled
sampled:
  %large = icmp uge i64 %n, 1024
  br i1 %large, label %sample4, label %sample1
{sampling}
range:
  %first = load {scalar}, ptr %p
  br label %range.head
range.head:
  %r.i = phi i64 [ 1, %range ], [ %r.next, %range.head ]
  %r.low = phi {scalar} [ %first, %range ], [ %r.low.next, %range.head ]
  %r.high = phi {scalar} [ %first, %range ], [ %r.high.next, %range.head ]
  %r.p = getelementptr {scalar}, ptr %p, i64 %r.i
  %r.x = load {scalar}, ptr %r.p
  %r.low.next = call {scalar} @{least}({scalar} %r.low, {scalar} %r.x)
  %r.high.next = call {scalar} @{greatest}({scalar} %r.high, {scalar} %r.x)
  %r.next = add i64 %r.i, 1
  %r.more = icmp ult i64 %r.next, %n
  br i1 %r.more, label %range.head, label %range.done
range.done:
  %r.span = sub {scalar} %r.high.next, %r.low.next
  %r.half = lshr {scalar} %r.span, 1
  %r.pivot = add {scalar} %r.low.next, %r.half
  br label %chosen
chosen:
  %pivot = phi {scalar} [ %s1.pivot, %s1.done ], [ %s4.pivot, %s4.done ], [ %r.pivot, %range.done ]
  %k = call i64 @{name}.split(ptr %p, i64 %n, {scalar} %pivot)
  %left.some = icmp ne i64 %left, 0
  %left.one = zext i1 %left.some to i64
  %left.next = sub i64 %left, %left.one
  %none = icmp eq i64 %k, %n
  br i1 %none, label %greatest, label %two
greatest:
  %lowest = icmp eq {scalar} %pivot, {self.least}
  br i1 %lowest, label %done, label %equal
equal:
  %before = sub {scalar} %pivot, 1
  %less = call i64 @{name}.split(ptr %p, i64 %n, {scalar} %before)
  br label %head
two:
  %behind = getelementptr {scalar}, ptr %p, i64 %k
  %others = sub i64 %n, %k
  %front = icmp ult i64 %k, %others
  br i1 %front, label %front.first, label %back.first
front.first:
  call void @{name}.rec(ptr %p, i64 %k, i64 %left.next)
  br label %again
back.first:
  call void @{name}.rec(ptr %behind, i64 %others, i64 %left.next)
  br label %again
again:
  %p.next = phi ptr [ %behind, %front.first ], [ %p, %back.first ]
  %n.next = phi i64 [ %others, %front.first ], [ %k, %back.first ]
  br label %head
done:
  ret void
}}
define internal void @{name}(ptr %p, i64 %n) nounwind {{
  %zeros = call i64 @llvm.ctlz.i64(i64 %n, i1 false)
  %log = sub i64 64, %zeros
  %limit = shl i64 %log, 1
  call void @{name}.rec(ptr %p, i64 %n, i64 %limit)
  ret void
}}"""

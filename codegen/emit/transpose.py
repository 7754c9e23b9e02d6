"""Transposing blocks of vectors in registers, and of elements in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ...ir.dtype import LLVM_TYPES, DType
from ...ir.loop.prim import Buffer
from ..llvm.text import overload
from ..llvm.writer import FunctionWriter, Value
from ..target import Target
from .memory import Memory, Place

ZIPPED_BYTES = 16  # of a vector whose halves can be zipped with another's by one instruction


@cache
def transposing_function(
    target: Target, dtype: DType, lanes: int, rows: int, columns: int
) -> tuple[str, str, frozenset[str]]:
    """Returns the symbol, the text and the declarations of a function that copies ``rows`` rows of
    ``columns`` elements, neither more than ``lanes``, to ``columns`` rows of ``rows`` elements.

    Its parameters are the addresses of the first rows, each followed by the bytes between rows.
    """
    symbol = f"lw_transpose.{overload(dtype.llvm, lanes)}.{rows}.{columns}"
    params = "ptr %from, i64 %stride, ptr %to, i64 %pitch"
    w = FunctionWriter(symbol, params, attributes="noinline nounwind")
    memory, buffer = Memory(w, target), Buffer("block", (rows, columns), dtype)
    source, copy = Value("%from", "ptr"), Value("%to", "ptr")
    place = Place(buffer, source, False)
    read = _apart(w, source, Value("%stride", "i64"), rows)
    block = transpose(w, [memory.load(place, at, lanes, columns) for at in read])
    place = Place(buffer, copy, True)
    written = _apart(w, copy, Value("%pitch", "i64"), columns)
    for at, column in zip(written, block):
        memory.store(place, at, column, rows)
    return symbol, w.text(linkage="internal "), frozenset(w.calls)


def _apart(w: FunctionWriter, base: Value, step: Value, count: int) -> list[Value]:
    """Addresses ``step`` bytes apart; x86 has address modes for three of four."""
    places: list[Value] = []
    for n in range(count):
        if n % 4 == 0:
            base = w.offset(base, "i32", step, 0) if n else base
        index = w.scale(step, 3) if n % 4 == 3 else step
        places.append(w.offset(base, "i16" if n % 4 == 2 else "i8", index, 0) if n % 4 else base)
    return places


def transpose(w: FunctionWriter, rows: Sequence[Value]) -> list[Value]:
    """The columns of vectors of equally many lanes, in ``n log n`` shuffles.

    As many columns as there are lanes, each of ``n`` lanes, where ``n`` is the number of rows
    filled up to a power of two (with rows of no meaning); there may be no more rows than lanes.

    Halves are exchanged across the diagonal at every distance from ``n / 2`` down to 1, as in
    J. O. Eklundh, "A fast computer method for matrix transposing", IEEE Trans. Comput. C-21, 1972.
    Fewer rows than lanes are contiguous square blocks, taken apart at the end. A square of words
    is zipped within each 16 bytes, which are then dealt to the columns: no shuffle needs a table of
    its lanes. Small elements are zipped in blocks of 16 bytes a row.
    """
    lanes = rows[0].lanes
    count = 1 << (len(rows) - 1).bit_length()
    block = [*rows, *[Value("poison", rows[0].type, lanes)] * (count - len(rows))]
    width = LLVM_TYPES[rows[0].type].bits // 8 or ZIPPED_BYTES  # bytes; bits are not zipped
    zipped = ZIPPED_BYTES // width
    if width < 4 and count % zipped == 0 and lanes % zipped == 0:
        return _in_small_blocks(w, block, zipped)
    if 4 <= width < ZIPPED_BYTES and count == lanes and lanes % zipped == 0:
        return _square_of_words(w, block, zipped)
    distance = count // 2
    while distance:
        # Lane k of a pair (a, b): the first half of each run of 2 * distance lanes, or the second.
        first = [k % (2 * distance) < distance for k in range(lanes)]
        low = tuple(k if first[k] else lanes + k - distance for k in range(lanes))
        high = tuple(k + distance if first[k] else lanes + k for k in range(lanes))
        for i in range(count):
            if i % (2 * distance) < distance:
                a, b = block[i], block[i + distance]
                block[i], block[i + distance] = w.shuffle(a, b, low), w.shuffle(a, b, high)
        distance //= 2
    if count == lanes:
        return block
    return [
        w.shuffle(block[c % count], block[c % count], _run(c // count * count, count))
        if count > 1
        else w.extract(block[0], c)
        for c in range(lanes)
    ]


def _in_small_blocks(w: FunctionWriter, rows: list[Value], small: int) -> list[Value]:
    """The columns by blocks of ``small`` x ``small`` elements."""
    columns: list[Value] = []
    for left in range(0, rows[0].lanes, small):
        parts = [_part(w, row, left, small) for row in rows]
        blocks = [_zipped(w, parts[top : top + small]) for top in range(0, len(rows), small)]
        columns += [_joined(w, pieces) for pieces in zip(*blocks, strict=True)]
    return columns


def _zipped(w: FunctionWriter, rows: list[Value]) -> list[Value]:
    """Transposes square blocks with rows of 16 bytes, which are contiguous in the vectors.

    Each step zips rows half a block apart, their lower and their upper halves: each is a single
    x86 instruction (``unpack``); exchanging runs of one or two bytes would take two or three.
    """
    lanes, half = rows[0].lanes, len(rows) // 2
    starts = range(0, lanes, len(rows))
    low = tuple(k for s in starts for lane in range(s, s + half) for k in (lane, lanes + lane))
    high = tuple(k + half for k in low)
    for _ in range(half.bit_length()):
        pairs = zip(rows[:half], rows[half:], strict=True)
        rows = [_mixed(w, a, b, lanes) for a, b in pairs for lanes in (low, high)]
    return rows


def _mixed(w: FunctionWriter, a: Value, b: Value, lanes: tuple[int, ...]) -> Value:
    """Emits a shuffle whose result is shuffled again.

    Values other than constants are fenced: LLVM would look for a shorter chain of shuffles, which
    takes three quarters of a transpose's compile time and finds none.
    """
    mixed = w.shuffle(a, b, lanes)
    constant = not (a.name.startswith("%") and b.name.startswith("%"))
    return mixed if constant else w.fence(mixed)


def _square_of_words(w: FunctionWriter, rows: list[Value], words: int) -> list[Value]:
    """The columns of a square of which 16 bytes are ``words`` elements."""
    zipped = [_zipped(w, rows[top : top + words]) for top in range(0, len(rows), words)]
    dealt = [_dealt(w, list(alike), words) for alike in zip(*zipped, strict=True)]
    return [column for columns in zip(*dealt, strict=True) for column in columns]


def _dealt(w: FunctionWriter, parts: list[Value], words: int) -> list[Value]:
    """Returns the first blocks of ``words`` of all parts as one vector, their second blocks as the
    next, and so on; each vector has as many blocks as there are parts."""
    if len(parts) == 1:
        return parts
    starts = range(0, 2 * parts[0].lanes, words)
    halves: list[list[Value]] = []
    for first in (0, 1):
        picked = tuple(k for start in starts[first::2] for k in range(start, start + words))
        joined = [_mixed(w, a, b, picked) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        halves.append(_dealt(w, joined, words))
    return [block for pair in zip(*halves, strict=True) for block in pair]


def _part(w: FunctionWriter, row: Value, start: int, count: int) -> Value:
    return row if row.lanes == count else w.shuffle(row, row, _run(start, count))


def _joined(w: FunctionWriter, pieces: Sequence[Value]) -> Value:
    """Vectors of equally many lanes, a power of two of them, one after the other."""
    while len(pieces) > 1:
        both = _run(0, 2 * pieces[0].lanes)
        pieces = [w.shuffle(a, b, both) for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
    return pieces[0]


def _run(start: int, count: int) -> tuple[int, ...]:
    return tuple(range(start, start + count))

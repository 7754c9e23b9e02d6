"""Bytes that the lanes of a vector look up in a table of 256, which registers hold."""

from __future__ import annotations

from ..llvm.writer import FunctionWriter, Value
from ..target import Target
from .registers import Registers, widened

ROW = 16
"""Bytes of a row of a table whose row and column are the halves of an index."""


def looked_up(w: FunctionWriter, target: Target, held: Registers, index: Value) -> Value:
    """Returns the bytes of a table at the indices of the lanes, which are uint8.

    Halves of 128 bytes are permuted whole, and an index's highest bit chooses between them. Rows of
    16 are permuted one by one: for each, an index becomes negative unless it is one of the row, and
    the row has 0 there.
    """
    permute = target.permute
    assert permute is not None
    lanes, width = index.lanes, held.lanes
    index = w.splat(index, width) if lanes == 1 else widened(w, index, width)
    table = [held.values[n] for n in range(held.vectors)]

    def call(*args: Value) -> Value:
        return w.call(permute.function, *args, type="i8", lanes=width)

    if permute.reach > ROW:
        low, high = (call(table[n], index, table[n + 1]) for n in (0, 2))
        whole = w.select(w.op("icmp slt", index, _bytes(0, width), type="i1"), high, low)
    else:
        whole = _bytes(0, width)
        for start in range(0, held.width, ROW):
            row = table[start // width]
            row = w.shuffle(row, row, tuple(start % width + n % ROW for n in range(width)))
            column = w.intrinsic(
                "uadd.sat", w.op("xor", index, _bytes(start, width)), _bytes(112, width)
            )
            whole = w.op("or", whole, call(row, column))
    if lanes == 1:
        return w.extract(whole, 0)
    return w.shuffle(whole, whole, tuple(range(lanes))) if lanes < width else whole


def _bytes(value: int, lanes: int) -> Value:
    return Value(f"<{', '.join([f'i8 {value}'] * lanes)}>", "i8", lanes)

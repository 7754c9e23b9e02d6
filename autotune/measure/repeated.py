"""An array of any size out of few values, and a packed operand, read as what it was packed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.loop.nest import SHIFTED, Pack

__all__ = ["Repeated", "Unpacked", "padding"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The elements of ``values`` from ``begin`` on, again and again, as an array of a shape.

    It gives elements at arrays of indices, without ever being there as a whole.

    >>> Repeated(np.array([5, 6, 7]), 1, (2, 4)).array()
    array([[6, 7, 5, 6],
           [7, 5, 6, 7]])
    """

    values: Array
    begin: int
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __getitem__(self, indices: tuple[Array, ...]) -> Array:
        period = len(self.values)
        flat: Any = self.begin
        step = 1
        for i, size in zip(reversed(indices), reversed(self.shape), strict=True):
            # Each index alone, which is quick where they form an open grid.
            part = i * step
            if step * size > period:
                part = part - part // period * period  # NumPy's % takes four times as long
            flat = flat + part
            step *= size
        return np.take(self.values, flat, mode="wrap")  # subtracts the period, a few times at most

    def array(self) -> Array:
        """All of it."""
        end = self.begin + self.size
        if end <= len(self.values):
            return self.values[self.begin : end].reshape(self.shape)
        return self.values[np.arange(self.begin, end) % len(self.values)].reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Gives elements of the source of ``packed``, at arrays of indices.

    >>> from loopwright.ir.dtype import FLOAT32
    >>> from loopwright.ir.loop.prim import Buffer
    >>> w = np.arange(20, dtype=np.float32).reshape(4, 5)
    >>> pack = Pack.of(Buffer("w", (4, 5), FLOAT32), 1, 2)
    >>> np.array_equal(Unpacked(pack.array(w), pack)[tuple(np.indices((4, 5)))], w)
    True
    """

    packed: Array | Repeated
    pack: Pack

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pack.shape

    @property
    def ndim(self) -> int:
        return len(self.pack.shape)

    @property
    def size(self) -> int:
        return prod(self.pack.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype = self.pack.packed_dtype
        return (SHIFTED[dtype] if self.pack.shifted else dtype).numpy

    def __getitem__(self, indices: tuple[Array, ...]) -> Array:
        pack = self.pack
        along, size = pack.group or (-1, 1)
        others = [i // size if d == along else i for d, i in enumerate(indices) if d != pack.dim]
        place = [indices[pack.dim] // pack.tile, *others, indices[pack.dim] % pack.tile]
        if pack.group:
            place.append(indices[along] % size)
        found = self.packed[tuple(place)]
        return pack.shift_array(found) if pack.shifted else found


def padding(pack: Pack) -> Iterator[tuple[int, int, int, int]]:
    """The elements of a packed array that are none of its source, on which no result depends:
    where pieces begin, how many there are, from one to the next, and how many elements each has."""
    shape = pack.packed_shape
    size = pack.group[1] if pack.group else 1
    if pack.rest:
        panel = prod(shape[1:])
        row = pack.tile * size
        begin = (shape[0] - 1) * panel + pack.rest * size
        yield begin, panel // row, row, (pack.tile - pack.rest) * size
    if pack.group:
        along, _ = pack.group
        rest = pack.shape[along] % size
        dimension = 1 + along - (along > pack.dim)
        last = prod(shape[dimension + 1 :])  # elements with one index along the dimension
        for n in range(prod(shape[:dimension]) if rest else 0):
            begin = ((n + 1) * shape[dimension] - 1) * last
            yield begin + rest, last // size, size, size - rest

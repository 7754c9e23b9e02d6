"""An array of any size made of few values, and a packed operand read as its source."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.loop.nest import SHIFTED, Pack

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The elements of ``values`` from ``begin`` on, repeated, as an array of a shape.

    It returns elements at arrays of indices without ever existing as a whole.

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
            # Reduce each index alone, which is fast where they form an open grid.
            part = i * step
            if step * size > period:
                part = part - part // period * period  # NumPy's % takes four times as long
            flat = flat + part
            step *= size
        return np.take(self.values, flat, mode="wrap")  # subtracts the period at most a few times

    def array(self) -> Array:
        """Returns the whole array."""
        end = self.begin + self.size
        if end <= len(self.values):
            return self.values[self.begin : end].reshape(self.shape)
        return self.values[np.arange(self.begin, end) % len(self.values)].reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Returns elements of the source of ``packed``, at arrays of indices.

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
        return tuple(map(as_int, self.pack.shape))

    @property
    def ndim(self) -> int:
        return len(self.pack.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

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
        values = self.packed[tuple(place)]
        return pack.shift_array(values) if pack.shifted else values


def padding(pack: Pack) -> Iterator[tuple[int, int, int, int]]:
    """Yields the elements of a packed array that are not in its source, on which no result depends:
    begin, count, stride and width of pieces."""
    shape = pack.packed_shape
    size = pack.group[1] if pack.group else 1
    in_last = as_int(pack.rest)
    if in_last:
        panel = prod(shape[1:])
        row = pack.tile * size
        begin = (shape[0] - 1) * panel + in_last * size
        yield begin, panel // row, row, (pack.tile - in_last) * size
    if pack.group:
        along, _ = pack.group
        rest = as_int(pack.shape[along]) % size
        dimension = 1 + along - (along > pack.dim)
        last = prod(shape[dimension + 1 :])  # elements with one index along the dimension
        for n in range(prod(shape[:dimension]) if rest else 0):
            begin = ((n + 1) * shape[dimension] - 1) * last
            yield begin + rest, last // size, size, size - rest

"""A packed operand, read as what it was packed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir.loop.nest import Pack

__all__ = ["Unpacked", "clear_padding"]

Array = npt.NDArray[Any]


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

    packed: Array
    pack: Pack

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pack.shape

    @property
    def ndim(self) -> int:
        return len(self.pack.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.pack.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.packed.dtype

    def __getitem__(self, indices: tuple[Array, ...]) -> Array:
        pack = self.pack
        along, size = pack.group or (-1, 1)
        others = [i // size if d == along else i for d, i in enumerate(indices) if d != pack.dim]
        place = [indices[pack.dim] // pack.tile, *others, indices[pack.dim] % pack.tile]
        if pack.group:
            place.append(indices[along] % size)
        return self.packed[tuple(place)]


def clear_padding(packed: Array, pack: Pack) -> None:
    """Set to zero what is no element of the source, as ``Pack.array`` does."""
    behind: tuple[Any, ...] = (slice(None),) if pack.group else ()
    if pack.rest:
        packed[(-1, ..., slice(pack.rest, None), *behind)] = 0
    if pack.group:
        along, size = pack.group
        rest = pack.shape[along] % size
        if rest:
            last: list[Any] = [slice(None)] * packed.ndim
            last[1 + along - (along > pack.dim)] = -1
            last[-1] = slice(rest, None)
            packed[tuple(last)] = 0

"""Pack: the order in which a kernel reads a constant operand, prepared when it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ..dataclass import dataclass
from ..dims import IntExpr, as_int, ceildiv, mod, substitute, symbol
from ..dtype import INT8, UINT8, Array, DType, dtype_of
from .expr import Expr, cast, const, op, read, select, within
from .prim import Axis, Buffer, Stage

SHIFTED: Mapping[DType, DType] = {INT8: UINT8, UINT8: INT8}
"""The kind of bytes of each kind that are shifted by 128."""

Empty: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Array]


@dataclass(frozen=True, slots=True)
class Pack:
    """Layout of a packed operand, which ``stage`` computes from parameter ``source`` of ``shape``.

    Dimension ``dim`` is cut into panels of ``tile``; the panel is the first dimension, the position
    in it the last. ``group``, a dimension and a size, stores that many neighbours along the
    dimension contiguously at each position, for instructions that multiply short integers in
    fours. ``shifted`` bytes are stored 128 higher if they are signed and 128 lower if not, as bytes
    of the other kind.
    """

    source: str
    shape: tuple[IntExpr, ...]
    dim: int
    tile: int
    stage: Stage
    group: tuple[int, int] | None = None
    shifted: bool = False

    @staticmethod
    def of(source: Buffer, dim: int, tile: int, group: tuple[int, int] | None = None) -> Pack:
        """Packs dimension ``dim`` of ``source`` in panels of ``tile``, the last one padded with
        zeros.

        >>> from loopwright.ir.dtype import FLOAT32
        >>> print(Pack.of(Buffer("w", (4, 8), FLOAT32), 1, 2).stage.text(output=True))
        w.packed[w.packed.o, w.packed.0, w.packed.i] = w[w.packed.0, w.packed.i + 2 * w.packed.o]
        """
        shape = source.shape
        name = f"{source.name}.packed"
        along, size = group or (-1, 1)
        rest = [d for d in range(len(shape)) if d != dim]
        extents = {d: ceildiv(shape[d], size) if d == along else shape[d] for d in rest}
        axes = (
            Axis(f"{name}.o", ceildiv(shape[dim], tile)),
            *(Axis(f"{name}.{d}", extents[d]) for d in rest),
            Axis(f"{name}.i", tile),
            *((Axis(f"{name}.g", size),) if group else ()),
        )
        indices: list[IntExpr] = [symbol(f"{name}.{d}") for d in range(len(shape))]
        indices[dim] = symbol(f"{name}.o") * tile + symbol(f"{name}.i")
        covered = {dim: axes[0].extent * tile}
        if group:
            indices[along] = indices[along] * size + symbol(f"{name}.g")
            covered[along] = extents[along] * size
        value: Expr = read(source.name, indices, source.dtype)
        for d, reached in covered.items():
            if reached != shape[d]:
                inside = within(indices[d], 0, shape[d])
                value = select(inside, value, const(0, source.dtype))
        buffer = Buffer(name, tuple(a.extent for a in axes), source.dtype)
        return Pack(source.name, shape, dim, tile, Stage(buffer, axes, value), group)

    def shift(self) -> Pack:
        """The same panels of bytes, shifted by 128: the highest bit of each is flipped.

        >>> from loopwright.ir.dtype import INT8
        >>> print(Pack.of(Buffer("w", (4,), INT8), 0, 2).shift().stage.text(output=True))
        w.packed[w.packed.o, w.packed.i] = uint8(w[w.packed.i + 2 * w.packed.o]) ^ 128:uint8
        """
        buffer = self.stage.buffer
        kind = SHIFTED[buffer.dtype]
        flipped = op("bitwise_xor", cast(self.stage.expr, kind), const(_highest_bit(kind), kind))
        stage = replace(self.stage, buffer=replace(buffer, dtype=kind), expr=flipped)
        return replace(self, stage=stage, shifted=True)

    def at(self, values: Mapping[str, IntExpr]) -> Pack:
        """The layout with values for symbolic sizes."""
        shape = tuple([substitute(s, values) for s in self.shape])
        return replace(self, shape=shape, stage=self.stage.at(values))

    @property
    def strided(self) -> bool:
        """True if neighbours in a panel are not contiguous in the source."""
        return self.dim != len(self.shape) - 1

    @property
    def rest(self) -> IntExpr:
        """Number of the last panel's elements that are of the source; 0 if all are."""
        return mod(self.shape[self.dim], self.tile)

    @property
    def layout(self) -> tuple[Any, ...]:
        """Everything that determines the position of each element; the source's name does not."""
        return self.shape, self.dim, self.tile, self.group, self.shifted

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """``[panels, other dimensions..., tile]``, and the size of a group behind that."""
        return tuple(as_int(s) for s in self.stage.buffer.shape)

    @property
    def packed_dtype(self) -> DType:
        return self.stage.buffer.dtype

    def array(self, values: Array, empty: Empty = np.empty) -> Array:
        """The packed copy of an array, in memory that ``empty(shape, dtype)`` gives.

        ``values`` may have any shape with the elements of the source in their order. TypeError for
        symbolic sizes.
        """
        shape = tuple(as_int(s) for s in self.shape)
        moved = np.moveaxis(values.reshape(shape), self.dim, -1)
        packed = empty(self.packed_shape, values.dtype)
        target = packed
        if self.group is not None:
            along, count = self.group
            at = along - (along > self.dim)  # its position among the other dimensions
            moved = _grouped(moved, at, count)
            target = np.moveaxis(packed, -1, at + 2)  # beside the groups, behind the panels
        target = np.moveaxis(target, 0, -2)  # the other dimensions, panels, tile
        full, rest = divmod(shape[self.dim], self.tile)
        whole = moved[..., : full * self.tile]
        target[..., :full, :] = whole.reshape(*moved.shape[:-1], full, self.tile)
        if rest:
            target[..., full, :rest] = moved[..., full * self.tile :]
            target[..., full, rest:] = 0
        return self.shift_array(packed) if self.shifted else packed

    def shift_array(self, values: Array) -> Array:
        """An array of bytes shifted by 128 in its own memory, or shifted back."""
        bits = values.view(np.uint8)
        np.bitwise_xor(bits, 128, out=bits)
        return values.view(SHIFTED[dtype_of(values.dtype)].numpy)


def _highest_bit(kind: DType) -> int:
    """The byte of this kind of which only the highest bit is set."""
    return -128 if kind == INT8 else 128


def _grouped(values: Array, axis: int, count: int) -> Array:
    """``values`` with ``axis`` cut into groups of ``count``, the last one filled up with zeros."""
    size = values.shape[axis]
    groups = -(-size // count)
    if groups * count != size:
        widths = [(0, 0)] * values.ndim
        widths[axis] = (0, groups * count - size)
        values = np.pad(values, widths)
    return values.reshape(*values.shape[:axis], groups, count, *values.shape[axis + 1 :])

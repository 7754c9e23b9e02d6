"""The ``mirror`` rule: products of an array with itself, of which one triangle is computed.

A reduction that is symmetric in two axes (``x.T @ x``, distances between the rows of one array) is
done in square blocks of register tiles, those on and above the diagonal only; each block above it
is stored to both sides while it is in registers. The array is packed once, for rows and vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import product
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from ....codegen.target import CACHE_LINE, Target
from ....ir.dims import as_int
from ....ir.loop.symmetry import symmetric_axes
from ....ir.schedule.steps import Schedule, Step, mirror
from ...protocols import BoolArray
from ..analysis import Group
from .base import Choices, Sketch, Values, up_to
from .tile import TileSketch, tile_cost, tile_sketch
from .tile_defaults import AHEAD, tile_cycles

__all__ = ["MirrorSketch", "mirror_offers"]

IMAGE = 0.6  # cycles to transpose and store an element of a block's mirror image
FAR_IMAGE = 8.0  # the same where the result does not fit the second cache: each row is a page
BUSY = 0.5  # of the registers at least hold sums: smaller tiles wait for what they load
CLEARLY = 0.8  # of the estimate for computing everything, above which it is done
SHORT_ROW = 6 * CACHE_LINE  # bytes of a row of the array that is read as it is
LEAST_BLOCKS = 2  # along each axis: with one there is nothing on the other side
ROWS = 48  # of a register tile, or a divisor: others would make blocks large
MOST_PANELS = 8  # side by side in a block
MOST_KEPT = 128 * 1024  # bytes of a block and its image, on the stack


@dataclass(frozen=True)
class MirrorSketch(TileSketch):
    """See the module. A block is as high as it is wide: ``mid_r`` follows from the other knobs."""

    @property
    def name(self) -> str:
        return f"mirror.{self.vector_axis}"

    def settled(self, values: Values) -> dict[str, npt.NDArray[np.int64]]:
        high = values["mid_v"] * values["vectors"] * self.lanes // values["rows"]
        return {**values, "mid_r": np.maximum(1, high)}

    def share(self, values: Values) -> npt.NDArray[np.float64]:
        return np.asarray(self._share(values["mid_v"] * values["vectors"] * self.lanes))

    def _share(self, block: Any) -> Any:
        """The share of the elements in blocks of this width that are computed."""
        extent = self.extent(self.vector_axis)
        whole, rest = extent // block, extent % block
        return (1 + (whole * block**2 + rest**2) / extent**2) / 2

    def steps(self, choices: Choices) -> tuple[list[Step], list[Step]]:
        choices = self._settled(choices)
        first, then = super().steps(choices)
        outer = [*self.outer_axes, f"{self.vector_axis}.0", f"{self.row_axis}.0"]
        count = min(choices["parallel"], len(outer))
        last = outer[-1] if count < len(outer) else "*".join(outer)
        return first, [*then, mirror(self.group.main.name, last)]

    def favourites(self) -> list[Choices]:
        tables, room = self.tables, self.target.l2 * 3 // 8
        depth = self.extent(self.k_axis)
        found: list[Choices] = []
        for _, vectors, rows in self.tiles()[:4]:
            panel = vectors * self.target.vector_bytes * depth
            c = {**self.base_choices(), "vectors": vectors, "rows": rows}
            c["mid_v"] = self._panels(vectors, rows)
            c["pack"] = tables["pack"][-1] if self._packs() else 0
            c["stream"] = self.stream_choice()
            if panel > self.target.l1 // 2:
                c["prefetch"] = max(p for p in tables["prefetch"] if p <= AHEAD)
            fitting = (b for b in tables["k_blocks"] if panel <= room * b)
            c["k_blocks"] = next(fitting, tables["k_blocks"][-1])
            if self.parallel_depth(
                c
            ):  # rows of blocks are of unequal length: all blocks are shared
                c["parallel"] = min(len(self.outer_axes) + 2, tables["parallel"][-1])
            found.append(c)
        return found

    def _packs(self) -> bool:
        """Whether a copy pays: not of rows of a few lines, all of which every step reads."""
        names = {name for name, _ in self.packable}
        reads = [a for a in self.group.accesses[self.group.main.name] if a.buffer in names]
        smooth = all(a.stride(self.vector_axis or "") in (0, 1) for a in reads)
        row = self.extent(self.vector_axis) * self.group.element_bytes
        return not smooth or row > SHORT_ROW

    def tiles(self) -> list[tuple[float, int, int]]:
        """(estimated cycles, vectors, rows) of register tiles, the fastest first."""
        found: list[tuple[float, int, int]] = []
        for vectors, rows in product(self.tables["vectors"], self.tables["rows"]):
            panels = self._panels(vectors, rows)
            block = panels * vectors * self.lanes
            busy = BUSY * self.target.vector_registers <= vectors * rows
            held = vectors * rows <= self.target.vector_registers
            if busy and held and panels in self.tables["mid_v"] and self._has_blocks(block):
                share = self._share(block)
                cycles = share * tile_cycles(self, vectors, rows, 1)
                far = self.group.output_bytes > self.target.l2
                images = (1 - share) * as_int(self.group.main.buffer.size)
                images *= FAR_IMAGE if far else IMAGE
                found.append((cycles + images, vectors, rows))
        return sorted(found)

    def _panels(self, vectors: int, rows: int) -> int:
        """Tiles side by side in the smallest square block."""
        width = vectors * self.lanes
        return lcm(width, rows) // width

    def _has_blocks(self, width: Any) -> Any:
        return self.extent(self.vector_axis) >= LEAST_BLOCKS * width

    def _settled(self, choices: Choices) -> dict[str, int]:
        rows = self.settled({k: np.array([v], np.int64) for k, v in choices.items()})
        return {k: int(v[0]) for k, v in rows.items()}

    def outer_trips(self, choices: Choices) -> tuple[int, ...]:
        return super().outer_trips(self._settled(choices))

    def fits(self, values: Values) -> BoolArray:
        width = values["mid_v"] * values["vectors"] * self.lanes
        squares = (width % values["rows"] == 0) & self._has_blocks(width)
        squares &= 2 * width**2 * self.group.element_bytes <= MOST_KEPT
        return np.asarray(squares & super().fits(self.settled(values)))

    def decode(self, schedule: Schedule) -> dict[str, int] | None:
        if not any(step.name == "mirror" for step in schedule.steps):
            return None
        choices = super().decode(schedule)
        return None if choices is None else {**choices, "mid_r": 1}


def mirror_offers(group: Group, target: Target) -> list[tuple[float, Sketch]]:
    """The sketch of this rule, if the main stage is symmetric and half of it is worth computing."""
    main = group.main
    axes = symmetric_axes(main)
    outputs = group.prim.outputs
    alone = all(s is main or (s.combiner is None and s.name in outputs) for s in group.stages)
    if axes is None or not alone or not set(axes) <= set(group.shared):
        return []
    row, vector = axes
    plain = tile_sketch(group, target, vector, (row,))
    most = group.extents[vector] // (LEAST_BLOCKS * plain.lanes)
    tables: Mapping[str, tuple[int, ...]] = {
        **plain.tables,
        "vectors": up_to(most, plain.tables["vectors"]),
        "rows": tuple(n for n in plain.tables["rows"] if ROWS % n == 0),
        "mid_v": up_to(min(most, MOST_PANELS), plain.tables["mid_v"]),
        "mid_r": (1,),
        "order": (1,),
        "pack": tuple(n for n in plain.tables["pack"] if n in (0, 1)),
    }
    parts: dict[str, Any] = {f.name: getattr(plain, f.name) for f in fields(plain)}
    parts["tables"] = tables
    sketch = MirrorSketch(**parts)
    tiles = sketch.tiles()
    whole = _plain_cycles(plain)
    if not tiles or tiles[0][0] >= CLEARLY * whole:
        return []
    cost = tile_cost(group, vector, plain.lanes, tiles[0][0] / whole)
    return [(cost, sketch)]


def _plain_cycles(plain: TileSketch) -> float:
    """Estimated cycles of the best register tile where everything is computed."""
    return min(
        tile_cycles(plain, vectors, rows, 1)
        for vectors, rows in product(plain.tables["vectors"], plain.tables["rows"])
        if vectors * rows <= plain.target.vector_registers
    )

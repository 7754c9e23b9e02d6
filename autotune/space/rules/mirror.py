"""The ``mirror`` rule: products of an array with itself, of which one triangle is computed.

A reduction that is symmetric in two axes (``x.T @ x``, distances between the rows of one array) is
done in square blocks of register tiles, those on and above the diagonal only; each block above it
is stored to both sides while it is in registers. The array is packed once, for rows and vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np

from ....codegen.target import CACHE_LINE, Target
from ....ir.dataclass import dataclass
from ....ir.loop.symmetry import symmetric_axes
from ....ir.schedule.columns import among, most, when
from ....ir.schedule.steps import Schedule, Step, mirror
from ...protocols import BoolArray
from ..analysis import Group
from ..estimate import cycles_of, fastest, offers, sketch_cycles
from ..settings import MIRROR, PRODUCTS
from ..tiling import Choices, Pack, Values
from .base import non_temporal_choice, parallel_depth, up_to
from .tile import Tile, tile_of


@dataclass(frozen=True)
class Mirror(Tile):
    """See the module. A block is square: ``cache_rows`` follows from the other knobs."""

    def build(self, **choices: int) -> list[Step]:
        high = choices["cache_vectors"] * choices["vectors"] * self.lanes // choices["rows"]
        steps = super().build(**{**choices, "cache_rows": most(1, high)})
        outer = [*self.outer_axes, f"{self.vector_axis}.0", f"{self.row_axis}.0"]
        all_fused, name = choices["parallel"] >= len(outer), self.group.main.name
        steps += when(all_fused, mirror(name, "*".join(outer)))
        return [*steps, *when(among(all_fused, (0,)), mirror(name, outer[-1]))]

    @cached_property
    def defaults(self) -> list[Choices]:
        tables, room = self.knobs, int(self.target.l2 * PRODUCTS.cache_share)
        depth = self.extent(self.k_axis)
        candidates = [{**tile} for tile in self.tiles]
        for c in candidates:
            panel = c["vectors"] * self.target.vector_bytes * depth
            c["pack"] = tables["pack"][-1] if self._packs() else 0
            c["non_temporal"] = non_temporal_choice(self)
            if panel > self.target.l1 // 2:
                c["prefetch"] = max(p for p in tables["prefetch"] if p <= PRODUCTS.ahead)
            fitting = (b for b in tables["k_blocks"] if panel <= room * b)
            c["k_blocks"] = next(fitting, tables["k_blocks"][-1])
            if parallel_depth(self, c):  # rows of blocks are of unequal length: all are shared
                c["parallel"] = min(len(self.outer_axes) + 2, tables["parallel"][-1])
        return list[Choices](candidates)

    def _packs(self) -> bool:
        """True if a copy pays: not of rows of a few lines, all of which every step reads."""
        names = {name for name, _ in self.packable}
        reads = [a for a in self.group.accesses[self.group.main.name] if a.buffer in names]
        smooth = all(a.stride(self.vector_axis or "") in (0, 1) for a in reads)
        row = self.extent(self.vector_axis) * self.group.element_bytes
        return not smooth or row > MIRROR.short_row * CACHE_LINE

    @cached_property
    def tiles(self) -> list[dict[str, int]]:
        """Register tiles in the smallest blocks, the fastest first."""
        names = "vectors", "rows", "cache_vectors"
        packed = [min(self.knobs["pack"][-1], Pack.VECTORS)]
        values = offers(self, pack=packed, **{name: self.knobs[name] for name in names})
        busy = MIRROR.busy * self.target.vector_registers <= values["vectors"] * values["rows"]
        smallest = np.lcm(values["vectors"] * self.lanes, values["rows"])
        keep = busy & (self.cache_width(values) == smallest)
        return fastest(self, {name: column[keep] for name, column in values.items()}, PRODUCTS.most)

    def fits(self, values: Values) -> BoolArray:
        width = self.cache_width(values)
        squares = (width % values["rows"] == 0) & (
            self.extent(self.vector_axis) >= MIRROR.min_blocks * width
        )
        squares &= 2 * width**2 * self.group.element_bytes <= MIRROR.max_kept
        high = np.maximum(1, width // values["rows"])
        return np.asarray(squares & super().fits({**values, "cache_rows": high}))

    def read(self, schedule: Schedule) -> dict[str, int] | None:
        mirrored = any(step.name == "mirror" for step in schedule.steps)
        return super().read(schedule) if mirrored else None


def sketches(group: Group, target: Target) -> Iterator[Mirror]:
    """The sketch of this rule, if the main stage is symmetric and half of it is worth computing."""
    main = group.main
    axes = symmetric_axes(main)
    outputs = group.prim.outputs
    alone = all(s is main or (s.combiner is None and s.name in outputs) for s in group.stages)
    if axes is None or not alone or not set(axes) <= set(group.shared):
        return
    row, vector = axes
    plain = tile_of(group, target, vector, (row,))
    most = group.extents[vector] // (MIRROR.min_blocks * plain.lanes)
    if not most:  # too few elements for blocks, or none
        return
    tables: Mapping[str, tuple[int, ...]] = {
        **plain.knobs,
        "vectors": up_to(most, plain.knobs["vectors"]),
        "rows": tuple(n for n in plain.knobs["rows"] if MIRROR.rows % n == 0),
        "cache_vectors": up_to(min(most, MIRROR.max_panels), plain.knobs["cache_vectors"]),
        "cache_rows": (1,),
        "vectors_outer": (1,),
        "pack": tuple(n for n in plain.knobs["pack"] if n in (0, 1)),
    }
    parts: dict[str, Any] = {f.name: getattr(plain, f.name) for f in fields(plain)}
    parts["knobs"] = tables
    sketch = Mirror(**parts)
    packed = [min(plain.knobs["pack"][-1], Pack.VECTORS)]
    names = "vectors", "rows"
    whole = offers(plain, pack=packed, **{name: plain.knobs[name] for name in names})
    if sketch_cycles(sketch, sketch.tiles) < MIRROR.worth * cycles_of(plain, whole).min():
        yield sketch

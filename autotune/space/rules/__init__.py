"""Sketch rules: what kinds of schedule a group of stages is offered, with their integer choices.

    base            what several rules do alike
    tile            vectors along a shared axis, a register tile of rows and vectors
    tile_defaults   its choices without a measurement, by the estimate
    mirror          products of an array with itself: one triangle, stored to both sides
    window          short windows, all taps unrolled, with rows that share what they read
    pick            short axes along which the expression differs, unrolled
    dots            products of bytes, by the instructions that add them up in fours
    lanes           vectors along each stage's own innermost axis, joined at the end
    grouped         products with weights in groups, each with a scale
    chain           fused attention: contraction, softmax, contraction, block by block
    procedure       procedures: which independent loop runs on threads, which in vector lanes
    user            rules that users add with ``lw.sketch_rule``

Rules see structure, not operators. A rule is a function ``sketches(group, target)`` that yields
tilings, or sketches as users write them; another one is another file, and a name in ``RULES``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from ....codegen.target import Target
from ..analysis import Group
from ..estimate import least_cycles, sketch_cycles
from ..settings import SPACE
from ..sketch import AnySketch
from ..tiling import Tiling
from . import dots, lanes, mirror, pick, tile, window
from .chain import chain_sketches
from .grouped import grouped_sketches
from .procedure import procedure_sketch
from .user import user_sketches

__all__ = [
    "RULES",
    "SPECIAL",
    "chain_sketches",
    "grouped_sketches",
    "procedure_sketch",
    "sketches_of",
    "user_sketches",
]

RULES = (tile, lanes)
SPECIAL_RULES = (pick, dots, window, mirror)
SPECIAL = (pick.Pick, dots.Dots, window.Window, mirror.Mirror)
"""Sketches of rules that are always the best where they apply."""


def sketches_of(group: Group, target: Target) -> Iterator[AnySketch]:
    """Yields the sketches that the rules offer for a group, the most promising first: those of
    special rules, then the others, by the estimate of their default choices. Those of tiles along
    the last axis are not compared with others where hardly any could be faster."""
    for special in SPECIAL_RULES:
        yield from special.sketches(group, target)
    offers: list[Tiling] = [s for rule in RULES for s in rule.sketches(group, target)]
    if len(offers) > 1:
        tiles, size = offers[0], (group.bytes, group.element_bytes, target)
        reduced = tiles.estimated.get("", inf) if tiles.defaults else inf  # without its maps
        if reduced > SPACE.near * least_cycles(group.reductions, *size):
            others = min(sketch_cycles(other, other.defaults) for other in offers[1:])
            least = SPACE.near * least_cycles(group.stages, *size)
            if SPACE.hopeless * others < reduced < inf:
                offers.append(offers.pop(0))
            elif group.stages == group.reductions and SPACE.clearly * reduced < others:
                pass
            elif sketch_cycles(tiles, tiles.defaults) > least:
                offers.sort(key=lambda sketch: sketch_cycles(sketch, sketch.defaults))
    yield from offers

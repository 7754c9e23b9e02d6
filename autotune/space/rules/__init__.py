"""Sketch rules: what kinds of schedule a group of stages is offered, with their integer choices.

    base            what several rules do alike
    tile            vectors along a shared axis, a register tile of rows and vectors
    tile_defaults   its choices without a measurement, by the estimate
    map_defaults    the same for maps
    mirror          products of an array with itself: one triangle, stored to both sides
    window          short windows, all taps unrolled, with rows that share what they read
    pick            short axes along which the expression differs, unrolled
    dots            products of bytes, by the instructions that add them up in fours
    lanes           vectors along each stage's own innermost axis, joined at the end
    chain           fused attention: contraction, softmax, contraction, block by block
    procedure       procedures: which independent loop runs on threads, which in vector lanes
    user            rules that users add with ``lw.sketch_rule``

Rules see structure, not operators. A rule is a function ``sketches(group, target)`` that yields
``Sketch`` objects; another one is another file, and a name in ``RULES``.
"""

from __future__ import annotations

from ....codegen.target import Target
from ..analysis import Group
from ..sketch import Sketch
from . import dots, lanes, mirror, pick, tile, window
from .chain import chain_sketches
from .procedure import procedure_sketch
from .user import user_sketches

__all__ = ["RULES", "chain_sketches", "procedure_sketch", "sketches_of", "user_sketches"]

RULES = (tile, mirror, dots, lanes, window, pick)


def sketches_of(group: Group, target: Target) -> list[Sketch]:
    """The sketches that the rules offer for a group, the most promising first."""
    offers = [sketch for rule in RULES for sketch in rule.sketches(group, target)]
    return sorted(offers, key=lambda sketch: sketch.cost)

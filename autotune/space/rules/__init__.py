"""Sketch rules: what kinds of schedule a group of stages is offered, with their integer choices.

    base              what every sketch says of itself, and the knobs
    tile              vectors along a shared axis, a register tile of rows and vectors
    tile_favourites   its choices without a log, by a model of the inner tile's cycles
    mirror            products of an array with itself: one triangle, stored to both sides
    window            short windows, all taps written out, with rows that share what they read
    pick              short axes whose every place is another expression, unrolled
    dots              products of bytes, by the instructions that add them up in fours
    lanes             vectors along each stage's own innermost axis, joined at the end
    chain             contraction, softmax of its rows, contraction of that, a block at a time
    user              what users add, with ``lw.sketch_rule``

By structure and not by operator. A sketch turns one choice per knob into schedule steps;
``space.py`` holds the choices as arrays. Another rule is another file, and a line in ``RULES``.
"""

from __future__ import annotations

from ....codegen.target import Target
from ..analysis import Group
from .base import KNOBS, Choices, Sketch
from .chain import chain_sketches
from .dots import dot_offers
from .lanes import lane_offers
from .mirror import mirror_offers
from .pick import pick_offers
from .tile import tile_offers
from .user import user_sketches
from .window import window_offers

__all__ = [
    "KNOBS",
    "RULES",
    "Choices",
    "Sketch",
    "chain_sketches",
    "sketches_of",
    "user_sketches",
]

RULES = (tile_offers, mirror_offers, dot_offers, lane_offers, window_offers, pick_offers)


def sketches_of(group: Group, target: Target) -> list[Sketch]:
    """The sketches the rules offer for a group, the most promising first."""
    offers = [offer for rule in RULES for offer in rule(group, target)]
    offers.sort(key=lambda offer: offer[0])
    return [sketch for _, sketch in offers]

"""The families of workloads, and by how much we mean to be ahead in each.

``products`` has matrix products, ``windows`` convolutions and poolings, ``rows`` work along an axis
and attention, ``maps`` elementwise work and everything that only moves elements,
``functions`` the elementary functions. Each is a table of
kinds; a kind makes a workload of sizes, those that every run measures or others, drawn at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..workload import Workload
from . import functions, maps, products, rows, windows
from .kind import Draw, Kind

__all__ = ["FACTORS", "KINDS", "fixed_workloads", "make", "random_workloads"]

KINDS: dict[str, Kind] = {
    kind.name: kind for room in (products, windows, rows, maps, functions) for kind in room.KINDS
}

# The lead over the fastest peer that a family is meant to have (geometric mean). Where a peer can
# stand at the limit of the memory, 1.0: a tie.
FACTORS: dict[str, float] = {
    "matmul": 1.05,
    "skinny matmul": 1.2,
    "gemv": 1.0,
    "conv": 1.05,
    "conv 1x1": 1.2,
    "depthwise": 2.0,
    "pooling": 1.0,
    "softmax": 2.0,
    "normalisation": 2.0,
    "reduction": 1.0,
    "attention": 1.2,
    "elementwise": 2.0,
    "transpose": 2.0,
    "join and cut": 1.0,
    "gather": 1.0,
}


def make(kind: str, params: Mapping[str, Any]) -> Workload:
    """The workload of a kind with these sizes."""
    return replace(KINDS[kind].make(**params), kind=kind, params=dict(params))


def fixed_workloads() -> list[Workload]:
    """Those that every run measures."""
    return [make(kind.name, params) for kind in KINDS.values() for params in kind.fixed]


def random_workloads(count: int, seed: int) -> list[Workload]:
    """``count`` others of the same kinds, the same for the same seed: every kind comes once, in
    an order of chance, and comes as often as it has fixed workloads."""
    draw = Draw(seed)
    waiting: list[str] = []
    found: dict[str, Workload] = {w.name: w for w in fixed_workloads()}
    known = len(found)
    while len(found) < known + count:
        waiting = waiting or [kind.name for kind in KINDS.values() for _ in kind.fixed]
        kind = waiting.pop(waiting.index(draw.choice(*waiting)))
        one = make(kind, KINDS[kind].draw(draw))
        found.setdefault(one.name, one)
    order = list(found.values())[known:]
    return sorted(order, key=lambda w: list(FACTORS).index(w.family))

"""Computes the distance in a program between two uses of the same memory, which caches may
bridge."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program.analysis import places
from ..ir.program.nodes import Call, Program

__all__ = ["reuse_distances"]


def reuse_distances(program: Program) -> list[list[int]]:
    """Returns a distance in bytes for each call of the program and each of its operands, in order.

    For an operand that is read, it is the memory touched since its last use; for one that is
    written, until its next use: all memory of the calls in between and of both calls. A program
    runs again and again, so the last call comes before the first.
    """
    place_of = places(program)
    calls = [i for i in program.body if isinstance(i, Call)]
    touched: list[dict[str, int]] = []
    for call in calls:
        spots = [place_of[o.name] for o in call.operands]
        touched.append({s.root: 0 for s in spots})
        for spot in spots:
            touched[-1][spot.root] = max(touched[-1][spot.root], spot.end - spot.begin)
    return [
        [
            _distance(touched, n, place_of[o.name].root, 1 if o.access.writes else -1)
            for o in call.operands
        ]
        for n, call in enumerate(calls)
    ]


def _distance(touched: Sequence[dict[str, int]], start: int, root: str, step: int) -> int:
    """Returns the bytes of the calls from ``start`` on, forwards or backwards, up to one with
    ``root``.
    """
    seen = dict(touched[start])
    for n in range(1, len(touched) + 1):
        other = touched[(start + step * n) % len(touched)]
        for name, size in other.items():
            seen[name] = max(seen.get(name, 0), size)
        if root in other:
            break
    return sum(seen.values())

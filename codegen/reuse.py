"""How far apart in a program two uses of the same memory lie: what caches may still hold."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program.analysis import places
from ..ir.program.nodes import Call, Program

__all__ = ["reuse_distances"]


def reuse_distances(program: Program) -> list[list[int]]:
    """For each call of the program and each of its operands, in order: bytes, see below.

    What an operand reads was last touched so many bytes ago, and what it writes is touched again so
    many bytes later, counting all memory that the calls in between touch, and both calls' own. A
    program is run again and again, so the last call comes before the first.
    """
    found = places(program)
    calls = [i for i in program.body if isinstance(i, Call)]
    touched: list[dict[str, int]] = []
    for call in calls:
        spots = [found[o.name] for o in call.operands]
        touched.append({s.root: 0 for s in spots})
        for spot in spots:
            touched[-1][spot.root] = max(touched[-1][spot.root], spot.end - spot.begin)
    return [
        [
            _distance(touched, n, found[o.name].root, 1 if o.access.writes else -1)
            for o in call.operands
        ]
        for n, call in enumerate(calls)
    ]


def _distance(touched: Sequence[dict[str, int]], start: int, root: str, step: int) -> int:
    """Bytes of the calls from ``start`` on, forwards or backwards, up to one that has ``root``."""
    seen = dict(touched[start])
    for n in range(1, len(touched) + 1):
        other = touched[(start + step * n) % len(touched)]
        for name, size in other.items():
            seen[name] = max(seen.get(name, 0), size)
        if root in other:
            break
    return sum(seen.values())

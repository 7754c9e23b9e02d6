"""Strided vectors from whole ones: every second element of a row, or a row backwards.

::

    x[2*l + 1] for l < 16     =>     a = x[0:16]; b = x[16:32]; the odd lanes of a and b

Loading the vectors that cover the elements and picking lanes takes an instruction each, loading
element by element two for every lane.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dims import IntExpr, as_int, bounds
from .memory import Env, Memory, Place
from .writer import Value

__all__ = ["MAX_WINDOWS", "cover"]

MAX_WINDOWS = 4  # vectors loaded for one


def cover(
    memory: Memory,
    place: Place,
    flat: IntExpr,
    stride: int,
    mask: tuple[bool, ...],
    env: Env,
    ranges: Mapping[str, tuple[int, int]],
) -> Value:
    """Lane l holds element ``flat + stride * l`` where ``mask`` holds; nothing is said of others.

    Touches no element before the first or behind the last that is wanted, unless it is known to
    lie in the buffer.
    """
    lanes = len(mask)
    taken = [stride * l for l, wanted in enumerate(mask) if wanted]
    low, high = min(taken), max(taken)
    value, constant = memory.index_value(flat, env)
    first = low - (constant + low) % abs(stride)
    starts = list(range(first, high + 1, lanes))  # from a multiple of the stride on: others share
    active = lanes
    if not _inside(place, flat, first, starts[-1] + lanes, env, ranges):
        starts = list(range(low, high + 1, lanes))
        if len(starts) > 1:  # the last one ends with the last element
            starts[-1] = high - lanes + 1
        active = min(lanes, high - low + 1)
    windows: list[tuple[int, Value]] = []
    for start in starts:
        address = memory.w.offset(place.base, place.type, value, constant + start)
        windows.append((start, memory.load(place, address, lanes, active)))
    return _picked(memory, windows, stride, mask)


def _inside(
    place: Place,
    flat: IntExpr,
    first: int,
    end: int,
    env: Env,
    ranges: Mapping[str, tuple[int, int]],
) -> bool:
    """Whether the elements ``flat + first`` up to ``flat + end`` are known to lie in the buffer."""
    inside = bounds(flat, {**ranges, **_pinned(env)})
    if inside is None:
        return False
    return inside[0] + first >= 0 and inside[1] + end <= as_int(place.buffer.size)


def _pinned(env: Env) -> dict[str, tuple[int, int]]:
    """The loops written out, at their turn; the lanes at the first."""
    found = {name: (v, v) for name, v in env.values.items() if isinstance(v, int)}
    if env.lanes is not None:
        found[env.lanes.var] = (env.lanes.offset, env.lanes.offset)
    return found


def _picked(
    memory: Memory, windows: list[tuple[int, Value]], stride: int, mask: tuple[bool, ...]
) -> Value:
    """The lanes picked from the windows: two windows an instruction."""
    lanes = len(mask)
    found: Value | None = None
    have: set[int] = set()
    rest = list(windows)
    while rest:
        pair = rest[:2] if found is None else rest[:1]
        rest = rest[len(pair) :]
        base = found or pair[0][1]
        other = pair[-1][1]
        picks: list[int] = []
        for l, wanted in enumerate(mask):
            at = stride * l
            pick = l if found is not None else 0
            if wanted and l not in have:
                for n, (start, _) in enumerate(pair):
                    if start <= at < start + lanes:
                        side = lanes if found is not None or n else 0
                        pick = at - start + side
                        have.add(l)
                        break
            picks.append(pick)
        found = memory.w.shuffle(base, other, tuple(picks))
    assert found is not None
    return found

"""Vectors from the whole ones around them: every second element of a row, a row backwards, or each
element three times.

::

    x[2*l + 1] for l < 16     =>     a = x[0:16]; b = x[16:32]; the odd lanes of a and b
    x[l // 3]  for l < 16     =>     a = x[0:6]; the lanes 0 0 0 1 1 1 2 ... of a

Loading the vectors that cover the elements and picking lanes takes an instruction each, loading
element by element two for every lane.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dims import IntExpr, bounds, resolve, substitute
from ..llvm.writer import Value
from .memory import Env, Memory, Place

MAX_WINDOWS = 4  # vectors loaded for one


def lane_offsets(
    flat: IntExpr, stride: int | None, env: Env, ranges: Mapping[str, tuple[int, int]]
) -> tuple[int, ...] | None:
    """Returns each active lane's distance from lane 0 in elements; None if one is not constant."""
    lanes = env.lanes
    assert lanes is not None
    if stride is not None:
        return tuple(stride * l for l in range(lanes.active))
    first = resolve(substitute(flat, {lanes.var: lanes.offset}), ranges)
    offsets: list[int] = []
    for l in range(lanes.active):
        step = resolve(substitute(flat, {lanes.var: lanes.offset + l}), ranges) - first
        if not isinstance(step, int):
            return None
        offsets.append(step)
    return tuple(offsets)


def cover(
    memory: Memory,
    place: Place,
    flat: IntExpr,
    offsets: Mapping[int, int],
    env: Env,
    ranges: Mapping[str, tuple[int, int]],
) -> Value:
    """Returns a vector whose lane l holds element ``flat + offsets[l]``, ``flat`` taken at lane 0;
    lanes that are not in ``offsets`` are undefined.

    Loads no element before the first or behind the last of these, unless it is known to lie in the
    buffer.
    """
    assert env.lanes is not None
    lanes = env.lanes.lanes
    low, high = min(offsets.values()), max(offsets.values())
    value, constant = memory.index_value(flat, env)
    step = -(-(high - low) // max(1, max(offsets) - min(offsets)))
    first = low - (constant + low) % max(1, step)
    starts = list(range(first, high + 1, lanes))  # from a multiple of the step on: others share
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
    return _picked(memory, windows, offsets, lanes)


def _inside(
    place: Place,
    flat: IntExpr,
    first: int,
    end: int,
    env: Env,
    ranges: Mapping[str, tuple[int, int]],
) -> bool:
    """True if the elements ``flat + first`` up to ``flat + end`` are known to lie in the buffer."""
    inside = bounds(flat, {**ranges, **_pinned(env)})
    if inside is None:
        return False
    room = bounds(place.buffer.size - flat, {**ranges, **_pinned(env)})
    return inside[0] + first >= 0 and room is not None and room[0] >= end


def _pinned(env: Env) -> dict[str, tuple[int, int]]:
    """The ranges of the unrolled loops' variables, one value each; of the lanes that of lane 0."""
    values = {name: (v, v) for name, v in env.values.items() if isinstance(v, int)}
    if env.lanes is not None:
        values[env.lanes.var] = (env.lanes.offset, env.lanes.offset)
    return values


def _picked(
    memory: Memory, windows: list[tuple[int, Value]], offsets: Mapping[int, int], lanes: int
) -> Value:
    """Gathers the lanes from the windows; each shuffle instruction reads two windows."""
    picked: Value | None = None
    have: set[int] = set()
    rest = list(windows)
    while rest:
        pair = rest[:2] if picked is None else rest[:1]
        rest = rest[len(pair) :]
        base = picked or pair[0][1]
        other = pair[-1][1]
        picks = list(range(lanes)) if picked is not None else [0] * lanes
        for l, at in offsets.items():
            if l in have:
                continue
            for n, (start, _) in enumerate(pair):
                if start <= at < start + lanes:
                    picks[l] = at - start + (lanes if picked is not None or n else 0)
                    have.add(l)
                    break
        picked = memory.w.shuffle(base, other, tuple(picks))
    assert picked is not None
    return picked

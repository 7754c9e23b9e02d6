"""Which of many lines about one workload have to be read for the best of its records to be known.

A search leaves a thousand lines of a kernel, and a compile asks for the fastest one. Their times
stand in the bytes of the lines, so that most need not be read as JSON.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Sequence

from .note import HEAD

__all__ = ["contenders"]

_TARGET = re.compile(rb'"target": ?\{[^{}]*\}')
_SCHEDULE = re.compile(rb'"schedule": ?(\[.*\]), ?"sketch"')
_SECONDS = re.compile(rb'"seconds": ?\[([^\]]*)\]')
_RACED = b'"raced": true'
_REFUSED = (b'"wrong_result"', b'"out_of_bounds"')


def contenders(lines: Sequence[bytes], most: int) -> list[int]:
    """The places of the lines that decide which record is the best of its target.

    These are the lines of the ``most`` schedules with the fastest samples of each target, of the
    first one that ran there, of those that were raced or gave wrong results, and what the tuner has
    not written. Whatever is left out is slower in every sample than ``most`` other schedules.
    """
    kept: set[int] = set()
    runs: defaultdict[bytes, defaultdict[bytes, list[int]]]
    runs = defaultdict(lambda: defaultdict(list))
    fastest: defaultdict[bytes, dict[bytes, float]] = defaultdict(dict)
    wanted: defaultdict[bytes, set[bytes]] = defaultdict(set)
    refused: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for place, line in enumerate(lines):
        head = HEAD.match(line)
        found = [p.search(line, head.end()) for p in (_TARGET, _SCHEDULE, _SECONDS)] if head else []
        own = head is not None and head["about"] is None
        if not own or None in found:
            kept.add(place)
            continue
        target, schedule, seconds = (match[match.lastindex or 0] for match in found if match)
        wrong = any(mark in line for mark in _REFUSED)
        if wrong:
            refused[target].add(schedule)
        if wrong or _RACED in line:
            kept.add(place)
            wanted[target].add(schedule)
        least = _least(seconds)
        if least is None:
            kept.add(place)
        elif least < math.inf:
            runs[target][schedule].append(place)
            known = fastest[target]
            known[schedule] = min(least, known.get(schedule, math.inf))
    for target, known in fastest.items():
        wanted[target].update([s for s in known if s not in refused[target]][:1])
        wanted[target].update(heapq.nsmallest(most, known, key=known.__getitem__))
        for schedule in wanted[target] & known.keys():
            kept.update(runs[target][schedule])
    return sorted(kept)


def _least(seconds: bytes) -> float | None:
    """The fastest sample, inf if there is none; None if it cannot be told."""
    if not seconds.strip():
        return math.inf
    try:
        least = min(map(float, seconds.split(b",")))
    except ValueError:
        return None
    return least if least == least else None

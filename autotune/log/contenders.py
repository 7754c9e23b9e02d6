"""Selects the lines of a workload that have to be read to find its best record.

A search leaves a thousand lines of a kernel, and a compile asks for the fastest one. The times can
be found in the bytes of the lines, so that most lines are never parsed as JSON.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Sequence

from .note import HEAD

_TARGET = re.compile(rb'"target": ?\{[^{}]*\}')
_SCHEDULE = re.compile(rb'"schedule": ?(\[.*\]), ?"sketch"')
_SECONDS = re.compile(rb'"seconds": ?\[([^\]]*)\]')
_RACED = b'"raced": true'
_REFUSED = (b'"wrong_result"', b'"out_of_bounds"')


def contenders(lines: Sequence[bytes], most: int) -> list[int]:
    """Returns the indices of the lines that decide which record is the best of its target.

    They are the lines of the ``most`` schedules with the fastest samples of each target, of the
    first schedule that ran there, of those that were raced or gave wrong results, and lines that
    the tuner has not written. Every other line is slower in every sample than ``most`` other
    schedules.
    """
    kept: set[int] = set()
    runs: defaultdict[bytes, defaultdict[bytes, list[int]]]
    runs = defaultdict(lambda: defaultdict(list))
    fastest: defaultdict[bytes, dict[bytes, float]] = defaultdict(dict)
    wanted: defaultdict[bytes, set[bytes]] = defaultdict(set)
    refused: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for place, line in enumerate(lines):
        head = HEAD.match(line)
        parts = [p.search(line, head.end()) for p in (_TARGET, _SCHEDULE, _SECONDS)] if head else []
        is_record = head is not None and head["about"] is None
        if not is_record or None in parts:
            kept.add(place)
            continue
        target, schedule, seconds = (match[match.lastindex or 0] for match in parts if match)
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
            times = fastest[target]
            times[schedule] = min(least, times.get(schedule, math.inf))
    for target, times in fastest.items():
        wanted[target].update([s for s in times if s not in refused[target]][:1])
        wanted[target].update(heapq.nsmallest(most, times, key=times.__getitem__))
        for schedule in wanted[target] & times.keys():
            kept.update(runs[target][schedule])
    return sorted(kept)


def _least(seconds: bytes) -> float | None:
    """Returns the fastest sample, inf if there is none; None if the text cannot be parsed."""
    if not seconds.strip():
        return math.inf
    try:
        least = min(map(float, seconds.split(b",")))
    except ValueError:
        return None
    return least if least == least else None

"""What loops cost beside their work: ``python -m bench.loops --steps``.

::

    empty while      an iteration of a while loop that only counts
    scan             an iteration of a scan around one small kernel, beyond the kernel's own time
    insertions       a million writes of one element to an array of a million, each
    growth           memory of the process after 1e8 iterations beyond that before, in MB
    deep tail calls  a call of a function that calls itself last, a million deep
    deep recursion   a call of one that does not, ten thousand deep

Processor time, the least of some calls; a bar beside each.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np

__all__ = ["BARS", "main", "steps"]

BARS = {"empty while": 2.0, "scan": 30.0, "insertions": 30.0, "growth": 1.0}
"""At most so many nanoseconds per iteration, and MB."""

_MANY, _WIDE, _DEEP = 1_000_000, 64, 10_000


def _seconds(call: Callable[[], Any], samples: int = 5) -> float:
    call()
    best = float("inf")
    for _ in range(samples):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def _counted(n: Any, step: Any) -> Any:
    # By an unknown step, so that it does not become a loop of a known number of iterations.
    return lw.while_loop(lambda i: i < n, lambda i: i + step, 0)


def _inserted(places: Any, values: Any) -> Any:
    def insert(i: Any, made: Any) -> Any:
        made[places[i]] = values[i]
        return made

    return lw.fori_loop(0, len(places), insert, np.zeros_like(values))


@lw.function
def _counts_down(n: Any, total: Any) -> Any:
    return lw.cond(n <= 0, lambda: total, lambda: _counts_down(n - 1, total ^ n))


@lw.function
def _adds_up(n: Any) -> Any:
    return lw.cond(n <= 0, lambda: 0, lambda: n + _adds_up(n - 1))


def steps() -> dict[str, float]:
    """Returns the figures by name: nanoseconds of an iteration, and MB."""
    figures: dict[str, float] = {}
    counted = lw.compile(_counted)
    figures["empty while"] = 1e9 * _seconds(lambda: counted(_MANY, 1)) / _MANY

    rows = np.random.default_rng(0).random((20_000, _WIDE)).astype(np.float32)
    scan = lw.compile(lambda rows: lw.scan(lambda s, x: (np.sin(s + x), None), rows[0], rows)[0])
    kernel = lw.compile(lambda rows: np.sin(rows + rows[::-1]))
    beyond = _seconds(lambda: scan(rows)) - _seconds(lambda: kernel(rows))
    figures["scan"] = 1e9 * beyond / len(rows)

    places = np.random.default_rng(0).permutation(_MANY)
    inserted = lw.compile(_inserted)
    values = places.astype(np.float64)
    figures["insertions"] = 1e9 * _seconds(lambda: inserted(places, values)) / _MANY

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counted(100 * _MANY, 1)
    figures["growth"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024

    tail = lw.compile(lambda n: _counts_down(n, 0))
    figures["deep tail calls"] = 1e9 * _seconds(lambda: tail(_MANY)) / _MANY
    deep = lw.compile(lambda n: _adds_up(n))
    assert int(deep(_DEEP)) == _DEEP * (_DEEP + 1) // 2
    figures["deep recursion"] = 1e9 * _seconds(lambda: deep(_DEEP)) / _DEEP
    return figures


def main() -> int:
    """Prints the figures; 1 if one misses its bar."""
    met = True
    for name, figure in steps().items():
        bar = BARS.get(name)
        good = bar is None or figure <= bar
        met &= good
        said = "" if bar is None else f"  (bar {bar:g}) {'met' if good else 'MISSED'}"
        print(f"{name:16} {figure:8.2f} {'MB' if name == 'growth' else 'ns'}{said}")
    return int(not met)

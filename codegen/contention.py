"""Measures the share of this machine that other processes use during a measurement."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType


class Contention:
    """Within it others are watched; ``share`` is afterwards how much of our cores they had.

    From ``/proc/stat``: what the cores that this process may use did, other than for this process,
    and what the hypervisor took away. 0 where the system does not say.

    >>> with Contention() as others:
    ...     _ = sum(range(1000))
    >>> 0 <= others.share <= 1
    True
    """

    share = 0.0

    def __enter__(self) -> Contention:
        self._begun, self._busy, self._own = time.monotonic(), _busy(), _own()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = (time.monotonic() - self._begun) * len(os.sched_getaffinity(0))
        others = (_busy() - self._busy) - (_own() - self._own)
        self.share = min(1.0, max(0.0, others / seconds)) if seconds > 0 else 0.0


def _own() -> float:
    spent = os.times()
    return spent.user + spent.system


def _busy() -> float:
    """Seconds that our cores were not idle, or not given to us, since the system began."""
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    except OSError:
        return 0.0
    ticks = 0
    for name, *counts in rows:
        if name in names and len(counts) >= 8:
            user, nice, system, _idle, _waiting, interrupts, soft, stolen = map(int, counts[:8])
            ticks += user + nice + system + interrupts + soft + stolen
    return ticks / os.sysconf("SC_CLK_TCK")

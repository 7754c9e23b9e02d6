"""Progress of tuning: a live line on a terminal, plain lines elsewhere. The only file with tqdm."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from .budget import BudgetClock

if TYPE_CHECKING:
    from .task import Task

__all__ = [
    "Live",
    "Lines",
    "Progress",
    "Silent",
    "Tuned",
    "format_seconds",
    "format_time",
    "make_progress",
]

_LINE_EVERY = 5.0
"""Seconds between two plain lines: often enough to see that it lives, rare enough for a file."""
_LIVE_EVERY = 0.1


class Tuned(Protocol):
    """What is shown of a tuner."""

    @property
    def task(self) -> Task: ...

    trials: int
    best_seconds: float
    first_seconds: float

    @property
    def errors(self) -> Any: ...


class Progress(Protocol):
    """Told after every candidate."""

    def update(self, tuner: Tuned, clock: BudgetClock) -> None: ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *details: object) -> None: ...


class Silent:
    """Shows nothing."""

    def update(self, tuner: Tuned, clock: BudgetClock) -> None:
        """Show nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *details: object) -> None:
        """Nothing is open."""


class Lines:
    """A line now and then, for a file or a pipe."""

    def __init__(self, stream: TextIO | None = None, every: float = _LINE_EVERY) -> None:
        self._stream = stream or sys.stderr
        self._every = every
        self._last = -math.inf

    def update(self, tuner: Tuned, clock: BudgetClock) -> None:
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            self._stream.write(f"{describe(tuner)}   {describe_time(clock)}\n")
            self._stream.flush()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *details: object) -> None:
        """Nothing is open."""


class Live:
    """One line that is redrawn, with a bar of the budget."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar: Any = None
        self._last = -math.inf

    def update(self, tuner: Tuned, clock: BudgetClock) -> None:
        now = time.monotonic()
        if now - self._last < _LIVE_EVERY:
            return
        self._last = now
        if self._bar is None:
            self._bar = _open_bar(self._stream)
        self._bar.total, self._bar.n = _share(clock)
        self._bar.set_description_str(describe(tuner), refresh=False)
        self._bar.set_postfix_str(describe_time(clock), refresh=False)
        self._bar.refresh()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *details: object) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _open_bar(stream: TextIO) -> Any:
    from tqdm import tqdm

    # No monitor thread: it would outlive the bar, and updates come often enough.
    tqdm.monitor_interval = 0
    layout = "{desc} |{bar:12}| {postfix}"
    return tqdm(total=1.0, file=stream, bar_format=layout, dynamic_ncols=True, leave=False)


def make_progress(stream: TextIO | None = None, quiet: bool = False) -> Progress:
    """What suits the stream (stderr by default)."""
    shown = stream or sys.stderr
    if quiet or shown is None:
        return Silent()
    return Live(shown) if shown.isatty() else Lines(shown)


def describe(tuner: Tuned) -> str:
    """``matmul  510 us -> 430 us  612 GFLOP/s  61 tried, 2 failed``."""
    parts = [tuner.task.name]
    best, first = tuner.best_seconds, tuner.first_seconds
    if math.isfinite(best):
        before = f"{format_time(first)} -> " if math.isfinite(first) else ""
        parts.append(before + format_time(best))
        if tuner.task.flops:
            parts.append(f"{tuner.task.flops / best * 1e-9:.3g} GFLOP/s")
    failed = sum(tuner.errors.values())
    parts.append(f"{tuner.trials} tried" + (f", {failed} failed" if failed else ""))
    return "  ".join(parts)


def describe_time(clock: BudgetClock) -> str:
    """``00:12 of 00:30, 00:18 left``."""
    left = clock.expected_seconds_left
    spent = format_seconds(clock.elapsed)
    if not math.isfinite(left):
        return spent
    total = clock.budget.seconds
    of = f" of {format_seconds(total)}" if total is not None else ""
    return f"{spent}{of}, {format_seconds(left)} left"


def format_time(seconds: float) -> str:
    """A time per call, with a unit that suits it.

    >>> format_time(0.00043), format_time(2.5)
    ('430 us', '2.5 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_seconds(seconds: float) -> str:
    """``mm:ss``, or ``h:mm:ss`` from an hour on.

    >>> format_seconds(90), format_seconds(3661)
    ('01:30', '1:01:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def _share(clock: BudgetClock) -> tuple[float, float]:
    """The bar's length and how much of it is done."""
    done = clock.elapsed
    left = clock.expected_seconds_left
    return (done + left, done) if math.isfinite(left) else (1.0, 0.0)

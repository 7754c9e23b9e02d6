"""Progress of tuning: a live table on a terminal, plain lines elsewhere. It is made with tqdm."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from ..ir.floors import require
from .budget import BudgetClock

if TYPE_CHECKING:
    from .task import Task

_LINE_EVERY = 5.0
"""Seconds between two plain lines: frequent enough to show activity, rare enough for a file."""
_LIVE_EVERY = 0.1
_NAME_WIDTH = 32
"""Letters of a kernel's name in the table, so that the numbers fit beside it in 80 columns."""


class Tuned(Protocol):
    """The part of a tuner that is displayed."""

    @property
    def task(self) -> Task: ...

    trials: int
    best_seconds: float
    first_seconds: float

    @property
    def errors(self) -> Any: ...


class Progress(Protocol):
    """Called after every candidate."""

    def update(self, tuner: Tuned, clock: BudgetClock) -> None: ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *details: object) -> None: ...


class Silent(contextlib.AbstractContextManager[Any]):
    """Shows nothing; the base of the others."""

    def update(self, tuner: Tuned, clock: BudgetClock) -> None:
        """Shows nothing."""

    def __exit__(self, *details: object) -> None:
        """Closes nothing."""


class Lines(Silent):
    """A line every few seconds, for a file or a pipe."""

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


class Live(Silent):
    """A table that is redrawn: the budget with its bar, then a row per kernel.

    Lines are cut at the width of the terminal, which is read at every update; after a resize the
    old table is erased first. There are never more rows than fit: the kernels that take most of the
    program's time.
    """

    def __init__(self, stream: TextIO | None = None, peak_flops: float = 0.0) -> None:
        self._stream = stream or sys.stderr
        self._peak_flops = peak_flops
        self._bars: list[Any] = []
        self._seen: dict[int, Tuned] = {}
        self._size: tuple[int, int] | None = None
        self._last = -math.inf

    def update(self, tuner: Tuned, clock: BudgetClock) -> None:
        self._seen.setdefault(id(tuner), tuner)
        now = time.monotonic()
        if now - self._last < _LIVE_EVERY:
            return
        self._last = now
        self._wipe_after_resize()
        height = self._size[1] if self._size else 24
        lines = table_lines(list(self._seen.values()), self._peak_flops, height - 4)
        del lines[max(0, height - 3) :]
        if not self._bars:
            self._bars.append(_open_bar(self._stream, 0, "{desc} |{bar:20}|"))
        while len(self._bars) <= len(lines):
            self._bars.append(_open_bar(self._stream, len(self._bars), "{desc}"))
        budget = self._bars[0]
        budget.total, budget.n = _share(clock)
        spent = f"tuning, {clock.trials} candidates, {describe_time(clock)}"
        budget.set_description_str(spent, refresh=False)
        padded = [*lines, *[""] * (len(self._bars) - 1 - len(lines))]
        for bar, line in zip(self._bars[1:], padded):
            bar.set_description_str(line, refresh=False)
        for bar in self._bars:
            bar.refresh()
        # A terminal that rewraps lines when it gets narrower moves the cursor along: from the first
        # column on, the whole table is behind it.
        self._stream.write("\r")
        self._stream.flush()

    def _wipe_after_resize(self) -> None:
        size = _terminal_size(self._stream)
        if self._bars and size != self._size:
            self._stream.write("\r\x1b[J")
            for bar in self._bars:
                bar.sp = None  # erase no blanks, which might not fit any more
            self._close()
        self._size = size

    def __exit__(self, *details: object) -> None:
        self._close()

    def _close(self) -> None:
        for bar in reversed(self._bars):
            bar.close()
        self._bars.clear()


def _open_bar(stream: TextIO, position: int, layout: str) -> Any:
    import tqdm as package
    from tqdm import tqdm

    require(package)
    # No monitor thread: it would outlive the bar, and updates come often enough.
    tqdm.monitor_interval = 0
    return tqdm(
        total=1.0,
        file=stream,
        position=position,
        bar_format=layout,
        dynamic_ncols=True,
        leave=False,
    )


def _terminal_size(stream: TextIO) -> tuple[int, int] | None:
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):  # no terminal, or none with a size
        return None
    return size.columns, size.lines


def make_progress(
    stream: TextIO | None = None, quiet: bool = False, peak_flops: float = 0.0
) -> Progress:
    """Returns the display that suits the stream (stderr by default); ``peak_flops`` is per
    second."""
    stream = stream or sys.stderr
    if quiet or stream is None:
        return Silent()
    return Live(stream, peak_flops) if stream.isatty() else Lines(stream)


def table_lines(tuners: Sequence[Tuned], peak_flops: float = 0.0, most: int = 20) -> list[str]:
    """Returns the table: a head and a row per kernel, in the order of their first candidates.

    Of more than ``most`` kernels it has those whose calls take most of the time.
    """

    def total(tuner: Tuned) -> float:
        best = tuner.best_seconds
        return tuner.task.weight * best if math.isfinite(best) else math.inf

    most = max(1, most - 1)
    rows = list(tuners)
    if len(rows) > most:
        kept = {id(t) for t in sorted(tuners, key=total, reverse=True)[: max(1, most - 1)]}
        rows = [t for t in tuners if id(t) in kept]
    width = max((len(t.task.name) for t in rows), default=0)
    width = min(max(width, len("kernel")), _NAME_WIDTH)
    lines = [f"  {'kernel':<{width}}  calls  tried  failed      best  of peak    gain"]
    lines += [f"  {_row(tuner, peak_flops, width)}" for tuner in rows]
    if len(rows) < len(tuners):
        lines.append(f"  and {len(tuners) - len(rows)} more")
    return lines


def _row(tuner: Tuned, peak_flops: float, width: int) -> str:
    name = tuner.task.name
    if len(name) > width:
        name = name[: width - 1] + "~"
    best, first, flops = tuner.best_seconds, tuner.first_seconds, tuner.task.flops
    ran = math.isfinite(best)
    share = f"{100 * flops / best / peak_flops:.0f} %" if ran and flops and peak_flops else "-"
    gain = f"{first / best:.2f}x" if ran and math.isfinite(first) else "-"
    return (
        f"{name:<{width}}  {tuner.task.weight:>5}  {tuner.trials:>5}  "
        f"{sum(tuner.errors.values()):>6}  {format_time(best) if ran else '-':>8}  "
        f"{share:>7}  {gain:>6}"
    )


def describe(tuner: Tuned) -> str:
    """Returns a line such as ``matmul  510 us -> 430 us  612 GFLOP/s  61 tried, 2 failed``."""
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
    """Returns a text such as ``00:12 of 00:30, 00:18 left``."""
    left = clock.expected_seconds_left
    spent = format_seconds(clock.elapsed)
    if not math.isfinite(left):
        return spent
    total = clock.budget.seconds
    of = f" of {format_seconds(total)}" if total is not None else ""
    return f"{spent}{of}, {format_seconds(left)} left"


def format_time(seconds: float) -> str:
    """Returns a time per call with three digits and a unit that fits.

    >>> format_time(0.00043), format_time(2.5)
    ('430 us', '2.5 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 0.9995:  # what is rounded up to 1000 takes the next unit
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_seconds(seconds: float) -> str:
    """Returns ``mm:ss``, or ``h:mm:ss`` from an hour on.

    >>> format_seconds(90), format_seconds(3661)
    ('01:30', '1:01:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def _share(clock: BudgetClock) -> tuple[float, float]:
    """Returns the bar's length and how much of it is done."""
    done = clock.elapsed
    left = clock.expected_seconds_left
    return (done + left, done) if math.isfinite(left) else (1.0, 0.0)

"""Whether a schedule that is faster alone is faster in its program, too, and what came of that.

A kernel measured alone finds its operands where it left them itself, has indices of the tuner's own
making, and a core to itself. In a program none of that need be so. Hence the last comparison: the
program as it was before, and as it would be now, run in turn on the caller's arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..log.decision import COMPILED, Decision
from ..log.record import robust_seconds
from ..progress import format_time
from ..settings import DEFAULT_SETTINGS, TuneSettings

__all__ = ["InProgram", "RolledBack", "decision_line", "faster_of"]

_SHOWN_TEXT = 72

_TICK = 2e-8
"""Seconds that reading the clock twice may differ by."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A kernel whose new schedule took ``after`` seconds a call in the program, not ``before``."""

    kernel: str
    workload: str
    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"{self.kernel}: rolled back, {format_time(self.after)} in the program with what is "
            f"fastest alone, {format_time(self.before)} with what was there before"
        )


@dataclass(frozen=True, slots=True)
class InProgram:
    """Seconds of a whole call ``before`` tuning and ``after``, measured in turn on the caller's
    arguments with what the log now gives. ``confirmed`` kernels are faster in place as well."""

    before: float
    after: float
    changed: int = 0
    confirmed: int = 0
    rolled_back: tuple[RolledBack, ...] = ()

    def __str__(self) -> str:
        gain = f"  {self.before / self.after:.2f}x" if self.after > 0 else ""
        lines = [str(r) for r in self.rolled_back]
        what = f"{self.changed} new schedule{'' if self.changed == 1 else 's'}"
        told = f"{what}, {self.confirmed} faster in place, {len(self.rolled_back)} rolled back"
        lines.append(
            f"whole call {format_time(self.before)} -> {format_time(self.after)}{gain}   "
            f"as built from the log: {told}"
        )
        return "\n".join(f"  {line}" for line in lines)


def decision_line(decision: Decision) -> str:
    """A choice in the graph with the times of both ways.

    ``algorithm: nn.conv2d(Tensor[(1, 64, 56, 56) ...   direct 1.2 ms, winograd2 0.6 ms, taken``, or
    ``kept NumPy (OpenBLAS 0.3.31 SkylakeX) for matmul float32 i=64 ...: 1.30x``.
    """
    if decision.about == "route" and decision.winner.name != COMPILED:
        (compiled,) = decision.losers
        gain = compiled.cost / decision.winner.cost
        return f"kept NumPy ({decision.winner.name}) for {decision.workload.text}: {gain:.2f}x"
    losers = [f"{o.name} {format_time(o.cost)}" for o in decision.losers]
    times = ", ".join([*losers, f"{decision.winner.name} {format_time(decision.winner.cost)}"])
    text = decision.workload.text
    short = text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 4] + " ..."
    return f"{decision.about}: {short}   {times}, taken"


def faster_of(
    before: Sequence[float], after: Sequence[float], settings: TuneSettings = DEFAULT_SETTINGS
) -> int:
    """1 if ``after`` is faster, -1 if it is slower, 0 if the two are as good as equal.

    Seconds of rounds in which both ran, one soon after the other. The difference must show in what
    they usually take, and in most of the rounds.

    >>> faster_of([1.0, 1.1, 1.0], [0.8, 0.9, 0.8]), faster_of([1.0, 1.0], [1.01, 1.0])
    (1, 0)
    """
    old, new = robust_seconds(tuple(before)), robust_seconds(tuple(after))
    if abs(old - new) <= _TICK or max(old, new) <= settings.tie_factor * min(old, new):
        return 0
    sign = 1 if new < old else -1
    agreeing = sum((b - a) * sign > 0 for b, a in zip(before, after))
    return sign if agreeing >= settings.rounds_agreeing * min(len(before), len(after)) else 0

"""The report of the last comparison: the program before tuning and after it, in words.

A kernel measured alone finds its operands where it left them itself, has indices of the tuner's own
making, and a core to itself. In a program none of that need be so: a schedule that is faster alone
may be slower there, and is rolled back.
"""

from __future__ import annotations

from ...ir.dataclass import dataclass
from ..log.decision import Decision
from ..progress import format_time

_SHOWN_TEXT = 72


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A kernel whose new schedule is not faster in the program: seconds of a call ``before`` with
    the old schedule and ``after`` with the new one."""

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
    """Seconds of a whole call ``before`` tuning and ``after``, interleaved on the caller's
    arguments, each in a process of its own if they are ``fresh``. Of the ``changed`` schedules,
    ``confirmed`` ones are faster in place as well. ``undone``: all of it was rolled back, since the
    program was faster as it was."""

    before: float
    after: float
    changed: int = 0
    confirmed: int = 0
    rolled_back: tuple[RolledBack, ...] = ()
    fresh: bool = False
    undone: bool = False

    def __str__(self) -> str:
        gain = f"  {self.before / self.after:.2f}x" if self.after > 0 else ""
        what = f"{self.changed} new schedule{'' if self.changed == 1 else 's'}"
        counts = f"{what}, {self.confirmed} faster in place, {len(self.rolled_back)} rolled back"
        lines = [
            f"whole call {format_time(self.before)} -> {format_time(self.after)}{gain}   "
            f"as built from the log{', in processes of their own' * self.fresh}: {counts}",
            *map(str, self.rolled_back),
        ]
        if self.undone:
            lines.append("all of it rolled back: the program was faster as it was before")
        return "\n".join(f"  {line}" for line in lines)


@dataclass(frozen=True, slots=True)
class TriedChoice:
    """A choice in the graph: the shares of a call that it was ``expected`` to gain at most, and
    that its kernels gained in the program; ``measured`` is None if there was no time for it."""

    text: str
    expected: float
    measured: float | None
    taken: bool = False

    def __str__(self) -> str:
        gain = "no time" if self.measured is None else f"measured {100 * self.measured:+.1f} %"
        text = self.text if len(self.text) <= _SHOWN_TEXT else f"{self.text[: _SHOWN_TEXT - 4]} ..."
        end = ", taken" if self.taken else ""
        return f"{text}   expected up to {100 * self.expected:+.1f} %, {gain}{end}"


def decision_line(decision: Decision) -> str:
    """A choice in the graph with the times of both ways.

    ``algorithm: nn.conv2d(Tensor[(1, 64, 56, 56) ...   direct 1.2 ms, winograd2 0.6 ms, taken``.
    """
    losers = [f"{o.name} {format_time(o.cost)}" for o in decision.losers]
    times = ", ".join([*losers, f"{decision.winner.name} {format_time(decision.winner.cost)}"])
    text = decision.workload.text
    short = text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 4] + " ..."
    return f"{decision.about}: {short}   {times}, taken"

"""One decision between alternatives that were measured beside each other, as the log keeps it.

::

    {"v": 2, "kind": "decision", "about": "schedule",
     "workload": {"hash": "3f9a...", "text": "matmul float32 i=1 j=4096 k=4096", "prim": "..."},
     "target": {"isa": "x86-64-v4", ...},
     "options": [{"name": "tile/7", "schedule": [...], "seconds": [0.00233, 0.00231]},
                 {"name": "tile/7", "schedule": [...], "seconds": [0.00286, 0.00284]}],
     "taken": 0, "program": "main 81c2...", "time": "2026-11-20T10:00:00Z", "loopwright": "0.1.0"}

``about`` is "schedule" where two schedules of one kernel were run in turn inside a whole program:
the one that was built before, and the one that is fastest alone. With "route" the workload is a
kernel, too: its options are "compiled" and the library, by name and version, that may compute its
product of matrices. Otherwise it is a choice in the graph ("algorithm", "fusion", "layout"), and
the workload is its site. Options that are no schedules have names alone. Readers from before there
were decisions take the line for one of the future: they skip it, and keep it when they prune.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .line import FutureRecordError, RecordError, check_version, data_of
from .record import (
    TargetKey,
    Workload,
    robust_seconds,
    schedule_key,
    seconds_from,
    target_from,
    workload_from,
)

__all__ = [
    "ABOUT",
    "COMPILED",
    "DECISION_VERSION",
    "Decision",
    "Option",
    "decision_from_data",
    "taken_options",
    "taken_routes",
]

DECISION_VERSION = 2

ABOUT = {
    "schedule": "which of two schedules a kernel gets, measured in a whole program",
    "algorithm": "how an operator is computed",
    "fusion": "whether operators become one kernel",
    "layout": "whether the order of axes that suits an operator is kept by what follows",
    "route": "whether a kernel is compiled, or its product left to NumPy's library",
}

GRAPH_CHOICES = frozenset({"algorithm", "fusion", "layout"})

COMPILED = "compiled"
"""The option of a route that is a loop nest of ours."""

_MOST_OPTIONS = 64


@dataclass(frozen=True, slots=True)
class Option:
    """An alternative: its name, for a schedule its steps, and the seconds of every sample."""

    name: str
    seconds: tuple[float, ...] = ()
    schedule: tuple[Any, ...] | None = None

    @property
    def cost(self) -> float:
        """Seconds; inf if it never ran."""
        return robust_seconds(self.seconds) if self.seconds else float("inf")

    @property
    def key(self) -> str:
        """What tells it from other options: the schedule's text if it is one, else its name."""
        return self.name if self.schedule is None else schedule_key(self.schedule)


@dataclass(frozen=True)
class Decision:
    """``options[taken]`` is what is used from now on; ``program`` says where it was measured."""

    about: str
    workload: Workload
    target: TargetKey
    options: tuple[Option, ...]
    taken: int
    program: str = ""
    time: str = ""
    version: str = ""

    @property
    def winner(self) -> Option:
        """The option that is taken."""
        return self.options[self.taken]

    @property
    def losers(self) -> tuple[Option, ...]:
        """The others."""
        return tuple(o for n, o in enumerate(self.options) if n != self.taken)

    def to_json(self) -> str:
        """One line without its line end."""
        return json.dumps(
            {
                "v": DECISION_VERSION,
                "kind": "decision",
                "about": self.about,
                "workload": self.workload.to_data(),
                "target": self.target.to_data(),
                "options": [_option_data(o) for o in self.options],
                "taken": self.taken,
                "program": self.program,
                "time": self.time,
                "loopwright": self.version,
            },
            allow_nan=False,
            ensure_ascii=False,
        )

    @staticmethod
    def from_json(line: str | bytes) -> Decision:
        """Read one line. RecordError says what is wrong with it."""
        return decision_from_data(data_of(line))


def taken_options(decisions: Iterable[Decision], target: TargetKey) -> dict[str, str]:
    """By the key of its site, what a choice in a graph came to on a target. The last one counts."""
    graph = (d for d in decisions if d.about in GRAPH_CHOICES and d.target == target)
    return {d.workload.hash: d.winner.name for d in graph}


def taken_routes(decisions: Iterable[Decision], target: TargetKey) -> dict[str, str]:
    """By workload, which way a kernel goes on a target: ``COMPILED``, or a library's name."""
    routes = (d for d in decisions if d.about == "route" and d.target == target)
    return {d.workload.hash: d.winner.name for d in routes}


def _option_data(option: Option) -> dict[str, Any]:
    schedule = {} if option.schedule is None else {"schedule": option.schedule}
    seconds = [float(f"{s:.6g}") for s in option.seconds]
    return {"name": option.name, **schedule, "seconds": seconds}


def decision_from_data(data: dict[str, Any]) -> Decision:
    """The decision that parsed JSON says; errors as of ``from_json``."""
    check_version(data, DECISION_VERSION)
    if data.get("kind") != "decision":
        raise RecordError("not a decision")
    about = data.get("about")
    if not isinstance(about, str):
        raise RecordError("about is no word")
    if about not in ABOUT:
        raise FutureRecordError(f"a decision about {about[:40]!r}")
    options, taken = data.get("options"), data.get("taken")
    if not isinstance(options, list) or not 0 < len(options) <= _MOST_OPTIONS:
        raise RecordError("options is no list of alternatives")
    if not isinstance(taken, int) or isinstance(taken, bool) or not 0 <= taken < len(options):
        raise RecordError("taken is no place among the options")
    texts = [data.get(name, "") for name in ("program", "time", "loopwright")]
    if not all(isinstance(text, str) and len(text) <= 1000 for text in texts):
        raise RecordError("program, time or loopwright is no text")
    made = tuple(_option_from(o) for o in options)
    if any((o.schedule is None) == (about == "schedule") for o in made):
        raise RecordError("a schedule where none belongs, or none where one does")
    if not made[taken].seconds:
        raise RecordError("what is taken was never measured")
    return Decision(about, workload_from(data), target_from(data), made, taken, *texts)


def _option_from(data: Any) -> Option:
    if not isinstance(data, dict):
        raise RecordError("an option is no object")
    name, seconds, schedule = data.get("name"), data.get("seconds"), data.get("schedule")
    if not isinstance(name, str) or len(name) > 200:
        raise RecordError("an option has no name")
    if not isinstance(seconds, list) or not isinstance(schedule, list | None):
        raise RecordError("an option's seconds or schedule is no list")
    steps = None if schedule is None else tuple(schedule)
    return Option(name, tuple(seconds_from(s) for s in seconds), steps)

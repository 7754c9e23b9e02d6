"""One decision between alternatives that were measured together, as a line of the log.

::

    {"v": 2, "kind": "decision", "about": "schedule",
     "workload": {"hash": "3f9a...", "text": "matmul float32 i=1 j=4096 k=4096", "prim": "..."},
     "target": {"isa": "x86-64-v4", ...},
     "options": [{"name": "tile/7", "schedule": [...], "seconds": [0.00233, 0.00231]},
                 {"name": "tile/7", "schedule": [...], "seconds": [0.00286, 0.00284]}],
     "taken": 0, "program": "main 81c2...", "time": "2026-11-20T10:00:00Z", "loopwright": "0.1.0"}

``about`` is "schedule" where two schedules of one kernel were interleaved inside a whole program:
the one that was built before, and the one that is fastest alone. A "route" is of older versions,
which could leave a matrix product to NumPy's library, and is not heeded. Otherwise it is a choice
in the graph ("algorithm", "fusion", "layout", "loop"), and the workload is its choice point.
Options that are not schedules have names alone. Versions older than decisions take the line for one
of a later version: they skip it, and keep it when they prune.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from ...ir.dataclass import dataclass
from .. import record
from ..record_line import FutureRecordError, RecordError, check_version, data_of

DECISION_VERSION = 2

ABOUT = {
    "schedule": "which of two schedules a kernel gets, measured in a whole program",
    "algorithm": "how an operator is computed",
    "fusion": "whether operators become one kernel",
    "layout": "whether the order of axes that suits an operator is kept by what follows",
    "loop": "whether a loop computes what its iterations need by itself or finds it there",
    "route": "whether an older version left a product to NumPy's library; not heeded",
}

GRAPH_CHOICES = frozenset({"algorithm", "fusion", "layout", "loop"})

_MOST_OPTIONS = 64


@dataclass(frozen=True, slots=True)
class Option:
    """An alternative: its name, the seconds of every sample, and its steps if it is a schedule."""

    name: str
    seconds: tuple[float, ...] = ()
    schedule: tuple[Any, ...] | None = None

    @property
    def cost(self) -> float:
        """Seconds per call; inf if it never ran."""
        return record.robust_seconds(self.seconds) if self.seconds else float("inf")

    @property
    def key(self) -> str:
        """Identifies the option: the schedule's text if it is one, otherwise its name."""
        return self.name if self.schedule is None else record.schedule_key(self.schedule)


@dataclass(frozen=True)
class Decision:
    """``options[taken]`` is used from now on; ``program`` is where it was measured."""

    about: str
    workload: record.Workload
    target: record.TargetKey
    options: tuple[Option, ...]
    taken: int
    program: str = ""
    time: str = field(default_factory=record.timestamp)
    version: str = field(default_factory=record.own_version)

    @property
    def winner(self) -> Option:
        """The option that is used."""
        return self.options[self.taken]

    @property
    def losers(self) -> tuple[Option, ...]:
        """The other options."""
        return tuple(o for n, o in enumerate(self.options) if n != self.taken)

    def to_json(self) -> str:
        """Returns one line without its line end."""
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
        """Reads one line. Raises RecordError, which describes what is wrong with it."""
        return decision_from_data(data_of(line))


def taken_options(decisions: Iterable[Decision], target: record.TargetKey) -> dict[str, str]:
    """Returns the options used on a target, by the key of their choice point. The last decision
    counts."""
    graph = (d for d in decisions if d.about in GRAPH_CHOICES and d.target == target)
    return {d.workload.hash: d.winner.name for d in graph}


def _option_data(option: Option) -> dict[str, Any]:
    schedule = {} if option.schedule is None else {"schedule": option.schedule}
    return {"name": option.name, **schedule, "seconds": record.rounded(option.seconds)}


def decision_from_data(data: dict[str, Any]) -> Decision:
    """Returns the decision in parsed JSON; errors as of ``Decision.from_json``."""
    check_version(data, DECISION_VERSION)
    if data.get("kind") != "decision":
        raise RecordError("not a decision")
    about = data.get("about")
    if not isinstance(about, str):
        raise RecordError("about is not a word")
    if about not in ABOUT:
        raise FutureRecordError(f"a decision about {about[:40]!r}")
    options = tuple(_option_from(option) for option in record.list_from(data, "options"))
    if not 0 < len(options) <= _MOST_OPTIONS:
        raise RecordError("options is not a list of alternatives")
    index = record.integer_from(data, "taken", least=0)
    if index >= len(options):
        raise RecordError("taken is not the index of an option")
    if any((o.schedule is None) == (about == "schedule") for o in options):
        raise RecordError("a schedule where none belongs, or none where one does")
    if not options[index].seconds:
        raise RecordError("the option that is used was never measured")
    texts = (record.text_from(data, name) for name in ("program", "time", "loopwright"))
    return Decision(
        about, record.workload_from(data), record.target_from(data), options, index, *texts
    )


def _option_from(data: Any) -> Option:
    if not isinstance(data, dict):
        raise RecordError("an option is not an object")
    steps = None if data.get("schedule") is None else tuple(record.list_from(data, "schedule"))
    return Option(record.text_from(data, "name"), record.seconds_from(data, "seconds"), steps)

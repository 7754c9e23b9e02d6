"""{"v": 2, "kind": "run", "run": "9c0e...", "tasks": [{"hash": ..., "prim": ..., "weight": 4}],
     "target": {...}, "machine": {...}, "seed": 0, "strategy": "guided", "settings": {...},
     "budget": {"seconds": 60, "trials": null}, "model": "...", "suggested": {hash: [row, ...]},
     "given": {hash: [schedule, ...]}, "known": 120, "time": ...}
    (the records of the run, each with "run", "at", "predicted", "took")
    {"v": 2, "kind": "end", "run": "9c0e...", "stopped": "budget", "seconds": 60.1,
     "engine": 4.2, "quality": {...}}

``known`` records stood before it: with the model and the logs that come with the package they are
all that the engine knew. A run without an end was killed.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

from ...codegen.machine import known_machine
from ...ir.dataclass import dataclass
from ..budget import BudgetClock
from ..record import MeasureRecord, timestamp
from ..request import TuneRequest
from ..task import Task
from .log_file import LogError
from .note import Note
from .tuning_log import TuningLog

Quality: TypeAlias = Mapping[str, float | None] | None


@dataclass
class Journal:
    """The journal of one run. Raises LogError if ``log`` cannot be written."""

    log: TuningLog
    run: str

    @staticmethod
    def begin(
        log: TuningLog,
        tasks: Sequence[Task],
        request: TuneRequest,
        model: str,
    ) -> Journal:
        """Writes the note of a run with the cost model of this name."""
        budget, suggested, given = request.limits, request.suggestions, request.given
        run, t = secrets.token_hex(6), tasks[0].target if tasks else None
        log.append(
            Note(
                "run",
                {
                    "run": run,
                    "program": True,  # false in notes of a loop for one kernel, which is gone
                    "tasks": [_task_data(task) for task in tasks],
                    "target": {**asdict(t), "features": sorted(t.features)} if t else {},
                    "machine": asdict(known_machine(t)) if t else {},
                    "peak_flops": request.peak_flops,
                    "seed": request.seed,
                    "strategy": request.strategy,
                    "settings": asdict(request.settings),
                    "budget": {
                        "seconds": budget.seconds,
                        "trials": budget.trials,
                        **({"quick": True} if budget.quick else {}),
                    },
                    "model": model,
                    "suggested": {
                        workload: [[int(v) for v in row] for row in rows]
                        for workload, rows in suggested.items()
                        if len(rows)
                    },
                    "given": {w: [list(s) for s in steps] for w, steps in given.items() if steps},
                    "libraries": library_versions(),
                    "known": len(log),
                    "time": timestamp(),
                },
            )
        )
        return Journal(log, run)

    def stamped(
        self, record: MeasureRecord, clock: BudgetClock, predicted: float | None = None
    ) -> MeasureRecord:
        """Returns the record with the run's id, the clock's last mark and the model's score."""
        return replace(record, run=self.run, at=clock.marked, predicted=predicted)

    def end(self, stopped: str, seconds: float, engine: float, quality: Quality) -> None:
        """Writes the note of a run's end. A log that cannot be written was reported before."""
        numbers = None if quality is None else {k: v for k, v in quality.items() if v == v}
        data = {
            "run": self.run,
            "stopped": stopped,
            "seconds": round(seconds, 3),
            "engine": round(engine, 3),
            "quality": numbers,
            "time": timestamp(),
        }
        with suppress(LogError):
            self.log.append(Note("end", data))


def _task_data(task: Task) -> dict[str, Any]:
    return {
        "hash": task.workload.hash,
        "name": task.name,
        "text": task.workload.text,
        "prim": task.workload.prim,
        **({"range": task.workload.range, "at": task.workload.at} if task.workload.at else {}),
        **({"handed": task.handed} if task.handed else {}),
        "weight": task.weight,
        "threads": task.threads,
        "flops": task.flops,
        "bytes": task.bytes,
        "seconds": task.seconds if math.isfinite(task.seconds) else None,
        "floor": task.floor,
        "importance": task.importance,
    }


def library_versions() -> dict[str, str]:
    """Returns the versions of libraries that a model's trees and random numbers depend on."""
    versions: dict[str, str] = {}
    for name in ("loopwright", "numpy", "xgboost"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions

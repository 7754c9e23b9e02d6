"""A line of the results: one workload on so many threads."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from .libraries import OURS
from .workload import Workload

__all__ = ["Row", "append", "geomean", "json_line", "read"]


@dataclass(slots=True)
class Row:
    """Seconds per call by library; a missing one is not there, and ``failed`` may say why.

    ``limit`` is the least the machine could need, ``limited_by`` what sets it. ``wrong`` is how far
    each result is off, in tolerances; ``ready`` what each library took to trace, compile and run
    once; ``tuning`` what tuning took.
    """

    workload: str
    threads: int
    limit: float
    limited_by: str
    family: str = ""
    kind: str = ""
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    flops: int = 0
    bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    wrong: dict[str, float] = field(default_factory=dict[str, float])
    ready: dict[str, float] = field(default_factory=dict[str, float])
    tuning: float = 0.0

    @staticmethod
    def of(workload: Workload, threads: int, limit: tuple[float, str]) -> Row:
        """A row to be filled."""
        size = workload.read + workload.written
        kind, params = workload.kind, dict(workload.params)
        family, flops = workload.family, workload.flops
        return Row(workload.name, threads, *limit, family, kind, params, flops, size)

    @property
    def ours(self) -> float | None:
        """Tuned, if it was; else untuned."""
        return self.seconds.get("tuned", self.seconds.get("untuned"))

    @property
    def best_peer(self) -> tuple[str, float] | None:
        """The fastest library that is not ours."""
        return self.fastest(lambda name: name not in OURS)

    def fastest(self, which: Callable[[str], bool]) -> tuple[str, float] | None:
        """The fastest of some libraries."""
        some = {n: s for n, s in self.seconds.items() if which(n)}
        return min(some.items(), key=lambda item: item[1]) if some else None

    def lead(self, mine: str = "tuned") -> float | None:
        """Time of the fastest peer over ours."""
        peer = self.best_peer
        return peer[1] / self.seconds[mine] if peer and mine in self.seconds else None

    def share(self, mine: str = "tuned") -> float | None:
        """The limit, over what we take."""
        return self.limit / self.seconds[mine] if mine in self.seconds else None


def geomean(values: list[float]) -> float:
    """The geometric mean; NaN of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def json_line(row: Row) -> str:
    """The row as one line of JSON."""
    return json.dumps(asdict(row))


def append(path: Path, line: str) -> None:
    """Write a line so that it is there whatever happens next."""
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> list[Row]:
    """The rows of a file; other lines, and torn ones, are passed over."""
    names = {f.name for f in fields(Row)}
    rows: list[Row] = []
    for line in path.read_text().splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and {"workload", "threads", "limit"} <= set(values) <= names:
            rows.append(Row(**values))
    return rows

"""The roles of the search engine, as protocols, and the arrays that pass between them.

A *population* is an ``int32[n, K]`` array: a row is a candidate, a column is a knob, and column c
holds values ``0 <= value < knobs[c].size``. Costs are seconds; a failed candidate costs ``inf``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..ir.dataclass import dataclass
from .record import MeasureRecord, schedule_key

Population: TypeAlias = npt.NDArray[np.int32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
Score: TypeAlias = Callable[[Population], FloatArray]
"""float32[n] of a population: higher is faster."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One decision: a value ``0 <= v < size``."""

    name: str
    size: int


class ScheduleLike(Protocol):
    """The engine's view of a schedule: its JSON."""

    def to_json(self) -> list[Any]: ...


class SearchSpace(Protocol):
    """All schedules offered for one PrimFunc on one target, as rows of integers."""

    @property
    def knobs(self) -> tuple[Knob, ...]: ...

    def sample(self, n: int, rng: np.random.Generator) -> Population:
        """Up to ``n`` valid rows, fewer where the space is small."""
        ...

    def mutate(self, rows: Population, rng: np.random.Generator) -> Population:
        """As many valid rows, each a small step from its parent."""
        ...

    def valid(self, rows: Population) -> BoolArray: ...

    def features(self, rows: Population) -> npt.NDArray[np.float32]:
        """float32[n, F], the same F for every task."""
        ...

    def default(self) -> Population:
        """Returns the default rows of the rules, best first."""
        ...

    def schedule(self, row: npt.NDArray[np.int32]) -> ScheduleLike: ...

    def row_of(self, schedule: Any) -> npt.NDArray[np.int32] | None:
        """The row of a schedule, None if it is not in this space."""
        ...

    def refit(self, schedule: Any) -> npt.NDArray[np.int32] | None:
        """The row closest to a schedule of the same kind of workload at other sizes."""
        ...


class CostModel(Protocol):
    """Learns which of two candidates of a task is faster."""

    @property
    def trained(self) -> bool:
        """True if predictions are meaningful."""
        ...

    def predict(self, features: FloatArray) -> FloatArray:
        """float32[n]: higher is faster. Comparable within a task only."""
        ...

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        """Learns from float[n, F] features and float[n] seconds (inf: failed) of one task."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule to be measured, as JSON data (``row`` is its place in the space)."""

    schedule: tuple[Any, ...]
    sketch: str = ""
    row: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """The schedule as text, equal for equal schedules."""
        return schedule_key(self.schedule)


class Measurer(Protocol):
    """Builds, checks and times candidates of one task in processes of their own."""

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float, /
    ) -> Iterator[tuple[int, MeasureRecord]]:
        """Records as they are completed, with the index of their candidate."""
        ...

    def race(
        self, candidates: Sequence[Candidate], rounds: int, cache: str = "warm", /
    ) -> list[MeasureRecord]:
        """Measures good candidates again in interleaved rounds, so that drift meets all alike.

        A record has a sample per round, taken with the operands in the caches ("warm") or where the
        program leaves them ("place").
        """
        ...

    def close(self) -> None: ...

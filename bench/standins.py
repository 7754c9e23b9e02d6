"""Trivial stand-ins for the roles, so that the loop runs without compiling anything.

``SyntheticSpace`` has a known cost surface: tile sizes that should fill a vector, fit a cache and
leave few remainders, which interact about as those of real kernels do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from loopwright.autotune.protocols import BoolArray, Candidate, FloatArray, Knob, Population
from loopwright.autotune.record import Check, MeasureRecord, Workload, timestamp
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target

__all__ = [
    "SyntheticMeasurer",
    "SyntheticSchedule",
    "SyntheticSpace",
    "UntrainedModel",
    "synthetic_task",
]

_TILES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])


@dataclass(frozen=True, slots=True)
class SyntheticSchedule:
    """A row, as the data that a schedule is."""

    row: tuple[int, ...]

    def to_json(self) -> list[Any]:
        return [["tile", list(self.row)]]


class SyntheticSpace:
    """A matrix product of ``size``: knobs i, j, k tiles, unroll, order, packing.

    Rows whose tile does not fit the registers are invalid.
    """

    def __init__(self, size: tuple[int, int, int] = (256, 256, 256)) -> None:
        self.size = size
        self.knobs = (
            Knob("tile_i", len(_TILES)),
            Knob("tile_j", len(_TILES)),
            Knob("tile_k", len(_TILES)),
            Knob("outer_i", 6),
            Knob("outer_j", 6),
            Knob("unroll", 4),
            Knob("order", 4),
            Knob("pack", 3),
        )
        self._sizes = np.array([k.size for k in self.knobs])

    def sample(self, n: int, rng: np.random.Generator) -> Population:
        rows = rng.integers(0, self._sizes, size=(2 * n, len(self._sizes)), dtype=np.int32)
        return rows[self.valid(rows)][:n]

    def mutate(self, rows: Population, rng: np.random.Generator) -> Population:
        new = rows.copy()
        column = rng.integers(0, len(self._sizes), len(rows))
        place = np.arange(len(rows))
        step = rng.choice(np.array([-1, 1], np.int32), len(rows))
        new[place, column] = (new[place, column] + step) % self._sizes[column]
        return self._repaired(new, rows)

    def _repaired(self, new: Population, parent: Population) -> Population:
        return np.where(self.valid(new)[:, None], new, parent).astype(np.int32)

    def valid(self, rows: Population) -> BoolArray:
        return self._registers(rows) <= 64

    def _registers(self, rows: Population) -> FloatArray:
        i, j = _TILES[rows[:, 0]], _TILES[rows[:, 1]]
        return i * np.ceil(j / 16) + np.ceil(j / 16) + 1

    def features(self, rows: Population) -> npt.NDArray[np.float32]:
        i, j, k = (_TILES[rows[:, c]].astype(np.float64) for c in range(3))
        m, n, depth = self.size
        registers = self._registers(rows)
        tails = [-m % i / m, -n % j / n, -depth % k / depth, -j % 16 / 16]
        columns = [
            np.log2(i), np.log2(j), np.log2(k), registers, i * np.ceil(j / 16),
            (i + j) / (i * j), np.log2(4 * k * (i + j)), *rows[:, 3:].T, *tails,
            np.log2(4 * i * 2.0 ** rows[:, 3] * k), np.log2(4 * j * 2.0 ** rows[:, 4] * k),
            np.full(len(rows), np.log2(m)), np.full(len(rows), np.log2(n)),
        ]  # fmt: skip
        return np.stack(columns, axis=1).astype(np.float32)

    def default(self) -> Population:
        return np.array([[3, 7, 7, 1, 1, 1, 0, 1], [2, 5, 5, 0, 0, 0, 0, 0]], np.int32)

    def schedule(self, row: npt.NDArray[np.int32]) -> SyntheticSchedule:
        return SyntheticSchedule(tuple(int(v) for v in row))

    def row_of(self, schedule: Any) -> npt.NDArray[np.int32] | None:
        try:
            ((word, values),) = schedule
            row = np.array(values, np.int64)
        except (TypeError, ValueError):
            return None
        inside = row.shape == self._sizes.shape and ((row >= 0) & (row < self._sizes)).all()
        return row.astype(np.int32) if word == "tile" and inside else None

    def refit(self, schedule: Any) -> npt.NDArray[np.int32] | None:
        return self.row_of(schedule)

    def seconds(self, rows: Population) -> npt.NDArray[np.float64]:
        """The cost surface: seconds per call of int32[n, K] rows, without noise."""
        i, j, k = (_TILES[rows[:, c]].astype(np.float64) for c in range(3))
        m, n, depth = self.size
        work = 2.0 * m * n * depth / 100e9
        chains = i * np.ceil(j / 16)
        spilled = np.maximum(0.0, self._registers(rows) - 32) / 8
        cached = np.abs(np.log2(4 * k * 2.0 ** rows[:, 3] * (i + j)) - 14) / 5
        waste = np.ceil(m / i) * i / m * np.ceil(n / j) * j / n * np.ceil(j / 16) * 16 / j
        unrolled = 1 + 0.1 * np.abs(rows[:, 5] - np.clip(np.log2(96 / chains), 0, 3))
        order = np.array([1.0, 1.15, 1.3, 1.1])[(rows[:, 6] + rows[:, 4] // 3) % 4]
        packed = np.array([1.4, 1.0, 1.1])[rows[:, 7]]
        return (
            work
            * waste
            * (1 + 6 / chains + spilled)
            * (1 + 0.3 * cached)
            * unrolled
            * order
            * packed
        )


def synthetic_task(
    size: tuple[int, int, int] = (256, 256, 256), name: str = "matmul", weight: int = 1
) -> Task:
    """A task on a SyntheticSpace."""
    text = f"synthetic matmul [{', '.join(map(str, size))}]"
    return Task(
        prim=text,
        target=Target.host(),
        space=SyntheticSpace(size),
        workload=Workload(hashlib.sha256(text.encode()).hexdigest()[:16], text, text),
        name=name,
        weight=weight,
        flops=2.0 * size[0] * size[1] * size[2],
        parse=list,
    )


class UntrainedModel:
    """A cost model that never knows anything."""

    trained = False

    def predict(self, features: FloatArray) -> FloatArray:
        return np.zeros(len(features), np.float32)

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        """Learn nothing."""


class SyntheticMeasurer:
    """Looks the cost up instead of measuring it.

    ``fault(row)`` may name an error for a row; ``noise`` is the relative spread of the samples.
    """

    def __init__(
        self,
        task: Task,
        *,
        noise: float = 0.01,
        seed: int = 0,
        fault: Callable[[tuple[int, ...]], str | None] = lambda row: None,
    ) -> None:
        assert isinstance(task.space, SyntheticSpace)
        self.task = task
        self.space = task.space
        self.noise = noise
        self.fault = fault
        self.rng = np.random.default_rng(seed)
        self.count = 0

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float
    ) -> Iterator[tuple[int, MeasureRecord]]:
        for index, candidate in enumerate(candidates):
            self.count += 1
            yield index, self._record(candidate, samples=3)

    def race(
        self, candidates: Sequence[Candidate], rounds: int, cache: str = "warm"
    ) -> list[MeasureRecord]:
        return [self._record(c, samples=rounds) for c in candidates]

    def close(self) -> None:
        """Nothing is open."""

    def _record(self, candidate: Candidate, samples: int) -> MeasureRecord:
        row = tuple(candidate.schedule[0][1])
        error = self.fault(row)
        seconds: tuple[float, ...] = ()
        if error is None:
            true = float(self.space.seconds(np.array([row], np.int32))[0])
            seconds = tuple(true * (1 + abs(self.rng.normal(0, self.noise, samples))))
        return MeasureRecord(
            workload=self.task.workload,
            target=self.task.key,
            schedule=candidate.schedule,
            sketch=candidate.sketch,
            seconds=seconds,
            error=error,
            checked=None if error else Check(0.0, 1e-6),
            time=timestamp(),
        )

"""The base of the search strategies: memory of measured rows, and a queue of rows to begin with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..protocols import FloatArray, Population, Score, SearchSpace
from ..settings import DEFAULT_SETTINGS, TuneSettings


class RowSet:
    """A set of rows for queries of thousands at once; a row is known by a 64-bit hash."""

    def __init__(self, columns: int) -> None:
        rng = np.random.default_rng(0x100_9)  # equal in every process
        self._multipliers = rng.integers(1, 2**63, size=columns, dtype=np.uint64) * 2 + 1
        self._known = np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self._known)

    def hashes(self, rows: Population) -> npt.NDArray[np.uint64]:
        """uint64[n] of int32[n, K]."""
        mixed = (rows.astype(np.uint64) + np.uint64(1)) * self._multipliers
        mixed ^= mixed >> np.uint64(29)
        total = mixed.sum(axis=1, dtype=np.uint64)
        return total ^ (total >> np.uint64(32))

    def add(self, rows: Population) -> None:
        self._known = np.union1d(self._known, self.hashes(rows))

    def contains(self, rows: Population) -> npt.NDArray[np.bool_]:
        """bool[n]."""
        return np.isin(self.hashes(rows), self._known)


def unique_rows(rows: Population, memory: RowSet) -> Population:
    """Returns the rows, each once, that are not in ``memory``, in their order."""
    if not len(rows):
        return rows
    hashes = memory.hashes(rows)
    _, first = np.unique(hashes, return_index=True)
    keep = np.sort(first)
    fresh = ~np.isin(hashes[keep], memory._known)
    return rows[keep[fresh]]


class Explorer:
    """The search by random samples, and the base of the other strategies.

    It starts with the default rows of the rules and never repeats a row.
    """

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        self.space = space
        self.settings = settings
        self.rng = np.random.default_rng(seed)
        self.measured = np.empty((0, len(space.knobs)), np.int32)
        self.costs = np.empty(0, np.float64)
        self._memory = RowSet(len(space.knobs))
        #: rows that come next after the last batch, best first, in place of twins among it
        self.spare = np.empty((0, len(space.knobs)), np.int32)
        self._queue = np.asarray(space.default(), np.int32).reshape(-1, len(space.knobs))

    def suggest(self, rows: Population) -> None:
        """Queue rows from elsewhere, such as a log, before all others."""
        self._queue = np.concatenate([np.asarray(rows, np.int32), self._queue])

    @property
    def queued(self) -> int:
        """The number of rows that come before the search itself."""
        return len(self._queue)

    def observe(self, rows: Population, costs: FloatArray) -> None:
        """Remember the measured seconds of int32[n, K] rows (inf: failed)."""
        rows = np.asarray(rows, np.int32).reshape(-1, len(self.space.knobs))
        self.measured = np.concatenate([self.measured, rows])
        self.costs = np.concatenate([self.costs, np.asarray(costs, np.float64)])
        self._memory.add(rows)

    def leave_out(self, rows: Population) -> None:
        """Never propose these rows."""
        self._memory.add(rows)

    def propose(self, score: Score | None, count: int) -> Population:
        """Up to ``count`` rows not measured yet; ``score`` is None while the model is untrained."""
        queued = unique_rows(self._queue, self._memory)
        batch, self._queue = queued[:count], queued[count:]
        self.spare = batch[:0]
        if len(batch) < count:
            more = self.explore(score, count)
            every = unique_rows(np.concatenate([batch, more]), self._memory)
            batch, self.spare = every[:count], every[count:]
        return batch if len(batch) == count else self._fill(batch, count)

    def explore(self, _score: Score | None, count: int) -> Population:
        """The strategy itself: about ``count`` rows, best first. Here they are random samples."""
        return self.fresh(2 * count)

    def fresh(self, count: int) -> Population:
        """Up to ``count`` sampled rows that were not measured."""
        return unique_rows(self.space.sample(count, self.rng), self._memory)

    def best_measured(self, count: int) -> Population:
        """Up to ``count`` measured rows that ran, fastest first."""
        order = np.argsort(self.costs, kind="stable")[:count]
        return self.measured[order[np.isfinite(self.costs[order])]]

    def _fill(self, rows: Population, count: int) -> Population:
        """Returns ``rows`` completed with samples to ``count``, or fewer in a small space."""
        for _ in range(3):
            rows = unique_rows(
                np.concatenate([rows, self.space.sample(4 * count, self.rng)]), self._memory
            )
            if len(rows) >= count:
                break
        return rows[:count]

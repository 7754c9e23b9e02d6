"""The search strategies: their base, which remembers measured rows, and each of them by name.

``guided`` is the default. ``random`` is the baseline that every other strategy has to beat, and
``grid`` meets every row of a small space. ``predicted`` takes what the model rates best and looks
no further.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

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


class GuidedSearch(Explorer):
    """After the default rows, the rows of the pool in the order of their scores, and samples."""

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._left = np.empty((0, len(space.knobs)), np.int32)

    def explore(self, score: Score | None, count: int) -> Population:
        if score is None:
            return self.fresh(2 * count)
        # Samples are of all there is: of some kernels the model dislikes the fastest.
        chance = self.fresh(round(self.settings.epsilon * count))
        centres = self.best_measured(self.settings.parents)
        centres = centres if len(centres) else self.space.default()
        pool = pool_around(centres, self.space, self.rng, self.settings)
        ranked = self._ranked(np.concatenate([pool, self._left]), score)
        best = ranked[: count - len(chance)]
        self._left = ranked[len(best) : self.settings.spare_batches * count]
        return np.concatenate([_dealt(best, chance), self._left])

    def _ranked(self, rows: Population, score: Score) -> Population:
        """Returns the rows that were not measured, each once, in the order of their scores.

        Rows of one score have the same features, as their loop nests mostly are the same: one of
        each comes first, so that a batch is filled at once with different ones.
        """
        rows = unique_rows(rows, self._memory)
        scores = score(rows) if len(rows) else np.empty(0)
        order = np.argsort(-scores, kind="stable")
        repeated = np.append(False, np.diff(scores[order]) == 0)[: len(order)]
        return rows[np.concatenate([order[~repeated], order[repeated]])]


class BestPredicted(GuidedSearch):
    """The search of the budget "quick": the default row and rows suggested by a log, then the other
    defaults and the pool around all of them in the order of their scores."""

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._sure = 1

    def suggest(self, rows: Population) -> None:
        super().suggest(rows)
        self._sure = max(self._sure, len(rows))

    @property
    def queued(self) -> int:
        """Returns 0: beside the default row, the defaults have to be rated well, too."""
        return 0

    def propose(self, score: Score | None, count: int) -> Population:
        if score is None:
            return super().propose(score, count)
        sure = unique_rows(self._queue[: self._sure], self._memory)[: max(1, count // 2)]
        pool = pool_around(self.space.default(), self.space, self.rng, self.settings)
        others = np.concatenate([self._queue, pool])
        others = unique_rows(np.concatenate([sure, others]), self._memory)[len(sure) :]
        self._sure, self._queue = 0, self._queue[:0]
        every = np.concatenate([sure, self._ranked(others, score)])
        self.spare = every[count : self.settings.spare_batches * count]
        return self._fill(every[:count], count)


def pool_around(
    centres: Population,
    space: SearchSpace,
    rng: np.random.Generator,
    settings: TuneSettings = DEFAULT_SETTINGS,
) -> Population:
    """Returns rows near to ``centres``, rows near to those, and samples; some repeatedly."""
    samples = space.sample(settings.random, rng)
    if not len(centres):
        return samples
    near = space.mutate(np.repeat(centres, -(-settings.near // len(centres)), axis=0), rng)
    return np.concatenate([near, space.mutate(near, rng), samples])


def _dealt(best: Population, chance: Population) -> Population:
    """Returns all rows, those by chance spread among the best: a batch may end early.

    >>> _dealt(np.array([[1], [2], [3], [4]]), np.array([[7], [8]])).ravel().tolist()
    [1, 7, 2, 3, 8, 4]
    """
    order = [(np.arange(len(part)) + 0.5) / max(1, len(part)) for part in (best, chance)]
    rows = np.concatenate([best, chance])
    return rows[np.argsort(np.concatenate(order), kind="stable")]


_CHUNK = 4096
"""Rows that a grid search looks at together."""


class GridSearch(Explorer):
    """Every row of the space once, as the mixed-radix numbers of the rows.

    The walk over the numbers has a stride near the golden section of their count and coprime to it,
    so that every prefix of it is spread over the whole space.
    """

    def __init__(
        self, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
    ) -> None:
        super().__init__(space, seed, settings)
        self._sizes = [k.size for k in space.knobs]
        self._total = math.prod(self._sizes)
        self._stride = max(1, int(self._total * 0.6180339887498949))
        while math.gcd(self._stride, self._total) != 1:
            self._stride += 1
        self._next = 0

    def explore(self, _score: Score | None, count: int) -> Population:
        batch = np.empty((0, len(self._sizes)), np.int32)
        while len(batch) < count and self._next < self._total:
            rows = self._rows(min(_CHUNK, self._total - self._next))
            allowed = np.flatnonzero(self.space.valid(rows) & ~self._memory.contains(rows))
            take = allowed[: count - len(batch)]
            full = len(batch) + len(take) == count
            self._next += int(take[-1]) + 1 if full and len(take) else len(rows)
            batch = np.concatenate([batch, rows[take]])
        return batch

    def _rows(self, count: int) -> Population:
        numbers = [(self._next + i) * self._stride % self._total for i in range(count)]
        rows = np.empty((count, len(self._sizes)), np.int32)
        for row, number in zip(rows, numbers):  # Python's integers: there may be over 2^63 rows
            for column, size in enumerate(self._sizes):
                number, row[column] = divmod(number, size)
        return rows


STRATEGIES: Mapping[str, type[Explorer]] = MappingProxyType(
    {
        "guided": GuidedSearch,
        "random": Explorer,
        "grid": GridSearch,
        "predicted": BestPredicted,
    }
)
DEFAULT_STRATEGY = "guided"


def make_strategy(
    name: str, space: SearchSpace, seed: int = 0, settings: TuneSettings = DEFAULT_SETTINGS
) -> Explorer:
    """A strategy over ``space``. ValueError names the strategies there are."""
    if name not in STRATEGIES:
        raise ValueError(f"unknown strategy {name!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name](space, seed, settings)

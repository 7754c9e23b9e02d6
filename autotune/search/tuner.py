"""The tuner of one task: propose, measure, log, learn.

Everything measured is on disk before anything else happens with it, so that Ctrl-C, a kill or a
full disk cost nothing that was measured, and the next run goes on from the log. Which of a
program's tuners makes the next step is up to ``program/program_tuner.py``.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ..budget import BudgetClock
from ..log.journal import Journal
from ..log.lookup import fastest, pooled_costs
from ..log.tuning_log import TuningLog
from ..measure.kernels import on_one_thread
from ..measure.racing import race
from ..model.cost_model import JudgedModel, available_model
from ..progress import Progress
from ..protocols import Candidate, CostModel, FloatArray, Measurer, Population
from ..record import MeasureRecord, schedule_key
from ..request import TuneRequest
from ..task import Task
from .strategies import make_strategy

_MESSAGE = 200
_ATTEMPTS = 16
"""Proposals of nothing but known schedules before the space counts as exhausted."""


@dataclass
class Tuner:
    """The search on one task. Several can share a log, a model, and the journal of their run.

    ``confidence`` is how sure it is that no other leader is faster than the best one by more than
    ``settings.comparison.clear``, None if there was no race. ``engine_seconds`` were spent on
    proposing and learning.
    """

    task: Task
    measurer: Measurer
    log: TuningLog
    request: TuneRequest = field(default_factory=TuneRequest)
    model: CostModel = field(default_factory=lambda: JudgedModel(available_model()))
    journal: Journal | None = None

    def __post_init__(self) -> None:
        request = self.request
        self.settings = request.settings
        self.search = make_strategy(request.strategy, self.task.space, request.seed, self.settings)
        given = request.given.get(self.task.workload.hash, ())
        self._handed = [Candidate(tuple(steps), sketch) for steps, sketch in self.task.handed]
        self._handed += [Candidate(tuple(schedule), "user") for schedule in given]
        self._candidates: dict[bytes, Candidate] = {}  # by row, of one proposal
        self._computed: dict[bytes, FloatArray] = {}  # their features
        self.costs: dict[str, float] = {}
        self._alike: dict[bytes, Sequence[Any]] = {}  # the first schedule with these features
        self._nests: dict[bytes, set[Hashable]] = {}  # of rows with these features
        self._aside = self.task.space.default()[:0]  # rows with features of others
        self.best_seconds = math.inf
        self.first_seconds = math.inf
        self._first = ""
        self.trials = 0
        self.errors: Counter[str] = Counter()
        self.exhausted = False
        self.failure = ""
        self.engine_seconds = 0.0
        self.confidence: float | None = None
        self._group = f"{self.task.workload.hash}/{self.task.key}"
        suggestions = request.suggestions.get(self.task.workload.hash, ())
        if len(suggestions):
            # The rules' default goes first: a short budget must not end with less than that.
            default = list(self.task.space.default()[:1])
            self.search.suggest(np.stack([*default, *suggestions]))
        self._resume()

    def _resume(self) -> None:
        """Learn from the log's records of this task."""
        rows: list[Population] = []
        costs: list[float] = []
        for record in self.log.of(self.task.workload.hash, self.task.key):
            self._know(record)
            row = self.task.row_of(record.schedule)
            if row is not None:  # else it is a user's schedule, or of a rule that is gone
                rows.append(row)
                costs.append(record.cost)
                # A record of an older version says the same schedule in fewer steps.
                key = self._key(self._candidate(row).schedule)
                self.costs[key] = min(record.cost, self.costs.get(key, math.inf))
        if rows:
            self._learn(np.stack(rows), np.array(costs))

    def step(
        self, clock: BudgetClock, count: int, progress: Progress, within: float = math.inf
    ) -> int:
        """Propose, measure, log and learn up to ``count`` candidates. Returns the number measured.

        Ends ``within`` so many seconds of the clock's last mark, but measures one at least. Raises
        LogError if the log cannot be written: then nothing more was measured.
        """
        with self._at_work():
            handed = self._take_handed()
            # Builds end in any order, so more than count candidates could leave out one by hand.
            rows = self._propose(max(count - len(handed), min(count, 1)))
            scores = self._score(rows) if self.model.trained and len(rows) else None
        asked = [(self._candidate(row), place) for place, row in enumerate(rows)]
        asked[1:1] = [(candidate, -1) for candidate in handed]
        self.exhausted = not asked
        measured: list[int] = []
        costs: list[float] = []
        done, until = 0, clock.marked + within
        if asked:
            candidates = [candidate for candidate, _ in asked]
            for index, record in self.measurer.measure(candidates, self.best_seconds):
                clock.mark()
                place = asked[index][1]
                score = None if scores is None or place < 0 else float(scores[place])
                record = self._stamped(record, clock, score)
                self.log.append(record)  # on disk before anything else can fail
                self._count(record, clock)
                done += 1
                if place >= 0:
                    measured.append(place)
                    costs.append(record.cost)
                else:
                    self._learn_handed(asked[index][0], record.cost)
                progress.update(self, clock)
                if clock.spent or clock.marked >= until:
                    break
        with self._at_work():
            self._learn(rows[measured], np.array(costs))
        return done

    def _learn_handed(self, candidate: Candidate, cost: float) -> None:
        """Learns from a candidate of another size, if it is in the space."""
        row = None if candidate.sketch == "user" else self.task.row_of(candidate.schedule)
        if row is not None:
            self._learn(row[None], np.array([cost]))

    def fail(self, error: Exception) -> None:
        """End the search of this task; its records so far count."""
        self.failure = f"{type(error).__name__}: {' '.join(str(error).split())[:_MESSAGE]}"
        self.exhausted = True

    def hand(self, candidates: Sequence[Candidate]) -> None:
        """Has candidates from elsewhere measured with the next step."""
        self._handed += candidates

    def _take_handed(self) -> list[Candidate]:
        """Returns the candidates that were handed over and not measured before, each once."""
        handed = {self._key(c.schedule): c for c in reversed(self._handed)}
        self._handed = []
        return [c for key, c in reversed(handed.items()) if key not in self.costs]

    def finish(self, clock: BudgetClock | None = None) -> MeasureRecord | None:
        """Measure the leaders again, interleaved. Returns the best record.

        The first schedule ever tried takes part, so that before and after can be compared.
        """
        leaders = self._leaders()
        if len(leaders) > 1:
            entrants = [Candidate(r.schedule, r.sketch) for r in leaders]
            result = race(entrants, self.measurer, self.task.cache, self.settings)
            if clock is not None:
                clock.mark()
            for record in result.records:
                self.log.append(self._stamped(record, clock))
            self.confidence = result.confidence if result.records else None
        return self.best()

    def best(self) -> MeasureRecord | None:
        """The fastest of all records of the task, None if none ran."""
        pooled = self._pooled()
        fastest_entry = fastest(pooled)
        if fastest_entry is None:
            return None
        if self._first in pooled:
            self.first_seconds = pooled[self._first][0]
        self.best_seconds, record = fastest_entry
        return record

    def _stamped(
        self, record: MeasureRecord, clock: BudgetClock | None, predicted: float | None = None
    ) -> MeasureRecord:
        if self.journal is None or clock is None:
            return record
        return self.journal.stamped(record, clock, predicted)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.engine_seconds += time.perf_counter() - begun

    def _propose(self, count: int) -> Population:
        """Rows whose schedules were not measured before, one for each schedule.

        Twins give way to the rows that come next. Falls back to random samples when every row the
        model proposes was measured before.
        """
        self._candidates.clear()
        self._computed.clear()
        if not self.costs:  # the defaults are measured before any time is spent on a search
            count = min(count, self.search.queued) or count
        chosen = self._aside[:0]
        for attempt in range(_ATTEMPTS):
            guided = self.model.trained and attempt < _ATTEMPTS // 2
            rows = self.search.propose(self._score if guided else None, count)
            chosen = self._unlike(np.concatenate([rows, self.search.spare]), count)
            if not len(chosen):
                chosen = self._other_nests(count)
            if len(chosen) or not len(rows) + len(self._aside):
                break
        return chosen

    def _unlike(self, rows: Population, count: int) -> Population:
        """Returns up to ``count`` rows whose features are those of none before.

        Schedules with equal loop nests have equal features, and nine in ten of those that have
        them are such twins: they are put aside, without their schedules being made.
        """
        fresh, aside, measured = dict[str, int](), list[int](), dict[int, float]()
        for index, look in enumerate(self._looks(rows)):
            if look in self._alike:
                aside.append(index)
                continue
            schedule = self._candidate(rows[index]).schedule
            key = self._key(schedule)
            if key in self.costs:
                measured[index] = self.costs[key]
            elif len(fresh) == count:
                break
            else:
                fresh.setdefault(key, index)
            self._alike[look] = schedule
        if measured:
            self.search.observe(rows[[*measured]], np.array([*measured.values()]))
        self.search.leave_out(rows[aside])
        self._aside = np.concatenate([self._aside, rows[aside]])
        return rows[[*fresh.values()]]

    def _other_nests(self, count: int) -> Population:
        """Returns up to ``count`` of the rows put aside whose loop nests are those of no other row
        with the same features. Only nests of proposed schedules are compared: for all of a log it
        would take too long."""
        most = self.settings.spare_batches * count
        rows, left, fresh = self._aside[:most], most, dict[str, int]()
        for index, look in enumerate(self._looks(rows)):
            if len(fresh) == count:
                left = index
                break
            schedule = self._candidate(rows[index]).schedule
            if look not in self._nests:
                self._nests[look] = {self.task.nest_key(self._steps(self._alike[look]))}
            nest, key = self.task.nest_key(self._steps(schedule)), self._key(schedule)
            if nest not in self._nests[look] and key not in self.costs:
                fresh.setdefault(key, index)
            self._nests[look].add(nest)
        self._aside = self._aside[left:]
        return rows[[*fresh.values()]]

    def _looks(self, rows: Population) -> list[bytes]:
        """Returns what rows with equal features have in common."""
        if not len(rows):
            return []
        looks = self._features(rows).astype(np.float16)
        if self.task.threads == 1:
            looks[:, list(self.task.of_threads)] = 0
        return [look.tobytes() for look in looks]

    def _score(self, rows: Population) -> Any:
        return self.model.predict(self._features(rows))

    def _features(self, rows: Population) -> FloatArray:
        """Returns the features of rows, computed once in a proposal: a row that is ranked is
        compared with others, and maybe learned from."""
        keys = [row.tobytes() for row in rows]
        missing = {key: n for n, key in enumerate(keys) if key not in self._computed}
        if missing:
            self._computed |= zip(missing, self.task.space.features(rows[[*missing.values()]]))
        return np.array([self._computed[key] for key in keys])

    def _candidate(self, row: Population) -> Candidate:
        candidate = self._candidates.get(row.tobytes())
        if candidate is None:
            schedule = tuple(self.task.space.schedule(row).to_json())
            candidate = Candidate(schedule, self.task.sketch_of(row), tuple(int(v) for v in row))
            self._candidates[row.tobytes()] = candidate
        return candidate

    def _key(self, schedule: Sequence[Any]) -> str:
        """Returns a key that is equal for schedules that need not both be measured."""
        return schedule_key(self._steps(schedule))

    def _steps(self, schedule: Sequence[Any]) -> Sequence[Any]:
        return on_one_thread(schedule) if self.task.threads == 1 else schedule

    def _count(self, record: MeasureRecord, clock: BudgetClock) -> None:
        self.trials += 1
        clock.trials += 1
        self._know(record)
        if record.error is not None:
            self.errors[record.error] += 1

    def _know(self, record: MeasureRecord) -> None:
        same = self._key(record.schedule)
        self.costs[same] = min(record.cost, self.costs.get(same, math.inf))
        key = record.schedule_key
        if not math.isfinite(self.first_seconds) and record.ok:
            self.first_seconds, self._first = record.cost, key
        self.best_seconds = min(self.best_seconds, record.cost)

    def _learn(self, rows: Population, costs: Any) -> None:
        if len(rows):
            self.search.observe(rows, costs)
            self.model.update(self._group, self._features(rows), costs)

    def _pooled(self) -> dict[str, tuple[float, MeasureRecord]]:
        workload, key = self.task.workload.hash, self.task.key
        return pooled_costs(self.log.of(workload, key), self.log.decided(workload, key))

    def _leaders(self) -> list[MeasureRecord]:
        pooled = self._pooled()
        ranked = sorted(pooled, key=lambda key: pooled[key][0])[: self.settings.leaders]
        limit = self.settings.comparison.contender
        leaders = {key for key in ranked if pooled[key][0] <= limit * pooled[ranked[0]][0]}
        # Between equals the first one tried wins, so their order is kept.
        return [pooled[key][1] for key in pooled if key in leaders or key == self._first]

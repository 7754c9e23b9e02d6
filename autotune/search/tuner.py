"""The tuner: propose, measure, log, learn, until the budget is spent.

``Tuner`` holds what is known of one task; ``tune`` runs it. Everything measured is on disk before
anything else happens with it, so that Ctrl-C, a kill or a full disk cost nothing that was measured,
and the next run goes on from the log.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..budget import Budget, BudgetClock, parse_budget
from ..interrupts import terminable
from ..log.journal import Journal
from ..log.log_file import LogError
from ..log.lookup import fastest, pooled_costs
from ..log.record import MeasureRecord, schedule_key
from ..log.tuning_log import TuningLog
from ..measure.racing import race
from ..measure.twins import on_one_thread
from ..measure.worker_process import WorkerError
from ..model.cost_model import JudgedModel, available_model
from ..model.quality import ModelQuality, as_data
from ..progress import Progress, Silent
from ..protocols import Candidate, CostModel, Measurer, Population
from ..settings import DEFAULT_SETTINGS, TuneSettings
from ..task import Task, feature_count
from .early_stop import GainForecast
from .strategies import make_strategy

__all__ = ["TuneResult", "Tuner", "tune"]

_MESSAGE = 200
_ATTEMPTS = 16
"""Proposals of nothing but known schedules before the space counts as exhausted."""


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What tuning a task came to. Seconds are per call; inf where nothing ran.

    ``stopped`` is "budget", "exhausted" (the space has no more), "converged" (the model expects
    less than ``settings.least_gain`` of more turns, and they gained no more), "interrupted", or
    what is wrong with the log. ``confidence`` is how sure it is that no other leader is faster by
    more than ``settings.comparison.clear``, None if there was no race. ``model_failure`` says why a
    simpler cost model had to take over. ``engine_seconds`` went into proposing and learning.
    ``history`` has an entry (seconds since the start, candidates, best) per batch.
    """

    task: Task
    best: MeasureRecord | None
    before: float
    after: float
    trials: int
    errors: dict[str, int]
    seconds: float
    stopped: str
    quality: ModelQuality | None
    model_failure: str | None = None
    history: tuple[tuple[float, int, float], ...] = ()
    confidence: float | None = None
    engine_seconds: float = 0.0


@dataclass
class Tuner:
    """The search on one task. Several can share a log, a model, and the journal of their run.

    ``suggestions`` are rows and ``given`` schedules (JSON data, in the space or not) to be measured
    right after the rules' favourite. ``engine_seconds`` is the time spent proposing and learning.
    """

    task: Task
    measurer: Measurer
    log: TuningLog
    model: CostModel = field(default_factory=lambda: JudgedModel(available_model()))
    strategy: str = "evolutionary"
    settings: TuneSettings = DEFAULT_SETTINGS
    seed: int = 0
    suggestions: Sequence[Any] = ()
    given: Sequence[Any] = ()
    journal: Journal | None = None

    def __post_init__(self) -> None:
        self.search = make_strategy(self.strategy, self.task.space, self.seed, self.settings)
        self.costs: dict[str, float] = {}
        self._first_with_nest: dict[Hashable, str] = {}
        self._twin_of: dict[str, str] = {}
        self.best_seconds = math.inf
        self.first_seconds = math.inf
        self._first = ""
        self.trials = 0
        self.errors: Counter[str] = Counter()
        self.exhausted = False
        self.failure = ""
        self.engine_seconds = 0.0
        self.confidence: float | None = None
        self.forecast = GainForecast(self.settings, self.seed)
        self._group = f"{self.task.workload.hash}/{self.task.key}"
        if len(self.suggestions):
            # After the rules' favourite: what comes of a short budget must not be worse than that.
            favourite = list(self.task.space.default()[:1])
            self.search.suggest(np.stack([*favourite, *self.suggestions]))
        self._resume()

    def _resume(self) -> None:
        """Take up what the log knows of this task."""
        rows: list[Population] = []
        costs: list[float] = []
        for record in self.log.of(self.task.workload.hash, self.task.key):
            self._know(record)
            row = self.task.row_of(record.schedule)
            if row is not None:  # else it is the user's, or of rules that are not there (any more)
                rows.append(row)
                costs.append(record.cost)
                # A record of an older version says the same schedule in fewer steps.
                key = self._key(self._candidate(row).schedule)
                self.costs[key] = min(record.cost, self.costs.get(key, math.inf))
        if rows:
            self._learn(np.stack(rows), np.array(costs))

    def step(self, clock: BudgetClock, count: int, progress: Progress) -> int:
        """One turn of the loop with up to ``count`` candidates; the number measured.

        LogError if the log cannot be written: then nothing more was measured.
        """
        with self._at_work():
            rows = self._propose(count)
            scores = self._score(rows) if self.model.trained and len(rows) else None
        asked = [(self._candidate(row), place) for place, row in enumerate(rows)]
        asked[1:1] = [(candidate, -1) for candidate in self._handed()]
        self.exhausted = not asked
        measured: list[int] = []
        costs: list[float] = []
        before = self.best_seconds
        done = 0
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
                progress.update(self, clock)
                if clock.spent:
                    break
        with self._at_work():
            self._forecast(scores, measured, np.array(costs), before)
            self._learn(rows[measured], np.array(costs))
        return done

    def fail(self, error: Exception) -> None:
        """Search no more: what was measured so far counts."""
        self.failure = f"{type(error).__name__}: {' '.join(str(error).split())[:_MESSAGE]}"
        self.exhausted = True

    def _forecast(self, scores: Any, measured: list[int], costs: Any, before: float) -> None:
        """See whether another turn is worth it. A turn without the model's opinion says nothing."""
        if scores is None or not len(costs):
            return
        expected = self.forecast.expect(scores[measured], before)
        self.forecast.turn(expected, before, self.best_seconds)
        self.forecast.learn(scores[measured], costs)

    @property
    def converged(self) -> bool:
        """Whether the last turns were expected to gain next to nothing, and did not."""
        return self.forecast.stop

    def _handed(self) -> list[Candidate]:
        """Schedules of the user's that were not measured yet; they are handed out once."""
        handed = [Candidate(tuple(schedule), "user") for schedule in self.given]
        self.given = ()
        return [c for c in handed if self._key(c.schedule) not in self.costs]

    def finish(self, clock: BudgetClock | None = None) -> MeasureRecord | None:
        """Measure the leaders again, in turn, and say which is best.

        The first schedule ever tried takes part, so that before and after can be compared.
        """
        leaders = self._leaders()
        if len(leaders) > 1:
            again = [Candidate(r.schedule, r.sketch) for r in leaders]
            found = race(again, self.measurer, self.task.cache, self.settings)
            if clock is not None:
                clock.mark()
            for record in found.records:
                self.log.append(self._stamped(record, clock))
            self.confidence = found.confidence if found.records else None
        return self.best()

    def best(self) -> MeasureRecord | None:
        """The fastest of all records of the task, None if none ran."""
        pooled = self._pooled()
        found = fastest(pooled)
        if found is None:
            return None
        if self._first in pooled:
            self.first_seconds = pooled[self._first][0]
        self.best_seconds, record = found
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
        """Rows whose schedules were not measured yet, each schedule once: several rows can be one.

        Where the model only asks for what is known, chance goes on in its stead.
        """
        rows = self.task.space.default()[:0]
        if not self.costs:  # before time goes into a search, something is measured
            count = min(count, self.search.queued) or count
        for attempt in range(_ATTEMPTS):
            guided = self.model.trained and attempt < _ATTEMPTS // 2
            rows = self.search.propose(self._score if guided else None, count)
            keys = [self._proposed_key(self._candidate(row).schedule) for row in rows]
            first = {key: index for index, key in reversed(list(enumerate(keys)))}
            fresh = [index for key, index in first.items() if key not in self.costs]
            known = [index for index, key in enumerate(keys) if key in self.costs]
            if known:
                self.search.observe(rows[known], np.array([self.costs[keys[i]] for i in known]))
            if fresh or not len(rows):
                return rows[sorted(fresh)]
        return rows[:0]

    def _score(self, rows: Population) -> Any:
        return self.model.predict(self.task.space.features(rows))

    def _candidate(self, row: Population) -> Candidate:
        schedule = tuple(self.task.space.schedule(row).to_json())
        return Candidate(schedule, self.task.sketch_of(row), tuple(int(v) for v in row))

    def _key(self, schedule: Sequence[Any]) -> str:
        """Equal for schedules that need not both be measured, as far as that is known."""
        if self.task.threads == 1:
            schedule = on_one_thread(schedule)
        key = schedule_key(schedule)
        return self._twin_of.get(key, key)

    def _proposed_key(self, schedule: Sequence[Any]) -> str:
        """The same of a schedule that may be measured: its nest is compared with those of all that
        this tuner proposed. For those of the log that would take too long."""
        key = self._key(schedule)
        if key in self.costs or key in self._twin_of:
            return key
        steps = on_one_thread(schedule) if self.task.threads == 1 else schedule
        first = self._first_with_nest.setdefault(self.task.nest_key(steps), key)
        self._twin_of[key] = first
        return first

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
            self.model.update(self._group, self.task.space.features(rows), costs)

    def _pooled(self) -> dict[str, tuple[float, MeasureRecord]]:
        workload, key = self.task.workload.hash, self.task.key
        return pooled_costs(self.log.of(workload, key), self.log.decided(workload, key))

    def _leaders(self) -> list[MeasureRecord]:
        pooled = self._pooled()
        ranked = sorted(pooled, key=lambda key: pooled[key][0])[: self.settings.leaders]
        limit = self.settings.comparison.contender
        leaders = {key for key in ranked if pooled[key][0] <= limit * pooled[ranked[0]][0]}
        # In the order in which they were first tried, which decides between equals.
        return [pooled[key][1] for key in pooled if key in leaders or key == self._first]


def tune(
    task: Task,
    measurer: Measurer,
    log: TuningLog,
    budget: str | float | Budget = "30s",
    *,
    model: CostModel | None = None,
    strategy: str = "evolutionary",
    settings: TuneSettings = DEFAULT_SETTINGS,
    seed: int = 0,
    suggestions: Sequence[Any] = (),
    given: Sequence[Any] = (),
    progress: Progress | None = None,
    clock: BudgetClock | None = None,
) -> TuneResult:
    """Search schedules of one task until the budget is spent, or Ctrl-C or SIGTERM comes.

    Goes on from what the log has of the task. ``suggestions`` are rows and ``given`` schedules to
    be measured first. LogError at once, before anything is measured, if the log cannot be written.
    With a ``clock`` (of a replay) the run is not noted in the log.
    """
    log.check_writable()
    progress = progress or Silent()
    judged = JudgedModel(model or available_model(settings, seed, feature_count(task)))
    journal = None
    if clock is None:
        clock = BudgetClock(parse_budget(budget))
        journal = Journal.begin(
            log,
            [task],
            clock.budget,
            seed=seed,
            strategy=strategy,
            settings=settings,
            model=judged.name,
            suggested={task.workload.hash: suggestions},
            given={task.workload.hash: given},
            program=False,
        )
    tuner = Tuner(
        task, measurer, log, judged, strategy, settings, seed, suggestions, given, journal
    )
    history: list[tuple[float, int, float]] = []
    stopped = "budget"
    try:
        with terminable(), progress:
            reserve = settings.leader_share * (clock.budget.seconds or 0.0)
            while not clock.spent and clock.seconds_left > reserve:
                if not tuner.step(clock, batch_size(tuner, clock, settings), progress):
                    stopped = "exhausted" if tuner.exhausted else stopped
                    break
                history.append((clock.elapsed, clock.trials, tuner.best_seconds))
                if tuner.converged:
                    stopped = "converged"
                    break
            tuner.finish(clock)
    except KeyboardInterrupt:
        stopped = "interrupted"
    except (LogError, WorkerError) as error:
        stopped = str(error)
    best = tuner.best()
    if journal is not None:
        journal.end(stopped, clock.elapsed, tuner.engine_seconds, as_data(judged.quality()))
    return TuneResult(
        task=task,
        best=best,
        before=tuner.first_seconds,
        after=tuner.best_seconds,
        trials=tuner.trials,
        errors=dict(tuner.errors),
        seconds=clock.elapsed,
        stopped=stopped,
        quality=judged.quality(),
        model_failure=judged.failure,
        history=tuple(history),
        confidence=tuner.confidence,
        engine_seconds=tuner.engine_seconds,
    )


def batch_size(tuner: Tuner, clock: BudgetClock, settings: TuneSettings) -> int:
    """As many candidates as take ``batch_seconds``, within the settings' limits and the budget.

    Without a limit in seconds the clock is not asked, and the same seed gives the same search. With
    one it is the clock's mark that counts, which a replay has too.
    """
    count = max(settings.first_batch, tuner.trials)
    if clock.trials and clock.budget.seconds is not None:
        rate = clock.trials / max(clock.marked, 1e-3)
        left = max(0.0, clock.budget.seconds - clock.marked)
        count = round(rate * min(settings.batch_seconds, left))
    count = max(settings.first_batch, min(settings.batch, count))
    left = clock.trials_left
    return count if left is None else min(count, left)

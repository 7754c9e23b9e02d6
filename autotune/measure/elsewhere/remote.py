"""Candidates of one task, measured on hosts of one kind that are elsewhere.

::

    tuner                                     a host
    RemoteMeasurer -- JSON: kernel, schedules --> measure_there (``station``)
                   <-- JSON: records ------------

``Hosts`` is what stands between: a Dask cluster, or connections of our own. Records bear the key of
the machine that measured them.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, suppress
from dataclasses import field, replace
from typing import Protocol

from ....codegen.target import Target
from ....ir.dataclass import dataclass
from ...protocols import Candidate
from ...record import MeasureRecord, TargetKey, target_key
from ...record_line import RecordError
from ...settings import DEFAULT_SETTINGS, TuneSettings
from ...task import Task
from ..worker_process import WorkerError
from .station import numbers_of

_REQUEST_CANDIDATES = 4
"""Candidates in one request: few, so that a budget is kept, several, so that building overlaps."""
_WAITING = 2
"""Requests under way per host: one is measured, one waits."""
_RESUBMISSIONS = 2
_GONE_SECONDS = 20.0
"""Silence after which the tuner asks for remaining hosts: some come back after a while."""
RESULT_SECONDS = 10.0


class RunnerError(WorkerError):
    """There are no such hosts, or they cannot measure; the message names a remedy."""


class Answer(Protocol):
    """A request under way."""

    def done(self) -> bool: ...

    def cancel(self) -> object: ...

    def result(self, timeout: float | None = None) -> str: ...


class Hosts(Protocol):
    """Hosts that measure. ``lost`` are the exceptions of a request whose host was lost."""

    lost: tuple[type[BaseException], ...]

    def submit(self, request: str, hosts: Sequence[str]) -> Answer:
        """Begins a request on one of some hosts."""
        ...

    def present(self) -> set[str]:
        """Returns the hosts that there are now. Raises RunnerError if there can be none again."""
        ...

    def reachable(self) -> AbstractContextManager[None]:
        """Raises errors of the connection in the block as RunnerError; the outcome of a request
        passes through."""
        ...


@dataclass(frozen=True, slots=True)
class Machine:
    """Hosts of one kind, whose records are interchangeable."""

    target: Target
    hosts: tuple[str, ...]

    @property
    def key(self) -> TargetKey:
        return target_key(self.target)


def machines_of(answers: dict[str, str]) -> list[Machine]:
    """Returns the kinds of machines that hosts said they are (``machine_there``), by host. Raises
    RunnerError for an answer that is not understood."""
    hosts: dict[Target, set[str]] = {}
    for host, answer in answers.items():
        try:
            data = json.loads(answer)
            data["features"] = frozenset(data["features"])
            target = Target(**data)
        except (ValueError, TypeError, KeyError) as error:
            raise RunnerError(f"{host} says of itself what is not understood: {error}") from error
        hosts.setdefault(target, set()).add(host)
    return [Machine(target, tuple(sorted(names))) for target, names in hosts.items()]


@dataclass(slots=True)
class _Job:
    index: int
    candidate: Candidate
    tries: int = 0


@dataclass(slots=True)
class RemoteMeasurer:
    """Measures candidates of one task on hosts of one kind; a Measurer."""

    task: Task
    pool: Hosts
    hosts: tuple[str, ...]
    settings: TuneSettings = DEFAULT_SETTINGS
    seed: int = 0
    _under_way: dict[Answer, list[_Job]] = field(default_factory=dict["Answer", "list[_Job]"])
    _heard: float = 0.0

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float = math.inf
    ) -> Iterator[tuple[int, MeasureRecord]]:
        """Yields records with the index of their candidate, as they are completed.

        Iteration may stop at any time. Raises RunnerError if all hosts are gone.
        """
        waiting = deque(_Job(i, c) for i, c in enumerate(candidates))
        try:
            while waiting or self._under_way:
                while waiting and len(self._under_way) < _WAITING * len(self.hosts):
                    together = 1 if waiting[0].tries else _REQUEST_CANDIDATES
                    jobs = [waiting.popleft() for _ in range(min(together, len(waiting)))]
                    self._under_way[self._submit(jobs, best_seconds)] = jobs
                for future in self._done():
                    jobs = self._under_way.pop(future)
                    records = self._result(future, len(jobs))
                    for place, job in enumerate(jobs):
                        record = records.get(place)
                        if record is None and job.tries < _RESUBMISSIONS:
                            waiting.appendleft(replace(job, tries=job.tries + 1))
                            continue
                        record = record or self._lost(job.candidate)
                        best_seconds = min(best_seconds, record.cost)
                        yield job.index, record
        finally:
            self._drop()

    def race(
        self, candidates: Sequence[Candidate], rounds: int, cache: str = "warm"
    ) -> list[MeasureRecord]:
        """Measures good candidates again, interleaved, on one host; returns nothing if that
        fails."""
        jobs = [_Job(i, c) for i, c in enumerate(candidates)]
        future = self._submit(jobs, math.inf, rounds, cache)
        self._under_way[future] = jobs
        try:
            while not self._done():
                pass
            records = self._result(future, len(jobs))
        finally:
            self._drop()
        return [records[place] for place in sorted(records)]

    def close(self) -> None:
        """Drops requests under way. Hosts end their processes when they get no more requests."""
        self._drop()

    def _submit(
        self, jobs: Sequence[_Job], best: float, rounds: int = 0, cache: str = "warm"
    ) -> Answer:
        request = {
            "prim": str(self.task.prim),
            "threads": self.task.threads,
            "seed": self.seed,
            "settings": numbers_of(self.settings),
            "candidates": [[list(j.candidate.schedule), j.candidate.sketch] for j in jobs],
            "best": best if math.isfinite(best) else None,
            "rounds": rounds,
            "cache": cache,
        }
        if not self._under_way:
            self._heard = time.monotonic()
        with self.pool.reachable():
            return self.pool.submit(json.dumps(request), self.hosts)

    def _done(self) -> list[Answer]:
        """Returns the requests that have ended; waits for one of them, a second at most.

        Requests without any news for long are given up, and count as ended.
        """
        with self.pool.reachable():
            present = self.pool.present()
            quiet = time.monotonic() - self._heard
            if quiet > _GONE_SECONDS and present.isdisjoint(self.hosts):
                raise RunnerError(f"nobody measures on {', '.join(self.hosts)} any more")
            if quiet > _GONE_SECONDS + 2 * _REQUEST_CANDIDATES * self.settings.first_timeout:
                self._heard = time.monotonic()
                for future in self._under_way:
                    future.cancel()
                return list(self._under_way)
            end = time.monotonic() + 1.0
            while time.monotonic() < end:
                ended = [f for f in self._under_way if f.done()]
                if ended:
                    self._heard = time.monotonic()
                    return ended
                time.sleep(0.002)
        return []

    def _result(self, future: Answer, count: int) -> dict[int, MeasureRecord]:
        """Returns records by their place in the request: none if its workers were lost."""
        try:
            with self.pool.reachable():
                answer = json.loads(future.result(timeout=RESULT_SECONDS))
        except (*self.pool.lost, CancelledError, TimeoutError):
            return {}
        records: dict[int, MeasureRecord] = {}
        for place, line in answer:
            with suppress(RecordError):
                record = MeasureRecord.from_json(line)
                if 0 <= place < count and record.workload.hash == self.task.workload.hash:
                    records[place] = record
        return records

    def _lost(self, candidate: Candidate) -> MeasureRecord:
        return MeasureRecord(
            workload=self.task.workload,
            target=self.task.key,
            schedule=candidate.schedule,
            sketch=candidate.sketch,
            error="crash",
            detail=f"lost with its host, {_RESUBMISSIONS + 1} times",
            seed=self.seed,
        )

    def _drop(self) -> None:
        with suppress(Exception):
            for future in self._under_way:
                future.cancel()
        self._under_way.clear()

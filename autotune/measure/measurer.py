"""Measuring candidates in worker processes: builders and a runner, overlapped.

While the runner times candidate k, builders make the next ones: on other cores, and a spare one of
the lowest priority on the runner's own, which builds while the runner has nothing to do. When a
kernel takes all cores itself, nothing is built while it runs: then a batch is built first, by as
many builders as there are cores, and run afterwards.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..log.line import RecordError
from ..log.record import Check, MeasureRecord, Took, own_version, timestamp
from ..protocols import Candidate
from ..scratch import ScratchFolder
from ..settings import DEFAULT_SETTINGS, TuneSettings
from ..task import Task
from .build_service import BuildService
from .run_service import RaceRequest, RunRequest, RunService
from .toolchain import Toolchain
from .worker_process import Reply, WorkerProcess, wait_for

__all__ = ["NativeMeasurer", "Workers"]

_BUILDERS = 4
"""Builders at most, when a whole batch is built before it is run."""

_BUILDERS_BESIDE = 2
"""Builders beside a runner on a core of its own: a candidate takes longer to build than to run."""

_SPARE_PATIENCE = 0.5
"""Seconds a spare builder has to end what nobody waits for."""

_KEPT_CODE = 32
"""Candidates whose code is kept, the fastest ones: the leaders are raced with it."""

_WAITING_CODE = 8
"""Candidates built ahead of the runner: enough to hide a slow one, few enough to be dropped."""


@dataclass(slots=True)
class _Job:
    """A candidate on its way; ``index`` is its place in the batch."""

    index: int
    candidate: Candidate
    code: bytes = b""
    killed: bool = False
    """Its process was killed once: by whom is not known, so it has another try. A spare builder
    that failed may only have had too little of the machine."""
    build_seconds: float = 0.0


class Workers:
    """The processes that measure: one runner and as many builders as are of use.

    Tasks that run on the same number of threads share them. A program that runs at the same time
    keeps ``beside`` cores busy, nobody knows which ones: then no process has a core of its own. At
    idle priority it would wait for ever on one that the program is on.
    """

    def __init__(
        self, threads: int = 1, settings: TuneSettings = DEFAULT_SETTINGS, beside: int = 0
    ) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        self.deadline = math.inf  # on the monotonic clock: nobody waits for an answer any longer
        self.overlap = threads + beside < len(cpus)
        lives = settings.worker_lives
        if not self.overlap or threads > 1 or beside:
            builders = 1 if self.overlap or beside else min(len(cpus), _BUILDERS)
            self.runner = WorkerProcess(lives=lives)
            self.builders = [WorkerProcess(lives=lives) for _ in range(builders)]
            return
        # One core for the kernel being timed, the others for everything else.
        own, others = frozenset(cpus[-1:]), frozenset(cpus[:-1])
        self.runner = WorkerProcess(cpus=own, lives=lives)
        builders = min(len(others), _BUILDERS_BESIDE)
        self.builders = [WorkerProcess(cpus=others, lives=lives) for _ in range(builders)]
        # What is of the lowest priority itself has no lower one for a spare builder.
        if builders < _BUILDERS_BESIDE and os.sched_getscheduler(0) != os.SCHED_IDLE:
            self.builders.append(WorkerProcess(cpus=own, spare=True, lives=lives))

    @property
    def all(self) -> list[WorkerProcess]:
        return [self.runner, *self.builders]

    @property
    def restarts(self) -> int:
        """How many processes have been replaced so far."""
        return sum(w.restarts for w in self.all)

    def close(self) -> None:
        """End the processes. They start again when they are asked again."""
        for worker in self.all:
            worker.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NativeMeasurer:
    """Builds and runs candidates of one task in processes of their own.

    Whatever a candidate does is one record with its error word; its process is replaced. Without
    ``workers`` the measurer has its own.
    """

    def __init__(
        self,
        task: Task,
        toolchain: Toolchain,
        settings: TuneSettings = DEFAULT_SETTINGS,
        seed: int = 0,
        workers: Workers | None = None,
    ) -> None:
        self.task = task
        self.seed = seed
        self._settings = settings
        self._own = workers is None
        self.workers = workers or Workers(task.threads, settings)
        self._raced: dict[str, bytes] = {}
        self._kept: dict[str, tuple[float, bytes]] = {}  # seconds a call and code, by candidate
        self._folder = ScratchFolder()
        cache = self._folder.path / "reference.npz"
        self._build = BuildService(task.prim, task.target, toolchain, settings)
        self._run = RunService(task.prim, task.threads, toolchain, settings, seed, cache)
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise

    def prepare(self) -> None:
        """Let idle processes get ready for this task."""
        self._runner.prepare(self._run)
        for builder in self._builders:
            builder.prepare(self._build)

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float = math.inf
    ) -> Iterator[tuple[int, MeasureRecord]]:
        """Records with the index of their candidate, as they are completed, until the deadline.

        Stop iterating at any time: what is under way then is dropped.
        """
        waiting = deque(_Job(i, c) for i, c in enumerate(candidates))
        built: deque[_Job] = deque()
        under_way: dict[int, _Job] = {}
        while waiting or built or under_way:
            self._hand_out(waiting, built, under_way, best_seconds)
            wait_for(self.workers.all, self.workers.deadline)
            if time.monotonic() >= self.workers.deadline:
                return
            for worker in self.workers.all:
                reply = worker.poll() if worker.busy else None
                if reply is None or id(worker) not in under_way:
                    continue  # nothing yet, or the answer to a question of an earlier batch
                job = under_way.pop(id(worker))
                twin = next((key for key, other in under_way.items() if other is job), None)
                if reply.error is not None and twin is not None:
                    continue  # another builder is at it
                if twin is not None:
                    del under_way[twin]  # its answer is of no use any more
                if (reply.killed or (reply.error and worker.spare)) and not job.killed:
                    waiting.appendleft(replace(job, code=b"", killed=True))
                    continue
                if worker is not self._runner and reply.error is None and reply.blob:
                    job.code = reply.blob
                    job.build_seconds = _number(reply.header.get("seconds"))
                    built.append(job)
                    continue
                record = self._record(job.candidate, reply, _took(job, reply))
                best_seconds = min(best_seconds, record.cost)
                self._keep(job, record.cost)
                yield job.index, record

    def _keep(self, job: _Job, cost: float) -> None:
        """Keep the code of the fastest candidates for a race."""
        if math.isfinite(cost):
            self._kept[job.candidate.key] = cost, job.code
            if len(self._kept) > _KEPT_CODE:
                del self._kept[max(self._kept, key=lambda key: self._kept[key][0])]

    def race(
        self, candidates: Sequence[Candidate], rounds: int, cache: str = "warm"
    ) -> list[MeasureRecord]:
        """Measure good candidates again, in turn, so that drift hits all alike.

        With a "cold" ``cache`` every call finds its operands in memory. Candidates that cannot be
        built are left out; nothing comes back if one breaks the runner.
        """
        jobs = self._build_all(candidates)
        if not jobs:
            return []
        self._drain()
        timeout = self._settings.first_timeout * len(jobs)
        request = RaceRequest(tuple(j.code for j in jobs), rounds, cache == "cold")
        self._runner.submit(self._run, request, timeout)
        reply = self._wait(self._runner) or Reply(error="timeout")
        times = reply.header.get("seconds")
        if reply.error is not None or not isinstance(times, list) or len(times) != len(jobs):
            return []
        return [self._record(job.candidate, r) for job, r in zip(jobs, _one_by_one(reply.header))]

    def close(self) -> None:
        """End all workers."""
        if self._own:
            self.workers.close()
        self._folder.close()

    def __enter__(self) -> NativeMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _runner(self) -> WorkerProcess:
        return self.workers.runner

    @property
    def _builders(self) -> list[WorkerProcess]:
        return self.workers.builders

    def _hand_out(
        self,
        waiting: deque[_Job],
        built: deque[_Job],
        under_way: dict[int, _Job],
        best_seconds: float,
    ) -> None:
        """Give every idle worker something to do."""
        for builder in self._builders:
            room = not self.workers.overlap or len(built) < _WAITING_CODE
            alone = self.workers.overlap or not self._runner.busy
            if builder.busy or not room or not alone:
                continue
            job = self._next_for(builder, waiting, under_way)
            if job is not None:
                under_way[id(builder)] = job
                builder.submit(self._build, job.candidate.schedule, self._settings.build_timeout)
        quiet = self.workers.overlap or not (waiting or any(b.busy for b in self._builders))
        if built and quiet and not self._runner.busy:
            job = built.popleft()
            under_way[id(self._runner)] = job
            self._runner.submit(
                self._run, RunRequest(job.code, best_seconds), self._timeout(best_seconds)
            )

    def _next_for(
        self, builder: WorkerProcess, waiting: deque[_Job], under_way: dict[int, _Job]
    ) -> _Job | None:
        """What an idle builder does next; None if there is nothing for it.

        A spare builder on a busy machine may get nowhere: when nothing else is left, another one
        does its work too, and who is done first is heard.
        """
        if waiting and not (builder.spare and waiting[0].killed):
            return waiting.popleft()
        spares = [] if builder.spare else [b for b in self._builders if b.spare]
        for spare in spares:
            job = under_way.get(id(spare))
            if job is not None:
                return job
        return None

    def _timeout(self, best_seconds: float) -> float:
        settings = self._settings
        if not math.isfinite(best_seconds):
            return settings.first_timeout
        # Two single calls at the limit, then samples of a candidate that is within it, which may
        # have to be repeated.
        calls = 2 + 2 * settings.least_samples
        return settings.least_timeout + calls * settings.timeout_factor * best_seconds

    def _build_all(self, candidates: Sequence[Candidate]) -> list[_Job]:
        """Code of candidates; that of the fastest, and of the last race, is there already."""
        self._drain()
        builder = self._builders[0]
        jobs: list[_Job] = []
        for index, candidate in enumerate(candidates):
            code = self._raced.get(candidate.key)
            if code is None and candidate.key in self._kept:
                code = self._kept[candidate.key][1]
            if code is None:
                builder.submit(self._build, candidate.schedule, self._settings.build_timeout)
                reply = self._wait(builder)
                code = reply.blob if reply is not None and reply.error is None else b""
            if code:
                jobs.append(_Job(index, candidate, code))
        self._raced = {job.candidate.key: job.code for job in jobs}
        return jobs

    def _drain(self) -> None:
        """Let answers that nobody waits for come in. A spare builder that gets nowhere is ended: it
        starts again when it is asked again."""
        for worker in self.workers.all:
            if (
                worker.busy
                and self._wait(worker, _SPARE_PATIENCE if worker.spare else None) is None
            ):
                worker.close()

    def _wait(self, worker: WorkerProcess, patience: float | None = None) -> Reply | None:
        """The answer; None if it does not come within so many seconds."""
        until = self.workers.deadline
        if patience is not None:
            until = min(until, time.monotonic() + patience)
        while True:
            wait_for([worker], until)
            reply = worker.poll()
            if reply is not None or time.monotonic() >= until:
                return reply

    def _record(
        self, candidate: Candidate, reply: Reply, took: Took | None = None
    ) -> MeasureRecord:
        """A reply as a record. What the worker said is checked like a line of a log."""
        header = reply.header
        error = reply.error or header.get("error")
        detail = reply.detail or str(header.get("detail", ""))
        record = MeasureRecord(
            workload=self.task.workload,
            target=self.task.key,
            schedule=candidate.schedule,
            sketch=candidate.sketch,
            seconds=() if error else tuple(_numbers(header.get("seconds"))),
            error=error,
            detail=detail,
            checked=_check(header),
            seed=self.seed,
            time=timestamp(),
            version=own_version(),
            took=took,
        )
        try:
            MeasureRecord.from_json(record.to_json())
        except (RecordError, ValueError, TypeError) as problem:
            return replace(
                record, seconds=(), error="crash", detail=f"no sense: {problem}", checked=None
            )
        return record


def _took(job: _Job, reply: Reply) -> Took | None:
    """Where the seconds of a candidate went, as far as the workers told."""
    told = reply.header.get("took")
    told = told if isinstance(told, dict) else {}
    build = job.build_seconds or _number(reply.header.get("seconds"))
    check, run = _number(told.get("check")), _number(told.get("run"))
    return Took(build, check, run) if build or check or run else None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, float) and 0 <= value < math.inf else 0.0


def _one_by_one(header: dict[str, Any]) -> Iterator[Reply]:
    """The answer to a race as answers of its entrants."""
    for values in zip(*(header[key] for key in ("seconds", "right", "max_error", "bound"))):
        seconds, right, error, bound = values
        one = {"seconds": seconds, "max_error": error, "bound": bound}
        yield Reply(one if right else one | {"error": "wrong_result"})


def _numbers(value: Any) -> list[float]:
    return [v for v in value if isinstance(v, int | float)] if isinstance(value, list) else []


def _check(header: dict[str, Any]) -> Check | None:
    error, bound = header.get("max_error"), header.get("bound")
    if not isinstance(error, int | float) or not isinstance(bound, int | float):
        return None
    return Check(float(f"{error:.3g}"), float(f"{bound:.3g}"))

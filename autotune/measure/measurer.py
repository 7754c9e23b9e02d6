"""Measures candidates in worker processes: builders and a runner that work at the same time.

While the runner times candidate k, builders compile the next ones: on other cores, and a spare one
of the lowest priority on the runner's own core, which builds while the runner is idle. If a kernel
uses all cores itself, nothing is built while it runs: then a batch is built first, by as many
builders as there are cores, and run afterwards.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...ir.dataclass import dataclass
from ..protocols import Candidate
from ..record import Check, MeasureRecord, Took, own_version, timestamp
from ..record_line import RecordError
from ..scratch import ScratchFolder
from ..settings import DEFAULT_SETTINGS, TuneSettings
from ..task import Task
from .build_service import BuildService
from .run_requests import RaceRequest, RunRequest
from .run_service import RunService
from .toolchain import Toolchain
from .worker_process import Reply, WorkerProcess, wait_for

_BUILDERS = 4
"""Most builders while a whole batch is built before it is run."""

_BUILDERS_BESIDE = 2
"""Builders beside a runner with a core of its own: building a candidate takes longer than running
it."""

_SPARE_PATIENCE = 0.5
"""Seconds a spare builder has to finish a request that nobody waits for."""

_KEPT_CODE = 32
"""Candidates whose code is kept for races, the fastest ones."""

_WAITING_CODE = 8
"""Candidates built ahead of the runner: enough to bridge a slow build, few enough to be dropped."""


@dataclass(slots=True)
class _Job:
    """A candidate under way; ``index`` is its place in the batch."""

    index: int
    candidate: Candidate
    code: bytes = b""
    killed: bool = False
    """Its process was killed once. The cause is unknown, so it is tried again; a failed spare
    builder may only have had too little processor time."""
    build_seconds: float = 0.0


class Workers:
    """The processes that measure: one runner and as many builders as are of use.

    Tasks on the same number of threads share them. A program that runs at the same time keeps
    ``beside`` cores busy, unknown ones: then no process has a core of its own, as one of idle
    priority would wait for ever on a core that the program uses.
    """

    def __init__(
        self, threads: int = 1, settings: TuneSettings = DEFAULT_SETTINGS, beside: int = 0
    ) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        self.deadline = math.inf  # on the monotonic clock: the end of all waiting
        self.overlap = threads + beside < len(cpus)
        lives = settings.worker_lives
        if not self.overlap or threads > 1 or beside:
            builders = 1 if self.overlap or beside else min(len(cpus), _BUILDERS)
            self.runner = WorkerProcess(lives=lives)
            self.builders = [WorkerProcess(lives=lives) for _ in range(builders)]
            return
        # One core for the kernel being timed, the others for everything else.
        last, others = frozenset(cpus[-1:]), frozenset(cpus[:-1])
        self.runner = WorkerProcess(cpus=last, lives=lives)
        builders = min(len(others), _BUILDERS_BESIDE)
        self.builders = [WorkerProcess(cpus=others, lives=lives) for _ in range(builders)]
        # A process of the lowest priority has no lower one for a spare builder.
        if builders < _BUILDERS_BESIDE and os.sched_getscheduler(0) != os.SCHED_IDLE:
            self.builders.append(WorkerProcess(cpus=last, spare=True, lives=lives))

    @property
    def all(self) -> list[WorkerProcess]:
        return [self.runner, *self.builders]

    @property
    def restarts(self) -> int:
        """Processes that were replaced so far."""
        return sum(w.restarts for w in self.all)

    def start(self) -> list[int | None]:
        """Starts the processes and returns their numbers, which are known when they run: the first
        request would wait for it."""
        for worker in self.all:
            worker.start()
        return [worker.pid for worker in self.all]

    def close(self) -> None:
        """Ends the processes. They start again at the next request."""
        for worker in self.all:
            worker.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NativeMeasurer:
    """Builds and runs candidates of one task in processes of their own.

    Every outcome of a candidate, a crash included, is one record; a broken process is replaced.
    Without ``workers`` the measurer has its own.
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
        self._kept: dict[str, tuple[float, bytes]] = {}  # seconds a call and code, by candidate
        self._folder = ScratchFolder()
        cache = self._folder.path / "reference.npz"
        self._build = BuildService(task.compiled or task.prim, task.target, toolchain, settings)
        between, in_place = dict(task.between), dict(task.in_place)
        self._run = RunService(
            task.prim, task.threads, toolchain, settings, seed, cache, between, in_place
        )
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise

    def prepare(self) -> None:
        """Lets idle processes get ready for this task."""
        self._runner.prepare(self._run)
        for builder in self._builders:
            builder.prepare(self._build)

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float = math.inf
    ) -> Iterator[tuple[int, MeasureRecord]]:
        """Yields records with the index of their candidate, as they are completed, until the
        deadline.

        Iteration may stop at any time: requests under way are dropped.
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
                    continue  # no answer yet, or one to a request of an earlier batch
                job = under_way.pop(id(worker))
                twin = next((key for key, other in under_way.items() if other is job), None)
                if reply.error is not None and twin is not None:
                    continue  # another builder works on it
                if twin is not None:
                    del under_way[twin]  # its answer is not needed any more
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
        """Keeps the code of the fastest candidates for a race."""
        if math.isfinite(cost):
            self._kept[job.candidate.key] = cost, job.code
            if len(self._kept) > _KEPT_CODE:
                del self._kept[max(self._kept, key=lambda key: self._kept[key][0])]

    def race(
        self, candidates: Sequence[Candidate], rounds: int, cache: str = "warm"
    ) -> list[MeasureRecord]:
        """Measures good candidates again, interleaved, so that drift affects all alike.

        ``cache`` says where calls find their operands: in the caches ("warm"), or where the program
        leaves them ("place"). Candidates that cannot be built are left out; the result is empty if
        one breaks the runner.
        """
        jobs = self._build_all(candidates)
        if not jobs:
            return []
        self._drain()
        timeout = self._settings.first_timeout * len(jobs)
        request = RaceRequest(tuple(j.code for j in jobs), rounds, cache)
        self._runner.submit(self._run, request, timeout)
        reply = self._wait(self._runner) or Reply(error="timeout")
        times = reply.header.get("seconds")
        if reply.error is not None or not isinstance(times, list) or len(times) != len(jobs):
            return []
        records = [self._record(job.candidate, r) for job, r in zip(jobs, _replies(reply.header))]
        return [replace(record, cache=cache) for record in records]

    def close(self) -> None:
        """Ends all workers."""
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
        """Gives every idle worker something to do."""
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
        # The first candidate is what the others are compared with: it runs before them.
        first_is_built = all(job.index for job in under_way.values())
        if built and first_is_built and quiet and not self._runner.busy:
            job = min(built, key=lambda job: job.index > 0)
            built.remove(job)
            under_way[id(self._runner)] = job
            self._runner.submit(
                self._run, RunRequest(job.code, best_seconds), self._timeout(best_seconds)
            )

    def _next_for(
        self, builder: WorkerProcess, waiting: deque[_Job], under_way: dict[int, _Job]
    ) -> _Job | None:
        """Returns the next job of an idle builder; None if there is none.

        A spare builder on a busy machine may make no progress: when nothing else is left, another
        builder does its work too, and the first answer counts.
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
        # Two single calls at the limit, then samples within the limit, each possibly repeated.
        calls = 2 + 2 * settings.least_samples
        return settings.least_timeout + calls * settings.timeout_factor * best_seconds

    def _build_all(self, candidates: Sequence[Candidate]) -> list[_Job]:
        """Returns jobs with the code of candidates; that of the fastest and of races is kept."""
        self._drain()
        builder = self._builders[0]
        jobs: list[_Job] = []
        for index, candidate in enumerate(candidates):
            _, code = self._kept.get(candidate.key, (0.0, b""))
            if not code:
                builder.submit(self._build, candidate.schedule, self._settings.build_timeout)
                reply = self._wait(builder)
                code = reply.blob if reply is not None and reply.error is None else b""
            if code:
                self._kept.setdefault(candidate.key, (0.0, code))
                jobs.append(_Job(index, candidate, code))
        return jobs

    def _drain(self) -> None:
        """Waits for answers that nobody needs. A spare builder that makes no progress is ended: it
        starts again at the next request."""
        for worker in self.workers.all:
            patience = _SPARE_PATIENCE if worker.spare else math.inf
            if worker.busy and self._wait(worker, patience) is None:
                worker.close()

    def _wait(self, worker: WorkerProcess, patience: float = math.inf) -> Reply | None:
        """Returns the answer; None if it does not come within ``patience`` seconds."""
        until = min(self.workers.deadline, time.monotonic() + patience)
        while True:
            wait_for([worker], until)
            reply = worker.poll()
            if reply is not None or time.monotonic() >= until:
                return reply

    def _record(
        self, candidate: Candidate, reply: Reply, took: Took | None = None
    ) -> MeasureRecord:
        """Returns a reply as a record. The worker's numbers are checked like a line of a log."""
        header = reply.header
        error = reply.error or header.get("error")
        detail = reply.detail or str(header.get("detail", ""))
        seconds = header.get("seconds")
        seconds = seconds if isinstance(seconds, list) else []
        record = MeasureRecord(
            workload=self.task.workload,
            target=self.task.key,
            schedule=candidate.schedule,
            sketch=candidate.sketch,
            seconds=() if error else tuple(v for v in seconds if isinstance(v, int | float)),
            error=error,
            detail=detail,
            checked=_check(header),
            seed=self.seed,
            time=timestamp(),
            version=own_version(),
            took=took,
            cache=self.task.cache,
            between=dict(self.task.between),
        )
        try:
            MeasureRecord.from_json(record.to_json())
        except (RecordError, ValueError, TypeError) as problem:
            return replace(
                record, seconds=(), error="crash", detail=f"invalid reply: {problem}", checked=None
            )
        return record


def _took(job: _Job, reply: Reply) -> Took | None:
    """Returns the seconds spent on a candidate, as far as the workers reported them."""
    spent = reply.header.get("took")
    spent = spent if isinstance(spent, dict) else {}
    build = job.build_seconds or _number(reply.header.get("seconds"))
    check, run = _number(spent.get("check")), _number(spent.get("run"))
    return Took(build, check, run) if build or check or run else None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, float) and 0 <= value < math.inf else 0.0


def _replies(header: dict[str, Any]) -> Iterator[Reply]:
    """Yields the answer to a race as an answer per entrant."""
    for values in zip(*(header[key] for key in ("seconds", "right", "max_error", "bound"))):
        seconds, right, error, bound = values
        header = {"seconds": seconds, "max_error": error, "bound": bound}
        yield Reply(header if right else header | {"error": "wrong_result"})


def _check(header: dict[str, Any]) -> Check | None:
    error, bound = header.get("max_error"), header.get("bound")
    if not isinstance(error, int | float) or not isinstance(bound, int | float):
        return None
    return Check(float(f"{error:.3g}"), float(f"{bound:.3g}"))

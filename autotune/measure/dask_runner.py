"""tuner                                    worker of the cluster
    DaskMeasurer -- JSON: kernel, schedules --> measure_there -- NativeMeasurer -- runner, builder
                 <-- JSON: records ------------                  processes of their own

Only plain data is sent: the text of a PrimFunc, steps of schedules, lines of a log. The worker
parses it and measures as a local tuner does, in guarded processes of its own, so that a candidate
that crashes or hangs does not disturb the cluster. A host measures one candidate at a time,
whatever its number of workers. Records bear the key of the machine that measured them.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import math
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.loop.parser import parse_prim
from ..protocols import Candidate
from ..record import MeasureRecord, TargetKey, target_key
from ..record_line import RecordError
from ..settings import DEFAULT_SETTINGS, TuneSettings
from ..task import Task
from .kernels import TOOLCHAIN, task_of
from .measurer import NativeMeasurer, Workers
from .worker_process import WorkerError

SCHEME = "dask://"
_REQUEST_CANDIDATES = 4
"""Candidates in one request: few, so that a budget is kept, several, so that building overlaps."""
_WAITING = 2
"""Requests under way per host: one is measured, one waits."""
_RESUBMISSIONS = 2
_CONNECT_SECONDS = 10.0
_GONE_SECONDS = 20.0
"""Silence after which the tuner asks for remaining workers: their nannies need some time."""
_STATION_IDLE_SECONDS = 60.0
"""A worker's measuring processes end after this time without a request."""
_KEPT_TASKS = 8


class RunnerError(WorkerError):
    """The cluster cannot be reached, or cannot measure; the message names a remedy."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Hosts of one kind, whose records are interchangeable."""

    target: Target
    hosts: tuple[str, ...]

    @property
    def key(self) -> TargetKey:
        return target_key(self.target)


# -- on the worker ---------------------------------------------------------------------------------


def machine_there() -> str:
    """Returns the machine of the worker this runs on, as JSON."""
    target = Target.host()
    data = {f.name: getattr(target, f.name) for f in fields(target)}
    return json.dumps({**data, "features": sorted(target.features)})


def measure_there(request: str) -> str:
    """Measures the candidates of a request and returns records, both as JSON."""
    return _station.ask(json.loads(request))


class _Station:
    """Measures on this host, one request after the other, in a thread that never ends: worker
    processes end with the thread that started them."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._guard = threading.Lock()
        self._measurers: dict[str, NativeMeasurer] = {}
        self._workers: dict[int, Workers] = {}
        self._idle: threading.Timer | None = None

    def ask(self, request: dict[str, Any]) -> str:
        with self._guard:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "loopwright-measuring")
            if self._idle is not None:
                self._idle.cancel()
            answer = self._thread.submit(self._answer, request)
        try:
            return answer.result()
        finally:
            with self._guard:
                self._idle = threading.Timer(_STATION_IDLE_SECONDS, self.close)
                self._idle.daemon = True
                self._idle.start()

    def close(self) -> None:
        """Ends the processes; they start again at the next request."""
        with self._guard:
            thread, self._thread = self._thread, None
            if self._idle is not None:
                self._idle.cancel()
        if thread is not None:
            thread.submit(self._close)
            thread.shutdown(wait=True)

    def _close(self) -> None:
        for measurer in self._measurers.values():
            measurer.close()
        for workers in self._workers.values():
            workers.close()
        self._measurers.clear()
        self._workers.clear()

    def _answer(self, request: dict[str, Any]) -> str:
        candidates = [Candidate(tuple(s), sketch) for s, sketch in request["candidates"]]
        with _alone_on_this_host():
            measurer = self._measurer(request)
            if request["rounds"]:
                raced = measurer.race(candidates, request["rounds"], request["cache"])
                records = list(enumerate(raced))
            else:
                best = request["best"] or math.inf
                records = list(measurer.measure(candidates, best))
        return json.dumps([[index, record.to_json()] for index, record in records])

    def _measurer(self, request: dict[str, Any]) -> NativeMeasurer:
        wanted = {name: request[name] for name in ("prim", "threads", "seed", "settings")}
        key = json.dumps(wanted, sort_keys=True)
        if key not in self._measurers:
            while len(self._measurers) >= _KEPT_TASKS:
                self._measurers.pop(next(iter(self._measurers))).close()
            given, usual = request["settings"], _numbers_of(DEFAULT_SETTINGS)
            numbers = {k: type(usual[k])(v) for k, v in given.items() if k in usual}
            settings = replace(DEFAULT_SETTINGS, **numbers)  # type: ignore[arg-type]
            threads = int(request["threads"])
            workers = self._workers.setdefault(threads, Workers(threads, settings))
            task = task_of(parse_prim(request["prim"]), Target.host(), threads)
            self._measurers[key] = NativeMeasurer(
                task, TOOLCHAIN, settings, int(request["seed"]), workers
            )
        self._measurers[key] = self._measurers.pop(key)  # the most recent one last
        return self._measurers[key]


_station = _Station()


@contextmanager
def _alone_on_this_host() -> Iterator[None]:
    """Allows one holder at a time among all processes of this user on this host."""
    path = Path(tempfile.gettempdir()) / f"loopwright-measuring-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _numbers_of(settings: TuneSettings) -> dict[str, float]:
    """Returns the settings that are numbers, on which measuring depends."""
    return {k: v for k, v in asdict(settings).items() if isinstance(v, int | float)}


# -- on the tuner ----------------------------------------------------------------------------------


class DaskCluster:
    """A connection to a cluster, and its machines."""

    def __init__(self, client: Any, closes: bool) -> None:
        self.client = client
        self._closes = closes
        self.machines = self._machines()

    def measurer(
        self, task: Task, machine: Machine, settings: TuneSettings, seed: int
    ) -> DaskMeasurer:
        """Returns a measurer of a task whose target is that of ``machine``."""
        return DaskMeasurer(task, self.client, machine.hosts, settings, seed)

    def close(self) -> None:
        if self._closes:
            with suppress(Exception):
                self.client.close()

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _machines(self) -> list[Machine]:
        try:
            answers: dict[str, str] = self.client.run(machine_there)
        except ImportError as error:
            raise RunnerError(f"the cluster's workers lack something: {error}") from error
        except Exception as error:
            raise RunnerError(f"the cluster's workers do not answer: {error}") from error
        if not answers:
            raise RunnerError("the cluster has no workers; start some: dask worker HOST:PORT")
        hosts: dict[Target, set[str]] = {}
        for address, answer in answers.items():
            data = json.loads(answer)
            data["features"] = frozenset(data["features"])
            hosts.setdefault(Target(**data), set()).add(_host_of(address))
        return [Machine(target, tuple(sorted(names))) for target, names in hosts.items()]


def connect(runner: Any) -> DaskCluster:
    """Returns the cluster of ``dask://host:port`` or of a ``distributed.Client``, or raises
    RunnerError."""
    try:
        client_type = import_module("distributed").Client
    except ImportError as error:
        raise RunnerError(
            f"measuring on Dask needs a package that is not here ({error}); install it: "
            "pip install 'loopwright[dask]'"
        ) from error
    if isinstance(runner, client_type):
        return DaskCluster(runner, closes=False)
    if not isinstance(runner, str) or not runner.startswith(SCHEME):
        raise RunnerError(f"runner {runner!r} is not understood; write dask://host:port")
    address = "tcp://" + runner.removeprefix(SCHEME)
    try:
        client = client_type(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise RunnerError(f"there is no Dask scheduler at {runner}: {error}") from error
    try:
        return DaskCluster(client, closes=True)
    except BaseException:
        client.close()
        raise


@dataclass(slots=True)
class _Job:
    index: int
    candidate: Candidate
    tries: int = 0


@dataclass(slots=True)
class DaskMeasurer:
    """Measures candidates of one task on hosts of one kind; a Measurer."""

    task: Task
    client: Any
    hosts: tuple[str, ...]
    settings: TuneSettings = DEFAULT_SETTINGS
    seed: int = 0
    _under_way: dict[Any, list[_Job]] = field(default_factory=dict[Any, list[_Job]])
    _heard: float = 0.0

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float = math.inf
    ) -> Iterator[tuple[int, MeasureRecord]]:
        """Yields records with the index of their candidate, as they are completed.

        Iteration may stop at any time. Raises RunnerError if the cluster is gone.
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
        """Drops requests under way. The workers end their processes when they get no more
        requests."""
        self._drop()

    def _submit(
        self, jobs: Sequence[_Job], best: float, rounds: int = 0, cache: str = "warm"
    ) -> Any:
        request = {
            "prim": str(self.task.prim),
            "threads": self.task.threads,
            "seed": self.seed,
            "settings": _numbers_of(self.settings),
            "candidates": [[list(j.candidate.schedule), j.candidate.sketch] for j in jobs],
            "best": best if math.isfinite(best) else None,
            "rounds": rounds,
            "cache": cache,
        }
        if not self._under_way:
            self._heard = time.monotonic()
        with self._reachable():
            return self.client.submit(
                measure_there, json.dumps(request), workers=list(self.hosts), pure=False
            )

    def _done(self) -> list[Any]:
        """Returns the requests that have ended; waits for one of them, a second at most.

        Requests without any news for long are given up, and count as ended.
        """
        with self._reachable():
            if self.client.status != "running":
                raise RunnerError("the Dask cluster is gone")
            quiet = time.monotonic() - self._heard
            hosts = {_host_of(address) for address in self.client.nthreads()}
            if quiet > _GONE_SECONDS and hosts.isdisjoint(self.hosts):
                raise RunnerError(f"the Dask cluster has no worker left on {', '.join(self.hosts)}")
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

    def _result(self, future: Any, count: int) -> dict[int, MeasureRecord]:
        """Returns records by their place in the request: none if its workers were lost."""
        killed = import_module("distributed.scheduler").KilledWorker
        try:
            with self._reachable():
                answer = json.loads(future.result(timeout=_CONNECT_SECONDS))
        except (killed, CancelledError, asyncio.CancelledError, TimeoutError):
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
            detail=f"lost with its Dask worker, {_RESUBMISSIONS + 1} times",
            seed=self.seed,
        )

    def _drop(self) -> None:
        with suppress(Exception):
            for future in self._under_way:
                future.cancel()
        self._under_way.clear()

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        """Raises errors of the connection as RunnerError; the outcome of a request passes
        through."""
        try:
            yield
        except (RunnerError, CancelledError, asyncio.CancelledError, TimeoutError):
            raise
        except WorkerError as error:
            raise RunnerError(f"on the Dask cluster: {error}") from error
        except (OSError, RuntimeError) as error:
            if type(error).__name__ == "KilledWorker":
                raise
            raise RunnerError(f"the Dask cluster is gone: {error}") from error


def _host_of(address: str) -> str:
    """Returns ``tcp://10.0.0.7:41231`` without scheme and port; "inproc:" addresses stay whole."""
    if address.startswith("inproc:"):
        return address
    return address.rpartition("://")[2].rpartition(":")[0].strip("[]")

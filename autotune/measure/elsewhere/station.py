"""Measuring for a tuner that is elsewhere: one request after the other, on this machine.

Only plain data comes in: the text of a PrimFunc, steps of schedules, and numbers. It is measured as
a local tuner measures, in guarded processes, so that a candidate that crashes or hangs does not
disturb the process that asks. A host measures one candidate at a time, whatever the number of
processes that ask it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from ....codegen.target import Target
from ....ir.loop.parser import parse_prim
from ...protocols import Candidate
from ...settings import DEFAULT_SETTINGS, TuneSettings
from ..kernels import TOOLCHAIN, task_of
from ..measurer import NativeMeasurer, Workers

_STATION_IDLE_SECONDS = 60.0
"""The measuring processes end after this time without a request."""
_KEPT_TASKS = 8


def machine_there() -> str:
    """Returns the machine that this runs on, as JSON."""
    target = Target.host()
    data = {f.name: getattr(target, f.name) for f in fields(target)}
    return json.dumps({**data, "features": sorted(target.features)})


def measure_there(request: str) -> str:
    """Measures the candidates of a request and returns records, both as JSON."""
    return STATION.ask(json.loads(request))


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
            given, usual = request["settings"], numbers_of(DEFAULT_SETTINGS)
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


STATION = _Station()


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


def numbers_of(settings: TuneSettings) -> dict[str, float]:
    """Returns the settings that are numbers, on which measuring depends."""
    return {k: v for k, v in asdict(settings).items() if isinstance(v, int | float)}

"""Tuning in a process beside the program that uses the kernels.

It runs as ``python -m loopwright.autotune.program.background_process READ WRITE``: one frame comes
in, the ``BackgroundJob``; after every round of tuning one goes out, with the best kernels by the
log, ready to be linked (``Winner``). Its input pipe breaks when the program ends, and then it ends,
too.

Unlike a worker it never runs a candidate itself, so the program trusts its frames.
"""

from __future__ import annotations

import os
import pickle
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...codegen.kernel import compile_kernel
from ...codegen.machine import known_machine
from ...codegen.objects import object_code
from ..budget import Budget
from ..interrupts import terminable
from ..log.log_file import LogError
from ..log.lookup import shipped_logs
from ..log.tuning_log import TuningLog
from ..measure.kernels import TOOLCHAIN, task_of
from ..measure.measurer import NativeMeasurer, Workers
from ..measure.transport import Frame, read_frame, write_frame
from ..priority import seconds_of, yield_to_others
from ..protocols import Candidate, Measurer
from ..ranges import evenly_weighted
from ..record import MeasureRecord, schedule_key
from ..request import TuneRequest
from ..selection.select import Chosen, Origin, choose_schedule
from ..settings import DEFAULT_SETTINGS, TuneSettings
from ..task import Task
from ..workload import kernel_symbol, workload_of
from .background import BackgroundJob, Winner
from .native_tuning import suggested_rows
from .program_tuner import ProgramResult, tune_program

_FIRST_ROUND = 3.0
"""Seconds of the first round: the first gain is to be seen soon. Each round is twice as long."""
_LONGEST_ROUND = 30.0
_ROUNDS_IN_VAIN = 3
"""The search ends after so many of the longest rounds that found nothing better."""


class Throttle:
    """Pauses work so that on average it uses ``processors`` processors, 0.5 being half of one.

    Work is not interrupted: its excess is waited for afterwards. Idle time is saved up for at most
    ``burst`` seconds of work. ``used`` returns the processor time so far.

    >>> now = 0.0
    >>> def sleep(seconds):
    ...     global now
    ...     now += seconds
    >>> throttle = Throttle(0.5, lambda: 1.0 if now else 0.0, clock=lambda: now, sleep=sleep)
    >>> now = 0.4
    >>> throttle.pause()  # 1.0 s of work, of which 0.25 s were saved up: 0.75 s to be earned
    1.5
    """

    def __init__(
        self,
        processors: float,
        used: Callable[[], float],
        *,
        burst: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.processors = processors
        self._used = used
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._credit = burst
        self._at = clock()
        self._done = used()

    def pause(self) -> float:
        """Sleeps until the average is kept; returns the seconds slept."""
        self._settle()
        seconds = max(0.0, -self._credit / self.processors)
        if seconds > 0:
            self._sleep(seconds)
            self._settle()
        return seconds

    def _settle(self) -> None:
        now, done = self._clock(), self._used()
        earned = (now - self._at) * self.processors
        self._credit = min(self._burst, self._credit + earned) - (done - self._done)
        self._at, self._done = now, done


def processor_seconds(pids: Iterable[int | None] = ()) -> float:
    """Returns the processor time of this process, its ended children, and live processes."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    others = sum(seconds_of(pid) for pid in pids)
    return time.process_time() + ended.ru_utime + ended.ru_stime + others


class _Paused:
    """A measurer that pauses between two candidates. Closing it is left to whoever made it."""

    def __init__(self, measurer: Measurer, throttle: Throttle) -> None:
        self._measurer = measurer
        self._throttle = throttle

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float = float("inf")
    ) -> Iterator[tuple[int, MeasureRecord]]:
        for indexed_record in self._measurer.measure(candidates, best_seconds):
            yield indexed_record
            self._throttle.pause()

    def race(
        self, candidates: Sequence[Candidate], rounds: int, cache: str = "warm"
    ) -> list[MeasureRecord]:
        records = self._measurer.race(candidates, rounds, cache)
        self._throttle.pause()
        return records

    def close(self) -> None:
        """Nothing: the next round goes on with the same processes."""


def patient(settings: TuneSettings) -> TuneSettings:
    """Settings for a process that others may keep waiting for seconds."""
    return replace(
        settings,
        least_timeout=10 * settings.least_timeout,
        first_timeout=6 * settings.first_timeout,
        build_timeout=6 * settings.build_timeout,
    )


def _tune(job: BackgroundJob, write: int) -> None:
    log = TuningLog(job.log)
    log.check_writable()
    settings = patient(DEFAULT_SETTINGS)
    # A kernel with symbolic sizes is tuned at a few of them.
    tasks = [
        replace(task, importance=importance)
        for prim, weight, _ in job.kernels
        for point, importance in (evenly_weighted(prim) if prim.sizes else [({}, 1.0)])
        for task in [task_of(prim, job.target, job.threads, weight, point=point)]
    ]
    running = {workload_of(prim).hash: schedule_key(data) for prim, _, data in job.kernels}
    with Workers(job.threads, settings, beside=job.threads) as workers:
        throttle = Throttle(job.processors, lambda: processor_seconds(w.pid for w in workers.all))
        measurers = {
            task.workload.hash: NativeMeasurer(task, TOOLCHAIN, settings, job.seed, workers)
            for task in tasks
        }
        try:
            for _ in _rounds(job, tasks, measurers, log, throttle, settings):
                winners = _winners(job, log, running)
                running.update({w.workload: _key(w.chosen) for w in winners})
                write_frame(write, Frame({}, pickle.dumps(winners)))
        finally:
            for measurer in measurers.values():
                measurer.close()


def _rounds(
    job: BackgroundJob,
    tasks: Sequence[Task],
    measurers: Mapping[str, Measurer],
    log: TuningLog,
    throttle: Throttle,
    settings: TuneSettings,
) -> Iterator[ProgramResult]:
    """Tune in rounds, each going on from the log, until time is up or nothing more is found."""
    machine = known_machine(job.target)
    logs = [log, *shipped_logs()]
    suggestions = {t.workload.hash: suggested_rows(t, logs) for t in tasks}
    left, length, in_vain, number = job.seconds, _FIRST_ROUND, 0, 0
    while left > 0 and in_vain < _ROUNDS_IN_VAIN:
        result = tune_program(
            tasks,
            lambda task: _Paused(measurers[task.workload.hash], throttle),
            log,
            TuneRequest(
                Budget(seconds=min(length, left)),
                settings=settings,
                seed=job.seed + number,
                suggestions=suggestions,
                peak_flops=machine.peak_flops(job.threads) if machine.measured else 0.0,
            ),
        )
        yield result
        if result.stopped != "budget":
            return
        gained = result.after < (1 - settings.least_gain) * result.before
        in_vain = 0 if gained or length < _LONGEST_ROUND else in_vain + 1
        left -= result.seconds
        length = min(2 * length, _LONGEST_ROUND)
        number += 1


def _winners(job: BackgroundJob, log: TuningLog, running: Mapping[str, str]) -> list[Winner]:
    """Kernels whose best schedule is not the one that runs."""
    log.refresh()
    winners: list[Winner] = []
    for prim, _, _ in job.kernels:
        workload = workload_of(prim).hash
        chosen = choose_schedule(prim, job.target, job.threads, [log])
        if chosen.origin != Origin.EXACT or _key(chosen) == running[workload]:
            continue
        kernel = compile_kernel(prim, chosen.schedule, job.target, kernel_symbol(workload))
        code = object_code(kernel.code, job.target)
        winners.append(Winner(workload, chosen, kernel, code))
    return winners


def _key(chosen: Chosen) -> str:
    return schedule_key(chosen.schedule.to_json())


def _end_with_parent(read: int) -> None:
    """End this process when the other end of the pipe is closed."""

    def wait() -> None:
        while os.read(read, 1):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str]) -> int:
    """Take the job, tune, tell."""
    read, write = (int(a) for a in arguments)
    frame = read_frame(read)
    if frame is None:
        return 0
    job: BackgroundJob = pickle.loads(frame.blob)
    if job.idle:
        yield_to_others()
    _end_with_parent(read)
    try:
        with terminable():
            _tune(job, write)
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    except LogError as error:
        write_frame(write, Frame({"failed": str(error)}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

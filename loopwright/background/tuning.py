"""Tuning while the program runs: ``@lw.compile(tune="background")``.

::

    program's threads     call the function: old build, a trial of two builds, new build
    manager thread        links winners into a build, puts a trial in place, judges it
    reader thread         waits for winners from the side process
    side process          autotune.background_process: tunes, at low priority, within its share

There is one manager in a process, and one side process at a time: functions are queued.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..autotune.budget import parse_budget
from ..autotune.log.log_file import LogError
from ..autotune.log.tuning_log import TuningLog
from ..autotune.measure.fork_server import worker_environment
from ..autotune.measure.transport import Frame, read_frame, write_frame
from ..autotune.program.background import BackgroundJob, Winner
from ..autotune.workload import workload_of
from ..codegen.objects import remember_object
from ..driver.built import Built
from ..driver.kernels import remember_kernel
from ..driver.options import session_log
from ..driver.pipeline import rebuilt
from ..face.background_options import Background
from ..ir.dataclass import dataclass
from ..ir.dims import typical
from ..ir.loop.prim import PrimFunc
from ..ir.program.analysis import scopes
from ..ir.program.nodes import Call, For, Program, While, nested_bodies
from ..tuning.in_place import decision_between
from .trial import Trial

_SWITCH_SECONDS = 2e-5
"""Seconds that another thread waits at most for the interpreter while a build is assembled, so that
a swap does not delay the program's calls (``bench.serving``)."""
_IDLE_SECONDS = 3.0
"""Seconds without a call after which the manager no longer waits for the program."""
_MOST_ERROR_TEXT = 2000
UNKNOWN_TRIPS = 16
"""Iterations that a loop is expected to have where its trip count is not in the program."""


@dataclass(slots=True, eq=False)
class _Job:
    """A build to be improved. ``install(old, new)`` swaps builds unless another one is
    installed."""

    name: str
    built: Built
    log: Path
    options: Background
    install: Callable[[Built, Built], bool]
    handle: BackgroundTuning
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)


class BackgroundTuning:
    """Tunes a function while the program runs: ``f.background``.

    Its ``str`` has a line for every event so far.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        """One entry for each build that was swapped in, with both times, or swapped out again."""
        self.failure: str | None = None
        """The reason why tuning ended before its time, None if it did not."""
        self._jobs: list[_Job] = []

    @property
    def state(self) -> str:
        """ "waiting" for a first call or other functions, "tuning", "done", "stopped", "failed"."""
        if self.failure is not None:
            return "failed"
        if any(not job.ended.is_set() for job in self._jobs):
            return "tuning" if MANAGER.works_on(self._jobs) else "waiting"
        if any(job.stop.is_set() for job in self._jobs):
            return "stopped"
        return "done" if self._jobs else "waiting"

    def start(
        self,
        name: str,
        built: Built,
        log: Path | None,
        options: Background,
        install: Callable[[Built, Built], bool],
    ) -> None:
        """Queue one build of the function."""
        job = _Job(name, built, log or session_log(), options, install, self)
        self._jobs.append(job)
        MANAGER.add(job)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until tuning has ended, at most ``timeout`` seconds. Returns True if it has."""
        until = None if timeout is None else time.monotonic() + timeout
        for job in list(self._jobs):
            left = None if until is None else max(0.0, until - time.monotonic())
            if not job.ended.wait(left):
                return False
        return True

    def stop(self) -> None:
        """End tuning now. Builds that were swapped in stay."""
        for job in list(self._jobs):
            job.stop.set()
        MANAGER.wake()
        self.wait(10.0)

    def __str__(self) -> str:
        lines = [self.state, *self.lines, *([self.failure] if self.failure else [])]
        return "\n".join(lines)


class _Manager:
    """Runs one job after another, in a thread."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._current: _Job | None = None

    def add(self, job: _Job) -> None:
        self._jobs.put(job)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="loopwright-background", daemon=True
                )
                self._thread.start()

    def works_on(self, jobs: Sequence[_Job]) -> bool:
        return any(job is self._current for job in jobs)

    def wake(self) -> None:
        """Let the thread see that a job is to be stopped."""
        self._events.put(_Event("wake"))

    def forget(self) -> None:
        """Begin anew in a forked process, which has neither the thread nor the side process."""
        self.__init__()

    def shut_down(self) -> None:
        current = self._current
        if current is not None:
            current.stop.set()
            self.wake()
            current.ended.wait(5.0)

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            self._current = job
            try:
                if not job.stop.is_set():
                    self._events = queue.SimpleQueue()
                    _Session(job, self._events).run()
            except Exception as error:  # tuning must not end the program
                job.handle.failure = f"{type(error).__name__}: {error}"
            finally:
                self._current = None
                job.ended.set()


@dataclass(frozen=True, slots=True)
class _Event:
    """An event of a job. ``what`` is "news", "end", "decided" or "wake"."""

    what: str
    winners: tuple[Winner, ...] = ()
    words: str = ""
    won: bool = False
    old: float = 0.0
    new: float = 0.0


class _Session:
    """Runs one job from its start to its end."""

    def __init__(self, job: _Job, events: queue.SimpleQueue[_Event]) -> None:
        self.job = job
        self.built = job.built  # what the program runs, beside a trial
        self._shown = job.built  # what is installed: that, or a trial of it
        self._events = events
        self._waiting: list[dict[str, Winner]] = []
        self._trial: Trial | None = None
        self._tried: dict[str, Winner] = {}
        self._next: Built | None = None
        self._left_alone = False

    def run(self) -> None:
        job = self.job
        with _side_process(job, self._events) as process:
            ended, calls, since = False, 0, time.monotonic()
            while not (ended and self._trial is None):
                if job.stop.is_set():
                    self._take_back()
                    return
                with contextlib.suppress(queue.Empty):
                    event = self._events.get(timeout=0.5)
                    if event.what == "news" and event.winners:
                        self._waiting.append({w.workload: w for w in event.winners})
                    elif event.what == "decided":
                        self._conclude(event)
                    elif event.what == "end":
                        ended = True
                        if process.wait() > 0:
                            job.handle.failure = event.words or "the tuning process died"
                if self._trial is None and self._waiting and not self._begin():
                    return  # the program uses another build by now
                if self._trial is not None and self._trial.calls != calls:
                    calls, since = self._trial.calls, time.monotonic()
                elif ended and self._trial is not None and time.monotonic() - since > _IDLE_SECONDS:
                    self._left_alone = True
                    job.handle.lines.append(
                        "the program is idle: its next calls decide what they use"
                    )
                    return

    def _begin(self) -> bool:
        """Installs a trial of the first winners. Returns False if the program uses another build by
        now."""
        self._tried = self._waiting.pop(0)
        source = self.built.source
        assert source is not None
        for winner in self._tried.values():
            remember_object(winner.kernel.code, source.target, winner.code)
            remember_kernel(winner.workload, winner.chosen, source.target, winner.kernel)
        with _short_slices():
            made = rebuilt(self.built, {w.workload: w.chosen for w in self._tried.values()})
        # Warms up memory and code.
        made.call([np.zeros([typical(n) for n in s.shape], s.dtype) for s in made.inputs])
        assert made.direct is not None and self.built.direct is not None
        self._next = made
        self._trial = Trial(self.built.direct, made.direct, self.built.call, self._decided)
        return self._install(replace(made, call=self._trial.call, direct=self._trial.direct))

    def _decided(self, won: bool, old: float, new: float) -> None:
        event = _Event("decided", won=won, old=old, new=new)
        if self._left_alone:
            self._conclude(event)
        else:
            self._events.put(event)

    def _conclude(self, event: _Event) -> None:
        assert self._next is not None
        names = ", ".join(sorted(w.kernel.nest.name for w in self._tried.values()))
        times = f"{event.old * 1e6:.4g} -> {event.new * 1e6:.4g} us a call"
        if event.won:
            self.built = self._next
            self.job.handle.lines.append(f"{self.job.name}: {names} swapped in, {times}")
        else:
            self.job.handle.lines.append(f"{self.job.name}: {names} taken back, {times}")
            if len(self._tried) > 1:  # one of them may be to blame
                self._waiting[:0] = [{h: w} for h, w in self._tried.items()]
            else:
                self._roll_back((event.old, event.new))
        self._trial, self._next = None, None
        self._install(self.built)

    def _roll_back(self, seconds: tuple[float, float]) -> None:
        """Logs the decision for the schedule that runs now; ``seconds`` are those of whole
        calls."""
        assert self._next is not None and self.built.parts is not None
        (workload,) = self._tried
        parts = self.built.parts
        name = next(n for n, p in parts.prims.items() if workload_of(p).hash == workload)
        if parts.prims[name].sizes:  # calls of many sizes say nothing about one
            return
        program = f"{self.job.name}, whole calls while it served"
        samples = [(took,) for took in seconds]
        decision = decision_between((self.built, self._next), name, samples, 0, program)
        try:
            TuningLog(self.job.log).append(decision)
        except LogError as error:
            self.job.handle.lines.append(f"not written down: {error}")

    def _take_back(self) -> None:
        if self._trial is not None:
            self._install(self.built)

    def _install(self, built: Built) -> bool:
        fits = self.job.install(self._shown, built)
        if fits:
            self._shown = built
        else:
            self.job.stop.set()
        return fits


def _kernels(built: Built) -> Iterator[tuple[PrimFunc, int, Any]]:
    """Yields each kernel that is a loop nest, how often it is called, and its schedule (JSON)."""
    source = built.source
    assert source is not None
    schedules = {workload_of(p).hash: built.chosen[n].schedule for n, p in source.prims.items()}
    calls = {workload_of(prim).hash: prim for prim in source.prims.values()}
    assert built.parts is not None
    counts: Counter[str] = Counter()
    for name, count in expected_calls(built.parts.program).items():
        counts[workload_of(source.prims[name]).hash] += count
    for workload, prim in calls.items():
        if counts[workload]:  # else it is a part of the code around it
            yield prim, counts[workload], schedules[workload].to_json()


@contextlib.contextmanager
def _side_process(
    job: _Job, events: queue.SimpleQueue[_Event]
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the process that tunes, and a thread that makes events of its frames."""
    built = job.built
    assert built.parts is not None
    child_read, write = os.pipe()
    read, child_write = os.pipe()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "loopwright.autotune.program.background_process",
            str(child_read),
            str(child_write),
        ],
        pass_fds=(child_read, child_write),
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        env=worker_environment(),
    )
    os.close(child_read)
    os.close(child_write)
    reader = threading.Thread(target=_listen, args=(read, errors, events), daemon=True)
    try:
        reader.start()
        processors = job.options.share * len(os.sched_getaffinity(0))
        seconds = parse_budget(job.options.budget).seconds
        assert seconds is not None
        order = BackgroundJob(
            tuple(_kernels(built)),
            built.parts.target,
            built.parts.threads,
            job.log,
            processors,
            seconds,
            idle=job.options.priority == "idle",
        )
        write_frame(write, Frame({}, pickle.dumps(order)))
        yield process
    finally:
        os.close(write)  # it ends when it sees that
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        os.close(read)
        errors.close()


def _listen(read: int, errors: Any, events: queue.SimpleQueue[_Event]) -> None:
    """Reads frames of the side process until it ends. It runs no candidates, so it is trusted."""
    words = ""
    while (frame := read_frame(read)) is not None:
        words = str(frame.header.get("failed", ""))
        winners: tuple[Winner, ...] = tuple(pickle.loads(frame.blob)) if frame.blob else ()
        events.put(_Event("news", winners))
    if not words:
        size = errors.seek(0, os.SEEK_END)
        errors.seek(max(0, size - _MOST_ERROR_TEXT))
        words = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    events.put(_Event("end", words=words))


@contextlib.contextmanager
def _short_slices() -> Iterator[None]:
    """Shortens the interpreter's switch interval, so that other threads of the program run soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


MANAGER = _Manager()
os.register_at_fork(after_in_child=MANAGER.forget)
atexit.register(MANAGER.shut_down)


def expected_calls(program: Program) -> Counter[str]:
    """Returns how often each kernel is expected to be called in a run, inline ones left out; of a
    branch both ways, and of a function what one call of it runs."""
    counts: Counter[str] = Counter()
    work = [(scope.body, 1) for scope in scopes(program)]
    while work:
        body, times = work.pop()
        for instr in body:
            if isinstance(instr, Call) and not instr.inline:
                counts[instr.kernel] += times
            trips = 1
            if isinstance(instr, For | While):
                extent = instr.extent if isinstance(instr, For) else ""
                trips = extent if isinstance(extent, int) else UNKNOWN_TRIPS
            work += [(nested, times * trips) for nested in nested_bodies(instr)]
    return counts

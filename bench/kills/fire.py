"""Tuning under fire.

A tuner on a stand-in for measuring, with real worker processes that look the cost up, is killed
with ``kill -9`` again and again: it, or one of its workers, at a random moment. Every record whose
append was answered is noted. In the end

- every noted record must be in a log, and every log must be readable,
- nothing may be left: no process, no open file more than at the start, no temporary file (the next
  run removes what a killed one left), no shared memory.

A candidate stands for a twentieth of a second of tuning, so that 72,000 are an hour's worth.
"""

from __future__ import annotations

import os
import random
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.transport import Frame
from loopwright.autotune.measure.worker_process import WorkerProcess, wait_for
from loopwright.autotune.model.cost_model import LinearModel
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.scratch import ScratchFolder

from bench.one_task import tune_one
from bench.standins import SyntheticMeasurer, synthetic_task

__all__ = ["CostService", "Outcome", "under_fire"]

CANDIDATE_SECONDS = 0.05
CANDIDATES_A_KILL = 72
"""On average: an hour's worth over 1,000 kills."""
KILLS_A_LOG = 50
"""A log is read whole whenever a tuner starts; many shorter ones keep that quick."""
TUNER_SHARE = 0.35
"""Kills that hit the tuner; the others hit one of its workers."""
PATIENCE = 120.0
"""Seconds after which a process that should have ended counts as leaked."""
_MARK = "LOOPWRIGHT_UNDER_FIRE"
_SHARED = Path("/dev/shm")


# -- the tuner that is killed ----------------------------------------------------------------------


@dataclass
class CostService:
    """A service whose workers look the cost of a row up instead of measuring it."""

    space: Any
    memory: int = 1 << 30
    fault: ClassVar[str] = "crash"

    def open(self) -> None:
        """Nothing is needed."""

    def close(self) -> None:
        """Nothing is open."""

    def handle(self, request: Any) -> Frame:
        seconds = float(self.space.seconds(np.array([request], np.int32))[0])
        return Frame({"seconds": [seconds] * 3})


class FiredAtMeasurer:
    """Two workers that run alternately, and a folder, as real measuring has them."""

    def __init__(self, task: Any, name: str) -> None:
        self.task, self.name = task, name
        self.count = 0
        self.synthetic = SyntheticMeasurer(task)
        self.folder = ScratchFolder()
        (self.folder.path / "reference.npz").write_bytes(b"x" * 1000)
        self.service = CostService(task.space)
        self.workers = [WorkerProcess(), WorkerProcess()]

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float
    ) -> Iterator[tuple[int, MeasureRecord]]:
        for index, candidate in enumerate(candidates):
            yield index, self._record(candidate)

    def race(
        self, candidates: Sequence[Candidate], rounds: int, cache: str = "warm"
    ) -> list[MeasureRecord]:
        return [self._record(c) for c in candidates]

    def _record(self, candidate: Candidate) -> MeasureRecord:
        worker = self.workers[self.count % len(self.workers)]
        self.count += 1
        record = replace(self.synthetic._record(candidate, 3), detail=f"{self.name}.{self.count}")
        for _ in range(2):  # one that is killed is asked again
            worker.submit(self.service, tuple(candidate.schedule[0][1]), 10.0)
            reply = None
            while reply is None:
                wait_for([worker])
                reply = worker.poll()
            if reply.error is None:
                return replace(record, seconds=tuple(reply.header["seconds"]))
        return replace(record, seconds=(), error=reply.error, checked=None)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.folder.close()


class _Told(TuningLog):
    """Says which records it has acknowledged."""

    def __init__(self, path: Path, pipe: int) -> None:
        self.pipe = pipe
        super().__init__(path)

    def append(self, records: Any) -> None:
        super().append(records)
        batch = records if isinstance(records, list | tuple) else [records]
        names = [r.detail for r in batch if isinstance(r, MeasureRecord)]
        os.write(self.pipe, "".join(f"{name}\n" for name in names).encode())


def _tune(path: Path, name: str, pipe: int, trials: int) -> None:
    task = synthetic_task()
    measurer = FiredAtMeasurer(task, name)
    try:
        tune_one(
            task,
            measurer,
            _Told(path, pipe),
            f"{trials} trials",
            model=LinearModel(),
            strategy="random",
            seed=int(name),
        )
    finally:
        measurer.close()


# -- who kills it ----------------------------------------------------------------------------------


@dataclass
class Outcome:
    """The state after the fire. ``problems`` are sentences; there should be none."""

    kills: int = 0
    tuners: int = 0
    acknowledged: int = 0
    records: int = 0
    torn: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        simulated = self.acknowledged * CANDIDATE_SECONDS
        lines = [
            f"{self.kills} kills, {self.tuners} of tuners, {self.kills - self.tuners} of workers,"
            f" in {self.seconds:.0f} s ({simulated / 60:.0f} min of simulated tuning)",
            f"{self.acknowledged} records acknowledged, {self.records} in the logs, "
            f"{self.torn} lines torn",
        ]
        if not self.problems:
            lines.append("none lost, every log readable, nothing left behind")
        return "\n".join([*lines, *self.problems])


def under_fire(
    kills: int, folder: Path, seed: int = 0, told: Callable[[Outcome], None] = lambda _: None
) -> Outcome:
    """Tune and kill; temporary files go to ``folder``, which holds nothing else.

    ``told`` hears after every log how things stand.
    """
    begun = time.monotonic()
    rng = random.Random(seed)
    outcome = Outcome()
    mark = f"{os.getpid()}.{seed}"
    os.environ[_MARK] = mark
    tempfile.tempdir = str(folder / "tmp")
    Path(tempfile.tempdir).mkdir()
    shared = _names(_SHARED)
    noted: list[str] = []
    name = 0
    while outcome.kills < kills:
        path = folder / f"{name}.jsonl"
        until = min(kills, outcome.kills + KILLS_A_LOG)
        noted.clear()
        while outcome.kills < until:
            name += 1
            _life(path, str(name), until, rng, noted, outcome)
            _expect_no_process(mark, outcome)
        name += 1
        _life(path, str(name), 0, rng, noted, outcome)  # one more, which nobody kills
        _expect_no_process(mark, outcome)
        left = _names(Path(tempfile.tempdir))
        if left:
            outcome.problems.append(f"left in the temporary folder: {sorted(left)}")
        _check_log(path, noted, outcome)
        outcome.seconds = time.monotonic() - begun
        told(outcome)
    if _names(_SHARED) - shared:
        outcome.problems.append(f"left in {_SHARED}: {sorted(_names(_SHARED) - shared)}")
    outcome.seconds = time.monotonic() - begun
    return outcome


def _life(
    path: Path, name: str, until: int, rng: random.Random, noted: list[str], outcome: Outcome
) -> None:
    """A tuner from its start to its death; ``until`` is the number of kills to reach."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read)
        status = 1
        try:
            _tune(path, name, write, 10**9 if until else 30)
            status = 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    os.close(write)
    os.set_blocking(read, False)
    pipe = _Acknowledged(read, noted)
    files = 0
    alive = True
    while until and alive and outcome.kills < until:
        pipe.wait(rng.randrange(2 * CANDIDATES_A_KILL))
        time.sleep(rng.random() * 0.003)
        children = _children(pid)
        files = files or _open_files(pid)
        alive = bool(children) and rng.random() > TUNER_SHARE
        victim = rng.choice(children) if alive else pid
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        outcome.kills += 1
        outcome.tuners += not alive
        now = _open_files(pid) if alive else 0
        if files and now > files + 8:  # some are open while a worker starts
            outcome.problems.append(f"tuner {name} has {now} open files, {files} at its start")
    if until and alive:  # only workers of the last one were killed
        os.kill(pid, signal.SIGKILL)
    pipe.rest()
    _, status = os.waitpid(pid, 0)
    if not until and status:
        outcome.problems.append(f"tuner {name}, not killed, ended with status {status}")
    outcome.acknowledged += pipe.count


class _Acknowledged:
    """Reads what a tuner says it has acknowledged."""

    def __init__(self, descriptor: int, noted: list[str]) -> None:
        self.descriptor, self.noted = descriptor, noted
        self.count = 0
        self._left = b""

    def wait(self, more: int) -> None:
        """Until so many more records are acknowledged."""
        goal = self.count + more
        while self.count < goal and self._read(PATIENCE):
            pass

    def rest(self) -> None:
        while self._read(PATIENCE):
            pass
        os.close(self.descriptor)

    def _read(self, patience: float) -> bool:
        if not select.select([self.descriptor], [], [], patience)[0]:
            return False
        piece = os.read(self.descriptor, 1 << 16)
        *lines, self._left = (self._left + piece).split(b"\n")
        self.noted += [line.decode() for line in lines]
        self.count += len(lines)
        return bool(piece)


def _check_log(path: Path, noted: Sequence[str], outcome: Outcome) -> None:
    log = TuningLog(path)
    found = {record.detail for record in log}
    lost = set(noted) - found
    if lost:
        outcome.problems.append(f"{path.name} has lost {len(lost)} records: {sorted(lost)[:5]}")
    if log.skipped.foreign or log.skipped.future:
        outcome.problems.append(f"{path.name} holds lines of another kind: {log.skipped}")
    outcome.records += len(log)
    outcome.torn += log.skipped.torn


def _expect_no_process(mark: str, outcome: Outcome) -> None:
    """Workers end by themselves once their tuner is gone."""
    end = time.monotonic() + PATIENCE
    while left := _marked(mark):
        if time.monotonic() > end:
            outcome.problems.append(f"processes left: {left}")
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.002)


def _marked(mark: str) -> list[int]:
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _open_files(pid: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()

"""TVM's MetaSchedule beside us: its search, and how long ours takes to the same quality.

    python -m bench.metaschedule                         six kernels, 64 trials each
    python -m bench.metaschedule --tasks softmax --trials 200 --threads 1
    python -m bench.metaschedule --python tvm/bin/python

TVM may have an environment of its own, with Loopwright in it (``pip install -e ".[bench]"``), whose
Python ``--python`` names.
MetaSchedule searches a kernel with so many trials, in a process of its own and on as many cores for
building as we have. Its clock starts when TVM is loaded, and stops when the candidate that came out
best was measured, not at the end of the search. Then our search starts from an empty log, its
clock with its first process. All that was best for a while in ours is measured again beside
MetaSchedule's best, interleaved, on the same arrays: the time that counts is that of our first one
that is as fast. Where none is, the whole of our run counts, and the line says so.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loopwright.autotune.budget import parse_budget
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.settings import DEFAULT_SETTINGS

from .families import make
from .lock import MachineLock
from .one_task import tune_one
from .process import ROOT
from .row import geomean
from .search_tasks import HELD_OUT, main_task
from .time_to_quality import incumbents
from .workload import Workload

__all__ = ["Beside", "Found", "main", "read_answers", "time_to"]

BAR = 30.0
KINDS = ("matmul", "conv", "conv_1x1", "conv_first", "softmax", "depthwise")
_ROUNDS = 9
_MOST_INCUMBENTS = 8
_SETTINGS = replace(DEFAULT_SETTINGS, least_gain=0.0)


@dataclass(frozen=True, slots=True)
class Found:
    """MetaSchedule's best, found after ``at`` of ``seconds`` of search.

    ``wrong`` is the error of its result, in tolerances.
    """

    at: float
    seconds: float
    wrong: float


@dataclass(frozen=True, slots=True)
class Beside:
    """MetaSchedule's and our best seconds a call, and the seconds of search until its best."""

    name: str
    theirs: float
    ours: float
    their_seconds: float
    our_seconds: float
    reached: bool

    @property
    def ratio(self) -> float:
        """Wall-clock of its search over that of ours."""
        return self.their_seconds / self.our_seconds

    def __str__(self) -> str:
        end = "" if self.reached else ", which ours did not reach"
        return (
            f"{self.name:<28} MetaSchedule {1e6 * self.theirs:8.1f} us after "
            f"{self.their_seconds:6.1f} s, we are there after {self.our_seconds:5.2f} s "
            f"({self.ratio:5.0f}x) and at {1e6 * self.ours:8.1f} us in the end{end}"
        )


def read_answers(lines: Iterable[str]) -> Found:
    """The answers of the process up to the end of its search. RuntimeError if there is none."""
    at = math.inf
    for line in lines:
        answer: dict[str, Any] = json.loads(line)
        if "seconds" in answer:
            return Found(min(at, answer["seconds"]), answer["seconds"], answer["wrong"])
        at = float(answer["at"])
    raise RuntimeError("MetaSchedule's process ended without a result")


def time_to(
    quality: float, path: Sequence[tuple[float, float]], spent: float
) -> tuple[float, bool]:
    """Seconds until ``path``, our best (seconds of search, seconds a call) one after the other, is
    as good as ``quality``; all that was ``spent``, and False, if it never is."""
    good = [at for at, seconds in path if seconds <= quality]
    return (min(good), True) if good else (spent, False)


class _Peer:
    """MetaSchedule's process."""

    def __init__(
        self, workload: Workload, trials: int, threads: int, folder: Path, python: str
    ) -> None:
        self._errors = (folder / "said").open("w+b")
        self._process = subprocess.Popen(
            [python, "-m", "bench.metaschedule_peer"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )
        work = folder / "search"
        work.mkdir()
        asked = {"kind": workload.kind, "params": dict(workload.params), "trials": trials}
        self._ask({**asked, "threads": threads, "folder": str(work)})

    def _ask(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def found(self) -> Found:
        """Wait for the end of the search. RuntimeError has the last line the process said."""
        assert self._process.stdout is not None
        try:
            return read_answers(self._process.stdout)
        except RuntimeError as error:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise RuntimeError(f"{error}: {said[-1] if said else 'no word'}") from None

    def call_seconds(self) -> float:
        """Seconds of a call of what it found, measured now."""
        assert self._process.stdout is not None
        self._ask({})
        return float(json.loads(self._process.stdout.readline())["call"])

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def beside(
    workload: Workload, trials: int, threads: int, budget: float, python: str = sys.executable
) -> Beside:
    """Both searches on one workload, MetaSchedule's in another ``python``. RuntimeError where its
    search came to nothing."""
    with tempfile.TemporaryDirectory() as folder:
        peer = _Peer(workload, trials, threads, Path(folder), python)
        try:
            found = peer.found()
            if not found.wrong <= 1.0:
                raise RuntimeError(f"MetaSchedule's result is off by {found.wrong:.3g} tolerances")
            return _race(workload, threads, budget, peer, found)
        finally:
            peer.close()


def _race(workload: Workload, threads: int, budget: float, peer: _Peer, found: Found) -> Beside:
    """Our search, then its best ones interleaved with the peer's."""
    task, log = main_task(workload, threads), TuningLog()
    begun = time.monotonic()
    with NativeMeasurer(task, TOOLCHAIN, _SETTINGS) as measurer:
        late = time.monotonic() - begun
        _, result = tune_one(task, measurer, log, budget, settings=_SETTINGS)
        spent = time.monotonic() - begun
        assert result.best is not None
        best = incumbents(log.of(task.workload.hash, task.key))
        shown = [*best[:1], *best[1:][-_MOST_INCUMBENTS:]]
        entrants = {r.schedule_key: r for r in (*shown, result.best)}
        asked = [Candidate(r.schedule, r.sketch) for r in entrants.values()]
        ours = dict.fromkeys(entrants, math.inf)
        theirs = math.inf
        for _ in range(_ROUNDS):
            theirs = min(theirs, peer.call_seconds())
            for record in measurer.race(asked, 1):
                ours[record.schedule_key] = min(ours[record.schedule_key], record.cost)
    path = [(late + (r.at or 0.0), ours[r.schedule_key]) for r in shown]
    path.append((spent, ours[result.best.schedule_key]))
    seconds, reached = time_to(theirs, path, spent)
    return Beside(workload.name, theirs, min(ours.values()), found.at, seconds, reached)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if the bar is missed or nothing could be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.metaschedule",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", default=",".join(KINDS), help=f"kinds ({','.join(KINDS)})")
    parser.add_argument("--trials", type=int, default=64, help="of MetaSchedule (64)")
    parser.add_argument("--budget", default="10s", help="of our search (10s)")
    parser.add_argument("--threads", type=int, default=1, help="of the kernels (1)")
    parser.add_argument("--python", default=sys.executable, help="of TVM's environment (this one)")
    options = parser.parse_args(arguments)
    if shutil.which(options.python) is None:
        parser.error(f"no Python {options.python!r}")
    budget = parse_budget(options.budget).seconds or 10.0
    ratios: list[float] = []
    gains: list[float] = []
    for kind in options.tasks.split(","):
        params = next((p for k, p in HELD_OUT if k == kind), None)
        if params is None:
            parser.error(f"no held-out kernel of the kind {kind!r}")
        with MachineLock():
            try:
                workload = make(kind, params)
                one = beside(workload, options.trials, options.threads, budget, options.python)
            except RuntimeError as error:
                print(f"{kind}: {error}", flush=True)
                continue
        ratios.append(one.ratio)
        gains.append(one.theirs / one.ours)
        print(one, flush=True)
    if not ratios:
        return 1
    mean, least = geomean(ratios), min(gains)
    print(f"geometric mean {mean:.0f}x less time to MetaSchedule's final quality (bar {BAR:g}x),")
    print(f"in the end {geomean(gains):.2f}x as fast, at least {least:.2f}x (bar 1x)")
    return int(mean < BAR or least < 1.0)


if __name__ == "__main__":
    sys.exit(main())

"""Speed of schedules that are carried from tuned shapes to near ones.

    python -m bench.near_shapes                                   all families, some minutes
    python -m bench.near_shapes --only softmax matmul --log tuned.jsonl
    python -m bench.near_shapes --log tuned.jsonl --threads 2     records of one thread, carried to two
    LOOPWRIGHT_ISA=x86-64-v3 python -m bench.near_shapes --log tuned.jsonl        and to AVX2

Two shapes of each family are tuned into a log, unless ``--log`` has records already. The log is
then carried to near shapes: what a compile would choose, and use after its first-use check, is
measured beside the default schedule and beside the best of a search of ``--seconds`` on the near
shape itself, all of them interleaved. ``forced`` are the log's nearest records, refitted whatever
they promise: a record is of use where the best of them is 3 % faster than the default.

The gain of a schedule is the logarithm of the default's time over its own; the share of the gain
reached is the sum of those carried over the sum of those tuned. Nothing that ships is asked.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopwright.autotune.log.log_index import log_index
from loopwright.autotune.log.lookup import best_of, related
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN, task_of
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.program.native_tuning import tune_tasks
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.select import choose_schedule, refitted
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.autotune.task import Task
from loopwright.kernels import checked_kernels

from .families import make
from .interval import geometric_mean
from .lock import MachineLock
from .search_tasks import main_task

__all__ = ["FAMILIES", "main"]

ROUNDS = 12
OF_USE = 1.03
"""Times as fast as the default schedule from which on a record is of use."""

_CONV = {"kernel": 3, "stride": 1}


def _mkn(m: int, k: int, n: int, const: bool = True) -> dict[str, Any]:
    return {"m": m, "k": k, "n": n, "const": const}


def _image(c: int, size: int, out: int, **more: Any) -> dict[str, Any]:
    return {"c": c, "size": size, "out": out, **(more or _CONV)}


FAMILIES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "matmul": (
        [_mkn(192, 256, 320), _mkn(96, 384, 768)],
        [_mkn(208, 256, 320), _mkn(192, 320, 288), _mkn(128, 384, 640), _mkn(96, 448, 768)],
    ),
    "conv": (
        [_image(32, 28, 64), _image(64, 14, 96)],
        [_image(32, 24, 64), _image(48, 28, 64), _image(64, 16, 80), _image(80, 14, 96)],
    ),
    "softmax": (
        [{"shape": (256, 384), "log": False}, {"shape": (96, 1000), "log": False}],
        [{"shape": s, "log": False} for s in ((320, 384), (256, 448), (128, 1000), (96, 1200))],
    ),
    "norm": (
        [{"op": "layer", "shape": (256, 512)}, {"op": "layer", "shape": (128, 768)}],
        [{"op": "layer", "shape": s} for s in ((320, 512), (256, 576), (160, 768), (128, 1024))],
    ),
    "reduction": (
        [{"op": "sum", "shape": (512, 384), "axis": (0,)}, {"op": "sum", "shape": (900, 96), "axis": (0,)}],
        [
            {"op": "sum", "shape": s, "axis": (0,)}
            for s in ((640, 384), (512, 480), (1000, 96), (900, 128))
        ],
    ),
    "argmax": (
        [{"op": "argmax", "shape": (256, 500), "axis": (1,)}],
        [{"op": "argmax", "shape": s, "axis": (1,)} for s in ((320, 500), (256, 600))],
    ),
    "attention": (
        [{"heads": 8, "length": 64, "depth": 64, "keys": 0}],
        [{"heads": n, "length": s, "depth": 64, "keys": 0} for n, s in ((12, 64), (8, 80), (8, 96))],
    ),
    "permute": (
        [{"shape": (8, 64, 48, 16), "axes": (0, 3, 1, 2)}],
        [{"shape": s, "axes": (0, 3, 1, 2)} for s in ((12, 64, 48, 16), (8, 72, 48, 16), (8, 64, 56, 16))],
    ),
    "transpose_add": (
        [{"m": 384, "n": 512}],
        [{"m": m, "n": n} for m, n in ((448, 512), (384, 640), (300, 500))],
    ),
    "pooling": (
        [{"op": "max", "c": 64, "size": 56, "kernel": 3, "stride": 2, "pad": 1}],
        [
            {"op": "max", "c": c, "size": s, "kernel": 3, "stride": 2, "pad": 1}
            for c, s in ((80, 56), (64, 64), (64, 48))
        ],
    ),
    "depthwise": (
        [{"c": 96, "size": 28, "out": 96, "kernel": 3, "groups": 96, "stride": 1}],
        [
            {"c": c, "size": s, "out": c, "kernel": 3, "groups": c, "stride": 1}
            for c, s in ((128, 28), (96, 32), (80, 28))
        ],
    ),
    "elementwise": (
        [{"op": "gelu", "n": 80000}],
        [{"op": "gelu", "n": n} for n in (100000, 64000)],
    ),
}
"""Parameters of the shapes that are tuned, and of those that records are carried to."""


@dataclass(frozen=True, slots=True)
class Carried:
    """One near shape: seconds by what was measured, and how its choice came about."""

    name: str
    seconds: dict[str, float]
    origin: str
    passed: tuple[str, ...]

    def gain(self, what: str) -> float:
        """Returns how many times as fast as the default something is."""
        return self.seconds["default"] / self.seconds[what]

    @property
    def forced(self) -> float:
        """Returns the gain of the best record that was refitted."""
        return max((self.gain(w) for w in self.seconds if w.startswith("forced")), default=1.0)

    def __str__(self) -> str:
        each = ", ".join(f"{w} {self.gain(w):.3f}" for w in self.seconds if w != "default")
        text = f"{self.name}: {1e6 * self.seconds['default']:.4g} us; {each}; {self.origin}"
        return f"{text} ({', '.join(self.passed)})" if self.passed else text


def tuned(tasks: Sequence[Task], log: TuningLog, seconds: float) -> None:
    """Tunes each task on its own for so many seconds."""
    for task in tasks:
        tune_tasks([task], TOOLCHAIN, log, TuneRequest(f"{seconds}s").resolved())


def _entrants(task: Task, path: Path, own: TuningLog) -> tuple[dict[str, Candidate], str, tuple[str, ...]]:
    """Returns what is raced on a near shape, and the origin of the choice."""
    prim, target, threads = task.prim, task.target, task.threads
    logs = [log_index(path)]
    default, _ = default_schedule(prim, target.with_threads(threads))
    first = {prim.name: choose_schedule(prim, target, threads, logs)}
    _, used = checked_kernels({prim.name: prim}, first, target, threads, logs)
    chosen = used[prim.name]
    schedules = {"default": default.to_json(), "carried": chosen.schedule.to_json()}
    space = ScheduleSpace(prim, target, threads)
    for number, result in enumerate(related(logs, task.workload, task.key)):
        row = refitted(space, result, space.default()[0])
        if row is not None:
            schedules[f"forced {number}"] = space.schedule(row).to_json()
    best = best_of([own], task.workload.hash, task.key)
    if best is not None:
        schedules["tuned"] = best[1].schedule
    entrants = {what: Candidate(tuple(steps), "") for what, steps in schedules.items()}
    return entrants, str(chosen.origin), (*chosen.refused, *chosen.passed)


def carried(task: Task, name: str, path: Path, own: TuningLog, workers: Workers) -> Carried | None:
    """Measures one near shape; None if something failed."""
    entrants, origin, passed = _entrants(task, path, own)
    distinct = list({c.key: c for c in entrants.values()}.values())
    with NativeMeasurer(task, TOOLCHAIN, DEFAULT_SETTINGS, 0, workers) as measurer:
        cost = {r.schedule_key: r.cost for r in measurer.race(distinct, ROUNDS) if r.ok}
    if len(cost) < len(distinct):
        return None
    return Carried(name, {what: cost[c.key] for what, c in entrants.items()}, origin, passed)


def report(rows: Sequence[Carried]) -> Iterator[str]:
    """Yields the lines of the summary."""
    useful = [row for row in rows if row.forced >= OF_USE]
    taken = [row for row in useful if row.origin not in ("rules", "model")]
    whole = sum(max(0.0, math.log(row.gain("tuned"))) for row in rows if "tuned" in row.seconds)
    reached = sum(math.log(row.gain("carried")) for row in rows)
    for what in ("carried", "tuned"):
        each = [[row.gain(what)] for row in rows if what in row.seconds]
        if each:
            yield f"{what} over the default: {geometric_mean(each)}, worst {min(each)[0]:.3f}"
    yield f"the best of the records, forced: {geometric_mean([[r.forced] for r in rows])}"
    yield f"{len(rows)} shapes; of use {len(useful)}, taken {len(taken)} of these"
    if whole:
        yield f"share of the gain reached: {100 * reached / whole:.0f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.near_shapes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="*", choices=[*FAMILIES], default=[*FAMILIES])
    parser.add_argument("--log", metavar="LOG", help="of the tuned shapes; kept")
    parser.add_argument("--own", metavar="LOG", help="of the near shapes, tuned themselves; kept")
    parser.add_argument("--seconds", type=float, default=4.0, help="to tune a shape (4)")
    parser.add_argument("--threads", type=int, default=1, help="of the near shapes (1)")
    options = parser.parse_args(arguments)
    rows: list[Carried] = []
    with tempfile.TemporaryDirectory() as folder, MachineLock() as lock:
        path = Path(options.log or Path(folder) / "tuned.jsonl")
        own = TuningLog(options.own or Path(folder) / "own.jsonl")
        if not path.exists():
            for kind in options.only:
                tasks = [main_task(make(kind, params)) for params in FAMILIES[kind][0]]
                tuned(tasks, TuningLog(path), options.seconds)
                lock.between()
        with Workers(options.threads) as workers:
            for kind in options.only:
                for params in FAMILIES[kind][1]:
                    workload = make(kind, params)
                    task = main_task(workload, options.threads)
                    task = task_of(task.prim, task.target, task.threads)  # operands in the caches
                    if options.seconds and not own.of(task.workload.hash, task.key):
                        tuned([task], own, options.seconds)
                    row = carried(task, workload.name, path, own, workers)
                    sys.stdout.write(f"{row or f'{workload.name}: a schedule failed'}\n")
                    sys.stdout.flush()
                    rows += [] if row is None else [row]
                    lock.between()
    sys.stdout.write("\n".join(report(rows)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

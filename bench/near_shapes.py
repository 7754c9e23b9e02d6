"""Speed of schedules that are carried from tuned shapes to near ones.

    python -m bench.near_shapes                                   all families, some minutes
    python -m bench.near_shapes --only softmax matmul --log tuned.jsonl
    python -m bench.near_shapes --log tuned.jsonl --threads 2     carried to two threads
    LOOPWRIGHT_ISA=x86-64-v3 python -m bench.near_shapes --log tuned.jsonl       and to AVX2

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.autotune.log.log_index import log_index
from loopwright.autotune.log.lookup import best_of, related
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN, task_of
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.program.native_tuning import tune_tasks
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.selection.select import choose_schedule, refitted
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.driver.kernels import checked_kernels
from loopwright.driver.pipeline import called_kernels, lower_module, preferences_of
from loopwright.ir.loop.work import prim_bytes, prim_flops

from .interval import geometric_mean
from .lock import MachineLock

__all__ = ["FAMILIES", "main", "main_task"]

ROUNDS = 12
OF_USE = 1.03
"""Times as fast as the default schedule from which on a record is of use."""

Shapes = tuple[tuple[int, ...], ...]


def _product(x: Any, w: Any) -> Any:
    return np.maximum(x @ w, 0)


def _patches(x: Any, w: Any) -> Any:
    return lw.nn.conv2d(x, w, strides=4)


def _convolution(x: Any, w: Any) -> Any:
    return lw.nn.conv2d(x, w, padding=1)


def _softmax(x: Any) -> Any:
    return lw.nn.softmax(x)


def _first_axis(x: Any) -> Any:
    return lw.nn.softmax(x, axis=0)


def _layer_norm(x: Any) -> Any:
    return _normalised(x, -1)


def _channel_norm(x: Any) -> Any:
    return _normalised(x, 1)


def _normalised(x: Any, axis: int) -> Any:
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis, keepdims=True) + np.float32(1e-5))


def _sum(x: Any) -> Any:
    return (x * x).sum((0, 2))


def _argmax(x: Any) -> Any:
    return x.argmax(-1)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return lw.nn.softmax(q @ k.swapaxes(-1, -2) * np.float32(0.125)) @ v


def _scores(q: Any, k: Any) -> Any:
    return np.einsum("hd,shd->hs", q, k)


def _permuted(x: Any) -> Any:
    return np.tanh(x.transpose(0, 3, 1, 2))


def _added(x: Any, y: Any) -> Any:
    return x + y.T


def _pooled(x: Any) -> Any:
    return lw.nn.max_pool2d(x, 3, strides=2)


FAMILIES: dict[str, tuple[Callable[..., Any], list[Shapes], list[Shapes]]] = {
    "product": (
        _product,
        [((192, 256), (256, 320)), ((96, 384), (384, 768))],
        [((208, 256), (256, 320)), ((192, 320), (320, 288)), ((96, 448), (448, 768))],
    ),
    "patches": (
        _patches,
        [((1, 3, 64, 64), (96, 3, 4, 4)), ((1, 3, 112, 112), (64, 3, 4, 4))],
        [((1, 3, s, s), (n, 3, 4, 4)) for s, n in ((80, 96), (64, 128), (128, 64), (112, 80))],
    ),
    "convolution": (
        _convolution,
        [((1, 32, 28, 28), (64, 32, 3, 3)), ((1, 64, 14, 14), (96, 64, 3, 3))],
        [
            ((1, c, s, s), (n, c, 3, 3))
            for c, s, n in ((32, 24, 64), (48, 28, 64), (64, 16, 80), (80, 14, 96))
        ],
    ),
    "softmax": (
        _softmax,
        [((256, 384),), ((96, 1000),)],
        [(s,) for s in ((320, 384), (256, 448), (128, 1000), (96, 1200))],
    ),
    "softmax over the first axis": (
        _first_axis,
        [((384, 256),), ((1000, 48),)],
        [(s,) for s in ((448, 256), (384, 320), (1200, 48), (1000, 64))],
    ),
    "layer norm": (
        _layer_norm,
        [((256, 512),), ((128, 768),)],
        [(s,) for s in ((320, 512), (256, 576), (160, 768), (128, 1024))],
    ),
    "norm over channels": (
        _channel_norm,
        [((2, 96, 28, 28),), ((1, 192, 14, 14),)],
        [(s,) for s in ((2, 128, 28, 28), (2, 96, 32, 32), (1, 256, 14, 14), (1, 192, 16, 16))],
    ),
    "sum": (
        _sum,
        [((32, 64, 196),), ((8, 128, 784),)],
        [(s,) for s in ((32, 96, 196), (48, 64, 196), (8, 160, 784), (8, 128, 900))],
    ),
    "argmax": (
        _argmax,
        [((256, 500),), ((1000, 10),)],
        [(s,) for s in ((320, 500), (256, 600), (1200, 10), (1000, 16))],
    ),
    "attention": (
        _attention,
        [((8, 64, 64),) * 3],
        [((h, n, 64),) * 3 for h, n in ((12, 64), (8, 80), (8, 96))],
    ),
    "scores": (
        _scores,
        [((8, 64), (512, 8, 64))],
        [((h, 64), (n, h, 64)) for h, n in ((8, 640), (12, 512), (8, 400))],
    ),
    "permuted": (
        _permuted,
        [((8, 64, 48, 16),), ((2, 56, 56, 24),)],
        [(s,) for s in ((12, 64, 48, 16), (8, 72, 48, 16), (2, 64, 64, 24), (2, 56, 56, 32))],
    ),
    "transpose and sum": (
        _added,
        [((384, 512), (512, 384)), ((200, 300), (300, 200))],
        [((m, n), (n, m)) for m, n in ((448, 512), (384, 640), (240, 300), (200, 360))],
    ),
    "pooling": (
        _pooled,
        [((1, 64, 56, 56),)],
        [(s,) for s in ((1, 80, 56, 56), (1, 64, 64, 64), (1, 64, 48, 48))],
    ),
}
"""Functions, the shapes at which they are tuned, and those that records are carried to."""


def main_task(function: Callable[..., Any], shapes: Shapes, threads: int) -> Task:
    """Returns the kernel of a function with the most work, with its operands in the caches."""
    target = Target.host()
    traced = lw.compile(function).trace(*(lw.f32[shape] for shape in shapes))
    kernels = called_kernels(lower_module(traced.module, preferences_of(None, target)))
    prim = max(kernels, key=lambda prim: (prim_flops(prim), prim_bytes(prim)))
    return task_of(prim, target, threads)


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


def tuned(task: Task, log: TuningLog, seconds: float) -> None:
    """Tunes a kernel for so many seconds."""
    tune_tasks([task], TOOLCHAIN, log, TuneRequest(f"{seconds}s").resolved())


def _entrants(
    task: Task, path: Path, own: TuningLog
) -> tuple[dict[str, Candidate], str, tuple[str, ...]]:
    """Returns what is raced on a near shape, and the origin of the choice."""
    prim, target, threads = task.prim, task.target, task.threads
    logs = [log_index(path)]
    default, _ = default_schedule(prim, target.with_threads(threads))
    first = {prim.name: choose_schedule(prim, target, threads, logs, measure=True)}
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
        for name in options.only:
            function, shapes, _ = FAMILIES[name]
            for task in (main_task(function, s, 1) for s in shapes):
                if not TuningLog(path).of(task.workload.hash):
                    tuned(task, TuningLog(path), options.seconds)
                lock.between()
        with Workers(options.threads) as workers:
            for name in options.only:
                function, _, shapes = FAMILIES[name]
                for each in shapes:
                    task = main_task(function, each, options.threads)
                    if options.seconds and not own.of(task.workload.hash, task.key):
                        tuned(task, own, options.seconds)
                    text = f"{name} {' '.join('x'.join(map(str, s)) for s in each)}"
                    row = carried(task, text, path, own, workers)
                    sys.stdout.write(f"{row or f'{text}: a schedule failed'}\n")
                    sys.stdout.flush()
                    rows += [] if row is None else [row]
                    lock.between()
    sys.stdout.write("\n".join(report(rows)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

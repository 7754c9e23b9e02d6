"""Cost of the first-use check in a compile: ``python -m bench.first_use``.

Every program has all its schedules from a log (the rules' own, so that the code is usual). It is
compiled with an empty cache folder, which checks each kernel, and again as a later process would,
which finds the verdicts. The share is that of the time spent on checks in the rest of the compile:
processor time, with that of the processes that run kernels: it is hardly longer on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure import sandbox, trial, verdicts
from loopwright.autotune.record import MeasureRecord, target_key
from loopwright.autotune.workload import workload_of
from loopwright.codegen import objects
from loopwright.driver import kernels

from .lock import MachineLock

__all__ = ["PROGRAMS", "main"]

Array = np.ndarray[Any, Any]
_rng = np.random.default_rng(0)


def _floats(*shape: int) -> Array:
    return _rng.standard_normal(shape).astype(np.float32)


def mlp(x: Any, w1: Any, b1: Any, w2: Any) -> Any:
    return lw.nn.softmax(np.maximum(x @ w1 + b1, 0) @ w2)


def attention(q: Any, k: Any, v: Any) -> Any:
    return lw.nn.softmax(q @ np.swapaxes(k, -1, -2) * 0.125) @ v


def block(x: Any, q: Any, k: Any, v: Any, up: Any, down: Any) -> Any:
    """A layer of a transformer."""
    h = lw.nn.layer_norm(x)
    h = x + attention(h @ q, h @ k, h @ v)
    return h + lw.nn.gelu(lw.nn.layer_norm(h) @ up) @ down


def convolutions(x: Any, k1: Any, k2: Any) -> Any:
    h = lw.nn.relu(lw.nn.conv2d(x, k1, padding=1))
    return lw.nn.max_pool2d(lw.nn.relu(lw.nn.conv2d(h, k2, padding=1)), 2)


def statistics_of(x: Any) -> Any:
    return x.mean(0), x.std(0), np.argmax(x, 1), x.max()


PROGRAMS: Mapping[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "mlp": (mlp, (_floats(64, 784), _floats(784, 512), _floats(512), _floats(512, 10))),
    "product": (np.matmul, (_floats(1024, 1024), _floats(1024, 1024))),
    "attention": (attention, tuple(_floats(8, 128, 64) for _ in range(3))),
    "block": (
        block,
        (
            _floats(128, 256),
            *(_floats(256, 256) for _ in range(3)),
            _floats(256, 1024),
            _floats(1024, 256),
        ),
    ),
    "convolutions": (convolutions, (_floats(1, 32, 56, 56), _floats(64, 32, 3, 3),
                                    _floats(64, 64, 3, 3))),
    "map": (lambda x, y: np.tanh(x) * y + np.exp(-x * x), (_floats(1000, 1000),) * 2),
    "statistics": (statistics_of, (_floats(4000, 300),)),
}  # fmt: skip


def _seconds() -> float:
    """Processor time of this process and of all that it waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


@dataclass(slots=True)
class Compile:
    """Seconds of one compile, and of checks in it."""

    seconds: float
    checks: float

    @property
    def share(self) -> float:
        return self.checks / (self.seconds - self.checks)


@dataclass(slots=True)
class Row:
    name: str
    kernels: int
    first: list[Compile] = field(default_factory=list[Compile])
    later: list[Compile] = field(default_factory=list[Compile])

    def __str__(self) -> str:
        compile = statistics.median(c.seconds - c.checks for c in self.first)
        check = statistics.median(c.checks for c in self.first)
        share = statistics.median(c.share for c in self.first)
        later = statistics.median(c.share for c in self.later)
        return (
            f"{self.name:14}{self.kernels:3} kernels   compile {1e3 * compile:7.1f} ms   "
            f"check {1e3 * check:5.1f} ms {100 * share:5.1f} %   later {100 * later:4.1f} %"
        )


def measure(name: str, rounds: int, folder: Path) -> Row:
    """Compile a program as new processes with and without verdicts do, alternately."""
    function, arrays = PROGRAMS[name]
    log = folder / f"{name}.jsonl"
    row = Row(name, _write_log(log, function, arrays))
    for number in range(rounds):
        os.environ["LOOPWRIGHT_CACHE"] = str(folder / f"{name}-{number}")
        row.first.append(_compile(function, arrays, log))
        row.later.append(_compile(function, arrays, log))
    return row


def _write_log(path: Path, function: Callable[..., Any], arrays: tuple[Array, ...]) -> int:
    """A log with the schedules of the rules for all kernels, how many there are."""
    built = lw.compile(function, threads=1).lower(*arrays).built
    assert built.parts is not None
    parts = built.parts
    TuningLog(path).append(
        MeasureRecord(
            workload_of(prim),
            target_key(parts.target, 1),
            tuple(built.chosen[name].schedule.to_json()),
            built.chosen[name].sketch,
            (1e-4,),
        )
        for name, prim in parts.prims.items()
    )
    return len(parts.prims)


def _compile(function: Callable[..., Any], arrays: tuple[Array, ...], log: Path) -> Compile:
    """Nothing of earlier compiles is at hand but what stands in the cache folder."""
    kernels._kernels.clear()
    objects._objects.clear()
    verdicts.verdicts.cache_clear()
    sandbox._program.cache_clear()
    trial.random_values.cache_clear()
    spent = 0.0
    real = kernels.refusals

    def timed(*args: Any) -> dict[str, str]:
        nonlocal spent
        for subject in args[0].values():  # code that is compiled either way
            objects.object_code(subject.kernel.code, subject.target)
        begun = _seconds()
        try:
            return real(*args)
        finally:
            spent += _seconds() - begun

    kernels.refusals = timed
    try:
        begun = _seconds()
        lw.compile(function, log=log, threads=1).lower(*arrays)
        return Compile(_seconds() - begun, spent)
    finally:
        kernels.refusals = real


def main() -> None:
    """Measure and print a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", default=[*PROGRAMS], help="some of them")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    os.environ["LOOPWRIGHT_REPRO"] = os.devnull
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, MachineLock() as lock:
        for name in given.programs:
            rows.append(measure(name, given.rounds, Path(folder)))
            print(rows[-1], flush=True)
            lock.between()
    checks = sum(statistics.median(c.checks for c in row.first) for row in rows)
    compiles = sum(statistics.median(c.seconds - c.checks for c in row.first) for row in rows)
    print(f"all together: checks are {100 * checks / compiles:.1f} % of the compiles")


if __name__ == "__main__":
    main()

"""Kernels of networks alone and in their place: what does the program around them cost?

    python -m bench.in_place resnet50                      one network, untuned, one thread
    python -m bench.in_place --threads 2 --log LOG         the five with bars, by a tuning log
    python -m bench.in_place resnet50 --least 0.01         kernels above 1 % of the time

For every kernel: microseconds of a call alone, with its operands in the caches; predicted, with its
operands where the program leaves them (``autotune/measure/rotation.py``); measured, by a clock
inside of the native program; the least the machine allows there; and alone / in place. Kernels of
one workload are one row, with the median of their calls. The bar is 0.9 for alone / in place, or
the limit / in place where the bytes that come from memory are the limit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.autotune.measure.kernels import TOOLCHAIN, task_of
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import robust_seconds
from loopwright.autotune.workload import workload_of
from loopwright.codegen.machine import measured_machine
from loopwright.codegen.runtime import pool
from loopwright.driver.built import Built, Parts
from loopwright.inspect.kernel_calls import KernelCall
from loopwright.inspect.profile import profile
from loopwright.ir.dataclass import dataclass
from loopwright.tuning.reuse import bytes_between, results_in_place

from .lock import MachineLock
from .nets.files import FOLDER, files_of

__all__ = ["Row", "main", "rows_of"]

NETS = ("resnet50", "mobilenetv2", "bert", "gpt2", "vit")
BAR = 0.9
ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel: seconds of a call ``alone``, ``predicted`` and measured ``in_place``, the least
    ``limit`` by ``bound``, and its ``share`` of the program's time. ``between`` has the bytes that
    are touched between two uses of each operand."""

    name: str
    calls: int
    share: float
    alone: float
    predicted: float
    in_place: float
    limit: float
    bound: str
    between: dict[str, int]

    @property
    def met(self) -> bool:
        """True if it is as fast as alone, or near the limit of memory."""
        near = self.bound in ("l3", "dram") and self.limit >= BAR * self.in_place
        return near or self.alone >= BAR * self.in_place

    def __str__(self) -> str:
        times = (self.alone, self.predicted, self.in_place, self.limit)
        cells = "".join(f"{1e6 * t:9.1f}" for t in times)
        ratio = self.alone / self.in_place
        error = self.predicted / self.in_place
        far = ", ".join(f"{n} {b / 2**20:.2g}" for n, b in self.between.items())
        mark = " " if self.met else "!"
        return (
            f"{self.name[:44]:44}{self.calls:3} x {100 * self.share:5.1f} %{cells}"
            f"{ratio:7.2f}{mark}{error:7.2f}  {self.bound:9} {far}"
        )


def rows_of(built: Built, arrays: Sequence[Any], seconds: float, least: float) -> Iterator[Row]:
    """Yields the kernels that take at least a share ``least`` of a program, the longest first."""
    parts = built.parts
    assert parts is not None
    machine = measured_machine(parts.target)
    calls = profile(built, arrays, machine, seconds).calls
    between, in_place = bytes_between(parts), results_in_place(parts)
    by_workload: dict[str, list[KernelCall]] = {}
    for call in calls:
        if call.seconds:
            by_workload.setdefault(workload_of(parts.prims[call.name]).hash, []).append(call)
    total = sum(c.seconds for c in calls)
    order = sorted(by_workload.values(), key=lambda group: -sum(c.seconds for c in group))
    with Workers(parts.threads) as workers:
        for group in order:
            share = sum(c.seconds for c in group) / total
            name = group[0].name
            if share < least:
                continue
            workload = workload_of(parts.prims[name]).hash
            far = between[workload]
            alone, predicted = _measured(built, parts, name, far, in_place[workload], workers)
            yield Row(
                name,
                sum(c.calls for c in group),
                share,
                alone,
                predicted,
                median(c.seconds / c.calls for c in group),
                median(c.limit / c.calls for c in group),
                group[0].bound,
                far,
            )


def _measured(
    built: Built,
    parts: Parts,
    name: str,
    between: dict[str, int],
    in_place: dict[str, str],
    workers: Workers,
) -> tuple[float, float]:
    """Returns seconds of a kernel alone, and of the same code on operands as in the program."""
    chosen = built.chosen[name]
    task = task_of(
        parts.prims[name], parts.target, parts.threads, between=between, in_place=in_place
    )
    candidate = Candidate(tuple(chosen.schedule.to_json()), chosen.sketch)
    with NativeMeasurer(task, TOOLCHAIN, workers=workers) as measurer:
        both = [measurer.race([candidate], ROUNDS, cache) for cache in ("warm", "place")]
    if not all(both):
        return float("nan"), float("nan")
    return robust_seconds(both[0][0].seconds), robust_seconds(both[1][0].seconds)


HEAD = (
    f"{'kernel':44}{'calls':>5}{'share':>8}{'alone':>9}{'foretold':>9}{'in place':>9}{'limit':>9}"
    f"{'ratio':>7} {'error':>7}  bound     MB between uses"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a kernel misses the bar."""
    args = _parser().parse_args(argv)
    met = True
    pool.set_threads(args.threads)
    with MachineLock(), lw.log(args.log):
        for net in args.nets or NETS:
            model, arrays = files_of(net, args.folder)
            function = lw.from_onnx(model)
            with np.load(arrays) as held:
                given = [held[n] for n in held.files if n != "result"]
            lowered = function.lower(*given)
            rows: list[Row] = []
            print(f"{net}, {args.threads} threads\n{HEAD}", flush=True)
            operands = lowered.operands(*given)
            for row in rows_of(lowered.built, operands, args.seconds, args.least):
                rows.append(row)
                print(row, flush=True)
            print(_summary(rows))
            met &= all(row.met for row in rows)
    return 0 if met else 1


def _summary(rows: Sequence[Row]) -> str:
    """Returns how many rows meet the bar, and what all together would gain alone."""
    weights = [r.share / r.in_place for r in rows]
    alone = sum(w * min(r.alone, r.in_place) for w, r in zip(weights, rows))
    here = sum(r.share for r in rows)
    errors = [abs(r.predicted / r.in_place - 1) for r in rows]
    return (
        f"{sum(r.met for r in rows)} of {len(rows)} meet the bar; {100 * here:.0f} % of the time, "
        f"alone {alone / here:.2f} of it; prediction off by {100 * median(errors):.0f} % (median)\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.in_place",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("nets", nargs="*", help=f"networks ({' '.join(NETS)})")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--log", default="/dev/null", help="tuning log (none)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of profiling each (2)")
    parser.add_argument("--least", type=float, default=0.02, help="least share of a row (0.02)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the models are kept")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Small kernels beside the least time that the machine could need for each.

    python -m bench.limits                               all kernels, untuned, one thread
    python -m bench.limits softmax dense                 those with such names
    python -m bench.limits --out before.json             and keep the times
    python -m bench.limits --against before.json         and compare with those

The limit is the longest of three: vector instructions, of the multipliers and of any kind, over
what a core begins in a cycle (the cycle is the measured peak's); elements or rows that are looked
up one by one, over its loads; bytes, over the measured bandwidth of the smallest level of memory
that holds all of them. Instructions of a formula are counted by hand and stand in ``COST``: those
of the shortest form known to us, whatever the code does today. Times are medians of
the faster half of interleaved rounds. The exit status is 1 if a kernel is beyond 1.15 times its
limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import loopwright as lw
from loopwright.autotune.record import robust_seconds
from loopwright.codegen.core import core_of
from loopwright.codegen.machine import MachineModel, measured_machine
from loopwright.codegen.target import Target

from ..lock import MachineLock
from .kernels import COST, KERNELS, V4, Kernel

__all__ = ["limit_of", "main"]

BAR = 1.15  # of the limit
FILL = 0.75  # of a cache, that data may take to count as being in it
LOADS = 0.8  # look-ups in L1 in a cycle: what vectors, gathers and single loads reach on Zen 4


def limit_of(kernel: Kernel, target: Target, machine: MachineModel) -> tuple[float, str]:
    """Returns the least seconds of a call on one thread, and what they are spent on."""
    core, lanes = core_of(target), target.lanes(4)
    cycle = 2 * lanes * core.fma_ports / machine.peak_flops(1)
    vectors = kernel.elements / lanes
    multiplied, total = COST[kernel.cost][target.isa] if kernel.cost else (0, 0)
    products = kernel.flops / (2 * lanes)
    arithmetic = max(
        (products + multiplied * vectors) / core.fma_ports,
        (products + total * vectors) / _begun(target, core.fma_ports),
    )
    sizes = {"l1": target.l1, "l2": target.l2, "l3": target.l3}
    level = next((n for n, size in sizes.items() if kernel.moved <= FILL * size), "dram")
    times = {
        "arithmetic": arithmetic * cycle,
        "look-ups": kernel.lookups / LOADS * cycle,
        level: kernel.moved / machine.bandwidth(level),
    }
    name = max(times, key=times.__getitem__)
    return kernel.steps * times[name], name


def _begun(target: Target, fma_ports: float) -> float:
    """Returns the vector instructions of any kind that a core begins in a cycle: AMD's have as many
    adders as multipliers, Intel's three ports, of which vectors of 64 bytes join two."""
    if "AMD" in target.cpu:
        return 2 * fma_ports
    return 2.0 if target.vector_bytes == 64 else 3.0


def _ready(kernel: Kernel, target: Target) -> Callable[[], Any]:
    """Returns a call of the compiled kernel."""
    function, given = kernel.make()
    compiled = lw.compile(function, threads=1, log="/dev/null", target=target)
    return lambda: compiled(*given)


def _seconds(call: Callable[[], Any], wanted: float) -> float:
    """Returns the time of one of as many calls as take so long."""
    begun = time.perf_counter()
    call()
    calls = max(1, int(wanted / max(1e-7, time.perf_counter() - begun)))
    begun = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begun) / calls


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a kernel is beyond the bar."""
    options = _parser().parse_args(arguments)
    host = Target.host()
    kernels = [k for k in KERNELS if any(part in k.label for part in options.names or [""])]
    kernels = [k for k in kernels if host.level.vector_bytes >= (64 if k.isa == V4 else 32)]
    before = json.loads(options.against.read_text()) if options.against else {}
    rounds: dict[str, list[float]] = {k.label: [] for k in kernels}
    with MachineLock() as lock:
        targets = {k.label: host.with_isa(k.isa) for k in kernels}
        machines = {t: measured_machine(t) for t in targets.values()}
        calls = {k.label: _ready(k, targets[k.label]) for k in kernels}
        for _ in range(options.rounds):
            for name, call in calls.items():
                rounds[name].append(_seconds(call, options.seconds))
                lock.between()
    times = {name: robust_seconds(measured) for name, measured in rounds.items()}
    print(f"{'kernel':44}{'us':>9}{'limit':>9}{'ratio':>7}  {'bound':12}{'of before':>9}")
    beyond = 0
    for k in kernels:
        seconds, (limit, bound) = (
            times[k.label],
            limit_of(k, targets[k.label], machines[targets[k.label]]),
        )
        beyond += seconds > BAR * limit
        change = f"{seconds / before[k.label]:9.2f}" if k.label in before else ""
        cells = f"{1e6 * seconds:9.1f}{1e6 * limit:9.1f}{seconds / limit:7.2f}"
        print(f"{k.label:44}{cells}  {bound:12}{change}")
    print(f"{len(kernels) - beyond} of {len(kernels)} within {BAR} of the limit")
    if options.out:
        options.out.write_text(json.dumps(times, indent=1) + "\n")
    return 1 if beyond else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.limits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="parts of names; all if none is given")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.01, help="length of a round (0.01)")
    parser.add_argument("--out", type=Path, help="write the times to this file")
    parser.add_argument("--against", type=Path, help="compare with a file of --out")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Time the vector elementary functions beside NumPy's.

    python -m bench.elementary [--dtype float32] [--functions exp,tanh] [--isa x86-64-v3]

Prints nanoseconds per element and GB/s (operand read and result written) on arrays that stay in the
second-level cache, best of several runs, one thread. An exclusive lock on ``bench.lock`` in the
temporary folder keeps other measurements away.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from loopwright.codegen.elementary import BINARY, FUNCTIONS
from loopwright.codegen.elementary.oracle import oracle
from loopwright.codegen.elementary.sweep import compile_function
from loopwright.codegen.target import Target

from .lock import MachineLock

SIZE = 16384
RANGES = {"acosh": (1.0, 20.0), "log1p": (0.0, 10.0), "power": (0.1, 4.0), "rsqrt": (0.1, 10.0)}
RANGES |= dict.fromkeys(("log", "log2", "log10"), (1e-3, 1e3))
RANGES |= dict.fromkeys(("asin", "acos", "atanh"), (-0.99, 0.99))


def best_seconds(calls: Sequence[Callable[[], Any]], rounds: int = 15) -> list[float]:
    """The best average of each call; the calls take turns, 20 at a time, so that all meet the same
    disturbances."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            call()
            start = time.perf_counter()
            for _ in range(20):
                call()
            best[i] = min(best[i], (time.perf_counter() - start) / 20)
    return best


def measure(name: str, dtype: str, target: Target) -> tuple[float, float]:
    """Seconds per element of the vector code and of NumPy."""
    rng = np.random.default_rng(0)
    low, high = RANGES.get(name, (-5.0, 5.0))
    operands = [rng.uniform(low, high, SIZE).astype(dtype) for _ in range(1 + (name in BINARY))]
    out, reference = np.empty_like(operands[0]), oracle(name)
    code = compile_function(name, dtype, target)
    # A call on one vector shows what the call through ctypes itself takes.
    little = [x[: code.lanes] for x in operands]
    with np.errstate(all="ignore"):
        ours, overhead, theirs = best_seconds(
            (
                lambda: code.run(*operands, out=out),
                lambda: code.run(*little, out=out[: code.lanes]),
                lambda: reference(*operands),
            )
        )
    return (ours - overhead) / (SIZE - code.lanes), theirs / SIZE


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.elementary")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--functions", default=",".join(FUNCTIONS), help="names with commas")
    parser.add_argument("--isa", default="", help="ISA level (default: this machine's)")
    options = parser.parse_args(arguments)
    target = Target.host().with_isa(options.isa or Target.host().isa)
    itemsize = np.dtype(options.dtype).itemsize
    sys.stdout.write(f"{options.dtype} on {target.isa}, ns per element\n")
    sys.stdout.write(f"{'function':14}{'ours':>8}{'NumPy':>8}{'ratio':>8}{'GB/s':>8}\n")
    with MachineLock():
        for name in options.functions.split(","):
            ours, theirs = measure(name, options.dtype, target)
            moved = itemsize * (3 if name in BINARY else 2)
            row = f"{name:14}{ours * 1e9:8.3f}{theirs * 1e9:8.3f}{theirs / ours:8.1f}"
            sys.stdout.write(f"{row}{moved / ours / 1e9:8.1f}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

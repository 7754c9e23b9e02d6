"""Time the elementary functions as programs, beside NumPy and other libraries.

    python -m bench.elementary                                  all functions, NumPy and PyTorch
    python -m bench.elementary --functions tan,power --dtypes float64 --sizes 4096,65536,4194304
    python -m bench.elementary --against numpy-skylakex,jax

Prints nanoseconds per element, untuned, one thread; sizes are elements: the usual ones lie in the
first-level cache, in the second, and in memory. Bars: at most 1.1 times NumPy's time, and at most
1.25 times that of the fastest library. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from .families import make
from .families.functions import FUNCTIONS
from .lock import MachineLock
from .measure import Settings, measure
from .process import Worker
from .row import Row

__all__ = ["main"]

NUMPY_BAR = 1.1  # times NumPy's time
PEER_BAR = 1.25  # times that of the fastest library


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 if a bar is missed."""
    options = _parser().parse_args(arguments)
    libraries = ["untuned", *options.against.split(",")]
    cases = [
        {"op": op, "n": int(n), "dtype": dtype}
        for op in options.functions.split(",")
        for dtype in options.dtypes.split(",")
        for n in options.sizes.split(",")
    ]
    settings = Settings(options.rounds, options.seconds)
    missed: list[str] = []
    heads = "".join(f"{name:>16}" for name in libraries)
    print(f"{'function':32}{heads}{'/numpy':>8}{'/fastest':>9}")
    with ExitStack() as stack:
        workers = [Worker(name, 1) for name in libraries]
        for worker in workers:
            stack.callback(worker.close)
        lock = stack.enter_context(MachineLock())
        for case in cases:
            lock.between()
            row = measure(make("function", case), workers, 1, settings)
            print(_line(row, libraries, case["n"]), flush=True)
            if not meets_bars(row):
                missed.append(row.workload)
    print(f"{len(missed)} of {len(cases)} miss a bar: {', '.join(missed) or '-'}")
    return 1 if missed else 0


def ratios(row: Row) -> tuple[float | None, float | None]:
    """Our time over NumPy's, and over that of the fastest library."""
    ours = row.seconds.get("untuned")
    numpy, peer = row.fastest(lambda name: name.startswith("numpy")), row.best_peer
    return ours / numpy[1] if ours and numpy else None, ours / peer[1] if ours and peer else None


def meets_bars(row: Row) -> bool:
    """True if it ran and stayed below both bars."""
    to_numpy, to_peer = ratios(row)
    if "untuned" not in row.seconds:
        return False
    return (to_numpy or 0.0) <= NUMPY_BAR and (to_peer or 0.0) <= PEER_BAR


def _line(row: Row, libraries: Sequence[str], n: int) -> str:
    times = [row.seconds.get(name) for name in libraries]
    shown = "".join("               -" if t is None else f"{1e9 * t / n:16.3f}" for t in times)
    shares = "".join(f"{'-' if r is None else f'{r:.2f}':>8}" for r in ratios(row))
    failed = row.failed.get("untuned", "")
    return f"{row.workload:32}{shown}{shares} {'' if meets_bars(row) else 'missed'} {failed}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.elementary",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--functions", default=",".join(FUNCTIONS), help="names with commas")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--sizes", default="4096,65536,4194304", help="elements")
    parser.add_argument("--against", default="numpy-skylakex,torch", help="other libraries")
    parser.add_argument("--rounds", type=int, default=3, help="rounds each library gets (3)")
    parser.add_argument("--seconds", type=float, default=0.02, help="length of a round (0.02)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

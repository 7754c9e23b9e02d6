"""Programs with loops and recursion, untuned and on one thread, beside numba, JAX, C and NumPy.

    python -m bench.loops                      all of them
    python -m bench.loops collatz sequences    some, or a family
    python -m bench.loops --steps              what an iteration costs, instead
    python -m bench.loops --list               which there are

"ours" has the loops as functions of ours, "plain" compiles plain Python as it is. Every peer is a
process of its own, stopped while another runs; one that is not installed is a dash. NUMBA_PYTHON
names the interpreter of an environment with numba, if it is not this one. Results are compared with
those of plain Python before anything is timed.
Bars: at least as fast as the best of numba and JAX on 34, geometric mean 1.5x; scalar loops at most
2x the time of C at -O2 and 1.3x that of numba; loops over small arrays 20x NumPy; plain
loops as fast as explicit ones (5 %), and as numba on 38. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..lock import MachineLock
from ..process import ROOT
from . import programs, steps
from .measure import Suite, add_options, measure_all
from .peers import ORACLE, PEERS
from .program import PROGRAMS
from .table import summary, table

__all__ = ["main"]

FOLDER = ROOT / "build" / "loops"
DEFAULT = ",".join(name for name in PEERS if name != ORACLE)
PACKAGE = __package__ or ""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed, 2 if the line was not understood."""
    args = _parser().parse_args(argv)
    chosen = [p for p in PROGRAMS.values() if not args.names or {p.name, p.family} & {*args.names}]
    if args.steps:
        with MachineLock():
            return steps.main()
    if args.list or not chosen:
        print("\n".join(f"{p.family:12} {p.name}" for p in chosen or PROGRAMS.values()))
        return 0 if args.list else 2
    return measure_all(chosen, args, Suite(PACKAGE, ORACLE, table, summary))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.loops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--steps", action="store_true", help="only say what iterations cost")
    add_options(parser, DEFAULT, FOLDER)
    return parser


if __name__ == "__main__":
    assert programs  # they declare themselves
    sys.exit(main())

"""``python -m bench.gate``: 200 mutated kernels and 2,000 right ones through the gate."""

from __future__ import annotations

import argparse
import sys

from .mutants import KINDS
from .programs import all_prims
from .trial import try_mutants, try_right_ones

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the trials; 1 if a mutant was accepted or a right candidate refused."""
    parser = argparse.ArgumentParser(prog="python -m bench.gate", description=__doc__)
    parser.add_argument("--mutants", type=int, default=200, metavar="N")
    parser.add_argument("--right", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--kind", choices=list(KINDS), action="append", help="only these mutants")
    args = parser.parse_args(arguments)
    prims = all_prims()
    print(f"{len(prims)} kernels, seed {args.seed}", flush=True)
    failed = False
    if args.mutants:
        kinds = args.kind or list(KINDS)
        counts = {k: len(range(n, args.mutants, len(kinds))) for n, k in enumerate(kinds)}
        mutants = try_mutants(prims, counts, args.seed)
        print(mutants, flush=True)
        failed |= bool(mutants.survivors)
    if args.right:
        right = try_right_ones(prims, args.right, args.seed)
        print(right, flush=True)
        failed |= bool(right.refused)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

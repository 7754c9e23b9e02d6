"""``python -m bench.gate.draws --draws 20000 --planted 2000``: kernels of every registered operator
through the gate, drawn with other sizes and dtypes each time.

Right code of each is measured as a tuner measures it, under schedules out of the kernel's own
space, and so are mutants of its loop nest. Prints what is refused of the right ones, which should
be nothing, and which mutants pass that compute something else.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from loopwright.ir.loop.prim import PrimFunc

from .mutants import KINDS as MISTAKES
from .operator_kernels import KINDS, draw_kernels
from .trial import try_mutants, try_right_ones

__all__ = ["kernels", "main"]

ROUND = 24
"""Kernels that share the processes which measure."""
EACH = 16
"""Schedules of each kernel."""


def kernels(rng: random.Random) -> Iterator[tuple[str, PrimFunc]]:
    """Kernels without end, with their kinds: one of each operator before one comes again."""
    while True:
        for kind in rng.sample(KINDS, len(KINDS)):
            prims = draw_kernels(rng, kind)
            if prims:
                yield kind, rng.choice(prims)


def main(arguments: list[str] | None = None) -> int:
    """Run the draws; 1 if right code was refused or a mutant passed."""
    parser = argparse.ArgumentParser(prog="python -m bench.gate.draws", description=__doc__)
    parser.add_argument("--draws", type=int, default=20_000, metavar="N")
    parser.add_argument("--planted", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args(arguments)
    drawn = kernels(random.Random(args.seed))
    kinds: Counter[str] = Counter()
    right = refused = caught = harmless = passed = number = 0
    begun = time.monotonic()
    while right + refused < args.draws or caught + passed < args.planted:
        some = [next(drawn) for _ in range(ROUND)]
        prims = [prim for _, prim in some]
        kinds.update(kind for kind, _ in some)
        number += 1
        if right + refused < args.draws:
            count = min(ROUND * EACH, args.draws - right - refused)
            tried = try_right_ones(prims, count, args.seed + number)
            right, refused = right + tried.accepted, refused + len(tried.refused)
            _show("REFUSED", tried.refused)
        if caught + passed < args.planted:
            count = min(ROUND * 2, args.planted - caught - passed)
            counts = {k: len(range(n, count, len(MISTAKES))) for n, k in enumerate(MISTAKES)}
            broken = try_mutants(prims, counts, args.seed + number)
            caught, passed = caught + broken.refused.total(), passed + len(broken.survivors)
            harmless += broken.harmless
            _show("PASSED", broken.survivors)
        print(
            f"{right} right ones accepted, {refused} refused; {caught} mutants refused, "
            f"{passed} passed, {harmless} more are right after all; {kinds.total()} kernels of "
            f"{len(kinds)} kinds, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    return int(refused + passed > 0)


def _show(what: str, texts: list[str]) -> None:
    for text in texts:
        print(f"{what} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

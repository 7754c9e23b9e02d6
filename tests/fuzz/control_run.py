"""Random programs with control flow and state: ``python tests/fuzz/control_run.py --seeds 0:3000``.

Each is run by Python as it is, and compiled, for every level of instructions and on one and two
threads; ``--interpret`` has the interpreter run the graph as well, as it was traced and after all
passes. Prints each program that crashes, hangs or is wrong, cut down to what it takes, and what was
refused, in numbers. Chunks of programs run in processes of their own, so that a crash is one
program's. ``--shard 2/8`` runs a part.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from control_ways import GRAPHS, ISAS, Compiler, compilers, failure
from forked_runs import run
from random_control import Program, draw_control, smaller
from random_draw import RandomDraw

SMALLER_SECONDS = 600


def _kind(text: str) -> str:
    """The exception, or that a value is wrong: what remains while a program becomes smaller."""
    return text.partition(": ")[2].partition(" ")[0]


def report(seed: int, ways: dict[str, Compiler]) -> tuple[str, str]:
    """The kind of a seed's outcome, and what to print of it."""
    program = draw_control(RandomDraw(seed))
    text = failure(program, ways)
    if not text or text.startswith("refused"):
        return text or "right", ""
    way = text.partition(":")[0]
    only = {way: ways[way]}

    def fails(candidate: Program) -> bool:
        return _kind(failure(candidate, only)) == _kind(text)

    signal.alarm(SMALLER_SECONDS)
    cut = smaller(program, fails)
    return "wrong", f"seed {seed}: {text}\n{cut}\n  # {failure(cut, only)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:3000")
    parser.add_argument("--shard", default="0/1", help="part/parts of the seeds")
    parser.add_argument("--isas", default=",".join(ISAS), help="levels, or none")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--interpret", action="store_true", help="interpret graphs, too")
    given = parser.parse_args()
    warnings.simplefilter("error")
    isas = [isa for isa in given.isas.split(",") if isa and isa != "none"]
    ways: dict[str, Compiler] = {}
    if given.interpret:
        ways |= GRAPHS
    ways |= compilers(isas, [int(n) for n in given.threads.split(",")])
    low, high = map(int, given.seeds.split(":"))
    part, parts = map(int, given.shard.split("/"))
    begun = time.perf_counter()
    kinds = run(
        range(low + part, high, parts),
        lambda seed: report(seed, ways),
        lambda seed: str(draw_control(RandomDraw(seed))),
    )
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    print(f"{sum(kinds.values())} programs, {len(ways)} ways, {time.perf_counter() - begun:.0f} s")
    return int(any(not k.startswith(("right", "refused")) for k in kinds))


if __name__ == "__main__":
    sys.exit(main())

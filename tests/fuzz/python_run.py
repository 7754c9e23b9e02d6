"""Random Python programs, compiled and as they are: ``python tests/fuzz/python_run.py``.

The other side is Python with NumPy (``random_python``). A program is compiled for one level of
instructions and one number of threads, which its seed chooses; ``--all`` takes each of them. Prints
every program that finishes with something else than Python, cut down to what it takes, and how many
were refused for which reason. ``--shard 2/8`` runs a part.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections import Counter
from copy import deepcopy
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from control_ways import ISAS, Compiler, compilers
from forked_runs import run
from python_program import Program, smaller, verdict
from random_draw import RandomDraw
from random_python import draw_python

SMALLER_SECONDS = 300


def report(seed: int, ways: dict[str, Compiler], every: bool) -> tuple[str, str]:
    """The kind of a seed's outcome, and what to print of it."""
    program = draw_python(RandomDraw(seed))
    names = [*ways] if every else [[*ways][seed % len(ways)]]
    kind, text = "right", ""
    for name in names:
        kind, text = verdict(program, ways[name])
        if kind == "wrong":
            cut = _cut(program, text, ways[name])
            return kind, f"seed {seed}, {name}: {text}\n{cut}\n  # {verdict(cut, ways[name])[1]}"
    if kind == "refused":
        kind = f"refused: {re.sub(r'[0-9]+', '#', text)[:90]}"
    return kind, ""


def _cut(program: Program, text: str, compiler: Compiler) -> Program:
    signal.alarm(SMALLER_SECONDS)
    kind = _kind(text)

    def fails(candidate: Program) -> bool:
        ending, why = verdict(candidate, compiler)
        return ending == "wrong" and _kind(why) == kind

    return smaller(deepcopy(program), fails)


def _kind(text: str) -> str:
    """What remains of a failure while a program becomes smaller."""
    for kind in ("finishes", "outside", "result"):
        if kind in text:
            return kind
    return text.partition(": ")[2].partition(":")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:20000")
    parser.add_argument("--shard", default="0/1", help="part/parts of the seeds")
    parser.add_argument("--all", action="store_true", help="each level and number of threads")
    given = parser.parse_args()
    ways = compilers(ISAS, (1, 2))
    low, high = map(int, given.seeds.split(":"))
    part, parts = map(int, given.shard.split("/"))
    begun = time.perf_counter()
    kinds = run(
        range(low + part, high, parts),
        lambda seed: report(seed, ways, given.all),
        lambda seed: str(draw_python(RandomDraw(seed))),
    )
    refused = Counter({k: n for k, n in kinds.items() if k.startswith("refused")})
    for kind, count in refused.most_common():
        print(f"{count:6d}  {kind}")
    kinds["refused"] = refused.total()
    for kind in (
        "right",
        "refused",
        "raised in both",
        "exempt",
        "generator",
        "wrong",
        "crashed or hung",
    ):
        print(f"{kinds[kind]:6d}  {kind}")
    print(f"{time.perf_counter() - begun:.0f} s")
    return int(any(kinds[kind] for kind in ("generator", "wrong", "crashed or hung")))


if __name__ == "__main__":
    sys.exit(main())

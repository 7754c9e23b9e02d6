"""Random programs on data types, compiled and as they are: ``python tests/fuzz/data_run.py``.

The other side is Python (``random_data``). Each program is compiled once and called with several
values. Prints every program that gives another value, and why programs were refused.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import loopwright as lw
from forked_runs import run
from random_data import difference, draw_data, draw_value
from random_draw import RandomDraw

VALUES = 3


def verdict(seed: int) -> tuple[str, str]:
    """Returns the kind of a seed's outcome, and what to print of it."""
    draw = RandomDraw(seed)
    program = draw_data(draw)
    scope = program.run(f"data_program_{seed}")
    compiled = lw.compile(scope["main"])
    for _ in range(VALUES):
        value = draw_value(draw, program, scope, "A")
        wanted = scope["main"](value)
        try:
            given = compiled(value)
        except lw.LoopwrightError as error:
            return f"refused: {re.sub(r'[0-9]+', '#', error.message)[:90]}", f"seed {seed}: {error}"
        if found := difference(given, wanted):
            return "wrong", f"seed {seed}: {found}\nfor {value!r}\n{program}"
    return "right", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000")
    parser.add_argument("--verbose", action="store_true", help="print why programs are refused")
    given = parser.parse_args()
    low, high = map(int, given.seeds.split(":"))
    begun = time.perf_counter()

    def report(seed: int) -> tuple[str, str]:
        kind, text = verdict(seed)
        return kind, text if kind == "wrong" or given.verbose else ""

    kinds: Counter[str] = run(
        range(low, high), report, lambda seed: str(draw_data(RandomDraw(seed)))
    )
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    print(f"{time.perf_counter() - begun:.0f} s")
    return int(bool(kinds["wrong"] or kinds["crashed or hung"]))


if __name__ == "__main__":
    sys.exit(main())

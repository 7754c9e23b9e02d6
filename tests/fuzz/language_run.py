"""Random programs of the graph's language, by interpreter, passes and compiled code.

``python tests/fuzz/language_run.py --seeds 0:1000 [--texts]``; nothing is compiled with the last.
Prints every program that gives another value, or is refused.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from forked_runs import run
from random_language import RandomProgram, fault_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000")
    parser.add_argument("--texts", action="store_true", help="compile nothing")
    given = parser.parse_args()
    low, high = map(int, given.seeds.split(":"))
    begun = time.perf_counter()

    def verdict(seed: int) -> tuple[str, str]:
        try:
            fault = fault_of(seed, compiled=not given.texts)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        text = "" if fault is None else f"seed {seed}: {fault}\n{RandomProgram(seed).text}"
        return "right" if fault is None else "wrong", text

    kinds: Counter[str] = run(range(low, high), verdict, lambda seed: RandomProgram(seed).text)
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    print(f"{time.perf_counter() - begun:.0f} s")
    return int(kinds.keys() != {"right"})


if __name__ == "__main__":
    sys.exit(main())

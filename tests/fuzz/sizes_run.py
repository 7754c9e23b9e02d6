"""Random programs over symbolic sizes: ``python tests/fuzz/sizes_run.py --programs 3000``.

Each is compiled once with its sizes symbolic, and held against NumPy at random ones, 0 and 1 among
them; it must not be compiled again, but for the branches that its comparisons of sizes take. Prints
each program that crashes, hangs or is wrong, and what was refused, in numbers. Chunks of programs
run in processes of their own, so that a crash is one program's.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from random_sizes import draw_sized, failure

SECONDS = 120
CHUNK = 50


def _chunk(seeds: Sequence[int], pipe: int) -> None:
    with os.fdopen(pipe, "w") as out:
        for seed in seeds:
            signal.alarm(SECONDS)
            print(f"begin {seed}", file=out, flush=True)
            program = draw_sized(seed)
            text = failure(program, seed)
            kind = "right"
            if text.startswith("refused"):
                kind = " ".join(text.splitlines()[0].split()[:10])
            elif text:
                kind = "wrong"
                print(f"seed {seed}: {text}\n{program}", flush=True)
            print(f"end {kind}", file=out, flush=True)


def run(seeds: Sequence[int]) -> Counter[str]:
    """Returns how many programs came out how; prints those that are wrong."""
    kinds: Counter[str] = Counter()
    waiting = list(seeds)
    while waiting:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            _chunk(waiting[:CHUNK], write)
            os._exit(0)
        os.close(write)
        begun = ended = 0
        with os.fdopen(read) as stream:
            for line in stream:
                begun += line.startswith("begin")
                if line.startswith("end"):
                    ended += 1
                    kinds[line.removeprefix("end ").strip()] += 1
        os.waitpid(child, 0)
        if begun > ended:
            seed = waiting[begun - 1]
            kinds["crashed or hung"] += 1
            print(f"seed {seed}: crashed or hung\n{draw_sized(seed)}\n", flush=True)
        waiting = waiting[max(begun, 1) :]
        print(f"before seed {seeds[-1] + 1 - len(waiting)}: {dict(kinds)}", file=sys.stderr)
    return kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    begun = time.perf_counter()
    kinds = run(range(given.first, given.first + given.programs))
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}")
    print(f"{sum(kinds.values())} programs, {time.perf_counter() - begun:.0f} s")
    return int(any(not kind.startswith(("right", "refused")) for kind in kinds))


if __name__ == "__main__":
    sys.exit(main())

"""Random statements about sizes: ``python tests/fuzz/dims_run.py --trials 1000000 --seed 0``.

Each is proved, disproved or left open by ``ir/dim_proofs.py``, and held against plain arithmetic at
random values: negative ones where the symbol has no range, 0, 1 and large ones. Prints what is
wrong, and in numbers what was proved and how long it took.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from random_dims import draw_statement, verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    outcomes: Counter[bool | None] = Counter()
    wrong, begin = 0, time.perf_counter()
    for trial in range(args.seed, args.seed + args.trials):
        rng = random.Random(trial)
        statement = draw_statement(rng)
        start = time.perf_counter()
        proved, message = verdict(rng, statement)
        outcomes[proved] += 1
        if message:
            wrong += 1
            print(f"seed {trial}: {message}", flush=True)
        if time.perf_counter() - start > 1:
            print(f"seed {trial}: {time.perf_counter() - start:.1f} s for {statement}", flush=True)
    seconds = time.perf_counter() - begin
    print(f"{args.trials} statements in {seconds:.0f} s: {dict(outcomes)}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

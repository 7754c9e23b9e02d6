"""Error bounds of random programs: ``python tests/fuzz/error_bounds_run.py --seeds 0:2000``.

Each program runs compiled, and in NumPy with float64; every element has to lie within its bound.
Prints those that do not, how many have no bound and for which reason, and the median over programs
of the greatest bound by the greatest error.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from error_bound_trial import trial


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000")
    first, last = map(int, parser.parse_args().seeds.split(":"))
    warnings.simplefilter("ignore")
    outcomes: Counter[str] = Counter()
    ratios: list[float] = []
    for seed in range(first, last):
        outcome, ratio = trial(seed)
        if outcome.startswith("wrong"):
            print(f"seed {seed}: {outcome}", flush=True)
        outcomes[re.sub(r"[0-9]+", "#", outcome)[:90]] += 1
        ratios += [ratio] if ratio else []
    for outcome, count in outcomes.most_common():
        print(f"{count:6} {outcome}")
    print(f"the bound is {statistics.median(ratios):.1f} times the error in the median")
    return any(outcome.startswith("wrong") for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())

"""Faults in compiles, loads and tunes: ``python tests/fuzz/fault_run.py --count 500``.

Prints every outcome that is neither the right result nor an error of Loopwright's, then how many
came out how; see ``tests/helpers/faults.py``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from faults import LOADS, inject


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loads", nargs="+", default=[*LOADS], choices=[*LOADS])
    given = parser.parse_args()
    kinds = inject(given.count, given.seed, tuple(given.loads))
    print(dict(kinds))
    return int(kinds["bad"] > 0)


if __name__ == "__main__":
    sys.exit(main())

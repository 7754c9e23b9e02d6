"""Equal bits of ``precision="reproducible"``: ``python tests/fuzz/reproducible_run.py``.

Random programs of rows run with 1 to 64 rows, on 1 to 4 threads, for every level of instructions
that this machine has, by default and random schedules; every way has to give the bits of the others
for a row. With ``--text`` one row of each also runs as the LLVM text for a machine with AVX-512, by
an interpreter (slow).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from reproducible_trial import trial, trial_of_text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--text", action="store_true")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    begun, wrong = time.monotonic(), 0
    for seed in range(first, last):
        bad = trial_of_text(seed) if given.text else trial(seed)
        wrong += bool(bad)
        for text in bad:
            print(text, flush=True)
    print(f"{last - first} programs, {wrong} of them not alike, {time.monotonic() - begun:.0f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

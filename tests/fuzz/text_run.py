"""LLVM text by the ten thousand: ``python tests/fuzz/text_run.py --seeds 0:5000``.

Each seed draws a kernel; its text under random schedules, for machines of every level, is run by an
interpreter and held against the tensor expressions; before it, the nest after every pass of
``codegen.lower``. ``--errors`` plants errors in texts instead, ``--passes`` in what each of these
passes returns, and counts by kind how many were seen, how many change no bit, and how many were
missed. ``--programs`` draws programs of symbolic sizes instead of kernels.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from text_trial import planted_errors, planted_in_lowerings, trial, trial_of_program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000")
    parser.add_argument("--schedules", type=int, default=4, help="of a kernel for each machine")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--passes", action="store_true")
    parser.add_argument("--programs", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["LOOPWRIGHT_VERIFY"] = "2"
    first, last = map(int, given.seeds.split(":"))
    begun, count, wrong = time.monotonic(), 0, 0
    outcomes: Counter[tuple[str, str]] = Counter()
    for seed in range(first, last):
        if given.errors or given.passes:
            found = planted_errors(seed, given.schedules) if given.errors else iter(())
            more = planted_in_lowerings(seed, given.schedules) if given.passes else iter(())
            for *kinds, said, is_none in (*found, *more):
                kind = ": ".join(kinds)
                outcome = "seen" if said else "no bit" if is_none else "missed"
                outcomes[kind, outcome] += 1
                if outcome == "missed":
                    print(f"seed {seed}: {kind}", flush=True)
            continue
        run, bad = trial_of_program(seed) if given.programs else trial(seed, given.schedules)
        count, wrong = count + run, wrong + len(bad)
        for text in bad:
            print(text, flush=True)
    for (kind, outcome), number in sorted(outcomes.items()):
        print(f"{number:6} {outcome:7} {kind}")
    print(f"{count} texts, {wrong} wrong, in {time.monotonic() - begun:.0f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

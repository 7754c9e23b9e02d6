"""Compiles beside hostile logs: ``python tests/fuzz/hostile_log_run.py --count 2000``.

Each log holds one damaged line of a kernel's own schedule, or many (``--lines``). Prints what
raises and what computes something wrong, and how long compiles take with such a log, compared with
none.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from hostile_compiles import PROGRAMS, arrays_of, damaged, records_of, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="compiles")
    parser.add_argument("--lines", type=int, default=1, help="damaged lines in each log")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("error")
    rng = random.Random(given.seed)
    programs = [(f, arrays_of(shapes)) for f, shapes in PROGRAMS]
    valid = [records_of(f, arrays) for f, arrays in programs]
    bad, ratios = 0, []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "hostile.jsonl"
        for number in range(given.count):
            which = number % len(programs)
            function, arrays = programs[which]
            lines = [damaged(rng, valid[which]) for _ in range(given.lines)]
            _, alone = run(function, arrays, [], log)
            found, seconds = run(function, arrays, lines, log)
            if found:
                bad += 1
                shown = lines[0][:2000].decode(errors="replace") if given.lines == 1 else ""
                print(f"{number} {function.__name__}: {found}\n  {shown}", flush=True)
            else:
                ratios.append(seconds / alone)
    print(f"{given.count} compiles, {bad} bad; {statistics.median(ratios):.3f} times as long")


if __name__ == "__main__":
    main()

"""Random inputs for an hour: ``python tests/fuzz/inputs_run.py --seconds 3600``.

Arrays of every layout and dtype, numbers, and what is no array, in random containers, are the
arguments of random functions, compiled and called again and again, from one thread and from three.
Results, and arguments that are written, must be what NumPy makes of them; results must stay what
they are while later calls run. Prints what crashes, hangs or is wrong, with its seed
(``--first SEED --seconds 0`` runs that one), and at the end what was refused, in numbers. Sessions
run in processes of their own, a few at a time, so that a crash is one session's.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from input_check import failures, refusals
from random_inputs import Session

SECONDS = 120
"""Time that one session may take."""

CHUNK = 100


def _chunk(seeds: Sequence[int], end: float, pipe: int) -> None:
    with os.fdopen(pipe, "w") as out:
        for seed in seeds:
            signal.alarm(SECONDS)
            print("begin", seed, file=out, flush=True)
            session = Session(seed)
            try:
                found = failures(session)
            except Exception:
                found = [traceback.format_exc()]
            if found:
                print(session, *found[:3], sep="\n  ", flush=True)
            print("end", "wrong" if found else "right", session.calls, file=out, flush=True)
            if time.monotonic() > end:
                break
        for text, count in refusals.items():
            print("refused", count, text, file=out)


def run(first: int, seconds: float) -> tuple[Counter[str], Counter[str]]:
    """Returns how many sessions came out how, and what was refused; prints what is wrong."""
    kinds: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    end = time.monotonic() + seconds
    seed = first
    while seed == first or time.monotonic() < end:
        seeds = list(itertools.islice(itertools.count(seed), CHUNK))
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            _chunk(seeds, end, write)
            os._exit(0)
        os.close(write)
        begun = seed - 1
        ended = begun
        with os.fdopen(read) as stream:
            for line in stream:
                word, _, rest = line.strip().partition(" ")
                if word == "begin":
                    begun = int(rest)
                elif word == "end":
                    ended = begun
                    kinds[rest.split()[0]] += 1
                    kinds["calls"] += 4 * int(rest.split()[1])
                else:
                    count, _, text = rest.partition(" ")
                    refused[text] += int(count)
        os.waitpid(child, 0)
        if begun > ended:
            kinds["crashed or hung"] += 1
            print(f"crashed or hung: {Session(begun)}", flush=True)
        seed = begun + 1
    return kinds, refused


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="seed of the first session")
    given = parser.parse_args()
    kinds, refused = run(given.first, given.seconds)
    for text, count in refused.most_common(40):
        print(f"{count:7d}  {text}")
    print(*(f"{count} {kind}" for kind, count in kinds.items()), sep=", ")
    return int(any(kind not in ("right", "calls") for kind in kinds))


if __name__ == "__main__":
    sys.exit(main())

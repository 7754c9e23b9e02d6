"""Runs random programs in chunks with a process each, so that a crash is one program's."""

from __future__ import annotations

import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Sequence

__all__ = ["run"]

SECONDS = 60
CHUNK = 50

Report = Callable[[int], tuple[str, str]]
"""From a seed to the kind of its outcome, and what to print of it."""


def run(seeds: Sequence[int], report: Report, text_of: Callable[[int], str]) -> Counter[str]:
    """Returns how many programs came out how; prints what ``report`` says of them.

    ``text_of`` shows the program of a seed whose process crashed or hung.
    """
    kinds: Counter[str] = Counter()
    waiting = list(seeds)
    while waiting:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            _chunk(waiting[:CHUNK], report, write)
            os._exit(0)
        os.close(write)
        begun, ended = 0, 0
        with os.fdopen(read) as stream:
            for line in stream:
                if line.startswith("begin"):
                    begun += 1
                else:
                    ended += 1
                    kinds[line.removeprefix("end ").strip()] += 1
        os.waitpid(child, 0)
        if begun > ended:
            seed = waiting[begun - 1]
            kinds["crashed or hung"] += 1
            print(f"seed {seed}: crashed or hung\n{text_of(seed)}\n", flush=True)
        waiting = waiting[max(begun, 1) :]
    return kinds


def _chunk(seeds: Sequence[int], report: Report, pipe: int) -> None:
    with os.fdopen(pipe, "w") as out:
        for seed in seeds:
            signal.alarm(SECONDS)
            print("begin", seed, file=out, flush=True)
            try:
                kind, text = report(seed)
            except Exception:
                kind, text = "generator", f"seed {seed}: {traceback.format_exc()}"
            if text:
                print(f"{text}\n", flush=True)
            print(f"end {kind}", file=out, flush=True)

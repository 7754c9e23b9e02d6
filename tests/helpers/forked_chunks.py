"""Runs a function of seeds in processes of their own, so that a crash is one seed's."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import traceback
from collections.abc import Callable, Iterator

__all__ = ["outcomes"]

MEMORY = 8 << 30
SECONDS = 120
"""Of its own time, after which a seed is ended; of a clock's, ten times as many."""

CHUNK = 100


def outcomes(
    low: int, high: int, report: Callable[[int], tuple[str, str]]
) -> Iterator[tuple[int, str, str]]:
    """Yields each seed with the kind of its outcome and what to print of it, as ``report`` says, or
    that it crashed or hung."""
    while low < high:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            _chunk(low, min(high, low + CHUNK), report, write)
            os._exit(0)
        os.close(write)
        seed, kind = low, None
        with os.fdopen(read, "rb") as stream:
            while True:
                try:
                    seed, kind, text = pickle.load(stream)
                except EOFError:
                    break
                if kind is not None:
                    yield seed, kind, text
        os.waitpid(child, 0)
        if kind is None:
            yield seed, "crashed or hung", f"seed {seed}: crashed or hung"
        low = seed + 1


def _chunk(low: int, high: int, report: Callable[[int], tuple[str, str]], pipe: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with os.fdopen(pipe, "wb") as out:
        for seed in range(low, high):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(10 * SECONDS)
            pickle.dump((seed, None, None), out)
            out.flush()
            try:
                kind, text = report(seed)
            except Exception:
                kind, text = "generator", f"seed {seed}: {traceback.format_exc()}"
            pickle.dump((seed, kind, text), out)
            out.flush()

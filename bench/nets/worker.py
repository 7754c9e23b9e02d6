"""The process of one peer: JSON lines in, JSON lines out; see ``bench.answers``."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..answers import serve
from ..libraries import result_of
from .peers import PEERS, Job

__all__ = ["prepare"]


def prepare(peer: str, command: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Makes a network ready; returns its call, and how long that took and how far it is off.

    ``wrong`` is the largest difference from float64, as a part of the largest result; ``memory``
    the most memory that the process has held, in MB.
    """
    with np.load(command["arrays"]) as arrays:
        inputs = {name: arrays[name] for name in arrays.files if name != "result"}
        expected = arrays["result"]
    job = Job(
        command["name"],
        Path(command["model"]),
        inputs,
        command["threads"],
        command["budget"],
        command["log"],
    )
    start = time.perf_counter()
    call, spent = PEERS[peer].make(job)
    got = result_of(call())
    ready = time.perf_counter() - start - spent
    if got.shape != expected.shape:
        raise ValueError(f"the result is {got.shape}, not {expected.shape}")
    wrong = float(np.abs(got - expected).max() / np.abs(expected).max())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return call, {"wrong": wrong, "tuning": spent, "ready": ready, "memory": memory}


if __name__ == "__main__":
    serve(sys.argv[1], prepare)

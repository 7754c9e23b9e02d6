"""The process of one peer: JSON lines in, JSON lines out; see ``bench.answers``."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..answers import serve
from .peers import PEERS, Job, ready_to_import

__all__ = ["prepare"]

DEEPEST = 100_000  # calls of each other, of functions in plain Python


def prepare(peer: str, command: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Makes a program ready; returns its call, and the seconds of the first and of the second one.

    ``expected`` is the file of the results; ``write`` says to write it, else ValueError is raised
    if a result differs from it. ``package`` has the program.
    """
    from .program import leaves, mistake

    programs = importlib.import_module(f"{command['package']}.programs").PROGRAMS
    program = programs[command["name"]]
    arguments, expected = program.arguments(command["size"]), []
    if not command["write"]:
        with np.load(command["expected"]) as arrays:
            expected = [arrays[name] for name in arrays.files]
    start = time.process_time()
    call = PEERS[peer].make(Job(program, arguments, expected, command["package"]))
    result = call()
    ready = time.process_time() - start
    if command["write"]:
        np.savez(command["expected"], *leaves(result))
        return call, {"ready": ready, "once": ready}
    if wrong := mistake(program, result, tuple(expected)):
        raise ValueError(wrong)
    start = time.process_time()
    call()
    return call, {"ready": ready, "once": time.process_time() - start}


if __name__ == "__main__":
    sys.setrecursionlimit(DEEPEST)
    ready_to_import(sys.argv[1])
    # Everything runs on one thread: its processor time is what others on the machine change least.
    serve(sys.argv[1], prepare, time.process_time)

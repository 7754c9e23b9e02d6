"""What ``import loopwright`` costs, and what it must not bring along."""

from __future__ import annotations

import json
import os
import subprocess
import sys

HEAVY = ("xgboost", "onnx", "torch", "dask", "distributed", "sklearn", "scipy", "tqdm", "pandas")

MOST_MODULES = 138
"""Modules of ours that are loaded: each takes about half a millisecond."""
MOST_TIMES = 1.0
"""Times as long as ``import numpy``, which comes first; 0.6 where it was measured. Seconds would be
a limit on the clock of the machine."""
RUNS = (5, 15)
"""At least so many, and while the limit is not met, at most so many."""

LOADED = "import loopwright, sys, json; print(json.dumps(sorted(sys.modules)))"
TIMED = """
import time
start = time.process_time()
import numpy
middle = time.process_time()
import loopwright
print(middle - start, time.process_time() - middle)
"""


def _python(code: str) -> str:
    # Users import byte code; where writing it is turned off, each run would compile the sources.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    # NumPy's library starts threads that spin for a while: processor time of nobody's import.
    env["OPENBLAS_NUM_THREADS"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout


def test_import_loads_nothing_heavy() -> None:
    modules = json.loads(_python(LOADED))
    assert not {name.partition(".")[0] for name in modules}.intersection(HEAVY)
    assert sum(name.partition(".")[0] == "loopwright" for name in modules) <= MOST_MODULES


def test_import_takes_no_longer_than_that_of_numpy() -> None:
    # Processor time, and of several runs the one in which both took the least: other processes may
    # keep the machine busy during either of the two imports, and its clock rate varies.
    numpy, ours = float("inf"), float("inf")
    for run in range(RUNS[1]):
        first, second = map(float, _python(TIMED).split())
        if first + second < numpy + ours:
            numpy, ours = first, second
        if run + 1 >= RUNS[0] and ours <= MOST_TIMES * numpy:
            break
    assert ours <= MOST_TIMES * numpy


def test_import_brings_all_that_a_program_needs() -> None:
    """In a process that has imported nothing else: tests import every operator."""
    call = "import loopwright as lw, numpy as np; print(lw.compile(lambda x: x + 1)(np.ones(2)))"
    assert _python(call) == "[2. 2.]\n"

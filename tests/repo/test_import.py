"""What ``import loopwright`` costs, and what it must not bring along."""

from __future__ import annotations

import json
import os
import subprocess
import sys

HEAVY = ("xgboost", "onnx", "torch", "dask", "distributed", "sklearn", "scipy", "tqdm", "pandas")

MOST_MODULES = 122
"""Modules of ours that are loaded: each takes about a millisecond."""
MOST_TIMES = 1.2
"""Times as long as ``import numpy``, which comes first: together 0.3 s where that takes 0.14 s. A
limit in seconds would be one on the clock of the machine."""

LOADED = "import loopwright, sys, json; print(json.dumps(sorted(sys.modules)))"
TIMED = """
import time
start = time.process_time()
import numpy
middle = time.process_time()
import loopwright
print((time.process_time() - middle) / (middle - start))
"""


def _python(code: str) -> str:
    # Users import byte code; where writing it is turned off, each run would compile the sources.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout


def test_import_loads_nothing_heavy() -> None:
    modules = json.loads(_python(LOADED))
    assert not {name.partition(".")[0] for name in modules}.intersection(HEAVY)
    assert sum(name.partition(".")[0] == "loopwright" for name in modules) <= MOST_MODULES


def test_import_takes_about_as_long_as_that_of_numpy() -> None:
    # Processor time, and the best of several: other processes may keep the machine busy.
    ratios: list[float] = []
    while len(ratios) < 10 and min(ratios, default=MOST_TIMES + 1) > MOST_TIMES:
        ratios.append(float(_python(TIMED)))
    assert min(ratios) <= MOST_TIMES


def test_import_brings_all_that_a_program_needs() -> None:
    """In a process that has imported nothing else: tests import every operator."""
    call = "import loopwright as lw, numpy as np; print(lw.compile(lambda x: x + 1)(np.ones(2)))"
    assert _python(call) == "[2. 2.]\n"

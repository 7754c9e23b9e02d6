"""What ``import loopwright`` costs, and what it must not bring along."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("xgboost", "onnx", "torch", "dask", "distributed", "sklearn", "scipy", "tqdm", "pandas")

LOADED = "import loopwright, sys, json; print(json.dumps(sorted(sys.modules)))"
TIMED = """
import time
start = time.process_time()
import loopwright
print(time.process_time() - start)
"""


def _python(code: str) -> str:
    # Users import byte code; where writing it is turned off, each run would compile the sources.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout


def test_import_loads_nothing_heavy() -> None:
    loaded = {name.partition(".")[0] for name in json.loads(_python(LOADED))}
    assert not loaded.intersection(HEAVY)


def test_import_takes_less_than_a_third_of_a_second() -> None:
    # Processor time, and the best of several: other processes may keep the machine busy.
    times = []
    for _ in range(8):
        times.append(float(_python(TIMED)))
        if times[-1] <= 0.3:
            return
    pytest.fail(f"import loopwright took {min(times):.2f} s at best")

"""One call into the system fails in a compile or a load; ``fault_run`` injects more, in tunes, too.

See ``tests/helpers/faults.py`` for what may come of it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path


def test_a_call_into_the_system_fails() -> None:
    command = [sys.executable, str(Path(__file__).with_name("fault_run.py")), "--count", "10"]
    command += ["--seed", "1", "--loads", "compile", "load"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = ast.literal_eval(done.stdout)
    assert outcomes["refused"] and outcomes.keys() <= {"right", "refused"}
    assert sum(outcomes.values()) == 10

from __future__ import annotations

import subprocess
import sys


def test_tuning_under_fire_loses_and_leaves_nothing() -> None:
    """``python -m bench.kills`` kills 1,000 times."""
    command = [sys.executable, "-m", "bench.kills", "--kills", "6", "--seed", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed 5: 6 kills" in done.stdout
    assert done.stdout.endswith("none lost, every log readable, nothing left behind\n")

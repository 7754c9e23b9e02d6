"""``make demo`` from end to end, with a short budget."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import repo_sources as sources


@pytest.mark.slow
def test_the_demo_keeps_its_word(tmp_path) -> None:
    log = tmp_path / "digits.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--budget", "1", "--log", str(log)],
        cwd=sources.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all 1,797 predictions agree with NumPy") == 4
    assert "nothing measured, xgboost not loaded, the same machine code" in done.stdout
    table = done.stdout.split("4. Time per call:")[1].splitlines()[2:6]
    assert [re.split(r"\s{2,}", line.strip())[0] for line in table] == [
        "MLP, batch 1",
        "MLP, batch 1797",
        "CNN, batch 1",
        "CNN, batch 1797",
    ]
    assert log.stat().st_size > 0

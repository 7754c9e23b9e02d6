"""With every message and dump switched on, a program still runs: printing never rots."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import repo_sources as sources

CODE = """
import numpy as np
import loopwright as lw
from examples import classify, digits

x = np.ones((56, 96), np.float32)
assert np.allclose(lw.compile(classify.classify)(x), classify.classify(x), atol=1e-4)
image = digits.IMAGES[:3, ..., None]
wanted = digits.predict_cnn_numpy(image)
assert np.allclose(lw.compile(digits.predict_cnn)(image), wanted, atol=1e-4)
"""


def test_a_program_with_all_messages_and_dumps(tmp_path: Path) -> None:
    settings = {"LOOPWRIGHT_DEBUG": "5", "LOOPWRIGHT_DUMP": str(tmp_path), "LOOPWRIGHT_VERIFY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=sources.ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for part in ("compiled in", "def @main", "vectorize", "define void", ".section"):
        assert part in done.stderr
    names = " ".join(p.name for p in tmp_path.iterdir())
    for level in ("graph", "kernels", "loops", "program", "llvm", "asm"):
        assert level in names

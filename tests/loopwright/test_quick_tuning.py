"""``lw.compile(tune="quick")``: kernels are measured before the first call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog


def scaled_rows(x: Any, w: Any) -> Any:
    return np.maximum(x @ w, 0)


def test_the_first_call_measures_and_a_later_compile_reads(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    log = tmp_path / "log.jsonl"
    x, w = (rng.standard_normal((40, 40)).astype(np.float32) for _ in range(2))
    for _ in range(2):
        f = lw.compile(scaled_rows, tune="quick", log=log, threads=1)
        np.testing.assert_allclose(f(x, w), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
        assert "1 tuned" in f.in_use(x, w)[0].built.summary
        records = list(TuningLog(log))
        assert 0 < len([r for r in records if not r.raced]) <= 8
        (run,) = [note for _, note in TuningLog(log).notes if note.kind == "run"]
    assert run.data["budget"]["quick"] is True

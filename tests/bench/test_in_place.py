"""The table of kernels alone and in their place."""

from __future__ import annotations

from dataclasses import replace

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.machine import estimated_machine

from bench import in_place
from bench.in_place import Row, rows_of


def test_rows_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "measured_machine", estimated_machine)
    monkeypatch.setattr(in_place, "ROUNDS", 2)
    w = np.ones((48, 64), np.float32)
    f = lw.compile(lambda x: np.maximum(x @ w, 0))
    x = np.ones((16, 48), np.float32)
    lowered = f.lower(x)
    rows = [*rows_of(lowered.built, [x], 0.05, 0.0)]
    assert len(rows) == 1 and abs(sum(r.share for r in rows) - 1) < 1e-6
    for row in rows:
        assert 0 < row.alone < 1 and 0 < row.predicted < 1 and 0 < row.limit < 1
        assert row.name in str(row) and row.between


def test_the_bar() -> None:
    row = Row("f", 1, 0.1, 1e-3, 1e-3, 1.05e-3, 5e-4, "compute", {})
    assert row.met
    slow = replace(row, in_place=1.3e-3)
    assert not slow.met and "!" in str(slow)
    assert not replace(slow, bound="dram").met
    assert replace(slow, bound="dram", limit=1.2e-3).met

"""Promises about time: ``at_most=`` of ``lw.compile``, and ``lw.assert_faster_than``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.linspace(0, 1, 1000, dtype=np.float32).reshape(20, 50)


def layer(x: Any) -> Any:
    return np.exp(x @ x.T) + 1


def test_a_call_that_keeps_its_promise_is_a_call() -> None:
    kept = lw.compile(layer, at_most="60s", threads=1)
    np.testing.assert_allclose(kept(X), layer(X), rtol=1e-5)
    assert kept.options()["at_most"] == 60


def test_a_broken_promise_names_line_kernel_and_schedule(tmp_path: Path) -> None:
    baseline = tmp_path / "kept" / "times.json"
    baseline.parent.mkdir()
    lw.compile(layer, at_most=60, baseline=baseline)(X)
    kept = json.loads(baseline.read_text())
    assert [*kept] == ["layer(x: float32[20, 50])"]
    broken = lw.compile(layer, at_most="0.001us", baseline=baseline)
    with pytest.raises(lw.TooSlowError, match=r"takes .* 1 ns were promised") as error:
        broken(X)
    assert error.value.seconds > error.value.limit == 1e-9
    said = str(error.value)
    assert "np.exp(x @ x.T) + 1" in said and "of what the machine allows" in said
    assert "when the promise was kept" in said and "its schedule is the same" in said
    (kernels,) = kept.values()
    for kernel in kernels.values():
        kernel["schedule"], kernel["from"] = "another", "by the log"
    baseline.write_text(json.dumps(kept))
    with pytest.raises(AssertionError, match="by the rules; it was by the log"):
        lw.compile(layer, at_most=1e-9, baseline=baseline)(X)
    baseline.write_text("no object")
    with pytest.raises(lw.LoopwrightValueError, match="is not a baseline"):
        lw.compile(layer, at_most=1e-9, baseline=baseline)(X)


def test_speed_is_asserted_over_python_or_another_function() -> None:
    def slow(x: Any) -> Any:
        return np.array([[sum(map(float, row)) for row in x]] * 3)

    def summed(x: Any) -> Any:
        return np.stack([x.sum(axis=1)] * 3)

    assert lw.assert_faster_than(summed, X, than=slow) > 1
    with pytest.raises(lw.TooSlowError, match="would be 1e\\+09 times as fast as summed"):
        lw.assert_faster_than(summed, X, times=1e9)


@pytest.mark.parametrize("at_most", ["2 minutes", "-1s", 0, "inf", "", "ms"])
def test_what_is_no_time_is_refused(at_most: Any) -> None:
    with pytest.raises(lw.LoopwrightValueError, match="is not a time"):
        lw.compile(layer, at_most=at_most)
    with pytest.raises(lw.LoopwrightTypeError, match="no option thread"):
        lw.compile(layer, at_most="1s", thread=1)

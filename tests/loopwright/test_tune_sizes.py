"""Tuning functions with symbolic sizes: calls to tune on, points of kernels, and the whole way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.selection.select import Origin
from loopwright.ir.errors import LoopwrightValueError
from loopwright.tuning.at_sizes import arguments_of, kernel_points, kernel_weights, size_values

W = np.linspace(-1, 1, 32 * 48, dtype=np.float32).reshape(32, 48)


def layer(x: Any) -> Any:
    return x @ W


def dynamic(**options: Any) -> Any:
    return lw.compile(dynamic={"x": {0: lw.Dim("n", min=0, max=500)}}, **options)(layer)


def test_calls_are_made_up_for_the_sizes_of_a_range() -> None:
    x = np.arange(5 * 32, dtype=np.float32).reshape(5, 32)
    module = dynamic().lower(x).traced.module
    calls = arguments_of(module, None)
    assert [dict(c.values) for c in calls] == [{"n": 1}, {"n": 16}, {"n": 128}, {"n": 500}]
    assert [c.arrays[0].shape for c in calls] == [(1, 32), (16, 32), (128, 32), (500, 32)]
    # The caller's own sizes stand for the nearest, and its values are repeated for the others.
    calls = arguments_of(module, [x])
    assert [c.values["n"] for c in calls] == [1, 5, 128, 500]
    assert calls[1].arrays[0] is x
    np.testing.assert_array_equal(calls[2].arrays[0][5:10], x)
    weighted = arguments_of(module, None, {128: 0.2, 1: 0.8})
    assert [(c.values["n"], c.weight, c.text) for c in weighted] == [
        (1, 0.8, "n = 1"),
        (128, 0.2, "n = 128"),
    ]


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ({501: 1.0}, "n = 501 has a weight, and n is from 1 to 500"),
        ({0: 1.0}, "n = 0 has a weight, and n is from 1 to 500"),
        ({(1, 2): 1.0}, r"weights are by the sizes \(n\), not by \(1, 2\)"),
        ({"n": 1.0}, r"weights are by the sizes \(n\), not by 'n'"),
        ({8: 0.0}, "the weight of 8 is 0.0, not a share"),
        ({8: "much"}, "the weight of 8 is 'much', not a share"),
    ],
)
def test_weights_that_are_none_are_refused(weights: Any, why: str) -> None:
    module = dynamic().lower(np.ones((5, 32), np.float32)).traced.module
    with pytest.raises(LoopwrightValueError, match=why):
        arguments_of(module, None, weights)


def test_weights_need_symbolic_sizes() -> None:
    with pytest.raises(LoopwrightValueError, match="this function has none"):
        lw.compile(layer, dynamic=False).tune(np.ones((5, 32), np.float32), weights={8: 1.0})


def test_kernels_are_tuned_at_the_sizes_that_they_meet() -> None:
    built = dynamic().lower(np.ones((5, 32), np.float32)).built
    assert built.parts is not None
    program, prims = built.parts.program, built.parts.prims
    assert size_values([r.shape for r in program.inputs], [np.ones((7, 32))]) == {"n": 7}
    (point,) = kernel_points(program, prims, {"n": 7}).values()
    assert [*point.values()] == [7]
    assert kernel_points(program, prims, {"n": 0}) == {}
    calls = arguments_of(built.source.module, None, {1: 3.0, 64: 1.0})  # type: ignore[union-attr]
    (weights,) = kernel_weights(program, prims, calls).values()
    assert [([*p.values()], w) for p, w in weights] == [([1], 3.0), ([64], 1.0)]
    alike = kernel_weights(program, prims, arguments_of(built.source.module, None))  # type: ignore[union-attr]
    shares = [w for _, w in next(iter(alike.values()))]
    assert shares == sorted(shares, reverse=True) and shares[-1] == 1.0


def test_a_function_of_all_sizes_is_tuned_and_checked(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    tuned = dynamic(log=log)
    x = np.linspace(-2, 2, 40 * 32, dtype=np.float32).reshape(40, 32)
    report = tuned.tune(x, trials=8, weights={1: 0.8, 40: 0.2})
    assert "at 40" in str(report) and "at 1 " in str(report)
    records = list(TuningLog(log))
    assert {r.workload.at for r in records} == {(1,), (40,)} and any(r.ok for r in records)
    assert all(r.workload.range for r in records)
    for n in (0, 1, 2, 7, 40, 41, 500):
        y = np.resize(x, (n, 32))
        np.testing.assert_allclose(tuned(y), layer(y), rtol=1e-5, atol=1e-5)
    assert tuned.cache_info().misses == 0  # what was tuned serves all of them
    again = dynamic(log=log).lower(x)
    (chosen,) = again.built.chosen.values()
    assert chosen.origin == Origin.EXACT and len(chosen.measured) == 2
    assert again.built.summary.startswith("1 kernel: 1 tuned")

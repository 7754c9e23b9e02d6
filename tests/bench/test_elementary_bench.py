"""``bench.elementary``: the functions give what NumPy gives; the bars are judged by the figures."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest

from bench.elementary import meets_bars, ratios
from bench.families import make
from bench.families.functions import FUNCTIONS
from bench.namespaces.of_loopwright import Loopwright
from bench.row import Row
from bench.workload import wrongness


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_function_gives_what_it_declares(op: str) -> None:
    workload = make("function", {"op": op, "n": 40, "dtype": "float64"})
    result = lw.compile(lambda *x: workload.body(Loopwright(), *x))(*workload.arrays().values())
    assert result.dtype == workload.result_dtype
    assert wrongness(workload, np.asarray(result), workload.expected()) <= 1


@pytest.mark.parametrize(
    ("seconds", "met"),
    [
        ({"untuned": 1.05, "numpy-haswell": 1.0, "torch": 0.9}, True),
        ({"untuned": 1.2, "numpy-haswell": 1.0, "torch": 1.2}, False),
        ({"untuned": 1.0, "numpy-haswell": 1.0, "torch": 0.7}, False),
        ({"numpy-haswell": 1.0}, False),
    ],
)
def test_bars(seconds: dict[str, float], met: bool) -> None:
    row = Row("tan", 1, 0.1, "l1", seconds=seconds)
    assert meets_bars(row) == met
    if "untuned" in seconds:
        assert ratios(row)[0] == seconds["untuned"]

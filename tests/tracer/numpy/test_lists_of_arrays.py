"""Functions of an array that is given as a list of traced arrays."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.numpy.patched_functions import _OF_LISTS

X = np.linspace(-2, 2, 20).reshape(4, 5)
Y = np.sin(7 * X)
OPTIONS: dict[str, dict[str, Any]] = {
    "clip": {"a_min": -0.5, "a_max": 0.5},
    "average": {"axis": 0, "weights": [0.25, 0.5, 0.25]},
    "round": {"decimals": 1},
    "transpose": {},
}


@pytest.mark.parametrize("name", _OF_LISTS)
def test_lists_of_arrays(name: str) -> None:
    options = OPTIONS.get(name, {"axis": 0})

    def rows(x: Any, y: Any) -> Any:
        function = getattr(np, name)
        scalars = function([[x[0, 0], 1], [2, y[1, 1]], (0.5, x[2, 1])], **options)
        return function([x, y, x * y], **options), function((x, y, x + 1), **options), scalars

    for result, expected in zip(lw.compile(rows)(X, Y), rows(X, Y), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_a_list_and_an_out() -> None:
    def total(x: Any, y: Any) -> Any:
        out = np.empty((4, 5))
        named = np.max([x, y], axis=0, out=out)
        return np.sum([x, y], 0, None, np.zeros((4, 5))), named, out

    for result, expected in zip(lw.compile(total)(X, Y), total(X, Y), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)

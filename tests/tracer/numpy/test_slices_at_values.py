"""Slices whose bounds values decide: views, of whatever step, that are read and written."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest

VECTOR = {
    "x[i:j] * 2": None,
    "x[i:j:2].sum()": None,
    "x[i:j:-1] + 1": None,
    "x[:i:-2] + x[:i:-2]": None,
    "x[i::-1]": None,
    "x": "x[i:j] = 0",
    "x + 1": "x[i:j] += 1",
    "x * 1": "x[i:j:-1] *= 2",
    "v": "v = x[i:j]; v[:] = 5; v[1:2] = 7",
    "x * 2": "x[:j] = x[:j][::-1] * 3",
    "x * 3": "x[2:j] -= x[2:j]",
    "x * 4": "x[j:] = np.arange(9.0)[j:]",
    "x * 5": "x[i:j][0:2] = 4",
    "x * 6": "x[i:j:3] = x[i:j:3] + 1",
    "x * 7": "x[::-1][i:j] = 3",
    "x * 8": "x[1:-1][i:j] = 3",
    "x * 9": "x[i:j][i:j] = 3",
}
BOUNDS = [(0, 3), (2, 7), (5, 2), (-3, 9), (-20, 20), (8, -1), (0, 0)]

MATRIX = {
    "x": "x[i, :j] = x[j, :j]",
    "x[i:, j].sum()": "x[i:, j] += 1",
    "x + 1": "x[i:, j:] = x[i:, j:] * 2",
    "x + 2": "x[1:3, i:j] = 7.0",
    "x[i:j].T": "x.T[i:j, 2] = 1",
    "x + 3": "x[[0, 2], i:j] = 5",
    "x[..., i:j] * 2": "x[i, i:j] = x[i:j, i]",
    "x[i:j, None, j]": "x[i:j] = np.arange(5)",
    "x[i, :j] @ x[j, :j]": None,
    "x[:i, :j] @ x[:j, :i]": None,
    "x + 4": "for k in range(5): x[k, k:] -= x[k, k]; x[k:, k] *= 2",
    "x + 5": "for k in range(4): x[k + 1:, k] = x[k, k + 1:] = x[:, k] @ x[:, k + 1:]",
}
CORNERS = [(0, 3), (2, 4), (4, 2), (-3, 4), (1, 1)]


def _program(result: str, statement: str | None) -> Any:
    lines = [f"    {statement}"] if statement else []
    space: dict[str, Any] = {"np": np}
    exec("\n".join(["def f(x, i, j):", *lines, f"    return {result}"]), space)
    return space["f"]


def _check(result: str, statement: str | None, x: Any, bounds: list[tuple[int, int]]) -> None:
    function = _program(result, statement)
    compiled = lw.compile(function)
    for i, j in bounds:
        theirs, ours = x.copy(), x.copy()
        expected = function(theirs, i, j)
        np.testing.assert_allclose(compiled(ours, i, j), expected, rtol=1e-12)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("result", VECTOR)
def test_slices_of_a_vector(result: str) -> None:
    _check(result, VECTOR[result], np.arange(9.0), BOUNDS)


@pytest.mark.parametrize("result", MATRIX)
def test_slices_of_a_matrix(result: str) -> None:
    _check(result, MATRIX[result], np.random.default_rng(5).random((5, 5)), CORNERS)

"""The same mask has the same size: selections by it fit together, and are assigned through it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError

from tools.numpy_table.uses import assert_same, interpreted

X = np.array([3.0, -1, 4, -1, 5, -9, 2, 6])
Y = np.arange(8.0)
ROWS = np.arange(12.0).reshape(4, 3) - 4

SELECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "x[m]": lambda x, y: x[x > 1],
    "y[m]": lambda x, y: y[x > 1],
    "nonzero": lambda x, y: x[np.nonzero(x > 1)],
    "where": lambda x, y: y[np.where(x > 1)[0]],
    "flatnonzero": lambda x, y: y[np.flatnonzero(x > 1)],
    "argwhere": lambda x, y: np.argwhere(x > 1)[:, 0],
    "compress": lambda x, y: np.compress(x > 1, y),
    "extract": lambda x, y: np.extract(x > 1, x),
    "prefix": lambda x, y: y[: np.count_nonzero(x > 1)],
    "prefix by the sum": lambda x, y: y[: (x > 1).sum()],
    "a new array of its size": lambda x, y: np.zeros(x[x > 1].shape[0]) + 1,
    "arange of its size": lambda x, y: np.arange(x[x > 1].shape[0]),
}

PLACES: dict[str, Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]] = {
    "top": lambda f: f,
    "loop": lambda f: lambda x, y: lw.fori_loop(0, 3, lambda i, c: c + (f(x, y) * i).sum(), 0.0),
    "loop that changes it": lambda f: (
        lambda x, y: lw.fori_loop(0, 3, lambda i, c: c - f(c, y).sum(), x)
    ),
    "branch": lambda f: (
        lambda x, y: lw.cond(y.sum() > 0, lambda: f(x, y).sum(), lambda: f(y, x).sum())
    ),
    "function": lambda f: lambda x, y: lw.function(lambda a, b: f(a, b).sum())(x, y),
    "rows": lambda f: lambda x, y: lw.map(lambda row: (f(row, y) * 2).sum(), np.stack([x, y])),
}


PAIRS = list(itertools.combinations_with_replacement(SELECTIONS, 2))
CASES = [
    (*pair, place)
    for n, pair in enumerate(PAIRS)
    for k, place in enumerate(PLACES)
    if (n + k) % 3 == 0
]


@pytest.mark.parametrize(("one", "other", "place"), CASES)
def test_two_selections_by_one_mask(one: str, other: str, place: str) -> None:
    def both(x: Any, y: Any) -> Any:
        return SELECTIONS[one](x, y) * (1 + SELECTIONS[other](x, y))

    function = PLACES[place](both)
    compiled = lw.compile(function)
    for x in (X, -X, np.zeros(8), np.full(8, 2.0)):
        assert_same(compiled(x, Y), function(x, Y))


WRITES = {
    "f of itself": "x[x > 1] = np.sqrt(x[x > 1])",
    "of another array": "x[m] = y[m]",
    "added": "x[m] += y[m]",
    "divided": "x[m] /= y[m] + 1",
    "rows": "r[r[:, 0] > 0] = r[r[:, 0] > 0] * 2",
    "columns": "r[:, r[0] > -4] = r[:, r[0] > -4] + 1",
    "columns added": "r[:, r[0] > -4] += r[:, r[0] > -4]",
    "a column of rows": "r[r[:, 0] > 0, 1] = r[r[:, 0] > 0, 2]",
    "some columns of rows": "r[r[:, 0] > 0, 1:] = r[r[:, 0] > 0, :2]",
    "a row of columns": "r[1, r[0] > -4] -= r[2, r[0] > -4]",
    "both axes": "r[r > 0] = -r[r > 0]",
    "a transpose": "r.T[:, r[:, 0] > 0] = r.T[:, r[:, 0] > 0] * 3",
    "a view": "v = x[2:]; v[v > 1] = v[v > 1] ** 2",
    "reversed": "x[m] = x[m][::-1]",
    "sorted": "x[m] = np.sort(y[m])",
    "counted": "x[m] = np.arange(x[m].shape[0])",
    "by places": "x[np.nonzero(m)] = y[m]",
    "at": "np.multiply.at(x, m, y[m])",
    "new array": "z = np.zeros_like(x); z[m] = y[m]; x += z",
    "constant mask": "x[FEW] = y[FEW]",
    "constant mask, added": "x[FEW] += y[FEW] * 2",
    "constant mask, known values": "x[FEW] = [7, 8, 9]",
    "the mask itself": "m[m] = x[m] > 3; x[m] = 0",
    "mask of a mask": "x[x > 1] = x[x > 1] - 3; x[x > 1] = y[x > 1]",
}
FEW = np.isin(np.arange(8), [1, 4, 6])


@pytest.mark.parametrize("name", WRITES)
def test_assigning_through_a_mask(name: str) -> None:
    space: dict[str, Any] = {"np": np, "FEW": FEW}
    exec(f"def f(x, y, r, m):\n    {WRITES[name]}\n    return x, r", space)
    function = space["f"]
    compiled = lw.compile(function)
    for x in (X, -X, np.zeros(8), np.full(8, 2.0)):
        mine = x.copy(), Y.copy(), ROWS.copy(), x > 2
        its = x.copy(), Y.copy(), ROWS.copy(), x > 2
        assert_same(compiled(*mine), function(*its))
        assert_same(mine, its)


def test_a_mask_written_in_between_has_another_size() -> None:
    def f(x, m):
        before = x[m]
        m[0] = False
        return before, x[m], x[m] + x[m]

    m = X > 2
    assert_same(lw.compile(f)(X, m.copy()), f(X, m.copy()))

    def g(x, m):
        before = x[m]
        m[0] = False
        return before + x[m]

    with pytest.raises(LoopwrightError):
        lw.compile(g)(X, m.copy())


def test_unique_pairs_and_the_interpreter() -> None:
    def f(x):
        values, counts = np.unique(x, return_counts=True)
        return values * counts + np.unique(x), values[counts > 1], counts[counts > 1] * 2

    assert_same(lw.compile(f)(X), f(X))
    assert_same(interpreted(f, [X]), f(X))


def test_one_size_is_counted_once() -> None:
    def f(x, y):
        return x[x > 1] * y[x > 1] + x[np.nonzero(x > 1)]

    text = lw.compile(f).lower(X, Y).as_text("program")
    assert text.count("size s") == 1

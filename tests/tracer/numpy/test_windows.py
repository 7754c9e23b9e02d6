"""Windows at traced places, ``x[i:i + c]``: at the borders they are NumPy's, or an error."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError

from tools.numpy_table.uses import assert_same

X = np.arange(24.0).reshape(6, 4)

READS = (
    "x[i:i + 2]",
    "x[i:i + 2].sum(0)",
    "x[i:i + 1][0]",
    "x[i - 1:i + 1]",
    "x[2 * i:2 * i + 2]",
    "x[2 * i:2 * (i + 1)]",
    "x[-i:-i + 2]",
    "x[i:i + 3:2]",
    "x[i:i + 5:3]",
    "x[i:i + 5]",
    "x[i:i + 9]",
    "x[i:i]",
    "x[i:i - 1]",
    "x[:, i:i + 2]",
    "x[i:i + 2, i:i + 1]",
    "x[i:i + 2, 1]",
    "x[1, i:i + 2]",
    "x[i:i + 2, j]",
    "x[i:i + 2, [0, 2, 0]]",
    "x[i:i + 2, None]",
    "x[..., i:i + 2]",
    "x.T[i:i + 2]",
    "x[::-1][i:i + 2]",
    "x[1:5][i:i + 2]",
    "x[::2][i:i + 2]",
    "x[i:i + 3][j:j + 2]",
    "x.reshape(-1)[i:i + 3]",
    "np.concatenate([x[i:i + 2], x[j:j + 1]])",
)
WRITES = (
    "x[i:i + 2] = 7",
    "x[i:i + 2] += 7",
    "x[i:i + 2] = x[j:j + 2]",
    "x[i:i + 2] -= x[j:j + 2]",
    "x[i:i + 2] = np.ones((2, 4))",
    "x[:, i:i + 2] *= 2",
    "x[i:i + 2, 1] = 3",
    "x[i:i + 2, j] += 1",
    "x[i:i + 1, i:i + 1] = 5",
    "x[i:i + 3:2] = 4",
    "x.T[:, i:i + 2] = 8",
    "x[1:5][i:i + 2] = 9",
    "x[i:i + 3][j:j + 1] = 6",
    "v = x[i:i + 2]; v[1] = -1",
    "v = x[i:i + 2]; v += v",
    "x[i:i + 2].fill(3)",
    "np.copyto(x[i:i + 2], 2.0)",
    "np.add(x[i:i + 2], 1, out=x[i:i + 2])",
    "np.add.at(x, slice(i, i + 2), 1)",
)
PLACES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "top": lambda f: f,
    "loop": lambda f: (
        lambda x, i, j: lw.fori_loop(0, 2, lambda k, c: c + f(x, i + k, j).sum(), 0.0)
    ),
    "scan": lambda f: (
        lambda x, i, j: lw.scan(lambda c, k: (c + f(x, k, j).sum(), c), 0.0, np.stack([i, j]))
    ),
    "while": lambda f: (
        lambda x, i, j: lw.while_loop(
            lambda c: c[0] < i + 2, lambda c: (c[0] + 1, c[1] + f(x, c[0], j).sum()), (i, 0.0)
        )
    ),
    "branch": lambda f: (
        lambda x, i, j: lw.cond(j > 0, lambda: f(x, i, j).sum(), lambda: f(x, j, i).sum())
    ),
    "function": lambda f: lambda x, i, j: lw.function(lambda x, i, j: f(x, i, j).sum())(x, i, j),
    "map": lambda f: lambda x, i, j: lw.map(lambda k: f(x, k, j).sum(), np.stack([i, j])),
}
CASES = [
    (text, place)
    for n, text in enumerate(READS + WRITES)
    for k, place in enumerate(PLACES)
    if not k or (n + k) % 3 == 0
]


@pytest.mark.parametrize(("text", "place"), CASES)
def test_windows_at_borders(text: str, place: str) -> None:
    is_read = text in READS
    space: dict[str, Any] = {"np": np}
    body = f"return {text}" if is_read else f"{text}\n    return x"
    exec(f"def f(x, i, j):\n    {body.replace('; ', chr(10) + '    ')}", space)
    function = PLACES[place](space["f"])
    compiled = lw.compile(function)
    right = 0
    for i, j in itertools.product(range(-8, 9), (-2, 1, 3)):
        mine, its = X.copy(), X.copy()
        try:
            result = compiled(mine, np.int64(i), np.int64(j))
        except LoopwrightError:
            assert place != "top" or np.array_equal(mine, X)
            continue
        assert_same(result, function(its, np.int64(i), np.int64(j)))
        np.testing.assert_array_equal(mine, its)
        right += 1
    assert right >= 2, "windows that fit are read and written"


CERTAIN: dict[str, Callable[[Any, Any], Any]] = {
    "loop": lambda x, k: lw.fori_loop(0, 17, lambda i, c: c + x[i : i + 4].sum(), 0.0),
    "loop of its length": lambda x, k: lw.fori_loop(
        0, x.shape[0] - 3, lambda i, c: c + x[i : i + 4].sum(), 0.0
    ),
    "blocks": lambda x, k: lw.fori_loop(
        0, x.shape[0] // 4, lambda i, c: c + x[i * 4 : (i + 1) * 4].sum(), 0.0
    ),
    "backwards": lambda x, k: lw.fori_loop(0, 17, lambda i, c: c + x[16 - i : 20 - i].sum(), 0.0),
    "what came before": lambda x, k: lw.fori_loop(
        3, 17, lambda i, c: c + x[i - 3 : i + 1].sum(), 0.0
    ),
    "nested": lambda x, k: lw.fori_loop(
        0,
        4,
        lambda i, c: lw.fori_loop(0, i, lambda j, d: d + x[i * 4 + j : i * 4 + j + 4].sum(), c),
        0.0,
    ),
    "as far as data says": lambda x, k: lw.fori_loop(
        0, np.minimum(k, 17), lambda i, c: c + x[i : i + 4].sum(), 0.0
    ),
    "clipped": lambda x, k: (lambda s: x[s : s + 4])(np.clip(k, 0, 16)),
    "limited": lambda x, k: (lambda s: x[s : s + 4])(np.maximum(np.minimum(k, x.shape[0] - 4), 0)),
    "ring": lambda x, k: x[k % 16 : k % 16 + 4],
    "chosen": lambda x, k: (lambda s: x[s : s + 4])(np.where(k > 3, k % 16, 2)),
    "constant places": lambda x, k: lw.map(lambda s: x[s : s + 4].sum(), np.array([0, 4, 16])),
    "halves": lambda x, k: lw.fori_loop(0, 34, lambda i, c: c + x[i // 2 : i // 2 + 4].sum(), 0.0),
}


@pytest.mark.parametrize("dynamic", [False, {"x": {0: lw.Dim("n", min=20)}}])
@pytest.mark.parametrize("name", CERTAIN)
def test_windows_that_certainly_fit_are_not_checked(name: str, dynamic: Any) -> None:
    x = np.arange(40.0).reshape(20, 2)
    compiled = lw.compile(CERTAIN[name], dynamic=dynamic)
    for k in (-3, 5, 99):
        assert_same(compiled(x, np.int64(k)), CERTAIN[name](x, np.int64(k)))
    assert "raise_failed" not in compiled.lower(x, np.int64(3)).as_text("graph")


def test_the_error_of_a_window_says_what_to_do() -> None:
    def last(x, i):
        return x[i : i + 4]

    with pytest.raises(lw.LoopwrightIndexError) as raised:
        lw.compile(last)(np.zeros(10), np.int64(7))
    assert "return x[i : i + 4]" in str(raised.value)
    assert str(raised.value).startswith(
        "x[i:i + 4] for i = 7 is cut off by the border of axis 0 with size 10, where a window has "
        "one size: take x[i:np.minimum(i + 4, 10)] for what there is, or np.clip(i, 0, 6) for the "
        "nearest one"
    )


def test_the_ways_out_that_the_error_names() -> None:
    def cut_off(x, i):
        return x[i : np.minimum(i + 4, 10)]

    def nearest(x, i):
        i = np.clip(i, 0, 6)
        return x[i : i + 4]

    x = np.arange(10.0)
    for function, i in itertools.product((cut_off, nearest), range(12)):
        assert_same(lw.compile(function)(x, np.int64(i)), function(x, np.int64(i)))


def test_a_window_is_checked_once() -> None:
    def smooth(x, i):
        x[i : i + 4] = x[i : i + 4] * 2 + x[i : i + 4]
        return x

    text = lw.compile(smooth).lower(np.zeros(10), np.int64(2)).as_text("graph")
    assert text.count("is cut off") == 1


def test_windows_at_narrow_integers() -> None:
    """``i + 4`` of a uint8 wraps around, and the window is empty."""

    def f(x, i):
        return x[i : i + np.uint8(4)]

    x = np.arange(300.0)
    for i in (0, 3, 251, 252, 255):
        with np.errstate(over="ignore"):
            assert_same(lw.compile(f)(x, np.uint8(i)), f(x, np.uint8(i)))

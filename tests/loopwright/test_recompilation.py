"""``cache_info``: a reason per miss; and the warning of a function that compiles all the time."""

from __future__ import annotations

import warnings
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.ones((2, 3), np.float32)


def test_each_miss_has_its_reason() -> None:
    @lw.compile
    def f(x: Any, axis: Any = None, **more: Any) -> Any:
        x[0] = 1
        return x.sum(axis=axis)

    f(X.copy())
    f(X[:1].copy())
    f(X.astype(np.int64))
    f(X.copy(), 0)
    f(X.copy(), 1)
    f(X.copy(), 1, scale=X)
    assert f.cache_info().reasons == (
        "first call",
        "x: float32[2, 3] became float32[1, 3]",
        "x: float32[1, 3] became int64[2, 3]",
        "other arguments or another structure of them: axis",
        "axis: 0 became 1",
        "other arguments or another structure of them: scale",
    )
    assert f.cache_info().misses == 6
    g = lw.compile(_add_to)
    g(X.copy(), X.copy())
    x = X.copy()
    g(x, x)
    assert g.cache_info().reasons == ("first call", "its arrays lie in memory in another way")


def _add_to(x: Any, y: Any) -> None:
    x += y


def _warning(calls: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calls()
    messages = [w for w in caught if issubclass(w.category, lw.RecompilationWarning)]
    assert len(messages) == 1 and messages[0].filename == __file__
    return str(messages[0].message)


def _double(x: Any) -> Any:
    return x * 2


def test_a_storm_of_shapes_warns_once() -> None:
    f = lw.compile(_double, dynamic=False)
    assert _warning(lambda: [f(np.ones(n)) for n in range(1, 40)]) == (
        "_double was compiled 16 times in 16 calls: x has another shape each time. Name its size "
        "(dynamic={'x': {0: 'n'}}), or pad it to one of a few shapes (np.pad), and pass how much "
        "of it counts as a number"
    )


def test_a_storm_of_values_names_arrays() -> None:
    f = lw.compile(lambda x, step: x * 2 if step % 10 == 0 else x, capture=False)
    text = _warning(lambda: [f(X, n) for n in range(20)])
    assert "step has another value each time, and Python needs it while tracing" in text
    assert text.endswith("np.array(step)")


def test_a_storm_of_containers_names_np_stack() -> None:
    f = lw.compile(lambda rows: sum(r.sum() for r in rows))
    text = _warning(lambda: [f([X] * n) for n in range(1, 20)])
    assert "other containers or keys each time" in text and "np.stack" in text


def test_kinds_that_come_back_are_no_storm() -> None:
    f = lw.compile(_double, dynamic=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lw.RecompilationWarning)
        for n in range(1, 20):
            for _ in range(3):
                f(np.ones(n))
    with pytest.warns(lw.RecompilationWarning):
        g = lw.compile(_double, dynamic=False)
        for n in range(1, 20):
            g(np.ones(n))

"""Sizes inside of traced functions: integers without a value, and guards."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.graph.evaluate import evaluate

TABLE = np.arange(300.0).reshape(100, 3)


def traced(f: Callable[..., Any], size: int, **limits: int) -> Any:
    """Returns the trace of ``f`` for one array whose first axis is symbolic."""
    n = lw.Dim("n", **limits)
    return lw.compile(f, dynamic={"x": {0: n}}).trace(np.ones((size, 4), np.float32))


def check(f: Callable[..., Any], traced_at: int = 6, sizes: tuple[int, ...] = (2, 3, 7)) -> None:
    """Holds a function's graph, traced for one size, against NumPy at others."""
    made = traced(f, traced_at)
    assert not made.module.main.requirements
    for size in sizes:
        x = np.arange(size * 4, dtype=np.float32).reshape(size, 4)
        results = evaluate(made.module, x)
        leaves = made.result(list(results) if isinstance(results, tuple) else [results], [x])
        want = f(x)
        assert isinstance(leaves, int) == isinstance(want, int)
        np.testing.assert_allclose(leaves, want, rtol=1e-6)
        assert np.asarray(leaves).dtype == np.asarray(want).dtype


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum() / x.shape[0],
        lambda x: x * x.shape[0],
        lambda x: x.shape[0] * x,
        lambda x: np.float64(2) * x.shape[0],
        lambda x: x / np.sqrt(x.shape[0]),
        lambda x: x * (1 / x.shape[0]),
        lambda x: x * x.shape[0] ** -0.5,
        lambda x: x + x.shape[0] ** 2,
        lambda x: x.reshape(x.shape[0] * 2, -1),
        lambda x: x.reshape(x.size),
        lambda x: np.zeros((x.shape[0], 2)),
        lambda x: np.zeros(x.shape, np.float32) + x,
        lambda x: np.full((2, x.shape[0] + 1), 3),
        lambda x: np.arange(x.shape[0]) * 2,
        lambda x: np.ones((x.shape[0] * 2 + 1) // 2),
        lambda x: TABLE[: x.shape[0]] + 1,
        lambda x: np.broadcast_to(TABLE[0], (x.shape[0], 3)),
        lambda x: x.shape[0],
        lambda x: x.shape,
        lambda x: (x.shape[0] << 1, x.shape[0] >> 1, x.shape[0] % 4, -x.shape[0]),
        lambda x: divmod(x.shape[0], 3),
        lambda x: np.minimum(x.shape[0], 5),
        lambda x: np.prod(x.shape),
        lambda x: x * np.prod(x.shape),
        lambda x: x * (np.int64(3) + x.shape[0]),
        lambda x: np.zeros(np.minimum(x.shape[0], 5) - 1),
        lambda x: x.nbytes,
        lambda x: np.array([x.shape[0], 3]),
        lambda x: copy.deepcopy(x.shape[0]) + True,
        lambda x: lw.fori_loop(0, x.shape[0], lambda i, total: total + i, np.float32(0)),
    ],
)
def test_sizes_are_integers(f: Callable[..., Any]) -> None:
    check(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.max(x, axis=0, initial=2.0),
        lambda x: x.T.min(axis=-1, initial=3, keepdims=True),
        lambda x: np.max(x, initial=-1.0),
    ],
)
def test_extremes_with_an_initial_value_need_no_element(f: Callable[..., Any]) -> None:
    check(f, sizes=(0, 1, 7))


def test_sizes_have_the_class_of_ints() -> None:
    seen: list[Any] = []
    traced(lambda x: seen.append(isinstance(x.shape[0], int)), 3)
    assert seen == [True]
    for text in (lambda x: f"{x.shape[0]}", lambda x: str(x.size)):
        with pytest.raises(lw.LoopwrightTypeError, match="Python needs an int here"):
            traced(lambda x, text=text: seen.append(text(x)), 3)


@pytest.mark.parametrize(
    ("f", "answer"),
    [
        (lambda n: n >= 2, True),
        (lambda n: n + 1 > n, True),
        (lambda n: n < 2, False),
        (lambda n: n == 300, False),
        (lambda n: n != -1, True),
        (lambda n: n == n, True),
        (lambda n: bool(n), True),
        (lambda n: n < 1.5, False),
        (lambda n: n <= float("inf"), True),
        (lambda n: n == 2.5, False),
        (lambda n: n * 2 < 600, True),
        (lambda n: n == "n", False),
    ],
)
def test_ranges_decide_comparisons(f: Callable[[Any], Any], answer: bool) -> None:
    seen: list[Any] = []
    made = traced(lambda x: seen.append(f(x.shape[0])), 5, min=2, max=256)
    assert seen == [answer] and not made.module.main.requirements


@pytest.mark.parametrize(
    ("f", "small", "large"),
    [
        (lambda n: n > 8, "n <= 8", "8 < n"),
        (lambda n: n >= 8, "n < 8", "8 <= n"),
        (lambda n: n < 7.5, "n < 8", "8 <= n"),
        (lambda n: n <= 8, "n <= 8", "8 < n"),
        (lambda n: n % 2 == 0, "(n % 2) != 0", "(n % 2) == 0"),
        (lambda n: n == 3, "n == 3", "n != 3"),
        (lambda n: n != 3, "n == 3", "n != 3"),
        (lambda n: min(n, 8), "n <= 8", "8 < n"),
        (lambda n: abs(n - 8), "n - 8 < 0", "0 <= n - 8"),
    ],
)
def test_open_comparisons_become_guards(f: Callable[[Any], Any], small: str, large: str) -> None:
    for size, text in ((3, small), (10, large)):
        made = traced(lambda x: (f(x.shape[0]), None)[1], size)
        assert [str(r) for r in made.module.main.requirements] == [text]


def test_a_guard_knows_its_line() -> None:
    def f(x: Any) -> Any:
        return x + 1 if x.shape[0] > 8 else x

    (guard,) = traced(f, 3).module.main.requirements
    assert guard.message == "a comparison of sizes in the function"
    assert guard.span is not None and __file__.endswith(guard.span.file)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: [x[i] for i in range(x.shape[0])],
        lambda x: x * float(x.shape[0]),
        lambda x: x * {3: 1.0}[x.shape[0]],
        lambda x: x * x.shape[0].bit_length(),
    ],
)
def test_python_needs_an_int(f: Callable[..., Any]) -> None:
    with pytest.raises(lw.LoopwrightTypeError) as error:
        traced(f, 3)
    lines = str(error.value).splitlines()
    assert lines[0] == "Python needs an int here, and the size n is symbolic"
    assert lines[1].startswith("  test_symbolic_sizes.py:") or "test_symbolic_sizes.py:" in lines[1]
    assert lines[-1] == (
        "  try: a number for this axis (leave it out of dynamic=), or lw.fori_loop for a loop"
    )


def test_a_size_is_not_zero_where_it_divides() -> None:
    made = traced(lambda x: 12 // x.shape[0], 3)
    assert [str(r) for r in made.module.main.requirements] == ["n != 0"]
    with pytest.raises(ZeroDivisionError):
        traced(lambda x: 12 // x.shape[0], 0)

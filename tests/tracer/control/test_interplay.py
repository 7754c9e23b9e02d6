"""Control flow beside the rest of the language, compiled: equal to Python's result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.core.pytree import flatten

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((10, 4)).astype(np.float32)
W, U = RNG.standard_normal((2, 4, 16)).astype(np.float32)
ROWS = RNG.standard_normal((6, 4)).astype(np.float32)


@dataclass
class State:
    """Of an LSTM."""

    h: Any
    c: Any
    name: str = "lstm"


def lstm(xs: Any) -> Any:
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def step(state: State, x: Any) -> tuple[State, Any]:
        i, f, o, u = np.split(x @ W + state.h @ U, 4, axis=-1)
        c = sigmoid(f) * state.c + sigmoid(i) * np.tanh(u)
        h = sigmoid(o) * np.tanh(c)
        return State(h, c, state.name), h

    zero = np.zeros(4, np.float32)
    last, outputs = lw.scan(step, State(zero, zero), xs)
    return last.h, last.c, outputs


def rows_of_a_table(ids: Any) -> Any:
    zero = np.zeros(4, np.float32)
    return lw.fori_loop(0, ids.shape[0], lambda i, total: total + TABLE[ids[i]], zero)


def functions_of_nn(xs: Any) -> Any:
    return lw.scan(lambda h, x: (lw.nn.softmax(h + x), lw.xp.sum(h)), xs[0], xs)


def a_method(x: Any) -> Any:
    class Model:
        def __init__(self) -> None:
            self.w = x * 2

        @lw.function
        def run(self, n: Any) -> Any:
            return lw.cond(n == 0, lambda: self.w.sum(), lambda: self.run(n - 1) * 1.5)

    return Model().run(3)


def a_tree(left: Any, right: Any, value: Any) -> Any:
    @lw.function
    def total(node: Any) -> Any:
        def inside() -> Any:
            return value[node] + total(left[node]) + total(right[node])

        return lw.cond(node < 0, lambda: 0.0, inside)

    return total(0)


def functions_of_functions(x: Any) -> Any:
    square = lw.compile(lambda v: v * v)
    return lw.while_loop(lambda v: v < 100, lambda v: square(v) + 1, x), lw.map(square, ROWS)


def quicksort(x: Any) -> Any:
    y = x.copy()

    def swap(i: Any, j: Any) -> None:
        y[i], y[j] = y[j] + 0, y[i] + 0

    @lw.function
    def sort(low: Any, high: Any) -> None:
        def below(j: Any, i: Any) -> Any:
            def moved() -> Any:
                swap(i, j)
                return i + 1

            return lw.cond(y[j] < y[high], moved, lambda: i)

        def parts() -> None:
            middle = lw.fori_loop(low, high, below, low)
            swap(middle, high)
            sort(low, middle - 1)
            sort(middle + 1, high)

        lw.cond(low < high, parts, lambda: None)

    sort(0, y.shape[0] - 1)
    return y


def sieve(n: Any) -> Any:
    prime = np.ones(100, bool)
    prime[:2] = False

    def cross_out(i: Any, _: Any) -> None:
        def multiples() -> None:
            def cross(k: Any) -> Any:
                prime[k] = False
                return k + i

            lw.while_loop(lambda k: k < n, cross, i * i)

        lw.cond(prime[i], multiples, lambda: None)

    lw.fori_loop(2, 10, cross_out, None)
    return prime, prime.sum()


def a_branch_that_python_chooses(x: Any) -> Any:
    """Gives an array that is no view of ``x``, as a branch that data chooses does."""
    y = lw.cond(True, lambda: x[::-1], lambda: x)
    y[:2] = 7
    z = lw.switch(1, [lambda: x * 2, lambda: x])
    z += 1
    return x, y, z


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lstm, (ROWS,)),
    (rows_of_a_table, (np.array([1, 5, 9]),)),
    (functions_of_nn, (ROWS,)),
    (a_method, (np.ones(3),)),
    (a_tree, (np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([1.0, 2.0, 3.0]))),
    (functions_of_functions, (1.5,)),
    (quicksort, (RNG.standard_normal(50),)),
    (sieve, (100,)),
    (a_branch_that_python_chooses, (np.arange(4.0),)),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_programs(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    given, wanted = flatten(lw.compile(function)(*args))[0], flatten(function(*args))[0]
    for one, other in zip(given, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_text_names_the_lines_of_loops() -> None:
    text = lw.compile(lstm).trace(ROWS).as_text()
    assert "for (%i < 6i64; " in text
    assert "lw.scan(step, State(zero, zero), xs)" in text

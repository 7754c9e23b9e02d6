"""``lw.ref``: variables that branches, loops and functions of the graph assign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.core.pytree import flatten

X = np.array([1.0, 5.0, 3.0, 7.0, 2.0])


def collatz(n: Any) -> Any:
    steps = lw.ref(0)

    def go(n: Any) -> Any:
        steps.value += 1
        return steps.value if n == 1 else go(n // 2 if n % 2 == 0 else 3 * n + 1)

    return go(n)


def greatest(x: Any) -> Any:
    best = lw.ref((x[0], 0))
    for i in range(5):
        if x[i] > best.value[0]:
            best.value = x[i], i
    return best.value


def swapped(x: Any) -> Any:
    pair = lw.ref({"a": x, "b": 2 * x})
    if x.sum() > 3:
        pair.value = {"a": pair.value["b"], "b": pair.value["a"]}
    return pair.value


@pytest.mark.parametrize(("function", "arg"), [(collatz, 27), (greatest, X), (swapped, X)])
def test_as_python_has_it(function: Callable[..., Any], arg: Any) -> None:
    got, wanted = lw.compile(function)(arg), function(arg)
    for one, other in zip(*(flatten(v)[0] for v in (got, wanted))):
        assert np.array_equal(one, other)


def test_a_gradient_goes_through_it() -> None:
    def loss(w: Any, x: Any) -> Any:
        total = lw.ref(np.float64(0))
        for i in range(5):
            if x[i] > 2:
                total.value = total.value + np.tanh(w * x[i])
        return total.value

    wanted = sum(v / np.cosh(0.3 * v) ** 2 for v in X if v > 2)
    assert lw.compile(lw.grad(loss))(0.3, X) == pytest.approx(wanted)


def changed(n: Any) -> Any:
    value = lw.ref(0)
    if n > 3:
        value.value = 2.5
    return value.value


WRONG = [
    (changed, (4,), "the value is int at first, and then float"),
    (lambda r: r.value, (lw.ref(1),), "a reference from outside"),
    (lw.ref, (1,), "a reference is a result"),
]


@pytest.mark.parametrize(("function", "args", "message"), WRONG)
def test_errors(function: Callable[..., Any], args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(lw.LoopwrightTypeError, match=message):
        lw.compile(function)(*args)

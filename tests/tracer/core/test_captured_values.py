"""What a trace freezes is said: random numbers at once, variables from outside when they change."""

from __future__ import annotations

import random
import types
import warnings
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.core import captured_values

X = np.ones(3, np.float32)
RNG = np.random.default_rng(0)
SCALE, WEIGHTS = 2.0, np.ones(3, np.float32)
SETTINGS = types.SimpleNamespace(gain=1.5)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_values, "_told", set())


def helper(x: Any) -> Any:
    return x + RNG.uniform(size=3)


class Layer:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def __call__(self, x: Any) -> Any:
        noise = self.rng.normal(size=3)
        return x + noise

    __hash__ = object.__hash__


def closed_over(rng: Any) -> Callable[[Any], Any]:
    return lambda x: x * rng.integers(2, 9)


def of_numpy(x: Any) -> Any:
    y = x * 2
    noise = np.random.normal(size=3)
    return y + noise


DRAWING: dict[str, tuple[Callable[[Any], Any], str]] = {
    "np.random": (of_numpy, "noise = np.random.normal(size=3)"),
    "random": (lambda x: x * random.random(), "x * random.random()"),
    "a global generator": (lambda x: x + RNG.normal(size=3), "x + RNG.normal"),
    "a helper's": (lambda x: helper(x) * 2, "x + RNG.uniform(size=3)"),
    "a closure's": (closed_over(np.random.default_rng(3)), "rng.integers(2, 9)"),
    "an attribute": (Layer(), "self.rng.normal(size=3)"),
    "a method's": (Layer().__call__, "self.rng.normal(size=3)"),
    "a shuffle": (lambda x: x[np.random.permutation(3)], "np.random.permutation(3)"),
}


@pytest.mark.parametrize("kind", DRAWING)
def test_random_numbers_drawn_while_tracing_are_said_once(kind: str) -> None:
    function, text = DRAWING[kind]
    f = lw.compile(function)
    with pytest.warns(lw.FrozenWarning, match="draws random numbers while it is traced") as told:
        f(X)
    assert len(told) == 1
    with open(told[0].filename) as source:
        assert text in source.read().splitlines()[told[0].lineno - 1]
    f(np.ones(3, np.float64))  # once for each line, not for each trace
    f(X)


def test_random_numbers_of_each_call_are_drawn_in_it() -> None:
    numbers, others = np.random.default_rng(5), np.random.default_rng(5)
    f = lw.compile(lambda x: x + numbers.random())
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lw.FrozenWarning)
            np.testing.assert_allclose(f(X), X + others.random(), rtol=1e-6)


def test_a_generator_that_is_not_used_is_not_told_of() -> None:
    seeded = np.random.default_rng(0).normal(size=3)
    f = lw.compile(lambda x: x + seeded if RNG is not None else x)
    for _ in range(3):
        f(X)

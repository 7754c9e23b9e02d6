"""What a trace freezes is said: random numbers at once, variables from outside when they change."""

from __future__ import annotations

import random
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer import frozen

X = np.ones(3, np.float32)
RNG = np.random.default_rng(0)
SCALE, WEIGHTS = 2.0, np.ones(3, np.float32)
SETTINGS = types.SimpleNamespace(gain=1.5)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "_told", set())


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


def test_a_generator_that_is_not_used_is_not_told_of() -> None:
    seeded = np.random.default_rng(0).normal(size=3)
    f = lw.compile(lambda x: x + seeded if RNG is not None else x)
    for _ in range(3):
        f(X)


def changed_array() -> None:
    WEIGHTS[:] += 1


def rebound_number() -> None:
    global SCALE
    SCALE += 1


def rebound_array() -> None:
    global WEIGHTS
    WEIGHTS = WEIGHTS + 1


def changed_attribute() -> None:
    SETTINGS.gain += 1


def reading(x: Any) -> Any:
    return x * SCALE + WEIGHTS * SETTINGS.gain


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (changed_array, "WEIGHTS"),
        (rebound_number, "SCALE"),
        (rebound_array, "WEIGHTS"),
        (changed_attribute, "SETTINGS.gain"),
    ],
)
def test_a_variable_that_changes_is_told_of(change: Callable[[], None], path: str) -> None:
    f = lw.compile(reading)
    before = f(X)
    change()
    with pytest.warns(lw.FrozenWarning) as told:
        np.testing.assert_array_equal(f(X), before)
    assert len(told) == 1
    assert str(told[0].message) == (
        f"{path} has changed since reading was traced, and its code has the old value: pass it as "
        "an argument, or call reading.cache_clear()"
    )
    f.cache_clear()
    np.testing.assert_allclose(f(X), reading(X), rtol=1e-6)
    f(X)


def test_it_is_told_of_when_another_kind_of_argument_comes() -> None:
    weights, scale = np.ones(3), 2.0

    def near(x: Any) -> Any:
        return x * scale + weights

    f = lw.compile(near)
    for _ in range(3):
        f(X)
    weights += 1
    with pytest.warns(lw.FrozenWarning, match="weights has changed since near was traced"):
        f(X.astype(np.float64))


def test_what_stays_as_it_is_costs_no_word() -> None:
    held = {"w": np.ones(3), "layers": [np.ones(3), np.ones(3)]}
    count = [0]

    def quiet(x: Any) -> Any:
        count[0] += 1
        return sum((x * w for w in held["layers"]), held["w"] * SCALE)

    f = lw.compile(quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in (np.float32, np.float64, np.int32):
            for _ in range(5):
                f(np.ones(3, dtype))
    assert count == [3]


def test_nan_is_what_it_was() -> None:
    holes = np.array([np.nan, 1.0, np.inf])
    f = lw.compile(lambda x: x + holes)
    for _ in range(3):
        f(X)


def test_captured_weights_are_not_kept_alive() -> None:
    weights = np.ones((64, 64), np.float32)
    kept = weakref.ref(weights)
    holder = [weights]
    f = lw.compile(lambda x: x @ holder[0])
    f(np.ones((4, 64), np.float32))
    holder.clear()
    del weights
    assert kept() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            f(np.ones((4, 64), np.float32))


def test_a_captured_name_that_is_bound_anew_is_told_though_its_array_is_gone() -> None:
    def enclosing() -> Any:
        weights = np.ones((8, 8), np.float32)
        f = lw.compile(lambda x: x @ weights)

        def rebind() -> None:
            nonlocal weights
            weights = np.zeros((8, 8), np.float32)

        return f, rebind

    f, rebind = enclosing()
    x = np.ones((4, 8), np.float32)
    f(x)
    rebind()
    with pytest.warns(lw.FrozenWarning, match="weights has changed"):
        for _ in range(4):
            f(x)

"""What bodies do to Python's own objects: it is a traced effect, or refused at its line."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError, UnsupportedError

Effect = Callable[[], object]
X = np.arange(3.0)


def _cond(x: Any, effect: Effect) -> Any:
    def then() -> Any:
        effect()
        return x + 1

    return lw.cond(x.sum() > 0, then, lambda: x)


def _both(x: Any, effect: Effect) -> Any:
    def branch() -> Any:
        effect()
        return x + 1

    return lw.cond(x.sum() > 0, branch, branch)


def _switch(x: Any, effect: Effect) -> Any:
    def branch() -> Any:
        effect()
        return x + 1

    return lw.switch(x.sum().astype(np.int64) - 2, [lambda: x, branch, lambda: x])


def _fori(x: Any, effect: Effect) -> Any:
    def body(i: Any, c: Any) -> Any:
        effect()
        return c + i

    return lw.fori_loop(0, 4, body, x)


def _while(x: Any, effect: Effect) -> Any:
    def body(c: Any) -> Any:
        effect()
        return c + 1

    return lw.while_loop(lambda c: c.sum() < 30, body, x)


def _scan(x: Any, effect: Effect) -> Any:
    def body(c: Any, row: Any) -> Any:
        effect()
        return c + row, c

    return lw.scan(body, x.sum(), x)


def _map(x: Any, effect: Effect) -> Any:
    def body(row: Any) -> Any:
        effect()
        return row * 2

    return lw.map(body, x)


def _function(x: Any, effect: Effect) -> Any:
    @lw.function
    def step(y: Any) -> Any:
        effect()
        return y * 2

    return step(x) + step(x)


WAYS = (_cond, _both, _switch, _fori, _while, _scan, _map, _function)


def _same(one: Any, other: Any) -> None:
    for a, b in zip(_leaves(one), _leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]


MAKERS: tuple[Callable[[], Any], ...] = (
    lambda: np.zeros(2),
    lambda: np.ones((2, 2)),
    lambda: np.arange(4),
    lambda: np.array([1.0, 2.0]),
    lambda: np.full(3, 7.0),
)


@pytest.mark.parametrize("make", MAKERS, ids=["zeros", "ones", "arange", "array", "full"])
@pytest.mark.parametrize("way", WAYS)
def test_constants_written_into_arrays_of_numpys(way: Any, make: Callable[[], Any]) -> None:
    def program(x: Any) -> Any:
        held = make()

        def effect() -> None:
            held[0] += 1

        return way(x, effect), held * 1

    _same(lw.compile(program)(X), program(X))


def _list(x: Any, way: Any) -> Any:
    held = [0]

    def effect() -> None:
        held[0] += 1

    return way(x, effect), held[0]


def _append(x: Any, way: Any) -> Any:
    held: list[int] = []
    return way(x, lambda: held.append(1)), len(held)


def _pop(x: Any, way: Any) -> Any:
    held = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
    return way(x, lambda: held.pop(0)), held[0]


def _dict(x: Any, way: Any) -> Any:
    held = {"n": 0}
    return way(x, lambda: held.update(n=held["n"] + 1)), held["n"]


def _set(x: Any, way: Any) -> Any:
    held: set[int] = set()
    return way(x, lambda: held.add(len(held))), len(held)


def _attribute(x: Any, way: Any) -> Any:
    held = SimpleNamespace(n=0)

    def effect() -> None:
        held.n += 1

    return way(x, effect), held.n


def _nonlocal(x: Any, way: Any) -> Any:
    n = 0

    def effect() -> None:
        nonlocal n
        n += 1

    return way(x, effect), n


def _next(x: Any, way: Any) -> Any:
    held = itertools.count()
    return way(x, lambda: next(held)), next(held)


def _draw(x: Any, way: Any) -> Any:
    held = np.random.default_rng(3)
    return way(x, held.random), held.random()


def _python_draw(x: Any, way: Any) -> Any:
    held = random.Random(3)
    return way(x, held.random), held.random()


def _view(x: Any, way: Any) -> Any:
    held = np.frombuffer(bytearray(16), np.float64)  # nothing that traced functions make

    def effect() -> None:
        held[:1] += 1

    return way(x, effect), held * 1


EFFECTS = (
    *(_list, _append, _pop, _dict, _set, _attribute, _nonlocal, _next, _draw, _python_draw),
    _view,
)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("way", WAYS)
def test_effects_on_objects_of_pythons_are_refused(way: Any, effect: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"a body (changes|writes to|draws)") as caught:
        lw.compile(lambda x: effect(x, way))(X)
    assert caught.value.span is not None
    assert caught.value.span.file.endswith("test_effects.py")


def test_the_line_is_that_of_the_change() -> None:
    held = [0]

    def body(i: Any, c: Any) -> Any:
        c = c + i
        held.append(1)
        return c * 2

    with pytest.raises(UnsupportedError) as caught:
        lw.compile(lambda x: lw.fori_loop(0, 3, body, x))(X)
    assert "held.append(1)" in str(caught.value)
    assert held == [0]  # as it was


TABLE = np.zeros(3)


def _count(x: Any) -> Any:
    TABLE[0] += 1
    return x + TABLE[0]


def test_an_array_from_outside_is_not_written_once_and_never_again() -> None:
    before = TABLE.copy()
    with pytest.raises(UnsupportedError, match="TABLE") as caught:
        lw.compile(_count)(X)
    assert "TABLE[0] += 1" in str(caught.value)
    np.testing.assert_array_equal(TABLE, before)


@pytest.mark.parametrize("nested", [False, True])
def test_a_traced_value_does_not_stay_outside(nested: bool) -> None:
    class Layer:
        last: Any = None

        def __call__(self, x: Any) -> Any:
            self.last = [x * 2] if nested else x * 2
            return x

    layer = Layer()
    with pytest.raises(UnsupportedError, match=r"leaves a traced value in .*last") as caught:
        lw.compile(layer)(X)
    assert "self.last = [x * 2] if nested" in str(caught.value)
    assert layer.last is None


def test_a_function_that_is_traced_again_changes_things_once() -> None:
    queue, numbers = [1.0, 2.0, 3.0], np.random.default_rng(4)
    right = np.random.default_rng(4).random()

    def program(x: Any) -> Any:
        first, drawn = queue.pop(0), numbers.random()
        held = np.zeros(3)
        held[:] = x  # such an array is a traced one, which needs a second run
        return held * first + drawn

    with pytest.warns(lw.FrozenWarning, match="draws random numbers"):
        result = lw.compile(program)(X)
    np.testing.assert_allclose(result, X + right)
    assert queue == [2.0, 3.0]


def test_a_function_that_is_traced_for_a_value_changes_things_once() -> None:
    counts = [0]

    def program(x: Any, n: Any) -> Any:
        counts[0] += 1
        return x[: range(n)[-1]] * counts[0]

    _same(lw.compile(program)(X, 2), X[:1])
    assert counts == [1]


def test_an_iterator_beside_a_number_that_is_known() -> None:
    numbers = iter([3.0, 1.0, 4.0])

    def program(x: Any, n: Any) -> Any:
        return lw.fori_loop(0, 3, lambda i, c: c + x[n] * next(numbers), 0.0)

    with pytest.raises(UnsupportedError, match="changes numbers"):
        lw.compile(program, static_argnames=("n",))(X, 1)


def test_what_cannot_be_taken_back_is_refused() -> None:
    numbers = iter([1.0, 2.0])

    def program(x: Any) -> Any:
        first = next(numbers)
        held = np.zeros(3)
        held[:] = x
        return held * first

    with pytest.raises(LoopwrightError, match="traced again"):
        lw.compile(program)(X)


def test_bodies_may_use_objects_of_their_own() -> None:
    def body(i: Any, c: Any) -> Any:
        parts = [c, c * 2]
        parts.append(parts[0] + i)
        table = np.zeros(3)
        table[1] = 4
        return sum(parts) * 0.125 + table

    def program(x: Any) -> Any:
        return lw.fori_loop(0, 4, body, x)

    _same(lw.compile(program)(X), program(X))


def test_an_error_leaves_no_traced_value_outside() -> None:
    log, held = [1.0], {"calls": 0}

    def f(x):
        held["calls"] += 1
        log.append(x * 2)
        raise KeyError("no")

    with pytest.raises(KeyError):
        lw.compile(f)(np.ones(3))
    assert log == [1.0] and held == {"calls": 0}

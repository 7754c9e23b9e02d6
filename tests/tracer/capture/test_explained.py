"""What is said of the user's loops: which are native, and why a long one was unrolled."""

# pyright: basic
from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest

WEIGHTS = [1.0, 2.5] * 20
LAYERS = [{"name": f"layer {n}", "scale": 0.5 + n} for n in range(20)]


def loops(x, n):
    s = 0.0
    for i in range(40):
        s += x[i % 5] * LAYERS[i % 20]["scale"]
    for i in range(40):
        s += x[i % 5] * i
    for layer in LAYERS:
        s = s * layer["scale"] if s > 3 else s
    for _ in range(n):
        s = s * 2
    while s > 1:
        s = s / 2
    return s


def chain(x):
    for i in range(300):
        x = x * 0.5 + i
    return x


def _said(function, *args):
    first = function.__code__.co_firstlineno
    said = {}
    for text in lw.compile(function).trace(*args).loops:
        place, _, rest = text.partition(" ")
        said[int(place.rpartition(":")[2]) - first] = rest
    return said


def test_each_loop_says_what_became_of_it() -> None:
    said = _said(loops, np.ones(5), 3)
    assert said.pop(2).startswith("unrolled, 40 iterations: line ")
    assert said == {
        4: "native, 40 iterations",
        6: "unrolled, 20 iterations: Python has its items, of a list",
        8: "native, a traced number of iterations",
        10: "native",
    }


def test_a_loop_that_is_not_captured_says_so() -> None:
    assert _said(chain, np.ones(5)) == {
        2: "is in an unrolled loop, whose operators become few kernels"
    }


def test_the_setting_prints_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lw.compile(loops)(np.ones(5), 3)
    assert "native" not in capsys.readouterr().err
    monkeypatch.setenv("LOOPWRIGHT_EXPLAIN", "1")
    lw.compile(loops)(np.ones(5), 3)
    assert "loopwright: loops: " in (said := capsys.readouterr().err)
    assert said.count("native, 40 iterations") == 1 and said.count("of a list") == 1


def test_explanations_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwright.codegen.machine import estimated_machine

    monkeypatch.setattr("loopwright.codegen.machine.measured_machine", estimated_machine)
    explained = lw.compile(loops).explain(np.ones(5), 3, seconds=0.01)
    assert any("native, 40 iterations" in line for line in explained.captured)
    assert "native, 40 iterations" in str(explained)


def test_a_long_while_on_what_python_knows_is_native() -> None:
    def sieve(flags):
        p = 2
        while p * p < len(flags):
            if flags[p]:
                for multiple in range(p * p, len(flags), p):
                    flags[multiple] = False
            p += 1
        last = p
        return np.sum(flags[2:]), last

    for size in (0, 3, 60, 1000, 20_000):
        flags = np.ones(size, bool)
        compiled = lw.compile(sieve)
        assert compiled(flags.copy()) == sieve(flags.copy())
        native = any("native" in text for text in compiled.trace(flags).loops)
        assert native or size <= 60


def test_a_while_that_needs_its_numbers_is_unrolled() -> None:
    weights = [np.full((3, 3), 1 / (k + 3)) for k in range(20)]

    def network(x):
        layer = 0
        if x.sum() > 0:
            x = -x
        while layer < len(weights):
            y = np.tanh(x @ weights[layer])
            x = x + y
            layer += 1
        return x, y, layer

    x = np.linspace(-1, 2, 3)
    compiled = lw.compile(network)
    for one, other in zip(compiled(x), network(x)):
        np.testing.assert_allclose(one, other)
    assert any("unrolled, 20 iterations" in text for text in compiled.trace(x).loops)


def test_what_and_says_of_an_index_is_known_behind_it() -> None:
    def place(values, v):
        j = len(values)
        while j > 0 and values[j - 1] > v:
            j -= 1
        for k in range(j):
            if not (k < 1 or values[k - 1] <= values[k]):
                return -1
        return j

    values = np.array([1.0, 2.0, 2.5, 4.0])
    compiled = lw.compile(place)
    for v in (0.0, 1.0, 2.2, 3.0, 9.0):
        assert compiled(values, v) == place(values, v)
    shuffled = values[[1, 0, 3, 2]]
    assert compiled(shuffled, 9.0) == place(shuffled, 9.0) == -1


def test_an_index_that_and_limits_is_not_checked_again() -> None:
    def first(values, v):
        k = 0
        while k < len(values) and values[k] < v:
            k += 1
        return k

    values = np.array([1.0, 2.0, 2.5, 4.0])
    assert [lw.compile(first)(values, v) for v in (0.0, 2.2, 9.0)] == [0, 2, 4]
    assert "greater_equal" not in str(lw.compile(first).trace(values, 1.0).module)


def test_the_middle_of_an_interval_is_not_checked() -> None:
    def place(values, key):
        low, high = 0, len(values)
        while low < high:
            middle = (low + high) // 2
            if values[middle] < key:
                low = middle + 1
            else:
                high = middle
        return low

    values = np.arange(100) * 3
    compiled = lw.compile(place)
    for key in (-1, 0, 1, 100, 297, 298):
        assert compiled(values, key) == np.searchsorted(values, key)
    assert "greater_equal" not in str(compiled.trace(values, 1).module)


def test_an_index_of_which_branches_tell_too_little_is_checked() -> None:
    def last(values, key):
        low = 0
        while values[low] < key:
            low = low + 1 if values[low] < 50 else low + 2
        return low

    values = np.arange(100)
    compiled = lw.compile(last)
    for key in (0, 7, 80):
        assert compiled(values, key) == last(values, key)
    with pytest.raises(IndexError, match="index 100 is out of bounds"):
        compiled(values, 1000)

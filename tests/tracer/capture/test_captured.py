"""Plain Python with branches and loops on traced values gives what Python gives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

F64 = np.float64


def sign(x):
    if x.sum() > 0:
        return x * 2
    return -x


def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def first_above(x):
    found = -1
    for i in range(x.shape[0]):
        if x[i] > 0.9:
            found = i
            break
    else:
        found = -2
    return found


def without_negative(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] < 0:
            continue
        total = total + x[i] * i
    return total


def bubble(a):
    n = len(a)
    for _ in range(n):
        for j in range(n - 1):
            if a[j] > a[j + 1]:
                t = a[j]
                a[j] = a[j + 1]
                a[j + 1] = t
    return a


def clamped(x):
    return [max(v, 0.0) for v in x]


def choices(x):
    m = x.max()
    y = x / m if m > 1 else x * m
    return y if (m > 0 and x.min() < 0) or m > 5 else -y


def between(x):
    n = 0
    for v in x:
        if 0 < v < 0.5:
            n += 1
    return n


def early(x):
    if x[0] > 10:
        return x
    if x[1] > 0:
        y = x + 1
        if x[2] > 0:
            return y * 2
    else:
        y = x - 1
    return y


def many_terms(n):
    s = 0.0
    for i in range(1, n):
        s += np.sin(i / n)
    return s / n


def appended(x):
    out = []
    for i in range(40):
        out.append(x[i] * i)
    return np.stack(out)


def solved(A, b):
    n = A.shape[0]
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[p, k]):
                p = i
        if p != k:
            for j in range(n):
                t = A[k, j]
                A[k, j] = A[p, j]
                A[p, j] = t
            t = b[k]
            b[k] = b[p]
            b[p] = t
        for i in range(k + 1, n):
            m = A[i, k] / A[k, k]
            for j in range(k, n):
                A[i, j] -= m * A[k, j]
            b[i] -= m * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        s = b[i]
        for j in range(i + 1, n):
            s -= A[i, j] * x[j]
        x[i] = s / A[i, i]
    return x


def magnitude(v):
    if v < 0:
        return -v
    return v


def with_calls(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += magnitude(x[i])
    return s


def distance(a, b):
    m, n = len(a), len(b)
    d = np.zeros((m + 1, n + 1), dtype=np.int64)
    for i in range(m + 1):
        d[i, 0] = i
    for j in range(n + 1):
        d[0, j] = j
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[m, n]


def bisected(x, v):
    low, high = 0, x.shape[0]
    while low < high:
        middle = (low + high) // 2
        if x[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


def stepped(u, n):
    for _ in range(n):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def every(a, b, c):
    out = 0
    for i in range(a, b, c):
        out = out * 3 + i
    return out


def sieved(flags):
    count = 0
    for i in range(2, len(flags)):
        if flags[i]:
            count += 1
            for j in range(i * i, len(flags), i):
                flags[j] = False
    return count


def nested(x, n):
    k = 0
    while k < n:
        j = 0
        while True:
            j += 1
            if j > k:
                break
            if x[j] < 0:
                continue
            x[j] += 1
        k += 1
    return x


def swapped_often(a, b):
    for _ in range(40):
        a, b = b, a
    a[0] = 3
    return a + 2 * b


def written_first(a):
    for _ in range(30):
        a[0] = 1.0
        a = a * 1.5
    return a


def two_names(a):
    b = a
    for _ in range(30):
        c = a * 2
        a = c
        b = c
    a[0] = 1
    return b


def last_of_a_loop(x):
    for i in range(30):
        y = x[i] * 2
    return y + i


def tried(x):
    try:
        if x[0] > 0:
            y = 1
        else:
            y = 2
    finally:
        pass
    return y


class Holder:
    __scale = 2.0

    def scaled(self, x):
        if x.sum() > 0:
            x = x * self.__scale
        return x


RANDOM = np.random.default_rng(3)
LONG = RANDOM.normal(size=60)
PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (sign, (LONG,)),
    (sign, (-abs(LONG),)),
    (gcd, (np.int64(48), np.int64(36))),
    (collatz, (np.int64(27),)),
    (first_above, (LONG,)),
    (first_above, (LONG * 0,)),
    (without_negative, (LONG,)),
    (bubble, (LONG[:30],)),
    (clamped, (LONG[:4],)),
    (choices, (LONG[:4],)),
    (between, (LONG[:12],)),
    (early, (np.array([11.0, 0, 0]),)),
    (early, (np.array([1.0, 2, 3]),)),
    (early, (np.array([1.0, 2, -3]),)),
    (early, (np.array([1.0, -2, 3]),)),
    (many_terms, (np.int64(1000),)),
    (appended, (LONG,)),
    (solved, (RANDOM.normal(size=(20, 20)), RANDOM.normal(size=20))),
    (with_calls, (LONG,)),
    (distance, (RANDOM.integers(0, 4, 30), RANDOM.integers(0, 4, 25))),
    (bisected, (np.arange(100.0), F64(37.5))),
    (stepped, (LONG, np.int64(100))),
    (nested, (LONG, np.int64(20))),
    (swapped_often, (np.ones(2), np.zeros(2))),
    (written_first, (np.ones(3),)),
    (two_names, (np.ones(3),)),
    (last_of_a_loop, (LONG,)),
    (tried, (LONG,)),
    (Holder().scaled, (LONG,)),
    (lambda x: x if x.sum() > 1e9 else -x, (LONG,)),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_programs(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
    expected = function(*theirs)
    result = lw.compile(function)(*ours)
    np.testing.assert_allclose(np.asarray(result), np.asarray(expected), rtol=1e-6)
    for one, other in zip(ours, theirs, strict=True):  # what it has written
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_step_of_a_range_may_be_traced() -> None:
    steps = lw.compile(every)
    for a, b, c in [(0, 50, 3), (50, 0, -3), (0, 50, -3), (50, 0, 3), (5, 6, 100), (40, 3, -1)]:
        assert steps(*map(np.int64, (a, b, c))) == np.int64(every(a, b, c))
    with pytest.raises(ValueError, match="must not be zero"):
        steps(*map(np.int64, (0, 5, 0)))
    assert steps.cache_info().currsize == 1
    sieve = lw.compile(sieved)
    assert [sieve(np.ones(n, bool)) for n in (30, 100, 300)] == [10, 25, 62]


def counts_in_a_closure(x, n):
    count = 0

    def bump(by):
        nonlocal count
        count += by
        return count

    for i in range(20):
        for _ in range(n):
            if x[i % 5] > 0.2:
                bump(2)
        count = bump(1)
    return count


def test_a_variable_that_a_function_inside_changes_is_carried() -> None:
    x = np.linspace(0, 1, 5)
    assert lw.compile(counts_in_a_closure)(x, 7) == counts_in_a_closure(x, 7) == 20 + 14 * 16


def test_a_loop_of_many_iterations_is_a_loop_of_the_graph() -> None:
    text = lw.compile(many_terms).lower(np.int64(7)).as_text("graph")
    assert "for (" in text


def one_of_two(x, z, c):
    if c > 0:
        y = x
    else:
        y = z
    y[0] = 5
    return x


def the_same_or_not(x, n):
    y = x
    for _ in range(n):
        y = y + 1
    y[0] = 9
    return x + y


@pytest.mark.parametrize(
    ("function", "args"),
    [(one_of_two, (np.ones(3), np.zeros(3), F64(1))), (the_same_or_not, (np.ones(3), np.int64(0)))],
)
def test_a_write_to_what_values_choose_is_refused(function: Any, args: tuple[Any, ...]) -> None:
    with pytest.raises(lw.UnsupportedError, match="which other names are names of it") as caught:
        lw.compile(function)(*args)
    assert "y[0] = " in str(caught.value)


def test_a_variable_that_one_path_binds_is_unbound_on_the_other() -> None:
    def f(x):
        for i in range(20):
            if x[i] > 100:
                found = i
        return found

    with pytest.raises(UnboundLocalError, match="found"):
        f(LONG)
    with pytest.raises(UnboundLocalError, match="found"):
        lw.compile(f)(LONG)


def test_python_takes_the_branch_that_it_knows() -> None:
    seen = []

    def f(x, flag):
        if flag:
            seen.append(1)
        if x.sum() > 0:
            x = x + 1
        return x

    assert lw.compile(f)(np.ones(2), False).tolist() == [2, 2] and not seen


def test_it_can_be_turned_off() -> None:
    with pytest.raises(lw.LoopwrightTypeError, match="the truth of a traced array"):
        lw.compile(sign, capture=False)(LONG)
    assert lw.compile(sign, capture=False).options()["capture"] is False


def test_errors_name_the_users_line() -> None:
    def f(x):
        if x[0] > 0:
            x = x + np.ones(7)
        return x

    with pytest.raises(lw.LoopwrightError) as caught:
        lw.compile(f)(np.ones(3))
    assert "x = x + np.ones(7)" in str(caught.value) and "in f" in str(caught.value)


@lw.compile
def inner(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def outer(x):
    y = inner(x)
    if y[0] > 0:
        y = y * 2
    return inner(y)


@pytest.mark.parametrize("sign", [1, -1])
def test_compiled_functions_that_it_calls_are_captured_as_well(sign: int) -> None:
    x = sign * np.arange(1.0, 4)
    y = x + sign
    expected = 2 * y + 1 if sign > 0 else y - 1
    np.testing.assert_array_equal(lw.compile(outer)(x), expected)


def test_ranges_over_symbolic_sizes_are_loops() -> None:
    f = lw.compile(without_negative, dynamic={"x": {0: "n"}})
    for size in (3, 30):
        np.testing.assert_allclose(f(LONG[:size]), without_negative(LONG[:size]))
    assert f.cache_info().currsize == 1


counter = 0


def test_what_others_see_is_not_changed_by_compiled_code() -> None:
    def f(x):
        global counter
        if x[0] > 0:
            counter = 1
        return x

    with pytest.raises(lw.LoopwrightTypeError, match="the truth of a traced array"):
        lw.compile(f)(np.ones(2))
    assert counter == 0


def test_an_endless_loop_in_a_branch_that_is_not_taken_is_none_while_tracing() -> None:
    def f(x):
        if x[0] > 5:
            k = 0
            while k < 3:
                x = x + 1
        return x

    assert lw.compile(f)(np.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("x", [0.5, -0.0, np.inf, np.nan])
def test_complex_numbers_are_made_of_their_parts(x: float) -> None:
    def made(x, n):
        z = complex(x, -0.0)
        for k in range(n):
            z = z * complex(n, x) + complex(k)
        return complex(x, n), complex(x), complex(1, x), complex(complex(x, 2.0)), z

    found, expected = lw.compile(made)(x, 3), made(x, 3)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal([one.real, one.imag], [other.real, other.imag])
        signs = [np.signbit(part) for z in (one, other) for part in (z.real, z.imag)]
        assert signs[:2] == signs[2:] or np.isnan(other)


def test_a_part_that_is_complex_is_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        lw.compile(lambda x: complex(complex(x, 1.0), x))(1.0)

"""``lw.function`` traced: functions of the module that call one another."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from control_check import check


@lw.function
def factorial(n):
    return lw.cond(n <= 1, lambda: 1, lambda: n * factorial(n - 1))


@lw.function
def is_even(n):
    return lw.cond(n == 0, lambda: True, lambda: is_odd(n - 1))


@lw.function
def is_odd(n):
    return lw.cond(n == 0, lambda: False, lambda: is_even(n - 1))


@lw.function
def ackermann(m, n):
    return lw.cond(
        m == 0,
        lambda: n + 1,
        lambda: lw.cond(
            n == 0,
            lambda: ackermann(m - 1, 1),
            lambda: ackermann(m - 1, ackermann(m, n - 1)),
        ),
    )


def test_a_function_that_calls_itself_is_a_function_of_the_module() -> None:
    assert check(factorial, 5) == (
        "def @main(%n: Tensor[(), int64]) -> Tensor[(), int64] {\n"
        "  @factorial(%n)\n"
        "}\n\n"
        "def @factorial(%n: Tensor[(), int64]) -> Tensor[(), int64] {\n"
        "  %0 = less_equal(%n, 1i64);\n"
        "  if (%0) {\n"
        "    1i64\n"
        "  } else {\n"
        "    %1 = subtract(%n, 1i64);\n"
        "    %2 = @factorial(%1);\n"
        "    multiply(%n, %2)\n"
        "  }\n"
        "}"
    )


def test_functions_that_call_one_another() -> None:
    for n in (0, 1, 6, 7):
        text = check(lambda n: (is_even(n), is_odd(n)), n)
    assert text.count("def @") == 3
    check(ackermann, 2, 3)


def test_the_result_takes_the_type_that_the_recursion_gives() -> None:
    @lw.function
    def power(x, n):
        return lw.cond(n == 0, lambda: 1, lambda: x * power(x, n - 1))

    check(power, np.float32(1.5), 4)
    check(power, np.full(3, 2.0)[0], np.int32(3))


def test_trees_of_arguments_and_results() -> None:
    @lw.function
    def walk(state, depth, kind="sum"):
        assert kind == "sum"
        below = {"left": state["left"] + 1, "right": state["right"] * 2}
        return lw.cond(depth > 0, lambda: walk(below, depth - 1), lambda: {**state, "n": depth})

    check(lambda x: walk({"left": x, "right": x}, 3), np.arange(3.0))


def test_arguments_that_a_function_writes() -> None:
    @lw.function
    def fill(x, k):
        def more():
            x[:] = x + k
            fill(x, k - 1)

        lw.cond(k > 0, more, lambda: None)

    def f(x):
        y = x.copy()
        fill(y[1:], 3)
        fill(x, 2)
        return y, x + 0

    check(f, np.arange(4.0))


def test_values_of_the_caller_become_arguments() -> None:
    def f(x, n):
        scale = x * 2

        @lw.function
        def grow(k):
            return lw.cond(k == 0, lambda: scale, lambda: grow(k - 1) + scale)

        first = lw.fori_loop(0, 2, lambda i, s: s + grow(i), scale)
        scale = x * 3
        return first, grow(n)

    check(f, np.arange(3.0), 2)


def test_shapes_that_shrink_are_functions_of_their_own() -> None:
    @lw.function
    def total(x):
        if x.shape[0] == 1:
            return x[0]
        middle = x.shape[0] // 2
        return total(x[:middle]) + total(x[middle:])

    text = check(total, np.arange(8.0))
    assert text.count("def @") == 5


def test_each_call_of_a_recursion_has_sizes_of_its_own() -> None:
    def program(a, b):
        @lw.function
        def f(n, x):
            twos = np.full(x.shape[0], 2.0)
            s = (x * twos).sum() + len(x) + np.unique(x)[0] + len(x[x > n])
            return lw.cond(n > 0, lambda: s + f(n - 1, x), lambda: s)

        return f(2, a), f(2, b[:-1]), f(1, b)

    a, b = np.arange(5.0), np.arange(7.0) + 1
    for sizes in ("n", "m"):
        compiled = lw.compile(program, dynamic={"a": {0: "n"}, "b": {0: sizes}})
        other = a + 1 if sizes == "n" else b
        np.testing.assert_array_equal(compiled(a, other), program(a, other))


def test_recursion_inside_of_a_loop() -> None:
    @lw.function
    def leaves(depth):
        def children():
            return lw.fori_loop(0, 2, lambda i, s: s + leaves(depth - 1), 0)

        return lw.cond(depth == 0, lambda: 1, children)

    check(leaves, 4)


def test_a_recursion_that_never_ends_is_an_error() -> None:
    @lw.function
    def forever(x):
        return forever(x) + 1

    with pytest.raises(lw.LoopwrightTypeError, match="forever calls itself in every case"):
        lw.compile(forever).trace(1.0)

    @lw.function
    def shrinking(x):
        return lw.cond(x[0] > 0, lambda: 1.0, lambda: shrinking(np.concatenate([x, x])))

    with pytest.raises(lw.LoopwrightTypeError, match="ever other types, lastly"):
        lw.compile(shrinking).trace(np.ones(2))


def test_arrays_from_outside_that_a_function_writes() -> None:
    def f(x, n):
        b = x.copy()

        @lw.function
        def deeper(left, y):
            def again():
                b[0] = b[0] + y
                return deeper(left - 1, y * 2)

            return lw.cond(left > 0, again, lambda: y)

        first = deeper(n, 0.5)
        b[1] = 7.0

        def twice(i, total):
            return total + deeper(i, 1.0)

        return first, lw.fori_loop(0, 3, twice, 0.0), b

    check(f, np.arange(3.0), 3)


def test_a_function_reads_what_arrays_around_it_hold_now() -> None:
    def f(x):
        b = x.copy()

        @lw.function
        def read(k):
            return b[0] + k

        first = read(1.0)
        b[0] = 5.0
        return first, read(1.0)

    check(f, np.arange(3.0))


def test_what_a_function_reads_through_helpers_is_what_arrays_hold_now() -> None:
    def f(x):
        b = x.copy()

        def first_of_b():
            return b[0]

        @lw.function
        def read(k):
            return first_of_b() + k

        @lw.function
        def indirectly(k):
            return 2.0 * read(k)

        before = read(1.0), indirectly(1.0)
        b[0] = 5.0
        return before, read(1.0), indirectly(1.0)

    check(f, np.arange(3.0))


def test_a_function_of_two_kinds_of_arguments_writes_an_outer_array_in_a_loop() -> None:
    def f(n, x):
        b = x.copy()

        @lw.function
        def deeper(left, y):
            def again():
                def write(i, nothing):
                    b[i] = y

                lw.fori_loop(0, 2, write, None)
                return deeper(left - 1, np.sin(y))

            return lw.cond(left > 0, again, lambda: y)

        return deeper(n, 0.5), b

    check(f, 3, np.arange(5.0))


def test_a_function_uses_what_variables_around_it_are_now() -> None:
    def f(x, y):
        held, factor = x, 2.0

        def first_of_held():
            return held[0]

        @lw.function
        def read(k):
            return first_of_held() + k * factor

        before = read(1.0)
        held = y
        between = read(1.0)
        factor = 3.0
        return before, between, read(1.0)

    check(f, np.arange(3.0), np.ones(2))


def test_attributes_are_read_anew() -> None:
    class Holder:
        def __init__(self, values: Any) -> None:
            self.values = values

        @lw.function
        def first(self, x: Any) -> Any:
            return x + self.values[0]

    def program(a: Any, b: Any) -> Any:
        mine, other = Holder(a), Holder(a)

        @lw.function
        def around(x: Any) -> Any:
            return x + other.values[0]

        before = mine.first(1.0), around(1.0)
        mine.values = other.values = b
        return before, (mine.first(1.0), around(1.0))

    a, b = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    assert lw.compile(program)(a, b) == program(a, b) == ((2.0, 2.0), (11.0, 11.0))


def test_a_loop_goes_on_unless_two_conditions_hold() -> None:
    """No comparison is the opposite of an "and"."""

    @lw.function
    def until(n, m):
        return lw.cond((n > 3) & (m > 5), lambda: n + m, lambda: until(n + 1, m + 2))

    assert lw.compile(until)(0, 0) == 12

"""Control flow traced into the graph: equal to Python's result on NumPy's arrays."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from control_check import check

ROWS = np.arange(12.0).reshape(4, 3)


def test_a_while_loop_has_its_condition_and_body_as_blocks() -> None:
    def gcd(a, b):
        return lw.while_loop(lambda c: c[1] != 0, lambda c: (c[1], c[0] % c[1]), (a, b))[0]

    assert check(gcd, 48, 36) == (
        "def @main(%a: Tensor[(), int64], %b: Tensor[(), int64]) -> Tensor[(), int64] {\n"
        "  %0 = while (%carry_0 = %a, %carry_1 = %b) {\n"
        "    not_equal(%carry_1, 0i64)\n"
        "  } do {\n"
        "    %1 = floor_mod(%carry_0, %carry_1);\n"
        "    (%carry_1, %1)\n"
        "  };\n"
        "  %0.0\n"
        "}"
    )


@pytest.mark.parametrize("start", [0, 2])
def test_a_loop_over_a_range_counts_as_range_does(start) -> None:
    check(lambda x, n: lw.fori_loop(start, n, lambda i, y: y * x + i, 1.0), np.float32(1.5), 5)
    check(lambda x, n: lw.fori_loop(n, start, lambda i, y: y * x + i, 1.0), np.float32(1.5), 5)
    check(lambda x, n: lw.fori_loop(n - 7, n, lambda i, y: y - i, x), np.int8(3), np.int32(5))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, True])
def test_a_scan_stacks_its_outputs(reverse, unroll) -> None:
    def sums(x):
        def body(carry, row):
            total = carry["total"] + row["x"]
            return {"total": total}, (total * 2, row["y"].sum())

        rows = {"x": x, "y": x[:, :2]}
        return lw.scan(body, {"total": x[0] * 0}, rows, reverse=reverse, unroll=unroll)

    check(sums, ROWS)


def test_a_scan_may_have_no_rows_no_outputs_and_no_carry() -> None:
    check(lambda x: lw.scan(lambda c, _: (c * 2, None), x, length=3)[0], 1.5)
    check(lambda x: lw.map(lambda row: (row.max(), 1), x), ROWS)
    check(lambda x: lw.scan(lambda c, row: (c, row), x[0], x[1:1]), ROWS)


def test_branches_give_their_results() -> None:
    for sign in (1.0, -1.0):
        check(lambda x: lw.cond(x.sum() > 0, lambda y: (y, 1), lambda y: (-y, 0.5), x), sign * ROWS)
    branches = [lambda x, n=n: x + n for n in range(4)]
    for index in range(-2, 6):
        check(lambda i, x: lw.switch(i, branches, x), index, ROWS)


def test_what_is_raised_in_a_branch_is_raised_when_it_is_taken() -> None:
    evens = np.arange(4) * 2

    def f(x, i):
        def nothing():
            return evens[evens > 100][0] * x.sum()

        def written():
            x[:i] = 0.0  # needs the value of i, which writes with the number 9 then
            np.zeros(4)[i] = 1.0
            return x.sum()

        return lw.cond(x[0, 0] > 0, nothing, lambda: lw.cond(x[0, 1] > 0, lambda: 1.0, written))

    compiled = lw.compile(f)
    assert compiled(ROWS, 9) == f(ROWS, 9) == 1.0
    with pytest.raises(IndexError, match="index 0 is out of bounds for axis 0 with size 0") as one:
        compiled(ROWS + 1, 9)
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 4") as two:
        compiled(ROWS - 1, 9)
    assert "evens[evens > 100][0]" in one.value.source[0]
    assert "np.zeros(4)[i] = 1.0" in two.value.source[0]
    both = lw.compile(lambda x: lw.cond(x > 0, lambda: int("a"), lambda: int("b")))
    with pytest.raises(ValueError, match="invalid literal"):
        both(1.0)


TABLE = np.arange(4.0)


def _written(x: Any) -> Any:
    made = np.zeros(3)
    made[1] = x
    return made.sum()


@pytest.mark.parametrize(
    "taken",
    [
        lambda x, i: TABLE[i] * x,
        lambda x, i: np.zeros(4)[i] * x,
        lambda x, i: _written(x),
        lambda x, i: np.asarray([x, x * 2]).sum(),
        lambda x, i: np.array([[x, i * 1.0], [x * 2, x]]).sum(),
        lambda x, i: np.interp(x, TABLE, TABLE),
    ],
)
def test_what_numpys_own_cannot_take_is_traced_again_in_a_branch(taken: Any) -> None:
    def f(x, i):
        return lw.cond(x > 0, lambda: taken(x, i.astype(int)), lambda: x)

    def g(x, i):
        return lw.fori_loop(0, i.astype(int), lambda j, c: c + taken(x, j + i.astype(int)), x)

    for function in (f, g):
        compiled = lw.compile(function)
        for x in (1.5, -1.0):
            args = np.float64(x), np.float64(1)
            np.testing.assert_allclose(compiled(*args), function(*args))


def test_what_is_raised_in_a_loop_is_raised_when_it_begins() -> None:
    def f(n, i):
        def body(j, c):
            return c + np.arange(4.0)[i:].max() + np.zeros(4)[i]

        def step(c):
            return c + np.arange(4.0)[:i].sum() + np.zeros(4)[i]

        c = lw.fori_loop(0, n, body, 1.0)
        np.zeros(9)[:i] = 1.0  # needs the value of i
        return lw.while_loop(lambda c: c + n < 0, step, c)

    compiled = lw.compile(f)
    assert compiled(0, 5) == f(0, 5) == 1.0
    with pytest.raises(ValueError, match="zero-size array") as one:
        compiled(1, 5)
    with pytest.raises(IndexError, match="index 5 is out of bounds") as two:
        compiled(-2, 5)
    assert ".max()" in one.value.source[0] and ".sum()" in two.value.source[0]
    with pytest.raises(IndexError, match="index 9 is out"):
        lw.compile(lambda x: lw.fori_loop(0, 3, lambda i, c: c + np.ones(3)[9], x))(1.0)
    assert lw.compile(lambda x: lw.fori_loop(3, 3, lambda i, c: c + np.ones(3)[9], x))(1.0) == 1.0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lw.cond(x.sum() > 9, lambda: len(x), lambda: 0),
        lambda x: lw.fori_loop(0, 3, lambda i, c: len(x), 1),
        lambda x: lw.fori_loop(0, 3, lambda i, c: c + 1, x.shape[0]),
        lambda x: lw.scan(lambda c, row: (c, x.size), 0, x)[1],
        lambda x: lw.while_loop(lambda c: c < 9, lambda c: c + len(x[x > 1]), len(x)),
        lambda x: lw.function(lambda n: n * 2)(len(x)),
    ],
)
def test_symbolic_sizes_are_numbers_in_bodies(function: Any) -> None:
    compiled = lw.compile(function, dynamic={"x": {0: "n"}})
    for size in (4, 7):
        x = np.arange(float(size))
        np.testing.assert_array_equal(compiled(x), function(x))


def test_conditions_may_be_numbers() -> None:
    check(lambda n: lw.while_loop(lambda c: c[0], lambda c: (c[0] - 1, c[1] * 2), (n, 1)), 5)
    check(lambda n: lw.cond(n, lambda: 1, lambda: 2), np.float32(0))


def test_writes_to_arrays_from_outside_reach_them() -> None:
    def writes(x, n):
        y = x.copy()
        view = y[1:]

        def body(i, total):
            view[:] = view + i
            lw.cond(i > 1, lambda: y.__setitem__(0, 5.0), lambda: None)
            return total + view.sum()

        return lw.fori_loop(0, n, body, 0.0), y, view, y[0] + view[1]

    for n in (0, 1, 3):
        check(writes, ROWS[0], n)


def test_arguments_that_a_body_writes_are_written_back() -> None:
    def fill(x, n):
        def outer(i, _):
            def inner(j, _):
                x[0] += i
                x[2] = x[1] + j

            lw.fori_loop(0, n, inner, None)

        lw.fori_loop(0, n, outer, None)

    text = check(fill, ROWS, 3)
    assert text.count("for (") == 2


def test_what_is_read_in_a_body_is_read_anew_after_it() -> None:
    def f(x):
        y = x.copy()
        row = y[0]
        y[1] = 3.0
        lw.cond(x.sum() > 0, lambda: row.sum() + row[0], lambda: row[0])
        return row * 2

    check(f, ROWS)


def test_carries_and_results_are_values_of_their_own() -> None:
    def f(x):
        y = x.copy()

        def body(i, carry):
            carry[0] = i
            y[1] = carry[0] + 1
            return carry

        last = lw.fori_loop(0, 3, body, y)
        same = lw.cond(x[0] > 0, lambda: y, lambda: x)
        same[2] = 9
        return last, y, same

    check(f, np.arange(1.0, 5.0))


def test_numbers_take_the_dtype_that_a_body_gives() -> None:
    x = np.float32(0.5)
    check(lambda x: lw.fori_loop(0, 3, lambda i, s: s + x, 0), x)
    check(lambda x: lw.fori_loop(0, 3, lambda i, s: (s[1], s[0] + x), (0, 1.0)), x)
    check(lambda x: lw.fori_loop(0, 3, lambda i, s: 2, x), x)
    check(lambda n: lw.fori_loop(0, n, lambda i, s: s * x, 1), 3)
    check(lambda x: lw.cond(x > 0, lambda: 1, lambda: x), x)


def test_containers_and_what_never_changes_pass_through() -> None:
    def f(x):
        init = {"x": x, "name": "relu", "n": [0, (x.sum(), None)]}
        last = lw.fori_loop(0, 3, lambda i, c: {**c, "x": c["x"] * 2, "n": c["n"]}, init)
        assert last["name"] == "relu" and last["n"][1][1] is None
        return last["x"], last["n"]

    check(f, ROWS)


def test_bodies_call_compiled_functions_and_capture_arrays() -> None:
    weights = np.linspace(0, 1, 9).reshape(3, 3)
    layer = lw.compile(lambda x, w: np.tanh(x @ w))
    check(lambda x: lw.scan(lambda h, row: (layer(h + row, weights), h), x[0] * 0, x), ROWS)


def test_a_value_of_an_ended_scope_is_an_error() -> None:
    class Found(Exception):
        pass

    def f(x):
        def body(i, carry):
            raise Found(carry * 2)

        try:
            return lw.fori_loop(0, 3, body, x)
        except Found as found:
            return found.args[0] + 1

    with pytest.raises(lw.LoopwrightTypeError, match="from inside of a branch, loop or function"):
        lw.compile(f).trace(ROWS)


@pytest.mark.parametrize(
    ("function", "words", "line"),
    [
        (
            lambda x: lw.fori_loop(0, 3, lambda i, c: c[:2] * 2, x),
            "fori_loop: the carry begins as float64[4, 3], and the body gives float64[2, 3]",
            "c[:2] * 2",
        ),
        (
            lambda x: lw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1.5, 0), (x[0, 0], "a")),
            "while_loop: the carry[1] is 'a' at first and then 0",
            "lw.while_loop",
        ),
        (
            lambda x: lw.cond(x[0, 0] > 0, lambda: x, lambda: x.astype(np.float32)),
            "cond: the result differs: true_fn gives float64[4, 3], and false_fn gives "
            "float32[4, 3]",
            "lw.cond",
        ),
        (
            lambda x: lw.cond(x > 0, lambda: x, lambda: x),
            "cond: a condition is one bool or number, and this is bool[4, 3]",
            "lw.cond",
        ),
        (
            lambda x: lw.scan(lambda c, r: ((c, c), r), x[0], x),
            "scan: the carry is one array, and the body's (*, *)",
            "lw.scan",
        ),
    ],
)
def test_types_that_change_are_errors_at_the_line(function, words, line) -> None:
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        lw.compile(function).trace(ROWS)
    assert caught.value.message == words
    assert line in caught.value.source[0]


def test_a_condition_that_writes_is_an_error() -> None:
    def f(x):
        def condition(c):
            x[0] = c
            return c < 3

        return lw.while_loop(condition, lambda c: c + 1, 0.0)

    with pytest.raises(lw.LoopwrightTypeError, match="the condition writes to an array"):
        lw.compile(f).trace(ROWS)


@pytest.mark.parametrize("count", [0, 2])
def test_a_python_number_that_the_bodys_dtype_does_not_hold_stays_one(count: int) -> None:
    def f(n: Any) -> Any:
        return lw.fori_loop(0, n, lambda _i, _number: n, 0.5)

    assert lw.compile(f)(np.int64(count)) == f(np.int64(count)) == (count or 0.5)

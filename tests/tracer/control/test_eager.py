"""Control flow on NumPy's arrays: the meaning of what is compiled."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest


def test_loops_give_what_pythons_loops_give() -> None:
    assert lw.while_loop(lambda c: c[1] != 0, lambda c: (c[1], c[0] % c[1]), (48, 36)) == (12, 0)
    assert lw.fori_loop(2, 5, lambda i, s: s + i, 0) == 9
    total, sums = lw.scan(lambda s, x: (s + x, s + x), 0, np.array([1, 2, 3]), reverse=True)
    assert total == 6 and sums.tolist() == [6, 5, 3]
    products = lw.map(lambda x: {"a": x @ x}, np.array([[3.0, 4.0], [6.0, 8.0]]))
    assert products["a"].tolist() == [25.0, 100.0]


def test_an_index_that_is_out_of_range_is_the_nearest() -> None:
    branches = [lambda x: x, lambda x: -x]
    assert [lw.switch(i, branches, 3) for i in (-5, 0, 1, 9)] == [3, 3, -3, -3]


def test_a_carry_that_begins_as_a_number_takes_the_dtype_that_the_body_gives() -> None:
    assert lw.fori_loop(0, 3, lambda i, s: s + np.float32(0.5), 0).dtype == np.float32
    assert type(lw.fori_loop(0, 3, lambda i, s: s + 1, 0)) is int
    assert lw.fori_loop(0, 3, lambda i, s: s + 0.5, 0) == 1.5
    assert lw.fori_loop(0, 3, lambda i, s: 1, np.float32(0)).dtype == np.float32


def test_carries_are_values_and_arrays_from_outside_are_shared() -> None:
    start, outside = np.zeros(3), np.zeros(3)

    def body(i, carry):
        carry[i] = i
        outside[i] += 1
        return carry

    assert lw.fori_loop(0, 3, body, start).tolist() == [0, 1, 2]
    assert start.tolist() == [0, 0, 0] and outside.tolist() == [1, 1, 1]


def test_outputs_are_copies_of_what_the_body_goes_on_to_change() -> None:
    def body(carry, x):
        carry[0] += x
        return carry, carry

    assert lw.scan(body, np.zeros(1), np.arange(3.0))[1].ravel().tolist() == [0, 1, 3]


def test_a_function_calls_itself() -> None:
    @lw.function
    def factorial(n):
        return lw.cond(n <= 1, lambda: 1, lambda: n * factorial(n - 1))

    assert factorial(5) == 120


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: lw.while_loop(lambda c: True, lambda c: (c, 1), np.ones(3)),
            "while_loop: the carry is one array, and the body's (*, *)",
        ),
        (
            lambda: lw.fori_loop(0, 3, lambda i, c: c.astype(np.float32), np.ones(3)),
            "fori_loop: the carry begins as float64[3], and the body gives float32[3]",
        ),
        (
            lambda: lw.fori_loop(0, 3.5, lambda i, c: c, np.ones(3)),
            "fori_loop: upper is one integer, and this is float",
        ),
        (
            lambda: lw.cond(np.ones(3), lambda: 1, lambda: 2),
            "cond: a condition is one bool or number, and this is float64[3]",
        ),
        (
            lambda: lw.scan(lambda c, x: c, 0, np.ones(3)),
            "scan: the body gives int, not (carry, output)",
        ),
        (
            lambda: lw.scan(lambda c, x: (c, x), 0, (np.ones(3), np.ones(2))),
            "scan: xs[0] has 3 rows, xs[1] has 2",
        ),
    ],
)
def test_misuse_names_the_line(call, message) -> None:
    with pytest.raises(lw.LoopwrightError) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.span is not None and "lw." in caught.value.source[0]

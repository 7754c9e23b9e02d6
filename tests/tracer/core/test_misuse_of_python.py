"""Python's own functions, and statements, applied to traced arrays.

Each misuse has a small test that states its whole message.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import loopwright as lw
import numpy as np
import pytest

F4 = np.ones(4, np.float32)
I4 = np.arange(4)

Message = Callable[..., str]


def text(*lines: str) -> str:
    return "\n".join(lines)


def test_a_function_of_math(message: Message) -> None:
    def f(x):
        return math.sqrt(x[0])

    assert message(f, F4, capture=False) == text(
        "float() needs a number, and the values of a traced array are not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return math.sqrt(x[0])",
        "      |                ^^^^^^^^^^^^^^^",
        "  x[0] : float32[]   from test_misuse_of_python.py:#",
        "  try: np.sqrt(x[0])",
    )


def test_the_greatest_of_rows(message: Message) -> None:
    def f(x):
        return max(x)

    assert message(f, F4, capture=False) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return max(x)",
        "      |                ^^^^^^",
        "  max(x) : bool[]   from test_misuse_of_python.py:#",
        "  try: return np.max(x)",
    )


def test_the_greatest_of_three(message: Message) -> None:
    def f(x):
        return max(x[0], x[1], x[2])

    assert message(f, F4, capture=False) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return max(x[0], x[1], x[2])",
        "      |                ^^^^^^^^^^^^^^^^^^^^^",
        "  max(x[0], x[1], x[2]) : bool[]   from test_misuse_of_python.py:#",
        "  try: return np.maximum(np.maximum(x[0], x[1]), x[2])",
    )


def test_sorted(message: Message) -> None:
    def f(x):
        return sorted(x)

    assert message(f, F4) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return sorted(x)",
        "      |                ^^^^^^^^^",
        "  sorted(x) : bool[]   from test_misuse_of_python.py:#",
        "  try: return np.sort(x)",
    )


def test_any(message: Message) -> None:
    def f(x):
        return any(x > 0)

    assert message(f, F4, capture=False) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return any(x > 0)",
        "      |                ^^^^^^^^^^",
        "  any(x > 0) : bool[]   from test_misuse_of_python.py:#",
        "  try: return np.any(x > 0)",
    )


def test_a_chain_of_comparisons(message: Message) -> None:
    def f(x):
        return (0 < x < 1) * x

    assert message(f, F4) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return (0 < x < 1) * x",
        "      |                 ^^^^^^^^^",
        "  0 < x < 1 : bool[4]   from test_misuse_of_python.py:#",
        "  try: return np.logical_and(0 < x, x < 1) * x",
    )


def test_an_assertion(message: Message) -> None:
    def f(x):
        assert x.sum() > 0
        return x

    # pytest rewrites the statement, and so what the error shows of it.
    first, *_, hint = message(f, F4, capture=False).split("\n")
    assert first == "the truth of a traced array is not known while tracing"
    check = 'lw.debug.check(condition, "message {}", x)'
    assert hint == f"  try: {check}, or an assert on what is returned"


def test_round_of_an_array(message: Message) -> None:
    def f(x):
        return round(x, 2)

    assert message(f, F4) == text(
        "round() takes a scalar, and this array has axes",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return round(x, 2)",
        "      |                ^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: np.round(x, 2)",
    )


def test_a_formatted_value(message: Message) -> None:
    def f(x):
        return x, f"{x[0]:.2f}"

    assert message(f, F4) == text(
        "format() needs a number, and the values of a traced array are not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        '    # |         return x, f"{x[0]:.2f}"',
        "      |                   ^^^^^^^^^^^^^",
        "  x[0] : float32[]   from test_misuse_of_python.py:#",
        "  try: text of what the compiled function returns",
    )


def test_a_percent_sign(message: Message) -> None:
    def f(x):
        return x, "%f" % x[0]  # noqa: UP031

    assert message(f, F4) == text(
        "float() needs a number, and the values of a traced array are not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        '    # |         return x, "%f" % x[0]  # noqa: UP031',
        "      |                   ^^^^^^^^^^^",
        "  x[0] : float32[]   from test_misuse_of_python.py:#",
        "  try: text of what the compiled function returns",
    )


def test_a_key(message: Message) -> None:
    def f(x):
        return {x[0]: 1}

    assert message(f, F4) == text(
        "a traced array has no hash, so that it cannot be a key of a dict or an element of a set",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return {x[0]: 1}",
        "      |                ^^^^^^^^^",
        "  x[0] : float32[]   from test_misuse_of_python.py:#",
        "  try: a list or tuple; np.select or lw.switch for one of several cases",
    )


def test_a_case_of_a_dict(message: Message) -> None:
    def f(x):
        return {0: "a", 1: "b"}[x[0]]

    assert message(f, I4) == text(
        "a traced array has no hash, so that it cannot be a key of a dict or an element of a set",
        "  test_misuse_of_python.py:#, in f",
        '    # |         return {0: "a", 1: "b"}[x[0]]',
        "      |                ^^^^^^^^^^^^^^^^^^^^^^",
        "  x[0] : int64[]   from test_misuse_of_python.py:#",
        "  try: a list or tuple; np.select or lw.switch for one of several cases",
    )


def test_an_assigned_shape(message: Message) -> None:
    def f(x):
        x.shape = (2, 2)
        return x

    assert message(f, F4) == text(
        "the shape of a traced array cannot be assigned",
        "  test_misuse_of_python.py:#, in f",
        "    # |         x.shape = (2, 2)",
        "      |         ^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: x = x.reshape((2, 2))",
    )


def test_an_array_of_a_generator(message: Message) -> None:
    def f(x):
        return np.fromiter((v for v in x), float)

    assert message(f, F4) == text(
        "float() needs a number, and the values of a traced array are not known while tracing",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return np.fromiter((v for v in x), float)",
        "      |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  (v for v in x) : float32[]   from test_misuse_of_python.py:#",
        "  try: np.fromiter outside of the compiled function, or lw.extern for a call of it inside",
    )


def test_a_shuffled_array(message: Message) -> None:
    def f(x):
        return np.random.permutation(x)

    assert message(f, F4) == text(
        "np.random.permutation draws random numbers in Python, which knows no values while tracing",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return np.random.permutation(x)",
        "      |                ^^^^^^^^^^^^^^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: lw.random.permutation(key, x), with a key as argument",
    )


def test_a_quotient_in_an_array_of_integers(message: Message) -> None:
    def f(x):
        x /= 2
        return x

    assert message(f, I4) == text(
        "Cannot cast ufunc 'divide' output from dtype('float64') to dtype('int64') with casting "
        "rule 'same_kind'",
        "  test_misuse_of_python.py:#, in f",
        "    # |         x /= 2",
        "      |         ^^^^^^",
        "  x : int64[4]   argument x of f",
        "  try: x = x / 2",
    )


def test_a_sum_that_does_not_fit_its_array(message: Message) -> None:
    def f(x):
        x += np.ones((2, 4))
        return x

    assert message(f, F4) == text(
        "non-broadcastable output operand with shape (4,) doesn't match the broadcast shape (2,4)",
        "  test_misuse_of_python.py:#, in f",
        "    # |         x += np.ones((2, 4))",
        "      |         ^^^^^^^^^^^^^^^^^^^^",
        "  x               : float32[4]      argument x of f",
        "  np.ones((2, 4)) : float64[2, 4]   array computed outside of the trace",
        "  try: x = x + np.ones((2, 4))",
    )


def test_a_difference_of_bools(message: Message) -> None:
    def f(x):
        return (x > 0) - (x < 0)

    assert message(f, F4) == text(
        "subtract is not defined for bool and bool",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return (x > 0) - (x < 0)",
        "      |                ^^^^^^^^^^^^^^^^^",
        "  x > 0 : bool[4]   from test_misuse_of_python.py:#",
        "  x < 0 : bool[4]   from test_misuse_of_python.py:#",
        "  try: (x > 0) ^ (x < 0)",
    )


def test_arrays_that_are_not_in_a_list(message: Message) -> None:
    def f(x):
        return np.concatenate(x, x)

    assert message(f, F4) == text(
        "np.concatenate takes the arrays as one list",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return np.concatenate(x, x)",
        "      |                ^^^^^^^^^^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: np.concatenate([x, y])",
    )


def test_a_scalar_among_joined_arrays(message: Message) -> None:
    def f(x):
        return np.concatenate([x, 1.0])

    assert message(f, F4) == text(
        "np.concatenate joins arrays with axes, and one of these is a scalar",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return np.concatenate([x, 1.0])",
        "      |                ^^^^^^^^^^^^^^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: a list of one element in its place: np.concatenate([x, [value]])",
    )


def test_a_product_with_a_scalar(message: Message) -> None:
    def f(x):
        return x @ 2

    assert message(f, F4) == text(
        "nn.matmul: float32[4] and float32[], a scalar has no matrix product",
        "  test_misuse_of_python.py:#, in f",
        "    # |         return x @ 2",
        "      |                ^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: multiply: a * b",
    )


def test_an_equation_that_does_not_fit(message: Message) -> None:
    def f(x):
        return np.einsum("ij,j->i", x, x)

    assert message(f, F4) == text(
        "einsum: 'ij,j->i' for float32[4] and float32[4]: 'ij' does not name the 1 axes of "
        "operand 0",
        "  test_misuse_of_python.py:#, in f",
        '    # |         return np.einsum("ij,j->i", x, x)',
        "      |                ^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
    )


def test_code_without_source() -> None:
    names = {}
    exec("def f(x):\n    return max(x[0], 0.0)", names)
    with pytest.raises(lw.LoopwrightTypeError, match="the truth of a traced array") as caught:
        lw.compile(names["f"])(F4)
    assert "lw.cond" in str(caught.value)

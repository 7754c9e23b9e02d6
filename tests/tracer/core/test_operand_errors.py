"""Operands that do not fit: shapes, dtypes, axes, indices.

Each misuse has a small test that states its whole message.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from loopwright.tracer.core import numpy_receivers

F4 = np.ones(4, np.float32)
F3 = np.ones(3, np.float32)
F8 = np.ones(8, np.float32)
F8x6 = np.ones((8, 6), np.float32)
F3x6 = np.ones((3, 6), np.float32)
TABLE = np.ones((6, 8), np.float32)

Message = Callable[..., str]


def text(*lines: str) -> str:
    return "\n".join(lines)


def test_float_index(message: Message) -> None:
    def f(x, i):
        return x[i]

    assert message(f, F4, F4) == text(
        "an index must be of integers, not float32[4]",
        "  test_operand_errors.py:#, in f",
        "    # |         return x[i]",
        "      |                ^^^^",
        "  x : float32[4]   argument x of f",
        "  i : float32[4]   argument i of f",
        "  try: i.astype(np.int64)",
    )


def test_index_outside(message: Message) -> None:
    def f(x):
        return x[7]

    assert message(f, F4) == text(
        "index 7 is outside of axis 0, which has 4",
        "  test_operand_errors.py:#, in f",
        "    # |         return x[7]",
        "      |                ^^^^",
        "  x : float32[4]   argument x of f",
    )


def test_too_many_indices(message: Message) -> None:
    def f(x):
        return x[0, 1]

    assert message(f, F4) == text(
        "too many indices: 2 for float32[4], which has 1 axes",
        "  test_operand_errors.py:#, in f",
        "    # |         return x[0, 1]",
        "      |                ^^^^^^^",
        "  x : float32[4]   argument x of f",
    )


def test_numpy_array_indexed_by_a_traced_one(
    message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its class cannot be made to take a traced index (see ``numpy_receivers``)."""
    monkeypatch.setattr(numpy_receivers, "available", lambda: False)

    def f(i):
        return TABLE[i]

    assert message(f, np.array(1)) == text(
        "TABLE is a NumPy array, and its index is traced",
        "  test_operand_errors.py:#, in f",
        "    # |         return TABLE[i]",
        "      |                ^^^^^^^^",
        "  i : int64[]   argument i of f",
        "  try: lw.xp.take(TABLE, i, axis=0)",
    )


def test_matmul_shapes(message: Message) -> None:
    def scores(q, k):
        q = q * 2
        return q @ k

    assert message(scores, F8x6, F3x6) == text(
        "nn.matmul: inner sizes differ, 6 and 3, in float32[8, 6] @ float32[3, 6]",
        "  test_operand_errors.py:#, in scores",
        "    # |         return q @ k",
        "      |                ^^^^^",
        "  q : float32[8, 6]   from test_operand_errors.py:#",
        "  k : float32[3, 6]   argument k of scores",
        "  try: q @ k.T",
    )


def test_matmul_transposed_by_mistake(message: Message) -> None:
    def layer(x):
        return np.maximum(x @ TABLE.T, 0)

    assert message(layer, F8x6) == text(
        "nn.matmul: inner sizes differ, 6 and 8, in float32[8, 6] @ float32[8, 6]",
        "  test_operand_errors.py:#, in layer",
        "    # |         return np.maximum(x @ TABLE.T, 0)",
        "      |                           ^^^^^^^^^^^",
        "  x       : float32[8, 6]   argument x of layer",
        "  TABLE.T : float32[8, 6]   view of captured variable TABLE (float32[6, 8])",
        "  try: x @ TABLE",
    )


def test_broadcasting(message: Message) -> None:
    def f(x, b):
        return x + b

    assert message(f, F8x6, F8) == text(
        "add: operands float32[8, 6] and float32[8] do not broadcast, sizes 6 and 8 differ",
        "  test_operand_errors.py:#, in f",
        "    # |         return x + b",
        "      |                ^^^^^",
        "  x : float32[8, 6]   argument x of f",
        "  b : float32[8]      argument b of f",
        "  try: x + b[:, None]",
    )


def test_broadcasting_in_a_call(message: Message) -> None:
    def f(x, b):
        return np.maximum(x * 2, b)

    assert message(f, F8x6, F3) == text(
        "maximum: operands float32[8, 6] and float32[3] do not broadcast, sizes 6 and 3 differ",
        "  test_operand_errors.py:#, in f",
        "    # |         return np.maximum(x * 2, b)",
        "      |                ^^^^^^^^^^^^^^^^^^^^",
        "  x * 2 : float32[8, 6]   from test_operand_errors.py:#",
        "  b     : float32[3]      argument b of f",
    )


def test_bits_of_floats(message: Message) -> None:
    def f(x):
        return x & 1

    assert message(f, F4) == text(
        "bitwise_and is not defined for float32 and int",
        "  test_operand_errors.py:#, in f",
        "    # |         return x & 1",
        "      |                ^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: x.astype(np.int64)",
    )


def test_negative_of_bools(message: Message) -> None:
    def f(x):
        return -(x > 0)

    assert message(f, F4) == text(
        "negative is not defined for bool",
        "  test_operand_errors.py:#, in f",
        "    # |         return -(x > 0)",
        "      |                ^^^^^^^^",
        "  x > 0 : bool[4]   from test_operand_errors.py:#",
        "  try: ~(x > 0)",
    )


def test_python_int_that_does_not_fit(message: Message) -> None:
    def f(x):
        return x + 300

    assert message(f, np.zeros(3, np.uint8)) == text(
        "the Python int 300 does not fit uint8",
        "  test_operand_errors.py:#, in f",
        "    # |         return x + 300",
        "      |                ^^^^^^^",
        "  x : uint8[3]   argument x of f",
        "  try: x.astype(np.int64) before, or a number that fits",
    )


def test_unsupported_dtype(message: Message) -> None:
    def f(x):
        return x.astype(np.longdouble)

    assert message(f, F4) == text(
        "dtype float128 is not supported",
        "  test_operand_errors.py:#, in f",
        "    # |         return x.astype(np.longdouble)",
        "      |                ^^^^^^^^^^^^^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: float32, float64, complex64, complex128, bool, int8 to int64, uint8 to uint64",
    )


def test_axis_that_is_not_there(message: Message) -> None:
    def f(x):
        return x.mean(axis=2)

    assert message(f, F8x6) == text(
        "axis 2 does not exist: the array has 2 axes",
        "  test_operand_errors.py:#, in f",
        "    # |         return x.mean(axis=2)",
        "      |                ^^^^^^^^^^^^^^",
        "  x : float32[8, 6]   argument x of f",
        "  try: an axis from -2 to 1",
    )


def test_reshape_that_does_not_fit(message: Message) -> None:
    def f(x):
        return x.reshape(5, -1)

    assert message(f, F8x6) == text(
        "reshape: float32[8, 6] has 48 elements, which do not divide into (5, -1)",
        "  test_operand_errors.py:#, in f",
        "    # |         return x.reshape(5, -1)",
        "      |                ^^^^^^^^^^^^^^^^",
        "  x : float32[8, 6]   argument x of f",
        "  try: (4, -1), of which the sizes divide 48",
    )


def test_split_into_unequal_parts(message: Message) -> None:
    def f(x):
        return np.split(x, 3)

    assert message(f, F8x6) == text(
        "split: axis 0 of float32[8, 6] does not divide into 3 equal parts",
        "  test_operand_errors.py:#, in f",
        "    # |         return np.split(x, 3)",
        "      |                ^^^^^^^^^^^^^^",
        "  x : float32[8, 6]   argument x of f",
        "  try: np.array_split(x, 3, axis=0)",
    )


def test_concatenate_shapes(message: Message) -> None:
    def f(x, y):
        return np.concatenate([x, y])

    assert message(f, F8x6, F3) == text(
        "concatenate: operands float32[8, 6] and float32[3] differ in rank",
        "  test_operand_errors.py:#, in f",
        "    # |         return np.concatenate([x, y])",
        "      |                ^^^^^^^^^^^^^^^^^^^^^^",
        "  x : float32[8, 6]   argument x of f",
        "  y : float32[3]      argument y of f",
    )


def test_order_in_memory(message: Message) -> None:
    def f(x):
        return x[:, ::2].ravel(order="K")

    assert message(f, F8x6) == text(
        "order='K' of an array with gaps",
        "  test_operand_errors.py:#, in f",
        '    # |         return x[:, ::2].ravel(order="K")',
        "      |                ^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  x[:, ::2] : float32[8, 3]   from test_operand_errors.py:#",
        "  try: order='C', or 'F'",
    )


def test_result_that_is_no_array(message: Message) -> None:
    def f(x):
        return {"x": object()}

    assert message(f, F4) == text(
        "f returns result['x'] of type object, which is not an array",
        "  test_operand_errors.py:#, in f",
        "    # |     def f(x):",
        "      |     ^^^^^^^^^",
        "  try: arrays in tuples, lists, dicts, dataclasses or namedtuples",
    )

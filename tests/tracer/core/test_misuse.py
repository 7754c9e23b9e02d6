"""Traced values where Python or NumPy needs real ones.

Each misuse has a small test that states its whole message.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

F4 = np.ones(4, np.float32)

Message = Callable[..., str]


def text(*lines: str) -> str:
    return "\n".join(lines)


def test_branch_on_a_traced_array(message: Message) -> None:
    def relu(x):
        if x.sum() > 0:
            return x
        return -x

    assert message(relu, F4, capture=False) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse.py:#, in relu",
        "    # |         if x.sum() > 0:",
        "      |            ^^^^^^^^^^^",
        "  x.sum() > 0 : bool[]   from test_misuse.py:#",
        "  try: lw.cond, lw.while_loop or lw.fori_loop; with capture=True it is captured",
    )


def test_branch_on_an_argument(message: Message) -> None:
    def scaled(x, training):
        if training > 0:
            return x * 2
        return x

    assert message(scaled, F4, np.array(1), capture=False) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse.py:#, in scaled",
        "    # |         if training > 0:",
        "      |            ^^^^^^^^^^^^",
        "  training > 0 : bool[]   from test_misuse.py:#",
        "  try: lw.cond, lw.while_loop or lw.fori_loop; with capture=True it is captured, or "
        "static_argnames=('training',) for a setting",
    )


def test_while_on_a_traced_array(message: Message) -> None:
    def halve(x):
        while np.any(x > 1):
            x = x / 2
        return x

    assert message(halve, F4, capture=False) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse.py:#, in halve",
        "    # |         while np.any(x > 1):",
        "      |         ^^^^^^^^^^^^^^^^^^^^",
        "  np.any(x > 1) : bool[]   from test_misuse.py:#",
        "  try: lw.cond, lw.while_loop or lw.fori_loop; with capture=True it is captured",
    )


def test_not_of_a_traced_array(message: Message) -> None:
    def f(x):
        return not x

    assert message(f, F4) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse.py:#, in f",
        "    # |         return not x",
        "      |                ^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: return np.logical_not(x)",
    )


def test_membership(message: Message) -> None:
    def f(x):
        return 1 in x

    assert message(f, F4) == text(
        "the truth of a traced array is not known while tracing",
        "  test_misuse.py:#, in f",
        "    # |         return 1 in x",
        "      |                ^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: np.where(condition, a, b) by element; np.logical_and, _or, _not to combine",
    )


def test_float(message: Message) -> None:
    def f(x):
        return float(x.mean()) + 1

    assert message(f, F4, capture=False) == text(
        "float() needs a number, and the values of a traced array are not known while tracing",
        "  test_misuse.py:#, in f",
        "    # |         return float(x.mean()) + 1",
        "      |                ^^^^^^^^^^^^^^^",
        "  x.mean() : float32[]   from test_misuse.py:#",
        "  try: x.mean().astype(np.float64)",
    )


def test_int(message: Message) -> None:
    def f(x, n):
        return x * int(n)

    assert message(f, F4, np.array(3), capture=False) == text(
        "int() needs a number, and the values of a traced array are not known while tracing",
        "  test_misuse.py:#, in f",
        "    # |         return x * int(n)",
        "      |                    ^^^^^^",
        "  n : int64[]   argument n of f",
        "  try: n.astype(np.int64), or static_argnames=('n',) if n is a setting",
    )


def test_item(message: Message) -> None:
    def f(x):
        return x.sum().item()

    assert message(f, F4) == text(
        "item() needs a number, and the values of a traced array are not known while tracing",
        "  test_misuse.py:#, in f",
        "    # |         return x.sum().item()",
        "      |                ^^^^^^^^^^^^^^",
        "  x.sum() : float32[]   from test_misuse.py:#",
        "  try: x.sum()",
    )


def test_range(message: Message) -> None:
    def f(x, n):
        for _ in range(n):
            x = x + 1
        return x

    assert message(f, F4, 300, capture=False) == text(
        "a Python int is needed here, and a traced array's values are not known while tracing",
        "  test_misuse.py:#, in f",
        "    # |         for _ in range(n):",
        "      |                  ^^^^^^^^",
        "  n : int64[]   argument n of f",
        "  try: lw.fori_loop, or static_argnames=('n',), which compiles once for each value",
    )


def test_asarray_by_another_name(message: Message) -> None:
    asarray = np.asarray

    def f(x):
        return asarray(x)

    assert message(f, F4) == text(
        "asarray needs values, and those of a traced array are not known while tracing",
        "  test_misuse.py:#, in f",
        "    # |         return asarray(x)",
        "      |                ^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: x, which is an array already",
    )


def test_array_by_another_name(message: Message) -> None:
    array = np.array

    def f(x, y):
        return array([x, y])

    assert message(f, F4, F4) == text(
        "array needs values, and those of a traced array are not known while tracing",
        "  test_misuse.py:#, in f",
        "    # |         return array([x, y])",
        "      |                ^^^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: np.stack([x, y])",
    )


def test_iteration_over_a_scalar(message: Message) -> None:
    def f(x):
        return [v + 1 for v in x.sum()]

    assert message(f, F4) == text(
        "a traced scalar cannot be iterated over",
        "  test_misuse.py:#, in f",
        "    # |         return [v + 1 for v in x.sum()]",
        "      |                ^^^^^^^^^^^^^^^^^^^^^^^^",
        "  x.sum() : float32[]   from test_misuse.py:#",
        "  try: operations on the whole array",
    )


def test_assignment(message: Message) -> None:
    def f(x):
        x[[0, 2]] = [1, 2, 3]
        return x

    assert message(f, F4) == text(
        "shape mismatch: value array of shape (3,) could not be broadcast to indexing result of "
        "shape (2,)",
        "  test_misuse.py:#, in f",
        "    # |         x[[0, 2]] = [1, 2, 3]",
        "      |         ^^^^^^^^^",
        "  x : float32[4]   argument x of f",
    )


def test_assignment_into_a_numpy_array(message: Message) -> None:
    total = np.zeros(4)

    def f(x):
        total[0] = x[0]
        return total

    assert message(f, F4) == text(
        "total[0] = ... writes a traced value into a NumPy array",
        "  test_misuse.py:#, in f",
        "    # |         total[0] = x[0]",
        "      |         ^^^^^^^^",
        "  x[0] : float32[]   from test_misuse.py:#",
        "  try: make total with lw.xp.zeros or np.zeros_like, which give traced arrays",
    )


def test_augmented_assignment_to_a_numpy_array(message: Message) -> None:
    total = np.zeros(4)

    def f(x):
        nonlocal total
        total += x
        return total

    assert message(f, F4) == text(
        "total += x writes a traced value into the NumPy array total",
        "  test_misuse.py:#, in f",
        "    # |         total += x",
        "      |         ^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: total = total + x",
    )


def test_out(message: Message) -> None:
    total = np.zeros(4, np.float32)

    def f(x):
        return np.add(x, 1, out=total)

    assert message(f, F4) == text(
        "np.add: out= would change an array in place",
        "  test_misuse.py:#, in f",
        "    # |         return np.add(x, 1, out=total)",
        "      |                ^^^^^^^^^^^^^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: use the result instead",
    )


def test_where_argument_of_a_ufunc(message: Message) -> None:
    def f(x):
        return np.exp(x, where=x > 0)

    assert message(f, F4) == text(
        "where= is not supported",
        "  test_misuse.py:#, in f",
        "    # |         return np.exp(x, where=x > 0)",
        "      |                ^^^^^^^^^^^^^^^^^^^^^^",
        "  x     : float32[4]   argument x of f",
        "  x > 0 : bool[4]      from test_misuse.py:#",
        "  try: np.where(mask, result, otherwise)",
    )


def test_unknown_function(message: Message) -> None:
    def f(x):
        return np.roots(x)

    assert message(f, F4) == text(
        "np.roots does not work on traced arrays",
        "  test_misuse.py:#, in f",
        "    # |         return np.roots(x)",
        "      |                ^^^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: do this outside of the compiled function, or pass its result as an argument",
    )


def test_misspelt_method(message: Message) -> None:
    def f(x):
        return x.reshap(2, 2)

    assert message(f, F4) == text(
        "a traced array has no attribute 'reshap'",
        "  test_misuse.py:#, in f",
        "    # |         return x.reshap(2, 2)",
        "      |                ^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: x.reshape",
    )


def test_method_of_torch(message: Message) -> None:
    def f(x):
        return x.softmax(-1)

    assert message(f, F4) == text(
        "a traced array has no attribute 'softmax'",
        "  test_misuse.py:#, in f",
        "    # |         return x.softmax(-1)",
        "      |                ^^^^^^^^^",
        "  x : float32[4]   argument x of f",
        "  try: lw.nn.softmax(x)",
    )

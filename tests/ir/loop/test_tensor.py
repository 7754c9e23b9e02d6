"""Index arithmetic on integer expressions and on values read from data."""

from loopwright.ir.dims import symbol
from loopwright.ir.dtype import BOOL, INT32, INT64
from loopwright.ir.loop.expr import Op, const, index, read
from loopwright.ir.loop.tensor import (
    index_add,
    index_div,
    index_expr,
    index_less,
    index_max,
    index_min,
    index_mod,
    index_mul,
    index_sub,
    index_within,
)

i = symbol("i")
data = read("x", [i], INT64)


def test_plain_indices_are_integer_expressions():
    assert index_add(i, 1) == i + 1
    assert index_sub(i, i) == 0
    assert index_mul(i, 3) == 3 * i
    assert index_div(index_mul(i, 4), 4) == i
    assert index_mod(6 * i + 1, 3) == 1
    assert index_min(i, i + 1) == i
    assert index_max(2, 3) == 3


def test_literals_and_index_expressions_count_as_plain():
    assert index_add(index(i), const(2, INT64)) == i + 2
    assert index_less(const(1, INT64), 2) is const(True, BOOL)


def test_values_from_data_become_scalar_arithmetic():
    assert str(index_add(data, 1)) == "(x[i] + 1)"
    assert str(index_sub(i, data)) == "(index(i) - x[i])"
    assert str(index_div(data, 2)) == "(x[i] // 2)"
    assert str(index_min(data, 3)) == "minimum(x[i], 3)"
    assert str(index_less(data, i)) == "(x[i] < index(i))"
    assert str(index_within(data, 0, 5)) == "((0 <= x[i]) and (x[i] < 5))"


def test_narrow_integers_are_widened():
    narrow = index_expr(read("x", [i], INT32))
    assert isinstance(narrow, Op) and narrow.dtype == INT64

"""Products of matrices are known by the strides of their axes, whatever they are called."""

from __future__ import annotations

import pytest
from loopwright.ir.loop.matrix_product import Batch, Factor, matrix_product
from loopwright.ir.loop.parser import parse_prim


def product(text: str):
    return matrix_product(parse_prim(f"prim @p{text}"))


def test_a_plain_product() -> None:
    found = product(
        "(x: float32[4, 3], w: float32[3, 5]) -> out: float32[4, 5] {\n"
        "  out[i, j] = sum(k: 3) x[i, k] * w[k, j]\n}"
    )
    assert found is not None
    assert (found.rows, found.columns, found.terms, found.batch) == (4, 5, 3, ())
    assert found.left == Factor("x", 0, 3, 1) and found.right == Factor("w", 0, 5, 1)
    assert found.out == Factor("out", 0, 5, 1)


def test_a_result_that_lies_in_columns_is_the_product_turned() -> None:
    found = product(
        "(x: float32[4, 3], w: float32[3, 5]) -> out: float32[5, 4] {\n"
        "  out[j, i] = sum(k: 3) x[i, k] * w[k, j]\n}"
    )
    assert found is not None and (found.rows, found.columns) == (5, 4)
    assert found.left == Factor("w", 0, 1, 5) and found.out.columns == 1


def test_axes_that_are_walked_as_one_are_one() -> None:
    found = product(
        "(x: float32[4, 3, 2], w: float32[3, 2, 5]) -> out: float32[4, 5] {\n"
        "  out[i, j] = sum(k: 3, r: 2) x[i, k, r] * w[k, r, j]\n}"
    )
    assert found is not None and found.terms == 6 and found.left.rows == 6


def test_a_part_of_an_operand_begins_further_on() -> None:
    found = product(
        "(x: float32[4, 8], w: float32[3, 5]) -> out: float32[4, 5] {\n"
        "  out[i, j] = sum(k: 3) x[i, k + 2] * w[k, j]\n}"
    )
    assert found is not None and found.left == Factor("x", 2, 8, 1)


def test_what_both_operands_have_is_a_batch() -> None:
    found = product(
        "(x: float64[6, 4, 3], w: float64[6, 3, 5]) -> out: float64[6, 4, 5] {\n"
        "  out[b, i, j] = sum(k: 3) x[b, i, k] * w[b, k, j]\n}"
    )
    assert found is not None and found.batch == (Batch(6, 12, 15, 20),) and found.products == 6


def test_a_lone_row_is_a_matrix_times_a_vector() -> None:
    found = product(
        "(x: float32[3], w: float32[3, 5]) -> out: float32[5] {\n"
        "  out[j] = sum(k: 3) x[k] * w[k, j]\n}"
    )
    assert found is not None and (found.rows, found.columns) == (5, 1)
    assert found.left == Factor("w", 0, 1, 5)


@pytest.mark.parametrize(
    "text",
    [
        # windows overlap
        "(x: float32[6], w: float32[3, 2]) -> out: float32[4, 2] {\n"
        "  out[i, j] = sum(k: 3) x[i + k] * w[k, j]\n}",
        # sums over axes that lie apart
        "(x: float32[4, 3, 2], w: float32[2, 3, 5]) -> out: float32[4, 5] {\n"
        "  out[i, j] = sum(k: 3, r: 2) x[i, k, r] * w[r, k, j]\n}",
        # another combination
        "(x: float32[4, 3], w: float32[3, 5]) -> out: float32[4, 5] {\n"
        "  out[i, j] = max(k: 3) x[i, k] * w[k, j]\n}",
        # no library has it
        "(x: int32[4, 3], w: int32[3, 5]) -> out: int32[4, 5] {\n"
        "  out[i, j] = sum(k: 3) x[i, k] * w[k, j]\n}",
        # no elements follow each other
        "(x: float32[4, 3, 2], w: float32[3, 5]) -> out: float32[4, 5] {\n"
        "  out[i, j] = sum(k: 3) x[i, k, 1] * w[k, j]\n}",
        # one operand only
        "(x: float32[4, 3]) -> out: float32[4] {\n  out[i] = sum(k: 3) x[i, k]\n}",
        # something is computed first
        "(x: float32[4, 3], w: float32[3, 5]) -> out: float32[4, 5] {\n"
        "  t[i, k]: float32[4, 3] = exp(x[i, k])\n"
        "  out[i, j] = sum(k: 3) t[i, k] * w[k, j]\n}",
        # backwards
        "(x: float32[4, 3], w: float32[3, 5]) -> out: float32[4, 5] {\n"
        "  out[i, j] = sum(k: 3) x[i, 2 - k] * w[k, j]\n}",
        # a procedure, which has no stages
        "(x: float32[4]) -> out: float32[4] begins as x procedure {\n  out[1] = 2.0\n}",
    ],
)
def test_what_libraries_do_not_compute(text: str) -> None:
    assert product(text) is None

"""Rows that several blocks read elements of are not stored."""

import loopwright as lw
import numpy as np
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.passes.sink_picks import sink_picks


def branch(before: str, inside: str, then: str = "", result: str = "%9") -> str:
    return f"""
      def @main(%x: Tensor[(64, 64), float32], %i: Tensor[(), int64], %c: Tensor[(), bool])
          -> Tensor[(), float32] {{
        %0 = take(%x, %i, axis=0);
        {before}
        %1 = if (%c) {{ {inside} {result} }} else {{ 0f }};
        {then}
        %1
      }}"""


def rows_taken(text: str) -> int:
    result = sink_picks(parse_module(text))
    assert sink_picks(result) is result
    return str(result).count("take(%x")


def test_a_row_is_taken_in_each_branch_that_reads_an_element() -> None:
    element = "%9 = take(%0, %i, axis=0);"
    assert rows_taken(branch("", element)) == 2
    nested = (
        "%8 = take(%0, %i, axis=0); %9 = if (%c) { %7 = take(%0, %i, axis=0); %7 } else { %8 };"
    )
    assert rows_taken(branch("", nested)) == 3


def test_rows_of_rows() -> None:
    text = """
      def @main(%x: Tensor[(16, 16, 16), float32], %i: Tensor[(), int64], %c: Tensor[(), bool])
          -> Tensor[(), float32] {
        %0 = take(%x, %i, axis=0);
        %1 = take(%0, %i, axis=0);
        %2 = if (%c) { %3 = take(%1, %i, axis=0); %3 } else { 0f };
        %2
      }"""
    assert rows_taken(text) == 2


def test_what_is_read_as_a_whole_or_whose_array_changed_stays() -> None:
    for before, inside in [
        ("", "%8 = sum(%0, axis=[0]); %7 = take(%0, %i, axis=0); %9 = add(%7, %8);"),
        ("%2 = index_update(%x, 1f, %i, %i, axes=[0, 1]);", "%9 = take(%0, %i, axis=0);"),
        ("", "%8 = for (%k < 9i64; %s = 0f) { %7 = take(%0, %k, axis=0); (%7,) }; %9 = %8.0;"),
        (
            "%2 = if (%c) { %3 = index_update(%x, 1f, %i, %i, axes=[0, 1]); %3 } else { %x };",
            "%9 = take(%0, %i, axis=0);",
        ),
    ]:
        module = parse_module(branch(before, inside))
        assert sink_picks(module) is module


def test_a_branch_that_changes_the_array_does_not_change_the_other() -> None:
    text = """
      def @main(%x: Tensor[(64, 64), float32], %i: Tensor[(), int64], %c: Tensor[(), bool])
          -> Tensor[(64, 64), float32] {
        %0 = take(%x, %i, axis=0);
        %1 = if (%c) {
          %2 = index_update(%x, 1f, %i, %i, axes=[0, 1]);
          %2
        } else {
          %3 = take(%0, %i, axis=0);
          %4 = index_update(%x, %3, 0i64, 0i64, axes=[0, 1]);
          %4
        };
        %1
      }"""
    assert rows_taken(text) == 2


def test_elements_of_a_matrix_in_conditions_and_branches_store_no_row() -> None:
    def f(x, i, j):
        return lw.cond(x[i, j] < 0, lambda: x[i - 1, j] - x[i, j], lambda: x[i, j])

    x = np.random.default_rng(0).standard_normal((50, 40))
    g = lw.compile(f)
    for i, j in [(3, 4), (7, -2), (-1, 39)]:
        assert g(x, i, j) == f(x, i, j)
    assert "[50]" not in g.lower(x, 3, 4).as_text("program")

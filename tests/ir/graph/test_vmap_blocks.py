"""Blocks with branches, loops and functions for all rows: as row by row."""

from __future__ import annotations

import numpy as np
from graphs import parse, random_args
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from loopwright.ir.dims import size
from loopwright.ir.errors import UnsupportedError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Function, Module
from loopwright.ir.graph.types import TupleType
from loopwright.ir.graph.verify import verify
from loopwright.ir.graph.vmap import stacked_type
from loopwright.ir.graph.vmap_blocks import AllRows
from random_control_graphs import random_control_modules

COUNT = 4


def all_rows(program: Module, batched, count=COUNT) -> Module:
    """Returns ``program`` for all rows of the arguments that are ``batched``."""
    main, builder = program.main, Builder()
    params = [
        builder.param(p.name, stacked_type(p.type, count) if many else p.type)
        for p, many in zip(main.params, batched, strict=True)
    ]
    pairs = [*zip(main.params, params, batched, strict=True)]
    stacked, whole = ({p: a for p, a, many in pairs if many == side} for side in (True, False))
    rows = AllRows(count, builder, stacked, whole, program)
    assert rows.bindings(main.body.bindings)
    result = main.body.result
    leaves = [rows.spread(leaf) for leaf in rows.leaves(result)]
    value = builder.make_tuple(leaves) if isinstance(result.type, TupleType) else leaves[0]
    return verify(program.with_function("main", Function(tuple(params), builder.block(value))))


def flat(value):
    return [leaf for v in value for leaf in flat(v)] if isinstance(value, tuple) else [value]


def check(program: Module, batched, rows, count=COUNT) -> Module:
    """Compares all rows at once with one after the other."""
    made = all_rows(program, batched, count)
    args = [
        np.stack([row[n] for row in rows]) if many else rows[0][n] for n, many in enumerate(batched)
    ]
    rows = [[a if m else rows[0][n] for n, (a, m) in enumerate(zip(r, batched))] for r in rows]
    expected = zip(*(flat(evaluate(program, *row)) for row in rows), strict=True)
    for value, wanted in zip(flat(evaluate(made, *args)), expected, strict=True):
        np.testing.assert_allclose(value, np.stack(wanted), rtol=1e-5)
        assert value.dtype == wanted[0].dtype
    return made


def ints(*values):
    return [(np.asarray(v, np.int64),) for v in values]


COLLATZ = """fn (%n: int64) -> (int64, int64) {
  while (%k = %n, %steps = 0i64) { not_equal(%k, 1i64) } do {
    %odd = equal(floor_mod(%k, 2i64), 1i64);
    %next = if (%odd) { add(multiply(%k, 3i64), 1i64) } else { floor_divide(%k, 2i64) };
    (%next, add(%steps, 1i64))
  }
}"""


def test_rows_that_have_finished_wait_for_the_others():
    check(parse(COLLATZ), (True,), ints(1, 27, 6, 97))


def test_loops_carry_arrays():
    program = parse(
        """fn (%x: Tensor[(2, 3), float32], %least: float32) {
          while (%y = %x, %n = 0i64) { less(sum(%y), %least) } do {
            (multiply(%y, 2f), add(%n, 1i64))
          }
        }"""
    )
    rows = [(np.full((2, 3), v, np.float32), np.float32(50 * v)) for v in (1, 2, 3, 9)]
    for batched in ((True, True), (True, False), (False, True)):
        check(program, batched, rows)


def test_what_rows_share_stays_whole():
    program = parse(
        """fn (%x: float32, %n: int64) {
          while (%k = 0i64, %y = %x, %z = 1f) { less(%k, %n) } do {
            (add(%k, 1i64), multiply(%y, %z), add(%z, 1f))
          }
        }"""
    )
    made = check(program, (True, False), [(np.float32(v), np.int64(4)) for v in range(COUNT)])
    assert "%z = 1f" in str(made) and "any(" not in str(made)


def test_a_value_becomes_a_stack_by_way_of_another():
    """Only in the third iteration does the first value depend on the rows."""
    program = parse(
        """fn (%x: float32) {
          for (%i < 5i64; %a = 0f, %b = 0f, %c = 0f) { (%b, %c, add(%x, %c)) }
        }"""
    )
    check(program, (True,), [(np.float32(v),) for v in range(COUNT)])


def test_loops_of_different_lengths():
    program = parse(
        """fn (%x: Tensor[(3), float32], %n: int64) {
          for (%i < %n; %y = %x, %s = 0i64) { (multiply(%y, 2f), add(%s, %i)) }
        }"""
    )
    rows = [(np.arange(3, dtype=np.float32) + n, np.int64(n - 1)) for n in range(COUNT)]
    for batched in ((True, True), (False, True), (True, False)):
        made = check(program, batched, rows)
    assert "less(" not in str(made), "rows of one length need no mask"


BRANCH = """fn (%x: Tensor[(3), float32], %p: bool) {
  %y = if (%p) { (multiply(%x, 2f), 1i64) } else { (%x, 2i64) };
  (%y.0, %y.1, %x)
}"""


def test_a_branch_that_rows_share_stays_one():
    rows = [(np.arange(3, dtype=np.float32) + n, np.bool_(n % 2)) for n in range(COUNT)]
    assert "if (" in str(check(parse(BRANCH), (True, False), rows))
    for batched in ((True, True), (False, True)):
        assert "if (" not in str(check(parse(BRANCH), batched, rows))


def test_a_loop_in_a_branch_that_no_row_takes_ends():
    """For rows that go the other way, its condition would hold for ever."""
    program = parse(
        """fn (%x: float32) {
          if (greater(%x, 0f)) {
            %l = while (%y = %x) { less(%y, 100f) } do { (multiply(%y, 2f),) };
            %l.0
          } else { %x }
        }"""
    )
    check(program, (True,), [(np.float32(v),) for v in (0, 3, -1, 500)])


def test_a_loop_in_a_loop_that_has_finished_for_a_row_ends():
    program = parse(
        """fn (%x: float32) {
          while (%y = %x) { and(greater(%y, 0f), less(%y, 1000f)) } do {
            %l = while (%z = %y) { less(%z, 10f) } do { (multiply(%z, 2f),) };
            (multiply(%l.0, 3f),)
          }
        }""".replace("and(", "logical_and(")
    )
    check(program, (True,), [(np.float32(v),) for v in (0, 3, -1, 500)])


TUPLES = """fn (%x: (Tensor[(2), float32], (int64, float32)), %k: int64) {
  %inner = %x.1;
  %f = fn (%a: float32, %b: (int64, float32)) { (add(%a, %b.1), %b) };
  %made = %f(%inner.1, %inner);
  (%made.0, (%made.1, add(%inner.0, %k)))
}"""


def test_tuples_and_function_values():
    program = parse(TUPLES)
    made = all_rows(program, (True, False))
    pair = (np.arange(4), np.arange(4, dtype=np.float32) / 2)
    vectors = np.ones((4, 2), np.float32)
    first, ((ints_of, floats_of), last) = evaluate(
        program, (vectors[0], (pair[0][3], pair[1][3])), 7
    )
    every = flat(evaluate(made, (vectors, pair), 7))
    for value, wanted in zip(every, (first, ints_of, floats_of, last), strict=True):
        np.testing.assert_array_equal(value[3], wanted)


def test_functions_of_the_module():
    program = parse(
        """def @main(%x: float32, %n: int64) {
          %a = @power(2f, %n);
          %b = @double(%x);
          (%a, add(%a, @double(%b)))
        }
        def @double(%x: float32) -> float32 { add(%x, %x) }
        def @power(%x: float32, %n: int64) -> float32 {
          if (equal(%n, 0i64)) { 1f } else { multiply(%x, @power(%x, subtract(%n, 1i64))) }
        }"""
    )
    rows = [(np.float32(v), np.int64(5)) for v in range(COUNT)]
    made = check(program, (True, False), rows)
    assert "@power(2f" in str(made) and "@double(" not in str(made.main)
    made = check(program, (False, True), [(np.float32(1.5), np.int64(n)) for n in range(COUNT)])
    assert "for (%row" in str(made.main)


def test_the_number_of_rows_may_be_symbolic():
    for text, batched in ((COLLATZ, (True,)), (BRANCH, (True, True))):
        program = parse(text)
        rows = [random_args(program, seed) for seed in range(COUNT)]
        if text is COLLATZ:
            rows = ints(1, 27, 6, 97)
        check(program, batched, rows, size("rows", 1))


@settings(max_examples=150)
@given(random_control_modules(), st.data())
def test_random_programs(program: Module, data: st.DataObject) -> None:
    params = program.main.params
    batched = tuple(data.draw(st.lists(st.booleans(), min_size=len(params), max_size=len(params))))
    rows = [random_args(program, seed) for seed in range(COUNT)]
    try:
        check(program, batched, rows)
    except UnsupportedError as error:
        assert "calls itself" in str(error)
        assume(False)

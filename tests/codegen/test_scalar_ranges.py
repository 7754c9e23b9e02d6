"""Ranges of scalars, found by executing programs on intervals."""

import re

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import InternalError
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.nodes import For, Program
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.verify import verify


def _ranges(function, *args) -> list[str]:
    text = lw.compile(function).lower(*args).as_text("program")
    return re.findall(r"in (\[-?\d+, -?\d+\])", text)


X = np.zeros(50)


def test_a_counter_lies_below_its_extent():
    def total(x):
        return lw.fori_loop(0, 40, lambda i, s: s * x[i + 3] + x[i * 1], 0.0)

    assert set(_ranges(total, X)) == {"[0, 39]"}


def test_a_condition_bounds_what_grows():
    def search(x, wanted):
        return lw.while_loop(lambda i: (i < 47) & (x[i] != wanted), lambda i: i + 2, 0)

    # The condition is evaluated once more at the end.
    assert _ranges(search, X, 2.0) == ["[0, 48]"]


def test_a_condition_bounds_what_shrinks():
    def insert(x, i):
        def shift(s):
            y, j = s
            y[j] = y[j - 1]
            return y, j - 1

        return lw.while_loop(lambda s: s[1] > 0, shift, (x.copy(), np.minimum(i, 49)))

    assert set(_ranges(insert, X, np.int64(7))) <= {"[1, 49]", "[0, 48]"}
    assert _ranges(insert, X, np.int64(7))


def test_a_branch_knows_its_condition():
    def f(x, i):
        def step(_, s):
            return lw.cond((i >= 5) & (i < 9), lambda: s * 0.5 + x[i], lambda: s)

        return lw.fori_loop(0, 10, step, 0.0)

    assert set(_ranges(f, X, np.int64(3))) <= {"[5, 8]"}


def test_what_overflows_has_no_range():
    def f(x):
        def step(c):
            i, s = c
            return i * 3, s + x[i]

        return lw.while_loop(lambda c: c[0] != 0, step, (1, 0.0))

    assert _ranges(f, X) == []


def test_another_index_than_stated_is_found():
    program = parse_program(
        """program @f(@in %i: int64[], @out %y: int64[]) {
             call inline @double(@in %i, @out %y) where %i in [-1, 3]
           }"""
    )
    assert str(parse_program(str(program))) == str(program)

    def double(i, y):
        y[...] = 2 * i

    assert interpret(program, [np.array(-1)], {"double": double}) == [np.array(-2)]
    with pytest.raises(InternalError, match=r"%i is 4"):
        interpret(program, [np.array(4)], {"double": double})


def test_a_result_that_lies_over_an_operand_is_not_what_was_there_before() -> None:
    def f(x, n):
        m = lw.fori_loop(1, n, lambda i, m: lw.cond(x[1] > 5, lambda: 2, lambda: m), 2)
        k = 1 - m  # of a kernel that writes it where ``m`` was, and then reads it
        x[k % 6] += 1.0
        return k, k % 6

    x = np.zeros(6)
    assert lw.compile(f)(x, np.int64(5)) == (-1, 5) and x.tolist() == [0, 0, 0, 0, 0, 1]


def test_chains_of_choices_are_longer_than_the_stack() -> None:
    def f(n):
        def step(_, s):
            for k in range(1200):
                s = np.where(s > k, s - 1, s + k % 3)
            return s

        return lw.fori_loop(0, 2, step, n)

    assert lw.compile(f)(np.int64(5)) == f(5)


def test_what_the_iterations_of_an_inner_loop_are_at_most() -> None:
    def triangle(x, n):
        total = 0.0
        for i in range(20):
            for j in range(i):
                total = total * 0.5 + x[j]
        for i in range(n):
            total = total * 0.5 + x[i]
        return total

    compiled = lw.compile(triangle)
    lowered = compiled.lower(X, 30)
    program = lowered.as_text("program")
    assert re.findall(r"< (%\S+ at most \d+|%n)", program) == ["%i at most 19", "%n"]
    assert str(parse_program(program)).rstrip() == program.rstrip()
    text = lowered.as_text("llvm")
    assert text.count("call i64 @lw_poll") == 2  # in both copies of the last loop
    x = np.arange(50.0)
    for n in (0, 7, 50):
        assert compiled(x, n) == triangle(x, n)


def test_more_iterations_than_stated_are_found() -> None:
    text = """program @f(@in %n: int64[], @inout %y: int64[]) {
      for %i: int64[] < %n at most 3 {
        call @next(@inout %y, @inout %y)
      }
    }"""
    program = parse_program(text.replace("@inout %y: int64[]", "@out %y: int64[]"))
    loop = program.body[0]
    assert isinstance(loop, For)
    assert (loop.extent, loop.most) == ("n", 3)
    assert str(parse_program(str(program))) == str(program)

    def following(before, after):
        after[...] = before + 1

    kernels = {"next": following}
    assert interpret(program, [np.array(3)], kernels)
    with pytest.raises(InternalError, match="there are 4 iterations"):
        interpret(program, [np.array(4)], kernels)
    with pytest.raises(InternalError, match="3 iterations are not at most 5"):
        verify(Program("f", (), (), (), (For(loop.index, 3, (), most=5),), 0))

"""Sizes that instructions set: text, verifier, plan, interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.ir.errors import InternalError, LoopwrightError
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.planner import plan_memory
from loopwright.ir.program.verify import verify

TEXT = """program @f(@in %x: float32[n, 4], @in %c: int64[], @out %y: float32[s]) for n in 0..64 {
  size s = %c at most n
  %a = alloc float32[s, 4]
  call @double(@in %x, @out %a) sizes (n, s)
  call @sum(@in %a, @out %y) sizes (s)
  free %a
}
"""


def _double(x, out, rows, size):
    assert x.shape[0] == rows and out.shape[0] == size
    out[...] = 2 * x[:size]


def _sum(a, out, size):
    out[...] = a.sum(1)


KERNELS = {"double": _double, "sum": _sum}


def test_text_parses_back_and_the_plan_is_for_the_upper_bound() -> None:
    program = verify(parse_program(TEXT))
    assert str(program) == TEXT
    planned = verify(plan_memory(program))
    assert planned.arena == 64 * 4 * 4
    assert parse_program(str(planned)) == planned


@pytest.mark.parametrize("count", [0, 3, 7])
def test_the_interpreter_runs_for_the_size_that_is_set(count: int) -> None:
    x = np.arange(28, dtype=np.float32).reshape(7, 4)
    for program in (parse_program(TEXT), plan_memory(parse_program(TEXT))):
        (got,) = interpret(program, [x, np.array(count)], KERNELS)
        np.testing.assert_array_equal(got, 2 * x[:count].sum(1))


def test_a_size_beyond_its_bound_is_an_error() -> None:
    with pytest.raises(LoopwrightError, match="s is 8, and at most 7"):
        interpret(parse_program(TEXT), [np.ones((7, 4), np.float32), np.array(8)], KERNELS)


def test_a_size_is_known_in_its_block_only() -> None:
    text = """program @main(@in %c: int64[], @in %b: bool[], @out %y: int64[]) {
  if %b {
    size s = %c at most 8
  }
  %a = alloc int64[s]
  call @f(@out %a)
  copy @in %c, @out %y
  free %a
}
"""
    with pytest.raises(InternalError, match="the size s is not declared"):
        verify(parse_program(text))

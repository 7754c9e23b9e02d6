"""The interpreter: programs run on NumPy arrays."""

import numpy as np
import pytest
from kernels_in_numpy import writing
from loopwright.ir.errors import InternalError
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.parser import parse_program

KERNELS = {
    "double": writing(lambda x: 2 * x),
    "split": writing(lambda x: (x[:2], x[2:]), outputs=2),
}


def test_calls_copies_and_aliases():
    program = parse_program(
        """program @f(@in %x: float32[4], @out %y: float32[2, 2], @out %z: float32[4]) {
          const %c: float32[4]
          %a = alloc float32[4]
          call @double(@in %x, @out %a)
          %v = alias %a as float32[2, 2]
          call @double(@inout %v, @inout %v)
          copy @in %a, @out %y
          copy @in %c, @out %z
          free %a
        }"""
    )
    x, c = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    y, z = interpret(program, [x], KERNELS, {"c": c})
    np.testing.assert_array_equal(y, 4 * x.reshape(2, 2))
    np.testing.assert_array_equal(z, c)
    with pytest.raises(InternalError, match="has no value"):
        interpret(program, [x], KERNELS)


def test_several_results_and_parts_of_memory():
    program = parse_program(
        """program @f(@in %x: int32[4], @out %y: int32[4]) {
          %hi = alias %y as int32[2] + 8
          %lo = alias %y as int32[2]
          call @split(@in %x, @out %hi, @out %lo)
        }"""
    )
    (y,) = interpret(program, [np.array([1, 2, 3, 4], np.int32)], KERNELS)
    np.testing.assert_array_equal(y, [3, 4, 1, 2])


def test_a_workspace_is_handed_over_last():
    def kernel(x, y, workspace):
        workspace[...] = 1
        y[...] = x + workspace.view(np.int8)

    program = parse_program(
        """program @f(@in %x: int8[2], @out %y: int8[2]) arena 64 bytes {
          %w = alloc uint8[2] at 0
          call @k(@in %x, @out %y) workspace %w
          free %w
        }"""
    )
    (y,) = interpret(program, [np.array([5, 6], np.int8)], {"k": kernel})
    np.testing.assert_array_equal(y, [6, 7])


def test_a_plan_that_shares_bytes_shows_in_the_result():
    text = """program @f(@in %x: float32[4], @out %y: float32[4]) arena 128 bytes {{
      %a = alloc float32[4] at 0
      call @double(@in %x, @out %a)
      %b = alloc float32[4] at {}
      call @double(@in %a, @out %y)
      free %a
      free %b
    }}"""
    x = np.arange(4, dtype=np.float32)
    apart, shared = (interpret(parse_program(text.format(at)), [x], KERNELS)[0] for at in (64, 0))
    np.testing.assert_array_equal(apart, 4 * x)
    assert not np.array_equal(shared, apart)


def test_arguments_are_checked():
    program = parse_program("program @f(@in %x: int8[2]) {}")
    with pytest.raises(TypeError, match=r"%x: int8\[2\] was given int8\[3\]"):
        interpret(program, [np.zeros(3, np.int8)], {})

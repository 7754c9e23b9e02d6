"""The passes: the examples of their docstrings, and what they must leave alone."""

import inspect
import re
import textwrap

import pytest
from loopwright.ir.program.coalesce import coalesce
from loopwright.ir.program.copies import eliminate_copies
from loopwright.ir.program.in_place import share_in_place
from loopwright.ir.program.lifetimes import place_lifetimes
from loopwright.ir.program.order import order_calls
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.reads_first import order_reads
from loopwright.ir.program.registers import keep_in_registers
from loopwright.ir.program.return_in_place import return_in_place
from loopwright.ir.program.updates import update_in_place
from loopwright.ir.program.verify import verify


def _always(call, read, written, begin=0):
    return True


def _share(program):
    return share_in_place(program, lambda call, i, o: call.kernel == "relu")


def _update(program):
    return update_in_place(program, lambda call, i, o, begin: True, lambda call, i: None)


def _programs(function):
    """The programs in a docstring, in order."""
    text = inspect.cleandoc(function.__doc__)
    found = re.findall(
        r"^    program .*?^    }$(?:\n    function .*?^    }$)*", text, re.MULTILINE | re.DOTALL
    )
    return [parse_program(textwrap.dedent(t)) for t in found]


@pytest.mark.parametrize(
    ("documented", "run"),
    [
        (place_lifetimes, place_lifetimes),
        (eliminate_copies, eliminate_copies),
        (order_calls, order_calls),
        (share_in_place, _share),
        (update_in_place, _update),
        (return_in_place, lambda p: return_in_place(p, _always)),
        (order_reads, lambda p: order_reads(p, _always)),
        (coalesce, lambda p: coalesce(p, _always)),
        (keep_in_registers, lambda p: keep_in_registers(p, lambda call: False)),
    ],
)
def test_the_documented_example(documented, run):
    before, after = _programs(documented)
    verify(before)
    assert str(run(before)) == str(after)
    verify(after)
    assert run(after) is after


def _same(run, text):
    program = parse_program(text)
    verify(program)
    assert run(program) is program


HEAD = "program @f(@in %x: float32[4], @out %y: float32[4])"


@pytest.mark.parametrize(
    "body",
    [
        "copy @in %x, @out %y",
        # The output is touched before the copy.
        """copy @in %x, @out %y
           %a = alloc float32[4]
           call @f(@in %y, @out %a)
           copy @in %a, @out %y
           free %a""",
        # The source changes after the copy.
        """%a = alloc float32[4]
           call @f(@in %x, @out %a)
           copy @in %a, @out %y
           call @g(@inout %a)
           free %a""",
        # Only a part of the source is copied.
        """%a = alloc float32[8]
           call @f(@in %x, @out %a)
           %v = alias %a as float32[4] + 16
           copy @in %v, @out %y
           free %a""",
    ],
)
def test_copies_that_must_stay(body):
    _same(eliminate_copies, f"{HEAD} {{ {body} }}")


def test_a_result_returned_twice_is_copied_once():
    program = parse_program(
        """program @f(@in %x: int8[4], @out %y: int8[4], @out %z: int8[4]) {
          %a = alloc int8[4]
          call @f(@in %x, @out %a)
          copy @in %a, @out %y
          copy @in %a, @out %z
          free %a
        }"""
    )
    after = verify(eliminate_copies(program))
    assert [str(i) for i in after.body] == ["call @f(@in %x, @out %y)", "copy @in %y, @out %z"]


@pytest.mark.parametrize(
    "body",
    [
        # An input of the program is never written over.
        "call @f(@in %x, @out %y)",
        # The operand is read again.
        """%a = alloc float32[4]
           call @f(@in %x, @out %a)
           %b = alloc float32[4]
           call @f(@in %a, @out %b)
           call @g(@in %a, @in %b, @out %y)
           free %a
           free %b""",
        # The sizes differ.
        """%a = alloc float32[8]
           call @f(@in %x, @out %a)
           call @f(@in %a, @out %y)
           free %a""",
        # The operand is handed over twice.
        """%a = alloc float32[4]
           call @f(@in %x, @out %a)
           call @f(@in %a, @in %a, @out %y)
           free %a""",
    ],
)
def test_operands_that_must_not_be_written_over(body):
    _same(
        lambda p: share_in_place(p, lambda call, i, o: call.kernel == "f"), f"{HEAD} {{ {body} }}"
    )


def test_a_chain_runs_in_the_memory_of_the_output():
    program = parse_program(
        HEAD
        + """ {
          %a = alloc float32[4]
          call @f(@in %x, @out %a)
          %b = alloc float32[2, 2]
          call @g(@in %a, @out %b)
          free %a
          call @h(@in %b, @out %y)
          free %b
        }"""
    )
    after = verify(share_in_place(program, _always))
    assert [str(i) for i in after.body] == [
        "call @f(@in %x, @out %y)",
        "%b = alias %y as float32[2, 2]",
        "call @g(@inout %y, @inout %b)",
        "call @h(@inout %b, @inout %y)",
    ]


def test_only_one_output_takes_the_memory_of_an_operand():
    program = parse_program(
        """program @f(@in %x: int8[4], @out %y: int8[4], @out %z: int8[4]) {
          %a = alloc int8[4]
          call @f(@in %x, @out %a)
          call @g(@in %a, @out %y, @out %z)
          free %a
        }"""
    )
    after = verify(share_in_place(program, _always))
    assert str(after.body[-1]) == "call @g(@inout %y, @inout %y, @out %z)"


def test_an_order_that_needs_no_less_memory_stays():
    _same(
        order_calls,
        HEAD
        + """ {
          %a = alloc float32[4]
          call @f(@in %x, @out %a)
          %b = alloc float32[4]
          call @g(@in %x, @out %b)
          call @add(@in %a, @in %b, @out %y)
          free %a
          free %b
        }""",
    )


def test_order_keeps_writers_and_readers_apart():
    program = parse_program(
        """program @f(@in %x: int8[4], @out %y: int8[4], @out %z: int8[4]) {
          %a = alloc int8[100]
          call @f(@in %x, @out %a)
          %b = alloc int8[100]
          call @f(@in %x, @out %b)
          call @inc(@inout %a)
          call @g(@in %a, @out %y)
          call @inc(@inout %a)
          call @h(@in %a, @in %b, @out %z)
          free %a
          free %b
        }"""
    )
    _same(order_calls, str(program))


def test_the_whole_pipeline_settles_at_once():
    program = parse_program(
        HEAD
        + """ {
          const %w: float32[4, 4]
          %a = alloc float32[4]
          %b = alloc float32[4]
          call @dense(@in %x, @in %w, @out %a)
          call @relu(@in %a, @out %b)
          copy @in %b, @out %y
          free %a
          free %b
        }"""
    )
    after = verify(optimise(program, _always))
    assert str(after) == (
        "program @f(@in %x: float32[4], @out %y: float32[4]) arena 0 bytes {\n"
        "  const %w: float32[4, 4]\n"
        "  call @dense(@in %x, @in %w, @out %y)\n"
        "  call @relu(@inout %y, @inout %y)\n"
        "}\n"
    )
    assert optimise(after, _always) is after


def test_reads_stay_behind_the_size_that_they_need():
    text = """program @f(@in %x: float32[99], @in %k: int64[], @out %y: int8[], @out %z: int8[4]) {
  const %c: int8[4]
  %n = alloc int64[]
  call @where_and_limit(@in %x, @in %k, @out %y, @out %n)
  size s0.data = %n at most 99
  %s = alloc int8[4]
  call @sum(@in %x, @out %s) sizes (s0.data)
  copy @in %c, @out %z
  call @add(@in %s, @inout %z)
  free %s
  free %n
}
"""
    verify(order_reads(verify(parse_program(text)), _always))

"""Functions that return the new value of an input in its memory, and those that must not."""

from __future__ import annotations

import numpy as np
import pytest
from kernels_in_numpy import writing
from loopwright.ir.errors import InternalError
from loopwright.ir.program.analysis import walk
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.nodes import Copy, Program
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.return_in_place import return_in_place
from loopwright.ir.program.verify import verify


def _set(index, target):
    target[int(index) % target.size] = index + 1


KERNELS = {
    "add": writing(lambda *xs: sum(xs) + 1),
    "less": writing(lambda n: n - 1),
    "more": writing(lambda n: n > 0),
    "set": _set,
}
ARRAYS = "@in %a: int64[100], @in %n: int64[], @out %b: int64[100]"


def safe(call, read, written, begin=0):
    return call.kernel == "add"


def _optimised(main: str, function: str, params: str = ARRAYS) -> Program:
    """A program and its recursive function after all passes, with the same results."""
    text = f"""
    program @main(@in %x: int64[100], @in %n: int64[], @out %y: int64[100]) {{ {main} }}
    function program @f({params}) {{
      %more = alloc bool[]
      call @more(@in %n, @out %more)
      %m = alloc int64[]
      call @less(@in %n, @out %m)
      {function}
      free %more
      free %m
    }}"""
    before = verify(parse_program(text))
    after = verify(optimise(before, safe))
    assert optimise(after, safe) is after
    assert parse_program(str(after)) == after
    for n in (0, 1, 4):
        inputs = [np.arange(100), np.array(n)]
        (got,), (wanted,) = (interpret(p, inputs, KERNELS) for p in (after, before))
        np.testing.assert_array_equal(got, wanted)
    return after


def _copies(program: Program) -> list[str]:
    """The copies of arrays, of the program and of its function."""
    bodies = (program.body, program.functions[0].body)
    names = {r.name for p in (program, *program.functions) for r, _ in p.params}
    names |= {"c", "d", "e", "z"}
    copies = [i for body in bodies for i in walk(body) if isinstance(i, Copy)]
    return [f"{c.source} -> {c.target}" for c in copies if {c.source, c.target} <= names]


TWICE = """
if %more {
  %c = alloc int64[100]
  copy @in %a, @out %c
  call @set(@in %n, @inout %c)
  %d = alloc int64[100]
  invoke @f(@in %c, @in %m, @out %d) on stack
  %e = alloc int64[100]
  copy @in %d, @out %e
  call @set(@in %m, @inout %e)
  invoke @f(@in %e, @in %m, @out %b) on stack
  free %c
  free %d
  free %e
} else { copy @in %a, @out %b }"""


def test_a_function_that_calls_itself_twice_copies_nothing():
    program = _optimised("invoke @f(@in %x, @in %n, @out %y) on stack", TWICE)
    assert program.functions[0].inout == ("a",)
    assert not program.functions[0].outputs
    assert _copies(program) == ["x -> y"]


def test_who_needs_the_old_value_copies_it_before_the_call():
    main = """%z = alloc int64[100]
    call @add(@in %x, @out %z)
    %c = alloc int64[100]
    invoke @f(@in %z, @in %n, @out %c) on stack
    call @add(@in %z, @in %c, @out %y)
    free %z
    free %c"""
    assert _copies(_optimised(main, TWICE)) == ["z -> y"]


def test_a_function_that_needs_the_old_value_copies_it():
    function = """if %more {
      %c = alloc int64[100]
      copy @in %a, @out %c
      call @set(@in %n, @inout %c)
      %d = alloc int64[100]
      invoke @f(@in %c, @in %m, @out %d) on stack
      %e = alloc int64[100]
      call @add(@in %d, @in %a, @out %e)
      copy @in %e, @out %b
      free %c
      free %d
      free %e
    } else { copy @in %a, @out %b }"""
    program = _optimised("invoke @f(@in %x, @in %n, @out %y) on stack", function)
    assert program.functions[0].inout == ("a",)
    assert len(_copies(program)) == 2  # that of main, and one of the function


def test_what_is_new_on_one_path_is_a_result():
    function = """if %more {
      call @add(@in %a, @out %b)
    } else { copy @in %a, @out %b }"""
    program = _optimised("invoke @f(@in %x, @in %n, @out %y) on stack", function)
    assert not program.functions[0].inout


def test_results_in_another_order_than_the_inputs():
    params = "@in %a: int64[100], @in %c: int64[100], @in %n: int64[], "
    params += "@out %b: int64[100], @out %d: int64[100]"
    main = """%z = alloc int64[100]
    call @add(@in %x, @out %z)
    %c = alloc int64[100]
    %d = alloc int64[100]
    invoke @f(@in %x, @in %z, @in %n, @out %c, @out %d) on stack
    call @add(@in %c, @in %c, @in %d, @out %y)
    free %z
    free %c
    free %d"""
    function = """if %more {
      call @set(@in %n, @inout %k)
      invoke @f(@in %k, @in %c, @in %m, @out %b, @out %d) on stack
    } else {
      copy @in %k, @out %d
      copy @in %c, @out %b
    }"""
    function = f"%k = alloc int64[100] copy @in %a, @out %k {function} free %k"
    program = _optimised(main, function, params)
    assert program.functions[0].inout == ("a", "c")
    assert _copies(program) == ["x -> d"]


@pytest.mark.parametrize(
    ("body", "function", "message"),
    [
        ("invoke @g(@in %x) on stack", "", "@f: %x is given to @inout %a"),
        ("invoke @g(@inout %x) on stack", "", "@f: %x is read-only"),
        ("invoke @g(@inout %y) on stack", "", "@f: %y is read before it is written"),
        ("copy @in %x, @out %y", "invoke @g(@out %a) on stack", "@g: %a is given to @inout %a"),
    ],
)
def test_a_wrong_use_of_what_is_written_is_refused(body, function, message):
    text = f"program @f(@in %x: int64[], @out %y: int64[]) {{ {body} }}"
    text += f"function program @g(@inout %a: int64[]) {{ {function} }}"
    with pytest.raises(InternalError) as error:
        verify(parse_program(text))
    assert str(error.value).splitlines()[0] == f"program {message}"


def test_the_program_itself_writes_no_input():
    with pytest.raises(InternalError, match="a function alone has @inout parameters"):
        verify(parse_program("program @f(@inout %x: int64[]) { }"))


def test_small_results_stay_results():
    text = """program @main(@in %x: int64[8], @out %y: int64[8]) {
      invoke @f(@in %x, @out %y) on stack
    }
    function program @f(@in %a: int64[8], @out %b: int64[8]) { copy @in %a, @out %b }"""
    program = parse_program(text)
    assert return_in_place(program, safe) is program

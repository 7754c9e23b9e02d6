"""Loops, branches and functions in programs: their texts, what they mean, and what is wrong."""

import numpy as np
import pytest
from kernels_in_numpy import writing
from loopwright.ir.errors import InternalError, ParseError
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.verify import verify

I64 = np.int64
KERNELS = {
    "is_less": writing(lambda a, b: a < b),
    "is_zero": writing(lambda a: a == 0),
    "is_even": writing(lambda a: a % 2 == 0),
    "add": writing(lambda a, b: a + b),
    "half": writing(lambda a: a // 2),
    "triple": writing(lambda a: 3 * a + 1),
    "less_one": writing(lambda a: a - 1),
    "mul": writing(lambda a, b: a * b),
    "one": writing(lambda: 1),
    "zero": writing(lambda: 0),
}

# As the graph gives it: a carried value has memory of its own, which is declared before the loop;
# initial values are copied there, and the next ones at the end of the body.
COUNT = """\
program @main(@in %n: int64[], @in %step: int64[], @out %out: int64[]) {
  const %zero: int64[]
  %i = alloc int64[]
  copy @in %zero, @out %i
  %c = alloc bool[]
  while {
    call @is_less(@in %i, @in %n, @out %c)
  } %c do {
    %next = alloc int64[]
    call @add(@in %i, @in %step, @out %next)
    copy @in %next, @out %i
    free %next
  }
  free %c
  copy @in %i, @out %out
  free %i
}
"""

# A branch copies its results to memory that is declared before the ``if``.
COLLATZ_STEP = """\
program @main(@in %n: int64[], @out %out: int64[]) {
  %even = alloc bool[]
  call @is_even(@in %n, @out %even)
  %r = alloc int64[]
  if %even {
    %a = alloc int64[]
    call @half(@in %n, @out %a)
    copy @in %a, @out %r
    free %a
  } else {
    %b = alloc int64[]
    call @triple(@in %n, @out %b)
    copy @in %b, @out %r
    free %b
  }
  free %even
  copy @in %r, @out %out
  free %r
}
"""

# (a, b) -> (b, a + b): a new value that is another carried one goes through a temporary.
FIBONACCI = """\
program @main(@in %n: int64[], @out %out: int64[]) {
  const %zero: int64[], %one: int64[]
  %a = alloc int64[]
  copy @in %zero, @out %a
  %b = alloc int64[]
  copy @in %one, @out %b
  for %i: int64[] < %n {
    %sum = alloc int64[]
    call @add(@in %a, @in %b, @out %sum)
    %t = alloc int64[]
    copy @in %b, @out %t
    copy @in %sum, @out %b
    free %sum
    copy @in %t, @out %a
    free %t
  }
  free %b
  copy @in %a, @out %out
  free %a
}
"""

FACTORIAL = """\
program @main(@in %n: int64[], @out %out: int64[]) {
  %r = alloc int64[]
  invoke @factorial(@in %n, @out %r) on stack
  copy @in %r, @out %out
  free %r
}
function program @factorial(@in %n: int64[], @out %out: int64[]) {
  %end = alloc bool[]
  call @is_zero(@in %n, @out %end)
  %r = alloc int64[]
  if %end {
    call @one(@out %r)
  } else {
    %m = alloc int64[]
    call @less_one(@in %n, @out %m)
    %f = alloc int64[]
    invoke @factorial(@in %m, @out %f) on stack
    free %m
    %p = alloc int64[]
    call @mul(@in %n, @in %f, @out %p)
    free %f
    copy @in %p, @out %r
    free %p
  }
  free %end
  copy @in %r, @out %out
  free %r
}
"""

SWAPPED = """\
program @main(@in %x: float32[4], @out %out: float32[4]) {
  %a = alloc float32[4]
  copy @in %x, @out %a
  %b = alloc float32[4]
  for %i: int64[] < 3 {
    call @add(@in %a, @in %a, @out %b)
    swap %a, %b
  }
  copy @in %a, @out %out
  free %a
  free %b
}
"""

CONSTANTS = {"zero": np.array(0), "one": np.array(1)}


def _run(text, *inputs):
    program = verify(parse_program(text))
    constants = {c.region.name: CONSTANTS[c.region.name] for c in program.constants}
    (result,) = interpret(program, [np.asarray(x) for x in inputs], KERNELS, constants)
    return result


@pytest.mark.parametrize("text", [COUNT, COLLATZ_STEP, FIBONACCI, FACTORIAL, SWAPPED])
def test_what_prints_parses_back(text):
    program = parse_program(text)
    assert str(program) == text
    assert parse_program(str(program)) == program


def test_what_is_marked_prints():
    text = (
        "program @f(@in %x: int64[], @out %y: int64[]) arena 128 bytes {\n"
        "  %c = alloc bool[]                                        in registers\n"
        "  %s = alloc uint8[64]                                     at 64\n"
        "  call inline @is_zero(@in %x, @out %c)\n"
        "  invoke @g(@in %x, @out %y) frame %s\n"
        "  free %c\n"
        "  free %s\n"
        "}\n"
        "function program @g(@in %x: int64[], @out %y: int64[]) arena 64 bytes {\n"
        "  copy @in %x, @out %y\n"
        "}\n"
    )
    assert str(verify(parse_program(text))) == text


def test_while():
    assert [int(_run(COUNT, n, 3)) for n in (0, 1, 7, 9)] == [0, 3, 9, 9]


def test_if():
    assert [int(_run(COLLATZ_STEP, n)) for n in (6, 7)] == [3, 22]


def test_for():
    assert [int(_run(FIBONACCI, n)) for n in (-1, 0, 1, 10)] == [0, 0, 1, 55]


def test_an_index_counts():
    text = """program @f(@in %n: int64[], @out %s: int64[]) {
      call @zero(@out %s)
      for %i: int64[] < %n { for %j: int64[] < %i { call @add(@inout %s, @in %j, @inout %s) } }
    }"""
    assert int(_run(text, 6)) == sum(j for i in range(6) for j in range(i))


def test_recursion():
    assert int(_run(FACTORIAL, 10)) == 3628800


def test_recursion_is_as_deep_as_its_limit():
    program = parse_program(FACTORIAL)
    assert int(interpret(program, [np.array(5000)], KERNELS)[0]) == 0  # 5000! mod 2 ** 64
    with pytest.raises(RecursionError, match="@factorial runs 100 times inside of itself"):
        interpret(program, [np.array(5000)], KERNELS, deepest=100)


def test_swapped_memory():
    np.testing.assert_array_equal(_run(SWAPPED, np.arange(4, dtype=np.float32)), [0, 8, 16, 24])


def test_many_iterations_take_no_stack():
    text = COUNT.replace("%step: int64[]", "%step: int64[]")
    assert int(_run(text, 20_000, 1)) == 20_000


HEAD = "program @f(@in %x: int64[], @in %p: bool[], @out %y: int64[])"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        # Written on one path only, or in a loop that may not run.
        ("if %p { copy @in %x, @out %y }", "the output %y is not written"),
        ("for %i: int64[] < %x { copy @in %x, @out %y }", "the output %y is not written"),
        ("for %i: int64[] < 0 { copy @in %x, @out %y }", "the output %y is not written"),
        (
            "%a = alloc int64[] for %i: int64[] < 9 { copy @in %a, @out %y copy @in %x, @out %a }",
            "%a is read before it is written",
        ),
        (
            "%c = alloc bool[] while { } %c do { call @f(@out %c) } copy @in %x, @out %y",
            "%c is read before it is written",
        ),
        # The content goes to the other name, and comes back in the second iteration only.
        (
            "%a = alloc int64[] copy @in %x, @out %a %b = alloc int64[] "
            "for %i: int64[] < 9 { copy @in %a, @out %y swap %a, %b } free %a free %b",
            "%a is read before it is written",
        ),
        # Lifetimes.
        ("if %p { %a = alloc int64[] } copy @in %x, @out %y", "%a is never freed"),
        ("%a = alloc int64[] if %p { free %a }", "%a is allocated in another block"),
        ("for %i: int64[] < 9 { } copy @in %i, @out %y", "%i is not declared"),
        ("if %p { %v = alias %x as int64[1] } copy @in %v, @out %y", "%v is not declared"),
        (
            "if %p { %a = alloc int64[] free %a } else { %a = alloc int64[] free %a }",
            "%a is declared twice",
        ),
        # Types.
        ("if %x { }", "the condition %x is int64[], not bool[]"),
        ("while { } %x do { }", "the condition %x is int64[], not bool[]"),
        ("for %i: int64[] < %p { }", "the extent %p is bool[], not int64[]"),
        ("for %i: int32[] < 9 { }", "the index %i is int32[], not an int64[]"),
        ("for %i: int64[] < 9 { copy @in %x, @out %i }", "%i is read-only"),
        # Swaps.
        ("swap %x, %y", "%x is not an allocation in memory"),
        ("%a = alloc int64[] %b = alloc int8[] swap %a, %b", "what is swapped is the same, or"),
        (
            "for %i: int64[] < 9 { %a = alloc int64[] %b = alloc int64[] swap %a, %b }",
            "%a is allocated inside of the loop",
        ),
        (
            "%a = alloc int64[] %b = alloc int64[] swap %a, %b free %a copy @in %x, @out %b",
            "%b may be in the memory of %a, which ended",
        ),
        (
            "%a = alloc int64[] for %i: int64[] < 9 { %b = alloc int64[] "
            "for %j: int64[] < 9 { swap %a, %b } free %b } free %a",
            "what is swapped is allocated in different blocks",
        ),
        # Functions.
        ("invoke @g(@in %x, @out %y) on stack", "there is no function @g"),
    ],
)
def test_a_wrong_program_is_refused(body, message):
    with pytest.raises(InternalError) as error:
        verify(parse_program(f"{HEAD} {{ {body} }}"))
    assert str(error.value).splitlines()[0].startswith(f"program @f: {message}")


def test_what_is_written_on_all_paths_is_written():
    verify(
        parse_program(
            HEAD
            + """ {
              %a = alloc int64[]
              if %p { copy @in %x, @out %a } else { call @f(@out %a) }
              for %i: int64[] < 1 { copy @in %a, @out %y }
              free %a
            }"""
        )
    )


@pytest.mark.parametrize(
    ("body", "function", "message"),
    [
        ("invoke @g(@in %x) on stack", "", "@g takes 2 operands"),
        ("invoke @g(@in %p, @out %y) on stack", "", "%p: bool[] is given to %a: int64[]"),
        ("invoke @g(@out %y, @in %x) on stack", "", "%y is given to @in %a"),
        (
            "%f = alloc uint8[64] invoke @g(@in %x, @out %y) frame %f free %f",
            "",
            "%f: uint8[64] is not an arena of @g",
        ),
        (
            "%f = alloc uint8[64] invoke @g(@in %x, @out %y) frame %f free %f",
            "invoke @g(@in %a, @out %b) on stack",
            "@g is recursive, but its frame is not on the stack",
        ),
    ],
)
def test_a_wrong_invocation_is_refused(body, function, message):
    text = f"{HEAD} {{ {body} }}\nfunction program @g(@in %a: int64[], @out %b: int64[])"
    with pytest.raises(InternalError) as error:
        verify(parse_program(f"{text} {{ {function} copy @in %a, @out %b }}"))
    assert str(error.value).splitlines()[0] == f"program @f: {message}"


def test_a_plan_counts_what_lives_around_a_loop():
    text = """program @f(@in %x: int64[], @out %y: int64[]) arena 128 bytes {{
      %a = alloc int64[] at 0
      copy @in %x, @out %a
      for %i: int64[] < 3 {{
        %b = alloc int64[] at {}
        call @add(@in %a, @in %i, @out %b)
        copy @in %b, @out %a
        free %b
      }}
      copy @in %a, @out %y
      free %a
    }}"""
    assert int(_run(text.format(64), 5)) == 8
    with pytest.raises(InternalError, match="%b shares bytes with %a"):
        verify(parse_program(text.format(0)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program @f() { if %p { }", "line 1: expected an instruction, found the end"),
        ("program @f() { while { } do { } }", "line 1: expected a %name, found 'do'"),
        ("program @f() { for %i: int64[] < x { } }", "line 1: expected a number, found 'x'"),
        ("program @f() { invoke @g() }", "line 1: expected 'on', found '}'"),
        ("program @f() { } program @g() { }", "line 1: expected the end, found 'program'"),
    ],
)
def test_an_error_names_its_line(text, message):
    with pytest.raises(ParseError) as error:
        parse_program(text)
    assert str(error.value) == message

"""Programs as text: what prints parses back, and what is wrong is named with its line."""

import pytest
from loopwright.ir.errors import ParseError
from loopwright.ir.program.nodes import Alias, Alloc, Call, Copy, Free, Invoke, Library
from loopwright.ir.program.parser import parse_program

TEXT = """\
program @f(@in %x: float32[20, 512], @out %y: float32[20, 10], @out %z: int8[]) arena 64 bytes {
  const %W1p: float32[8, 512, 48], %b.1: float32[384]
  %h = alloc uint8[64]                                     at 0
  call @f(@in %x, @in %W1p, @out %h) workspace %h
  %v = alias %h as float32[2, 4] + 32
  call @g(@inout %v, @in %b.1, @out %y)
  free %h
  library "numpy.linalg.solve"(@in %x, @out %y) with [["n", [1, -2.5, 1e-09, null]], ["s", "a\\"b"]]
  invoke @g(@in %x, @inout %y) on stack
  copy @in %x, @out %z
}
function program @g(@in %x: float32[20, 512], @inout %y: float32[20, 10]) {
}
"""


def test_what_prints_parses_back():
    program = parse_program(TEXT)
    assert str(program) == TEXT
    assert parse_program(str(program)) == program


def test_the_instructions_are_those_of_the_text():
    body = parse_program(TEXT).body
    assert [type(i) for i in body] == [Alloc, Call, Alias, Call, Free, Library, Invoke, Copy]
    assert body[-3].options == (("n", (1, -2.5, 1e-09, None)), ("s", 'a"b'))


def test_comments_and_layout_do_not_matter():
    program = parse_program("program @f(){}# nothing\n")
    assert str(program) == "program @f() {\n}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("programme @f() {}", "line 1: expected 'program', found 'programme'"),
        ("program @f(@in %x: real[3]) {}", "line 1: expected a dtype, found 'real'"),
        ("program @f() {\n  fre %x\n}", "line 2: expected an instruction, found 'fre'"),
        ("program @f() {\n  %x = alloc int8[a]\n}", "line 2: there is no size a"),
        ("program @f() {\n  copy %x, %y\n}", "line 2: expected '@in', found '%x'"),
        ("program @f() {\n  free x\n}", "line 2: expected a %name, found 'x'"),
        ("program @f() {", "line 1: expected an instruction, found the end"),
        ("program @f() {} }", "line 1: expected the end, found '}'"),
        ("program @f() { ! }", "line 1: unexpected '!'"),
        (
            "program @f(@out %y: int8[1], @in %x: int8[1]) {}",
            "line 1: inputs stand before outputs",
        ),
        (
            "program @f(@out %y: int8[1], @inout %x: int8[1]) {}",
            "line 1: inputs stand before outputs",
        ),
        ("program @f(%x: int8[1]) {}", "line 1: expected @in, @inout or @out, found '%x'"),
    ],
)
def test_an_error_names_its_line(text, message):
    with pytest.raises(ParseError) as error:
        parse_program(text)
    assert str(error.value) == message

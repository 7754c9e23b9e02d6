"""Every rule of the verifier, broken once."""

import numpy as np
import pytest
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import InternalError
from loopwright.ir.program.nodes import Constant, Program, Region
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.verify import verify

HEAD = "program @f(@in %x: float32[4], @out %y: float32[4])"


def _message(body: str, head: str = HEAD) -> str:
    with pytest.raises(InternalError) as error:
        verify(parse_program(f"{head} {{\n{body}\n}}"))
    return str(error.value)


def test_a_right_program_passes():
    program = parse_program(
        HEAD
        + """ arena 128 bytes {
          const %c: float32[4]
          %a = alloc float32[4] at 0
          %b = alloc float32[2, 2] at 64
          call @f(@in %x, @out %a)
          %v = alias %a as float32[2, 2]
          call @g(@in %v, @in %c, @out %b)
          free %a
          %d = alloc float32[16] at 0
          call @h(@in %b, @out %d)
          %w = alias %d as float32[4] + 16
          call @e(@inout %w, @inout %w)
          copy @in %w, @out %y
          free %d
          free %b
        }"""
    )
    assert verify(program) is program


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("copy @in %a, @out %y", "%a is not declared"),
        ("%x = alloc float32[4]", "%x is declared twice"),
        ("%a = alloc float32[4]\ncopy @in %a, @out %y\nfree %a", "%a is read before it is written"),
        ("%a = alloc float32[4]\ncopy @in %x, @out %y", "%a is never freed"),
        ("%a = alloc float32[4]\nfree %a\nfree %a", "%a is used after free"),
        (
            "%a = alloc float32[4]\n%v = alias %a as float32[4]\nfree %a\ncall @f(@out %v)",
            "%v is used after free",
        ),
        ("free %x", "%x is not an allocation"),
        ("call @f(@in %x)", "the output %y is not written"),
        ("copy @in %x, @out %x", "%x and %x share bytes that are written"),
        ("call @f(@in %x, @inout %x)", "%x and %x share bytes that are written"),
        ("call @f(@inout %x)", "%x is read-only"),
        (
            "copy @in %x, @out %y\n%l = alias %y as float32[3]\n%r = alias %y as float32[3] + 4\n"
            "call @f(@inout %l, @inout %r)",
            "%l and %r share bytes that are written",
        ),
        ("%v = alias %y as float32[4] + 4", "%v leaves the bytes of %y"),
        ("%v = alias %y as float32[2] + 2", "%v is not aligned to its elements"),
        ("%v = alias %y as float32[3]\ncopy @in %x, @out %v", "the sizes of a copy differ"),
        (
            "%l = alias %y as float32[1]\n%r = alias %y as float32[2] + 8\n"
            "call @f(@out %l, @out %r)\ncall @f(@in %y)",
            "%y is read before it is written",
        ),
        ("%a = alloc float32[4] at 0", "%a is planned"),
    ],
)
def test_a_wrong_program_is_refused(body, message):
    assert _message(body).splitlines()[0] == f"program @f: {message}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%a = alloc float32[4]", "%a is not planned"),
        ("%a = alloc float32[4] at 4", "%a is not aligned to 64 bytes"),
        ("%a = alloc float32[17] at 64", "%a lies outside the arena"),
        (
            "%a = alloc float32[17] at 0\n%b = alloc float32[16] at 64",
            "%b shares bytes with %a",
        ),
    ],
)
def test_a_wrong_plan_is_refused(body, message):
    assert _message(body, HEAD + " arena 128 bytes").splitlines()[0] == f"program @f: {message}"


def test_bytes_written_in_parts_are_written():
    verify(
        parse_program(
            HEAD
            + """ {
              %l = alias %y as float32[2]
              %r = alias %y as float32[2] + 8
              call @f(@in %x, @out %r)
              call @f(@in %x, @out %l)
              call @g(@inout %y)
            }"""
        )
    )


def test_the_instruction_at_fault_is_shown():
    assert _message("copy @in %x, @out %y\nfree %x") == (
        "program @f: %x is not an allocation\n  instruction 1: free %x"
    )


def test_a_constant_has_the_value_it_declares():
    region = Region("c", (2,), FLOAT32)
    program = Program("f", (), (), (Constant(region, np.zeros(3, np.float32)),), ())
    with pytest.raises(InternalError, match=r"the constant %c: float32\[2\] has a value of"):
        verify(program)

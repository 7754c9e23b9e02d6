"""Small kernels as parts of the entry, and the code that LLVM makes of it."""

import re

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.inlining import Inlined, operands_apart
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.llvm.engine import disassemble
from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.program.parser import parse_program
from loopwright.ir.schedule.steps import Schedule

HOST = Target.host()


def _entry(lowered) -> str:
    text = lowered.as_text("llvm")
    return text[text.index("; loops around") :]


@lw.compile
def collatz(n):
    def step(s):
        x, k = s
        return lw.cond(x % 2 == 0, lambda: x // 2, lambda: 3 * x + 1), k + 1

    return lw.while_loop(lambda s: s[0] != 1, step, (n, np.int64(0)))[1]


def test_a_scalar_loop_stays_in_registers():
    assert collatz(np.int64(27)) == 111
    lowered = collatz.lower(np.int64(27))
    assert lowered.as_text("program").count("call inline") >= 3
    code = disassemble(_entry(lowered), HOST)
    assert "lw_poll" in code
    # Neither calls nor divisions; memory is touched before and behind the loop only.
    assert set(re.findall(r"call\w*\s+(\S+)", code)) == {"lw_poll@PLT"}
    assert "div" not in code
    loop = code[code.index("lw_poll") - 1500 :]
    assert len(re.findall(r"\(%r[a-d]x\)|\(%r\d+\)", loop)) < 6


def test_kernels_outside_of_loops_are_called():
    text = lw.compile(lambda x: x + 1).lower(np.float64(1)).as_text("program")
    assert "inline" not in text


def _kernel(text, name):
    return compile_kernel(parse_prim(text), Schedule(), HOST, name)


def test_functions_of_several_kernels_are_there_once():
    first = _kernel("prim @f(x: float64[1]) -> y: float64[1] { y[i] = exp(x[i]) }", "first")
    other = _kernel("prim @g(x: float64[1]) -> y: float64[1] { y[i] = exp(x[i] * x[i]) }", "other")
    inlined = Inlined()
    inlined.add("f", first)
    inlined.add("g", other)
    assert inlined.symbols == {"f": "@first", "g": "@other"}
    assert "packed" not in inlined.text
    assert len(re.findall(r"define internal double @lw.exp", inlined.text)) == 1


def test_other_functions_of_the_same_name_are_renamed():
    first = _kernel("prim @f(x: float64[1]) -> y: float64[1] { y[i] = x[i] + x[i] }", "k")
    other = _kernel("prim @g(x: float64[1]) -> y: float64[1] { y[i] = x[i] * x[i] }", "k")
    inlined = Inlined()
    inlined.add("f", first)
    inlined.add("g", other)
    assert inlined.symbols == {"f": "@k", "g": "@k.1"}
    assert "define internal void @k.1(" in inlined.text


_LOOP = """
program @f(@in %x: float64[9], @in %z: float64[9], @out %y: float64[9]) {
  copy @in %x, @out %y
  for %i: int64[] < 9 {
    call inline @k(@in %x, @in %z, @in %y, @inout %y, @in %i)
    MORE
  }
  UPDATE
}
"""


@pytest.mark.parametrize(
    ("more", "update", "apart"),
    [
        ("", "", {"k": {0, 1, 4}}),
        # An argument that gets new values where it lies is the memory of the result.
        ("", "update %x with %y in place", {"k": {1, 4}}),
        # It counts what all calls have in common; what is only read may be there twice.
        ("call inline @k(@in %x, @in %y, @in %z, @inout %y, @in %i)", "", {"k": {0, 4}}),
        ("call inline @k(@in %z, @in %z, @in %y, @inout %y, @in %i)", "", {"k": {0, 1, 4}}),
    ],
)
def test_operands_that_share_no_memory_are_told_apart(more, update, apart):
    program = parse_program(_LOOP.replace("MORE", more).replace("UPDATE", update))
    assert operands_apart(program) == apart


@lw.function
def fibonacci(n):
    return lw.cond(n < 2, lambda: n, lambda: fibonacci(n - 1) + fibonacci(n - 2))


def test_recursive_functions_have_kernels_inline():
    compiled = lw.compile(lambda n: fibonacci(n))
    assert compiled(np.int64(15)) == 610
    code = disassemble(_entry(compiled.lower(np.int64(15))), HOST)
    assert set(re.findall(r"call\w*\s+(\S+)", code)) <= {
        "lw_poll@PLT",
        "lw_stack_end@PLT",
        ".Llw.function.fibonacci",
        "lw.function.fibonacci",
    }

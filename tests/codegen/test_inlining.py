"""Small kernels as parts of the entry, and the code that LLVM makes of it."""

import re

import loopwright as lw
import numpy as np
from loopwright.codegen.inlining import Inlined
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.llvm.engine import disassemble
from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim
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

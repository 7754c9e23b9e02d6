"""Programs as native entries: they compute what the interpreter does and reuse kernels."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernels_in_numpy import writing
from loopwright.codegen.entry import entry_text
from loopwright.codegen.module_text import ModuleText
from loopwright.codegen.program import compile_program
from loopwright.codegen.target import Target
from loopwright.ir.errors import InternalError
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.nodes import Constant, Program
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise


@dataclass(frozen=True)
class Written:
    """A kernel written by hand, for four float32 elements."""

    name: str
    text: str

    @property
    def code(self) -> ModuleText:
        return ModuleText.of(self.text)


def _binary(name: str, op: str) -> Written:
    return Written(
        name,
        f"""define void @{name}(ptr %a, ptr %b, ptr %out, ptr %workspace) {{
  %x = load <4 x float>, ptr %a, align 4
  %y = load <4 x float>, ptr %b, align 4
  %z = {op} <4 x float> %x, %y
  store <4 x float> %z, ptr %out, align 4
  ret void
}}
""",
    )


# out = 2 * a, by way of the workspace.
DOUBLE = Written(
    "double",
    """define void @double(ptr %a, ptr %out, ptr %workspace) {
  %x = load <4 x float>, ptr %a, align 4
  store <4 x float> %x, ptr %workspace, align 64
  %y = load <4 x float>, ptr %workspace, align 64
  %z = fadd <4 x float> %x, %y
  store <4 x float> %z, ptr %out, align 4
  ret void
}
""",
)

KERNELS = {"add": _binary("add", "fadd"), "mul": _binary("mul", "fmul"), "double": DOUBLE}
MEANING = {
    "add": writing(np.add),
    "mul": writing(np.multiply),
    "double": lambda a, out, workspace: np.multiply(a, 2, out=out),
}

TEXT = """
program @main(@in %x: float32[4],
              @out %y: float32[2, 2], @out %z: float32[4], @out %c: float32[4]) {
  const %w: float32[4]
  %a = alloc float32[4]
  call @mul(@in %x, @in %w, @out %a)
  %b = alloc float32[4]
  %s = alloc uint8[16]
  call @double(@in %a, @out %b) workspace %s
  %d = alloc float32[4]
  call @add(@in %a, @in %b, @out %d)
  %v = alias %d as float32[2, 2]
  copy @in %v, @out %y
  copy @in %x, @out %z
  copy @in %w, @out %c
  free %a
  free %b
  free %d
  free %s
}"""


def _program(scale: float = 1.0) -> Program:
    program = parse_program(TEXT)
    value = scale * np.arange(4, dtype=np.float32)
    constants = tuple(Constant(c.region, value) for c in program.constants)
    program = Program(
        program.name, program.inputs, program.outputs, constants, program.body, program.arena
    )
    return optimise(program, lambda call, i, o: call.kernel in ("add", "mul"))


def test_a_program_computes_what_the_interpreter_does():
    program = _program()
    compiled = compile_program(program, KERNELS, Target.host())
    x = np.array([1, -2, 3, 4], np.float32)
    expected = interpret(program, [x], MEANING)
    got = compiled.executable([x])
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(g, e)
        assert g.shape == e.shape
    np.testing.assert_array_equal(got[0].ravel(), 3 * x * np.arange(4))


def test_equal_programs_have_equal_code():
    first = compile_program(_program(), KERNELS, Target.host())
    second = compile_program(_program(2.0), KERNELS, Target.host())
    assert first.code_hash == second.code_hash
    other = compile_program(_program(), {**KERNELS, "mul": _binary("mul", "fsub")}, Target.host())
    assert other.code_hash != first.code_hash
    assert other.objects["add"] == first.objects["add"]


def test_code_outlives_the_compiled_program():
    executable = compile_program(_program(), KERNELS, Target.host()).executable
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(executable([x])[2], np.arange(4))


def test_a_program_without_a_plan_is_refused():
    text = "program @f(@out %y: int8[1]) { %a = alloc int8[1] call @k(@out %a, @out %y) free %a }"
    with pytest.raises(InternalError, match="%a is not planned"):
        entry_text(parse_program(text), {"k": "k"})


def test_a_constant_without_a_value_is_refused():
    program = optimise(parse_program(TEXT))
    with pytest.raises(InternalError, match="a constant of program @main has no value"):
        compile_program(program, KERNELS, Target.host())


def test_the_entry_holds_no_addresses():
    text = entry_text(_program(), {name: f"lw.{name}" for name in KERNELS})
    assert "inttoptr" not in text
    assert text.count('call void @"lw.') == 3


def test_a_program_that_only_copies():
    program = optimise(
        parse_program("program @f(@in %x: int16[3], @out %y: int16[3]) { copy @in %x, @out %y }")
    )
    x = np.array([1, 2, 3], np.int16)
    (y,) = compile_program(program, {}, Target.host()).executable([x])
    np.testing.assert_array_equal(y, x)
    assert y is not x

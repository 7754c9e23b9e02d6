"""Procedures whose result begins as a parameter, from their text to measured machine code."""

import pickle

import numpy as np
import pytest
from loopwright.autotune.measure.first_use import Subject, refusals
from loopwright.autotune.space.space import default_schedule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.one_kernel import run_kernel
from loopwright.codegen.target import Target
from loopwright.debug.frames import parameter_places
from loopwright.face.module import build, parse
from loopwright.ir.errors import InternalError, ParseError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.procedure import plain_nest
from loopwright.ir.loop.verify import verify_prim
from loopwright.ir.loop.workload import parse_workload, workload_hash, workload_text
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule

TARGET = Target.host()
ADD = """\
prim @add_row(x0: int64[], x1: float32[6, 40], x2: float32[40]) -> out: float32[6, 40] begins as x1 procedure {
  at k in 6 = x0[]:
    for j in 40:
      out[k, j] += x2[j]
}"""  # noqa: E501


def inputs():
    rng = np.random.default_rng(0)
    x = rng.random((6, 40), np.float32)
    return {"x0": np.array(4), "x1": x, "x2": rng.random(40, np.float32)}


def expected(given):
    result = given["x1"].copy()
    result[given["x0"]] += given["x2"]
    return result


def test_its_text_parses_to_the_same():
    prim = parse_prim(ADD)
    assert str(prim) == ADD
    assert prim.begins == (("out", "x1"),)
    assert pickle.loads(pickle.dumps(prim)) == prim
    verify_prim(prim)
    again = parse_workload(workload_text(prim), prim.name)
    assert (again, workload_hash(again)) == (prim, workload_hash(prim))
    nest = plain_nest(prim)
    assert parse_nest(str(nest)) == nest
    assert "(x0: int64[], x2: float32[40]) -> out: float32[6, 40] begins as x1 at 1" in str(nest)


@pytest.mark.parametrize(
    ("text", "instead", "error"),
    [
        ("begins as x1", "begins as x2", ParseError),
        ("begins as x1", "begins as y", ParseError),
        ("x1: float32[6, 40]", "x1: float64[6, 40]", InternalError),
        ("+= x2[j]", "+= x1[k, j]", InternalError),
    ],
)
def test_what_cannot_be_its_beginning_is_refused(text, instead, error):
    with pytest.raises(error):
        verify_prim(parse_prim(ADD.replace(text, instead)))


def test_interpreters_and_machine_code_leave_the_parameter_as_it_is():
    prim, given = parse_prim(ADD), inputs()
    before = given["x1"].copy()
    np.testing.assert_array_equal(evaluate_prim(prim, given)["out"], expected(given))
    for schedule in (Schedule(), default_schedule(prim, TARGET)[0]):
        kernel = compile_kernel(prim, schedule, TARGET)
        assert [o.buffer.name for o in kernel.operands] == ["x0", "x2", "out"]
        assert parameter_places(kernel.operands) == [0, 2, 1]
        (result,) = run_kernel(kernel, given, TARGET, 1)
        np.testing.assert_array_equal(result, expected(given))
    np.testing.assert_array_equal(given["x1"], before)


def test_the_loop_over_a_row_runs_in_vectors():
    prim = parse_prim(ADD)
    schedule = default_schedule(prim, TARGET)[0]
    assert "vectorize" in str(apply_schedule(prim, schedule))


@pytest.mark.parametrize("wrong", [False, True])
def test_its_schedules_are_checked_on_first_use(wrong, tmp_path):
    prim = parse_prim(ADD)
    kernel = compile_kernel(
        parse_prim(ADD.replace("+=", "=")) if wrong else prim, Schedule(), TARGET
    )
    subject = Subject(prim, kernel, TARGET, workload_hash(prim), Schedule())
    assert bool(refusals({"add_row": subject}, tmp_path)) == wrong


def test_a_program_copies_the_operand_and_writes_the_copy():
    module = parse("""
      def @main(%x: Tensor[(50), float32], %i: Tensor[(), int64]) -> Tensor[(50), float32] {
        %0 = index_update(%x, 2f, %i, axes=[0], reduction="mul");
        index_update(%0, 1f, -1i64, axes=[0])
      }""")
    f = build(module)
    x = np.arange(50, dtype=np.float32)
    result = x.copy()
    result[7] *= 2
    result[-1] = 1
    np.testing.assert_array_equal(f(x, np.array(7)), result)
    assert x[7] == 7
    program = f.lower().as_text("program")
    assert "@inout" in program and "copy @in %x" in program

"""Procedures: their text, what is refused, and what the interpreter makes of them."""

import pickle

import numpy as np
import pytest
from loopwright.ir.errors import InternalError
from loopwright.ir.loop.evaluate import evaluate_points, evaluate_prim
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.procedure import Procedure, executions
from loopwright.ir.loop.verify import verify_prim
from loopwright.ir.loop.workload import parse_workload, workload_hash, workload_text

SCATTER = """\
prim @add_rows(x0: float32[3, 4], x1: int64[3]) -> out: float32[5, 4] procedure {
  for i in 5:
    for j in 4:
      out[i, j] = 0.0
  for i in 3:
    at k in 5 = where(x1[i] < 0, x1[i] + 5, x1[i]):
      for j in 4:
        out[k, j] += x0[i, j]
}"""


def test_the_text_of_a_procedure_parses_to_the_same():
    prim = parse_prim(SCATTER)
    assert isinstance(prim, Procedure)
    assert str(prim) == SCATTER
    assert parse_prim(str(prim)) == prim
    assert pickle.loads(pickle.dumps(prim)) == prim
    verify_prim(prim)
    again = parse_workload(workload_text(prim), prim.name)
    assert (again, workload_hash(again)) == (prim, workload_hash(prim))


def test_what_data_chooses_outside_of_a_loop_does_not_run():
    prim = parse_prim(SCATTER)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    inputs = {"x0": x, "x1": np.array([-1, 7, 4])}
    (result,) = evaluate_prim(prim, inputs).values()
    np.testing.assert_array_equal(result, [[0] * 4] * 4 + [list(x[0] + x[2])])
    points = np.array([[4, 1], [0, 3]])
    np.testing.assert_array_equal(
        evaluate_points(prim, inputs, "out", points), [x[0, 1] + x[2, 1], 0]
    )


def test_stores_are_counted_with_one_iteration_of_what_data_chooses():
    assert executions(parse_prim(SCATTER).body) == 5 * 4 + 3 * 4


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("at k in 5", "at k in 6", "runs from 0 to 5 outside of out"),
        ("= where(x1[i] < 0, x1[i] + 5, x1[i]):", "= x0[i, 0]:", "chosen by float32, not by int64"),
        ("      out[i, j] = 0.0", "      x0[i, j] = 0.0", "x0 is an operand that is only read"),
        ("out[k, j] += x0[i, j]", "out[k, j] += x0[k, j]", "runs from 0 to 4 outside of x0"),
    ],
)
def test_statements_outside_of_buffers_are_refused(line, instead, message):
    prim = parse_prim(SCATTER.replace(line, instead))
    with pytest.raises(InternalError, match=message.replace("[", r"\[")):
        verify_prim(prim)

"""Steps on the loops of procedures: what they make, and when they are illegal."""

from functools import partial

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.kernel import compile_nest
from loopwright.codegen.one_kernel import run_kernel
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule, pack, parallel, reorder, split, unroll, vectorize

COLUMNS = parse_prim("""\
prim @scan(x0: float32[9, 21]) -> out: float32[9, 21] procedure {
  for j in 21:
    registers sum: float32[1]
    sum[0] = 0.0
    for k in 9:
      sum[0] += x0[k, j]
      out[k, j] = sum[0]
}""")

ROWS = parse_prim("""\
prim @scatter(x0: float32[6, 40], x1: int32[6]) -> out: float32[5, 40] procedure {
  for i in 5:
    for j in 40:
      out[i, j] = 1.0
  for r in 6:
    at k in 5 = int64(x1[r]):
      for c in 40:
        out[k, c] max= x0[r, c]
}""")

AHEAD = parse_prim("""\
prim @ahead(x0: float32[8, 12]) -> out: float32[8, 12] procedure {
  for j in 12:
    out[0, j] = x0[0, j]
  for k in 7:
    for j in 12:
      out[k + 1, j] = out[k, j]
    for j in 6:
      out[k + 1, 2 * j] += x0[k + 1, 2 * j]
      out[k + 1, 2 * j + 1] += x0[k + 1, 2 * j]
}""")


SUMS = parse_prim("""\
prim @sums(x0: float32[8], x1: float32[8, 41] const) -> out: float32[41] procedure {
  for j in 41:
    registers sum: float32[1]
    sum[0] = 0.0
    for k in 8:
      sum[0] += x0[k] * x1[k, j]
    out[j] = sum[0]
}""")


def inputs_of(prim):
    rng = np.random.default_rng(3)
    arrays = {}
    for p in prim.params:
        values = 4 * rng.standard_normal(p.shape)
        arrays[p.name] = values.astype(p.dtype.numpy)
    return arrays


@pytest.mark.parametrize(
    ("prim", "steps"),
    [
        (COLUMNS, ()),
        (COLUMNS, (split("j", (2, 16)), vectorize("j.1"), parallel("j.0"))),
        (COLUMNS, (vectorize("j"), unroll("k"))),
        (COLUMNS, (split("k", (2, 4)), unroll("k.1"), parallel("j"))),
        (ROWS, (split("c", (3, 16)), vectorize("c.1"), vectorize("j"), parallel("i"))),
        (AHEAD, (parallel("j"),)),
        (AHEAD, (vectorize("j"),)),
        (ROWS, (split("r", (2, 4)), unroll("r.1"))),
    ],
)
def test_scheduled_procedures_compute_the_same(prim, steps):
    arrays = inputs_of(prim)
    expected = evaluate_prim(prim, arrays)["out"]
    nest = apply_schedule(prim, Schedule(steps))
    verify_nest(nest)
    out = np.zeros_like(expected)
    interpret(nest, {**arrays, "out": out})
    np.testing.assert_array_equal(out, expected)
    target = Target.host()
    for isa in ("x86-64", "x86-64-v3", None):
        here = target.with_isa(isa) if isa else target
        (out,) = run_kernel(compile_nest(prim, nest, here), arrays, here, 2)
        np.testing.assert_array_equal(out, expected)


def test_vectors_take_the_loops_own_buffers_apart():
    nest = apply_schedule(COLUMNS, Schedule.of(split("j", (2, 16)), vectorize("j.1")))
    text = str(nest)
    assert "registers sum: float32[1, 16]" in text
    assert "        sum[0, j.1] += x0[k, 16 * j.0 + j.1]" in text
    assert "\n  for k in 9:\n    vectorize j.1 in 5:\n      sum[0, j.1] += x0[k, j.1 + 16]" in text


@pytest.mark.parametrize(
    ("prim", "step", "message"),
    [
        (ROWS, parallel("r"), "the iterations of r depend on one another"),
        (COLUMNS, parallel("k"), "the iterations of k depend on one another"),
        (COLUMNS, vectorize("k"), "the iterations of k depend on one another"),
        (AHEAD, parallel("k"), "the iterations of k depend on one another"),
        (COLUMNS, parallel("q"), "no loop q"),
        (COLUMNS, split("j", (1, 2, 3)), "split in two"),
        (COLUMNS, reorder("k", "j"), "is a procedure"),
    ],
)
def test_steps_that_could_change_the_result_are_illegal(prim, step, message):
    with pytest.raises(ScheduleError, match=message):
        apply_schedule(prim, Schedule.of(step))


@pytest.mark.parametrize("step", [(), (unroll("k"),), (vectorize("k"),), (parallel("k"),)])
def test_a_loop_of_no_iterations_writes_nothing(step):
    prim = parse_prim("""\
prim @none(x0: float32[4]) -> out: float32[4] procedure {
  for i in 4:
    out[i] = x0[i]
  for k in 0:
    out[k + 3] = 7.0
}""")
    x = np.arange(4, dtype=np.float32)
    nest = apply_schedule(prim, Schedule(step))
    kernel = compile_nest(prim, nest, Target.host())
    (out,) = run_kernel(kernel, {"x0": x}, Target.host(), 1)
    assert out.tolist() == [0, 1, 2, 3]


PANELS = (split("j", (3, 16)), vectorize("j.1"), pack("x1", "j.1", 16))


def test_constants_are_read_in_panels():
    nest = apply_schedule(SUMS, Schedule(PANELS))
    verify_nest(nest)
    text = str(nest)
    assert "x1.packed: float32[3, 8, 16] packs x1[8, 41] 1" in text
    assert "sum[0, j.1] += x0[k] * x1.packed[j.0, k, j.1]" in text
    assert "sum[0, j.1] += x0[k] * x1.packed[2, k, j.1]" in text
    arrays = inputs_of(SUMS)
    (out,) = run_kernel(compile_nest(SUMS, nest, Target.host()), arrays, Target.host(), 1)
    np.testing.assert_allclose(out, evaluate_prim(SUMS, arrays)["out"], rtol=1e-5)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (pack("x0", "k", 8), "not a constant operand"),
        (pack("x1", "i", 16), "i does not walk exactly one dimension of x1"),
        (pack("x1", "j.1", 12), "of x1 is not in one panel of 12"),
    ],
)
def test_panels_hold_what_lanes_read(step, message):
    with pytest.raises(ScheduleError, match=message):
        apply_schedule(SUMS, Schedule((*PANELS[:2], step)))


@pytest.mark.parametrize(
    ("layer", "size", "panels"),
    [
        (lw.nn.lstm, 100, True),
        (lw.nn.gru, 100, True),
        (partial(lw.nn.gru, reset_after=False), 128, True),
        (partial(lw.nn.gru, reset_after=False), 100, False),
    ],
)
def test_the_steps_of_recurrent_layers_read_panels(layer, size, panels):
    """Unless the candidate of a GRU that resets its state before the product begins inside of a
    panel."""
    gates = 4 if layer is lw.nn.lstm else 3
    rng = np.random.default_rng(0)
    x, w, r = (
        rng.standard_normal(shape, np.float32) / 8
        for shape in ((6, 1, 8), (gates * size, 8), (gates * size, size))
    )
    f = lw.compile(lambda x: layer(x, w, r)[0], target="x86-64-v3")
    assert ("packs" in f.lower(x).as_text("loops").split("@recurrence")[1]) == panels
    np.testing.assert_allclose(
        lw.compile(lambda x: layer(x, w, r)[0])(x), layer(x, w, r)[0], 1e-4, 1e-5
    )

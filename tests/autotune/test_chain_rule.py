"""Fused attention: every schedule of the ``chain`` rule computes what NumPy computes in float64."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import RUNNABLE, interpret_kernel, on_two_levels, run_kernel
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import Target
from loopwright.ir.dtype import dtype_of
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule, state_of
from loopwright.ir.tolerance import tolerance

ISAS = RUNNABLE
SIZES = [
    (2, 16, 16, 16, 16),
    (2, 77, 77, 32, 32),
    (1, 197, 197, 64, 64),
    (3, 33, 300, 5, 7),
    (1, 20, 1500, 80, 40),
    (2, 48, 1024, 64, 128),
]
CAUSAL = "where(m[j, l], x[i, j, l] * 0.25, -inf)"
STAIRS = "where(index(l) <= index(j + 3), x[i, j, l] * 0.25, -inf)"
ADDED = "(x[i, j, l] * 0.25) + m[j, l]"
SCORES = [(s, 40) for s in ("x[i, j, l]", CAUSAL, STAIRS, ADDED)]
SCORES += [(s, 250) for s, _ in reversed(SCORES)]  # each on both older levels, see below


def chain(heads, rows, length, depth, columns, scores="x[i, j, l] * 0.25", dtype="float32"):
    """softmax(scores of q @ k.T) @ v."""
    mask = ""
    if "m[" in scores:
        mask = f", m: {'bool' if 'where' in scores else dtype}[{rows}, {length}]"
    here = f"{dtype}[{heads}, {rows}, {length}]"
    made = scores.replace("0.25", "0.25" if dtype == "float32" else f"0.25:{dtype}")
    made = made.replace("-inf", "-inf" if dtype == "float32" else f"-inf:{dtype}")
    params = f"q: {dtype}[{heads}, {rows}, {depth}], k: {dtype}[{heads}, {length}, {depth}]"
    params += f", v: {dtype}[{heads}, {length}, {columns}]{mask}"
    return parse_prim(f"""
prim @f({params}) -> out: {dtype}[{heads}, {rows}, {columns}] {{
  x[i, j, l]: {here} = sum(c: {depth}) q[i, j, c] * k[i, l, c]
  y[i, j, l]: {here} = {made}
  t[i, j]: {dtype}[{heads}, {rows}] = max(r: {length}) y[i, j, r]
  e[i, j, l]: {here} = exp(y[i, j, l] - t[i, j])
  s[i, j]: {dtype}[{heads}, {rows}] = sum(w: {length}) e[i, j, w]
  o[i, j, n]: {dtype}[{heads}, {rows}, {columns}] = sum(z: {length}) e[i, j, z] * v[i, z, n]
  out[i, j, n] = o[i, j, n] / s[i, j]
}}""")


def inputs_of(prim, scale=1.0):
    rng = np.random.default_rng(0)
    found = {}
    for p in prim.params:
        shape = [int(s) for s in p.shape]
        if p.name == "m" and p.dtype.is_bool:
            found["m"] = np.tri(*shape, dtype=bool)
        else:
            found[p.name] = rng.standard_normal(shape).astype(p.dtype.numpy) * p.dtype.numpy.type(
                scale
            )
    return found


def expected(prim, inputs):
    factor = 0.25 if "0.25" in str(prim) else 1.0
    wide = {n: a.astype(np.float64) if a.dtype != bool else a for n, a in inputs.items()}
    scores = wide["q"] @ wide["k"].swapaxes(-1, -2) * factor
    if "index(" in str(prim):
        scores = np.where(np.tri(*scores.shape[1:], 3, dtype=bool), scores, -np.inf)
    if "m" in wide:
        masked = wide["m"].dtype == bool
        scores = np.where(wide["m"], scores, -np.inf) if masked else scores + wide["m"]
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)) @ wide["v"]


def assert_right(prim, inputs, found, *, exact_scores=False):
    """An error of a score is one of its exponent, and so relative to its weight; the weights of a
    row sum to 1, so that results are of the size of the values."""
    dtype = prim.output_buffers[0].dtype
    length = int(prim.stages[-2].reduce_axes[0].extent)
    depth = int(prim.stages[0].reduce_axes[0].extent)
    factor = 0.25 if "0.25" in str(prim) else 1.0
    q, k, v = (float(np.sqrt(np.mean(np.square(inputs[name])))) for name in "qkv")
    score = factor * np.abs(inputs["q"] @ inputs["k"].swapaxes(-1, -2)).max()
    of_scores = tolerance(dtype, depth, operations=1, scale=factor * q * k)
    exponent = 0.0 if exact_scores else of_scores.atol + of_scores.rtol * float(score)
    rtol = tolerance(dtype, length, operations=12).rtol
    with np.errstate(invalid="ignore"):
        wanted = expected(prim, inputs)
    atol = v * (rtol + 2 * exponent)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


def check(prim, schedule, target):
    kernel = compile_kernel(prim, schedule, target)
    verify_nest(kernel.nest)
    inputs = inputs_of(prim)
    (found,) = run_kernel(kernel, target, inputs)
    assert_right(prim, inputs, found)
    return kernel, found


@pytest.mark.parametrize(("sizes", "isa"), on_two_levels(SIZES, ISAS[0], ISAS[1:]))
def test_the_rules_schedule_on_every_target(sizes, isa):
    prim = chain(*sizes)
    target = Target.host().with_isa(isa)
    schedule, name = default_schedule(prim, target)
    assert name.startswith("chain.")
    check(prim, schedule, target)


@pytest.mark.parametrize(("case", "isa"), on_two_levels(SCORES, ISAS[0], ISAS[1:]))
def test_scores_may_be_masked(case, isa):
    scores, length = case
    prim = chain(2, 40, length, 16, 16, scores)
    target = Target.host().with_isa(isa)
    schedule, name = default_schedule(prim, target)
    assert name.startswith("chain.")
    check(prim, schedule, target)


def test_float64():
    prim = chain(2, 37, 210, 12, 20, dtype="float64")
    target = Target.host()
    schedule, name = default_schedule(prim, target)
    assert name.startswith("chain.")
    check(prim, schedule, target)


def test_large_scores_do_not_overflow():
    prim = chain(1, 24, 260, 16, 16)
    target = Target.host()
    kernel = compile_kernel(prim, default_schedule(prim, target)[0], target)
    inputs = inputs_of(prim, scale=100.0)
    # Sums of whole numbers below 2^24 are exact, and scores this far apart leave one value a row.
    inputs |= {name: np.rint(inputs[name]) for name in "qk"}
    (found,) = run_kernel(kernel, target, inputs)
    assert np.isfinite(found).all()
    assert_right(prim, inputs, found, exact_scores=True)


@pytest.mark.parametrize("length", [48, 300])
def test_rows_that_are_masked_throughout_are_not_numbers(length):
    prim = chain(1, 32, length, 16, 16, CAUSAL)
    target = Target.host()
    kernel = compile_kernel(prim, default_schedule(prim, target)[0], target)
    inputs = inputs_of(prim)
    inputs["m"][5] = False
    inputs["m"][6] = True
    with np.errstate(invalid="ignore"):
        (found,) = run_kernel(kernel, target, inputs)
        want = expected(prim, inputs)
    assert np.isnan(found[0, 5]).all() and np.isnan(want[0, 5]).all()
    assert_right(prim, inputs, found)


@pytest.mark.parametrize("sizes", [(2, 50, 60, 8, 24), (1, 40, 500, 8, 8)])
def test_every_row_of_the_space_is_right_and_reads_back(sizes):
    prim = chain(*sizes, CAUSAL)
    target = Target.host()
    space = ScheduleSpace(prim, target)
    rows = space.sample(12, np.random.default_rng(1))
    assert len(rows) and space.valid(space.default()).all()
    assert np.isfinite(space.features(rows)).all()
    for row in [*space.default()[:2], *rows[:6]]:
        schedule = space.schedule(row)
        np.testing.assert_array_equal(space.row_of(schedule), row)
        assert Schedule.from_json(schedule.to_json()) == schedule
        check(prim, schedule, target)


def test_the_nest_computes_the_same_in_the_interpreter():
    prim = chain(1, 18, 70, 4, 6, CAUSAL)
    target = Target.host().with_isa("x86-64-v3")
    for row in ScheduleSpace(prim, target).default()[:3]:
        kernel = compile_kernel(prim, ScheduleSpace(prim, target).schedule(row), target)
        inputs = inputs_of(prim)
        (found,) = interpret_kernel(kernel, inputs)
        assert_right(prim, inputs, found)


def test_the_scores_are_never_an_array():
    prim = chain(4, 512, 512, 32, 32)
    schedule, _ = default_schedule(prim, Target.host())
    nest = apply_schedule(prim, schedule)
    assert nest.workspace == ()
    kept = [b for b in nest.buffers.values() if b.name in ("x", "y", "e")]
    assert kept and all(np.prod(b.shape) <= 512 * 96 for b in kept)


def test_attention_is_little_code():
    """One body for the rows of a block of results takes as long as a copy for each, and register
    tiles of 16 vectors that are not unrolled as long as the largest ones that are."""
    prim = chain(4, 128, 128, 64, 64)
    target = Target("x86-64-v4", "test", cores=2, l1=32 << 10, l2=1 << 20, l3=32 << 20)
    schedule, _ = default_schedule(prim, target)
    text = compile_kernel(prim, schedule, target).text
    assert text.count(" call void @lw_transpose.") > 1 and text.count("\n") < 1000
    assert not {"c.1", "z.1"} & {s.args[0] for s in schedule.steps if s.name == "unroll"}
    small, _ = default_schedule(prim, target.with_isa("x86-64"))
    assert {"c.1", "z.1"} <= {s.args[0] for s in small.steps if s.name == "unroll"}


def test_the_prepared_stages_are_those_of_the_prim():
    prim = chain(1, 32, 400, 8, 8)
    schedule, _ = default_schedule(prim, Target.host())
    first = [s for s in schedule.steps if s.name in ("blockwise", "cache_read", "layout")]
    assert first[0].name == "blockwise" and first[0].args[0] == "t"
    assert state_of(prim, schedule).prim.outputs == prim.outputs
    assert dtype_of(prim.output_buffers[0].dtype.numpy).name == "float32"


def test_pieces_that_are_masked_throughout_are_left_out():
    prim = chain(1, 96, 260, 4, 4, STAIRS)
    target = Target.host()
    space = ScheduleSpace(prim, target)
    for row in space.default()[:2]:
        schedule = space.schedule(row)
        assert "skip" in {s.name for s in schedule.steps}
        kernel, _ = check(prim, schedule, target)
        assert "else:" in str(kernel.nest)
    (slow,) = interpret_kernel(kernel, inputs_of(prim))
    assert_right(prim, inputs_of(prim), slow)


def test_blocks_of_rows_are_short_where_that_leaves_out_more_pieces():
    target = Target("x86-64-v4", "test", cores=2, l1=32 << 10, l2=1 << 20, l3=32 << 20)
    widths = []
    for scores in ("x[i, j, l] * 0.25", "where(index(l) <= index(j), x[i, j, l], -inf)"):
        space = ScheduleSpace(chain(4, 64, 64, 64, 64, scores), target)
        (_, row, *_) = space.default()  # the best by the estimate
        steps = space.schedule(row).steps
        widths.append(next(s.args[1][-1] for s in steps if s.name == "split" and s.args[0] == "j"))
    assert widths == [64, 32], "one of four pieces is masked throughout"

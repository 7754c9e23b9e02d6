from __future__ import annotations

from dataclasses import replace

import pytest
from loopwright.autotune.space.space import default_schedule
from loopwright.codegen.target import Target
from loopwright.ir.loop.nest import Loop
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule

from bench.gate import draws
from bench.gate.judge import is_right, never_meet
from bench.gate.mutants import KINDS, mutate
from bench.gate.programs import PROGRAMS, prims_of
from bench.gate.trial import is_same_code, try_mutants, try_right_ones

SEED = 20
TRIED = ("matmul_relu", "depthwise", "softmax", "row_maxima", "column_sums", "matmul_f64")


@pytest.fixture(scope="module")
def prims():
    return [prim for name in TRIED for prim in prims_of(name)]


def test_mutated_kernels_are_refused(prims) -> None:
    """``python -m bench.gate`` tries 200."""
    trial = try_mutants(prims, dict.fromkeys(KINDS, 2), SEED)
    assert not trial.survivors, f"seed {SEED}: {trial}"
    assert trial.refused == dict.fromkeys(KINDS, 2)


def test_right_candidates_are_accepted(prims) -> None:
    """``python -m bench.gate`` tries 2,000."""
    trial = try_right_ones(prims, 24, SEED)
    assert not trial.refused, f"seed {SEED}: {trial}"
    assert trial.accepted >= 20


def test_every_program_is_a_kernel_or_more() -> None:
    assert all(prims_of(name) for name in PROGRAMS)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_same_seed_makes_the_same_mistake(kind: str) -> None:
    prim = prims_of("matmul_relu")[0]
    nest = apply_schedule(prim, default_schedule(prim, Target.host())[0])
    found = mutate(nest, kind, 3)
    assert found == mutate(nest, kind, 3)
    assert found is None or found[0] != nest


def test_the_judge_tells_right_nests_from_wrong_ones() -> None:
    prim = prims_of("row_maxima")[0]
    nest = apply_schedule(prim, default_schedule(prim, Target.host())[0])
    assert is_right(prim, nest)
    for seed in range(3):
        found = mutate(nest, "past the end", seed)
        assert found is not None and not is_right(prim, found[0])


def test_the_judge_knows_where_a_nest_rounds_to_a_half_on_its_way() -> None:
    """Its result is a float32 with the error of a half."""
    prim = parse_prim(
        "prim @halve(x: float16[320]) -> out: float32[320] {\n"
        "  out[i] = float32(float16(float32(x[i]) * 0.3))\n}"
    )
    nest = apply_schedule(prim, default_schedule(prim, Target.host())[0])
    found = [mutate(nest, "precision", seed) for seed in range(8)]
    verdicts = [is_right(prim, mutant[0], nest) for mutant in found if mutant is not None]
    assert verdicts and all(verdicts)
    wrong = mutate(nest, "wrong index", 0)
    assert wrong is not None and not is_right(prim, wrong[0], nest)


@pytest.mark.parametrize(
    ("body", "expected"),
    [("out[n] += v[n]", True), ("at k in 9 = i[n]:\n      out[k] += v[n]", False)],
)
def test_iterations_that_write_their_own_elements_never_meet(body: str, expected: bool) -> None:
    prim = parse_prim(
        "prim @add(x: int32[9], v: int32[4], i: int64[4]) -> out: int32[9] begins as x procedure "
        f"{{\n  for n in 4:\n    {body}\n}}"
    )
    nest = apply_schedule(prim, Schedule())
    (loop,) = nest.body
    assert isinstance(loop, Loop)
    assert never_meet(prim, replace(nest, body=(replace(loop, kind="parallel"),))) == expected


def test_indices_of_one_column_change_places_without_a_mistake() -> None:
    prim = parse_prim(
        "prim @column(x: float32[4, 1]) -> out: float32[4, 9] {\n  out[i, j] = x[i, 0]\n}"
    )
    nest = apply_schedule(prim, Schedule())
    found = [mutate(nest, "wrong index", seed) for seed in range(60)]
    texts = {str(mutant[0]) for mutant in found if mutant is not None}
    assert any("x[i + 1, 0]" in text for text in texts)
    assert not any("x[0, i]" in text for text in texts)


@pytest.mark.parametrize(("expr", "same"), [("x[i] == x[i]", True), ("x[i] == 1.0", False)])
def test_a_wrong_read_on_which_nothing_depends_is_no_code(expr: str, same: bool) -> None:
    expr = f"({expr}) or isnan(x[i])"
    prim = parse_prim(f"prim @f(x: float32[8]) -> out: bool[8] {{\n  out[i] = {expr}\n}}")
    nest = apply_schedule(prim, Schedule())
    found = [mutate(nest, "wrong index", seed) for seed in range(20)]
    assert same == any(is_same_code(m[0], nest) for m in found if m is not None)


def test_the_gate_on_kernels_of_operators_by_chance() -> None:
    """``python -m bench.gate.draws`` tries 20,000 and 2,000."""
    assert draws.main(["--draws", "48", "--planted", "14", "--seed", str(SEED)]) == 0

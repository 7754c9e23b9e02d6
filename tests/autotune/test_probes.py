from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from loopwright.autotune.measure.inputs import chooses, compares, make_inputs, make_probes
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc

from bench.gate.programs import prims_of


def row_maxima(rows: int, columns: int) -> PrimFunc:
    return parse_prim(
        f"prim @max(x: float32[{rows}, {columns}]) -> out: float32[{rows}] {{\n"
        f"  out[i] = max(k: {columns}) x[i, k]\n}}"
    )


@pytest.mark.parametrize(
    ("name", "choosing", "comparing"),
    [("batched", 0, 0), ("matmul_relu", 0, 1), ("row_maxima", 1, 0), ("any_all", 1, 1)],
)
def test_only_what_chooses_or_compares_is_probed(name: str, choosing: int, comparing: int) -> None:
    prim = prims_of(name)[0]
    assert (chooses(prim), compares(prim)) == (choosing, comparing)
    assert bool(make_probes(prim, make_inputs(prim, 0), 0)) == bool(choosing or comparing)


@pytest.mark.parametrize(
    ("params", "right", "wrong"),
    [
        ("x: float16[9], y: float32[9]", "y[i] == float32(x[i])", "y[i] == float32(x[8 - i])"),
        ("x: float32[9], y: float32[]", "x[i] < y[]", "x[8 - i] < y[]"),
        ("x: float32[5], y: float32[5]", "x[2] < y[i]", "x[3] < y[i]"),
        ("x: uint16[3, 48]", "prod(k: 48) x[i, k]", "prod(k: 32) x[i, k]"),
        ("x: float32[9]", "bool(x[i])", "bool(x[8 - i])"),
        ("x: float32[9]", "isnan(x[i])", "isnan(x[8 - i])"),
        ("x: float32[9]", "(x[i] != x[i]) or (0.5 < x[i])", "0.5 < x[i]"),
        ("x: uint16[9]", "sign(x[i])", "sign(x[8 - i])"),
        ("x: int16[9]", "abs(x[i]) < 50:int16", "x[i] < 50:int16"),
        ("x: float32[1, 9]", "max(k: 9) maximum(x[i, k], 1.0)", "max(k: 8) maximum(x[i, k], 1.0)"),
    ],
)
def test_a_wrong_element_of_a_comparison_shows_on_a_probe(
    params: str, right: str, wrong: str
) -> None:
    """Random floats are never equal, nor 0 or nan, a scalar may be above all of them, two may
    compare alike, and a product of many even numbers is 0."""
    size = params.split("[")[1].split("]")[0].split(",")[0]
    computed = any(name in right for name in ("prod", "sign", "max"))
    dtype = params.split("[")[0].split(": ")[1] if computed else "bool"
    prim, other = (
        parse_prim(f"prim @compare({params}) -> out: {dtype}[{size}] {{\n  out[i] = {expr}\n}}")
        for expr in (right, wrong)
    )

    def differs(inputs: Mapping[str, np.ndarray[Any, Any]]) -> bool:
        found, expected = (evaluate_prim(p, dict(inputs))["out"] for p in (other, prim))
        return not np.array_equal(found, expected)

    drawn = [make_inputs(prim, seed) for seed in range(40)]
    assert "int16" in params or not all(map(differs, drawn))
    assert all(any(map(differs, make_probes(prim, inputs, 1))) for inputs in drawn)


def test_an_index_alone_takes_both_ends_of_its_axis() -> None:
    prim = parse_prim(
        "prim @f(x: float32[31, 4], y: int64[]) -> out: float32[3, 4] {\n"
        "  out[i, j] = x[(minimum(where(y[] < 0, y[] + 31, y[]), 28) + index(i)), j]\n}"
    )
    for seed in range(20):
        taken = {int(p["y"]) for p in make_probes(prim, make_inputs(prim, seed), seed)}
        assert {0, 30} <= taken


def test_a_term_of_what_becomes_an_integer_shows_on_a_probe() -> None:
    """The mean of a few numbers below 1 is 0 as an integer, whatever is left out of it."""
    prim, other = (
        parse_prim(
            "prim @f(x: float32[3, 4]) -> out: int32[3] {\n"
            f"  t[i]: float32[3] = sum(k: {terms}) x[i, k]\n  out[i] = int32(t[i] * 0.25)\n}}"
        )
        for terms in (4, 2)
    )

    def differs(inputs: Mapping[str, np.ndarray[Any, Any]]) -> bool:
        found, expected = (evaluate_prim(p, dict(inputs))["out"] for p in (other, prim))
        return not np.array_equal(found, expected)

    drawn = [make_inputs(prim, seed) for seed in range(20)]
    assert not any(map(differs, drawn))
    assert all(any(map(differs, make_probes(prim, inputs, 1))) for inputs in drawn)


def test_integers_that_are_shifted_right_have_bits_that_stay() -> None:
    prim = parse_prim(
        "prim @high(x: uint64[9], y: uint64[9]) -> out: uint64[9] {\n"
        "  out[i] = (x[i] >> 32:uint64) + y[i]\n}"
    )
    inputs = make_inputs(prim, 0)
    assert (inputs["x"] >> 32).min() > 0 and inputs["y"].max() < 100


def test_indices_of_a_procedure_meet_on_a_probe_even_constant_ones() -> None:
    """Iterations that add to one row are a race, which two of 1,000 rows hardly ever show."""
    prim = parse_prim(
        "prim @add(x: int32[1000], i: int64[2] const) -> out: int32[1000] begins as x procedure {\n"
        "  for n in 2:\n    at k in 1000 = i[n]:\n      out[k] += x[n]\n}"
    )
    for seed in range(10):
        met = [len(np.unique(p["i"])) < 2 for p in make_probes(prim, make_inputs(prim, seed), seed)]
        assert any(met)


@pytest.mark.parametrize(("low", "high"), [(995, 1000), (0, 3), (992, 996), (984, 992)])
def test_a_maximum_without_some_columns_is_found(low: int, high: int) -> None:
    """Few rows, many columns: on random inputs a forgotten tail is hardly ever seen."""
    prim = row_maxima(6, 1000)
    inputs = make_inputs(prim, 1)
    probes = make_probes(prim, inputs, 1)
    cut = np.r_[0:low, high:1000]
    found = [(p["x"][:, cut].max(1) != evaluate_prim(prim, p)["out"]).any() for p in probes]
    assert any(found)


def test_whether_any_condition_holds_depends_on_one_element() -> None:
    prim = prims_of("any_all")[0]
    probes = make_probes(prim, make_inputs(prim, 2), 2)[:16]  # behind them are few values
    decided = [(p["x0"] > 0.9).sum(1) for p in probes]
    assert sum((count == 1).all() for count in decided) == len(probes) // 2  # along the rows
    assert all(evaluate_prim(prim, p)["out"].any() for p in probes)


def test_probes_are_the_same_for_the_same_seed_and_keep_constants() -> None:
    prim = parse_prim(
        "prim @max(x: float32[9, 20], w: float32[20] const) -> out: float32[9] {\n"
        "  out[i] = max(k: 20) x[i, k] * w[k]\n}"
    )
    inputs = make_inputs(prim, 3)
    first, second = make_probes(prim, inputs, 4), make_probes(prim, inputs, 4)
    assert all((a["x"] == b["x"]).all() for a, b in zip(first, second))
    assert all(p["w"] is inputs["w"] for p in first[:8])  # behind them are draws for few results


def test_a_maximum_that_cancels_is_probed_with_large_numbers() -> None:
    """exp(x - m) / sum(exp(x - m)) is the same for every m, until something overflows."""
    (prim,) = prims_of("softmax")
    inputs = make_inputs(prim, 5)
    probes = make_probes(prim, inputs, 5)
    wrong = []
    for probe in probes:
        (x,) = probe.values()
        with np.errstate(all="ignore"):
            e = np.exp(x - x[:, :1])  # any element, not the greatest
            found = e / e.sum(1, keepdims=True)
        wrong.append(not np.allclose(found, evaluate_prim(prim, probe)["out"], rtol=1e-5))
    assert not any(wrong[: len(probes) // 2])
    assert all(wrong[len(probes) // 2 :]) and len(probes) % 2 == 0


def test_large_numbers_are_not_asked_about_where_rounding_decides() -> None:
    prim = parse_prim(
        "prim @waves(x: float32[9, 20]) -> out: float32[9, 20] {\n"
        "  m[i]: float32[9] = max(k: 20) x[i, k]\n"
        "  out[i, j] = sin((x[i, j] - m[i]) * 3.7)\n}"
    )
    probes = make_probes(prim, make_inputs(prim, 3), 4)
    assert all(np.abs(p["x"]).max() < 4 for p in probes)


def test_the_last_of_a_procedures_indices_matters_on_a_probe() -> None:
    """An index may name an element that another one has named, and a minimum keep what was there:
    on one draw of inputs a store that is left out need not show."""

    def lowered(count: int) -> PrimFunc:
        return parse_prim(
            "prim @lower(x: uint8[5], v: uint8[], i: int64[4]) -> out: uint8[5] begins as x "
            f"procedure {{\n  for n in {count}:\n    at k in 5 = i[n]:\n      out[k] min= v[]\n}}"
        )

    prim, wrong = lowered(4), lowered(3)

    def differs(inputs: Mapping[str, np.ndarray[Any, Any]]) -> bool:
        right, found = (evaluate_prim(p, dict(inputs))["out"] for p in (prim, wrong))
        return not np.array_equal(right, found)

    seen = []
    for seed in range(10):
        inputs = make_inputs(prim, seed)
        seen.append(differs(inputs))
        assert any(map(differs, make_probes(prim, inputs, seed)))
    assert not all(seen)


def test_roots_in_a_procedure_are_of_positive_numbers() -> None:
    prim = parse_prim(
        "prim @root(x: float32[50]) -> out: float32[50] procedure {\n"
        "  for n in 50:\n    out[n] = sqrt(x[n])\n}"
    )
    assert make_inputs(prim, 0)["x"].min() >= 0.1


def test_the_greatest_of_a_procedure_is_its_last_element_on_a_probe() -> None:
    def greatest(count: int) -> PrimFunc:
        return parse_prim(
            "prim @greatest(x: int16[200]) -> out: int64[] procedure {\n"
            "  stack best: int16[1]\n  best[0] = -32768:int16\n  out[] = 0\n"
            f"  for n in {count}:\n    if best[0] <= x[n]:\n      best[0] = x[n]\n"
            "      out[] = index(n)\n}"
        )

    prim, wrong = greatest(200), greatest(199)
    for seed in range(10):
        probes = make_probes(prim, make_inputs(prim, seed), seed)
        right, found = ([evaluate_prim(p, x)["out"] for x in probes] for p in (prim, wrong))
        assert right != found


def test_what_meets_in_a_procedure_changes_what_was_there_on_a_probe() -> None:
    """Two iterations that raise one element are a race, which shows where both raise it."""
    prim = parse_prim(
        "prim @raise(x: uint8[16], i: uint8[4], v: uint8[4]) -> out: uint8[16] begins as x "
        "procedure {\n  for n in 4:\n    at k in 16 = i[n]:\n      out[k] max= v[n]\n}"
    )
    for seed in range(10):
        met = [
            sorted(p["i"][p["v"] > p["x"][p["i"]]])
            for p in make_probes(prim, make_inputs(prim, seed), seed)
        ]
        assert any(len(set(places)) < len(places) for places in met)


def test_few_results_are_drawn_more_than_once() -> None:
    """An error in one number may be as small as a rounding, by chance."""
    prim = parse_prim(
        "prim @product(x: float32[2], y: float32[2]) -> out: float32[] {\n"
        "  out[] = sum(k: 2) x[k] * y[k]\n}"
    )
    drawn = [p["x"].tobytes() for p in make_probes(prim, make_inputs(prim, 0), 0)]
    assert len(set(drawn)) > 2

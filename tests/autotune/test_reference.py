from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from loopwright.autotune.measure.inputs import make_inputs
from loopwright.autotune.measure.reference import (
    Reference,
    _errors,  # pyright: ignore[reportPrivateUsage]
    _verdict,  # pyright: ignore[reportPrivateUsage]
)
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import BOOL, FLOAT32, INT32, dtype_of
from loopwright.ir.loop.evaluate import evaluate_points, evaluate_prim
from loopwright.ir.loop.expr import const, op, read, select, within
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage

I, J, K = symbol("i"), symbol("j"), symbol("k")
M, N, DEPTH = 37, 45, 51
PARTIAL = replace(DEFAULT_SETTINGS, reference_work=20_000)


def matmul_relu() -> PrimFunc:
    x, w = Buffer("x", (M, DEPTH), FLOAT32), Buffer("w", (DEPTH, N), FLOAT32)
    t, y = Buffer("t", (M, N), FLOAT32), Buffer("y", (M, N), FLOAT32)
    product = op("multiply", read("x", (I, K), FLOAT32), read("w", (K, J), FLOAT32))
    axes = (Axis("i", M), Axis("j", N))
    relu = op("maximum", read("t", (I, J), FLOAT32), const(0.0, FLOAT32))
    return PrimFunc(
        "matmul_relu",
        (x, w),
        ("y",),
        (Stage(t, axes, product, (Axis("k", DEPTH),), "sum"), Stage(y, axes, relu)),
    )


def softmax() -> PrimFunc:
    x, m, e, s, y = (Buffer(n, (9,) if n in "ms" else (9, 7), FLOAT32) for n in "xmesy")
    i, j = Axis("i", 9), Axis("j", 7)
    exp = op("exp", op("subtract", read("x", (I, J), FLOAT32), read("m", (I,), FLOAT32)))
    quotient = op("divide", read("e", (I, J), FLOAT32), read("s", (I,), FLOAT32))
    return PrimFunc(
        "softmax",
        (x,),
        ("y",),
        (
            Stage(m, (i,), read("x", (I, J), FLOAT32), (j,), "max"),
            Stage(e, (i, j), exp),
            Stage(s, (i,), read("e", (I, J), FLOAT32), (j,), "sum"),
            Stage(y, (i, j), quotient),
        ),
    )


def total() -> PrimFunc:
    x, y = Buffer("x", (300,), FLOAT32), Buffer("y", (), FLOAT32)
    return PrimFunc(
        "total", (x,), ("y",), (Stage(y, (), read("x", (I,), FLOAT32), (Axis("i", 300),), "sum"),)
    )


@pytest.mark.parametrize("make", [matmul_relu, softmax, total])
def test_points_are_elements_of_the_whole(make) -> None:
    prim = make()
    inputs = make_inputs(prim, 3)
    whole = evaluate_prim(prim, inputs)["y"]
    rng = np.random.default_rng(0)
    points = np.stack([rng.integers(0, n, 50) for n in whole.shape] or [np.zeros(1)], axis=1)
    points = points[:, : whole.ndim]
    values = evaluate_points(prim, inputs, "y", points)
    np.testing.assert_allclose(values, whole[tuple(points.T)], rtol=1e-5)


def test_a_guarded_read_outside_is_no_read() -> None:
    x, y = Buffer("x", (4,), FLOAT32), Buffer("y", (6,), FLOAT32)
    value = select(within(I - 1, 0, 4), read("x", (I - 1,), FLOAT32), const(0.0, FLOAT32))
    prim = PrimFunc("pad", (x,), ("y",), (Stage(y, (Axis("i", 6),), value),))
    points = np.array([[0], [1], [5]])
    found = evaluate_points(prim, {"x": np.arange(4, dtype=np.float32) + 1}, "y", points)
    assert found.tolist() == [0.0, 1.0, 0.0]


def right_result(prim: PrimFunc, inputs: dict[str, np.ndarray]) -> np.ndarray:
    return np.maximum(inputs["x"] @ inputs["w"], 0)


@pytest.mark.parametrize("settings", [DEFAULT_SETTINGS, PARTIAL])
def test_right_results_pass_and_wrong_ones_do_not(settings) -> None:
    prim = matmul_relu()
    inputs = make_inputs(prim, 0)
    reference = Reference(prim, inputs, settings)
    assert reference.partial == (settings is PARTIAL)
    y = right_result(prim, inputs)
    verdict = reference.check({"y": y})
    assert verdict.right and 0 < verdict.max_error < verdict.bound < 1e-4
    for place in [(0, 0), (36, 44), (17, 20)]:
        wrong = y.copy()
        wrong[place] += 0.01
        verdict = reference.check({"y": wrong})
        assert not verdict.right
        assert verdict.reason.endswith("elements of y are wrong, the first at " + str(place)) or (
            settings is PARTIAL
        )
    assert not reference.check({"y": y.astype(np.float16).astype(np.float32)}).right
    assert not reference.check({"y": np.full_like(y, np.nan)}).right
    assert reference.check({"y": y}).right


@pytest.mark.parametrize("settings", [DEFAULT_SETTINGS, PARTIAL])
def test_a_lone_number_is_checked(settings) -> None:
    x, y = Buffer("x", (60_000,), FLOAT32), Buffer("y", (), FLOAT32)
    whole = Stage(y, (), read("x", (K,), FLOAT32), (Axis("k", 60_000),), "max")
    prim = PrimFunc("whole", (x,), ("y",), (whole,))
    inputs = make_inputs(prim, 0)
    known = Reference(prim, inputs, settings)
    right = inputs["x"].max()
    assert known.check({"y": np.array(right)}).right
    assert not known.check({"y": np.array(right * 2)}).right


def test_the_first_result_is_not_believed_where_it_was_not_checked() -> None:
    prim = matmul_relu()
    inputs = make_inputs(prim, 0)
    reference = Reference(prim, inputs, PARTIAL)
    y = right_result(prim, inputs)
    known = {tuple(p) for p in reference._points["y"]}
    place = next(p for p in np.ndindex(M, N) if p not in known and y[p] > 0.1)
    flawed = y.copy()
    flawed[place] = 9.0
    assert reference.check({"y": flawed}).right  # nothing tells yet
    assert reference.check({"y": y}).right  # it differs, and the evaluator says who is right
    assert not reference.check({"y": flawed}).right


def test_what_is_known_is_kept_in_a_file(tmp_path: Path) -> None:
    prim = matmul_relu()
    inputs = make_inputs(prim, 0)
    for settings in (DEFAULT_SETTINGS, PARTIAL):
        Reference(prim, inputs, settings).save(tmp_path / "reference.npz")
        again = Reference.load(tmp_path / "reference.npz", prim, inputs)
        assert again.partial == (settings is PARTIAL)
        assert again.check({"y": right_result(prim, inputs)}).right
        assert not again.check({"y": np.zeros((M, N), np.float32)}).right


def test_inputs_suit_the_functions_they_are_for() -> None:
    x, n, b, y = (
        Buffer("x", (100,), FLOAT32),
        Buffer("n", (100,), INT32),
        Buffer("b", (100,), BOOL),
        Buffer("y", (100,), FLOAT32),
    )
    i = (Axis("i", 100),)
    plain = PrimFunc("f", (x, n, b), ("y",), (Stage(y, i, read("x", (I,), FLOAT32)),))
    rooted = replace(plain, stages=(Stage(y, i, op("sqrt", read("x", (I,), FLOAT32))),))
    made = make_inputs(plain, 1)
    assert made["x"].min() < -0.5 and made["x"].max() > 0.5
    assert -99 <= made["n"].min() < 0 < made["n"].max() < 100 and set(made["b"].tolist()) == {
        False,
        True,
    }
    assert make_inputs(rooted, 1)["x"].min() > 0
    assert all((made[k] == make_inputs(plain, 1)[k]).all() for k in made)


def test_places_in_a_table_lie_anywhere_in_it() -> None:
    """Hundred places out of thousands would all be found in the nearest cache."""
    table, n = Buffer("table", (5000,), FLOAT32), Buffer("n", (400,), INT32)
    y = Buffer("y", (400,), FLOAT32)
    inside = op("minimum", read("n", (I,), INT32), const(4999, INT32))
    value = read("table", (inside,), FLOAT32)
    prim = PrimFunc("f", (table, n), ("y",), (Stage(y, (Axis("i", 400),), value),))
    places = make_inputs(prim, 1)["n"]
    assert 0 <= places.min() < 200 and 4800 < places.max() < 5000
    int8 = dtype_of("int8")
    narrow = replace(n, dtype=int8)
    value = read("table", (read("n", (I,), int8),), FLOAT32)
    prim = PrimFunc("f", (table, narrow), ("y",), (Stage(y, (Axis("i", 400),), value),))
    assert make_inputs(prim, 1)["n"].min() >= 0


def test_integers_bools_and_special_values_are_compared_exactly() -> None:
    x, y = Buffer("x", (4,), FLOAT32), Buffer("y", (4,), FLOAT32)
    half = op("divide", read("x", (I,), FLOAT32), const(0.0, FLOAT32))
    prim = PrimFunc("f", (x,), ("y",), (Stage(y, (Axis("i", 4),), half),))
    values = np.array([1, -1, 0, 2], np.float32)
    reference = Reference(prim, {"x": values})
    with np.errstate(all="ignore"):
        right = values / np.float32(0)
    assert reference.check({"y": right}).right
    assert not reference.check({"y": -right}).right
    assert not reference.check({"y": np.nan_to_num(right)}).right
    flag = Buffer("y", (4,), BOOL)
    greater = op("greater", read("x", (I,), FLOAT32), const(0.0, FLOAT32))
    reference = Reference(
        replace(prim, stages=(Stage(flag, (Axis("i", 4),), greater),)), {"x": values}
    )
    right = values > 0
    assert reference.check({"y": right}).right
    garbled = right.view(np.uint8) * np.uint8(0x7B)
    assert not reference.check({"y": garbled.view(np.bool_)}).right


def test_the_quick_check_says_what_the_careful_one_says() -> None:
    prim = PrimFunc(
        "f",
        (Buffer("x", (64,), FLOAT32),),
        ("y",),
        (
            Stage(
                Buffer("y", (64,), FLOAT32), (Axis("i", 64),), op("exp", read("x", (I,), FLOAT32))
            ),
        ),
    )
    rng = np.random.default_rng(0)
    values = rng.random(64, dtype=np.float32)
    for special in ((), (np.inf,), (np.nan, -np.inf)):
        values[: len(special)] = special
        reference = Reference(prim, {"x": values})
        right, scale = reference._kept("y")
        for off in (0.0, 1e-7, 1e-3, np.inf, np.nan):
            got = right.astype(np.float32)
            got[-1] += np.float32(off)
            quick = reference.check({"y": got})
            careful = _verdict(_errors(got, right, scale), quick.bound, "y")
            assert (quick.right, quick.max_error) == (careful.right, careful.max_error)
            assert quick.reason == careful.reason


@pytest.mark.parametrize(
    ("expr", "dtype", "wrong"),
    [
        ("(x[i] * 0.3:float16) + 1.0:float16", "float16", "(x[i] * 0.28:float16) + 1.0:float16"),
        ("float16(float32(x[i])) + 3.0:float16", "float16", "float16(3.0)"),
        ("maximum(x[i], x[i] + 1.0:float16)", "float16", "x[i] + 0.99:float16"),
    ],
)
def test_a_wrong_constant_of_a_narrow_float_is_wrong(expr: str, dtype: str, wrong: str) -> None:
    prim, other = (
        parse_prim(f"prim @f(x: {dtype}[50]) -> out: {dtype}[50] {{\n  out[i] = {e}\n}}")
        for e in (expr, wrong)
    )
    inputs = make_inputs(prim, 0)
    reference = Reference(prim, inputs)
    assert reference.check(evaluate_prim(prim, inputs)).right
    assert not reference.check(evaluate_prim(other, inputs)).right


def test_what_rounds_nothing_has_no_tolerance_and_an_element_only_its_own() -> None:
    """The greatest of large numbers says nothing about the small ones."""
    prim = parse_prim(
        "prim @f(x: float32[40]) -> out: float32[40] {\n"
        "  out[i] = maximum(x[i], float32(index(i)))\n}"
    )
    x = make_inputs(prim, 0)["x"]
    x[0] = 0.7
    right = evaluate_prim(prim, {"x": x})["out"]
    wrong = right.copy()
    wrong[0] *= 1 + 2**-13
    assert Reference(prim, {"x": x}).check({"out": right}).right
    assert not Reference(prim, {"x": x}).check({"out": wrong}).right


@pytest.mark.parametrize(
    "text",
    [
        "prim @f(x: float64[6, 40]) -> out: float64[6] { out[i] = prod(k: 40) x[i, k] }",
        "prim @f(x: float64[6, 40]) -> out: float64[6] procedure {\n"
        "  for i in 6:\n    out[i] = x[i, 0]\n    for k in 39:\n"
        "      out[i] = out[i] * x[i, k + 1]\n}",
    ],
)
def test_a_product_has_its_own_tolerance_beside_much_larger_ones(text: str) -> None:
    prim = parse_prim(text)
    x = np.full((6, 40), 1.25)
    x[3] = 0.25
    reference = Reference(prim, {"x": x})
    right = evaluate_prim(prim, {"x": x})["out"]
    wrong = right.copy()
    wrong[3] *= 1 + 2**-30
    assert reference.check({"out": right}).right
    assert not reference.check({"out": wrong}).right

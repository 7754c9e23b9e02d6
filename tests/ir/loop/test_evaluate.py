"""The NumPy evaluator of tensor expressions."""

import numpy as np
import pytest
from loopwright.ir.dims import floordiv, symbol
from loopwright.ir.dtype import BOOL, FLOAT32, INT64
from loopwright.ir.errors import InternalError, LoopwrightValueError
from loopwright.ir.loop import evaluate as module
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.expr import cast, const, index, op, read, select, within
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage

i, j, k, n = symbol("i"), symbol("j"), symbol("k"), symbol("n")


def x(*at):
    return read("x", at, FLOAT32)


def line(expr, size=5, source=5):
    """``out[i] = expr`` over a vector x."""
    stage = Stage(Buffer("out", (size,), expr.dtype), (Axis("i", size),), expr)
    return PrimFunc("f", (Buffer("x", (source,), FLOAT32),), ("out",), (stage,))


def vector(size=5):
    return np.arange(1, size + 1, dtype="float32")


def test_stages_read_the_stages_before_them():
    a, out = Buffer("a", (3,), FLOAT32), Buffer("out", (3, 4), FLOAT32)
    prim = PrimFunc(
        "f",
        (Buffer("x", (3, 4), FLOAT32),),
        ("a", "out"),
        (
            Stage(a, (Axis("i", 3),), x(i, k), (Axis("k", 4),), "max"),
            Stage(
                out, (Axis("i", 3), Axis("j", 4)), op("subtract", x(i, j), read("a", [i], FLOAT32))
            ),
        ),
    )
    data = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    result = evaluate_prim(prim, {"x": data})
    assert list(result) == ["a", "out"]
    np.testing.assert_array_equal(result["a"], data.max(1))
    np.testing.assert_array_equal(result["out"], data - data.max(1, keepdims=True))


def test_a_guard_may_read_anything_where_it_does_not_hold():
    shifted = select(within(i - 1, 0, 5), x(i - 1), const(-1, FLOAT32))
    result = evaluate_prim(line(shifted, 7), {"x": vector()})["out"]
    np.testing.assert_array_equal(result, [-1, 1, 2, 3, 4, 5, -1])


def test_reading_outside_is_an_error_where_the_value_is_used():
    with pytest.raises(InternalError, match="stage out uses an element outside its buffer"):
        evaluate_prim(line(x(i - 1)), {"x": vector()})
    wrong_guard = select(within(i, 0, 4), x(i), x(i + 1))
    with pytest.raises(InternalError, match="outside its buffer"):
        evaluate_prim(line(wrong_guard), {"x": vector()})


def test_an_index_out_of_range_inside_an_index_is_found_too():
    chosen = cast(x(i + 3), INT64)
    with pytest.raises(InternalError, match="outside its buffer"):
        evaluate_prim(line(x(op("minimum", chosen, index(0)))), {"x": vector()})


def test_gathers_and_division_of_indices():
    pick = cast(x(floordiv(i, 2)), INT64)
    result = evaluate_prim(line(x(op("subtract", pick, index(1)))), {"x": vector()[::-1].copy()})
    np.testing.assert_array_equal(result["out"], [1, 1, 2, 2, 3])


@pytest.mark.parametrize("combiner, expected", [("sum", 0), ("prod", 1), ("max", -np.inf)])
def test_a_reduction_of_nothing_is_the_identity(combiner, expected):
    out = Buffer("out", (2,), FLOAT32)
    stage = Stage(out, (Axis("i", 2),), x(i, k), (Axis("k", 0),), combiner)
    prim = PrimFunc("f", (Buffer("x", (2, 0), FLOAT32),), ("out",), (stage,))
    result = evaluate_prim(prim, {"x": np.zeros((2, 0), "float32")})["out"]
    np.testing.assert_array_equal(result, [expected] * 2)


def test_scalars():
    stage = Stage(Buffer("out", (), BOOL), (), op("less", x(), const(1, FLOAT32)))
    prim = PrimFunc("f", (Buffer("x", (), FLOAT32),), ("out",), (stage,))
    result = evaluate_prim(prim, {"x": np.float32(0.5)})["out"]
    assert result.shape == () and result


def test_symbolic_sizes_are_those_of_the_arrays():
    out = Buffer("out", (n + 1,), FLOAT32)
    expr = select(within(i, 0, n), x(i), cast(index(n), FLOAT32))
    prim = PrimFunc(
        "f", (Buffer("x", (n,), FLOAT32),), ("out",), (Stage(out, (Axis("i", n + 1),), expr),)
    )
    np.testing.assert_array_equal(evaluate_prim(prim, {"x": vector(3)})["out"], [1, 2, 3, 3])


def test_blocks_give_the_same_result(monkeypatch):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-5, 5, s).astype("float32") for s in ((7, 9), (9, 5)))
    product = op("multiply", read("a", [i, k], FLOAT32), read("b", [k, j], FLOAT32))
    stage = Stage(
        Buffer("out", (7, 5), FLOAT32),
        (Axis("i", 7), Axis("j", 5)),
        product,
        (Axis("k", 9),),
        "sum",
    )
    params = (Buffer("a", (7, 9), FLOAT32), Buffer("b", (9, 5), FLOAT32))
    prim = PrimFunc("f", params, ("out",), (stage,))
    for elements in (1, 4, 20, 100, 10**6):
        monkeypatch.setattr(module, "_BLOCK_ELEMENTS", elements)
        np.testing.assert_array_equal(evaluate_prim(prim, {"a": a, "b": b})["out"], a @ b)


def test_arrays_of_the_wrong_type_are_refused():
    for wrong in (vector(4), vector().astype("float64"), vector()[None]):
        with pytest.raises(
            LoopwrightValueError, match=r"^f: x: float32\[5\] was given an array of"
        ):
            evaluate_prim(line(x(i)), {"x": wrong})

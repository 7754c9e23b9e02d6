"""Which operands a result may be written over."""

import pytest
from loopwright.codegen.in_place_rule import in_place_pairs, in_place_rule
from loopwright.ir.dims import IntExpr, symbol
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.loop.expr import Expr, op, read
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from loopwright.ir.program import Access, Call, Operand

I, J, K = symbol("i"), symbol("j"), symbol("k")
AXES = (Axis("i", 4), Axis("j", 4))


def _at(name: str, *indices: IntExpr) -> Expr:
    return read(name, indices, FLOAT32)


def _buffer(name: str, *shape: int) -> Buffer:
    return Buffer(name, shape, FLOAT32)


def _map(name: str, expr: Expr) -> Stage:
    return Stage(_buffer(name, 4, 4), AXES, expr)


def _prim(params, outputs, *stages) -> PrimFunc:
    return PrimFunc("f", params, outputs, stages)


X, Y = _buffer("x", 4, 4), _buffer("y", 4, 4)


@pytest.mark.parametrize(
    ("expr", "safe"),
    [
        (op("exp", _at("x", I, J)), True),
        (op("add", _at("x", I, J), _at("x", I, J)), True),
        (_at("x", J, I), False),
        (_at("x", I, 3 - J), False),
        (op("add", _at("x", I, J), _at("x", I, 0)), False),
    ],
)
def test_maps(expr, safe):
    prim = _prim((X,), ("out",), _map("out", expr))
    assert in_place_pairs(prim) == ({(0, 0)} if safe else set())


def test_the_residual_of_a_contraction():
    contraction = Stage(
        _buffer("t", 4, 4),
        AXES,
        op("multiply", _at("x", I, K), _at("y", K, J)),
        (Axis("k", 4),),
        "sum",
    )
    out = _map("out", op("add", _at("t", I, J), _at("r", I, J)))
    prim = _prim((X, Y, _buffer("r", 4, 4)), ("out",), contraction, out)
    assert in_place_pairs(prim) == {(2, 0)}


def test_a_row_that_is_reduced_and_read_again():
    total = Stage(_buffer("s", 4), AXES[:1], _at("x", I, K), (Axis("k", 4),), "sum")
    out = _map("out", op("divide", _at("x", I, J), _at("s", I)))
    assert not in_place_pairs(_prim((X,), ("out",), total, out))


def test_an_intermediate_that_is_read_elsewhere():
    half = _map("t", op("exp", _at("x", I, J)))
    assert in_place_pairs(_prim((X,), ("out",), half, _map("out", _at("t", I, J))))
    assert not in_place_pairs(_prim((X,), ("out",), half, _map("out", _at("t", J, I))))


def test_two_outputs_of_one_operand():
    first = _map("a", op("exp", _at("x", I, J)))
    second = _map("b", op("sqrt", _at("x", I, J)))
    third = _map("c", op("sqrt", _at("y", I, J)))
    assert in_place_pairs(_prim((X,), ("a", "b"), first, second)) == set()
    assert in_place_pairs(_prim((X, Y), ("a", "c"), first, third)) == {(0, 0), (1, 1)}


def test_the_rule_speaks_of_positions_in_the_call():
    prim = _prim((X, Y), ("out",), _map("out", op("add", _at("x", J, I), _at("y", I, J))))
    safe = in_place_rule({"f": prim})
    operands = (Operand(Access.IN, "a"), Operand(Access.IN, "b"), Operand(Access.OUT, "c"))
    assert [safe(Call("f", operands), i, 2) for i in (0, 1)] == [False, True]
    assert not safe(Call("g", operands), 1, 2)

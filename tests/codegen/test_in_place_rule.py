"""Which operands a result may be written over."""

import pytest
from loopwright.codegen.in_place_rule import elements_read, in_place_rule, may_share
from loopwright.ir.dims import IntExpr, symbol
from loopwright.ir.dtype import FLOAT32, FLOAT64, INT32
from loopwright.ir.loop.expr import Expr, cast, op, read
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from loopwright.ir.program.nodes import Access, Call, Operand

I, J, K = symbol("i"), symbol("j"), symbol("k")
AXES = (Axis("i", 4), Axis("j", 4))


def _at(name: str, *indices: IntExpr) -> Expr:
    return read(name, indices, FLOAT32)


def _buffer(name: str, *shape: int) -> Buffer:
    return Buffer(name, shape, FLOAT32)


def _in_place_pairs(prim: PrimFunc) -> frozenset[tuple[int, int]]:
    """Returns positions of (parameter, output) that may share memory from their start; see
    ``may_share``."""
    return frozenset(
        (p, o)
        for p in range(len(prim.params))
        for o in range(len(prim.outputs))
        if may_share(prim, p, o)
    )


def _map(name: str, expr: Expr) -> Stage:
    return Stage(_buffer(name, 4, 4), AXES, expr)


def _prim(params, outputs, *stages) -> PrimFunc:
    return PrimFunc("f", params, outputs, stages)


X, Y = _buffer("x", 4, 4), _buffer("y", 4, 4)


def test_elements_of_other_sizes_lie_at_other_places():
    """The first half of 8 ints has as many bytes as 4 doubles: element 1 of these covers two."""
    x, out = Buffer("x", (2, 4), INT32), Buffer("out", (4,), FLOAT64)
    expr = cast(read("x", (0, I), INT32), FLOAT64)
    prim = _prim((x,), ("out",), Stage(out, (Axis("i", 4),), expr))
    assert _in_place_pairs(prim) == frozenset()


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
    assert _in_place_pairs(prim) == ({(0, 0)} if safe else set())


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
    assert _in_place_pairs(prim) == {(2, 0)}


def test_a_row_that_is_reduced_and_read_again():
    total = Stage(_buffer("s", 4), AXES[:1], _at("x", I, K), (Axis("k", 4),), "sum")
    out = _map("out", op("divide", _at("x", I, J), _at("s", I)))
    assert not _in_place_pairs(_prim((X,), ("out",), total, out))


def test_an_intermediate_that_is_read_elsewhere():
    half = _map("t", op("exp", _at("x", I, J)))
    assert _in_place_pairs(_prim((X,), ("out",), half, _map("out", _at("t", I, J))))
    assert not _in_place_pairs(_prim((X,), ("out",), half, _map("out", _at("t", J, I))))


def test_two_outputs_of_one_operand():
    first = _map("a", op("exp", _at("x", I, J)))
    second = _map("b", op("sqrt", _at("x", I, J)))
    third = _map("c", op("sqrt", _at("y", I, J)))
    assert _in_place_pairs(_prim((X,), ("a", "b"), first, second)) == set()
    assert _in_place_pairs(_prim((X, Y), ("a", "c"), first, third)) == {(0, 0), (1, 1)}


def test_the_rule_speaks_of_positions_in_the_call():
    prim = _prim((X, Y), ("out",), _map("out", op("add", _at("x", J, I), _at("y", I, J))))
    safe = in_place_rule({"f": prim})
    operands = (Operand(Access.IN, "a"), Operand(Access.IN, "b"), Operand(Access.OUT, "c"))
    assert [safe(Call("f", operands), i, 2) for i in (0, 1)] == [False, True]
    assert not safe(Call("g", operands), 1, 2)


def test_a_result_that_others_are_made_of():
    """As Adam's: what is made of the new value of ``x`` does not read ``x`` again."""
    new = _map("m", op("add", _at("x", I, J), _at("y", I, J)))
    step = _map("p", op("sqrt", _at("m", I, J)))
    assert _in_place_pairs(_prim((X, Y), ("m", "p"), new, step)) == {(0, 0), (1, 0)}
    across = _map("p", op("add", _at("m", I, J), _at("m", J, I)))
    assert not _in_place_pairs(_prim((X, Y), ("m", "p"), new, across))
    again = _map("p", op("add", _at("m", I, J), _at("x", I, J)))
    assert _in_place_pairs(_prim((X, Y), ("m", "p"), new, again)) == {(1, 0)}


def test_slices_of_an_operand():
    """``out`` lies ``begin`` elements into ``x``."""
    rows = Stage(_buffer("out", 2, 4), (Axis("i", 2), Axis("j", 4)), _at("x", I + 1, J))
    prim = _prim((X,), ("out",), rows)
    assert [may_share(prim, 0, 0, begin) for begin in (0, 3, 4, 5, 8)] == [False] * 2 + [
        True,
        False,
        False,
    ]
    apart = Stage(_buffer("out", 1, 4), (Axis("i", 1), Axis("j", 4)), _at("x", I + 2, 3 - J))
    prim = _prim((X,), ("out",), apart)
    assert [may_share(prim, 0, 0, begin) for begin in (0, 4, 8, 12)] == [True, True, False, True]
    call = Call("f", (Operand(Access.IN, "a"), Operand(Access.OUT, "b")))
    assert elements_read({"f": prim})(call, 0) == (8, 12)
    assert elements_read({"f": prim})(call, 1) is None

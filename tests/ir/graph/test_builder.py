"""The one place where calls are made."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import scalar, tensor
from loopwright.ir.errors import InternalError, LoopwrightTypeError, LoopwrightValueError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.nodes import Block, Call, Constant, GlobalVar
from loopwright.ir.graph.types import FuncType, TupleType
from loopwright.ir.ops import get
from loopwright.ir.span import Span

LINE = Span("model.py", 18, function="attention")


def test_emit_infers_the_type_and_completes_the_attributes() -> None:
    b = Builder()
    x = b.param("x", tensor(2, 3))
    y = b.emit(get("sum"), (x,), {"axis": [1]}, name="total")
    assert (y.name, y.type) == ("total", tensor(2))
    call = b.bindings[0].value
    assert isinstance(call, Call)
    assert call.attrs == {"axis": (1,), "keepdims": False}


def test_errors_carry_the_users_line() -> None:
    b = Builder()
    x = b.param("x", tensor(2, 3))
    with pytest.raises(LoopwrightTypeError) as caught:
        b.emit(get("nn.matmul"), (x, x), span=LINE)
    assert caught.value.span is LINE
    assert "  model.py:18, in attention" in str(caught.value).splitlines()
    assert b.bindings == []


def test_span_of_the_builder_is_the_default() -> None:
    b = Builder(span=LINE)
    x = b.param("x", tensor(3))
    y = b.emit(get("exp"), (x,))
    z = b.emit(get("exp"), (x,), span=Span("other.py", 1))
    assert y.span is LINE
    assert z.span == Span("other.py", 1)
    assert b.make_tuple((y, z)).span is LINE
    with pytest.raises(LoopwrightTypeError) as caught:
        b.emit(get("add"), (x, scalar(1, "int64")))
    assert caught.value.span is LINE


def test_attributes_unknown_and_missing() -> None:
    b = Builder()
    x = b.param("x", tensor(3))
    with pytest.raises(LoopwrightTypeError, match="exp has no attribute axis"):
        b.emit(get("exp"), (x,), {"axis": 1})
    with pytest.raises(LoopwrightValueError, match="cast needs the attribute dtype"):
        b.emit(get("cast"), (x,))


def test_tuples_and_their_fields() -> None:
    b = Builder()
    x, y = b.param("x", tensor(3)), b.param("y", tensor())
    pair = b.make_tuple((x, y))
    assert pair.type == TupleType((tensor(3), tensor()))
    assert b.get_item(pair, 1).type == tensor()
    with pytest.raises(LoopwrightTypeError, match=r"field 2 of .* does not exist"):
        b.get_item(pair, 2)


def test_conditions() -> None:
    b = Builder()
    x = b.param("x", tensor(3))
    yes = Constant(np.array(True))
    assert b.cond(yes, Block((), x), Block((), x)).type == tensor(3)
    with pytest.raises(LoopwrightTypeError, match="a condition is a bool scalar"):
        b.cond(x, Block((), x), Block((), x))
    with pytest.raises(LoopwrightTypeError, match="the branches differ"):
        b.cond(yes, Block((), x), Block((), yes))


def test_calls_of_functions() -> None:
    b = Builder()
    x = b.param("x", tensor(3))
    target = GlobalVar("f", FuncType((tensor(3),), tensor()))
    assert b.emit(target, (x,)).type == tensor()
    with pytest.raises(
        LoopwrightTypeError, match=r"f takes \(Tensor\[\(3\), float32\]\), not \(\)"
    ):
        b.emit(target, ())
    with pytest.raises(InternalError, match="x is called but has type"):
        b.emit(x, ())

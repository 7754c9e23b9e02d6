"""Modules of groups become programs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from loopwright.codegen.kernel_interface import is_view
from loopwright.codegen.program_from_graph import program_from_module
from loopwright.ir.dims import Symbol, size
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import InternalError, UnsupportedError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.nodes import Constant, Function, GlobalVar, Module
from loopwright.ir.graph.types import FuncType, TensorType, TupleType
from loopwright.ir.loop.prim import Buffer
from loopwright.ir.ops import get
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.verify import verify


def _tensor(*shape):
    return TensorType(shape, FLOAT32)


def _group(name, params, result):
    """A group by its type alone: the conversion looks no further unless it is a view."""
    return GlobalVar(name, FuncType(tuple(params), result))


def _text(builder, result, kernels=None, functions=None):
    module = Module({"main": builder.function(result), **(functions or {})})
    return str(verify(program_from_module(module, kernels)))


def test_calls_tuples_and_constants():
    b = Builder()
    x = b.param("x", _tensor(4))
    b.param("unused", _tensor(2))
    w = Constant(np.ones(4, np.float32), "W")
    pair = TupleType((_tensor(4), _tensor(4)))
    t = b.emit(_group("split", [_tensor(4), _tensor(4)], pair), (x, w))
    left, right = b.get_item(t, 0), b.get_item(t, 1)
    s = b.emit(_group("add", [_tensor(4), _tensor(4)], _tensor(4)), (left, right))
    result = b.make_tuple((s, s, x, w))
    assert _text(b, result) == (
        "program @main(@in %x: float32[4], @in %unused: float32[2], @out %out.0: float32[4], "
        "@out %out.1: float32[4], @out %out.2: float32[4], @out %out.3: float32[4]) {\n"
        "  const %W: float32[4]\n"
        "  %0.0 = alloc float32[4]\n"
        "  %0.1 = alloc float32[4]\n"
        "  call @split(@in %x, @in %W, @out %0.0, @out %0.1)\n"
        "  %3 = alloc float32[4]\n"
        "  call @add(@in %0.0, @in %0.1, @out %3)\n"
        "  free %0.0\n"
        "  free %0.1\n"
        "  copy @in %3, @out %out.0\n"
        "  copy @in %3, @out %out.1\n"
        "  free %3\n"
        "  copy @in %x, @out %out.2\n"
        "  copy @in %W, @out %out.3\n"
        "}\n"
    )


def test_a_nested_tuple_is_flattened():
    b = Builder()
    x = b.param("x", TupleType((_tensor(1), TupleType((_tensor(2), _tensor(3))))))
    inner = b.get_item(x, 1)
    program = program_from_module(Module({"main": b.function(b.make_tuple((inner, inner)))}))
    assert [str(r) for r in program.inputs] == [
        "%x.0: float32[1]",
        "%x.1.0: float32[2]",
        "%x.1.1: float32[3]",
    ]
    assert [r.name for r in program.outputs] == ["out.0.0", "out.0.1", "out.1.0", "out.1.1"]


def _reshape_group(shape, newshape):
    b = Builder()
    p = b.param("p", _tensor(*shape))
    r = b.emit(get("reshape"), (p,), {"newshape": newshape})
    r = b.emit(get("expand_dims"), (r,), {"axis": 0})
    return b.function(r, attrs={"primitive": True})


def test_a_group_that_is_a_view_costs_nothing():
    group = _reshape_group((4, 2), (8,))
    assert is_view(group)
    b = Builder()
    x = b.param("x", _tensor(4, 2))
    a = b.emit(_group("f", [_tensor(4, 2)], _tensor(4, 2)), (x,))
    v = b.emit(GlobalVar("view", group.type), (a,))
    g = b.emit(_group("g", [_tensor(1, 8)], _tensor(3)), (v,))
    module = Module({"main": b.function(g), "view": group})
    assert str(optimise(program_from_module(module))) == (
        "program @main(@in %x: float32[4, 2], @out %out: float32[3]) arena 64 bytes {\n"
        "  %0 = alloc float32[4, 2]                                 at 0\n"
        "  call @f(@in %x, @out %0)\n"
        "  %1 = alias %0 as float32[1, 8]\n"
        "  call @g(@in %1, @out %out)\n"
        "  free %0\n"
        "}\n"
    )


def test_a_group_that_computes_is_no_view():
    b = Builder()
    p = b.param("p", _tensor(4))
    r = b.emit(get("exp"), (p,))
    assert not is_view(b.function(r))
    assert not is_view(None)


@dataclass(frozen=True)
class Doubling:
    """A pack that is easy to recognise."""

    layout = "doubled"
    packed_shape = (8,)
    packed_dtype = FLOAT32

    def array(self, values: np.ndarray[Any, Any], empty: Any = np.empty) -> np.ndarray[Any, Any]:
        return np.concatenate([values, values])


@dataclass(frozen=True)
class Handed:
    buffer: Buffer
    role: str = "in"
    pack: Doubling | None = None
    begins_as: tuple[int, str] | None = None


@dataclass(frozen=True)
class Interface:
    operands: tuple[Handed, ...]
    workspace_bytes: int = 0
    sizes: tuple[Symbol, ...] = ()


def test_packed_operands_and_workspace():
    weights = np.arange(4, dtype=np.float32)
    kernel = Interface(
        (
            Handed(Buffer("a", (4,), FLOAT32)),
            Handed(Buffer("b", (8,), FLOAT32), "packed", Doubling()),
        ),
        workspace_bytes=100,
    )
    b = Builder()
    x = b.param("x", _tensor(4))
    f = _group("f", [_tensor(4), _tensor(4)], _tensor(4))
    w = Constant(weights, "w")
    y = b.emit(f, (b.emit(f, (x, w)), w))
    module = Module({"main": b.function(y)})
    program = verify(program_from_module(module, {"f": kernel}))
    (constant,) = program.constants  # packed once, and the original is gone
    np.testing.assert_array_equal(constant.value, [0, 1, 2, 3, 0, 1, 2, 3])
    assert "call @f(@in %x, @in %w.packed, @out %0) workspace %0.workspace" in str(program)
    assert "%1.workspace = alloc uint8[100]" in str(program)

    b = Builder()
    x = b.param("x", _tensor(4))
    module = Module({"main": b.function(b.emit(f, (x, x)))})
    with pytest.raises(
        InternalError, match="@f wants b packed beforehand, but %x is not a constant"
    ):
        program_from_module(module, {"f": kernel})


def test_kernels_and_functions_are_bound_to_sizes():
    n, own = size("n", 1, 99), size("n0")
    b = Builder()
    x = b.param("x", TensorType((n, 4), FLOAT32))
    f = _group("f", [TensorType((n, 4), FLOAT32)], TensorType((2 * n,), FLOAT32))
    module = Module({"main": b.function(b.emit(f, (x,)))})
    kernel = Interface(
        (Handed(Buffer("a", (4 * own,), FLOAT32)), Handed(Buffer("b", (2 * own,), FLOAT32), "out")),
        workspace_bytes=8 * own,
        sizes=(own.terms[0][0][0],),
    )
    program = verify(program_from_module(module, {"f": kernel}))
    assert "for n in 1..99 {" in str(program)
    assert "%0.workspace = alloc uint8[8 * n]" in str(program)
    assert "@out %0) sizes (n) workspace %0.workspace" in str(program)


def test_what_is_not_in_a_group_is_refused():
    b = Builder()
    x = b.param("x", _tensor(4))
    module = Module({"main": b.function(b.emit(get("exp"), (x,)))})
    with pytest.raises(InternalError, match="exp stands in @main outside of any group"):
        program_from_module(module)


def test_control_flow_is_refused():
    b = Builder()
    x = b.param("x", _tensor(4))
    inner = Function((x,), b.block(x))
    var = b.bind(inner, inner.type)
    with pytest.raises(UnsupportedError, match="a function value cannot be compiled yet"):
        program_from_module(Module({"main": b.function(var)}))


def test_names_become_plain_and_stay_apart():
    b = Builder()
    x, y = b.param("x's", _tensor(1)), b.param("x_s", _tensor(1))
    program = program_from_module(Module({"main": b.function(b.make_tuple((x, y)))}))
    assert [r.name for r in program.inputs] == ["x_s", "x_s.1"]

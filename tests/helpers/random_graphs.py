"""Random graph programs, as hypothesis strategies: a few operators on a few small shapes."""

from __future__ import annotations

import numpy as np
from graphs import Maker, scalar, tensor
from hypothesis import strategies as st
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.nodes import Atom, Constant, Function, Module, Var
from loopwright.ir.graph.types import TensorType

CHOICES = (
    *("unary", "binary", "scalar", "constant", "reduce", "index"),
    *("matmul", "join", "choose", "softmax", "cut"),
)

__all__ = ["random_functions", "random_modules"]

UNARY = ("exp", "sin", "tanh", "negative", "abs", "floor", "sigmoid")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
SHAPES = ((), (1,), (4,), (3, 4), (3, 1), (4, 4), (2, 3, 4), (0, 4))


def _broadcasts(a: Var, b: Var) -> bool:
    try:
        np.broadcast_shapes(a.type.shape, b.type.shape)
    except ValueError:
        return False
    return True


@st.composite
def random_functions(draw, max_operators: int = 12) -> Function:
    """A function of float32 tensors; its result is a tensor or a tuple of some of its values."""
    builder = Builder()
    m = Maker(builder)
    values: list[Var] = [
        builder.param(f"x{i}", tensor(*shape))
        for i, shape in enumerate(draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3)))
    ]
    for _ in range(draw(st.integers(1, max_operators))):
        values.append(_operator(draw, m, values))
    wanted = draw(st.lists(st.sampled_from(values[-4:]), min_size=1, max_size=3))
    result: Atom = values[-1] if len(wanted) == 1 else builder.make_tuple([*wanted, values[-1]])
    return builder.function(result)


def random_modules(max_operators: int = 12) -> st.SearchStrategy[Module]:
    return random_functions(max_operators).map(lambda f: Module({"main": f}))


def _operator(draw, m: Maker, values: list[Var]) -> Var:
    x = draw(st.sampled_from(values))
    kind = x.type
    assert isinstance(kind, TensorType)
    rank, shape = kind.rank, kind.shape
    choice = draw(st.sampled_from(CHOICES))
    if choice == "binary":
        fitting = [v for v in values if _broadcasts(x, v)]
        return m(draw(st.sampled_from(BINARY)), x, draw(st.sampled_from(fitting)))
    if choice == "scalar":
        return m(draw(st.sampled_from(BINARY)), x, scalar(draw(st.sampled_from([0, 1, 2, -1.5]))))
    if choice == "constant" and rank:
        value = np.arange(1, shape[-1] + 1, dtype="float32")
        return m(draw(st.sampled_from(BINARY)), x, Constant(value, "c"))
    if choice == "reduce" and rank and 0 not in shape:
        axis = draw(st.sets(st.integers(0, rank - 1), min_size=1))
        name = draw(st.sampled_from(["sum", "max", "min", "mean"]))
        return m(name, x, axis=tuple(sorted(axis)), keepdims=draw(st.booleans()))
    if choice == "index" and rank:
        return _index_map(draw, m, x)
    if choice == "matmul" and rank >= 2:
        axes = (*range(rank - 2), rank - 1, rank - 2)
        return m("nn.matmul", x, m.multiply(m.transpose(x, axes=axes), scalar(0.1)))
    if choice == "join" and rank:
        same = [v for v in values if v.type == kind]
        return m.concatenate(x, draw(st.sampled_from(same)), axis=draw(st.integers(0, rank - 1)))
    if choice == "choose":
        same = [v for v in values if v.type == kind]
        other = draw(st.sampled_from(same))
        return m.where(m.less(x, other), m.negative(x), other)
    if choice == "softmax" and rank and 0 not in shape:
        return m("nn.softmax", x, axis=draw(st.integers(0, rank - 1)))
    if choice == "cut" and rank and 0 not in shape:
        steps = tuple(draw(st.integers(1, 2)) for _ in shape)
        begin = tuple(draw(st.integers(0, s - 1)) for s in shape)
        return m.strided_slice(x, begin=begin, end=shape, strides=steps)
    return m(draw(st.sampled_from(UNARY)), x)


def _index_map(draw, m: Maker, x: Var) -> Var:
    shape = x.type.shape
    name = draw(st.sampled_from(["transpose", "reshape", "expand_dims", "broadcast_to"]))
    if name == "transpose":
        return m.transpose(x, axes=tuple(draw(st.permutations(range(len(shape))))))
    if name == "reshape":
        size = int(np.prod(shape))
        return m.reshape(x, newshape=draw(st.sampled_from([(size,), (1, size), shape[::-1]])))
    if name == "expand_dims":
        return m.expand_dims(x, axis=draw(st.integers(0, len(shape))))
    return m.broadcast_to(x, shape=(2, *shape))

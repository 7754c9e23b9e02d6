"""Random graph modules with branches, loops and functions that call themselves, as hypothesis
strategies.

They end soon: loops run a few times, calls go a few levels deep. Whether a branch is taken depends
on integers only, and elementwise functions of floats are bounded and smooth, so that rounding,
which passes may change, stays small. Carried values change places, feed only themselves, stay as
they are, and are used or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from graphs import Maker, scalar, tensor
from hypothesis import strategies as st
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.nodes import Block, Constant, Function, GlobalVar, Module, Var
from loopwright.ir.graph.types import FuncType, TensorType

__all__ = ["random_control_modules"]

COUNT = tensor(dtype="int64")
SHAPES = ((), (3,), (2, 3), (3, 3))
FLOATS = [tensor(*shape) for shape in SHAPES]
UNARY = ("sin", "tanh", "negative", "sigmoid", "cos")
BINARY = ("add", "subtract", "multiply", "maximum")
COMPARISONS = ("less", "equal", "greater_equal")
MOST_TRIPS = 4

FUNCTION_TYPE = FuncType((COUNT, tensor(3)), tensor(3))


@dataclass
class _Scope:
    """A block that is being built, and the variables that it sees."""

    draw: Any
    depth: int
    """Blocks that may be nested inside."""
    functions: Sequence[GlobalVar]
    values: list[Var]
    builder: Builder = field(default_factory=Builder)

    @property
    def make(self) -> Maker:
        return Maker(self.builder)

    def of_type(self, type: TensorType) -> list[Var]:
        return [v for v in self.values if v.type == type]

    def pick(self, type: TensorType) -> Any:
        """A visible value of this type, or a new one."""
        known = self.of_type(type)
        if known and self.draw(st.integers(0, 7)):
            return self.draw(st.sampled_from(known))
        value = np.full(type.shape, self.draw(st.integers(0, 3)), type.dtype.numpy)
        return Constant(value) if value.ndim < 2 else Constant(value, "c")

    def floats(self) -> list[Var]:
        return [v for v in self.values if v.type in FLOATS]

    def inside(self, params: Sequence[Var] = ()) -> _Scope:
        return _Scope(self.draw, self.depth - 1, self.functions, [*self.values, *params])

    def grow(self, most: int) -> None:
        for _ in range(self.draw(st.integers(1, most))):
            self.values += _statement(self)


@st.composite
def random_control_modules(draw, depth: int = 2, statements: int = 5) -> Module:
    """A module whose main takes an int64, a float32 vector and some more; ``depth`` blocks are
    nested at most."""
    functions: dict[str, Function] = {}
    callable: list[GlobalVar] = []
    for number in range(draw(st.integers(0, 2))):
        target = GlobalVar(f"f{number}", FUNCTION_TYPE)
        functions[target.name] = _recursive(draw, target, callable)
        callable.append(target)
    builder = Builder()
    types = [COUNT, tensor(3), *draw(st.lists(st.sampled_from(FLOATS), max_size=2))]
    params = [builder.param(f"x{n}", type) for n, type in enumerate(types)]
    scope = _Scope(draw, depth, callable, params, builder)
    scope.grow(statements)
    wanted = draw(st.lists(st.sampled_from(scope.values[::-1]), min_size=1, max_size=4))
    result = wanted[0] if len(wanted) == 1 else builder.make_tuple(wanted)
    return Module({"main": builder.function(result), **functions})


def _recursive(draw: Any, target: GlobalVar, callable: Sequence[GlobalVar]) -> Function:
    """``f(n, x)``: something of ``x`` for no ``n``, else something of ``f(n - 1, ...)``."""
    builder = Builder()
    n, x = builder.param("n", COUNT), builder.param("x", tensor(3))
    outer = _Scope(draw, 1, callable, [n, x], builder)
    last = outer.make.less_equal(n, scalar(0, "int64"))
    base, step = outer.inside(), outer.inside()
    base.grow(2)
    step.grow(2)
    fewer = step.make.subtract(n, scalar(1, "int64"))
    again = step.builder.emit(target, (fewer, step.pick(tensor(3))))
    step.values = [again, x]
    result = again
    if draw(st.booleans()):  # else it is a tail call
        step.grow(2)
        result = draw(st.sampled_from(step.of_type(tensor(3))))
    blocks = base.builder.block(base.pick(tensor(3))), step.builder.block(result)
    return builder.function(builder.cond(last, *blocks))


def _statement(scope: _Scope) -> list[Var]:
    """The values that one more statement gives."""
    draw, m = scope.draw, scope.make
    kinds = ["unary", "binary", "int", "row", "reduce", "matmul", "move", "again"]
    if scope.depth > 0:
        kinds += ["if", "while", "for"] * 2
    if scope.functions:
        kinds += ["call"]
    kind = draw(st.sampled_from(kinds))
    if kind == "if":
        return _if(scope)
    if kind == "while":
        return _while(scope)
    if kind == "for":
        return _for(scope)
    if kind == "int":
        a, b = scope.pick(COUNT), scope.pick(COUNT)
        return [m(draw(st.sampled_from(("add", "subtract", "minimum"))), a, b)]
    if kind == "call":
        count = m.minimum(scope.pick(COUNT), scalar(MOST_TRIPS, "int64"))
        target = draw(st.sampled_from(scope.functions))
        return [scope.builder.emit(target, (count, scope.pick(tensor(3))))]
    if kind == "row":
        x = scope.pick(tensor(2, 3))
        return [m.take(x, scope.pick(COUNT), axis=0)]
    if kind == "matmul":
        x = m("nn.matmul", scope.pick(tensor(2, 3)), m.sin(scope.pick(tensor(3, 3))))
        return [m.multiply(x, scalar(0.25))]
    x = draw(st.sampled_from(scope.floats() or [scope.pick(tensor(3))]))
    rank = x.type.rank
    if kind == "reduce" and rank:
        return [m.multiply(m.sum(x, axis=(rank - 1,)), scalar(0.25))]
    if kind == "move" and rank:
        return [m.reverse(x, axis=0)] if rank == 1 else [m.transpose(x, axes=(1, 0))]
    if kind == "binary":
        other = draw(st.sampled_from([v for v in scope.floats() if v.type == x.type] or [x]))
        return [m.tanh(m(draw(st.sampled_from(BINARY)), x, other))]
    if kind == "again":  # what common subexpressions are made of
        return [m.sin(m.multiply(x, scalar(0.5)))]
    return [m(draw(st.sampled_from(UNARY)), x)]


def _condition(scope: _Scope) -> Any:
    """A bool scalar of integers."""
    left = scope.make.floor_mod(scope.pick(COUNT), scalar(3, "int64"))
    name = scope.draw(st.sampled_from(COMPARISONS))
    return scope.make(name, left, scalar(scope.draw(st.integers(0, 2)), "int64"))


def _if(scope: _Scope) -> list[Var]:
    condition = _condition(scope)
    types = scope.draw(st.lists(st.sampled_from([COUNT, *FLOATS]), min_size=1, max_size=3))
    blocks: list[Block] = []
    for _ in range(2):
        inner = scope.inside()
        inner.grow(3)
        fields = [inner.pick(type) for type in types]
        alone = len(types) == 1
        blocks.append(inner.builder.block(fields[0] if alone else inner.builder.make_tuple(fields)))
    result = scope.builder.cond(condition, *blocks)
    return [result] if len(types) == 1 else _some_fields(scope, result)


def _carry(scope: _Scope) -> tuple[list[Var], list[Any]]:
    types = scope.draw(st.lists(st.sampled_from([COUNT, *FLOATS]), max_size=4))
    return [Var("c", type) for type in types], [scope.pick(type) for type in types]


def _while(scope: _Scope) -> list[Var]:
    """Counts one carried value down; another condition may end it before."""
    params, initial = _carry(scope)
    place = scope.draw(st.integers(0, len(params)))
    left = Var("left", COUNT)
    params.insert(place, left)
    initial.insert(place, scalar(scope.draw(st.integers(0, MOST_TRIPS)), "int64"))
    check = scope.inside(params)
    more = check.make.greater(left, scalar(0, "int64"))
    if scope.draw(st.booleans()):
        more = check.make.logical_and(more, _condition(check))
    inner = scope.inside(params)
    inner.grow(4)
    carried = [inner.pick(p.type) for p in params]
    carried[place] = inner.make.subtract(left, scalar(1, "int64"))
    body = inner.builder.block(inner.builder.make_tuple(carried))
    condition = check.builder.block(more)
    return _some_fields(scope, scope.builder.while_loop(params, initial, condition, body))


def _for(scope: _Scope) -> list[Var]:
    params, initial = _carry(scope)
    index = Var("i", COUNT)
    extent: Any = scalar(scope.draw(st.integers(-1, MOST_TRIPS)), "int64")
    if scope.draw(st.booleans()):
        extent = scope.make.minimum(scope.pick(COUNT), extent)
    inner = scope.inside([index, *params])
    inner.grow(4)
    carried = inner.builder.make_tuple([inner.pick(p.type) for p in params])
    body = inner.builder.block(carried)
    return _some_fields(scope, scope.builder.for_loop(index, extent, params, initial, body))


def _some_fields(scope: _Scope, value: Var) -> list[Var]:
    wanted = scope.draw(st.sets(st.integers(0, 4)))
    fields = [n for n in range(len(value.type.fields)) if n in wanted]
    return [scope.builder.get_item(value, n) for n in fields]

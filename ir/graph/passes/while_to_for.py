"""Count the iterations of loops that count.

Before::

    def @main(%n: int64, %x: Tensor[(64), float32]) -> (int64, Tensor[(64), float32]) {
      %0 = while (%i = 0i64, %y = %x) {
        less(%i, %n)
      } do {
        %1 = sin(%y);
        %2 = add(%i, 1i64);
        (%2, %1)
      };
      (%0.0, %0.1)
    }

After::

    def @main(%n: int64, %x: Tensor[(64), float32]) -> (int64, Tensor[(64), float32]) {
      %0 = for (%i < %n; %y = %x) {
        %1 = sin(%y);
        (%1,)
      };
      %1 = %0.0;
      %2 = maximum(%n, 0i64);
      (%2, %1)
    }

The counter is an integer that the body adds a positive constant to, and the condition compares it
with a value that the loop does not change. Its values must not wrap around on the way: that is so
if it counts by one up to a value that it does not pass, or if both ends are constant.
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass
from ...dtype import INT64
from ...pass_context import optional
from .. import nodes
from ..builder import Builder
from ..loops import int64, next_values
from ..operator import OPERATORS
from ..patterns import definitions, is_constant, is_op, match, wildcard
from ..types import TensorType
from ..walk import copy_block, map_functions
from .eliminate_dead_code import replace_by_fields

_INDEX = TensorType((), INT64)


@dataclass(frozen=True, slots=True)
class _Count:
    """A carried value, by its place, that grows by ``step`` from ``first`` while it is less than
    ``bound``."""

    place: int
    first: nodes.Atom
    bound: nodes.Atom
    step: int


@optional(level=1)
def while_to_for(module: nodes.Module) -> nodes.Module:
    """Replaces ``while`` by ``for`` where the number of iterations is decided before the loop."""
    return map_functions(module, _convert, (nodes.While,))


def _convert(function: nodes.Function) -> nodes.Function:
    def last_values(value: nodes.Expr, builder: Builder) -> list[nodes.Atom] | None:
        if not isinstance(value, nodes.While) or (count := _count(value)) is None:
            return None
        return _for(value, count, builder)

    return replace_by_fields(function, last_values)


_COUNTER, _BOUND = wildcard("counter"), wildcard("bound")
_TEST = is_op("less")(_COUNTER, _BOUND) | is_op("greater")(_BOUND, _COUNTER)
_GROWN = is_op("add")(_COUNTER, is_constant().has_shape(()).named("step"))


def _count(loop: nodes.While) -> _Count | None:
    """Returns what a loop counts, if its condition says nothing else."""
    following = next_values(loop.body)
    made = definitions(loop.condition)
    test = match(_TEST, loop.condition.result, made) if len(made) == 1 else None
    if following is None or test is None or test["counter"] not in loop.params:
        return None
    counter, bound = test["counter"], test["bound"]
    place = loop.params.index(counter)
    grown = match(_GROWN, following[place], definitions(loop.body), counter=counter)
    if bound in loop.params or grown is None or not grown["step"].value > 0:
        return None
    first, step = loop.initial[place], int(grown["step"].value)
    return _Count(place, first, bound, step) if _cannot_wrap(first, bound, step, counter) else None


def _cannot_wrap(first: nodes.Atom, bound: nodes.Atom, step: int, counter: nodes.Var) -> bool:
    """True if the counter reaches ``bound`` within its dtype, and their distance is an int64."""
    kind = counter.type
    if (
        not isinstance(kind, TensorType)
        or kind.shape
        or not kind.dtype.is_integer
        or not kind.dtype.is_signed
    ):
        return False
    limits = np.iinfo(kind.dtype.numpy)
    if kind.dtype == INT64 and not (isinstance(first, nodes.Constant) and first.value >= 0):
        return False  # the distance may be more than an int64 holds
    return step == 1 or (
        isinstance(bound, nodes.Constant) and int(bound.value) + step <= limits.max
    )


def _for(loop: nodes.While, count: _Count, builder: Builder) -> list[nodes.Atom]:
    """Emits the loop; returns the last values of what ``loop`` carries."""
    counter = loop.params[count.place]
    params = [nodes.Var(p.name, p.type, p.span) for p in loop.params]
    instead: dict[nodes.Var, nodes.Atom] = dict(zip(loop.params, params))
    index = nodes.Var(counter.name, _INDEX, counter.span)
    inside = Builder(span=loop.span)
    instead[counter] = _value(count, index, counter, inside)
    following = next_values(loop.body)
    assert following is not None
    left = tuple(b for b in loop.body.bindings if b.var is not loop.body.result)
    body = copy_block(nodes.Block(left, loop.body.result), instead)
    inside.bindings += body.bindings
    ends = [instead.get(end, end) if isinstance(end, nodes.Var) else end for end in following]
    kept = [n for n in range(len(params)) if n != count.place]
    block = inside.block(inside.make_tuple([ends[n] for n in kept]))
    extent = _extent(count, builder)
    initial = [loop.initial[n] for n in kept]
    new = builder.for_loop(index, extent, [params[n] for n in kept], initial, block, span=loop.span)
    values: list[nodes.Atom] = [builder.get_item(new, n) for n in range(len(kept))]
    if isinstance(extent, nodes.Constant):
        trips: nodes.Atom = int64(max(int(extent.value), 0))
    else:
        trips = builder.emit(OPERATORS["maximum"], (extent, int64(0)))
    values.insert(count.place, _value(count, trips, counter, builder))
    return values


def _wide(atom: nodes.Atom, builder: Builder) -> nodes.Atom:
    """Emits a cast to the dtype of an index where ``atom`` has another."""
    if atom.type == _INDEX:
        return atom
    if isinstance(atom, nodes.Constant):
        return int64(int(atom.value))
    return builder.emit(OPERATORS["cast"], (atom,), {"dtype": "int64"})


def _extent(count: _Count, builder: Builder) -> nodes.Atom:
    """Emits the number of iterations, which may be negative where there are none."""
    first, bound = _wide(count.first, builder), _wide(count.bound, builder)
    if isinstance(first, nodes.Constant) and isinstance(bound, nodes.Constant):
        return int64(-(-(int(bound.value) - int(first.value)) // count.step))
    if not isinstance(first, nodes.Constant) or first.value:
        bound = builder.emit(OPERATORS["subtract"], (bound, first))
    if count.step == 1:
        return bound
    up = builder.emit(OPERATORS["add"], (bound, int64(count.step - 1)))
    return builder.emit(OPERATORS["floor_divide"], (up, int64(count.step)))


def _value(count: _Count, trips: nodes.Atom, counter: nodes.Var, builder: Builder) -> nodes.Atom:
    """Emits the counter's value after so many iterations."""
    if isinstance(trips, nodes.Constant) and isinstance(count.first, nodes.Constant):
        value = int(count.first.value) + int(trips.value) * count.step
        return nodes.Constant(np.array(value, count.first.value.dtype))
    if count.step != 1:
        trips = builder.emit(OPERATORS["multiply"], (trips, int64(count.step)))
    if not isinstance(count.first, nodes.Constant) or count.first.value:
        trips = builder.emit(OPERATORS["add"], (trips, _wide(count.first, builder)))
    if counter.type == _INDEX:
        return trips
    return builder.emit(
        OPERATORS["cast"], (trips,), {"dtype": nodes.tensor_type(counter).dtype.name}
    )

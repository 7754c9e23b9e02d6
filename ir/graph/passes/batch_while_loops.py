"""Run the loops of many iterations at once, each in a lane of its own.

Before::

    def @main(%x: Tensor[(80), float32]) -> Tensor[(80), float32] {
      %0 = full(shape=[80], fill_value=0, dtype="float32");
      %1 = for (%i < 80i64; %rows = %0) {
        %2 = take(%x, %i, axis=0);
        %3 = while (%c = %2) {
          less(%c, 100f)
        } do {
          %4 = add(%c, 8f);
          (%4,)
        };
        %5 = %3.0;
        %6 = index_update(%rows, %5, %i, axes=[0]);
        (%6,)
      };
      %1.0
    }

After::

    def @main(%x: Tensor[(80), float32]) -> Tensor[(80), float32] {
      %0 = full(shape=[80], fill_value=0, dtype="float32");
      %1 = for (%i < 3i64; %rows = %0) {
        %2 = multiply(%i, 32i64);
        %3 = minimum(%2, 48i64);
        %4 = dynamic_slice(%x, %3, axes=[0], sizes=[32], strides=[1]);
        %5 = while (%c = %4) {
          %6 = less(%c, 100f);
          any(%6)
        } do {
          %7 = less(%c, 100f);
          %8 = add(%c, 8f);
          %9 = where(%7, %8, %c);
          (%9,)
        };
        %10 = %5.0;
        %11 = index_update(%rows, %10, %3, starts=[0], begin=[0], strides=[1], sizes=[32]);
        (%11,)
      };
      %1.0
    }

A loop of scalars waits for the latency of one operator after the other. Here the iterations of the
loop around it, of which each writes a row of its own, run in blocks: a carried value is an array of
one element per lane, the loop goes on as long as any lane does, and what a lane carries that has
finished stays as it is (the masks of Karrenberg and Hack, "Whole-Function Vectorization", 2011).
Blocks are of one size: the last one starts where it fits, and computes some rows again.

All operators must be elementwise or gathers, cheap in vectors: integers are divided by powers of
two only. No operator fails, so what finished lanes compute has no effect.
"""

from __future__ import annotations

from math import ceil

from ...pass_context import optional
from .. import nodes
from ..builder import Builder
from ..choices import Choices
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..loops import int64, next_values
from ..operator import Operator, Pattern, get
from ..types import TensorType
from ..vmap_blocks import Rows
from ..walk import map_functions, use_counts
from .eliminate_dead_code import rewrite_without_dead_code

LANES = (32, 128)
"""Iterations of a block. With fewer, lanes wait less for the longest-running one of their block;
with more, kernels are called less often. 32 was faster than 64 for the Mandelbrot set (0.59 and
0.90 ms), and slower for binary search (1.03 and 0.83 ms)."""

ONE_BY_ONE = "one by one"

_CHEAP = 4
"""Cost below which vectors have an instruction for an operator on integers: not of a division."""


@optional(level=2)
def batch_while_loops(
    module: nodes.Module, choices: Choices | None = None, limits: GraphLimits = DEFAULT_LIMITS
) -> nodes.Module:
    """Runs loops inside of independent iterations in blocks, where ``choices`` do not say
    otherwise."""
    return map_functions(module, lambda function: _batch(function, choices, limits), (nodes.While,))


def _batch(
    function: nodes.Function, choices: Choices | None, limits: GraphLimits
) -> nodes.Function:
    def step(var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
        if not isinstance(value, nodes.For) or not isinstance(value.extent, nodes.Constant):
            return None
        count = int(value.extent.value)
        loops = [b.value for b in value.body.bindings if isinstance(b.value, nodes.While)]
        blocks = [block for n in LANES if (block := _in_blocks(value, count, n))]
        if not loops or not blocks:
            return None
        lanes = _lanes(value, loops, limits, choices)
        chosen = next((b for n, b in zip(LANES, blocks) if n == lanes), None)
        return chosen and builder.bind(chosen, var.type)

    return rewrite_without_dead_code(function, step)


def _lanes(
    loop: nodes.For, loops: list[nodes.While], limits: GraphLimits, choices: Choices | None
) -> int | None:
    """Returns the iterations of a block; None for one by one."""
    widest = max(nodes.tensor_type(p).dtype.bytes for each in loops for p in each.params)
    # A block takes as long as its longest lane. If a lane ends in each iteration with the same
    # probability, that is 1 + 1/2 + 1/3 + ... 1/lanes times as long as lanes take on average.
    waiting = sum(1 / n for n in range(1, LANES[0] + 1))
    pays = limits.lanes * 4 / widest > waiting
    in_blocks = [f"{n} lanes" for n in LANES]
    options = [*in_blocks, ONE_BY_ONE] if pays else [ONE_BY_ONE, *in_blocks]
    option = options[0]
    if choices is not None:
        names = " ".join(_text(each) for each in loops)
        option = choices.take("loop", f"for {int(_extent(loop))} {names}", options)
    return dict(zip(in_blocks, LANES, strict=True)).get(option)


def _text(loop: nodes.While) -> str:
    bindings = [*loop.condition.bindings, *loop.body.bindings]
    names = [b.value.op.name for b in bindings if isinstance(b.value, nodes.Call)]
    return f"while ({', '.join(str(p.type) for p in loop.params)}) {' '.join(names)}"


def _extent(loop: nodes.For) -> int:
    assert isinstance(loop.extent, nodes.Constant)
    return int(loop.extent.value)


def _in_blocks(loop: nodes.For, count: int, lanes: int) -> nodes.For | None:
    """Returns ``loop`` over blocks; None if it has too few iterations, they depend on each other,
    or an operator has no cheap form for many lanes."""
    following = next_values(loop.body)
    if count < lanes or following is None:
        return None
    made = {b.var: b.value for b in loop.body.bindings}
    uses = use_counts(loop.body)
    updates: list[nodes.Call] = []
    for param, end in zip(loop.params, following, strict=True):
        update = made.get(end) if isinstance(end, nodes.Var) else None
        if not isinstance(end, nodes.Var) or not isinstance(update, nodes.Call):
            return None
        if (uses[param], uses[end]) != (1, 1) or not _writes_its_own(
            update, param, loop.index, count
        ):
            return None
        if any(place in made or place in loop.params for place in update.args[2:]):
            return None
        updates.append(update)
    builder = Builder(span=loop.span)
    index = nodes.Var(loop.index.name, loop.index.type, loop.index.span)
    params = [nodes.Var(p.name, p.type, p.span) for p in loop.params]
    start: nodes.Var = builder.emit(get("multiply"), (index, int64(lanes)))
    if count % lanes:
        start = builder.emit(get("minimum"), (start, int64(count - lanes)))
    rows = _Lanes(lanes, loop.index, start, count, builder)
    others = [b for b in loop.body.bindings if b.value not in updates]
    if not rows.bindings(others):
        return None
    ends: list[nodes.Atom] = []
    for param, update in zip(params, updates, strict=True):
        axes, (_, value, *places) = list(update.attrs["axes"]), update.args
        number = places.index(loop.index)
        window = {"starts": (axes.pop(number),), "begin": (0,), "strides": (1,), "sizes": (lanes,)}
        args = param, rows.spread(value), *places[:number], *places[number + 1 :], start
        attrs = {"axes": tuple(axes), **window}
        ends.append(builder.emit(get("index_update"), args, attrs, span=update.span))
    body = builder.block(builder.make_tuple(ends))
    blocks = int64(ceil(count / lanes))
    return nodes.For(index, blocks, tuple(params), loop.initial, body, loop.span)


def _writes_its_own(call: nodes.Call, array: nodes.Var, index: nodes.Var, count: int) -> bool:
    """True if ``call`` replaces one element of ``array``, another one for each index."""
    if call.op is not get("index_update") or call.args[0] is not array or call.attrs["sizes"]:
        return False
    shape, axes, places = nodes.tensor_type(array).shape, call.attrs["axes"], call.args[2:]
    return (
        len(axes) == len(shape) == len(places)
        and call.attrs["reduction"] == "none"
        and places.count(index) == 1
        and shape[axes[places.index(index)]] == count
        and all(not nodes.tensor_type(atom).rank for atom in call.args[1:])
    )


class _Lanes(Rows):
    """The scalars of a body for a block of iterations, of ``extent`` in all. ``index`` is ``start``
    in the first one, one more in each of the others."""

    def __init__(
        self, lanes: int, index: nodes.Var, start: nodes.Var, extent: int, builder: Builder
    ) -> None:
        attrs = {"start": 0, "stop": lanes, "step": 1, "dtype": "int64"}
        lane = builder.emit(get("arange"), (), attrs)
        super().__init__(lanes, builder, {index: builder.emit(get("add"), (lane, start))}, {})
        self.index, self.start, self.extent = index, start, extent

    def call(self, var: nodes.Var, call: nodes.Call) -> bool:
        if not isinstance(var.type, TensorType) or not isinstance(call.op, Operator):
            return False
        if call.op.pattern <= Pattern.INJECTIVE and self.stacked.keys().isdisjoint(call.args):
            return super().call(var, call)  # once for all lanes
        if var.type.rank or not _is_cheap(call):
            return False
        if not self._takes_element(call):
            return super().call(var, call)
        attrs = {"axes": (0,), "sizes": (self.count,), "strides": (1,)}
        args = (call.args[0], self.start)
        self.stacked[var] = self.builder.emit(get("dynamic_slice"), args, attrs, span=call.span)
        return True

    def _takes_element(self, call: nodes.Call) -> bool:
        """True if each iteration takes its own element of an array."""
        if call.op is not get("take") or call.args[1] is not self.index:
            return False
        source = call.args[0]
        return source not in self.stacked and nodes.tensor_type(source).shape == (self.extent,)


def _is_cheap(call: nodes.Call) -> bool:
    """True for an elementwise operator or a gather that vectors have instructions for."""
    op = call.op
    if not isinstance(op, Operator) or op.compute is None:
        return False
    if op is get("take"):
        return True
    if op.pattern > Pattern.BROADCAST:
        return False
    if op.cost < _CHEAP or nodes.tensor_type(call.args[0]).dtype.is_float:
        return True
    by = call.args[-1]
    if op.name == "power" or not isinstance(by, nodes.Constant) or by.value.ndim:
        return False
    number = int(by.value)
    return number > 0 and not number & (number - 1)

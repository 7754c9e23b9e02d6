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

from collections.abc import Iterable
from math import ceil

from ...pass_context import optional
from .. import nodes
from ..batching import Batch, batched_call
from ..builder import Builder
from ..choices import Choices
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..loops import int64, next_values, writes_row
from ..operator import Operator, Pattern, get
from ..types import TensorType
from ..walk import map_functions, rewrite_function, use_counts

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

    return rewrite_function(function, step)


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
        if not writes_row(update, param, loop.index, count) or (uses[param], uses[end]) != (1, 1):
            return None
        if (
            update.args[1].type != TensorType((), nodes.tensor_type(param).dtype)
            or nodes.tensor_type(param).rank != 1
        ):
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
    if not rows.emit(others):
        return None
    window = {"starts": (0,), "begin": (0,), "strides": (1,), "sizes": (lanes,)}
    ends = [
        builder.emit(get("index_update"), (p, rows.spread(u.args[1]), start), window, span=u.span)
        for p, u in zip(params, updates, strict=True)
    ]
    body = builder.block(builder.make_tuple(ends))
    blocks = int64(ceil(count / lanes))
    return nodes.For(index, blocks, tuple(params), loop.initial, body, loop.span)


class _Lanes:
    """The scalars of a body for all lanes: ``many`` has arrays by variable, ``same`` scalars that
    all lanes share. ``index`` is ``start`` in the first lane, one more in each of the others."""

    def __init__(
        self, lanes: int, index: nodes.Var, start: nodes.Var, count: int, builder: Builder
    ) -> None:
        self.lanes, self.index, self.start, self.count = lanes, index, start, count
        self.builder = builder
        self.many: dict[nodes.Var, nodes.Atom] = {}
        self.same: dict[nodes.Var, nodes.Atom] = {}
        self.loops: dict[nodes.Atom, nodes.Var] = {}

    def inside(self, params: dict[nodes.Var, nodes.Atom]) -> _Lanes:
        """Returns the lanes of a block inside of this one."""
        inside = _Lanes(self.lanes, self.index, self.start, self.count, Builder())
        inside.many = {**self.many, **params}
        inside.same = dict(self.same)
        return inside

    def emit(self, bindings: Iterable[nodes.Binding]) -> bool:
        """Emits ``bindings`` for all lanes, but for their tuples; False if one has no form for
        them."""
        return all(self._emit(b.var, b.value) for b in bindings)

    def _emit(self, var: nodes.Var, value: nodes.Expr) -> bool:
        if isinstance(value, nodes.Call):
            return self._call(var, value)
        if isinstance(value, nodes.While):
            return self._while(var, value)
        if isinstance(value, nodes.TupleGetItem) and value.value in self.loops:
            self.many[var] = self.builder.get_item(self.loops[value.value], value.index)
            return True
        return isinstance(value, nodes.Tuple)

    def _call(self, var: nodes.Var, call: nodes.Call) -> bool:
        if not isinstance(var.type, TensorType) or var.type.rank or not _is_cheap(call):
            return False
        for atom in call.args:
            if atom is self.index and atom not in self.many and not self._takes_row(call):
                self._count()
        if self._takes_row(call):
            attrs = {"axes": (0,), "sizes": (self.lanes,), "strides": (1,)}
            args = (call.args[0], self.start)
            self.many[var] = self.builder.emit(get("dynamic_slice"), args, attrs, span=call.span)
            return True
        args = [self.get(a) for a in call.args]
        batched = [a in self.many for a in call.args]
        if not any(batched):
            self.same[var] = self.builder.emit(call.operator, args, call.attrs, span=call.span)
            return True
        result = batched_call(Batch(call, args, batched, self.lanes, (), self.builder))
        if result is not None:
            self.many[var] = result
        return result is not None

    def _takes_row(self, call: nodes.Call) -> bool:
        if call.op is not get("take") or call.args[1] is not self.index:
            return False
        source = call.args[0]
        return source not in self.many and nodes.tensor_type(source).shape == (self.count,)

    def _count(self) -> None:
        """Emits the index in all lanes."""
        attrs = {"start": 0, "stop": self.lanes, "step": 1, "dtype": "int64"}
        lane = self.builder.emit(get("arange"), (), attrs)
        self.many[self.index] = self.builder.emit(get("add"), (lane, self.start))

    def get(self, atom: nodes.Atom) -> nodes.Atom:
        """Returns what stands for an atom in all lanes."""
        if not isinstance(atom, nodes.Var):
            return atom
        return self.many.get(atom) or self.same.get(atom, atom)

    def spread(self, atom: nodes.Atom) -> nodes.Atom:
        """Returns an array with a scalar of each lane."""
        if atom is self.index and atom not in self.many:
            self._count()
        if atom in self.many:
            return self.many[atom]
        shape = {"shape": (self.lanes,)}
        return self.builder.emit(get("broadcast_to"), (self.get(atom),), shape)

    def _while(self, var: nodes.Var, loop: nodes.While) -> bool:
        following = next_values(loop.body)
        types = [p.type for p in loop.params]
        if following is None or not all(isinstance(t, TensorType) and not t.rank for t in types):
            return False
        initial = [self.spread(a) for a in loop.initial]
        params = [
            nodes.Var(p.name, a.type, p.span) for p, a in zip(loop.params, initial, strict=True)
        ]
        carried: dict[nodes.Var, nodes.Atom] = dict(zip(loop.params, params, strict=True))
        condition, body = self.inside(carried), self.inside(carried)
        if not condition.emit(loop.condition.bindings) or not body.emit(loop.condition.bindings):
            return False
        goes_on = loop.condition.result
        if goes_on not in condition.many or not body.emit(loop.body.bindings):
            return False
        any_lane = condition.builder.emit(get("any"), (condition.get(goes_on),))
        active = body.get(goes_on)
        ends: list[nodes.Atom] = []
        for old, end in zip(params, following, strict=True):
            new = body.get(end) if end is not self.index else body.spread(end)
            same = new is old
            ends.append(old if same else body.builder.emit(get("where"), (active, new, old)))
        done = body.builder.block(body.builder.make_tuple(ends))
        test = condition.builder.block(any_lane)
        self.loops[var] = self.builder.while_loop(params, initial, test, done, span=loop.span)
        return True


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

"""Compute with whole arrays what iterations of a loop do independently of each other.

Before::

    def @main(%x: Tensor[(9, 4), float32], %w: Tensor[(4, 4), float32]) -> Tensor[(9, 4), float32] {
      %0 = full(shape=[9, 4], fill_value=0, dtype="float32");
      %1 = for (%i < 9i64; %rows = %0) {
        %2 = take(%x, %i, axis=0);
        %3 = nn.matmul(%2, %w);
        %4 = exp(%3);
        %5 = index_update(%rows, %4, %i, axes=[0]);
        (%5,)
      };
      %1.0
    }

After::

    def @main(%x: Tensor[(9, 4), float32], %w: Tensor[(4, 4), float32]) -> Tensor[(9, 4), float32] {
      %0 = nn.matmul(%x, %w);
      exp(%0)
    }

A carried array leaves the loop if iteration ``i`` writes its row ``i``, reads no other, and what it
writes depends on the index alone. ``ir/graph/vmap.py`` takes what does so to all rows
at once. Products of rows that meet other carried values are ``hoist_products``'s.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...pass_context import optional
from .. import nodes
from ..builder import Builder
from ..loops import next_values, with_carries, writes_row
from ..operator import OPERATORS, Operator
from ..vmap import Rows
from ..walk import all_uses, map_functions, operands
from ..work import elements
from .eliminate_dead_code import replace_by_fields

MOST_STACKED = 1 << 24
"""Elements of a value of all iterations."""


@optional(level=2)
def vectorise_loops(module: nodes.Module) -> nodes.Module:
    """Replaces loops over rows, or parts of them, by operators on all rows."""
    return map_functions(module, _vectorise, (nodes.For,))


def _vectorise(function: nodes.Function) -> nodes.Function:
    def last_values(value: nodes.Expr, builder: Builder) -> list[nodes.Atom] | None:
        if not isinstance(value, nodes.For) or not isinstance(value.extent, nodes.Constant):
            return None
        return _Iterations(value, int(value.extent.value)).rest(builder)

    return replace_by_fields(function, last_values)


class _Iterations(Rows):
    """The values of a loop's body that its index alone decides, for all ``count`` iterations.

    ``sources`` are carried arrays that are read in the rows that are then written: they have still
    their initial values there.
    """

    def __init__(self, loop: nodes.For, count: int) -> None:
        super().__init__(count, Builder(span=loop.span), {}, {})
        self.original = loop
        self.sources: set[nodes.Atom] = set()
        bound = {b.var for b in loop.body.bindings}
        self.bound = bound | {loop.index, *loop.params}
        self.uses: dict[nodes.Var, list[nodes.Binding]] = {}
        for binding in loop.body.bindings:
            for atom in all_uses(binding.value):
                self.uses.setdefault(atom, []).append(binding)

    def rest(self, builder: Builder) -> list[nodes.Atom] | None:
        """Emits what leaves the loop, and the rest of it; returns the last values, None if nothing
        leaves it."""
        following = next_values(self.original.body)
        if following is None or self.count < 2:
            return None
        written = self._written_rows(following)
        self.sources.update(written)
        begin = zip(self.original.params, self.original.initial)
        self.whole = {p: a for p, a in begin if p in written}
        self._stack()
        finished = {p: self._finished(p, v) for p, v in written.items() if v in self.stacked}
        if not finished:
            return None
        builder.bindings += self.builder.bindings
        body = self._reading_rows(finished)
        return with_carries(replace(self.original, body=body), finished, builder)

    def _written_rows(self, following: tuple[nodes.Atom, ...]) -> dict[nodes.Var, nodes.Atom]:
        """Returns what an iteration writes to its row of each carried array that it writes whole,
        and reads in that row only."""
        made = {b.var: b.value for b in self.original.body.bindings}
        rows: dict[nodes.Var, nodes.Atom] = {}
        for param, end in zip(self.original.params, following, strict=True):
            update = made.get(end) if isinstance(end, nodes.Var) else None
            if not isinstance(end, nodes.Var) or not isinstance(update, nodes.Call):
                continue
            if not writes_row(update, param, self.original.index, self.count):
                continue
            others = [b.value for b in self.uses[param] if b.value is not update]
            reads = all(isinstance(v, nodes.Call) and self._takes_row(v, param) for v in others)
            once = len(self.uses[end]) == 1 and following.count(end) == 1
            if reads and once and param not in following:
                rows[param] = update.args[1]
        return rows

    def _takes_row(self, call: nodes.Call, param: nodes.Atom) -> bool:
        if call.op is not OPERATORS["take"]:
            return False
        array, index = call.args
        return array is param and index is self.original.index and call.attrs["axis"] == 0

    def _stack(self) -> None:
        """Computes what it can for all iterations."""
        attrs = {"start": 0, "stop": self.count, "step": 1, "dtype": "int64"}
        self.stacked[self.original.index] = self.builder.emit(OPERATORS["arange"], (), attrs)
        for binding in self.original.body.bindings:
            value = binding.value
            if not isinstance(value, nodes.Call) or not isinstance(value.op, Operator):
                continue
            if self.bound.intersection(operands(value)) <= self.stacked.keys() | self.whole.keys():
                self.call(binding.var, value)

    def call(self, var: nodes.Var, call: nodes.Call) -> bool:
        """Emits an operator for all iterations, if its result is not too large. Carried arrays are
        only read row by row; such a read is the array itself."""
        if self.sources.intersection(call.args) and not self._takes_row(call, call.args[0]):
            return False
        if not self.stacked.keys().isdisjoint(call.args):
            if elements(var.type) * self.count > MOST_STACKED:
                return False
            rows = self._all_rows(call)
            if rows is not None:
                self.stacked[var] = rows
                return True
        return super().call(var, call)

    def _all_rows(self, call: nodes.Call) -> nodes.Atom | None:
        """Returns the array of which each iteration takes its own row."""
        source = call.args[0]
        if source in self.stacked or not self._takes_row(call, source):
            return None
        array = self.of(source)
        kind = nodes.tensor_type(array)
        if kind.shape[0] == self.count:
            return array
        if not isinstance(kind.shape[0], int) or kind.shape[0] < self.count:
            return None
        attrs = {
            "begin": (0,) * kind.rank,
            "end": (self.count, *kind.shape[1:]),
            "strides": (1,) * kind.rank,
        }
        return self.builder.emit(OPERATORS["strided_slice"], (array,), attrs)

    def _finished(self, param: nodes.Var, value: nodes.Atom) -> nodes.Atom:
        """Returns a carried array after the loop."""
        assert isinstance(value, nodes.Var)
        array, shape = self.stacked[value], nodes.tensor_type(param).shape
        rank = len(shape) - 1
        made = nodes.tensor_type(array).shape
        if made == shape:
            return array
        rows = made[1:]
        aligned = (self.count, *[1] * (rank - len(rows)), *rows)
        array = self.builder.emit(OPERATORS["reshape"], (array,), {"newshape": aligned})
        return self.builder.emit(OPERATORS["broadcast_to"], (array,), {"shape": shape})

    def _reading_rows(self, finished: Collection[nodes.Var]) -> nodes.Block:
        """Returns the body, which reads rows of what was in the carried arrays that leave it."""
        first = dict(zip(self.original.params, self.original.initial, strict=True))
        bindings: list[nodes.Binding] = []
        for binding in self.original.body.bindings:
            value = binding.value
            if isinstance(value, nodes.Call) and any(self._takes_row(value, p) for p in finished):
                array, index = value.args
                assert isinstance(array, nodes.Var)
                binding = nodes.Binding(binding.var, replace(value, args=(first[array], index)))
            bindings.append(binding)
        return nodes.Block(tuple(bindings), self.original.body.result)

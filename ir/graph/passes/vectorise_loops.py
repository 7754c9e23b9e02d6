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

A carried array leaves the loop if each iteration writes its own part of it, reads nothing that an
earlier one has written, and what it writes depends on the index and on what leaves the loop.
``ir/graph/vmap.py`` takes what does so to all iterations at once; a row that is taken at a place
linear in the index is a slice. A carried value that iterations only add to, or join in another
associative way, is that of all their terms. Loops inside of others come first, so that nests of
loops over elements end as operators on arrays. Branches are computed on both sides, and chosen
from, if nothing is left of the loop then. Products of rows that meet other carried values are
``hoist_products``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from ...dims import bounds
from ...loop.scalar import COMBINERS, Combiner
from ...pass_context import optional
from ...traits import Trait
from .. import nodes, walk
from ..accesses import Accesses, Term, Write
from ..builder import Builder
from ..loops import next_values, with_carries
from ..nodes import Atom, tensor_type
from ..operator import OPERATORS, Operator, Pattern, get
from ..patterns import is_op, wildcard
from ..types import TensorType, TupleType
from ..vmap_blocks import Rows
from ..walk import all_bindings, copy_block, map_functions, map_operands, nested_blocks, operands
from .eliminate_dead_code import replace_by_fields

MOST_STACKED = 1 << 24
"""Elements of a value of all iterations."""

MOST_CONSTANT = 1 << 12
"""Iterations whose indices are computed while compiling."""

_COMBINERS = {"add": "sum", "mul": "prod"}
"""Combiners by the reductions of updates that have another name."""


@optional(level=2)
def vectorise_loops(module: nodes.Module) -> nodes.Module:
    """Replaces loops over elements, rows, or parts of them, by operators on all of them."""
    return map_functions(module, _vectorise, (nodes.For,))


def _vectorise(function: nodes.Function) -> nodes.Function:
    outer: dict[Atom, nodes.Expr] = {b.var: b.value for b in all_bindings(function)}

    def last_values(value: nodes.Expr, builder: Builder) -> list[Atom] | None:
        if not isinstance(value, nodes.For) or not isinstance(value.extent, nodes.Constant):
            return None
        count = int(value.extent.value)
        if count < 2 or next_values(value.body) is None:
            return None
        plain = _without_branches(value.body)
        last = None
        if plain is not None:
            last = _Iterations(value, plain, count, outer).rest(builder, whole=True)
        return last or _Iterations(value, value.body, count, outer).rest(builder)

    return replace_by_fields(function, last_values)


class _Iterations(Rows):
    """The values of a loop's ``body`` that its index alone decides, for ``count`` iterations."""

    def __init__(
        self, loop: nodes.For, body: nodes.Block, count: int, outer: Mapping[Atom, nodes.Expr]
    ) -> None:
        super().__init__(count, Builder(span=loop.span), {}, {})
        self.original, self.body = loop, body
        self.accesses = Accesses(loop, body, count, outer)
        self.picks: dict[Atom, list[tuple[nodes.Var, nodes.Call]]] = {}
        self.bound = {loop.index, *loop.params, *(b.var for b in body.bindings)}

    def rest(self, builder: Builder, whole: bool = False) -> list[Atom] | None:
        """Emits what leaves the loop, and the rest of it; returns the last values, None if nothing
        leaves it (with ``whole``, if anything stays)."""
        loop, following = self.original, next_values(self.body)
        assert following is not None
        begins = dict(zip(loop.params, loop.initial, strict=True))
        ends = dict(zip(loop.params, following, strict=True))
        once = {p: end for p, end in ends.items() if following.count(end) == 1}
        writes = {p: write for p, end in once.items() if (write := self.accesses.write(p, end))}
        sums = {p: at for p, end in once.items() if (at := self.accesses.sum_at(p, end))}
        self.whole = {p: begins[p] for p in (*writes, *sums)}
        self._stack(whole)
        last: dict[nodes.Var, Atom] = {}
        for param, end in ends.items():
            made = None
            if end is param:
                made = begins[param]
            elif param in writes:
                made = self._written(writes[param])
            elif param in sums:
                made = self._summed(*sums[param])
            elif param in once and (chain := self.accesses.terms(param, end)) is not None:
                made = self._joined(begins[param], *chain)
            if made is not None:
                last[param] = made
        moved = {p: a for p, a in last.items() if ends[p] is not p}
        if not moved or (whole and len(last) < len(ends)):
            return None
        builder.bindings += self.builder.bindings
        if len(last) == len(ends):
            return [*last.values()]
        first: dict[nodes.Var, Atom] = {p: begins[p] for p in moved}
        return with_carries(replace(loop, body=copy_block(loop.body, first)), moved, builder)

    def _stack(self, whole: bool) -> None:
        """Computes what it can for all iterations."""
        index: Atom = nodes.Constant(np.arange(min(self.count, MOST_CONSTANT)))
        if self.count > MOST_CONSTANT:
            attrs = {"start": 0, "stop": self.count, "step": 1, "dtype": "int64"}
            index = self.builder.emit(OPERATORS["arange"], (), attrs)
        self.stacked[self.original.index] = index
        setters = walk.setters(self.body)
        for binding in self.body.bindings:
            value = binding.value
            if not isinstance(value, nodes.Call) or not isinstance(value.op, Operator):
                continue
            if Trait.SETS_SIZE in value.op.traits and not whole:
                continue  # it stays in the loop
            sizes = (setters[n] for n in walk.sizes_used(binding.var, value) if n in setters)
            if not all(var in self.whole or var is binding.var for var in sizes):
                continue
            if all(map(self._is_known, operands(value))):
                self.call(binding.var, value)

    def _is_known(self, atom: Atom) -> bool:
        made = atom in self.stacked or atom in self.whole or atom in self.picks
        return made or atom not in self.bound

    def call(self, var: nodes.Var, call: nodes.Call) -> bool:
        """Emits an operator for all iterations, if its result is not too large. Rows of rows are
        taken when it is known which."""
        if _is_pick(call):
            self.picks[var] = [*self.picks.get(call.args[0], []), (var, call)]
            return True
        if not all(map(self._picked, call.args)):
            return False
        varies = not self.stacked.keys().isdisjoint(call.args)
        if varies and not self._fits(var):
            return False
        args = [a.value for a in map(self.of, call.args) if isinstance(a, nodes.Constant)]
        if varies and len(args) == len(call.args) and not tensor_type(var).rank and _is_map(call):
            value = call.operator.reference(args, call.attrs)
            self.stacked[var] = nodes.Constant(np.broadcast_to(value, (self.count,)).copy())
            return True
        return super().call(var, call)

    def _picked(self, atom: Atom) -> bool:
        """Emits the row that each iteration takes, or the element; True if it is there."""
        picks = self.picks.get(atom)
        if picks is None or atom in self.stacked or atom in self.whole:
            return self._is_known(atom)
        source = picks[0][1].args[0]
        axes = [*range(tensor_type(source).rank)]
        places = {axes.pop(call.attrs["axis"] % len(axes)): call for _, call in picks}
        varying = [axis for axis, call in places.items() if call.args[1] in self.accesses.varying]
        if not self._fits(atom) or not all(self._picked(c.args[1]) for c in places.values()):
            return False
        if source in self.stacked or len(varying) != 1 or not self._is_known(source):
            return self._is_known(source) and all(Rows.call(self, *pick) for pick in picks)
        (axis,) = varying
        array = self.of(source)
        for other in sorted(places.keys() - {axis}, reverse=True):
            args = array, self.of(places[other].args[1])
            array = self.builder.emit(get("take"), args, {"axis": other})
        axis -= sum(other < axis for other in places)
        place = places[varying[0]].args[1]
        index, at = self.stacked[place], self.accesses.place(place)
        rows = None
        if isinstance(index, nodes.Constant):
            rows = self._runs(array, axis, index.value)
        elif at is not None and isinstance(at[1], int):
            rows = self._runs(array, axis, at[1] + at[0] * np.arange(self.count))
        if rows is None:
            rows = self.builder.emit(get("take"), (array, index), {"axis": axis})
        self.stacked[atom] = self._moved(rows, axis, 0)
        return True

    def _fits(self, atom: Atom) -> bool:
        """True if the values of all iterations are not too many."""
        most = bounds(tensor_type(atom).size, {}) if isinstance(atom.type, TensorType) else None
        return most is not None and most[1] * self.count <= MOST_STACKED

    def _runs(self, array: Atom, axis: int, at: np.ndarray[Any, Any]) -> Atom | None:
        """Emits the rows of an array that iterations take; None if these are not a few slices."""
        kind = tensor_type(array)
        size = kind.shape[axis]
        if not isinstance(size, int) or at.dtype.kind != "i":
            return None
        at = np.clip(np.where(at < 0, at + size, at), 0, size - 1)
        if np.array_equal(at, np.arange(size)):
            return array
        parts: list[Atom] = []
        while len(at):
            step = int(at[1] - at[0]) if len(at) > 1 else 1
            is_run = at == at[0] + step * np.arange(len(at))
            length = len(at) if is_run.all() else int(np.argmin(is_run))
            if step == 0 or len(parts) == 3:
                return None
            begin, end, strides = [0] * kind.rank, [*kind.shape], [1] * kind.rank
            begin[axis], strides[axis] = int(at[0]), step
            end[axis] = int(at[length - 1]) + (1 if step > 0 else -1)
            attrs = {"begin": begin, "end": end, "strides": strides}
            parts.append(self.builder.emit(get("strided_slice"), (array,), attrs))
            at = at[length:]
        whole = {"axis": axis}
        return parts[0] if len(parts) == 1 else self.builder.emit(get("concatenate"), parts, whole)

    def _moved(self, array: Atom, axis: int, to: int) -> Atom:
        """Emits an array of which an axis has moved."""
        order = [n for n in range(tensor_type(array).rank) if n != axis]
        order.insert(to, axis)
        if order == sorted(order):
            return array
        return self.builder.emit(get("transpose"), (array,), {"axes": tuple(order)})

    def _rows(self, atom: Atom, shape: tuple[Any, ...]) -> Atom | None:
        """Emits an array of rows of ``shape``, one for each iteration."""
        if not self._picked(atom):
            return None
        array, target = self.of(atom), (self.count, *shape)
        if atom in self.stacked:
            row = tensor_type(array).shape[1:]
            aligned = (self.count, *[1] * (len(shape) - len(row)), *row)
            if aligned != tensor_type(array).shape:
                array = self.builder.emit(get("reshape"), (array,), {"newshape": aligned})
        if tensor_type(array).shape == target:
            return array
        return self.builder.emit(get("broadcast_to"), (array,), {"shape": target})

    def _written(self, write: Write) -> Atom | None:
        """Emits a carried array after the loop."""
        call, kind = write.call, tensor_type(write.param)
        axes, attrs = call.attrs["axes"], call.attrs
        rest = [axis for axis in range(kind.rank) if axis not in axes]
        windows = {a: (0, 1, kind.shape[a]) for a in rest}
        given = zip(attrs["begin"], attrs["strides"], attrs["sizes"])
        windows |= dict(zip(rest, given))
        rows = self._rows(call.args[1], tuple(windows[a][2] for a in rest))
        if rows is None or not all(map(self._picked, call.args[2:])):
            return None
        first, step = write.first, write.step
        if step < 0:
            rows = self.builder.emit(get("reverse"), (rows,), {"axis": (0,)})
            first, step = first + (self.count - 1) * step, -step
        windows[write.axis] = first, step, self.count
        order = sorted(windows)
        value = self._moved(rows, 0, order.index(write.axis))
        begin, strides, sizes = zip(*(windows[a] for a in order), strict=True)
        others = [n for n, axis in enumerate(axes) if axis != write.axis]
        array = self.of(write.param)
        plain = not others and attrs["reduction"] == "none"
        if plain and sizes == kind.shape:
            return value
        if plain:
            where = {"begin": begin, "strides": strides}
            return self.builder.emit(get("strided_set"), (array, value), where)
        places = [self.of(call.args[2 + n]) for n in others]
        parts = all(windows[a] == (0, 1, kind.shape[a]) for a in order)
        if parts and not others:  # what a loop around this one may only add to
            name = _COMBINERS.get(attrs["reduction"], attrs["reduction"])
            return self.builder.emit(get(COMBINERS[name].op), (array, value))
        begin, strides, sizes = ((), (), ()) if parts else (begin, strides, sizes)
        where = {"begin": begin, "strides": strides, "sizes": sizes}
        attrs = {**attrs, **where, "axes": tuple(axes[n] for n in others)}
        return self.builder.emit(call.operator, (array, value, *places), attrs)

    def _summed(
        self, call: nodes.Call, read: Atom, combiner: Combiner, terms: list[Term]
    ) -> Atom | None:
        """Emits a carried array after the loop of which one part is changed in all iterations."""
        if read in self.stacked or not all(map(self._picked, (read, *call.args[2:]))):
            return None
        value = self._joined(self.of(read), combiner, terms)
        if value is None:
            return None
        args = self.of(call.args[0]), value, *map(self.of, call.args[2:])
        return self.builder.emit(call.operator, args, call.attrs)

    def _joined(self, begin: Atom, combiner: Combiner, terms: list[Term]) -> Atom | None:
        """Emits a carried value after the loop whose iterations join ``terms`` to it."""
        kind, result = tensor_type(begin), begin
        for term in reversed(terms):
            if combiner.op == "add" and (total := self._product(term, kind)) is not None:
                op = get("subtract" if term.negative else "add")
                result = self.builder.emit(op, (result, total))
                continue
            rows = self._rows(term.value, kind.shape)
            if rows is None or kind.dtype != tensor_type(rows).dtype:
                return None
            if term.condition is not None:
                chosen = self._rows(term.condition, kind.shape)
                if chosen is None:
                    return None
                identity = combiner.identity(kind.dtype)
                neutral = nodes.Constant(np.asarray(identity, kind.dtype.numpy))
                pair = (rows, neutral) if term.outcome else (neutral, rows)
                rows = self.builder.emit(get("where"), (chosen, *pair))
            total = self.builder.emit(get(combiner.name), (rows,), {"axis": (0,)})
            op = get("subtract") if term.negative else get(combiner.op)
            result = self.builder.emit(op, (result, total))
        return result

    def _product(self, term: Term, kind: TensorType) -> Atom | None:
        """Emits the sum of rows, each times a number of its iteration, as a matrix product."""
        if kind.rank != 1 or not kind.dtype.is_float or term.condition is not None:
            return None
        for captures in _SCALED_ROW.matches(term.value, self.accesses.made, {}):
            row, factor = captures["row"], captures["factor"]
            is_row = _is_pick(captures[row]) and row.type == kind
            if is_row and {row, factor} <= self.stacked.keys():
                rows = (self.stacked[factor], self.stacked[row])
                return self.builder.emit(get("nn.matmul"), rows)
        return None


_SCALED_ROW = is_op("multiply")(is_op("take").named("row"), wildcard("factor").has_shape(()))


def _is_pick(call: nodes.Call) -> bool:
    """True for an element or row at one place."""
    is_take = call.op is OPERATORS["take"] and call.attrs["mode"] == "clip"
    return is_take and call.attrs["axis"] is not None and not tensor_type(call.args[1]).rank


def _without_branches(body: nodes.Block) -> nodes.Block | None:
    """Returns a block that computes both sides of its branches and chooses from them; None if a
    side does more than to compute a few values and write them to arrays."""
    if not any(isinstance(b.value, nodes.If) for b in body.bindings):
        return body
    sides = _Sides()
    results = sides.results(body, inside=False)
    return None if results is None else sides.builder.block(sides.builder.make_tuple(results))


class _Sides:
    """Both sides of branches, computed one after the other. ``updates`` are the writes of arrays on
    sides: what an array is written with is chosen, and not the array."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.instead: dict[Atom, Atom] = {}
        self.fields: dict[Atom, list[Atom]] = {}
        self.updates: dict[Atom, nodes.Call] = {}

    def results(self, block: nodes.Block, inside: bool = True) -> list[Atom] | None:
        """Emits what a block computes; returns the fields of its result, or None."""
        fields = next_values(block)
        for var, value in ((b.var, map_operands(b.value, self.now)) for b in block.bindings):
            if isinstance(value, nodes.Tuple) and var is block.result:
                continue
            if isinstance(value, nodes.If):
                chosen = self.chosen(value, inside)
                if chosen is None:
                    return None
                self.fields[var] = chosen
                if not isinstance(var.type, TupleType):
                    self.instead[var] = chosen[0]
            elif isinstance(value, nodes.TupleGetItem) and value.value in self.fields:
                self.instead[var] = self.fields[value.value][value.index]
            elif nested_blocks(value) or not self.updates.keys().isdisjoint(operands(value)):
                return None
            elif inside and isinstance(value, nodes.Call) and _is_update(value):
                self.updates[var] = value
            elif inside and not _is_map(value):
                return None
            else:
                self.builder.bindings.append(nodes.Binding(var, value))
        if fields is None:
            return self.fields.get(block.result, [self.now(block.result)])
        return [self.now(a) for a in fields]

    def now(self, atom: Atom) -> Atom:
        return self.instead.get(atom, atom)

    def chosen(self, branch: nodes.If, inside: bool) -> list[Atom] | None:
        """Emits a branch; returns the fields of its result, or None."""
        then, orelse = self.results(branch.then), self.results(branch.orelse)
        if then is None or orelse is None:
            return None
        fields: list[Atom] = []
        for one, other in zip(then, orelse, strict=True):
            field: Atom | None = one
            if one in self.updates or other in self.updates:
                field = self.update(branch.condition, one, other, inside)
            elif one is not other:
                field = self.builder.emit(get("where"), (branch.condition, one, other))
            if field is None:
                return None
            fields.append(field)
        return fields

    def update(self, condition: Atom, then: Atom, orelse: Atom, inside: bool) -> Atom | None:
        """Emits the write of what is chosen, for two sides that write one place or leave it."""
        update = self.updates.get(then) or self.updates[orelse]
        array, places, attrs = update.args[0], update.args[2:], update.attrs
        values: list[Atom] = []
        for side in (then, orelse):
            call = self.updates.get(side)
            if call is not None:
                values.append(call.args[1])
                if (call.args[0], call.args[2:], call.attrs) != (array, places, attrs):
                    return None
                continue
            if side is not array or attrs["sizes"] or attrs["reduction"] != "none":
                return None
            for axis, place in sorted(zip(attrs["axes"], places), key=itemgetter(0), reverse=True):
                side = self.builder.emit(get("take"), (side, place), {"axis": axis})
            values.append(side)
        value = self.builder.emit(get("where"), (condition, *values))
        call = replace(update, args=(array, value, *places))
        if not inside:
            return self.builder.bind(call, then.type)
        var = nodes.Var("update", then.type)
        self.updates[var] = call
        return var


def _is_update(value: nodes.Call) -> bool:
    """True for a write at one place."""
    places = value.args[2:] if value.op is OPERATORS["index_update"] else ()
    return bool(places) and not any(tensor_type(place).rank for place in places)


def _is_map(value: nodes.Expr) -> bool:
    op = value.op if isinstance(value, nodes.Call) else None
    return isinstance(op, Operator) and op.compute is not None and op.pattern <= Pattern.INJECTIVE

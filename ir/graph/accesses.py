"""Elements of carried arrays that the iterations of a loop read and write, and carried values to
which they only add terms.

A place is an expression in the loop's index, which stands for all of its iterations. Reads and
writes are compared as in Allen and Kennedy, "Optimizing Compilers for Modern Architectures", 2001,
chapter 3, for subscripts of one index.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..dataclass import dataclass
from ..dims import IntExpr, as_int, substitute, symbol
from ..loop.scalar import COMBINERS, Combiner
from . import nodes
from .nodes import Atom, tensor_type
from .operator import OPERATORS
from .walk import all_uses, may_fail

_INDEX = symbol("index")


@dataclass(frozen=True, slots=True)
class Write:
    """An update of the carried array ``param``: iteration ``i`` writes at ``first + step * i`` on
    ``axis``."""

    call: nodes.Call
    param: nodes.Var
    axis: int
    first: int
    step: int


@dataclass(frozen=True, slots=True)
class Term:
    """A value that an iteration joins to a carried one, where ``condition`` is ``outcome``."""

    value: Atom
    negative: bool = False
    condition: Atom | None = None
    outcome: bool = True


class Accesses:
    """Those of ``loop``, whose body is ``body`` and runs ``count`` times. ``outer`` has the values
    of variables from around it."""

    def __init__(
        self, loop: nodes.For, body: nodes.Block, count: int, outer: Mapping[Atom, nodes.Expr]
    ) -> None:
        self.loop, self.count = loop, count
        self.made: dict[Atom, nodes.Expr] = {b.var: b.value for b in body.bindings}
        self.varying: set[Atom] = {loop.index, *loop.params}
        self.uses: dict[Atom, list[nodes.Binding]] = {}
        needed: set[Atom] = {body.result}
        for binding in reversed(body.bindings):
            if binding.var in needed or may_fail(binding.value):
                needed |= all_uses(binding.value)
        for binding in body.bindings:
            used = all_uses(binding.value)
            if used & self.varying:
                self.varying.add(binding.var)
            for atom in used if binding.var in needed else ():
                self.uses.setdefault(atom, []).append(binding)
        self._outer = outer
        self._symbols: dict[Atom, IntExpr] = {}

    def place(self, atom: Atom) -> tuple[int, IntExpr] | None:
        """Returns the step from one iteration to the next and the first of the values of a scalar;
        None if it is not linear in the index."""
        value = self._value(atom)
        if value is None:
            return None
        first = substitute(value, {"index": 0})
        step = substitute(value, {"index": 1}) - first
        return (step, first) if isinstance(step, int) else None

    def _value(self, atom: Atom) -> IntExpr | None:
        if isinstance(atom, nodes.Constant):
            is_number = not atom.value.shape and atom.value.dtype.kind in "iu"
            return int(atom.value) if is_number else None
        if atom is self.loop.index:
            return _INDEX
        value = self.made.get(atom, self._outer.get(atom))
        if isinstance(value, nodes.Call) and len(value.args) == 2:
            left, right = value.args
            if value.op is OPERATORS["add"]:
                return _joined(self._value(left), 1, self._value(right))
            if value.op is OPERATORS["subtract"]:
                return _joined(self._value(left), -1, self._value(right))
            if value.op is OPERATORS["multiply"] and isinstance(right, nodes.Constant):
                return _joined(0, self._value(right), self._value(left))
        if atom in self.varying:
            return None
        return self._symbols.setdefault(atom, symbol(f"v{len(self._symbols)}"))

    def write(self, param: nodes.Var, end: Atom) -> Write | None:
        """Returns how a carried array is written that goes on as ``end``: each iteration writes its
        own part, and reads none that an earlier one has written; None if it is not so."""
        call = self._update(param, end)
        varying = [n for n, p in enumerate(call.args[2:]) if p in self.varying] if call else []
        if call is None or len(varying) != 1:
            return None
        axis = call.attrs["axes"][varying[0]]
        place = self.place(call.args[2 + varying[0]])
        if not place or not place[0] or not self._stays_inside(place, param, axis):
            return None
        write = Write(call, param, axis, as_int(place[1]), place[0])
        return write if self._reads_before(param, axis, write) else None

    def _update(self, param: nodes.Var, end: Atom) -> nodes.Call | None:
        """Returns the update at one place that makes ``end`` of a carried array."""
        call = self.made.get(end)
        if not isinstance(call, nodes.Call) or call.op is not OPERATORS["index_update"]:
            return None
        if call.args[0] is not param or call.attrs["starts"] or len(self.uses[end]) != 1:
            return None
        return None if any(tensor_type(place).rank for place in call.args[2:]) else call

    def _reads_before(self, array: Atom, axis: int, write: Write) -> bool:
        """True if what is read of an array, a part of the written one, was not written before."""
        for binding in self.uses.get(array, ()):
            call = binding.value
            if not isinstance(call, nodes.Call) or call.args.count(array) != 1:
                return False
            if call is write.call and call.args[0] is array:
                continue
            if call.op is OPERATORS["take"] and call.args[0] is array:
                cut = call.attrs["axis"]
                if cut is None or tensor_type(call.args[1]).rank:
                    return False
                cut %= tensor_type(array).rank
                if cut == axis:
                    if not self._is_before(call.args[1], array, axis, write):
                        return False
                elif not self._reads_before(binding.var, axis - (cut < axis), write):
                    return False
            elif (inside := _axis_of_view(call, axis)) is not None:
                if not self._reads_before(binding.var, inside, write):
                    return False
            else:
                return False
        return True

    def _is_before(self, index: Atom, array: Atom, axis: int, write: Write) -> bool:
        """True if no iteration reads at ``index`` what an earlier one has written."""
        place = self.place(index)
        if place is None or place[0] not in (0, write.step):
            return False
        if not self._stays_inside(place, array, axis):
            return False  # it is counted from the end, or is another one
        ahead = as_int(place[1]) - write.first
        if ahead % write.step:
            return True
        later = ahead // write.step  # by so many iterations, or after the first one, it is written
        return (
            later >= 0 or -later >= self.count if place[0] else later < 0 or later >= self.count - 1
        )

    def _stays_inside(self, place: tuple[int, IntExpr], array: Atom, axis: int) -> bool:
        """True if all iterations are known to be at elements of an axis."""
        (step, first), size = place, tensor_type(array).shape[axis]
        if not isinstance(first, int) or not isinstance(size, int):
            return False
        last = first + (self.count - 1) * step
        return min(first, last) >= 0 and max(first, last) < size

    def sum_at(
        self, param: nodes.Var, end: Atom
    ) -> tuple[nodes.Call, Atom, Combiner, list[Term]] | None:
        """Returns the update of a carried array that all iterations write at one place, what it
        reads there, and what is joined to it; None if they do something else."""
        call = self._update(param, end)
        if call is None or call.attrs["sizes"] or call.attrs["reduction"] != "none":
            return None
        at = dict(zip(call.attrs["axes"], map(self.place, call.args[2:]), strict=True))
        read, left = param, [*range(tensor_type(param).rank)]
        while at and (readers := [b for b in self.uses[read] if b.value is not call]):
            take = readers[0].value
            if len(readers) > 1 or not isinstance(take, nodes.Call) or take.args[0] is not read:
                return None
            if take.op is not OPERATORS["take"] or tensor_type(take.args[1]).rank:
                return None
            place = at.pop(left.pop(take.attrs["axis"] % len(left)), None)
            if place is None or place[0] or place != self.place(take.args[1]):
                return None
            read = readers[0].var
        joined = None if at or read is param else self._all_terms(call.args[1], read)
        return None if joined is None else (call, read, *joined)

    def terms(self, param: nodes.Var, end: Atom) -> tuple[Combiner, list[Term]] | None:
        """Returns what each iteration joins to a carried value that goes on as ``end``, and how, if
        nothing else is done with it."""
        return None if end is param else self._all_terms(end, param)

    def _all_terms(self, end: Atom, begin: Atom) -> tuple[Combiner, list[Term]] | None:
        if len(self.uses.get(end, ())) != 1:
            return None  # what all iterations so far have joined is needed in each
        for combiner in COMBINERS.values():
            if combiner.name in OPERATORS:
                chain = self._chain(end, begin, combiner)
                if chain is not None and all(
                    len(self.uses[atom]) == chain[1].count(atom) for atom in chain[1]
                ):
                    return combiner, chain[0]
        return None

    def _chain(
        self, end: Atom, begin: Atom, combiner: Combiner
    ) -> tuple[list[Term], list[Atom]] | None:
        """Returns what makes ``end`` of ``begin``, and the values on the way."""
        if end is begin:
            return [], []
        call = self.made.get(end)
        if not isinstance(call, nodes.Call):
            return None
        if call.op is OPERATORS["where"]:
            condition, then, orelse = call.args
            for inner, base, outcome in ((then, orelse, True), (orelse, then, False)):
                branch, rest = self._chain(inner, base, combiner), None
                if branch is not None and all(t.condition is None for t in branch[0]):
                    rest = self._chain(base, begin, combiner)
                if branch is not None and rest is not None:
                    terms = [Term(t.value, t.negative, condition, outcome) for t in branch[0]]
                    return terms + rest[0], [base, *branch[1], *rest[1]]
            return None
        negative = call.op is OPERATORS["subtract"] and combiner.op == "add"
        if not negative and call.op is not OPERATORS[combiner.op]:
            return None
        pairs = [call.args] if negative else [call.args, call.args[::-1]]
        for lead, value in pairs:
            rest = self._chain(lead, begin, combiner)
            if rest is not None:
                return [Term(value, negative), *rest[0]], [lead, *rest[1]]
        return None


def _axis_of_view(call: nodes.Call, axis: int) -> int | None:
    """Returns which axis of a view has the elements of an ``axis`` of what is seen; None if none
    has all of them."""
    shape = tensor_type(call.args[0]).shape
    if call.op is OPERATORS["dynamic_slice"]:
        return None if axis in call.attrs["axes"] else axis
    if call.op is OPERATORS["strided_slice"]:
        bounds = (call.attrs[name][axis] for name in ("begin", "end", "strides"))
        return axis if (*bounds,) == (0, shape[axis], 1) else None
    if call.op is OPERATORS["reshape"] and shape[axis] != 1:
        seen = call.attrs["newshape"]
        kept = [n for n, size in enumerate(seen) if size != 1]
        if [size for size in shape if size != 1] == [seen[n] for n in kept]:
            return kept[sum(size != 1 for size in shape[:axis])]
    return None


def _joined(left: IntExpr | None, factor: IntExpr | None, right: IntExpr | None) -> IntExpr | None:
    """Returns ``left + factor * right``."""
    return None if left is None or factor is None or right is None else left + factor * right

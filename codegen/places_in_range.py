"""Places of arrays that a loop walks over: one test before the loop instead of one per iteration.

A kernel limits every index that data decides, and a check tells which was out of range. Where the
index of an inner loop moves by the same step from a scalar that the loop leaves alone, the first
and the last place tell about all of them. The entry has such a loop twice: where both places are in
range it runs the copy in which LLVM is told so, and removes limits and checks; else the other one
(Würthinger, Wimmer, Mössenböck, "Array bounds check elimination for the Java HotSpot client
compiler", 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..ir.dims import Dim, IntExpr, Symbol, symbol, symbols
from ..ir.dtype import INT64
from ..ir.loop.expr import Const, Expr, Op, Read, walk
from ..ir.loop.limited_index import from_end, limited
from ..ir.loop.nest import At, Nest, Store, expressions, statements
from ..ir.loop.scalar import SCALAR_OPS
from ..ir.program import analysis, nodes
from .module_text import KernelText, NestKernel

LONGEST_AXIS = 1 << 31
"""Elements of an axis whose places are followed: its square (steps times iterations) fits int64."""

MOST_TERMS = 16
"""Scalars and numbers in a place that is followed."""

MOST_CALLS = 16
"""Calls in the body of a loop that is there twice: LLVM compiles them twice."""


def note_places(program: nodes.Program, kernels: Mapping[str, KernelText]) -> nodes.Program:
    """Notes on innermost loops the places that are in range if those of two iterations are.

    Before::

        for %i: int64[] < %n {
          call inline @take(@in %x, @in %first, @in %i, @out %y)
        }

    After::

        for %i: int64[] < %n places (%first + %i) < 100 {
          call inline @take(@in %x, @in %first, @in %i, @out %y)
        }
    """
    nests = {name: k.nest for name, k in kernels.items() if isinstance(k, NestKernel)}

    def noted(scope: nodes.Program) -> nodes.Program:
        scalars = _scalars(scope)

        def visited(instr: nodes.Instr) -> nodes.Instr:
            bodies = nodes.nested_bodies(instr)
            if isinstance(instr, nodes.For) and _is_innermost(instr):
                return replace(instr, places=tuple(_Walk(instr, nests, scalars).places()))
            inner = [tuple(map(visited, body)) for body in bodies]
            return nodes.with_nested_bodies(instr, inner) if bodies else instr

        return replace(scope, body=tuple(map(visited, scope.body)))

    return analysis.each_scope(program, noted)


def _is_innermost(loop: nodes.For) -> bool:
    inside = [*analysis.walk(loop.body)]
    loops = any(isinstance(i, nodes.For | nodes.While | nodes.Invoke) for i in inside)
    return not loops and sum(isinstance(i, nodes.Call) for i in inside) <= MOST_CALLS


def _scalars(scope: nodes.Program) -> set[str]:
    """The int64 scalars whose memory has no other name."""
    where, swapped = analysis.places(scope), analysis.swap_groups(scope)
    roots = [place.root for place in where.values()]
    return {
        name
        for name, region in analysis.regions(scope).items()
        if region.shape == () and region.dtype == INT64
        if name not in swapped and roots.count(where[name].root) == 1
    }


class _Walk:
    """Follows integers through the body of a loop: sums and products of its index and of scalars
    that it does not change."""

    def __init__(self, loop: nodes.For, nests: Mapping[str, Nest], scalars: set[str]) -> None:
        self.loop, self.nests, self.scalars = loop, nests, scalars
        written = set(analysis.written(loop.body))
        self.values: dict[str, nodes.Sum] = {name: name for name in scalars - written}
        self.values[loop.index.name] = loop.index.name

    def places(self) -> Iterator[nodes.InRange]:
        """The places that are used in each iteration, each once."""
        seen: set[tuple[IntExpr, IntExpr]] = set()
        for instr in self.loop.body:
            match instr:
                case nodes.Call(kernel) if instr.inline and kernel in self.nests:
                    for index, length in self.call(instr, self.nests[kernel]):
                        place = _normal(index), length
                        if place not in seen and self.is_useful(*place):
                            seen.add(place)
                            yield nodes.InRange(index, length)
                case nodes.Copy(source, target):
                    self.set(target, self.values.get(source))
                case _:
                    for name in analysis.written((instr,)):
                        self.set(name, None)

    def is_useful(self, place: IntExpr, length: IntExpr) -> bool:
        """True for a place that intervals say nothing of, and that moves by one step."""
        index = self.loop.index.name
        if not isinstance(place, Dim) or not isinstance(length, int) or length > LONGEST_AXIS:
            return False
        names = [[a.name for a in factors if isinstance(a, Symbol)] for factors, _ in place.terms]
        is_known = isinstance(self.loop.extent, int) and not symbols(place) - {index}
        return not is_known and all(each.count(index) <= 1 for each in names)

    def set(self, name: str, value: nodes.Sum | None) -> None:
        """Takes note of what a scalar is now."""
        self.values.pop(name, None)
        if value is not None and name in self.scalars:
            self.values[name] = value

    def call(self, call: nodes.Call, nest: Nest) -> Iterator[tuple[nodes.Sum, IntExpr]]:
        """The indices of a kernel that are followed, with the lengths of their axes."""
        nest = nest.at({s.name: value for s, value in zip(nest.sizes, call.sizes, strict=True)})
        shapes = {o.buffer.name: o.buffer.shape for o in nest.operands}
        bound = dict(zip(shapes, (o.name for o in call.operands), strict=True))
        results: dict[str, nodes.Sum | None] = {}
        for stmt in statements(nest.body):
            reads = (n for e in expressions(stmt) for n in walk(e) if isinstance(n, Read))
            indices = [i for n in reads for i in zip(n.indices, shapes.get(n.buffer, ()))]
            if isinstance(stmt, At):
                indices.append((stmt.value, stmt.extent))
            for index, length in indices:
                value = None if isinstance(index, int | Dim) else self.value(_free(index), bound)
                if value is not None:
                    yield value, length
            if isinstance(stmt, Store) and stmt.buffer in bound:
                value = None if stmt.indices else self.value(stmt.value, bound)
                results[stmt.buffer] = value
                # What a kernel has computed may lie over what it was given.
                self.set(bound[stmt.buffer], value)
        for operand, name in zip(call.operands, shapes, strict=True):
            if operand.access.writes and results.get(name) is None:
                self.set(operand.name, None)

    def value(self, expr: Expr, bound: Mapping[str, str]) -> nodes.Sum | None:
        """Returns an integer of a kernel in terms of scalars around it, if it is a short sum."""
        return self.sum(expr, bound) if len(walk(expr)) <= 2 * MOST_TERMS else None

    def sum(self, expr: Expr, bound: Mapping[str, str]) -> nodes.Sum | None:
        match expr:
            case Const() if expr.dtype == INT64:
                return int(expr.value)
            case Read() if not expr.indices:
                return self.values.get(bound.get(expr.buffer, ""))
            case Op() if SCALAR_OPS[expr.name].symbol in _SUMS and expr.dtype == INT64:
                one, other = (self.sum(a, bound) for a in expr.args)
                if one is None or other is None or _parts(one) + _parts(other) > MOST_TERMS:
                    return None
                return SCALAR_OPS[expr.name].symbol, one, other
            case _:
                return None


def _parts(value: nodes.Sum) -> int:
    return _parts(value[1]) + _parts(value[2]) if isinstance(value, tuple) else 1


def _normal(value: nodes.Sum) -> IntExpr:
    """A sum in normal form: equal ones are written in many ways."""
    match value:
        case int():
            return value
        case str():
            return symbol(value)
        case (sign, one, other):
            return _SUMS[sign](_normal(one), _normal(other))


_SUMS: dict[str, Callable[[IntExpr, IntExpr], IntExpr]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
}


def _free(index: Expr) -> Expr:
    """An index without what limits it, and counts it from the end if it is negative."""
    inside = limited(index)
    if inside is not None:
        return inside.free
    ends = from_end(index)
    return index if ends is None else ends[0]

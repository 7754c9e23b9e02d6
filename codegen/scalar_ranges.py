"""Ranges of the integers that a program with control flow keeps in scalars.

Interval analysis (Cousot and Cousot, "Abstract interpretation", 1977): each instruction is executed
on intervals instead of numbers. A loop is executed until its state no longer grows, with bounds
that keep growing widened to those of the dtype, and then again to narrow them. What a condition
says of a scalar holds in the body that it guards.

Kernels limit every index that comes from data. What is known to be in range needs no limits; LLVM
is told so (``llvm.assume``) and removes them from the kernels that are parts of the entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TypeAlias

from ..ir.dataclass import dataclass
from ..ir.dtype import DType
from ..ir.loop.expr import Const, Expr, Op, Read
from ..ir.loop.expr import walk as operands_of
from ..ir.loop.nest import Accumulate, At, Nest, Store, expressions, statements
from ..ir.loop.scalar import SCALAR_OPS
from ..ir.program import analysis, nodes
from .module_text import KernelText, NestKernel

MOST_NESTED_LOOPS = 4
"""Loops in each other up to which they are analysed: each executes its body six times."""

STEADY_AFTER = 2
"""Executions of a loop's body after which bounds that still move are widened."""

NARROWINGS = 2

LEAST_LONG = 1 << 20
"""Iterations of a loop from which on it does not matter how many more there are."""

Range: TypeAlias = tuple[int, int]
"""The least and the greatest value, both inclusive."""


def bound_scalars(program: nodes.Program, kernels: Mapping[str, KernelText]) -> nodes.Program:
    """Notes on inline calls the ranges of scalars that the kernels compute indices from.

    Before::

        for %i: int64[] < 9 {
          call inline @take(@in %x, @in %i, @out %y)
        }

    After::

        for %i: int64[] < 9 {
          call inline @take(@in %x, @in %i, @out %y) where %i in [0, 8]
        }
    """
    if not analysis.has_control_flow(program):
        return program
    summaries = {
        name: _Summary.of(kernel.nest)
        for name, kernel in kernels.items()
        if isinstance(kernel, NestKernel)
    }

    def bound(scope: nodes.Program) -> nodes.Program:
        if _depth(scope.body) > MOST_NESTED_LOOPS:
            return scope
        analysed = _Analysis(scope, summaries)
        ranges = analysed.calls()

        def noted(instr: nodes.Instr) -> nodes.Instr:
            if isinstance(instr, nodes.Call):
                return replace(instr, ranges=ranges.get(id(instr), ()))
            inner = [tuple(map(noted, body)) for body in nodes.nested_bodies(instr)]
            made = nodes.with_nested_bodies(instr, inner)
            most = analysed.extents.get(id(instr), LEAST_LONG)
            is_bounded = isinstance(made, nodes.For) and most < LEAST_LONG
            return replace(made, most=most) if is_bounded else made

        if not ranges and min(analysed.extents.values(), default=LEAST_LONG) == LEAST_LONG:
            return scope
        return replace(scope, body=tuple(map(noted, scope.body)))

    return analysis.each_scope(program, bound)


def _depth(body: Iterable[nodes.Instr]) -> int:
    return max(
        (
            isinstance(instr, nodes.For | nodes.While) + _depth(inner)
            for instr in body
            for inner in nodes.nested_bodies(instr)
        ),
        default=0,
    )


@dataclass(frozen=True, slots=True)
class _Summary:
    """A kernel as the analysis sees it: its operands in order, the expressions of its scalar
    results, and the operands that its indices are computed from."""

    operands: tuple[str, ...]
    results: Mapping[str, Expr]
    indexing: frozenset[str]

    @staticmethod
    def of(nest: Nest) -> _Summary:
        results: dict[str, Expr] = {}
        for stmt in nest.body:
            if isinstance(stmt, Store) and not stmt.indices:
                results[stmt.buffer] = stmt.value
        written = Counter(
            s.buffer for s in statements(nest.body) if isinstance(s, Store | Accumulate)
        )
        operands = tuple(o.buffer.name for o in nest.operands)
        return _Summary(
            operands,
            {o: results[o] for o in operands if o in results and written[o] == 1},
            frozenset(_indexing(nest)),
        )


def _indexing(nest: Nest) -> Iterator[str]:
    """The scalars from which a kernel computes where it reads or writes."""
    for stmt in statements(nest.body):
        chosen = [stmt.value] if isinstance(stmt, At) else []
        for expr in expressions(stmt):
            for node in operands_of(expr):
                if isinstance(node, Read):
                    chosen += [i for i in node.indices if isinstance(i, Op | Read)]
        for expr in chosen:
            for node in operands_of(expr):
                if isinstance(node, Read) and not node.indices:
                    yield node.buffer


@dataclass
class _State:
    """Facts at one place of a program: the ranges of integer scalars, and for bool scalars
    the ranges that other scalars have if they are true. What is missing may be anything."""

    ranges: dict[str, Range] = field(default_factory=dict)
    implied: dict[str, dict[str, Range]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.ranges), dict(self.implied))

    def forget(self, name: str) -> None:
        """Drops what is known of a scalar that is written."""
        self.ranges.pop(name, None)
        self.implied.pop(name, None)
        for condition, ranges in [*self.implied.items()]:
            if name in ranges:
                self.implied[condition] = {n: r for n, r in ranges.items() if n != name}

    def assume(self, ranges: Mapping[str, Range]) -> None:
        """Adds facts to what is known. Contradictory ones are those of code that never runs."""
        for name, new in ranges.items():
            both = _common(self.ranges.get(name), new)
            if both is not None:
                self.ranges[name] = both

    def join(self, other: _State) -> _State:
        """Returns what holds in both states."""
        return _State(
            {
                name: _hull(each, other.ranges[name])
                for name, each in self.ranges.items()
                if name in other.ranges
            },
            {n: facts for n, facts in self.implied.items() if other.implied.get(n) == facts},
        )

    def widened(self, wider: _State) -> _State:
        """``wider`` without the bounds that lie beyond those of this state."""
        ranges = {n: r for n, r in wider.ranges.items() if self.ranges.get(n) == r}
        for name in wider.ranges.keys() - ranges:
            if name in self.ranges:
                (low, high), (lower, higher) = self.ranges[name], wider.ranges[name]
                least, most = -(1 << 63), (1 << 64) - 1  # of any dtype
                ranges[name] = (low if lower == low else least, high if higher == high else most)
        return _State(ranges, wider.implied)


def _hull(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


def _common(one: Range | None, other: Range) -> Range | None:
    if one is None:
        return other
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else None


class _Analysis:
    """Executes the instructions of one scope on ranges."""

    def __init__(self, scope: nodes.Program, summaries: Mapping[str, _Summary]) -> None:
        self.scope = scope
        self.summaries = summaries
        self.places = analysis.places(scope)
        # Memory with several names, or exchanged, is left out.
        self.scalars = {
            name: region.dtype
            for name, region in analysis.regions(scope).items()
            if not region.shape and (region.dtype.is_integer or region.dtype.is_bool)
        }
        roots = Counter(place.root for place in self.places.values())
        swapped = {
            n
            for i in analysis.walk(scope.body)
            if isinstance(i, nodes.Swap)
            for n in (i.one, i.other)
        }
        for name in [*self.scalars]:
            if roots[self.places[name].root] > 1 or name in swapped:
                del self.scalars[name]
        self.noted: dict[int, tuple[nodes.ScalarRange, ...]] = {}
        self.extents: dict[int, int] = {}  # the greatest, of loops by identity

    def calls(self) -> dict[int, tuple[nodes.ScalarRange, ...]]:
        """The ranges of operands by the identity of their calls."""
        state = _State()
        for constant in self.scope.constants:
            name = constant.region.name
            if constant.value is not None and name in self.scalars:
                value = int(constant.value)
                state.ranges[name] = (value, value)
        self.block(self.scope.body, state)
        count = Counter(id(i) for i in analysis.walk(self.scope.body))
        return {i: ranges for i, ranges in self.noted.items() if ranges and count[i] == 1}

    def block(self, body: Iterable[nodes.Instr], state: _State) -> _State:
        """Returns the state behind some instructions; ``state`` is that before, and is used up."""
        for instr in body:
            match instr:
                case nodes.Call():
                    self.call(instr, state)
                case nodes.Copy(source, target):
                    self.copy(source, target, state)
                case nodes.If(condition, then, orelse):
                    other = self.block(orelse, state.copy())
                    state.assume(state.implied.get(condition, {}))
                    state = self.block(then, state).join(other)
                case nodes.While(head, condition, inner):
                    state = self.loop(state, head, condition, inner)
                case nodes.For(index, extent, inner):
                    most = extent if isinstance(extent, int) else self.range(extent, state)[1]
                    if isinstance(extent, str):
                        self.extents[id(instr)] = min(max(0, most), LEAST_LONG)
                    state = self.loop(state, (), "", inner, {index.name: (0, max(0, most - 1))})
                    state.forget(index.name)
                case _:
                    for name, access in analysis.accesses(instr):
                        if access.writes:
                            state.forget(name)
        return state

    def loop(
        self,
        entry: _State,
        head: tuple[nodes.Instr, ...],
        condition: str,
        body: tuple[nodes.Instr, ...],
        counter: Mapping[str, Range] | None = None,
    ) -> _State:
        """Returns the state behind a loop: at its condition, before the body."""

        def iterate(state: _State) -> tuple[_State, _State]:
            tested = self.block(head, state.copy())
            inside = tested.copy()
            inside.assume(inside.implied.get(condition, {}))
            inside.ranges |= counter or {}
            return tested, entry.join(self.block(body, inside))

        state, executions = entry, 0
        while True:
            _, after = iterate(state)
            joined = state.join(after)
            if joined == state:
                break
            executions += 1
            state = state.widened(joined) if executions > STEADY_AFTER else joined
        for _ in range(NARROWINGS):
            state = iterate(state)[1]
        return iterate(state)[0]

    def call(self, call: nodes.Call, state: _State) -> None:
        """Executes a kernel, and notes what is known of its operands."""
        summary = self.summaries.get(call.kernel)
        names = [o.name for o in call.operands]
        results: dict[str, Range] = {}
        implied: dict[str, dict[str, Range]] = {}
        if summary is not None:
            bound = dict(zip(summary.operands, names, strict=True))
            values = _Values(bound, state, self.scalars)
            if call.inline:
                indexing = [bound[o] for o in summary.operands if o in summary.indexing]
                self.noted[id(call)] = tuple(self.stated(dict.fromkeys(indexing), state))
            for operand, expr in summary.results.items():
                name = bound[operand]
                if name in self.scalars and expr.dtype.is_bool:
                    implied[name] = values.implied(expr)
                elif name in self.scalars:
                    results[name] = values.range(expr)
                # What a kernel has computed may lie over what it was given.
                values.computed[operand] = results.get(name, _full(expr.dtype))
        for operand in call.operands:
            if operand.access.writes:
                state.forget(operand.name)
        state.ranges |= results
        for name, facts in implied.items():
            written = results.keys() | implied.keys()
            state.implied[name] = {n: r for n, r in facts.items() if n not in written}

    def stated(self, names: Iterable[str], state: _State) -> Iterator[nodes.ScalarRange]:
        """The ranges of those scalars of which more is known than the dtype."""
        for name in names:
            if name in state.ranges and name in self.scalars:
                full = _full(self.scalars[name])
                low, high = _common(full, state.ranges[name]) or full
                if (low, high) != full:
                    yield nodes.ScalarRange(name, low, high)

    def copy(self, source: str, target: str, state: _State) -> None:
        """Executes a copy."""
        state.forget(target)
        if source in self.scalars and target in self.scalars:
            if source in state.ranges:
                state.ranges[target] = state.ranges[source]
            if source in state.implied:
                state.implied[target] = state.implied[source]

    def range(self, name: str, state: _State) -> Range:
        """The range of an integer scalar."""
        return state.ranges.get(name, (-(1 << 63), (1 << 63) - 1))


def _full(dtype: DType) -> Range:
    """All values of an integer dtype, or of bool."""
    if dtype.is_bool:
        return 0, 1
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


@dataclass
class _Values:
    """Scalar expressions of a kernel on ranges. ``bound`` are the names of its operands."""

    bound: Mapping[str, str]
    state: _State
    scalars: Mapping[str, DType]
    memo: dict[Expr, Range] = field(default_factory=dict)
    computed: dict[str, Range] = field(default_factory=dict)
    """The ranges of the kernel's own results so far."""

    def range(self, expr: Expr) -> Range:
        """The range of an integer or bool expression; of others any."""
        if expr not in self.memo:
            for node in operands_of(expr):  # operands first: chains are longer than the stack
                if node not in self.memo:
                    self.memo[node] = self._range(node)
        return self.memo[expr]

    def _range(self, expr: Expr) -> Range:
        if expr.dtype.is_float:
            return 0, 0  # is never asked for a number
        full = _full(expr.dtype)
        match expr:
            case Const():
                return int(expr.value), int(expr.value)
            case Read():
                if expr.buffer in self.computed:
                    return self.computed[expr.buffer]
                name = self.cell(expr)
                return full if name is None else self.state.ranges.get(name, full)
            case Op():
                low, high = self._of_operator(expr, full)
                # What leaves the dtype wraps around.
                return (low, high) if full[0] <= low and high <= full[1] else full
            case _:
                return full

    def _of_operator(self, expr: Op, full: Range) -> Range:
        if any(a.dtype.is_float for a in expr.args):
            return full
        if expr.name == "where":
            return _hull(self.range(expr.args[1]), self.range(expr.args[2]))
        ranges = [self.range(a) for a in expr.args]
        match expr.name, ranges:
            case "cast", [only]:
                return only
            case "add", [(a, b), (c, d)]:
                return a + c, b + d
            case "subtract", [(a, b), (c, d)]:
                return a - d, b - c
            case "multiply", [(a, b), (c, d)]:
                corners = (a * c, a * d, b * c, b * d)
                return min(corners), max(corners)
            case "minimum", [(a, b), (c, d)]:
                return min(a, c), min(b, d)
            case "maximum", [(a, b), (c, d)]:
                return max(a, c), max(b, d)
            case "floor_divide", [(a, b), (c, d)] if c == d > 0:
                return a // c, b // c
            case "floor_mod", [(a, b), (c, d)] if c == d > 0:
                return (a, b) if a >= 0 and b < c else (0, c - 1)
            case _:
                return full

    def cell(self, expr: Expr) -> str | None:
        """The scalar of the program that an expression reads, None for others."""
        if not isinstance(expr, Read) or expr.indices or expr.buffer not in self.bound:
            return None
        if expr.buffer in self.computed:  # not what was there before the call
            return None
        name = self.bound[expr.buffer]
        return name if name in self.scalars else None

    def implied(self, expr: Expr, negated: bool = False) -> dict[str, Range]:
        """The ranges that scalars have where a bool expression holds, or where it does not."""
        name = self.cell(expr)
        if name is not None:
            return {} if negated else dict(self.state.implied.get(name, {}))
        if not isinstance(expr, Op):
            return {}
        if expr.name == "logical_not":
            return self.implied(expr.args[0], not negated)
        conjunction = ("logical_or", "bitwise_or") if negated else ("logical_and", "bitwise_and")
        if expr.name in conjunction:
            facts = self.implied(expr.args[0], negated)
            for name, new in self.implied(expr.args[1], negated).items():
                facts[name] = _common(facts.get(name), new) or new
            return facts
        row = SCALAR_OPS[expr.name]
        if not row.compares or not expr.args[0].dtype.is_integer:
            return {}
        relation = row.negated if negated else expr.name
        one, other = expr.args
        facts = self._bounded(one, relation, self.range(other))
        for name, new in self._bounded(
            other, SCALAR_OPS[relation].swapped, self.range(one)
        ).items():
            facts[name] = _common(facts.get(name), new) or new
        return facts

    def _bounded(self, expr: Expr, relation: str, other: Range) -> dict[str, Range]:
        """The range of the scalar ``expr`` if it is ``less`` than a value of ``other``, say."""
        name = self.cell(expr)
        if name is None:
            return {}
        low, high = _full(expr.dtype)
        match relation:
            case "less":
                high = other[1] - 1
            case "less_equal":
                high = other[1]
            case "greater":
                low = other[0] + 1
            case "greater_equal":
                low = other[0]
            case "equal":
                low, high = other
            case _:
                return {}
        return {name: (low, high)} if low <= high else {}

"""Verifiers of PrimFuncs and loop nests, which raise InternalError.

A loop nest that passes reads only buffers that are declared and written, and accesses them inside
their bounds wherever the loops' ranges decide that. No two iterations of a parallel loop write one
element. Accesses that depend on data (gathers, guards) are left to the interpreter.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import field, replace
from typing import NoReturn

from ..dataclass import dataclass
from ..dim_proofs import prove
from ..dims import Dim, IntExpr, bounds, int_max, int_min, symbols
from ..dtype import INT64, DType
from ..errors import InternalError
from .expr import Expr, Index, Op, Read, index_value, walk
from .intrinsics import is_instance
from .kinds import LoopKind, Role
from .nest import Accumulate, Alloc, At, If, Intrinsic, Let, Loop, Nest, Prefetch, Sort, Stmt, Store
from .prim import Axis, Buffer, PrimFunc, Stage
from .procedure import Procedure, plain_nest
from .reads_outside import Ends, as_numbers, bounds_around, problem_of, symbols_of, unguarded
from .scalar import COMBINERS


def verify_prim(prim: PrimFunc) -> None:
    """Check a PrimFunc. Raises InternalError that shows its text with the bad stage marked.

    An axis has one extent, a stage has the shape of its axes and the dtype of its expression, and
    reads only parameters and stages before it, with as many indices as they have dimensions. The
    statements of a procedure are those of a nest that is verified; a result begins as a parameter
    of its type, and no two as the same one.
    """
    if isinstance(prim, Procedure):
        _verify_begins(prim)
        verify_nest(plain_nest(prim))
    else:
        _PrimVerifier(prim).run()


def _verify_begins(prim: Procedure) -> None:
    buffers = prim.buffers
    params = {p.name for p in prim.params}
    names = [name for pair in prim.begins for name in pair]
    for result, start in prim.begins:
        if result not in prim.outputs or start not in params or len(set(names)) != len(names):
            _fail(f"prim @{prim.name}: {result} cannot begin as {start}", str(prim).split("\n"), 0)
        one, other = buffers[result], buffers[start]
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            _fail(f"prim @{prim.name}: {one} begins as {other}", str(prim).split("\n"), 0)


def verify_nest(nest: Nest) -> None:
    """Check a loop nest. Raises InternalError that shows its text with the bad statement marked."""
    _NestVerifier(nest).run()


class _PrimVerifier:
    def __init__(self, prim: PrimFunc) -> None:
        self.prim = prim
        self.buffers: dict[str, Buffer] = {}
        self.extents: dict[str, IntExpr] = {}

    def run(self) -> None:
        sizes = {size.name for size in self.prim.sizes}
        for param in self.prim.params:
            if param.name in self.buffers:
                self.fail(None, f"two parameters are called {param.name}")
            self.buffers[param.name] = param
        for stage in self.prim.stages:
            self.stage(stage, sizes)
            self.buffers[stage.name] = stage.buffer
        made = [s.name for s in self.prim.stages]
        for output in self.prim.outputs:
            if output not in made:
                self.fail(None, f"no stage makes the output {output}")
        if len(set(self.prim.outputs)) != len(self.prim.outputs):
            self.fail(None, "an output is there twice")

    def stage(self, stage: Stage, sizes: set[str]) -> None:
        if stage.name in self.buffers:
            self.fail(stage, f"{stage.name} is there already")
        if stage.buffer.shape != tuple(a.extent for a in stage.axes):
            self.fail(stage, f"the axes of {stage.name} do not have its shape")
        if stage.reduce_axes and stage.combiner is None:
            self.fail(stage, f"{stage.name} reduces axes without a combiner")
        if stage.combiner is not None and stage.combiner not in COMBINERS:
            self.fail(stage, f"no combiner {stage.combiner!r}")
        if stage.expr.dtype != stage.buffer.dtype:
            self.fail(stage, f"{stage.name} is {stage.buffer.dtype}, its value {stage.expr.dtype}")
        axes = (*stage.axes, *stage.reduce_axes)
        self.axes(stage, axes, sizes)
        variables = sizes | {a.name for a in axes}
        for node in walk(stage.expr):
            problem = _node_problem(node, self.buffers, variables)
            if problem:
                self.fail(stage, problem)
        ends: Ends = {a.name: (0, a.extent - 1) for a in axes}
        if not any(a.extent == 0 for a in axes):
            for node in unguarded(stage.expr):
                problem = problem_of(node.buffer, node.indices, self.buffers[node.buffer], ends)
                if problem:
                    self.fail(stage, problem)

    def axes(self, stage: Stage, axes: Sequence[Axis], sizes: set[str]) -> None:
        names = [a.name for a in axes]
        for axis in axes:
            if axis.name in sizes:
                self.fail(stage, f"{axis.name} is an axis and a size")
            for name in sorted(symbols_of(axis.extent) - sizes):
                self.fail(stage, f"the size {name} of the axis {axis.name} has no range")
        if len(set(names)) != len(names):
            self.fail(stage, f"{stage.name} walks an axis twice")
        for axis in axes:
            if self.extents.setdefault(axis.name, axis.extent) != axis.extent:
                other = self.extents[axis.name]
                self.fail(stage, f"the axis {axis.name} has the extents {other} and {axis.extent}")

    def fail(self, stage: Stage | None, message: str) -> NoReturn:
        lines = str(self.prim).splitlines()
        at = self.prim.stages.index(stage) + 1 if stage is not None else 0
        _fail(f"prim @{self.prim.name}: {message}", lines, at)


@dataclass(slots=True)
class _Scope:
    """Buffers, variables and loops that are visible to a statement."""

    buffers: dict[str, Buffer]
    ranges: dict[str, tuple[IntExpr, IntExpr]] = field(default_factory=dict)  # outer loops first
    parallel: tuple[str, ...] = ()
    private: dict[str, tuple[str, ...]] = field(default_factory=dict)  # parallel loops around it
    lets: dict[str, frozenset[str]] = field(default_factory=dict)  # loops a let depends on
    lane: str | None = None  # the vector loop
    pinned: frozenset[str] = frozenset()  # loops of which a condition leaves a single iteration

    def inner(self) -> _Scope:
        return _Scope(
            self.buffers.copy(),
            self.ranges.copy(),
            self.parallel,
            self.private.copy(),
            self.lets.copy(),
            self.lane,
            self.pinned,
        )


class _NestVerifier:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.outputs = {o.buffer.name for o in nest.operands if o.role.writes}
        self.inputs = {o.buffer.name for o in nest.operands if not o.role.writes}
        self.written = {o.buffer.name for o in nest.operands if o.role == Role.INOUT}

    def run(self) -> None:
        buffers: dict[str, Buffer] = {}
        self.sizes = {size.name for size in self.nest.sizes}
        for buffer in (*(o.buffer for o in self.nest.operands), *self.nest.workspace):
            if buffer.name in buffers:
                self.fail(None, f"two buffers are called {buffer.name}")
            buffers[buffer.name] = buffer
            for name in sorted({n for size in buffer.shape for n in symbols_of(size)} - self.sizes):
                self.fail(None, f"the size {name} of {buffer.name} has no range")
        self.body(self.nest.body, _Scope(buffers))

    def body(self, body: Sequence[Stmt], scope: _Scope) -> None:
        """Checks statements in ``scope``, to which their declarations are added."""
        for stmt in body:
            if isinstance(stmt, Loop):
                self.loop(stmt, scope)
            elif isinstance(stmt, Let):
                self.let(stmt, scope)
            elif isinstance(stmt, Alloc):
                if not all(isinstance(s, int) for s in stmt.buffer.shape):
                    self.fail(stmt, "a private buffer has constant sizes")
                scope.buffers[stmt.buffer.name] = stmt.buffer
                scope.private[stmt.buffer.name] = scope.parallel
                self.written.discard(stmt.buffer.name)
            elif isinstance(stmt, If):
                self.condition(stmt, scope)
            elif isinstance(stmt, Prefetch):
                self.prefetch(stmt, scope)
            elif isinstance(stmt, Sort):
                self.sort(stmt, scope)
            else:
                self.store(stmt, scope)

    def loop(self, stmt: Loop, scope: _Scope) -> None:
        negative = isinstance(stmt.extent, int) and stmt.extent < 0
        if stmt.kind not in tuple(LoopKind) or negative:
            self.fail(stmt, "the loop has an unknown kind or a negative extent")
        self.check_variables(stmt, stmt.extent, scope)
        if stmt.kind == LoopKind.UNROLL and isinstance(stmt.extent, Dim):
            self.fail(stmt, f"a loop of the kind {stmt.kind} has a constant extent")
        if stmt.var in scope.ranges or stmt.var in self.sizes:
            self.fail(stmt, f"{stmt.var} is the variable of a loop around this one")
        if isinstance(stmt, At):
            self.expression(stmt, stmt.value, scope)
            if stmt.value.dtype != INT64:
                self.fail(stmt, f"{stmt.var} is chosen by {stmt.value.dtype}, not by int64")
        if stmt.extent == 0:
            return
        if isinstance(stmt, Intrinsic) and not is_instance(stmt, scope.lane, scope.buffers):
            self.fail(stmt, f"these loops are not what {stmt.instruction} does")
        inner = scope.inner()
        if stmt.kind in (LoopKind.VECTORIZE, LoopKind.REDUCE):
            inner.lane = stmt.var
        inner.ranges[stmt.var] = (0, stmt.extent - 1)
        if stmt.kind == LoopKind.PARALLEL and not prove(stmt.extent, "<=", 1, scope.ranges):
            inner.parallel = (*scope.parallel, stmt.var)
        self.body(stmt.body, inner)

    def let(self, stmt: Let, scope: _Scope) -> None:
        self.check_variables(stmt, stmt.value, scope)
        inside = bounds(stmt.value, as_numbers(scope.ranges))
        if stmt.extent is not None:
            self.check_variables(stmt, stmt.extent, scope)
            scope.ranges[stmt.var] = 0, stmt.extent - 1
        elif inside is None:
            self.fail(stmt, f"the range of {stmt.var} is not known")
        else:
            scope.ranges[stmt.var] = inside
        scope.lets[stmt.var] = _loops_of(stmt.value, scope)

    def condition(self, stmt: If, scope: _Scope) -> None:
        self.expression(stmt, stmt.condition, scope)
        if not stmt.condition.dtype.is_bool:
            self.fail(stmt, f"a condition is bool, not {stmt.condition.dtype}")
        then, orelse = scope.inner(), scope.inner()
        self.narrow(then, stmt.condition, True)
        self.narrow(orelse, stmt.condition, False)
        # What this writes may be read in the other branch, an iteration later. A branch that no
        # iteration takes, as that of whole tiles where there are none, says nothing.
        for body, inner in ((stmt.then, then), (stmt.orelse, orelse)):
            ends = (r for r in inner.ranges.values() if isinstance(r[0], int))
            if not any(isinstance(high, int) and high < low for low, high in ends):
                self.body(body, inner)

    def narrow(self, scope: _Scope, condition: Expr, holds: bool) -> None:
        before = dict(scope.ranges)
        scope.ranges = _narrowed(scope.ranges, condition, holds)
        for name, (low, high) in scope.ranges.items():
            around = bounds_around(scope.ranges, low - high)
            if before[name] != (low, high) and prove(high, "<=", low, around):
                scope.pinned |= {name} | scope.lets.get(name, frozenset())

    def prefetch(self, stmt: Prefetch, scope: _Scope) -> None:
        """The buffer must exist and not be written; the element may lie outside of it."""
        results = self.outputs
        if stmt.buffer not in scope.buffers or stmt.buffer in results:
            self.fail(
                stmt, f"{stmt.buffer} is neither an operand that is only read nor a copy of one"
            )
        if len(stmt.indices) != len(scope.buffers[stmt.buffer].shape):
            self.fail(stmt, f"{stmt.buffer} has other dimensions")
        for i in stmt.indices:
            self.check_variables(stmt, i, scope)

    def store(self, stmt: Store | Accumulate, scope: _Scope) -> None:
        if stmt.buffer not in scope.buffers:
            self.fail(stmt, f"no buffer {stmt.buffer}")
        if stmt.buffer in self.inputs:
            self.fail(stmt, f"{stmt.buffer} is an operand that is only read")
        buffer = scope.buffers[stmt.buffer]
        if len(stmt.indices) != len(buffer.shape):
            self.fail(stmt, f"{buffer.name} has {len(buffer.shape)} dimensions")
        for i in stmt.indices:
            self.check_variables(stmt, i, scope)
        self.dtype(stmt, stmt.value.dtype, buffer)
        self.expression(stmt, stmt.value, scope)
        if isinstance(stmt, Accumulate):
            if stmt.combiner not in COMBINERS:
                self.fail(stmt, f"no combiner {stmt.combiner!r}")
            if stmt.buffer not in self.written:
                self.fail(stmt, f"{stmt.buffer} is read before it is written")
        problem = problem_of(stmt.buffer, stmt.indices, buffer, scope.ranges)
        if problem:
            self.fail(stmt, problem)
        self.race(stmt, scope)
        self.written.add(stmt.buffer)

    def sort(self, stmt: Sort, scope: _Scope) -> None:
        """The row must be there, of integers, written, and as long."""
        if stmt.buffer not in scope.buffers or stmt.buffer in self.inputs:
            self.fail(stmt, f"no buffer {stmt.buffer} that may be written")
        buffer = scope.buffers[stmt.buffer]
        if len(stmt.indices) != len(buffer.shape) or not stmt.indices:
            self.fail(stmt, f"{buffer.name} has {len(buffer.shape)} dimensions")
        if not buffer.dtype.is_integer or (isinstance(stmt.count, int) and stmt.count < 1):
            self.fail(stmt, f"one integer or more are sorted, not {stmt.count} {buffer.dtype}")
        if stmt.buffer not in self.written:
            self.fail(stmt, f"{stmt.buffer} is read before it is written")
        places = stmt.indices, stmt.last
        if not isinstance(stmt.count, int):  # it may be 0: the begin and the end of the row
            *outer, last = stmt.last
            places, (*sizes, size) = (stmt.indices, (*outer, last + 1)), buffer.shape
            buffer = replace(buffer, shape=(*sizes, size + 1))
        for place in places:
            for i in place:
                self.check_variables(stmt, i, scope)
            problem = problem_of(stmt.buffer, place, buffer, scope.ranges)
            if problem:
                self.fail(stmt, problem)
        self.race(stmt, scope)

    def dtype(self, stmt: Stmt, dtype: DType, buffer: Buffer) -> None:
        if dtype != buffer.dtype:
            self.fail(stmt, f"{buffer.name} is {buffer.dtype}, the value {dtype}")

    def race(self, stmt: Store | Accumulate | Sort, scope: _Scope) -> None:
        """Iterations of a parallel loop must write different elements of a shared buffer."""
        private = set(scope.private.get(stmt.buffer, ()))
        moved: set[str] = set()
        for i in stmt.indices:
            moved |= _loops_of(i, scope)
        for loop in scope.parallel:
            if loop not in private | moved | scope.pinned:
                self.fail(
                    stmt, f"the iterations of the parallel loop {loop} write the same element"
                )

    def expression(self, stmt: Stmt, expr: Expr, scope: _Scope) -> None:
        for node in walk(expr):
            problem = _node_problem(node, scope.buffers, scope.ranges.keys() | self.sizes)
            if problem:
                self.fail(stmt, problem)
            if isinstance(node, Read) and node.buffer not in self.inputs | self.written:
                self.fail(stmt, f"{node.buffer} is read before it is written")
        for node in unguarded(expr):
            problem = problem_of(
                node.buffer, node.indices, scope.buffers[node.buffer], scope.ranges
            )
            if problem:
                self.fail(stmt, problem)

    def check_variables(self, stmt: Stmt, value: IntExpr, scope: _Scope) -> None:
        for name in symbols_of(value):
            if name not in scope.ranges and name not in self.sizes:
                self.fail(stmt, f"no loop {name} around this statement")

    def fail(self, stmt: Stmt | None, message: str) -> NoReturn:
        lines = list(self.nest.lines())
        at = next((n for n, (_, s) in enumerate(lines) if s is not None and s is stmt), 0)
        _fail(f"nest @{self.nest.name}: {message}", [text for text, _ in lines], at)


def _fail(message: str, lines: Sequence[str], at: int) -> NoReturn:
    marked = [("> " if n == at else "  ") + line for n, line in enumerate(lines)]
    raise InternalError(message, notes=tuple(marked))


def _node_problem(
    node: Expr, buffers: Mapping[str, Buffer], variables: Container[str]
) -> str | None:
    """Returns the problem of a node that may use these buffers and variables; None if fine."""
    names: set[str] = set()
    if isinstance(node, Index):
        names |= symbols(node.value)
    elif isinstance(node, Read):
        if node.buffer not in buffers:
            return f"no buffer {node.buffer}"
        buffer = buffers[node.buffer]
        if len(node.indices) != len(buffer.shape):
            return f"{buffer.name} has {len(buffer.shape)} dimensions, not {len(node.indices)}"
        if node.dtype != buffer.dtype:
            return f"{buffer.name} is {buffer.dtype}, but read as {node.dtype}"
        for i in node.indices:
            names |= symbols_of(i)
    for name in sorted(names):
        if name not in variables:
            return f"no loop or size {name} is known here"
    return None


def _loops_of(value: IntExpr, scope: _Scope) -> frozenset[str]:
    """Returns the loops on which an index depends, directly or through a let."""
    names = symbols_of(value)
    behind = [scope.lets[n] for n in names if n in scope.lets]
    return names.union(*behind) if behind else names


def _narrowed(ranges: Ends, condition: Expr, holds: bool) -> dict[str, tuple[IntExpr, IntExpr]]:
    """The ranges where ``variable < limit`` holds, or does not."""
    narrowed = dict(ranges)
    if not isinstance(condition, Op) or condition.name != "less":
        return narrowed
    left, right = condition.args
    limit = index_value(right)
    if isinstance(left, Index) and limit is not None and len(symbols(left.value)) == 1:
        (name,) = symbols(left.value)
        if str(left.value) == name and name in narrowed:
            low, high = narrowed[name]
            if holds:
                narrowed[name] = low, int_min(high, limit - 1)
            else:
                narrowed[name] = int_max(low, limit), high
    return narrowed

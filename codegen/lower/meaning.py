"""The meaning of a nest in vectors, and the check of what only such a nest has.

All lanes of a vector execute a statement before one executes the next: what a lane reads is what
was there before any lane wrote. Joined lanes have a total each, from vector to vector; the totals
are joined in halves, and what they give with the element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from ...ir.dims import Dim, evaluate, symbols
from ...ir.dtype import Array
from ...ir.errors import InternalError
from ...ir.loop import nest as nests
from ...ir.loop.expr import Expr, Read, walk
from ...ir.loop.interpret import Env, element, interpret, value_of
from ...ir.loop.kinds import LoopKind
from ...ir.loop.limited_index import byte_of
from ...ir.loop.nest import Accumulate, Loop, Nest, Prefetch, Stmt, Store, Vectors, statements
from ...ir.loop.scalar import COMBINERS
from ...ir.loop.stride import mentions, stride_along
from ...ir.loop.verify import verify_nest
from .scope import Scope, greatest_of, rewrite

Arrays: TypeAlias = Mapping[str, Array]


def interpret_vectors(nest: Nest, operands: Arrays, sizes: Mapping[str, int] | None = None) -> None:
    """Runs a nest in vectors as ``interpret`` runs one without, lane by lane and exactly."""
    interpret(nest, operands, sizes, _run)


def _run(loop: Stmt, env: Env, arrays: Arrays) -> bool:
    if not isinstance(loop, Vectors):
        return False
    vectors = [[{**env, loop.var: i} for i in v] for v in loop.lanes(evaluate(loop.extent, env))]
    if loop.kind == LoopKind.REDUCE:
        _join(loop, vectors, arrays)
        return True
    for lanes in [list(chain(*vectors))] if loop.together else vectors:
        for stmt in loop.body:
            _run_lanes(stmt, lanes, arrays)
    return True


def _run_lanes(stmt: Stmt, lanes: Sequence[Env], arrays: Arrays) -> None:
    """Runs a statement in lanes: all values are computed before one is written."""
    if isinstance(stmt, Loop):
        for i in range(stmt.trips):
            for inner in stmt.body:
                _run_lanes(inner, [{**env, stmt.var: i} for env in lanes], arrays)
    elif not isinstance(stmt, Prefetch):
        assert isinstance(stmt, Store | Accumulate)
        places = [element(stmt.buffer, stmt.indices, env, arrays) for env in lanes]
        values = [value_of(stmt.value, env, arrays, {}) for env in lanes]
        if isinstance(stmt, Accumulate):
            combine, old = COMBINERS[stmt.combiner].numpy, arrays[stmt.buffer]
            values = [combine(old[at], value) for at, value in zip(places, values)]
        for at, value in zip(places, values):
            arrays[stmt.buffer][at] = value


def _join(loop: Vectors, vectors: Sequence[Sequence[Env]], arrays: Arrays) -> None:
    totals: dict[tuple[int, tuple[int, ...]], tuple[Accumulate, list[Any]]] = {}

    def add(stmt: Stmt, lanes: Sequence[Env]) -> None:
        if isinstance(stmt, Loop):
            for i in range(stmt.trips):
                for inner in stmt.body:
                    add(inner, [{**env, stmt.var: i} for env in lanes])
        elif isinstance(stmt, Accumulate) and lanes:
            combiner, dtype = COMBINERS[stmt.combiner], stmt.value.dtype
            values = [value_of(stmt.value, env, arrays, {}) for env in lanes]
            idle = dtype.numpy.type(combiner.identity(dtype))
            values += [idle] * (loop.widths[0] - len(values))
            key = id(stmt), element(stmt.buffer, stmt.indices, lanes[0], arrays)
            if key in totals:
                values = [*map(combiner.numpy, totals[key][1], values)]
            totals[key] = stmt, values

    for lanes in vectors:
        for stmt in loop.body:
            add(stmt, lanes)
    for (_, at), (stmt, values) in totals.items():
        combine = COMBINERS[stmt.combiner].numpy
        while len(values) > 1:
            half = len(values) // 2
            values = [*map(combine, values[:half], values[half:])]
        arrays[stmt.buffer][at] = combine(arrays[stmt.buffer][at], values[0])


def verify_vectors(nest: Nest) -> None:
    """Checks a nest as ``verify_nest`` does, and its vectors and registers.

    Vectors hold all iterations, none has only idle lanes, and lanes are joined where, and only
    where, they add to one element. Elements of registers are constants of the code, and lanes are
    neighbours in them. Raises InternalError that shows the statement.
    """
    verify_nest(nest)

    def check(stmt: Stmt, scope: Scope, _rest: Sequence[Stmt]) -> None:
        problem = _problem_of_loop(stmt, scope) if isinstance(stmt, Vectors) else None
        reads = [n for e in nests.expressions(stmt) for n in _reads(e) if not byte_of(n)]
        places = [(n.buffer, n.indices) for n in reads]
        if isinstance(stmt, Store | Accumulate):
            places.append((stmt.buffer, stmt.indices))
        for name, indices in places:
            problem = problem or _problem_of_registers(name, indices, scope)
        if problem:
            lines = [line for line, _ in nests.statement_lines((stmt,), 0)]
            raise InternalError(f"nest @{nest.name}: {problem}", notes=tuple(lines))

    rewrite(nest, check)


def _reads(expr: Expr) -> list[Read]:
    return [node for node in walk(expr) if isinstance(node, Read)]


def _problem_of_loop(loop: Vectors, scope: Scope) -> str | None:
    if not sum(loop.widths[:-1]) < greatest_of(loop.extent, scope.ranges) <= sum(loop.widths):
        return f"vectors of {loop.widths} lanes do not hold {loop.extent} iterations"
    if not all(width > 1 and width & (width - 1) == 0 for width in loop.widths):
        return "the lanes of a vector are a power of two"
    for inner in statements(loop.body):
        if isinstance(inner, Loop) and inner.kind != LoopKind.UNROLL:
            return "a vector loop holds only stores and unrolled loops"
        moves = not isinstance(inner, Accumulate) or any(
            mentions(i, loop.var) for i in inner.indices
        )
        if isinstance(inner, Store | Accumulate) and moves == (loop.kind == LoopKind.REDUCE):
            return "lanes are joined where they add to one element, and only there"
    return None


def _problem_of_registers(name: str, indices: Sequence[object], scope: Scope) -> str | None:
    alloc = scope.registers.get(name)
    if alloc is None or alloc.dim is None:  # it is not decided yet
        return None
    for dim, index in enumerate(indices):
        names = symbols(index) if isinstance(index, Dim) else frozenset[str]()
        if isinstance(index, Expr) or names - scope.copied - {scope.lane}:
            return f"{name} is in registers, but which element is used is not a constant"
        step = isinstance(index, Dim) and stride_along(index, scope.lane)
        if step not in ((0, 1) if dim == alloc.dim else (0,)):
            return f"{name} is in registers along dimension {alloc.dim}, lanes are elsewhere"
    return None

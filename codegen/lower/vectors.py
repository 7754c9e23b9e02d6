"""Vector loops run in vectors of so many lanes, or join their lanes.

::

    vectorize j in 20:                          vectorize j in 20 by [8, 8, 4]:
      y[j] = 2.0 * x[j]                   =>      y[j] = 2.0 * x[j]
    vectorize k in 20:                          reduce k in 20 by [8, 8, 8]:
      s[0] += x[k]                                s[0] += x[k]
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dims import as_int
from ...ir.errors import ScheduleError
from ...ir.loop.expr import Read, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import Accumulate, Loop, Nest, Prefetch, Stmt, Store, Vectors, statements
from ...ir.loop.stride import mentions
from .lanes import SHORTEST, Machine, lanes_for
from .scope import Scope, greatest_of, rewrite


def split_vectors(nest: Nest, machine: Machine) -> Nest:
    """The nest whose vector loops have vectors: as long as the target's, and the last one as short
    as its lanes and the rows of registers allow. A loop of a single lane is none."""

    def split(stmt: Stmt, scope: Scope, _rest: Sequence[Stmt]) -> Sequence[Stmt] | None:
        if type(stmt) is not Loop or stmt.kind != LoopKind.VECTORIZE:
            return None
        width = greatest_of(stmt.extent, scope.ranges)
        held = [scope.registers[n] for n in _moving_with(stmt) & scope.registers.keys()]
        rows = [as_int(a.buffer.shape[a.dim or 0]) if a.buffer.shape else 1 for a in held]
        most = max([width, *rows])
        lanes = lanes_for(most, machine.lanes)
        if lanes == 1:
            kind = LoopKind.UNROLL if isinstance(stmt.extent, int) else LoopKind.FOR
            return (Loop(kind, stmt.var, stmt.extent, stmt.body),)
        joins = _joins(stmt)
        _check(stmt.body)
        widths = widths_of(width, most, lanes, lanes if joins else SHORTEST)
        kind = LoopKind.REDUCE if joins else LoopKind.VECTORIZE
        return (Vectors(kind, stmt.var, stmt.extent, stmt.body, widths),) if widths else ()

    return rewrite(nest, split)


def widths_of(width: int, most: int, lanes: int, least: int) -> tuple[int, ...]:
    """Lanes of vectors that hold ``width`` elements of rows of ``most``: none but the last one has
    other than ``lanes``, and that no fewer than ``least``."""
    starts = range(0, width, lanes)
    return tuple([lanes_for(most - start, lanes, min(lanes, least)) for start in starts])


def _moving_with(loop: Loop) -> set[str]:
    """The buffers of which a loop's iterations use different elements."""
    names: set[str] = set()
    for inner in statements(loop.body):
        if isinstance(inner, Store | Accumulate):
            uses = [(n.buffer, n.indices) for n in walk(inner.value) if isinstance(n, Read)]
            for name, indices in ((inner.buffer, inner.indices), *uses):
                if any(mentions(i, loop.var) for i in indices):
                    names.add(name)
    return names


def _joins(loop: Loop) -> bool:
    """True if a vector loop adds its lanes up."""
    writes = [s for s in statements(loop.body) if isinstance(s, Store | Accumulate)]
    moving = [any(mentions(i, loop.var) for i in s.indices) for s in writes]
    joined = [isinstance(s, Accumulate) and not moves for s, moves in zip(writes, moving)]
    if any(joined) and not all(joined):
        raise ScheduleError("a vector loop both joins its lanes and stores them")
    return any(joined)


def _check(body: Sequence[Stmt]) -> None:
    for stmt in body:
        if isinstance(stmt, Loop) and stmt.kind == LoopKind.UNROLL:
            _check(stmt.body)
        elif not isinstance(stmt, Store | Accumulate | Prefetch):
            raise ScheduleError("a vectorised loop holds only stores and unrolled loops")

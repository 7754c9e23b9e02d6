"""Private buffers and threads: one that several threads would write to is refused."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ScheduleError
from ..loop.expr import Read, walk
from ..loop.kinds import LoopKind
from ..loop.nest import Accumulate, Alloc, If, Loop, Stmt, Store

__all__ = ["check_private"]


def check_private(body: Sequence[Stmt]) -> None:
    """ScheduleError if the iterations of a parallel loop share a buffer that is private to its
    nest."""
    _check(body, set(), None)


def _check(body: Sequence[Stmt], private: set[str], parallel: str | None) -> None:
    """Threads share no private buffer: ``private`` are those from outside the parallel loop."""
    own = {s.buffer.name for s in body if isinstance(s, Alloc)}
    outside = private - own if parallel else private | own
    for stmt in body:
        if isinstance(stmt, Loop):
            inside = stmt.var if stmt.kind == LoopKind.PARALLEL else parallel
            if outside or inside is None:
                _check(stmt.body, outside, inside)
        elif isinstance(stmt, If):
            _check((*stmt.then, *stmt.orelse), outside, parallel)
        elif parallel and isinstance(stmt, Store | Accumulate):
            used = {stmt.buffer} | {n.buffer for n in walk(stmt.value) if isinstance(n, Read)}
            for name in sorted(used & outside):
                raise ScheduleError(f"parallel: the iterations of {parallel} would share {name}")

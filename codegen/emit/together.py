"""Vector loops of stores that are written together.

A *joint* run is one of::

    one store of a long expression          its vectors are computed operator by operator, so that
                                            independent chains of instructions are interleaved
    stores next to each other that share    shared operators are computed once
    operators, on the same lanes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...ir.loop.expr import Expr, Op, Read, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import Loop, Stmt, Store
from .memory import Env
from .writer import Value

LONG_EXPRESSION = 64
"""Operators of a vector from which on a core, which looks some 500 instructions ahead, does not
overlap it with the next vectors."""

Runs = dict[int, tuple[Loop, ...]]


class StoreEmitter(Protocol):
    """Emitter of expressions and stores."""

    joint: dict[int, Runs]  # by the identity of a body

    def lanes_of(self, stmt: Loop) -> int: ...
    def vectors_of(self, stmt: Loop, env: Env, lanes: int) -> list[Env]: ...
    def loop(self, stmt: Loop, env: Env) -> None: ...
    def always_needed(self, expr: Expr, env: Env) -> tuple[Expr, ...]: ...
    def store(self, stmt: Store, env: Env, memo: dict[object, Value] | None = None) -> None: ...
    def value(
        self,
        expr: Expr,
        env: Env,
        guard: Value | None = None,
        memo: dict[object, Value] | None = None,
    ) -> Value: ...


def joint_stores(emitter: StoreEmitter, stmts: Sequence[Stmt]) -> Runs:
    """The joint runs of a body, by the identity of their first loop; the other loops of a run
    have an empty one."""
    runs = emitter.joint.get(id(stmts))
    if runs is None:
        runs = emitter.joint[id(stmts)] = _find_runs(stmts)
    return runs


def _find_runs(stmts: Sequence[Stmt]) -> Runs:
    runs: list[tuple[Loop, ...]] = []
    shared: set[int] = set()  # the operators of the last run
    read: set[str] = set()  # and the buffers that it reads
    for stmt in stmts:
        if not isinstance(stmt, Loop):
            shared, read = set(), set()
            continue
        store = _store_of(stmt)
        if store is None:
            shared, read = set(), set()
            continue
        nodes = [*walk(store.value)]
        operators = {id(n) for n in nodes if isinstance(n, Op)}
        reads = {n.buffer for n in nodes if isinstance(n, Read)}
        last = runs[-1][-1] if runs else stmt
        like = (last.var, last.extent) == (stmt.var, stmt.extent)
        if shared & operators and like and store.buffer not in read:
            runs[-1] = (*runs[-1], stmt)
            shared, read = shared | operators, read | reads
        else:
            runs.append((stmt,))
            shared, read = operators, reads
    by_first: Runs = {}
    for run in runs:
        first = run[0]
        if len(run) > 1 or _is_long(first):
            by_first.update({id(loop): () for loop in run})
            by_first[id(first)] = run
    return by_first


def _store_of(loop: Loop) -> Store | None:
    if loop.kind == LoopKind.VECTORIZE and len(loop.body) == 1 and isinstance(loop.body[0], Store):
        return loop.body[0]
    return None


def _is_long(loop: Loop) -> bool:
    store = _store_of(loop)
    assert store is not None
    return sum(isinstance(node, Op) for node in walk(store.value)) > LONG_EXPRESSION


def store_together(emitter: StoreEmitter, run: Sequence[Loop], env: Env) -> None:
    """Write the loops of a joint run."""
    lanes = min((emitter.lanes_of(loop) for loop in run), default=1)
    if lanes == 1:
        for loop in run:
            emitter.loop(loop, env)
        return
    vectors = emitter.vectors_of(run[0], env, lanes)
    memos: list[dict[object, Value]] = [{} for _ in vectors]
    for loop in run:
        store = _store_of(loop)
        assert store is not None
        _compute(emitter, store.value, vectors, memos)
        for inside, memo in zip(vectors, memos, strict=True):
            emitter.store(store, inside, memo)


def _compute(
    emitter: StoreEmitter,
    expr: Expr,
    vectors: Sequence[Env],
    memos: Sequence[dict[object, Value]],
) -> None:
    """Emits the operators that an expression always needs, each for all vectors at once."""
    todo = [expr]
    while todo:
        node = todo[-1]
        below = emitter.always_needed(node, vectors[0])
        missing = [a for a in below if (id(a), "") not in memos[0]]
        if missing:
            todo += reversed(missing)
            continue
        todo.pop()
        for env, memo in zip(vectors, memos, strict=True):
            emitter.value(node, env, None, memo)

"""One mistake, put into a loop nest: what a wrong schedule or a wrong compiler would have made.

A site is a place in the nest where a mistake of some kind can be made; ``mutate`` makes one of them
by chance, the same for the same seed. What a mutant computes is for others to say: some of them are
right after all (an element read twice for a maximum), as everywhere where mutants are bred.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from loopwright.ir.dims import as_int, linear, symbols
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.loop.expr import Const, Expr, Index, Op, Read, cast, const, op, read, walk
from loopwright.ir.loop.expr import rewrite as rewrite_expr
from loopwright.ir.loop.kinds import LoopKind, Scope
from loopwright.ir.loop.nest import Accumulate, Alloc, If, Loop, Nest, Stmt, Store, statements
from loopwright.ir.loop.prim import Buffer

__all__ = ["KINDS", "mutate"]

Body: TypeAlias = tuple[Stmt, ...]
LOST_BITS = (12, 16)
"""Bits of a float32's 24 that a loss of precision takes: those that a half (11) or a bfloat16 (8)
does not have, about."""


@dataclass(frozen=True)
class Site:
    """``make()`` gives the nest with the mistake made there."""

    where: str
    make: Callable[[], Nest]


def mutate(nest: Nest, kind: str, seed: int) -> tuple[Nest, str] | None:
    """The nest with one mistake of a kind, and what it is; None if the nest offers none."""
    rng = random.Random(f"{kind} {seed}")
    sites = list(KINDS[kind](nest, rng))
    if not sites:
        return None
    site = rng.choice(sites)
    return site.make(), site.where


# -- the tree of statements ------------------------------------------------------------------------

Path: TypeAlias = tuple[tuple[int, str], ...]
"""The statement of each body, and which of its bodies comes next ("" at the end)."""


def _bodies(stmt: Stmt) -> list[tuple[str, Body]]:
    if isinstance(stmt, Loop):
        return [("body", stmt.body)]
    if isinstance(stmt, If):
        return [("then", stmt.then), ("orelse", stmt.orelse)]
    return []


def _walk(
    body: Body, above: Path = (), loops: tuple[Loop, ...] = ()
) -> Iterator[tuple[Path, Stmt, tuple[Loop, ...]]]:
    """Every statement with its path and the loops around it."""
    for n, stmt in enumerate(body):
        yield (*above, (n, "")), stmt, loops
        inside = (*loops, stmt) if isinstance(stmt, Loop) else loops
        for name, inner in _bodies(stmt):
            yield from _walk(inner, (*above, (n, name)), inside)


def _with(body: Body, path: Path, new: Body) -> Body:
    """``body`` with the statement at ``path`` replaced by ``new`` ones."""
    (n, name), rest = path[0], path[1:]
    stmt = body[n]
    if not rest:
        return (*body[:n], *new, *body[n + 1 :])
    changed = replace(stmt, **{name: _with(getattr(stmt, name), rest, new)})  # type: ignore[arg-type]
    return (*body[:n], changed, *body[n + 1 :])


def _site(nest: Nest, path: Path, stmt: Stmt | None, *new: Stmt) -> Site:
    name = type(stmt).__name__ if stmt is not None else "end"
    return Site(f"{name} {path}", lambda: replace(nest, body=_with(nest.body, path, new)))


def _writes(stmts: Body) -> set[str]:
    return {s.buffer for s in statements(stmts) if isinstance(s, Store | Accumulate)}


def _accesses(stmts: Body) -> set[str]:
    found = _writes(stmts)
    for s in statements(stmts):
        for expr in _exprs(s):
            found |= {node.buffer for node in walk(expr) if isinstance(node, Read)}
    return found


def _exprs(stmt: Stmt) -> list[Expr]:
    if isinstance(stmt, Store | Accumulate):
        return [stmt.value]
    return [stmt.condition] if isinstance(stmt, If) else []


def _outputs(nest: Nest) -> dict[str, Buffer]:
    return {o.buffer.name: o.buffer for o in nest.operands if o.role.writes}


# -- kinds of mistakes -----------------------------------------------------------------------------


def wrong_index(nest: Nest, rng: random.Random) -> Iterator[Site]:
    """An element beside the right one is written or read, or two indices change places.

    Of ``x[i, 0]`` in one column they may: ``x[0, i]`` is the same place in memory.
    """
    allocs = [s.buffer for s in statements(nest.body) if isinstance(s, Alloc)]
    buffers = [*(o.buffer for o in nest.operands), *nest.workspace, *allocs]
    shapes = {b.name: b.shape for b in buffers}
    for path, stmt, _ in _walk(nest.body):
        if not isinstance(stmt, Store | Accumulate):
            continue
        for d, index in enumerate(stmt.indices):
            if symbols(index) and not _clears(nest, stmt):
                off = (*stmt.indices[:d], index + rng.choice((-1, 1)), *stmt.indices[d + 1 :])
                yield _site(nest, path, stmt, replace(stmt, indices=off))
        for node in walk(stmt.value):
            if isinstance(node, Read) and node.indices:
                d = rng.randrange(len(node.indices))
                if isinstance(node.indices[d], Const | Index | Op | Read):
                    continue
                places = list(node.indices)
                if rng.random() < 0.3 and len(places) > 1:
                    places[d], places[d - 1] = places[d - 1], places[d]
                else:
                    places[d] = places[d] + rng.choice((-1, 1))  # type: ignore[operator]
                shape = shapes[node.buffer]
                if _offset(shape, places) == _offset(shape, node.indices):
                    continue
                new = read(node.buffer, places, node.dtype)
                yield _site(nest, path, stmt, replace(stmt, value=_swap(stmt.value, node, new)))


def _offset(shape: Sequence[Any], indices: Sequence[Any]) -> object:
    """Where an element lies in memory, to compare with others."""
    offset: Any = 0
    for size, index in zip(shape, indices, strict=True):
        if isinstance(index, Expr):  # of an index that is read no linear form is known
            return tuple(indices)
        offset = offset * as_int(size) + index
    return linear(offset) or tuple(indices)


def _swap(root: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite_expr(root, lambda node, _: new if node is old else None)


def wrong_bound(nest: Nest, rng: random.Random) -> Iterator[Site]:
    """A loop ends one turn too early, or a condition on an index is off by one."""
    for path, stmt, _ in _walk(nest.body):
        if isinstance(stmt, Loop) and stmt.extent > 1 and not _clears(nest, stmt):
            yield _site(nest, path, stmt, replace(stmt, extent=stmt.extent - 1))
        for expr in _exprs(stmt):
            for node in walk(expr):
                if not isinstance(node, Op) or not node.name.startswith("less"):
                    continue
                for n, arg in enumerate(node.args):
                    if not isinstance(arg, Const):
                        continue
                    moved = const(int(arg.value) + rng.choice((-1, 1)), arg.dtype)
                    args = [moved if i == n else a for i, a in enumerate(node.args)]
                    new = _swap(expr, node, op(node.name, *args))
                    field = "condition" if isinstance(stmt, If) else "value"
                    yield _site(nest, path, stmt, replace(stmt, **{field: new}))  # type: ignore[arg-type]


def _clears(nest: Nest, stmt: Stmt) -> bool:
    """True if registers are set to a constant, and no more: code for it begins with a vector of
    them, whatever lanes a loop names."""
    memory = {o.buffer.name for o in nest.operands} | {b.name for b in nest.workspace}
    stores = [s for s in statements((stmt,)) if not isinstance(s, Loop)]
    return all(
        isinstance(s, Store) and isinstance(s.value, Const) and s.buffer not in memory
        for s in stores
    )


def missing_tail(nest: Nest, rng: random.Random) -> Iterator[Site]:
    """The remainder of a split is forgotten: the last of several pieces that fill one buffer."""
    for path, stmt, _ in _walk(nest.body):
        if isinstance(stmt, If) and stmt.orelse and _writes(stmt.orelse):
            yield _site(nest, path, stmt, replace(stmt, orelse=()))
        if not isinstance(stmt, Loop):
            continue
        for n, last in enumerate(stmt.body):
            before = _writes(stmt.body[:n])
            if isinstance(last, Loop | Store | Accumulate) and _writes((last,)) & before:
                yield _site(nest, (*path[:-1], (path[-1][0], "body"), (n, "")), last)
    for n, last in enumerate(nest.body):
        if isinstance(last, Loop) and _writes((last,)) & _writes(nest.body[:n]):
            yield _site(nest, ((n, ""),), last)


def race(nest: Nest, rng: random.Random) -> Iterator[Site]:
    """Threads share scratch memory that should be their own, or add to the same elements."""
    shared = set(_outputs(nest)) | {b.name for b in nest.workspace}
    sizes = {o.buffer.name for o in nest.operands} | shared
    for path, stmt, loops in _walk(nest.body):
        parallel = [loop for loop in loops if loop.kind == LoopKind.PARALLEL and loop.extent > 1]
        rare = any(
            name in ("then", "orelse") for _, name in path
        )  # for one iteration alone, perhaps
        if isinstance(stmt, Alloc) and parallel and stmt.scope != Scope.TILES and not rare:
            made = replace(stmt.buffer, name=f"{stmt.buffer.name}.shared")
            yield Site(f"shared {path}", lambda p=path, s=stmt, b=made: _shared(nest, p, s, b))
        if isinstance(stmt, Loop) and stmt.kind == LoopKind.FOR and stmt.extent > 1:
            inner = {s.kind for s in statements(stmt.body) if isinstance(s, Loop)}
            around = any(loop.kind != LoopKind.FOR for loop in loops)
            own = {s.buffer.name for s in statements(stmt.body) if isinstance(s, Alloc)}
            if around or "parallel" in inner or not _accesses(stmt.body) - own <= sizes:
                continue
            if any(_adds_to(s, stmt.var, shared) for s in statements(stmt.body)):
                yield _site(nest, path, stmt, replace(stmt, kind="parallel"))


def _adds_to(stmt: Stmt, var: str, shared: set[str]) -> bool:
    """True if all iterations of the loop over ``var`` change the same elements of shared memory."""
    if not isinstance(stmt, Accumulate) or stmt.buffer not in shared:
        return False
    return not any(var in symbols(i) for i in stmt.indices)


def _shared(nest: Nest, path: Path, alloc: Alloc, buffer: Buffer) -> Nest:
    """A private buffer becomes one that all threads share."""
    old = alloc.buffer
    (n, _), above = path[-1], path[:-1]
    parent: Body = nest.body
    for at, name in above:
        parent = getattr(parent[at], name)
    after = parent[n + 1 :]
    again = [i for i, s in enumerate(after) if isinstance(s, Alloc) and s.buffer.name == old.name]
    end = again[0] if again else len(after)
    renamed = tuple(_renamed(s, old.name, buffer.name) for s in after[:end])
    made = (*parent[:n], *renamed, *after[end:])
    body = made
    for depth in range(len(above), 0, -1):
        holder: Body = nest.body
        for at, name in above[: depth - 1]:
            holder = getattr(holder[at], name)
        at, name = above[depth - 1]
        body = (*holder[:at], replace(holder[at], **{name: body}), *holder[at + 1 :])  # type: ignore[arg-type]
    return replace(nest, workspace=(*nest.workspace, buffer), body=body)


def _renamed(stmt: Stmt, old: str, new: str) -> Stmt:
    def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
        if isinstance(node, Read) and node.buffer == old:
            return read(new, node.indices, node.dtype)
        return None

    if isinstance(stmt, Store | Accumulate):
        name = new if stmt.buffer == old else stmt.buffer
        return replace(stmt, buffer=name, value=rewrite_expr(stmt.value, leaf))
    if isinstance(stmt, If):
        return replace(
            stmt,
            condition=rewrite_expr(stmt.condition, leaf),
            then=tuple(_renamed(s, old, new) for s in stmt.then),
            orelse=tuple(_renamed(s, old, new) for s in stmt.orelse),
        )
    if isinstance(stmt, Loop):
        return replace(stmt, body=tuple(_renamed(s, old, new) for s in stmt.body))
    return stmt


def past_the_end(nest: Nest, rng: random.Random) -> Iterator[Site]:
    """Something is written just behind, or just before, an output or an input."""
    for operand in nest.operands:
        buffer = operand.buffer
        shape = [as_int(s) for s in buffer.shape]
        if not shape or not all(shape):
            continue
        behind = (shape[0], *[0] * (len(shape) - 1))
        before = (-1, *[n - 1 for n in shape[1:]])
        for at in (behind, before):
            stray = Store(buffer.name, at, const(1, buffer.dtype))
            yield Site(
                f"{buffer.name}{list(at)}", lambda s=stray: replace(nest, body=(*nest.body, s))
            )
    for path, stmt, _ in _walk(nest.body):
        if (
            isinstance(stmt, Loop)
            and stmt.kind != LoopKind.VECTORIZE
            and _writes((stmt,)) & set(_outputs(nest))
        ):
            first = any(
                stmt.var in symbols(s.indices[0])
                for s in statements(stmt.body)
                if isinstance(s, Store) and s.buffer in _outputs(nest) and s.indices
            )
            if first and len(path) == 1:
                yield _site(nest, path, stmt, replace(stmt, extent=stmt.extent + 1))


def uninitialised(nest: Nest, rng: random.Random) -> Iterator[Site]:
    """A value that is read later is not written before: a sum's first value, a stage, an output."""
    for path, stmt, _ in _walk(nest.body):
        if isinstance(stmt, Store):
            yield _site(nest, path, stmt)
        plain = isinstance(stmt, Loop) and all(
            isinstance(s, Store | Loop) for s in statements(stmt.body)
        )
        if isinstance(stmt, Loop) and plain and stmt.extent > 1 and not _clears(nest, stmt):
            yield _site(nest, path, stmt, replace(stmt, extent=stmt.extent - 1))


def precision(nest: Nest, rng: random.Random) -> Iterator[Site]:
    """A value is rounded to fewer bits before it is used."""
    for path, stmt, _ in _walk(nest.body):
        if not isinstance(stmt, Store | Accumulate) or not stmt.value.dtype.is_float:
            continue
        if isinstance(stmt.value, Const) or (
            isinstance(stmt, Accumulate) and stmt.combiner != "sum"
        ):
            continue
        yield _site(nest, path, stmt, replace(stmt, value=_rounded(stmt.value, rng)))


def _rounded(value: Expr, rng: random.Random) -> Expr:
    """``value`` with few bits: T. Dekker's splitting (1971), or by way of a float32."""
    if value.dtype != FLOAT32:
        return cast(cast(value, FLOAT32), value.dtype)
    factor = const(2.0 ** rng.choice(LOST_BITS) + 1, FLOAT32)
    large = op("multiply", value, factor)
    return op("subtract", large, op("subtract", large, value))


KINDS: dict[str, Callable[[Nest, random.Random], Iterator[Site]]] = {
    "wrong index": wrong_index,
    "wrong bound": wrong_bound,
    "missing tail": missing_tail,
    "race": race,
    "past the end": past_the_end,
    "uninitialised read": uninitialised,
    "precision": precision,
}  # fmt: skip

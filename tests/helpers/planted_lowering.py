"""Errors as a pass from nest to nest may make them, planted in what it returns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from loopwright.ir.dims import symbol
from loopwright.ir.loop.expr import Op, Read, map_reads, op, read, walk
from loopwright.ir.loop.kinds import Instruction, LoopKind, Scope
from loopwright.ir.loop.nest import (
    Accumulate,
    Alloc,
    If,
    Intrinsic,
    Let,
    Loop,
    Nest,
    Stmt,
    Store,
    Vectors,
    rewritten,
    statements,
    substituted,
)

__all__ = ["ERRORS", "planted"]

Change = Callable[[Any], list[Stmt] | None]
"""Returns what stands in the place of a statement; None if there is no room for the error in it."""


def _of(kinds: Any, change: Callable[[Any], Stmt | None]) -> Change:
    def changed(stmt: Any) -> list[Stmt] | None:
        new = change(stmt) if isinstance(stmt, kinds) else None
        return None if new is None else [new]

    return changed


def _widths(change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Change:
    return _of(Vectors, lambda s: replace(s, widths=change(s.widths)))


def _longer(by: int) -> Change:
    def change(loop: Loop) -> Stmt | None:
        return replace(loop, extent=loop.extent + by) if isinstance(loop.extent, int) else None

    return _of(Loop, change)


def _kind(kind: LoopKind, instead: LoopKind) -> Change:
    return _of(Loop, lambda s: replace(s, kind=instead) if s.kind == kind else None)


def _by(instruction: Instruction) -> Change:
    def change(loop: Loop) -> Stmt | None:
        if type(loop) is not Loop or loop.kind != LoopKind.UNROLL:
            return None
        return Intrinsic(loop.kind, loop.var, loop.extent, loop.body, instruction)

    return _of(Loop, change)


def _body(change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]], least: int = 1) -> Change:
    def changed(loop: Loop) -> Stmt | None:
        return replace(loop, body=change(loop.body)) if len(loop.body) >= least else None

    return _of(Loop, changed)


def _lanes(change: Callable[[str], Any]) -> Change:
    """Has the lanes of a vector loop use other iterations."""

    def changed(loop: Vectors) -> Stmt:
        moved = {loop.var: change(loop.var)}
        return replace(loop, body=tuple(substituted(s, moved) for s in loop.body))

    return _of(Vectors, changed)


def _written(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Change:
    return _of(Store | Accumulate, lambda s: replace(s, indices=change(s.indices)))


def _read(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Change:
    """Changes the indices of the first read that has some."""

    def changed(stmt: Store | Accumulate) -> Stmt | None:
        reads = (n for n in walk(stmt.value) if isinstance(n, Read) and n.plain_indices)
        chosen = next((n for n in reads if len(n.plain_indices) == len(n.indices)), None)
        if chosen is None:
            return None
        new = read(chosen.buffer, change(chosen.indices), chosen.dtype)
        value = map_reads(stmt.value, lambda node: new if node is chosen else node)
        return replace(stmt, value=value)

    return _of(Store | Accumulate, changed)


def _value(change: Callable[[Op], Any]) -> Change:
    def changed(stmt: Store | Accumulate) -> Stmt | None:
        return replace(stmt, value=change(stmt.value)) if isinstance(stmt.value, Op) else None

    return _of(Store | Accumulate, changed)


def _last(by: int) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    return lambda indices: (*indices[:-1], indices[-1] + by) if indices else indices


def _other_combiner(stmt: Accumulate) -> Stmt | None:
    other = {"sum": "max", "prod": "sum", "max": "min", "min": "max"}.get(stmt.combiner)
    return replace(stmt, combiner=other) if other and not stmt.value.dtype.is_bool else None


def _smaller(alloc: Alloc) -> Stmt | None:
    shape = alloc.buffer.shape
    if not shape or shape[-1] < 2:
        return None
    return replace(alloc, buffer=replace(alloc.buffer, shape=(*shape[:-1], shape[-1] - 1)))


ERRORS: dict[str, Change] = {
    "a vector is missing": _widths(lambda widths: widths[:-1]),
    "a vector too many": _widths(lambda widths: (*widths, widths[-1])),
    "a vector is twice as long": _widths(lambda widths: (2 * widths[0], *widths[1:])),
    "a vector is half as long": _widths(lambda widths: (widths[0] // 2, *widths[1:])),
    "the last vector is no power of two": _widths(lambda widths: (*widths[:-1], widths[-1] - 1)),
    "an idle lane runs": _longer(1),
    "a lane does not run": _longer(-1),
    "lanes are joined": _kind(LoopKind.VECTORIZE, LoopKind.REDUCE),
    "lanes are not joined": _kind(LoopKind.REDUCE, LoopKind.VECTORIZE),
    "an unrolled loop runs in lanes": _of(
        Loop,
        lambda s: (
            Vectors(LoopKind.VECTORIZE, s.var, s.extent, s.body, (4,) * -(-s.extent // 4))
            if type(s) is Loop and s.kind == LoopKind.UNROLL
            else None
        ),
    ),
    "an unrolled loop is a loop": _kind(LoopKind.UNROLL, LoopKind.FOR),
    "a loop is unrolled": _kind(LoopKind.FOR, LoopKind.UNROLL),
    "an instruction that adds groups runs another loop": _by(Instruction.VNNI),
    "an instruction that adds pairs runs another loop": _by(Instruction.BF16),
    "an instruction that adds pairs of words runs another loop": _by(Instruction.MADD),
    "an instruction on tiles runs another loop": _by(Instruction.AMX_DOT),
    "a block is transposed that is not": _by(Instruction.TRANSPOSE),
    "a statement is lost": _body(lambda body: body[:-1]),
    "a statement is there twice": _body(lambda body: (*body, body[-1])),
    "statements are in another order": _body(lambda body: body[::-1], 2),
    "lanes are one off": _lanes(lambda var: symbol(var) + 1),
    "lanes are one behind": _lanes(lambda var: symbol(var) - 1),
    "lanes are two apart": _lanes(lambda var: 2 * symbol(var)),
    "all lanes are the first one": _lanes(lambda _: 0),
    "an element behind is written": _written(_last(1)),
    "an element before is written": _written(_last(-1)),
    "dimensions are exchanged where it is written": _written(lambda indices: indices[::-1]),
    "an element behind is read": _read(_last(1)),
    "an element before is read": _read(_last(-1)),
    "dimensions are exchanged where it is read": _read(lambda indices: indices[::-1]),
    "operands are exchanged": _value(
        lambda e: op(e.name, *e.args[::-1]) if e.name in ("subtract", "divide", "less") else e
    ),
    "an operator is left out": _value(
        lambda e: e.args[0] if e.args[0].dtype == e.dtype and e.name != "where" else e
    ),
    "a sum is a store": _of(Accumulate, lambda s: Store(s.buffer, s.indices, s.value)),
    "a store is a sum": _of(Store, lambda s: Accumulate(s.buffer, s.indices, "sum", s.value)),
    "a sum is an extremum": _of(Accumulate, _other_combiner),
    "registers are along another dimension": _of(
        Alloc, lambda s: replace(s, dim=s.dim - 1) if s.dim else None
    ),
    "memory is in registers": _of(
        Alloc,
        lambda s: replace(s, scope=Scope.REGISTERS, dim=0) if s.scope == Scope.STACK else None,
    ),
    "a buffer is too small": _of(Alloc, _smaller),
    "the other branch is taken": _of(If, lambda s: replace(s, then=s.orelse, orelse=s.then)),
    "a let is one off": _of(Let, lambda s: replace(s, value=s.value + 1)),
}


def planted(nest: Nest, kind: str, rng: random.Random) -> Iterator[Nest]:
    """Yields nests with an error of a kind, each at another statement, in random order."""
    count = len(statements(nest.body))
    for wanted in rng.sample(range(count), count):
        changed = replace(nest, body=_changed(nest.body, ERRORS[kind], iter(range(count)), wanted))
        if str(changed) != str(nest):
            yield changed


def _changed(
    stmts: tuple[Stmt, ...], change: Change, numbers: Iterator[int], wanted: int
) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for stmt in stmts:
        new = change(stmt) if next(numbers) == wanted else None
        inside = rewritten(stmt, body=lambda body: _changed(body, change, numbers, wanted))
        made += [inside] if new is None else new
    return tuple(made)

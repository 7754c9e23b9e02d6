"""Compute new values of inputs in the memory of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

from ..dim_proofs import prove
from ..dims import IntExpr
from ..window import Window, dense_offset
from .analysis import Place, accesses, places, regions
from .in_place import InPlaceRule
from .liveness import Liveness
from .nodes import Access, Call, Copy, Instr, Program, Region, Update

ElementsRead: TypeAlias = Callable[[Call, int], tuple[IntExpr, IntExpr] | None]
"""``reads(call, i)``: the first element of operand ``i`` that the kernel reads, and the one behind
the last; None where that is not known."""


def update_in_place(program: Program, safe: InPlaceRule, reads: ElementsRead) -> Program:
    """Mark the updates whose output may be the memory of the input itself.

    Before::

        program @main(@in %x: float32[4], @in %g: float32[4], @out %y: float32[4]) {
          call @add(@in %x, @in %g, @out %y)
          update %x with %y
        }

    After::

        program @main(@in %x: float32[4], @in %g: float32[4], @out %y: float32[4]) {
          call @add(@in %x, @in %g, @out %y)
          update %x with %y in place
        }

    The output may not be written while what has been there in the input is read later, along any
    path. The kernel that writes may read it for the last time, where ``safe`` allows it; a copy of
    it to the output writes what is there. Updates that overlap are not in place: which of them is
    the last would depend on the order of the kernels.
    """
    if not program.updates:
        return program
    by_name = regions(program)
    where = places(program)
    updates = tuple(
        replace(u, in_place=_may_be_in_place(program, u, by_name, where, safe, reads))
        for u in program.updates
    )
    return program if updates == program.updates else replace(program, updates=updates)


def _may_be_in_place(
    program: Program,
    update: Update,
    by_name: Mapping[str, Region],
    where: Mapping[str, Place],
    safe: InPlaceRule,
    reads: ElementsRead,
) -> bool:
    target, source = by_name[update.target], by_name[update.source]
    begin = dense_offset(target.shape, update.window)
    if begin is None or (source.nbytes != 0 and _meets_another(program, update)):
        return False
    window = (begin, begin + prod(source.shape))
    size = target.dtype.bytes
    same = Place(update.target, window[0] * size, window[1] * size)

    def read_of_old(instr: Instr, n: int, name: str, access: Access) -> bool:
        """True if operand ``n`` reads elements of the input that the output replaces."""
        if where[name].root != update.target or not access.reads:
            return False
        span = None
        if isinstance(instr, Call) and where[name].begin == 0:
            span = reads(instr, n)
        return span is None or not _ordered(span, window)

    def touched(instr: Instr) -> Iterator[tuple[str, Access]]:
        for n, (name, access) in enumerate(accesses(instr)):
            if where[name].root != update.target or read_of_old(instr, n, name, access):
                yield name, access

    live = Liveness(program, touched)
    old = live.bits[update.target]
    for block in live.top.all():
        for position, instr in zip(block.positions, block.instrs, strict=True):
            operands = list(accesses(instr))
            outs = [
                n
                for n, (name, access) in enumerate(operands)
                if access.writes and where[name].root == update.source
            ]
            if not outs:
                continue
            whole = all(where[operands[o][0]] == where[update.source] for o in outs)
            if whole and isinstance(instr, Copy) and where[instr.source] == same:
                continue
            if live.after[position] & old:
                return False
            for n, (name, access) in enumerate(operands):
                if read_of_old(instr, n, name, access) and not (
                    isinstance(instr, Call)
                    and where[name].begin == 0
                    and whole
                    and all(safe(instr, n, o, begin) for o in outs)
                ):
                    return False
    return True


def begins_as_input(instr: Instr, update: Update, where: Mapping[str, Place]) -> bool:
    """True for a copy of all of the input of an update to its output: nothing if both are the same
    memory."""
    if not isinstance(instr, Copy) or update.window is not None:
        return False
    source, target = where[instr.source], where[instr.target]
    whole = source == where[update.target] and target == where[update.source]
    return whole and source.root == update.target and target.root == update.source


def _meets_another(program: Program, update: Update) -> bool:
    """True if another update writes some of the same elements."""
    others = [u for u in program.updates if u is not update and u.target == update.target]
    return any(not _apart(update.window, other.window) for other in others)


def _apart(one: Window | None, other: Window | None) -> bool:
    if one is None or other is None:
        return False
    ends = ((_ends(a), _ends(b)) for a, b in zip(one, other, strict=True))
    return any(_ordered(a, b) for a, b in ends)


def _ends(axis: tuple[IntExpr, int, IntExpr]) -> tuple[IntExpr, IntExpr]:
    begin, step, size = axis
    return begin, begin + (size - 1) * step + 1


def _ordered(one: tuple[IntExpr, IntExpr], other: tuple[IntExpr, IntExpr]) -> bool:
    """True if one range is known to end before the other begins."""
    return prove(one[1], "<=", other[0]) is True or prove(other[1], "<=", one[0]) is True

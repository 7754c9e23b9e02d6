"""Compute new values of inputs in the memory of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

from ..window import Window, dense_offset
from .analysis import Place, accesses, has_control_flow, places, regions
from .in_place import InPlaceRule
from .nodes import Call, Program, Region, Update

__all__ = ["ElementsRead", "update_in_place"]

ElementsRead: TypeAlias = Callable[[Call, int], tuple[int, int] | None]
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

    From the first write of the output on, nothing may read what has been there in the input, but
    for the kernel that writes first, where ``safe`` allows it. Updates that overlap are not in
    place: which of them is the last would depend on the order of the kernels.
    """
    if not program.updates or has_control_flow(program):
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
    if begin is None or (source.nbytes and _meets_another(program, update)):
        return False
    window = (begin, begin + prod(source.shape))
    written = False
    for instr in program.body:
        touched = list(accesses(instr))
        outs = [n for n, (_, access) in enumerate(touched) if access.writes]
        mine = [n for n in outs if where[touched[n][0]].root == update.source]
        first = bool(mine) and not written
        written = written or bool(mine)
        if not written:
            continue
        for n, (name, access) in enumerate(touched):
            if where[name].root != update.target or not access.reads:
                continue
            if not isinstance(instr, Call) or where[name].begin:
                return False
            span = reads(instr, n)
            if span is not None and (span[1] <= window[0] or window[1] <= span[0]):
                continue
            whole = all(where[touched[o][0]] == where[update.source] for o in mine)
            if not first or not whole or not all(safe(instr, n, o, begin) for o in mine):
                return False
    return True


def _meets_another(program: Program, update: Update) -> bool:
    """True if another update writes some of the same elements."""
    others = [u for u in program.updates if u is not update and u.target == update.target]
    return any(not _apart(update.window, other.window) for other in others)


def _apart(one: Window | None, other: Window | None) -> bool:
    if one is None or other is None:
        return False
    return any(_last(a) < b[0] or _last(b) < a[0] for a, b in zip(one, other, strict=True))


def _last(axis: tuple[int, int, int]) -> int:
    begin, step, size = axis
    return begin + (size - 1) * step

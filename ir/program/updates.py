"""Compute new values of inputs in the memory of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

from ..window import Window, dense_offset
from .analysis import Place, accesses, places, regions, walk
from .in_place import InPlaceRule
from .nodes import Call, Copy, Instr, Program, Region, Update

__all__ = ["ElementsRead", "begins_as_input", "update_in_place"]

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
    for the kernel that writes first, where ``safe`` allows it, and for a copy of all of it to the
    output, which has nothing to do then (see ``begins_as_input``). A loop that writes the output
    must not read the input. Updates that overlap are not in place: which of them is the last would
    depend on the order of the kernels.
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
    if begin is None or (source.nbytes and _meets_another(program, update)):
        return False
    window = (begin, begin + prod(source.shape))
    written = False
    for outer in program.body:
        inside = list(walk([outer]))  # with what a loop or a branch does in its bodies
        writes = [i for i in inside if _written(i, update.source, where)]
        first = bool(writes) and not written
        written = written or bool(writes)
        if not written:
            continue
        for instr in inside:
            mine = _written(instr, update.source, where)
            for n, (name, access) in enumerate(accesses(instr)):
                if where[name].root != update.target or not access.reads:
                    continue
                if first and outer is instr and begins_as_input(instr, update, where):
                    continue
                if not isinstance(instr, Call) or where[name].begin:
                    return False
                span = reads(instr, n)
                if span is not None and (span[1] <= window[0] or window[1] <= span[0]):
                    continue
                places_written = [where[instr.operands[o].name] for o in mine]
                whole = all(place == where[update.source] for place in places_written)
                alone = first and outer is instr and whole
                if not alone or not all(safe(instr, n, o, begin) for o in mine):
                    return False
    return True


def _written(instr: Instr, root: str, where: Mapping[str, Place]) -> list[int]:
    """The numbers of an instruction's operands that write memory of ``root``."""
    touched = enumerate(accesses(instr))
    return [n for n, (name, access) in touched if access.writes and where[name].root == root]


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
    return any(_last(a) < b[0] or _last(b) < a[0] for a, b in zip(one, other, strict=True))


def _last(axis: tuple[int, int, int]) -> int:
    begin, step, size = axis
    return begin + (size - 1) * step

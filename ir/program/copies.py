"""Compute results in place of the outputs that they are copied to."""

from __future__ import annotations

from dataclasses import replace

from ..pass_context import optional
from .analysis import accesses, has_control_flow, merge, places, spans
from .lifetimes import place_lifetimes
from .nodes import Alloc, Copy, Program


@optional(level=1)
def eliminate_copies(program: Program) -> Program:
    """Let scratch memory that is copied whole to an output be that output. Before::

        program @main(@in %x: float32[4, 2], @out %y: float32[8]) {
          %a = alloc float32[4, 2]
          call @f(@in %x, @out %a)
          %b = alias %a as float32[8]
          copy @in %b, @out %y
          free %a
        }

    After::

        program @main(@in %x: float32[4, 2], @out %y: float32[8]) {
          %a = alias %y as float32[4, 2]
          call @f(@in %x, @out %a)
        }

    A copy stays if its source is an input or a constant, if the output is touched before it, or if
    source or output are written after it. Programs with control flow are left to ``coalesce``.
    """
    if has_control_flow(program):
        return program
    where = places(program)
    allocated = {i.region.name for i in program.body if isinstance(i, Alloc)}
    outputs = {r.name for r in program.outputs}
    used = spans(program)
    last_write: dict[str, int] = {}
    for index, instr in enumerate(program.body):
        for name, access in accesses(instr):
            if access.writes:
                last_write[where[name].root] = index

    # A copy goes if both sides are whole buffers, nothing touches the output before it, and nothing
    # writes to either side after it: then the source can be the output from the start.
    into: dict[str, str] = {}
    gone: set[int] = set()
    for index, instr in enumerate(program.body):
        if not isinstance(instr, Copy):
            continue
        source, target = where[instr.source], where[instr.target]
        whole = where.get(source.root) == source and where[target.root] == target
        if not whole or source.root not in allocated or source.root in into:
            continue
        untouched = used[target.root][0] == index == last_write[target.root]
        if target.root in outputs and untouched and last_write[source.root] < index:
            into[source.root] = target.root
            gone.add(index)
    if not into:
        return program
    kept = tuple(instr for i, instr in enumerate(program.body) if i not in gone)
    return place_lifetimes(merge(replace(program, body=kept), into))

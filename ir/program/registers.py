"""Keep scalars in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from ..pass_context import optional
from .analysis import accesses, each_scope, has_control_flow, places, swap_groups, walk
from .nodes import Alloc, Call, Instr, Invoke, Program, nested_bodies, with_nested_bodies
from .verify import MOST_REGISTER_BYTES

IsParallel: TypeAlias = Callable[[Call], bool]
"""True if several threads may run the kernel of a call."""


@optional(level=1)
def keep_in_registers(program: Program, parallel: IsParallel) -> Program:
    """Mark the allocations of a few bytes in programs with control flow, so that their kernels can
    be a part of the loop around them.

    Before::

        program @main(@in %n: int64[], @out %y: int64[]) {
          %c = alloc int64[]
          copy @in %n, @out %c
          for %i: int64[] < 10 {
            call @next(@inout %c, @inout %c)
          }
          copy @in %c, @out %y
          free %c
        }

    After::

        program @main(@in %n: int64[], @out %y: int64[]) {
          %c = alloc int64[]                                       in registers
          copy @in %n, @out %c
          for %i: int64[] < 10 {
            call @next(@inout %c, @inout %c)
          }
          copy @in %c, @out %y
          free %c
        }

    Operands of kernels for which ``parallel`` holds stay in the arena: other threads read them.
    """
    if not has_control_flow(program):
        return program
    return each_scope(program, partial(_kept, parallel=parallel))


def _kept(program: Program, parallel: IsParallel) -> Program:
    where = places(program)
    in_memory = set(swap_groups(program))
    for instr in walk(program.body):
        if isinstance(instr, Call) and parallel(instr):
            in_memory |= {where[name].root for name, _ in accesses(instr)}
        scratch = instr.workspace if isinstance(instr, Call) else None
        scratch = instr.frame if isinstance(instr, Invoke) else scratch
        if scratch is not None:
            in_memory.add(where[scratch].root)

    def kept(body: Sequence[Instr]) -> tuple[Instr, ...]:
        return tuple(
            replace(i, offset=None, in_registers=True)
            if isinstance(i, Alloc)
            and isinstance(i.region.nbytes, int)  # its address is taken once
            and i.region.nbytes <= MOST_REGISTER_BYTES
            and i.region.name not in in_memory
            else with_nested_bodies(i, [kept(b) for b in nested_bodies(i)])
            for i in body
        )

    body = kept(program.body)
    return program if body == program.body else replace(program, body=body)

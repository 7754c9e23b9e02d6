"""Checks the size of a loop nest's private buffers, before any code is written for it."""

from __future__ import annotations

from ..ir.errors import ScheduleError
from ..ir.loop.kinds import Scope
from ..ir.loop.nest import Alloc, Nest, statements
from ..ir.schedule.limits import LIMITS, buffer_bytes
from .target import Target

SPILLED = 4
"""Register files that accumulators may take: beyond, every step loads and stores them."""


def check_private_buffers(nest: Nest, target: Target) -> None:
    """ScheduleError if the private buffers of a nest take more than the stack, or if its
    accumulators are so many that they are memory."""
    stack: dict[str, int] = {}
    for stmt in statements(nest.body):
        if not isinstance(stmt, Alloc):
            continue
        size = buffer_bytes([stmt.buffer])
        stack[stmt.buffer.name] = max(size, stack.get(stmt.buffer.name, 0))
        if stmt.scope == Scope.REGISTERS and size > SPILLED * target.register_bytes:
            raise ScheduleError(f"{stmt.buffer.name} is larger than the registers")
    if sum(stack.values()) > LIMITS.stack_bytes:
        raise ScheduleError(f"private buffers take more than {LIMITS.stack_bytes} bytes of stack")

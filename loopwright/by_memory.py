"""Calls of functions that change arrays: what they mean depends on the memory of the arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .ready import Specialisation
from .tracer import Request, check, placements, to_array, write_back

__all__ = ["by_memory", "placed"]

Specialised = Callable[[Request], Specialisation]


def placed(specialised: Specialised, request: Request, leaves: Sequence[Any]) -> Specialisation:
    """The code for a request whose operands lie in memory as ``leaves`` do."""
    found = specialised(request)
    if not found.traced.depends_on_memory:
        return found
    return specialised(request.with_placements(placements(found.traced, leaves)))


def by_memory(
    made: Specialisation, specialised: Specialised, request: Request
) -> Callable[[Sequence[Any]], Any] | None:
    """What makes a whole call of a function whose code is ``made``; None for one that changes
    nothing."""
    if not made.traced.is_checked:
        return None
    return functools.partial(_call, specialised, request)


def _call(specialised: Specialised, request: Request, leaves: Sequence[Any]) -> Any:
    """The function's result on ``leaves``, of which some are changed."""
    found = placed(specialised, request, leaves)
    check(found.traced, leaves)
    outputs = found.built.call([to_array(leaf) for leaf in leaves])
    return write_back(found.traced, leaves, outputs)

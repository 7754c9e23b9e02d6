"""Calls of functions that change arrays: what they mean depends on the memory of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .ready import Specialisation
from .tracer import Request, check, placements, to_array, write_back

__all__ = ["call_by_memory", "placed"]

Specialised = Callable[[Request], Specialisation]


def placed(specialised: Specialised, request: Request, leaves: Sequence[Any]) -> Specialisation:
    """The code for a request whose operands lie in memory as ``leaves`` do."""
    found = specialised(request)
    if not found.traced.depends_on_memory:
        return found
    return specialised(replace(request, placements=placements(found.traced, leaves)))


def call_by_memory(specialised: Specialised, request: Request, leaves: Sequence[Any]) -> Any:
    """The function's result on ``leaves``, of which some are changed."""
    found = placed(specialised, request, leaves)
    check(found.traced, leaves)
    outputs = found.built.call([to_array(leaf) for leaf in leaves])
    return write_back(found.traced, leaves, outputs)

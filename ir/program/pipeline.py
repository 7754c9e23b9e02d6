"""The passes over a program, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ..pass_context import Language, PassContext
from .copies import eliminate_copies
from .in_place import InPlaceRule, share_in_place
from .lifetimes import place_lifetimes
from .nodes import Call, Program
from .order import order_calls
from .planner import plan_memory
from .verify import verify

__all__ = ["PROGRAM", "ProgramPass", "default_pipeline", "optimise"]

ProgramPass: TypeAlias = Callable[[Program], Program]

PROGRAM: Language[Program] = Language("program", str, verify)


def _never(call: Call, read: int, written: int) -> bool:
    return False


def default_pipeline(safe: InPlaceRule = _never) -> list[ProgramPass]:
    """The passes in their order, with the reason for each place.

    ``safe`` says which kernels may write over an operand (see ``in_place``).
    """
    return [
        place_lifetimes,  # the other passes want to know when memory dies
        eliminate_copies,  # before sharing: outputs take in what is copied to them
        order_calls,  # outputs cost nothing by now; sharing goes by who dies when
        partial(share_in_place, safe=safe),
        plan_memory,
    ]


def optimise(
    program: Program, safe: InPlaceRule = _never, passes: PassContext | None = None
) -> Program:
    """The program with as little memory and as few copies as the passes reach, and planned."""
    return (passes or PassContext()).run(program, default_pipeline(safe), PROGRAM)

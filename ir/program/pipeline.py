"""The passes over a program, in the order in which they run."""

from __future__ import annotations

from .copies import eliminate_copies
from .in_place import InPlaceRule, share_in_place
from .lifetimes import place_lifetimes
from .nodes import Call, Program
from .order import order_calls
from .planner import plan_memory

__all__ = ["optimise"]


def _never(call: Call, read: int, written: int) -> bool:
    return False


def optimise(program: Program, safe: InPlaceRule = _never) -> Program:
    """The program with as little memory and as few copies as the passes reach, and planned.

    ``safe`` says which kernels may write over an operand (see ``in_place``).
    """
    program = place_lifetimes(program)  # the other passes want to know when memory dies
    program = eliminate_copies(program)  # before sharing: outputs take in what is copied to them
    program = order_calls(program)  # outputs cost nothing by now; sharing goes by who dies when
    program = share_in_place(program, safe)
    return plan_memory(program)

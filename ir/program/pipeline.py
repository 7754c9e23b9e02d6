"""The passes over a program, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ..pass_context import Language, PassContext
from .coalesce import coalesce
from .copies import eliminate_copies
from .in_place import InPlaceRule, share_in_place
from .lifetimes import place_lifetimes
from .nodes import Call, Program
from .order import order_calls
from .planner import plan_memory
from .reads_first import order_reads
from .registers import IsParallel, keep_in_registers
from .return_in_place import return_in_place
from .updates import ElementsRead, update_in_place
from .verify import verify

ProgramPass: TypeAlias = Callable[[Program], Program]

PROGRAM: Language[Program] = Language("program", str, verify)


def _never(*_operands: object, **_begin: object) -> bool:
    return False


def _everything(_call: Call, _operand: int) -> None:
    return None


def _on_one_thread(_call: Call) -> bool:
    return False


def default_pipeline(
    safe: InPlaceRule = _never,
    reads: ElementsRead = _everything,
    parallel: IsParallel = _on_one_thread,
) -> list[ProgramPass]:
    """The passes in their order, with the reason for each place.

    ``safe`` says which kernels may write over an operand (see ``in_place``), ``reads`` which
    elements of an operand a kernel reads (see ``updates``), ``parallel`` which kernels run on
    several threads (see ``registers``).
    """
    return [
        place_lifetimes,  # the other passes need the lifetimes
        eliminate_copies,  # before sharing: outputs take in what is copied to them
        order_calls,  # outputs cost nothing by now; sharing goes by who dies when
        partial(share_in_place, safe=safe),
        partial(return_in_place, safe=safe),  # before what decides on the copies that it makes
        partial(order_reads, safe=safe),  # so that more can be merged
        partial(coalesce, safe=safe),  # both of these where there are loops, branches or functions
        # Behind all that puts values into outputs.
        partial(update_in_place, safe=safe, reads=reads),
        partial(keep_in_registers, parallel=parallel),  # what is left by now
        plan_memory,
    ]


def optimise(
    program: Program,
    safe: InPlaceRule = _never,
    reads: ElementsRead = _everything,
    passes: PassContext | None = None,
    parallel: IsParallel = _on_one_thread,
) -> Program:
    """Returns the program after all passes: fewer copies, less memory, and planned."""
    return (passes or PassContext()).run(program, default_pipeline(safe, reads, parallel), PROGRAM)

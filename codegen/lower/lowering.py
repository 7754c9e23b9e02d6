"""The list of passes from a nest to what a target runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...ir.loop.nest import Nest
from ..target import Target
from .carried import carry_sums
from .instructions import select_instructions
from .joined import join_stores
from .lanes import Machine
from .registers import place_registers
from .rolled import roll_loops
from .rows import join_rows
from .shuffles import shuffle_blocks
from .starts import start_sums
from .tables import hold_tables
from .vectors import split_vectors

Lowering: TypeAlias = Callable[[Nest, Machine], Nest]

LOWERINGS: tuple[Lowering, ...] = (
    carry_sums,  # before place_registers: a buffer that branches write is memory
    join_rows,  # before place_registers: their sums are a vector
    place_registers,  # before split_vectors: vectors are no shorter than the rows that they fill
    start_sums,
    hold_tables,
    select_instructions,  # what is not in tiles by now is loops
    split_vectors,
    shuffle_blocks,  # looks at vectors, and needs the unrolled loops around them
    roll_loops,  # all that is unrolled and is to be, is an instruction's
    join_stores,
)


def lowered(nest: Nest, target: Target) -> Nest:
    """Returns the nest that ``codegen.emit`` writes for a target.

    Raises ScheduleError if a vector loop holds what has no lanes.
    """
    machine = Machine.of(nest, target)
    for lowering in LOWERINGS:
        nest = lowering(nest, machine)
    return nest

"""Requests to the service that runs kernels: measure one, or race several."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from ...codegen.llvm.link import LoadedObject
from ...ir.dataclass import dataclass
from .guarded import GuardedOperand
from .placement import Operand
from .rotation import Cycle

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Asks to check and time one candidate, given the seconds per call of the best so far."""

    built: bytes
    best_seconds: float


@dataclass(frozen=True, slots=True)
class RaceRequest:
    """Asks to time good candidates, interleaved, ``rounds`` times each.

    ``cache`` says where a call finds its operands: in the caches ("warm"), or where calls of the
    program find them ("place").
    """

    built: tuple[bytes, ...]
    rounds: int
    cache: str = "warm"


@dataclass(slots=True)
class Loaded:
    """A kernel in memory. ``handed`` are its operands and its workspace, ``aligned`` the address of
    its arguments for timing."""

    code: LoadedObject
    function: int
    handed: tuple[GuardedOperand, ...]
    aligned: int
    extra: dict[str, GuardedOperand]
    """Operands of this kernel alone: the workspace, and packed ones."""
    parallel: bool
    operands: tuple[Operand, ...]
    """In the order of the arguments, each where it lies for timing."""
    size_values: tuple[int, ...]
    packed: dict[str, Any]
    """Operands that are packed, and how."""
    arguments: Any
    """The memory at ``aligned``."""
    cycle: Cycle | None = None

"""Messages between a program and the process that tunes beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...codegen.kernel import Kernel
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.loop.prim import PrimFunc
from ..selection.select import Chosen


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """Kernels to tune: each with how often it is called, and the schedule (JSON) it runs with.

    ``processors`` is how many processors tuning may take on average, ``seconds`` how long it may
    go on by the clock. ``idle``: only where no other process wants to run.
    """

    kernels: tuple[tuple[PrimFunc, int, Any], ...]
    target: Target
    threads: int
    log: Path
    processors: float
    seconds: float
    idle: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Winner:
    """The best kernel known for a workload, with its object code."""

    workload: str
    chosen: Chosen
    kernel: Kernel
    code: bytes

"""Task: one kernel to be tuned on one target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.target import Target
from .protocols import SearchSpace
from .record import TargetKey, Workload, target_key

__all__ = ["Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """``weight`` is how often the program calls the kernel, ``threads`` how many threads run it.

    ``flops`` and ``bytes`` are what one call computes and must move at least; 0 is unknown.
    """

    prim: Any
    target: Target
    space: SearchSpace
    workload: Workload
    name: str = "kernel"
    weight: int = 1
    threads: int = 1
    flops: float = 0.0
    bytes: float = 0.0

    @property
    def key(self) -> TargetKey:
        """The target as records name it."""
        return target_key(self.target, self.threads)

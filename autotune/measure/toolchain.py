"""The way from a schedule to a kernel, as functions that travel to worker processes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from ...codegen.target import Target

__all__ = ["KernelLike", "OperandLike", "Toolchain"]

Array = npt.NDArray[Any]


class OperandLike(Protocol):
    """One operand of a kernel: ``role`` is "in", "const", "packed" or "out"."""

    @property
    def role(self) -> str: ...

    @property
    def buffer(self) -> Any:
        """Its ir.loop.prim.Buffer."""
        ...


class KernelLike(Protocol):
    """What measuring needs of a kernel: see codegen.kernel.Kernel."""

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def operands(self) -> tuple[OperandLike, ...]: ...

    @property
    def workspace_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Toolchain:
    """``compile(prim, schedule_json, target, name)`` gives a kernel or raises ScheduleError;
    ``prepare(kernel, inputs)`` gives an array per operand, in order. It is handed an object with
    the kernel's ``name``, ``operands`` and ``workspace_bytes``, but no text.

    Both must be functions at the top of a module, since workers import them by name.
    """

    compile: Callable[[Any, Any, Target, str], KernelLike]
    prepare: Callable[[Any, Mapping[str, Array]], list[Array]]

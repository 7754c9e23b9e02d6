"""The functions that compile and prepare a kernel in worker processes, pickled by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from ...codegen.kernel import Kernel
from ...codegen.target import Target
from ...ir.dataclass import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Toolchain:
    """``compile(prim, schedule_json, target, name)`` returns a kernel or raises ScheduleError;
    ``prepare(kernel, inputs)`` returns an array per operand, in order. It is given an object with
    the kernel's ``name``, ``operands`` and ``workspace_bytes``, but no text.

    Both must be functions at the top of a module, since workers import them by name.
    """

    compile: Callable[[Any, Any, Target, str], Kernel]
    prepare: Callable[[Any, Mapping[str, Array]], list[Array]]

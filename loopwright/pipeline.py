"""From a traced module to something callable: the seam between the tracer and the compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .codegen.target import Target
from .ir.errors import LoopwrightValueError, UnsupportedError
from .ir.graph.evaluate import evaluate
from .ir.graph.nodes import Module
from .ir.graph.printer import as_text

__all__ = ["LEVELS", "Array", "Built", "build", "tune"]

Array = np.ndarray[Any, Any]
LEVELS = ("graph", "kernels", "loops", "program", "llvm", "asm")


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A module ready to run.

    ``call(arrays)`` takes the arrays of ``main``'s parameters (of exactly their shapes and dtypes)
    and gives its results, new arrays, as a list. ``direct(*arrays)`` is the same without detours:
    it answers None, having done nothing, for arguments that are not exactly those arrays.
    ``kernels`` are the names of the kernels it runs, and ``summary`` says in one line where their
    schedules came from. ``levels`` make the texts.
    """

    call: Callable[[Sequence[Array]], list[Array]]
    direct: Callable[..., list[Array] | None] | None = None
    kernels: tuple[str, ...] = ()
    summary: str = ""
    levels: Mapping[str, Callable[[], str]] = field(default_factory=dict)

    def as_text(self, level: str) -> str:
        """The module at ``level``, one of ``LEVELS``."""
        if level not in LEVELS:
            raise LoopwrightValueError(
                f"there is no level {level!r}; the levels are {', '.join(LEVELS)}"
            )
        if level not in self.levels:
            raise UnsupportedError(f"the level {level} is not made for this module")
        return self.levels[level]()


def build(
    module: Module,
    *,
    target: Target | None = None,
    log: Path | None = None,
    threads: int | None = None,
    verify: bool = False,
) -> Built:
    """``module`` ready to run: interpreted, operator by operator, by their NumPy references."""

    def call(arrays: Sequence[Array]) -> list[Array]:
        result = evaluate(module, *arrays)
        results = result if isinstance(result, tuple) else (result,)
        return [np.array(r) for r in results]

    return Built(call, levels={"graph": lambda: as_text(module)}, summary="interpreted")


def tune(
    module: Module,
    *,
    target: Target | None = None,
    log: Path | None = None,
    threads: int | None = None,
    budget: str | float | None = None,
    trials: int | None = None,
) -> Any:
    """Search for faster schedules of the module's kernels; what is measured goes to ``log``."""
    raise UnsupportedError("an interpreted module has no kernels to tune")

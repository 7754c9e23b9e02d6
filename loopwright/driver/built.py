"""Builds: code that is called, the parts it is made of, and the module it was made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import LoopwrightValueError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from ..autotune.log.lookup import LogView
    from ..autotune.selection.select import Chosen
    from ..codegen.kernel import Kernel
    from ..codegen.program_from_graph import NewValue
    from ..codegen.runtime.buffers import ArraySpec
    from ..codegen.target import Target
    from ..ir.graph.nodes import Module
    from ..ir.graph.passes.choose_algorithms import Preferences
    from ..ir.loop.prim import PrimFunc
    from ..ir.pass_context import PassContext
    from ..ir.program.nodes import Program

LEVELS = ("graph", "kernels", "loops", "vector", "program", "llvm", "asm")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a build: kernels by name, and the program that calls them."""

    prims: Mapping[str, PrimFunc]
    kernels: Mapping[str, Kernel]
    program: Program
    target: Target
    threads: int
    logs: Sequence[LogView]


@dataclass(frozen=True, slots=True)
class Source:
    """The input of a build, schedules aside: the module, and its groups.

    ``threads`` is None where the caller's number counts. With ``check`` the default schedules are
    checked before their first use as well. ``lower`` made the groups of the module, and ``passes``
    says how; ``whole`` is false if the modules have lost their weights, see ``release.py``.
    ``updates`` are the results that are new values of parameters.
    """

    module: Module
    lowered: Module
    prims: Mapping[str, PrimFunc]
    target: Target
    threads: int | None
    log: Path | None
    logs: Sequence[LogView]
    lower: Callable[..., Module]
    preferences: Preferences
    passes: PassContext
    check: bool = False
    whole: bool = True
    updates: Sequence[NewValue] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A module ready to run.

    ``call(arrays)`` takes the arrays of ``main``'s parameters (of exactly their shapes and dtypes)
    and gives its results, new arrays, as a list. ``direct(*arrays)`` is the same without detours:
    it answers None, having done nothing, for arguments that are not exactly those arrays.
    ``kernels`` are the names of the kernels it runs, and ``summarise`` says in one line where their
    schedules came from. ``levels`` make the texts. ``code_hash`` is that of all machine code: equal
    hashes mean the same code. ``chosen`` are the schedules by kernel. ``parts`` is what it was made
    of, ``source`` what it was made from. ``inputs`` are the arrays it takes. ``update`` is
    ``direct`` for results that are new values of parameters: they are written into the arrays
    instead; None if there are none. It does nothing, too, where an array that it writes is
    read-only, or shares memory with another.
    """

    call: Callable[[Sequence[Array]], list[Array]]
    direct: Callable[..., list[Array] | None] | None = None
    kernels: tuple[str, ...] = ()
    summarise: Callable[[], str] = str
    levels: Mapping[str, Callable[[Source], str]] = field(default_factory=dict)
    code_hash: str = ""
    chosen: Mapping[str, Chosen] = field(default_factory=dict)
    parts: Parts | None = None
    source: Source | None = None
    inputs: Sequence[ArraySpec] = ()
    update: Callable[..., list[Array] | None] | None = None

    @property
    def summary(self) -> str:
        """One line about where the schedules of the kernels came from."""
        return self.summarise()

    @property
    def has_weights(self) -> bool:
        """True if ``source`` can be built again; see ``release.py``."""
        return self.source is not None and self.source.whole

    def as_text(self, level: str) -> str:
        """Returns the module at ``level``, one of ``LEVELS``."""
        if level not in LEVELS:
            raise LoopwrightValueError(
                f"there is no level {level!r}; the levels are {', '.join(LEVELS)}"
            )
        if level not in self.levels or self.source is None:
            raise UnsupportedError(f"the level {level} is not made for this module")
        return self.levels[level](self.source)

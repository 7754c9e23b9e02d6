"""Running passes one after the other: timed, verified and written down as asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ...errors import LoopwrightError
from ..nodes import Module
from ..printer import as_text
from ..verify import verify
from .rewrite import Pass

__all__ = ["Instrument", "PassContext", "PassRun", "pass_name"]


@dataclass(frozen=True, slots=True)
class PassRun:
    """One pass that ran: its name, its own time in seconds, whether it changed the module."""

    name: str
    seconds: float
    changed: bool


class Instrument(Protocol):
    """Something that looks on: ``after`` is called when a pass is done and its result verified."""

    def after(self, run: PassRun, before: Module, after: Module) -> None: ...


@dataclass(slots=True)
class PassContext:
    """How passes are run.

    ``verify`` checks every module that a pass changed. ``dump`` is a folder for numbered files:
    ``00_input.txt``, then ``03_fuse_operators.txt`` for each pass that changed something; it is
    made if it is missing. ``runs`` are the passes that ran, in order, over all calls of ``run``.

    >>> from loopwright.ir.graph.passes import eliminate_dead_code
    >>> context = PassContext(verify=True)
    >>> context.run(Module(), [eliminate_dead_code]).functions
    {}
    >>> [run.name for run in context.runs]
    ['eliminate_dead_code']
    """

    verify: bool = False
    dump: Path | None = None
    instruments: Sequence[Instrument] = ()
    runs: list[PassRun] = field(default_factory=list[PassRun])

    def run(self, module: Module, passes: Sequence[Pass]) -> Module:
        """``module`` after ``passes``.

        An error in or after a pass says which one it was; with ``dump`` the module it was given is
        the last file of the folder.
        """
        if self.verify:
            verify(module)
        self._write(module, len(self.runs), "input")
        for step in passes:
            module = self.step(module, step)
        return module

    def report(self) -> str:
        """A line for each run: its time and its name, with ``*`` if it changed nothing."""
        return "\n".join(
            f"{r.seconds * 1e3:9.2f} ms  {r.name}{'' if r.changed else ' *'}" for r in self.runs
        )

    def step(self, module: Module, step: Pass) -> Module:
        """``module`` after one pass; see ``run``."""
        name = pass_name(step)
        start = time.perf_counter()
        try:
            result = step(module)
            seconds = time.perf_counter() - start
            if self.verify and result is not module:
                verify(result)
        except LoopwrightError as error:
            error.notes = (f"in the pass {name}", *error.notes)
            raise
        run = PassRun(name, seconds, result is not module)
        self.runs.append(run)
        if run.changed:
            self._write(result, len(self.runs), name)
        for instrument in self.instruments:
            instrument.after(run, module, result)
        return result

    def _write(self, module: Module, number: int, name: str) -> None:
        if self.dump is None:
            return
        self.dump.mkdir(parents=True, exist_ok=True)
        (self.dump / f"{number:02}_{name}.txt").write_text(as_text(module) + "\n")


def pass_name(step: Pass) -> str:
    """The name of the function that a pass is."""
    return getattr(step, "__name__", type(step).__name__)

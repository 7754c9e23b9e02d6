"""The driver of all passes: it selects those that run, verifies and times them, and dumps the IR.

Every list of passes of the compiler runs here: those over graph modules (``graph/pipeline.py``),
those over programs (``program/pipeline.py``), in a build, in the variants that tuning compares, and
in the debugger. A pass is a function from an IR to the same IR that returns its argument if it
changes nothing; its name is that of the function.

A pass that code generation can do without is declared with ``optional``. It runs from an
optimisation level on, and can be disabled by name::

    level 0    only what code generation needs
    level 1    also what makes programs smaller: simplification, folding, sharing
    level 2    also what reorders or replaces operators: layouts, algorithms, memory (the default)
"""

from __future__ import annotations

import difflib
import functools
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from .dataclass import dataclass
from .errors import LoopwrightError, LoopwrightValueError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

LEVELS = (0, 1, 2)

_level_of: dict[str, int] = {}


def optional(level: int) -> Callable[[F], F]:
    """Declares an optional pass, which runs from ``level`` on."""

    def declare(function: F) -> F:
        _level_of[function.__name__] = level
        return function

    return declare


@dataclass(frozen=True, slots=True)
class Language(Generic[T]):
    """An IR that passes rewrite: its name, its text, a check that raises if it is malformed, and
    what passes over a given program may take for granted."""

    name: str
    text: Callable[[T], str]
    verify: Callable[[T], object]
    assuming: Callable[[T], AbstractContextManager[None]] = lambda _ir: nullcontext()


@dataclass(frozen=True, slots=True)
class PassRun:
    """One pass that ran: its name, its own time in seconds, whether it changed the IR."""

    name: str
    seconds: float
    changed: bool


class Instrument(Protocol):
    """An observer: ``after`` is called when a pass is done and its result is verified."""

    def after(self, run: PassRun, before: Any, after: Any) -> None: ...


@dataclass(slots=True)
class PassContext:
    """Settings and records of a run of passes.

    ``verify`` checks the input and everything that a pass changed. ``dump`` is a folder for
    numbered files: ``00_graph.txt`` is the input, ``03_fuse_operators.txt`` the text after a pass
    that changed something; the folder is made if it is missing. ``disabled`` are names of passes
    that do not run, ``opt_level`` is one of ``LEVELS``. ``instruments`` observe every pass.
    ``runs`` are the passes that ran, in order, over all calls of ``run``.

    Raises LoopwrightValueError for a level that there is not; ``run`` does for a name in
    ``disabled`` that is not an optional pass.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> context = lw.PassContext(disabled=("simplify",), opt_level=1)
    >>> f = lw.compile(lambda x: x * 1 + 2, passes=context)
    >>> f(np.float32([1]))
    array([3.], dtype=float32)
    >>> "fuse_operators" in [run.name for run in context.runs]
    True
    """

    verify: int = 0
    dump: Path | None = None
    disabled: Collection[str] = ()
    opt_level: int = 2
    instruments: Sequence[Instrument] = ()
    runs: list[PassRun] = field(default_factory=list[PassRun], repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.opt_level not in LEVELS:
            raise LoopwrightValueError(
                f"opt_level={self.opt_level!r} is none of {', '.join(map(str, LEVELS))}"
            )
        if isinstance(self.disabled, str):
            self.disabled = (self.disabled,)

    def run(self, ir: T, passes: Sequence[Callable[[T], T]], language: Language[T]) -> T:
        """``ir`` after ``passes``.

        An error in or after a pass says which one it was; with ``dump`` the text that the pass was
        given is the last file of the folder.
        """
        self._check_disabled()
        if self.verify:
            language.verify(ir)
        self._write(ir, language, len(self.runs), language.name)
        for change in passes:
            ir = self.step(ir, change, language)
        return ir

    def step(self, ir: T, change: Callable[[T], T], language: Language[T]) -> T:
        """``ir`` after one pass; see ``run``."""
        name = pass_name(change)
        if not self.is_enabled(name):
            return ir
        start = time.perf_counter()
        try:
            with language.assuming(ir):
                result = change(ir)
            seconds = time.perf_counter() - start
            if self.verify and result is not ir:
                language.verify(result)
        except LoopwrightError as error:
            error.notes = (f"in the pass {name}", *error.notes)
            raise
        run = PassRun(name, seconds, result is not ir)
        self.runs.append(run)
        if run.changed:
            self._write(result, language, len(self.runs), name)
        for instrument in self.instruments:
            instrument.after(run, ir, result)
        return result

    def is_enabled(self, name: str) -> bool:
        """True if the pass of this name runs."""
        level = _level_of.get(name)
        return level is None or (self.opt_level >= level and name not in self.disabled)

    def quiet(self, verify: int | None = None) -> PassContext:
        """Returns a context that runs the same passes, writes nothing and has no observers."""
        verify = self.verify if verify is None else verify
        return PassContext(verify, None, self.disabled, self.opt_level)

    def report(self) -> str:
        """Returns a line for each run: its time and its name, with ``*`` if it changed nothing."""
        return "\n".join(
            f"{r.seconds * 1e3:9.2f} ms  {r.name}{'' if r.changed else ' *'}" for r in self.runs
        )

    def _check_disabled(self) -> None:
        for name in self.disabled:
            if name not in _level_of:
                near = difflib.get_close_matches(name, _level_of, n=1)
                raise LoopwrightValueError(
                    f"{name!r} is not a pass that can be disabled",
                    hint=near[0] if near else None,
                    notes=("these can: " + ", ".join(sorted(_level_of)),),
                )

    def _write(self, ir: T, language: Language[T], number: int, name: str) -> None:
        if self.dump is None:
            return
        self.dump.mkdir(parents=True, exist_ok=True)
        (self.dump / f"{number:02}_{name}.txt").write_text(language.text(ir) + "\n")


def pass_name(change: Callable[..., Any]) -> str:
    """The name of the function that a pass is, whatever arguments it was given beforehand."""
    while isinstance(change, functools.partial):
        change = change.func
    return getattr(change, "__name__", type(change).__name__)

"""Compiles that failed by the compiler's fault: the error says so, and names a small program that
shows it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ..codegen.llvm.settings import cache_folder
from ..config import Config
from ..extras import extra
from ..ir.errors import InternalError, LoopwrightError, ScheduleError
from ..ir.graph.nodes import Module

SECONDS = 5.0
"""Seconds that a user waits for a program to be minimised."""

_PARTS = {"loopwright", "llvmlite", "numpy", "xgboost"}
_here = threading.local()


def with_repro(
    error: Exception, name: str, module: Module, options: Mapping[str, Any], config: Config
) -> Exception:
    """Returns the error to raise for a build of ``module`` that failed with ``error``.

    That is ``error`` itself, if it is the user's or the system's. Else it is an InternalError that
    names a file with a program that fails alike. Whatever goes wrong with that is a note, too.
    """
    if not is_internal(error) or getattr(_here, "busy", False):
        return error
    _here.busy = True
    try:
        note = _written(error, module, options, config)
    finally:
        _here.busy = False
    if isinstance(error, InternalError):
        error.notes = (*error.notes, note)
        return error
    kind = type(error).__name__
    return InternalError(
        f"compiling {name} failed, by no fault of yours: {kind}: {error}", notes=(note,)
    )


def is_internal(error: Exception) -> bool:
    """True if an error that a build raised is a mistake of the compiler.

    It is not if the user's program is wrong, the operating system refuses something, or the error
    comes from code of the user that takes part in compiling (a sketch rule, say).
    """
    if isinstance(error, LoopwrightError):
        return isinstance(error, InternalError | ScheduleError)
    return not isinstance(error, OSError | MemoryError) and _only_ours(error.__traceback__)


def _only_ours(traceback: TracebackType | None) -> bool:
    """True if all frames are of this package, its dependencies or the standard library."""
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _PARTS and package not in sys.stdlib_module_names:
            return False
        traceback = traceback.tb_next
    return True


def _written(error: Exception, module: Module, options: Mapping[str, Any], config: Config) -> str:
    """Writes the repro; returns a note that says where it is, or why there is none."""
    folder = config.repro or cache_folder() / "repros"
    if folder == Path(os.devnull):
        return "no program that shows it was written (LOOPWRIGHT_REPRO)"
    try:
        repro = extra("repro")(error, module, options, SECONDS)
        path = repro.write(folder / repro.file_name)
    except Exception as reason:
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return f"there is no program in {folder} that shows it: {why}"
    return f"please report it with this program, which shows it: {path}"

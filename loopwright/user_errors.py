"""Errors as users see them: without frames of the compiler."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

from .config import Config
from .ir.errors import (
    InternalError,
    LoopwrightError,
    LoopwrightMemoryError,
    LoopwrightOSError,
)
from .tracer import cut_traceback, is_ours, located

P = ParamSpec("P")
T = TypeVar("T")
_BENEATH = sys.stdlib_module_names | {"llvmlite", "numpy", "xgboost"}
"""Packages that call the system for us."""


def reports_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function raise its errors as users see them."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            reported = for_user(error)
        raise reported

    return call


def for_user(error: Exception) -> Exception:
    """Returns ``error`` with only the user's frames in its traceback, unless all are asked for.

    A mistake of the compiler keeps all frames. What the system refuses to the compiler is a
    LoopwrightOSError or LoopwrightMemoryError.
    """
    hidden = error.__cause__
    if type(error) is ValueError and isinstance(hidden, LoopwrightError):
        error = hidden  # NumPy's "setting an array element with a sequence" hides the reason
    elif isinstance(error, OSError | MemoryError) and is_ours(error.__traceback__, _BENEATH):
        error = _of_system(error)
    if isinstance(error, LoopwrightError) and not isinstance(error, InternalError):
        located(error)
        error.__suppress_context__ = True
    elif is_ours(error.__traceback__) and not isinstance(error, np.linalg.LinAlgError):
        return error
    if Config.read().full_traceback:
        return error
    return error.with_traceback(cut_traceback(error.__traceback__))


def _of_system(error: OSError | MemoryError) -> Exception:
    """Returns an error of Loopwright's in the place of one of the system's."""
    if isinstance(error, LoopwrightError | FileNotFoundError):
        return error
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        reported = LoopwrightOSError(error.filename, reason, error.errno)
    else:
        reason = f": {error}" if str(error) else ""
        reported = LoopwrightMemoryError(f"there is not enough memory{reason}")
    return reported.with_traceback(error.__traceback__)

"""Errors as users see them: without frames of the compiler, and for arguments of another kind."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..config import Config
from ..extras import extra
from ..ir import errors as errors
from ..ir.dims import Dim
from ..ir.errors import InternalError, LoopwrightError, LoopwrightMemoryError, LoopwrightTypeError
from ..tracer import ArraySpec, Request, Traced, cut_traceback, is_ours, located
from ..tracer.core.arguments import LeafSpec
from ..tracer.core.dispatch import method

P = ParamSpec("P")
T = TypeVar("T")
_BENEATH = sys.stdlib_module_names | {"llvmlite", "numpy", "xgboost"}
"""Packages that call the system for us."""
_NOT_OURS = (np.linalg.LinAlgError, FileNotFoundError)


def reports_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function raise its errors as users see them."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            reported = for_user(error)
        __tracebackhide__ = True  # IPython passes this frame over
        raise reported

    return call


method("errstate.checks")(lambda *operation: extra("float_errors")(*operation))


@method("branch.rewrite")
def _rewritten(frame: FrameType) -> str | None:
    """Returns the statement at ``frame`` with control flow on traced values, for the hint of an
    error; None where that cannot be written, or the extra is not there."""
    try:
        return extra("rewrite")(frame)
    except ImportError:
        return None


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
    elif is_ours(error.__traceback__) and not isinstance(error, _NOT_OURS):
        return error
    with suppress(ImportError):  # it does without
        extra("hints")(error)
    if Config.read().full_traceback:
        return error
    return error.with_traceback(cut_traceback(error.__traceback__))


def _of_system(error: OSError | MemoryError) -> Exception:
    """Returns an error of Loopwright's in the place of one of the system's."""
    if isinstance(error, LoopwrightError | FileNotFoundError):
        return error
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        reported = errors.LoopwrightOSError(error.filename, reason, error.errno)
    else:
        reason = f": {error}" if str(error) else ""
        reported = LoopwrightMemoryError(f"there is not enough memory{reason}")
    return reported.with_traceback(error.__traceback__)


def refuse_other_kind(traced: Traced, given: Request) -> None:
    """Raises LoopwrightTypeError if arguments are of another kind than those of a trace.

    Where arrays lie in memory does not count. Symbolic sizes have to have values.
    """
    wanted = traced.request
    if given.with_placements(wanted.placements) == wanted:
        return
    if (given.names, given.structures) != (wanted.names, wanted.structures):
        raise LoopwrightTypeError(
            f"{traced.name} was compiled for other arguments",
            notes=(f"compiled for {wanted}", f"called with  {given}"),
        )
    for path, old, new in zip(wanted.paths, wanted.leaves, given.leaves):
        if old != new and not is_instance(old, new):
            raise _mismatch(traced.name, path, old, new)
    from .sizes import refuse_unmet, solve  # loaded when they are first needed

    refuse_unmet(traced, solve(traced.name, wanted, given))


def is_instance(wanted: LeafSpec, given: LeafSpec) -> bool:
    """True if ``given`` is ``wanted`` with numbers for its symbolic sizes."""
    if not isinstance(wanted, ArraySpec) or not isinstance(given, ArraySpec):
        return False
    pairs = [*zip(wanted.type.shape, given.type.shape)]
    same = (wanted.type.dtype, wanted.weak) == (given.type.dtype, given.weak)
    alike = wanted.type.rank == given.type.rank
    return same and alike and all(isinstance(s, Dim) or s == value for s, value in pairs)


def _mismatch(name: str, path: str, wanted: Any, given: Any) -> LoopwrightTypeError:
    hint = None
    if isinstance(wanted, ArraySpec) and isinstance(given, ArraySpec):
        if wanted.type.rank == given.type.rank:
            hint = "a symbolic size there: lw.f32['n', 3], or shapes= or dynamic_shapes= of a model"
        if wanted.type.shape == given.type.shape:
            hint = f"{path}.astype(np.{wanted.type.dtype})"
    return LoopwrightTypeError(
        f"argument {path} of {name} is {given}, but this code was compiled for {wanted}", hint=hint
    )

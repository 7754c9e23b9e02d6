"""Errors as users see them: without frames of the compiler."""

from __future__ import annotations

import numpy as np

from .config import Config
from .ir.errors import InternalError, LoopwrightError
from .tracer import cut_traceback, is_ours, located


def for_user(error: Exception) -> Exception:
    """Returns ``error`` with only the user's frames in its traceback, unless all are asked for.

    A mistake of the compiler keeps all frames.
    """
    hidden = error.__cause__
    if type(error) is ValueError and isinstance(hidden, LoopwrightError):
        error = hidden  # NumPy's "setting an array element with a sequence" hides the reason
    if isinstance(error, LoopwrightError) and not isinstance(error, InternalError):
        located(error)
        error.__suppress_context__ = True
    elif is_ours(error.__traceback__) and not isinstance(error, np.linalg.LinAlgError):
        return error
    if Config.read().full_traceback:
        return error
    return error.with_traceback(cut_traceback(error.__traceback__))

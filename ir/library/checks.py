"""The number that failed checks of a compiled function leave, and the error that it stands for.

The checks of a function (``tracer/core/runtime_checks.py``) join their failures in one int64, or 0.
Of several failed checks it tells the one that stands first in the function, with the least of the
numbers that failed, as far as that is not too large: both fit, so that a maximum joins them.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from .. import errors as errors
from ..dtype import INT64, Array
from ..errors import RAISE_FAILED, LoopwrightError, LoopwrightIndexError, LoopwrightTypeError
from ..span import Span
from .registry import ArrayType, LibraryFunction, Typed, Values, register

_ERRORS: dict[str, type[LoopwrightError]] = {
    "IndexError": LoopwrightIndexError,
    "TypeError": LoopwrightTypeError,
    "ValueError": errors.LoopwrightValueError,
}

MOST_CHECKS = 1 << 20
"""Checks of one function that are told apart."""

LARGEST = (1 << 42) - 1
"""The largest number that is told exactly."""

_NUMBERS = 2 * (LARGEST + 1)


def failure_code(check: int) -> int:
    """Returns what a check leaves if it fails for the number 0; for ``n``, it is ``n`` less."""
    return (MOST_CHECKS - 1 - min(check, MOST_CHECKS - 1)) * _NUMBERS + LARGEST + 1


def can_raise(error: type[BaseException]) -> bool:
    """True for Python's own exceptions that are made of a message."""
    is_error = issubclass(error, Exception) and getattr(builtins, error.__name__, None) is error
    return is_error and not issubclass(error, UnicodeError | BaseExceptionGroup | StopIteration)


def error_class(name: str) -> type[LoopwrightError]:
    """Returns the class of the error that stands for Python's exception of that name; raises
    ValueError for what is none."""
    if name not in _ERRORS:
        error = getattr(builtins, name, None)
        if not isinstance(error, type) or not can_raise(error):
            raise ValueError(f"{name} is not an exception that a check raises")
        _ERRORS[name] = type(f"Loopwright{name}", (LoopwrightError, error), {})
    return _ERRORS[name]


def _rule(_operands: Sequence[Typed], _options: Mapping[str, Any]) -> Sequence[ArrayType]:
    return [ArrayType((), INT64)]


def _bind(options: Mapping[str, Any], _count: int) -> Values:
    def raise_failed(failure: Array, result: Array) -> None:
        result[...] = value = int(failure)
        if not value:
            return
        check, number = divmod(value, _NUMBERS)
        error, message, place, source = options["checks"][MOST_CHECKS - 1 - check]
        text = message.format(LARGEST + 1 - number)
        raise error_class(error)(text, span=Span(*place) if place else None, source=source)

    return raise_failed


register(LibraryFunction(RAISE_FAILED, "Raises the error of a check that failed.", _rule, _bind))

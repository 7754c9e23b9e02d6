"""The boundary to users: errors of control flow name the user's line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ...ir.errors import LoopwrightError
from ..core.error_context import complete, locate
from ..core.trace import active

F = TypeVar("F", bound=Callable[..., Any])


def for_users(function: F) -> F:
    """``function`` with the user's line in the errors that it raises itself."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except LoopwrightError as error:
            trace = active()
            if trace is not None:
                locate(error, trace)
            elif error.span is None:
                complete(error, None)
            raise

    return call  # type: ignore[return-value]

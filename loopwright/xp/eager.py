"""Calls of ``lw.xp`` on plain arrays: compiled once for each kind of arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..compile import CompiledFunction
from ..tracer.trace import active

F = TypeVar("F", bound=Callable[..., Any])

_OPERANDS = {
    *("x", "x1", "x2", "arrays", "condition", "indices", "sorter", "min", "max"),
    *("prepend", "append"),
}
"""Names of parameters that are arrays in all functions of the standard. All others are static."""


def compiled(function: F) -> F:
    """Returns a function that calls ``function`` while tracing, and its compiled code elsewhere.

    ``function`` is written with NumPy's functions, which hand traced arrays over to the tracer.
    What it returns has ``cache_info()``, as functions of ``lw.compile`` have.
    """
    made: list[CompiledFunction] = []

    def code() -> CompiledFunction:
        if made:
            return made[0]
        parameters = inspect.signature(function).parameters
        static = [name for name in parameters if name not in _OPERANDS]
        made.append(CompiledFunction(function, static_argnames=static))
        made[0].takes_any_kind = True
        return made[0]

    @functools.wraps(function)
    def eager(*args: Any, **kwargs: Any) -> Any:
        if active() is not None:
            return function(*args, **kwargs)
        return (made[0] if made else code())(*args, **kwargs)

    vars(eager)["cache_info"] = lambda: code().cache_info()
    return eager  # pyright: ignore[reportReturnType]

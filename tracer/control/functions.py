"""``@lw.function``: functions that stay functions, so that they may call themselves."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ..trace import active
from .calls import call
from .user import for_users


class TracedFunction:
    """A Python function that compiled code calls, instead of having its operations inline."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __repr__(self) -> str:
        return f"<function {getattr(self.function, '__name__', self.function)}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active() is None:  # with as few of Python's frames as possible: recursion is deep
            return self.function(*args, **kwargs)
        return _called(self, args, kwargs)


def function(f: Callable[..., Any]) -> TracedFunction:
    """Decorates a function that may call itself, or others that call it.

    While another function is compiled, a call of it is a call in the compiled code too. Arguments
    and results are arrays and numbers, or containers of them. A call that is the last thing a
    function does takes no stack. The recursion has to end in a branch of ``lw.cond``.

    >>> import loopwright as lw
    >>> @lw.function
    ... def factorial(n):
    ...     return lw.cond(n <= 1, lambda: 1, lambda: n * factorial(n - 1))
    >>> factorial(5), int(lw.compile(factorial)(10))
    (120, 3628800)
    """
    return TracedFunction(f)


@for_users
def _called(f: TracedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(f.function, args, kwargs)

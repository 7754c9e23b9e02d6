"""Conditions of comprehensions: of those in ``sum``, ``any`` and ``all``, values may decide."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

from ...ir.errors import LoopwrightTypeError
from ..control.user import for_users
from .branches import chosen, is_traced

_SKIPPED = object()

_NEUTRAL: dict[Any, Any] = {builtins.sum: 0, builtins.any: False, builtins.all: True}
"""The item that changes no result of a function over all items, by the function."""


@for_users
def keeps(test: Any) -> Any:
    """Returns the condition of a comprehension, which Python has to know."""
    if is_traced(test):
        raise LoopwrightTypeError(
            "values choose the items of this comprehension, and the results of compiled code have "
            "as many items in each call",
            hint="a mask, x[x > 0], or a loop with an if",
        )
    return test


def item(function: Any, test: Callable[[], Any], value: Callable[[], Any]) -> Any:
    """Returns an item of a comprehension that ``function`` is called with, if ``test()`` holds."""
    holds = test()
    if is_traced(holds) and any(function is each for each in _NEUTRAL):
        return chosen(holds, value, lambda: _NEUTRAL[function])
    return value() if keeps(holds) else _SKIPPED


def items(comprehension: Iterable[Any]) -> Iterable[Any]:
    """Returns the items that no condition has left out, as a list if they are one."""
    kept = (value for value in comprehension if value is not _SKIPPED)
    return [*kept] if isinstance(comprehension, list) else kept

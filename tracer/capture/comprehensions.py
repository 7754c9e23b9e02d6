"""Comprehensions: loops that append to a list, and the items that ``sum`` and its like take."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

from ...ir.errors import LoopwrightTypeError
from ..control.user import for_users
from ..core.trace import active
from .branches import branch, is_traced, returned
from .lists import Listed, is_grown, listed
from .loops import Steps, for_loop, steps_of

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


@for_users
def items(
    iterable: Any,
    test: Callable[[Any], Any],
    value: Callable[[Any], Any],
    function: Any,
    is_list: bool,
) -> Iterable[Any]:
    """``(value(item) for item in iterable if test(item))``, a list or for a ``function`` to take.
    Values may choose the items of a list, and those that ``sum``, ``any`` and ``all`` take."""
    steps = steps_of(iterable) if active() is not None else None
    is_long = steps is not None and steps.is_long
    neutral = [item for each, item in _NEUTRAL.items() if each is function]

    def given(item: Any) -> Any:
        holds = test(item)
        if neutral and (is_long or is_traced(holds)):
            return returned(holds, lambda: value(item), lambda: neutral[0])
        return value(item) if keeps(holds) else _SKIPPED

    def plain() -> Iterable[Any]:
        for each in map(given, iterable):
            if each is not _SKIPPED:
                yield each

    is_list = is_list or function is builtins.max or function is builtins.min
    if steps is not None and is_long and neutral and not is_list:
        return Steps(steps.count, lambda number: given(steps.item(number)), plain)
    made = listed([]) if is_list else None
    if type(made) is not Listed or (neutral and not is_long):
        return [*plain()] if is_list else plain()

    def add(item: Any) -> None:
        branch(test(item), lambda: made.append(value(item)), lambda: None, (), ())

    if is_long:
        for_loop(steps, add, (), (), None, (), ())
    else:
        for item in iterable:
            add(item)
    return made if is_grown(made) else [*made]

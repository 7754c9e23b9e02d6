"""The steps of loops by number: of ranges, rows of arrays, and what was appended to a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...ir.errors import LoopwrightError
from ..control import traced
from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.runtime_checks import check
from ..core.trace import MOST_SHORT
from .lists import is_grown


class Steps:
    """The items of a loop: ``item(n)`` is number n of ``count``, which may be traced. ``plain`` is
    what Python runs over. If the items are the integers between them, ``ends`` are both ends."""

    def __init__(
        self, count: Any, item: Callable[[Any], Any], plain: Callable[[], Any], *ends: Any
    ) -> None:
        self.count, self.item, self.plain, self.ends = count, item, plain, ends

    @property
    def is_long(self) -> bool:
        """True if a loop over it is native."""
        return type(self.count) is not int or self.count > MOST_SHORT

    def __iter__(self) -> Iterator[Any]:
        return iter(self.plain())

    def __len__(self) -> int:
        return len(self.plain())

    def __getitem__(self, key: Any) -> Any:
        return self.plain()[key]


def steps_of(iterable: Any) -> Steps | None:
    """Returns the steps of a range, or of the rows of a traced array; None for what Python alone
    can run over."""
    if isinstance(iterable, Steps):
        return iterable
    if is_grown(iterable):
        return Steps(iterable.length(), iterable.item, lambda: iterable)
    if type(iterable) is range:
        return range_steps(iterable.start, iterable.stop, iterable.step)
    if type(iterable) is Proxy and iterable.type.shape:
        rows = iterable.type.shape[0]
        count = rows if isinstance(rows, int) else lift(rows)
        return Steps(count, lambda number: iterable[number], lambda: iterable)
    return None


def range_steps(start: Any, stop: Any, step: Any) -> Steps:
    """Returns the steps of ``range(start, stop, step)``, with traced bounds maybe."""

    def item(number: Any) -> Any:
        is_plain = type(step) is int and step == 1 and _is_zero(start)
        return number if is_plain else start + number * step

    is_unit = type(step) is int and step == 1 and _is_count(start) and _is_count(stop)
    ends = (start, stop) if is_unit else ()
    return Steps(_count(start, stop, step), item, lambda: range(start, stop, step), *ends)


def _is_count(value: Any) -> bool:
    return type(value) is int or (type(value) is Proxy and value.type == traced.COUNT)


def _is_zero(value: Any) -> bool:
    return type(value) is not Proxy and value == 0


def _count(start: Any, stop: Any, step: Any) -> Any:
    """Returns the number of iterations of a range, at least 0."""
    if all(type(v) is int for v in (start, stop, step)):
        return len(range(start, stop, step))
    if type(step) is Proxy and step.type.dtype.is_integer and step.ndim == 0:
        check(step == 0, ValueError, "range() arg 3 must not be zero")
        return -(-np.where(step > 0, stop - start, start - stop) // np.abs(step))
    if type(step) is not int or not step:
        raise LoopwrightError("the step of a range is an int other than 0")
    distance = stop - start if step > 0 else start - stop
    size = abs(step)
    return distance if size == 1 else (distance + (size - 1)) // size

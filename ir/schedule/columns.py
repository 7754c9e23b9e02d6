"""One integer per schedule of a population, and the building of all their steps at once.

::

    def build(rows, wide):                       steps = Column-valued, for all schedules at once
        steps = [split("i", (64 // rows, rows))]        split("i", ([32, 16, 8], [2, 4, 8]))
        return steps + when(wide, unroll("i.1"))        unroll("i.1") of the schedules 1 and 2

Arithmetic on columns makes columns. Where Python needs *one* answer - ``if rows > 4``, a list's
index, a range, a key - the schedules part: they are built again, those together that agree. So a
function that was written for ints builds whole populations, in as many runs as it has paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import ScheduleError

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
StepLike = TypeVar("StepLike")


class _Parting(BaseException):
    """Schedules with other ``keys`` are built in other ways. No error that a rule may catch."""

    def __init__(self, keys: IntArray) -> None:
        self.keys = keys


class Column:
    """int64[n]: an integer of each of n schedules."""

    __slots__ = ("values",)

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values

    def __add__(self, other: Any) -> Any:
        return _column(self.values, other, np.add)

    def __sub__(self, other: Any) -> Any:
        return _column(self.values, other, np.subtract)

    def __rsub__(self, other: Any) -> Any:
        return _column(other, self.values, np.subtract)

    def __mul__(self, other: Any) -> Any:
        return _column(self.values, other, np.multiply)

    def __floordiv__(self, other: Any) -> Any:
        return _column(self.values, other, _floor_divide)

    def __rfloordiv__(self, other: Any) -> Any:
        return _column(other, self.values, _floor_divide)

    def __mod__(self, other: Any) -> Any:
        return _column(self.values, other, _remainder)

    def __rmod__(self, other: Any) -> Any:
        return _column(other, self.values, _remainder)

    def __neg__(self) -> Column:
        return Column(-self.values)

    def __and__(self, other: Any) -> Any:
        return _column(self.values, other, np.bitwise_and)

    def __or__(self, other: Any) -> Any:
        return _column(self.values, other, np.bitwise_or)

    __radd__, __rmul__, __rand__, __ror__ = __add__, __mul__, __and__, __or__

    def __eq__(self, other: object) -> Any:
        return _column(self.values, other, np.equal)

    def __ne__(self, other: object) -> Any:
        return _column(self.values, other, np.not_equal)

    def __lt__(self, other: Any) -> Any:
        return _column(self.values, other, np.less)

    def __le__(self, other: Any) -> Any:
        return _column(self.values, other, np.less_equal)

    def __gt__(self, other: Any) -> Any:
        return _column(self.values, other, np.greater)

    def __ge__(self, other: Any) -> Any:
        return _column(self.values, other, np.greater_equal)

    def __bool__(self) -> bool:
        return bool(_same(self.values != 0))

    def __index__(self) -> int:
        return int(_same(self.values))

    __int__ = __index__

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __str__(self) -> str:
        return str(self.__index__())

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)


def _column(left: Any, right: Any, function: Callable[[Any, Any], Any]) -> Any:
    left = left.values if isinstance(left, Column) else left
    right = right.values if isinstance(right, Column) else right
    if not isinstance(left, int | np.ndarray | np.integer):
        return NotImplemented
    if not isinstance(right, int | np.ndarray | np.integer):
        return NotImplemented
    return Column(function(left, right))


def _floor_divide(left: Any, right: Any) -> Any:
    if not np.all(right):
        raise _Parting(np.asarray(right == 0, np.int64)) if np.any(right) else ZeroDivisionError
    return np.floor_divide(left, right)


def _remainder(left: Any, right: Any) -> Any:
    return left - _floor_divide(left, right) * right


def _same(values: npt.NDArray[Any]) -> Any:
    """Returns the value of all schedules; where there are several, these part."""
    first = values[0]
    if (values != first).any():
        raise _Parting(values.astype(np.int64))
    return first


class Guarded:
    """A step of those schedules alone for which ``where``, bool[n], is true."""

    __slots__ = ("step", "where")

    def __init__(self, step: Any, where: BoolArray) -> None:
        self.step, self.where = step, where


def when(condition: Any, *steps: StepLike) -> list[StepLike]:
    """Returns the steps if the condition holds; of a column, those of the schedules for which it
    holds, none of which part."""
    if not isinstance(condition, Column):
        return list(steps) if condition else []
    where = condition.values != 0
    if where.all():
        return list(steps)
    guarded: Any = [
        Guarded(s.step, s.where & where) if isinstance(s, Guarded) else Guarded(s, where)
        for s in steps
    ]
    return guarded if where.any() else []


def least(left: Any, right: Any) -> Any:
    """Returns the lesser of two integers or columns; ``min`` would part the schedules."""
    if isinstance(left, Column) or isinstance(right, Column):
        return _column(left, right, np.minimum)
    return min(left, right)


def most(left: Any, right: Any) -> Any:
    """Returns the greater of two integers or columns."""
    if isinstance(left, Column) or isinstance(right, Column):
        return _column(left, right, np.maximum)
    return max(left, right)


def among(value: Any, values: Iterable[int]) -> Any:
    """Returns whether an integer, or each of a column, is one of ``values``."""
    if isinstance(value, Column):
        return Column(sum((value.values == int(v) for v in values), np.zeros(1, np.bool_)))
    return value in values


def plain(value: Any) -> Any:
    """Returns an integer of a step: an int, or a column as it is."""
    return value if isinstance(value, Column) else int(value)


def array_of(value: Any, count: int) -> IntArray:
    """Returns int64[count] of an int or a column."""
    values = np.asarray(value.values if isinstance(value, Column) else value, np.int64)
    return values if values.shape == (count,) else np.broadcast_to(values, (count,))


def built(
    build: Callable[..., Any], values: Mapping[str, IntArray], count: int
) -> Iterator[tuple[IntArray, list[Any]]]:
    """Yields the steps of ``count`` schedules, those together that ``build`` makes on one path:
    their places, and steps that may be ``Guarded`` and hold columns. Schedules that ``build``
    refuses are left out. What columns cannot do, it does for one schedule after the other."""
    waiting = [np.arange(count)]
    while waiting:
        members = waiting.pop()
        if not len(members):
            continue
        knobs: dict[str, Any] = {name: Column(v[members]) for name, v in values.items()}
        try:
            steps = build(**knobs)
            steps = list(getattr(steps, "steps", steps))
        except _Parting as parting:
            keys = np.broadcast_to(parting.keys, members.shape)
            waiting += [members[keys == key] for key in sorted({*keys.tolist()})]
        except ScheduleError:
            continue
        except Exception:
            for place in members:
                try:
                    one = build(**{name: int(v[place]) for name, v in values.items()})
                except ScheduleError:
                    continue
                yield np.array([place]), list(getattr(one, "steps", one))
        else:
            yield members, steps

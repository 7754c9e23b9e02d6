"""Schedules for a range of sizes: a few, and the comparisons of a size that choose between them.

::

    Cases ::= (int_expr "<=" INT ":" Schedule)* "otherwise:" Schedule
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, Symbol, bounds, substitute
from ..dims_parser import parse_dim
from ..errors import ParseError, ScheduleError
from .schedule import Schedule


@dataclass(frozen=True, slots=True)
class Interval:
    """The values of a size from ``low`` to ``high`` inclusive, and the schedule for them."""

    low: int
    high: int
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Cases:
    """The schedule for values of ``size`` up to the first element of each of ``cases``, which are
    sorted by it, and for greater ones.

    >>> from ..dims import size
    >>> print(Cases(size("n", 0, 9), ((1, Schedule()),), Schedule()))
    n <= 1: Schedule()
    otherwise: Schedule()
    """

    size: IntExpr
    cases: tuple[tuple[int, Schedule], ...]
    otherwise: Schedule

    def __post_init__(self) -> None:
        ends = [at_most for at_most, _ in self.cases]
        if ends != sorted(set(ends)):
            raise ScheduleError(f"cases are sorted by their greatest sizes, not {ends}")

    def __str__(self) -> str:
        lines = [f"{self.size} <= {at_most}: {schedule}" for at_most, schedule in self.cases]
        return "\n".join([*lines, f"otherwise: {self.otherwise}"])

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules of all cases, the one for other sizes last."""
        return (*(schedule for _, schedule in self.cases), self.otherwise)

    def each(self, change: Callable[[Schedule], Schedule]) -> Cases:
        """Returns the cases with every schedule changed."""
        cases = tuple((at_most, change(schedule)) for at_most, schedule in self.cases)
        return Cases(self.size, cases, change(self.otherwise))

    def pick(self, value: int) -> Schedule:
        """Returns the schedule for a value of the size."""
        for at_most, schedule in self.cases:
            if value <= at_most:
                return schedule
        return self.otherwise

    def intervals(self) -> Iterator[Interval]:
        """Yields the values of each case, in ascending order, without cases that have none."""
        whole = bounds(self.size, {})
        if whole is None:
            raise ScheduleError(f"the range of {self.size} is not known")
        low = whole[0]
        for at_most, schedule in (*self.cases, (whole[1], self.otherwise)):
            high = min(at_most, whole[1])
            if low <= high:
                yield Interval(low, high, schedule)
                low = high + 1

    def to_json(self) -> dict[str, Any]:
        """A dictionary of the text of the size and lists of steps."""
        cases = [[at_most, schedule.to_json()] for at_most, schedule in self.cases]
        return {"size": str(self.size), "cases": cases, "otherwise": self.otherwise.to_json()}

    @staticmethod
    def from_json(data: object, sizes: Mapping[str, Symbol]) -> Cases:
        """Reads what ``to_json`` wrote, with the symbols of sizes by name; raises ScheduleError for
        anything else."""
        fields: dict[Any, Any] = data if isinstance(data, dict) else {}
        text, cases = fields.get("size"), fields.get("cases")
        if (
            not isinstance(text, str)
            or not isinstance(cases, list)
            or (len(text) > LONGEST_SIZE or len(cases) > MOST_RANGES)
        ):
            raise ScheduleError(f"{data!r:.80} is not a schedule for a range of sizes")
        try:
            size = substitute(parse_dim(text), {s.name: Dim((((s,), 1),)) for s in sizes.values()})
        except ParseError as error:
            raise ScheduleError(error.message) from None
        if not isinstance(size, Dim) or bounds(size, {}) is None:
            raise ScheduleError(f"{text:.80} is not a size of {', '.join(sizes)}")
        read: list[tuple[int, Schedule]] = []
        for case in cases:
            if not isinstance(case, list) or len(case) != 2 or type(case[0]) is not int:
                raise ScheduleError(f"{case!r:.80} is not a case of a schedule")
            read.append((case[0], Schedule.from_json(case[1])))
        return Cases(size, tuple(read), Schedule.from_json(fields.get("otherwise")))


MOST_RANGES = 64
LONGEST_SIZE = 200  # characters


def on_one_thread(schedule: Schedule) -> Schedule:
    """Returns a schedule without its parallel loops, which run on the calling thread.

    >>> from .steps import parallel, vectorize
    >>> on_one_thread(Schedule.of(parallel("i.0"), vectorize("j.1")))
    Schedule(steps=(Step(name='vectorize', args=('j.1',)),))
    """
    return Schedule(tuple(step for step in schedule.steps if step.name != "parallel"))

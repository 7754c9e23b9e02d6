"""Schedules as data: a tuple of steps, each one primitive with its arguments.

A schedule prints as the Python that builds it, and its JSON is what the log holds. A primitive is
declared once, by a function from a ``State`` to the next one: its parameters say what a step holds,
how it prints, and what its JSON is; its body refuses what is illegal, and then does it::

    @Primitive
    def peel(state: State, loop: str, first: int, last: int) -> State: ...

    peel("i.0", 0, 1)                            the step, whose JSON is ["peel", "i.0", 0, 1]
    peel("i.0", 0, 1).apply(state)               what it makes of a nest

What the step is for the loops of many schedules at once is declared beside it (``rows.py``). The
integers of steps may be ``Column`` objects, one for each of these schedules (``columns.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec

from ..dataclass import dataclass
from ..errors import ScheduleError
from .columns import plain

if TYPE_CHECKING:
    from .state import State

P = ParamSpec("P")

KINDS = {"str": "name", "int": "int", "Sequence[int]": "ints"}
"""The kind of an argument by the annotation of its parameter; ``*loops: str`` is of kind names."""


class Primitive(Generic[P]):
    """A function that makes steps, declared by what a step does to a ``State``.

    ``on_rows`` is what it does to the loops of many schedules, if anything.
    """

    def __init__(self, on_state: Callable[Concatenate[State, P], State]) -> None:
        self.name, self.on_state = on_state.__name__, on_state
        self.on_rows: Callable[..., None] | None = None
        update_wrapper(self, on_state)
        _DECLARED[self.name] = self

    def rows(self, on_rows: Callable[..., None]) -> Callable[..., None]:
        """Declares what a step does to ``Rows``: a function of these and of its arguments, of
        which integers may be columns."""
        self.on_rows = on_rows
        return on_rows

    def __call__(self, *args: P.args, **named: P.kwargs) -> Step:
        kinds, values = self.kinds, args
        if named or len(args) != len(kinds) or kinds[-1] == "names":
            bound = self.signature.bind(*args, **named)
            bound.apply_defaults()
            values = tuple(bound.arguments.values())
        return Step(self.name, tuple(map(_plain, kinds, values)))

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters of a step."""
        signature = inspect.signature(self.on_state)
        return signature.replace(parameters=[*signature.parameters.values()][1:])

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each argument: a name, an int, or some of one of them."""
        return tuple(
            "names" if p.kind == p.VAR_POSITIONAL else KINDS[p.annotation]
            for p in self.signature.parameters.values()
        )


def _plain(kind: str, value: Any) -> Any:
    """Returns an argument as a step holds it."""
    if kind == "int":
        return plain(value)
    return tuple(map(plain, value)) if kind == "ints" else value


class Preparation(Primitive[P]):
    """A primitive that makes other stages of a PrimFunc, before any loop is cut."""


_DECLARED: dict[str, Primitive[...]] = {}


@cache
def primitives() -> Mapping[str, Primitive[...]]:
    """Returns all primitives by name."""

    return _DECLARED


LONGEST_SCHEDULE = 1000
"""Steps of a schedule from outside; each costs a look at the whole nest."""


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive applied: its name, and one argument of each kind."""

    name: str
    args: tuple[Any, ...]

    @property
    def primitive(self) -> Primitive[...]:
        """The primitive of the step's name."""
        return primitives()[self.name]

    @property
    def spread(self) -> tuple[Any, ...]:
        """The arguments as a call has them: names one after the other."""
        last = self.primitive.kinds[-1] == "names"
        return (*self.args[:-1], *self.args[-1]) if last else self.args

    def apply(self, state: State) -> State:
        """Returns the state after the step; raises ScheduleError if it is illegal."""
        return self.primitive.on_state(state, *self.spread)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.spread))})"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A tuple of steps, in order. ``Schedule()`` is the plain nest: separate loops per stage."""

    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        if not self.steps:
            return "Schedule()"
        lines = "".join(f"    {step},\n" for step in self.steps)
        return f"Schedule.of(\n{lines})"

    @property
    def split_axes(self) -> frozenset[str]:
        """The axes that are split."""
        return frozenset(s.args[0] for s in self.steps if s.name == "split")

    @property
    def vectorized(self) -> frozenset[str]:
        """The loops that run in vector lanes."""
        return frozenset(s.args[0] for s in self.steps if s.name == "vectorize")

    @staticmethod
    def of(*steps: Step) -> Schedule:
        """The schedule of these steps.

        >>> str(Schedule.of(Step("vectorize", ("j.1",))).steps[0])
        "vectorize('j.1')"
        """
        return Schedule(tuple(steps))

    def renamed(self, names: Mapping[str, str]) -> Schedule:
        """The same schedule of a PrimFunc whose axes and buffers have other names.

        >>> fused = Step("fuse", (("row.0", "col"),))
        >>> print(Schedule.of(fused).renamed({"row": "i", "col": "j"}).steps[0])
        fuse('i.0', 'j')
        """

        def new(name: str) -> str:
            parts = (loop.partition(".") for loop in name.split("*"))
            return "*".join(f"{names.get(axis, axis)}{dot}{rest}" for axis, dot, rest in parts)

        def argument(kind: str, value: Any) -> Any:
            if kind == "name":
                return new(value)
            return tuple(map(new, value)) if kind == "names" else value

        renamed = (
            Step(s.name, tuple(map(argument, s.primitive.kinds, s.args))) for s in self.steps
        )
        return Schedule(tuple(renamed))

    def to_json(self) -> list[list[Any]]:
        """A list of ``[primitive, argument, ...]`` with lists for tuples."""
        return [
            [s.name, *(list(a) if isinstance(a, tuple) else a for a in s.args)] for s in self.steps
        ]

    @staticmethod
    def from_json(data: object) -> Schedule:
        """Read what ``to_json`` wrote; raises ScheduleError for anything else."""
        if not isinstance(data, list):
            raise ScheduleError(f"a schedule is a list of steps, not {type(data).__name__}")
        if len(data) > LONGEST_SCHEDULE:
            raise ScheduleError(f"{len(data)} steps are more than {LONGEST_SCHEDULE}")
        return Schedule(tuple(_step(item) for item in data))


def _step(item: object) -> Step:
    named = isinstance(item, list) and item and isinstance(item[0], str)
    if not isinstance(item, list) or not named or item[0] not in primitives():
        raise ScheduleError(f"{item!r:.80} is not a schedule step")
    name, *args = item
    kinds = primitives()[name].kinds
    if len(args) != len(kinds):
        raise ScheduleError(f"{name} takes {len(kinds)} arguments, not {len(args)}")
    return Step(name, tuple(_argument(name, kind, a) for kind, a in zip(kinds, args)))


def _argument(step: str, kind: str, value: object) -> Any:
    def is_int(v: object) -> bool:
        return isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**40

    if kind == "name" and isinstance(value, str) and len(value) < 200:
        return value
    if kind == "int" and is_int(value):
        return value
    if isinstance(value, list) and len(value) < 200:
        if kind == "names" and all(isinstance(v, str) for v in value):
            return tuple(value)
        if kind == "ints" and value and all(is_int(v) for v in value):
            return tuple(value)
    raise ScheduleError(f"{step}: {value!r:.80} is not of the kind {kind}")

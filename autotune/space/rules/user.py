"""Sketch rules of users: schedules with knobs that they derive from a PrimFunc's structure.

::

    @lw.sketch_rule
    def row_blocks(prim, target):
        (stage,) = prim.stages                     # see what is computed ...
        yield lw.Sketch(                           # ... and say how it may run
            "blocks",
            lambda rows: [split("i", (64 // rows, rows)), unroll("i.1")],
            rows=(2, 4, 8),
        )

A user's sketch stands beside the built-in ones in every space that is made afterwards: its choices
are sampled, learnt from, measured and checked like theirs. Its records hold schedules, as all do,
so that what it found is reused without the rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ....codegen.target import Target
from ....ir.errors import LoopwrightTypeError, LoopwrightValueError, ScheduleError
from ....ir.loop.prim import PrimFunc
from ....ir.schedule.apply import apply_schedule
from ....ir.schedule.steps import Schedule, Step
from ...protocols import BoolArray
from ..analysis import groups_of
from .base import KNOBS, UNUSED, Choices, Sketch, Values

__all__ = ["Rule", "UserSketch", "forget", "rules", "sketch_rule", "user_sketches"]

MAX_CHOICES = 4096  # of one sketch: all can be listed, so that any schedule of it is recognised
MAX_SKETCHES = 8  # of all rules for one kernel

Steps: TypeAlias = Schedule | Iterable[Step]


class UserSketch:
    """Schedules with knobs: ``build(**choices)`` gives the steps for one choice of each.

    ``knobs`` name the integers to choose from, at most 13 of them and 4096 choices in all; the
    first of each make the favourite. A choice that is illegal may raise ScheduleError: then it is
    not in the space. Knobs with the name of a built-in one (``rows``, ``vectors``, ``k_unroll``,
    ...) mean the same to the cost model.
    """

    def __init__(self, name: str, build: Callable[..., Steps], **knobs: Sequence[int]) -> None:
        self.name = str(name)
        self.build = build
        self.knobs: dict[str, tuple[int, ...]] = {}
        for knob, given in knobs.items():
            values = tuple(dict.fromkeys(int(v) for v in given))
            if not values or min(values) < 0:
                raise LoopwrightValueError(
                    f"sketch {name}: knob {knob} offers {list(given)}; it needs ints from 0 on"
                )
            self.knobs[knob] = values
        if len(self.knobs) > len(KNOBS):
            raise LoopwrightValueError(
                f"sketch {name} has {len(self.knobs)} knobs; {len(KNOBS)} are the most"
            )
        choices = prod(len(values) for values in self.knobs.values())
        if choices > MAX_CHOICES:
            raise LoopwrightValueError(
                f"sketch {name} offers {choices} choices; {MAX_CHOICES} are the most",
                hint="leave out values, or give several sketches",
            )

    def schedule(self, choices: Mapping[str, int]) -> Schedule:
        """The schedule of one choice per knob."""
        made = self.build(**choices)
        return made if isinstance(made, Schedule) else Schedule(tuple(made))


Rule: TypeAlias = Callable[[PrimFunc, Target], "Iterable[UserSketch] | None"]

_RULES: list[Rule] = []


def sketch_rule(rule: Rule) -> Rule:
    """Offer a rule's sketches to every kernel from now on; a decorator.

    ``rule(prim, target)`` gives ``lw.Sketch`` objects for the kernels it knows how to schedule, and
    none for all others. It sees a ``PrimFunc``: its stages, their axes and expressions, never the
    name of an operator. ``loopwright.autotune.space.rules.user.forget`` takes a rule back.
    """
    if not callable(rule):
        raise LoopwrightTypeError(f"lw.sketch_rule takes a function, not {rule!r}")
    if rule not in _RULES:
        _RULES.append(rule)
    return rule


def rules() -> tuple[Rule, ...]:
    """The rules that users have added, in their order."""
    return tuple(_RULES)


def forget(rule: Rule) -> None:
    """Offer a rule no more."""
    if rule in _RULES:
        _RULES.remove(rule)


@dataclass(frozen=True)
class _Offered(Sketch):
    """A user's sketch as the space wants it: its knobs stand in columns of the built-in ones."""

    rule = "user"

    made: UserSketch = field(default_factory=lambda: UserSketch("", lambda: ()))
    title: str = ""

    @property
    def name(self) -> str:
        return self.title

    @cached_property
    def columns(self) -> dict[str, str]:
        """The column of each knob: that of its name, or a free one."""
        taken = {knob: knob for knob in self.made.knobs if knob in KNOBS}
        free = iter([name for name in KNOBS if name not in taken])
        return {knob: taken.get(knob) or next(free) for knob in self.made.knobs}

    @cached_property
    def known(self) -> dict[tuple[int, ...], Schedule]:
        """The schedule of every choice that has one, by its values in the order of the knobs."""
        found: dict[tuple[int, ...], Schedule] = {}
        for values in product(*self.made.knobs.values()):
            try:
                found[values] = self.made.schedule(dict(zip(self.made.knobs, values)))
            except ScheduleError:
                continue
        return found

    def favourites(self) -> list[Choices]:
        return [self._choices(values) for values in list(self.known)[:1]]

    def steps(self, choices: Choices) -> tuple[list[Step], list[Step]]:
        return list(self.known[self._values(choices)].steps), []

    def fits(self, values: Values) -> BoolArray:
        decided: list[Any] = []
        for knob, column in self.columns.items():
            table = np.asarray(self.made.knobs[knob], np.int64)
            code = values[column]
            decided.append(code if self._is_plain(knob) else table[np.maximum(code - 1, 0)])
        if not decided:
            return np.full(len(values[KNOBS[0]]), bool(self.known))
        rows = np.stack(decided, axis=1)
        return np.array([tuple(int(v) for v in row) in self.known for row in rows], bool)

    def decode(self, schedule: Schedule) -> dict[str, int] | None:
        values = next((v for v, s in self.known.items() if s == schedule), None)
        return None if values is None else self._choices(values)

    def outer_trips(self, choices: Choices) -> tuple[int, ...]:
        return ()

    def _is_plain(self, knob: str) -> bool:
        """Whether the values stand for themselves in their column; else their places do."""
        return self.columns[knob] == knob and (min(self.made.knobs[knob]) > 0 or not UNUSED[knob])

    def _choices(self, values: Sequence[int]) -> dict[str, int]:
        found = dict(UNUSED)
        for (knob, column), value in zip(self.columns.items(), values):
            place = self.made.knobs[knob].index(value) + 1
            found[column] = value if self._is_plain(knob) else place
        return found

    def _values(self, choices: Choices) -> tuple[int, ...]:
        return tuple(
            choices[column] if self._is_plain(knob) else self.made.knobs[knob][choices[column] - 1]
            for knob, column in self.columns.items()
        )

    @staticmethod
    def of(made: Any, rule: str, prim: PrimFunc, target: Target) -> _Offered:
        if not isinstance(made, UserSketch):
            raise LoopwrightTypeError(f"it gave {made!r:.60}, not an lw.Sketch")
        title = f"user.{rule}.{made.name}"
        group = max(groups_of(prim), key=lambda g: g.flops)
        axis = group.shared[-1] if group.shared else None
        bare = _Offered(group, target, axis, made=made, title=title)
        tables: dict[str, tuple[int, ...]] = {name: (v,) for name, v in UNUSED.items()}
        for knob, column in bare.columns.items():
            values = made.knobs[knob]
            plain = bare._is_plain(knob)
            tables[column] = values if plain else tuple(range(1, len(values) + 1))
        return _Offered(group, target, axis, tables=tables, made=made, title=title)


def user_sketches(prim: PrimFunc, target: Target) -> Iterator[Sketch]:
    """What the users' rules offer for a kernel. A rule that fails is a warning, not an error."""
    count = 0
    for rule in _RULES:
        title = getattr(rule, "__name__", "rule")
        try:
            for made in rule(prim, target) or ():
                offered = _Offered.of(made, title, prim, target)
                if offered.known and count < MAX_SKETCHES:
                    apply_schedule(prim, next(iter(offered.known.values())))
                    count += 1
                    yield offered
        except Exception as error:  # somebody's rule must not end somebody else's compilation
            warnings.warn(
                f"sketch rule {title} failed for {prim.name}: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )

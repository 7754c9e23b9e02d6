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
so that they are reused without the rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from ....codegen.target import Target
from ....ir.errors import LoopwrightTypeError
from ....ir.loop.prim import PrimFunc
from ....ir.schedule.apply import apply_schedule
from ..settings import SKETCHES
from ..sketch import Sketch

Rule: TypeAlias = Callable[[PrimFunc, Target], "Iterable[Sketch] | None"]

_RULES: list[Rule] = []


def sketch_rule(rule: Rule) -> Rule:
    """Offer a rule's sketches to every kernel from now on; a decorator.

    ``rule(prim, target)`` yields ``lw.Sketch`` objects for the kernels it knows how to schedule,
    and none for all others. It sees a ``PrimFunc``: its stages, their axes and expressions, never
    the name of an operator. ``loopwright.autotune.space.rules.user.forget`` takes a rule back.

    >>> from loopwright.autotune.space.rules.user import forget
    >>> @lw.sketch_rule
    ... def none(prim, target):
    ...     return ()  # for no kernel
    >>> forget(none)
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


def user_sketches(prim: PrimFunc, target: Target) -> Iterator[Sketch]:
    """The first sketches that users' rules offer for a kernel, named after their rules.

    A rule that fails is a warning, not an error: it must not end somebody else's compilation.
    """
    count = 0
    for rule in _RULES:
        title = getattr(rule, "__name__", "rule")
        try:
            for sketch in rule(prim, target) or ():
                if (default := _default(sketch)) is not None and count < SKETCHES.max_from_users:
                    apply_schedule(prim, default)
                    count += 1
                    sketch.name = f"user.{title}.{sketch.name}"
                    yield sketch
        except Exception as error:
            warnings.warn(
                f"sketch rule {title} failed for {prim.name}: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def _default(sketch: Any) -> Any:
    """The schedule of a sketch's first choices, None if none is legal."""
    if not isinstance(sketch, Sketch):
        raise LoopwrightTypeError(f"it gave {sketch!r:.60}, not an lw.Sketch")
    return next((sketch.schedule(choices) for choices in sketch.defaults), None)

"""Branches on values: ``if``, ternaries, ``and``, ``or``, ``not`` and chains of comparisons.

A condition that Python knows takes its branch. A traced one becomes a branch of the graph; a side
that raises an error of the user's becomes a check, behind which the other side goes on.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from ...ir import errors as errors
from ...ir.errors import LoopwrightError, LoopwrightIndexError, LoopwrightTypeError
from ...ir.library.checks import can_raise
from ..control import traced
from ..control.traced_branches import branch as traced_branch
from ..control.user import for_users
from ..core.emitting import emit
from ..core.integer_ranges import as_dim, note_choice
from ..core.proxy import Proxy
from ..core.runtime_checks import check
from ..core.spans import caret_lines, instruction, is_library, span_of
from . import variables as assigned
from .lists import check_room, truth, with_room
from .variables import NOTHING, UNBOUND, Names, Variables, carried_names, converted, note_alike


class _Sides:
    """The values that two branches gave, out of sight of those who look for side effects."""

    def __init__(self) -> None:
        self.values: list[Any] = []


def is_traced(test: Any) -> bool:
    """True for a condition whose truth is not known; an array with axes has none."""
    return type(test) is Proxy and (not test.ndim or bool(test))


@for_users
def branch(test: Any, then: Any, orelse: Any, names: Names, in_place: Names) -> None:
    """``if test: then() else: orelse()``, after which ``names`` are read; those ``in_place`` are
    assigned by ``+=`` and its like alone."""
    test = truth(test)
    if not is_traced(test):
        (then if test else orelse)()
        return
    branch_on(test, then, orelse, Variables(then, orelse), names, in_place)


def branch_on(
    test: Proxy, then: Any, orelse: Any, variables: Variables, names: Names, in_place: Names
) -> None:
    """``branch`` on a traced condition."""
    kept = carried_names(variables, names, in_place)
    before = variables.values(kept)
    unbound: set[str] = set()  # what one of the branches alone binds

    def run(body: Any) -> Any:
        with variables.kept():
            body()
            return variables.made(traced.running(), kept)

    while True:
        sides = _Sides()
        try:
            results = _either(test, lambda: run(then), lambda: run(orelse), sides)
            break
        except _RaisesError as error:
            _raise_if(test if error.first else negation(test), error)
            (orelse if error.first else then)()
            return
        except LoopwrightTypeError:
            lacking = {n for n, *v in zip(kept, *sides.values) if any(x is UNBOUND for x in v)}
            if not lacking:
                raise
            unbound |= lacking
            kept = [n for n in kept if n not in lacking]
            before = variables.values(kept)
    note_alike(traced.running(), kept, results, *sides.values)
    _note_choices(test, results, *sides.values)
    for name, first, result, *values in zip(kept, before, results, *sides.values):
        if not all(value is first for value in values):
            variables.set(name, result)
    traced.running().unbound |= unbound
    for name in unbound:
        variables.set(name, UNBOUND)


class _RaisesError(BaseException):
    """One side of a branch, the ``first`` or the other, raises an ``error`` of the user's."""

    def __init__(self, first: bool, error: Exception) -> None:
        super().__init__(error)
        self.first, self.error = first, error


def _is_raised(error: Exception) -> bool:
    """True for an error that a ``raise`` of the user's has raised, or an index that is known."""
    if isinstance(error, LoopwrightIndexError):
        return True
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or is_library(step.tb_frame) or isinstance(error, LoopwrightError):
        return False
    return instruction(step.tb_frame, step.tb_lasti) == "RAISE_VARARGS"


def _raise_if(test: Any, raises: _RaisesError) -> None:
    """Raises the error of a side of a branch in calls in which that is taken."""
    error, trace = raises.error, traced.running()
    steps = traceback.walk_tb(error.__traceback__)
    span = span_of([frame for frame, _ in steps if not is_library(frame)][-1])
    kind = IndexError if isinstance(error, LoopwrightIndexError) else type(error)
    if not can_raise(kind) or len(error.args) > 1:
        raise errors.UnsupportedError(
            f"values decide whether this {type(error).__name__} is raised, and compiled code "
            "raises Python's own exceptions, with one message",
            span=span,
            source=caret_lines(span),
            hint=f"raise ValueError({str(error)!r})",
        ) from error
    message = str(*error.args).replace("{", "{{").replace("}", "}}")
    with traced.under(trace, span):
        check(test, kind, message, trace=trace)


def _either(test: Proxy, then: Callable[[], Any], orelse: Callable[[], Any], sides: _Sides) -> Any:
    """Returns what one of two functions gives, in the graph. Numbers of two dtypes are promoted.
    ``sides`` are the two results."""
    trace = traced.running()
    notes = trace.passes.next("if")

    def run(body: Callable[[], Any]) -> Any:
        try:
            with traced.under(trace, None):
                value = body()
                if trace.region is not None:
                    value = trace.region.made(value)
            check_room(trace)
        except Exception as error:
            if not _is_raised(error):
                raise
            raise _RaisesError(body is then, error) from None
        if notes.sides:
            value = _filled(value, notes.sides[1 if body is then else 0])
        sides.values.append(value)
        return converted(value, notes.dtypes)

    with traced.ours(trace):
        condition = traced.condition_of(trace, "if", test)

        def attempt() -> Any:
            sides.values = []
            names = ("the if", "the else")
            return traced_branch("if", condition, lambda: run(then), lambda: run(orelse), names)

        while True:
            try:
                with trace.passes.over(notes):
                    return with_room(trace, attempt)
            except LoopwrightTypeError:
                if len(sides.values) != 2:
                    raise
                if not notes.sides and _lack_results(*sides.values):
                    notes.sides = sides.values
                    continue
                more = assigned.promoted(*sides.values)
                if not more.keys() - notes.dtypes.keys():
                    raise
                notes.dtypes |= more


def _lack_results(one: Any, other: Any) -> bool:
    """True if one side has the result of a loop where the other has none."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return any(map(_lack_results, one, other))
    return (one is NOTHING) != (other is NOTHING)


def _filled(value: Any, other: Any) -> Any:
    """Returns the value of a side, with values like those of the other where it has none."""
    if isinstance(value, tuple) and isinstance(other, tuple):
        return tuple(map(_filled, value, other))
    return assigned.like(other) if value is NOTHING is not other else value


@for_users
def returned(test: Any, then: Any, orelse: Any) -> Any:
    """Returns what ``then()`` or ``orelse()`` returns."""
    test = truth(test)
    if not is_traced(test):
        return (then if test else orelse)()
    variables = Variables(then, orelse)

    def run(body: Any) -> Any:
        with variables.kept():
            return body()

    sides = _Sides()
    try:
        result = _either(test, lambda: run(then), lambda: run(orelse), sides)
    except _RaisesError as error:
        _raise_if(test if error.first else negation(test), error)
        return (orelse if error.first else then)()
    note_alike(traced.running(), ("",), (result,), *((value,) for value in sides.values))
    _note_choices(test, (result,), *((value,) for value in sides.values))
    if len(sides.values) == 2 and type(result) is Proxy:
        one, other = sides.values
        for name, part, side in (("logical_and", one, other), ("logical_or", other, one)):
            if side is test and type(part) is Proxy:  # "and" and "or" give a side
                result.owner.values.definitions[result.atom] = name, (test.atom, part.atom), {}
    return result


def _note_choices(test: Proxy, results: Any, *sides: Any) -> None:
    """Notes the ends of integers that are those of two sides."""
    for result, *ends in zip(results, *sides):
        atoms = [e.atom if type(e) is Proxy else e for e in ends if type(e) in (int, Proxy)]
        if type(result) is Proxy and result.type == traced.COUNT and len(atoms) == 2:
            one, other = (as_dim(result.owner, atom) for atom in atoms)
            note_choice(result.owner, result.atom, test.atom, one, other)


@for_users
def negation(value: Any) -> Any:
    """``not value``."""
    value = truth(value)
    if not is_traced(value):
        return not value
    trace = traced.running()
    condition = traced.condition_of(trace, "not", value)
    return emit("logical_not", Proxy(condition, trace, bool))


def conjunction(first: Any, *rest: Callable[[], Any]) -> Any:
    """``first and rest[0]() and ...``."""
    if not rest:
        return first
    return returned(first, lambda: conjunction(rest[0](), *rest[1:]), lambda: first)


def disjunction(first: Any, *rest: Callable[[], Any]) -> Any:
    """``first or rest[0]() or ...``."""
    if not rest:
        return first
    return returned(first, lambda: first, lambda: disjunction(rest[0](), *rest[1:]))


def is_in(value: Any, items: Any) -> Any:
    """``value in items``."""
    if not isinstance(items, list | tuple | set) or Proxy not in map(type, (value, *items)):
        return value in items
    return disjunction(False, *(lambda e=e: e is value or e == value for e in items))


def compared(first: Any, *rest: Callable[..., Any]) -> Any:
    """A chain of comparisons: ``first < rest[1]() < ...``, where ``rest[0]`` is a ``<``."""
    second = rest[1]()
    holds = rest[0](first, second)
    if len(rest) == 2:
        return holds
    return returned(holds, lambda: compared(second, *rest[2:]), lambda: holds)

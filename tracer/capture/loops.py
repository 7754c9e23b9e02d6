"""Loops: over what Python knows they run as it does; traced and long ones are native.

Where the body of a long loop needs Python's values (a list's element, a side effect), the trace
begins anew and that loop is unrolled. Short loops are unrolled, unless they are many iterations
together with those around them.
"""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ir.errors import LoopwrightError, LoopwrightTypeError, UnsupportedError
from .. import control
from ..control import traced
from ..control.user import for_users
from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.runtime_checks import check
from ..core.trace import MOST_SHORT, Trace, TracedAnewError, active
from ..memory.scope import unclear_names
from ..memory.storage import Kind, Storage
from . import variables as live
from .branches import branch_on, conjunction, negation
from .lists import Growth, after_loop, iteration, most_of, set_most, truth, with_room
from .steps import Steps, steps_of
from .variables import NOTHING, UNBOUND, Names, Variables, arrays_of, carried_names, converted, like

MOST_KNOWN = 200
"""Iterations of a ``while`` on known values that are unrolled, if they compute with traced ones."""


@for_users
def for_loop(
    iterable: Any,
    body: Any,
    names: Names,
    in_place: Names,
    flag: str | None,
    assigned: Names,
    given: Names,
) -> None:
    """``for item in iterable: body(item)``. ``names`` are carried from one iteration to the next or
    read behind the loop, ``in_place`` those of them that ``+=`` alone assigns; ``flag`` is the
    variable that says that the loop has ended early; ``assigned`` are all that the body assigns,
    ``given`` those that each iteration binds for what is behind the loop."""
    variables = Variables(body)
    trace = active()
    steps = None
    if trace is not None and _key(trace) not in trace.asked:
        steps = steps_of(iterable)
        if steps is not None and (steps.is_long or _key(trace, "native") in trace.asked):
            _native(trace, steps, body, variables, names, in_place, flag, assigned, given)
            return
    with _unrolled(trace, steps):
        why = f"Python has its items, of a {type(iterable).__name__}"
        items, within = _Items(_counted(trace, iterable, why)), _within(iterable)

        def step() -> None:
            assert within is not None  # what looks for side effects sees it in this function
            items.take(body)

        while items.last:
            items.last = []
            stopped = variables.get(flag) if flag is not None else False
            if type(stopped) is Proxy:
                going = negation(stopped)
                branch_on(going, step, _nothing, variables, names, in_place)
            elif not stopped:
                step()


def _within(iterable: Any) -> list[Any]:
    """Returns what an iterator uses, but for the iterators: a generator may change it."""
    reached = [iterable]
    for each in reached:
        if hasattr(type(each), "__next__"):
            held = gc.get_referents(each)
            reached += [v for v in held if not any(v is other for other in reached)]
    return [each for each in reached if not hasattr(type(each), "__next__")]


class _Items:
    """Items that Python has, out of sight of those who look for side effects."""

    def __init__(self, items: Iterator[Any]) -> None:
        self.items, self.last = items, [None]

    def take(self, body: Any) -> None:
        """Runs a body on the next item. A branch that is traced twice has the same one."""
        self.last = self.last or [*itertools.islice(self.items, 1)]
        for item in self.last:
            body(item)


@contextmanager
def _unrolled(trace: Trace | None, steps: Steps | None) -> Iterator[None]:
    """A short loop that Python runs. If it and those around it have many iterations together, the
    trace begins anew and they are native."""
    if trace is None or steps is None:
        yield
        return
    trace.unrolled.append((_key(trace, "native"), steps.count))
    if math.prod(count for _, count in trace.unrolled) > MOST_SHORT:
        trace.wanted |= {key for key, _ in trace.unrolled}
        raise TracedAnewError
    try:
        yield
    finally:
        trace.unrolled.pop()


def _counted(trace: Trace | None, items: Iterable[Any], why: str) -> Iterator[Any]:
    """Yields the items of a loop that Python runs, and takes a note if they were many."""
    count, begun = 0, trace.emitted if trace is not None else 0
    for count, item in enumerate(items, 1):  # noqa: B007
        yield item
    if trace is not None and count > MOST_SHORT and trace.emitted > begun:
        trace.note_loop(f"unrolled, {count} iterations: {why}", first=True)


def _note_failure(trace: Trace, count: Any, error: Exception) -> None:
    """Says why a loop that could not be native is unrolled, if its iterations can be counted."""
    if type(count) is not int:
        return
    span = error.span if isinstance(error, LoopwrightError) else None
    where = f"line {span.line}: " if span is not None else ""
    what = error.message if isinstance(error, LoopwrightError) else f"{error}"
    trace.note_loop(f"unrolled, {count} iterations: {where}{what}")


def _nothing() -> None:
    """The branch of what does not happen."""


def _key(trace: Trace, how: str = "unrolling") -> str:
    """Returns what a trace calls the loop at the user's place, if it is unrolled, or native."""
    return f"{how} {trace.here()}"


def _native(
    trace: Any,
    steps: Steps,
    body: Any,
    variables: Variables,
    names: Names,
    in_place: Names,
    flag: str | None,
    assigned: Names,
    given: Names,
) -> None:
    """Traces a loop over steps."""
    is_known = type(steps.count) is int
    carried = carried_names(variables, names, in_place)
    count, first = steps.count, 0
    unbound = [n for n in carried if variables.get(n) is UNBOUND]
    if not is_known:  # the loop binds them, if it has an iteration
        unbound = [n for n in unbound if n in given]
        for name in unbound:
            variables.set(name, NOTHING)
    if is_known and unbound:
        body(steps.item(0))  # the first iteration binds what is unbound before it
        if flag is not None and type(variables.get(flag)) is not Proxy and variables.get(flag):
            return
        count, first = count - 1, 1
    carry = _Carry(trace, variables, carried, count if is_known else None)

    def run(number: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        is_item = flag is not None and steps.ends
        item = number if is_item else steps.item(number + first if first else number)
        return carry.step(values, lambda: body(item))

    def loop(begins: tuple[Any, ...]) -> Any:
        if flag is None:
            return control.fori_loop(0, count, run, begins)
        at = carry.names.index(flag)
        begin, end = steps.ends or (0, count)  # counted as the user does: of indices more is known
        return control.while_loop(
            lambda now: np.logical_and(now[0] < end, negation(now[1][at])),
            lambda now: (now[0] + 1, run(*now)),
            (begin + first if steps.ends else begin, begins),
        )[1]

    try:
        last = carry.settled(loop)
    except Exception as error:
        if not trace.lacks and not trace.needs:
            trace.wanted.add(_key(trace))
            _note_failure(trace, steps.count, error)
        raise
    if unbound and not is_known:
        text = f"{', '.join(unbound)}: no value without an iteration of the loop that gives one"
        check(lift(steps.count) < 1, UnboundLocalError, text)
    trace.note_loop(f"native, {steps.count if is_known else 'a traced number of'} iterations")
    after_loop(trace, carry.growth, count if is_known and flag is None else None)
    happens = is_known and count > 0 and flag is None
    carry.leave(last, happens, [n for n in assigned if n not in names], _key(trace))


class _ReboundError(BaseException):
    """A body gives variables, of ``names``, another array than they have before it."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.names = sorted(names)


class _Carry:
    """The variables that a traced loop carries: those of ``names`` that have a value before it, and
    are not the names of the ``same`` array all the time."""

    def __init__(
        self, trace: Trace, variables: Variables, names: Names, count: int | None = None
    ) -> None:
        self.trace, self.variables, self.count = trace, variables, count
        self.notes = trace.passes.next("carry")
        self.same: dict[str, Proxy] = {}
        for name in names:
            value = variables.get(name)
            if type(value) is Proxy and value.ndim and name not in self.notes.rebound:
                self.same[name] = value
        bound = (n for n in names if variables.get(n) is not UNBOUND)
        self.names = [n for n in bound if n not in self.same]
        self.initial = variables.made(trace, self.names)
        self.begins: tuple[Any, ...] = ()  # the values with which the body begins
        self.ends: tuple[Any, ...] = ()  # and those with which it ends
        self.dtypes: list[dict[int, Any]] = []  # what their numbers are promoted to
        self.growth: Growth = {}  # of lists, in an iteration
        self.most = most_of(trace)

    def step(self, values: tuple[Any, ...], body: Callable[[], None]) -> tuple[Any, ...]:
        """Returns the next values, after ``body()``."""
        around, self.trace.unrolled = self.trace.unrolled, [("", MOST_SHORT)]
        try:
            set_most(self.trace, self.most)
            with self.bound_to(values), iteration(self.trace, self.count) as self.growth:
                self.begins = values
                live.note_listed(self.trace, values, self.initial)
                if not self.notes.moves:
                    live.note_alike(self.trace, self.names, values, self.initial)
                versions = [a.storage.version for a in arrays_of(values)]
                body()
                rebound = {n for n, v in self.same.items() if self.variables.get(n) is not v}
                if rebound:
                    raise _ReboundError(rebound)
                self.ends = self.variables.made(self.trace, self.names)
                if self.notes.moves and not self._keep_apart():
                    raise unclear_names()
                self._check_elements(versions)
        finally:
            self.trace.unrolled = around
        return tuple(map(converted, self.ends, self.dtypes))

    @contextmanager
    def bound_to(self, values: tuple[Any, ...]) -> Iterator[None]:
        """The variables have ``values``; their arrays of before the loop may have moved there."""
        moved = _storages(self.initial) if self.notes.moves else []
        with self.variables.kept():
            self.variables.assign(self.names, values)
            try:
                for storage in moved:
                    storage.moved = unclear_names
                yield
            finally:
                for storage in moved:
                    storage.moved = None

    def _can_move(self) -> bool:
        """True if the arrays of before the loop are different ones, and made where it stands: it
        is then enough that nobody looks at them any more."""
        storages = _storages(self.initial)
        are_fresh = all(s.kind is Kind.FRESH and s.scope is self.trace.scope for s in storages)
        return are_fresh and len({*storages}) == len(storages)

    def _keep_apart(self) -> bool:
        """True if an iteration's last arrays are different ones: its first, or those it made."""
        begins, ends = _storages(self.begins), _storages(self.ends)
        are_own = all(s in begins or s.scope is self.trace.scope for s in ends)
        return are_own and len({*ends}) == len(ends)

    def _check_elements(self, versions: Sequence[int]) -> None:
        """Refuses a body that writes to an array which an iteration before has put into a list."""
        keys = [k for a in arrays_of(self.ends) if (k := self.trace.listed.get(a.storage))]
        if keys and versions != [a.storage.version for a in arrays_of(self.begins)]:
            self.trace.wanted.add(keys[0])
            raise TracedAnewError

    def settled(self, loop: Callable[[Any], Any]) -> Any:
        """Returns the last values of a loop, whose numbers begin in the dtypes it settles at."""
        notes = self.notes
        while True:
            self.ends = ()
            self.dtypes = [
                notes.dtypes.get(n, {}) if value is not NOTHING else {}
                for n, value in enumerate(self.initial)
            ]
            try:
                with self.trace.passes.over(notes):
                    begins = tuple(map(converted, self.initial, self.dtypes))
                    return with_room(self.trace, lambda b=begins: self._traced(loop, b))
            except _ReboundError as error:
                notes.rebound += error.names
                self.names += error.names
                self.initial += tuple(self.same.pop(name) for name in error.names)
            except UnsupportedError:
                if notes.moves or not self._can_move():
                    raise
                notes.moves = True
            except LoopwrightTypeError as error:
                values = [*zip(self.initial, self.ends)]
                meetings = {
                    n: self.dtypes[n] | live.promoted(*both) for n, both in enumerate(values)
                }
                more = {n: wider for n, wider in meetings.items() if wider}
                if any(first is NOTHING is not last for first, last in values):
                    self.initial = tuple(like(y) if x is NOTHING else x for x, y in values)
                elif more == notes.dtypes:
                    for n, name in enumerate(self.names):
                        error.message = error.message.replace(f"the carry[{n}]", name)
                    raise
                notes.dtypes |= more

    def _traced(self, loop: Callable[[Any], Any], begins: Any) -> Any:
        self.most = most_of(self.trace)
        return loop(begins)

    def leave(self, last: Any, happens: bool, temporary: Names, key: str = "") -> None:
        """Gives the variables their ``last`` values, and notes which arrays these may be;
        ``happens``: the body has run. Its ``temporary`` variables have none. ``key`` is
        what the trace calls the loop if it can be unrolled instead."""
        ends = _storages(self.ends)
        live.note_listed(self.trace, last, self.ends)

        def moved() -> Exception:
            self.trace.wanted |= {key} if key else set()
            return unclear_names()

        if self.notes.moves:
            for storage in _storages(self.initial):
                storage.moved = moved
        else:
            is_new = happens and not live.memory_of(self.ends) & live.memory_of(self.begins)
            kept = () if is_new else self.initial
            twice = last if len({*ends}) < len(ends) else ()  # one array with two names
            live.note_alike(self.trace, self.names, last, kept, self.ends, twice)
        self.variables.assign(self.names, last)
        for name in set(temporary).difference(self.names):
            self.variables.set(name, UNBOUND)


def _storages(values: Any) -> list[Storage]:
    return [array.storage for array in arrays_of(values)]


@for_users
def while_loop(
    test: Any, body: Any, names: Names, in_place: Names, flag: str | None, assigned: Names
) -> None:
    """``while test(): body()``; see ``for_loop``."""
    variables = Variables(test, body)
    carried = carried_names(variables, names, in_place)
    left = _in_python(test, body, variables, carried, flag)
    if not left:
        return
    carry = _Carry(traced.running(), variables, carried)

    def runs(values: tuple[Any, ...]) -> Any:
        with carry.bound_to(values):
            if flag is None:
                return truth(test())
            return conjunction(negation(variables.get(flag)), lambda: truth(test()))

    def run(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return carry.step(values, body)

    try:
        last = carry.settled(lambda begins: control.while_loop(runs, run, begins))
    except Exception:
        if left == "known" and not carry.trace.lacks and not carry.trace.needs:
            carry.trace.wanted.add(_key(carry.trace))
        raise
    after_loop(carry.trace, carry.growth, None)
    carry.trace.note_loop("native")
    carry.leave(last, False, [n for n in assigned if n not in names])


def _in_python(test: Any, body: Any, variables: Variables, carried: Names, flag: str | None) -> str:
    """Runs iterations of a ``while`` whose condition Python knows. Returns "" if these are all,
    else whether the condition of the rest is "known" or "traced"."""
    trace = active()
    begun = trace.emitted if trace is not None else 0
    may_unroll = trace is None or _key(trace) in trace.asked
    is_native = trace is not None and not may_unroll and _key(trace, "native") in trace.asked
    for count in itertools.count():
        stopped = variables.get(flag) if flag is not None else False
        if type(stopped) is not Proxy and stopped:
            return ""
        going = truth(test())
        if type(going) is Proxy or type(stopped) is Proxy:
            return "traced"
        emits = trace if trace is not None and trace.emitted > begun else None
        if not going:
            if emits and count > MOST_SHORT:
                emits.note_loop(f"unrolled, {count} iterations: Python knows its condition")
            return ""
        if emits and count >= MOST_KNOWN:
            return "known"  # it may be endless in a branch that is never taken
        if emits and count >= MOST_SHORT and not may_unroll:
            emits.wanted.add(_key(emits, "native"))
            raise TracedAnewError
        if is_native and all(variables.get(name) is not UNBOUND for name in carried):
            return "known"  # else the first iteration binds them
        body()
    return ""

"""The library that captured control flow calls: values decide if Python runs it, or the trace.

A condition that Python knows takes its branch, and a loop over what Python knows runs as it does;
a traced condition, a range with a traced bound and a long range become control flow of the graph.
Where the body of a long range needs Python's values (a list's element, a side effect), the trace
begins anew and that loop is unrolled.

The functions share the user's variables as cells. A body runs on values in these cells; afterwards
they hold what they held, so that nothing that is traced is left in them.
"""

from __future__ import annotations

import builtins
import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

import numpy as np

from ...ir.errors import LoopwrightError, LoopwrightTypeError
from .. import control
from ..control import traced
from ..control.leaves import LeafType, joined, leaf_type
from ..control.traced_branches import branch as traced_branch
from ..control.user import for_users
from ..core.emitting import emit, lift
from ..core.proxy import Proxy
from ..core.pytree import flatten, unflatten
from ..core.snapshot import is_installed, package_of
from ..core.symbolic_sizes import Size
from ..core.trace import Trace, active
from ..memory.storage import Storage
from . import functions

Names = Sequence[str]

MOST_SHORT = 16
"""Iterations of a range that run as Python does, so that each sees the index as an int."""

MOST_KNOWN = 200
"""Iterations of a ``while`` on known values that are unrolled, if they compute with traced ones."""


class _Unbound:
    """Stands for the value of a variable that has none."""

    def __repr__(self) -> str:
        return "no value"


UNBOUND = _Unbound()


# -- variables -----------------------------------------------------------------------------------


class _Variables:
    """The cells of some functions, by name."""

    def __init__(self, *functions: types.FunctionType) -> None:
        self.cells: dict[str, types.CellType] = {}
        for function in functions:
            self.cells.update(zip(function.__code__.co_freevars, function.__closure__ or ()))

    def get(self, name: str) -> Any:
        cell = self.cells.get(name)
        try:
            return UNBOUND if cell is None else cell.cell_contents
        except ValueError:
            return UNBOUND

    def set(self, name: str, value: Any) -> None:
        if value is not UNBOUND:
            self.cells[name].cell_contents = value
        elif self.get(name) is not UNBOUND:
            del self.cells[name].cell_contents

    def values(self, names: Names) -> tuple[Any, ...]:
        return tuple(map(self.get, names))

    def assign(self, names: Names, values: Sequence[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            self.set(name, value)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """All variables are afterwards what they were."""
        names = [*self.cells]
        before = self.values(names)
        try:
            yield
        finally:
            self.assign(names, before)


class _Sides:
    """The values that two branches gave, out of sight of those who look for side effects."""

    def __init__(self) -> None:
        self.values: list[Any] = []


def _is_array(value: Any) -> bool:
    """True for an array, which ``+=`` changes. What has no axes is taken for a scalar."""
    if type(value) is not Proxy:
        return isinstance(value, np.ndarray)
    if not value.ndim:
        value.owner.memory.touch(value.storage)
    return bool(value.ndim)


def _is_traced(test: Any) -> bool:
    """True for a condition whose truth is not known; an array with axes has none."""
    return type(test) is Proxy and (not test.ndim or bool(test))


# -- branches ------------------------------------------------------------------------------------


@for_users
def branch(test: Any, then: Any, orelse: Any, names: Names, in_place: Names) -> None:
    """``if test: then() else: orelse()``, after which ``names`` are read; those ``in_place`` are
    assigned by ``+=`` and its like alone."""
    if not _is_traced(test):
        (then if test else orelse)()
        return
    _traced_branch(test, then, orelse, _Variables(then, orelse), names, in_place)


def _traced_branch(
    test: Proxy, then: Any, orelse: Any, variables: _Variables, names: Names, in_place: Names
) -> None:
    """``branch`` on a traced condition."""
    kept = _carried(variables, names, in_place)
    before = variables.values(kept)
    unbound: set[str] = set()  # what one of the branches alone binds

    def run(body: Any) -> Any:
        with variables.kept():
            body()
            return variables.values(kept)

    while True:
        sides = _Sides()
        try:
            results = _either(test, lambda: run(then), lambda: run(orelse), sides)
            break
        except LoopwrightTypeError:
            lacking = {n for n, *v in zip(kept, *sides.values) if any(x is UNBOUND for x in v)}
            if not lacking:
                raise
            unbound |= lacking
            kept = [n for n in kept if n not in lacking]
            before = variables.values(kept)
    _note_alike(traced.running(), results, sides.values)
    for name, first, result, *values in zip(kept, before, results, *sides.values):
        if not all(value is first for value in values):
            variables.set(name, result)
    for name in unbound:
        variables.set(name, UNBOUND)


def _either(test: Proxy, then: Callable[[], Any], orelse: Callable[[], Any], sides: _Sides) -> Any:
    """Returns what one of two functions gives, in the graph. Numbers of two dtypes are promoted.
    ``sides`` are the two results."""
    trace = traced.running()
    dtypes: dict[int, Any] = {}

    def run(body: Callable[[], Any]) -> Any:
        with traced.under(trace, None):
            value = body()
        sides.values.append(value)
        return _converted(value, dtypes)

    with traced.ours(trace):
        condition = traced.condition_of(trace, "if", test)
        while True:
            sides.values = []
            try:
                names = ("the if", "the else")
                return traced_branch("if", condition, lambda: run(then), lambda: run(orelse), names)
            except LoopwrightTypeError:
                more = _promoted(*sides.values) if len(sides.values) == 2 else {}
                if not more.keys() - dtypes.keys():
                    raise
                dtypes |= more


def _promoted(one: Any, other: Any) -> dict[int, Any]:
    """Returns the dtypes of numbers that two trees have in different ones, by the leaf."""
    first, second = flatten(one)[0], flatten(other)[0]
    dtypes: dict[int, Any] = {}
    for number, (x, y) in enumerate(zip(map(leaf_type, first), map(leaf_type, second))):
        if not isinstance(x, LeafType) or not isinstance(y, LeafType) or x.shape or y.shape:
            continue
        if joined(x, y) is None:
            dtypes[number] = np.result_type(x.dtype.numpy, y.dtype.numpy)
    return dtypes


def _converted(tree: Any, dtypes: Mapping[int, Any]) -> Any:
    """Returns a tree in which some numbers have other dtypes."""
    if not dtypes:
        return tree
    leaves, structure = flatten(tree)
    for number, dtype in dtypes.items():
        leaves[number] = lift(leaves[number]).astype(dtype)
    return unflatten(structure, leaves)


def _arrays(values: Any) -> list[Proxy]:
    """Returns the traced arrays among the leaves of values."""
    return [v for v in flatten(values)[0] if type(v) is Proxy and not v.is_scalar]


def _from_outside(values: Any) -> set[Storage]:
    """Returns the memory of arrays that were not made in a scope that has ended."""
    storages = {array.storage for array in _arrays(values)}
    return {s for s in storages if s.scope is None or not s.scope.ended}


def _note_alike(trace: Trace, results: Any, values: Any) -> None:
    """Notes that ``results`` may be the arrays among ``values`` that were there before."""
    others = frozenset(_from_outside(values))
    if others:
        trace.memory.alike += [(ref(array), others) for array in _arrays(results)]


def _carried(variables: _Variables, names: Names, in_place: Names) -> list[str]:
    """Returns the names that get new values; an array to which ``+=`` adds is changed itself."""
    return [n for n in names if not (n in in_place and _is_array(variables.get(n)))]


@for_users
def returned(test: Any, then: Any, orelse: Any) -> Any:
    """Returns what ``then()`` or ``orelse()`` returns, after which nothing else is read."""
    if not _is_traced(test):
        return (then if test else orelse)()
    variables = _Variables(then, orelse)

    def run(body: Any) -> Any:
        with variables.kept():
            return body()

    return _either(test, lambda: run(then), lambda: run(orelse), _Sides())


def chosen(test: Any, then: Any, orelse: Any) -> Any:
    """``then() if test else orelse()``."""
    return returned(test, then, orelse)


# -- truths --------------------------------------------------------------------------------------


def conjunction(first: Any, *rest: Callable[[], Any]) -> Any:
    """``first and rest[0]() and ...``."""
    if not rest:
        return first
    return chosen(first, lambda: conjunction(rest[0](), *rest[1:]), lambda: first)


def disjunction(first: Any, *rest: Callable[[], Any]) -> Any:
    """``first or rest[0]() or ...``."""
    if not rest:
        return first
    return chosen(first, lambda: first, lambda: disjunction(rest[0](), *rest[1:]))


@for_users
def negation(value: Any) -> Any:
    """``not value``."""
    if not _is_traced(value):
        return not value
    trace = traced.running()
    condition = traced.condition_of(trace, "not", value)
    return emit("logical_not", Proxy(condition, trace, bool))


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "in_": lambda a, b: a in b,
    "not_in": lambda a, b: a not in b,
}


def compared(signs: Names, first: Any, *rest: Callable[[], Any]) -> Any:
    """A chain of comparisons: ``first < rest[0]() < ...``."""
    second = rest[0]()
    holds = (_OPERATORS.get(signs[0]) or getattr(operator, signs[0]))(first, second)
    if len(rest) == 1:
        return holds
    return chosen(holds, lambda: compared(signs[1:], second, *rest[1:]), lambda: holds)


# -- loops ---------------------------------------------------------------------------------------


@for_users
def for_loop(
    iterable: Any,
    body: Any,
    names: Names,
    in_place: Names,
    flag: str | None,
    assigned: Names,
) -> None:
    """``for item in iterable: body(item)``. ``names`` are carried from one iteration to the next or
    read behind the loop, ``in_place`` those of them that ``+=`` alone assigns; ``flag`` is the
    variable that says that the loop has ended early; ``assigned`` are all that the body assigns."""
    variables = _Variables(body)
    trace = active()
    is_long = type(iterable) is range and len(iterable) > MOST_SHORT
    is_native = is_long or isinstance(iterable, _Range)
    if trace is not None and is_native and _key(body) not in trace.asked:
        _native(trace, iterable, body, variables, names, in_place, flag, assigned)
        return
    for item in iterable:
        stopped = variables.get(flag) if flag is not None else False
        if type(stopped) is Proxy:
            going = negation(stopped)
            _traced_branch(going, lambda i=item: body(i), _nothing, variables, names, in_place)
        elif stopped:
            break
        else:
            body(item)


def _nothing() -> None:
    """The branch of what does not happen."""


class _Range:
    """``range`` with traced bounds. Whatever but a loop uses it needs their values."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = start, stop, step

    @property
    def of_python(self) -> range:
        return range(self.start, self.stop, self.step)

    def __iter__(self) -> Iterator[int]:
        return iter(self.of_python)

    def __len__(self) -> int:
        return len(self.of_python)

    def __getitem__(self, key: Any) -> Any:
        return self.of_python[key]

    def __contains__(self, value: object) -> bool:
        return value in self.of_python


def _key(body: types.FunctionType) -> str:
    """Returns what a trace calls a loop that has to be unrolled."""
    return f"unrolling {body.__code__.co_filename}:{body.__code__.co_firstlineno}"


def _native(
    trace: Any,
    steps: Any,
    body: Any,
    variables: _Variables,
    names: Names,
    in_place: Names,
    flag: str | None,
    assigned: Names,
) -> None:
    """Traces a loop over a range."""
    is_known = type(steps) is range
    carried = _carried(variables, names, in_place)
    start, stop, step = steps.start, steps.stop, steps.step
    if is_known and any(v is UNBOUND for v in variables.values(carried)):
        body(start)  # the first iteration binds what is unbound before it
        if flag is not None and type(variables.get(flag)) is not Proxy and variables.get(flag):
            return
        start += step
    carry = _Carry(trace, variables, carried)
    count = _count(start, stop, step)

    def run(number: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        item = start + number * step if step != 1 or not _is_zero(start) else number
        return carry.step(values, lambda: body(item))

    def loop(begins: tuple[Any, ...]) -> Any:
        if flag is None:
            return control.fori_loop(0, count, run, begins)
        at = carry.names.index(flag)
        return control.while_loop(
            lambda now: conjunction(now[0] < count, lambda: negation(now[1][at])),
            lambda now: (now[0] + 1, run(*now)),
            (0, begins),
        )[1]

    try:
        last = carry.settled(loop)
    except Exception:
        if not trace.lacks:
            trace.wanted.add(_key(body))
        raise
    happens = is_known and count > 0 and flag is None
    carry.leave(last, happens, [n for n in assigned if n not in names])


class _Carry:
    """The variables that a traced loop carries: those of ``names`` that have a value before it."""

    def __init__(self, trace: Trace, variables: _Variables, names: Names) -> None:
        self.trace, self.variables = trace, variables
        self.names = [n for n in names if variables.get(n) is not UNBOUND]
        self.initial = variables.values(self.names)
        self.begins: tuple[Any, ...] = ()  # the values with which the body begins
        self.ends: tuple[Any, ...] = ()  # and those with which it ends

    def step(self, values: tuple[Any, ...], body: Callable[[], None]) -> tuple[Any, ...]:
        """Returns the next values, after ``body()``."""
        with self.variables.kept():
            self.variables.assign(self.names, values)
            self.begins = values
            _note_alike(self.trace, values, self.initial)
            body()
            self.ends = self.variables.values(self.names)
        return self.ends

    def settled(self, loop: Callable[[Any], Any]) -> Any:
        """Returns the last values of a loop, whose numbers begin in the dtypes it settles at."""
        dtypes: dict[int, Any] = {}
        while True:
            self.ends = ()
            try:
                return loop(_converted(self.initial, dtypes))
            except LoopwrightTypeError:
                more = _promoted(self.initial, self.ends) if self.ends else {}
                if not more.items() - dtypes.items():
                    raise
                dtypes |= more

    def leave(self, last: Any, happens: bool, temporary: Names) -> None:
        """Gives the variables their ``last`` values, and notes which arrays these may be;
        ``happens``: the body has run. Its ``temporary`` variables have none."""
        ends = [array.storage for array in _arrays(self.ends)]
        begins = {array.storage for array in _arrays(self.begins)}
        kept = () if happens and begins.isdisjoint(ends) else self.initial
        twice = last if len({*ends}) < len(ends) else ()  # one array with two names
        _note_alike(self.trace, last, (kept, self.ends, twice))
        self.variables.assign(self.names, last)
        for name in set(temporary).difference(self.names):
            self.variables.set(name, UNBOUND)


def _is_zero(value: Any) -> bool:
    return type(value) is not Proxy and value == 0


def _count(start: Any, stop: Any, step: Any) -> Any:
    """Returns the number of iterations of a range, at least 0."""
    if all(type(v) is int for v in (start, stop, step)):
        return len(range(start, stop, step))
    if type(step) is not int or not step:
        raise LoopwrightError("the step of a range is a Python int other than 0")
    distance = stop - start if step > 0 else start - stop
    size = abs(step)
    return distance if size == 1 else (distance + (size - 1)) // size


@for_users
def while_loop(
    test: Any,
    body: Any,
    names: Names,
    in_place: Names,
    flag: str | None,
    assigned: Names,
) -> None:
    """``while test(): body()``; see ``for_loop``."""
    variables = _Variables(test, body)
    outer = active()
    begun = outer.emitted if outer is not None else 0
    for count in itertools.count():
        stopped = variables.get(flag) if flag is not None else False
        if type(stopped) is not Proxy and stopped:
            return
        going = test()
        if type(going) is Proxy or type(stopped) is Proxy:
            break
        if not going:
            return
        if count >= MOST_KNOWN and outer is not None and outer.emitted > begun:
            break  # it may be endless in a branch that is never taken
        body()
    carry = _Carry(traced.running(), variables, _carried(variables, names, in_place))

    def runs(values: tuple[Any, ...]) -> Any:
        with variables.kept():
            variables.assign(carry.names, values)
            if flag is None:
                return test()
            return conjunction(negation(variables.get(flag)), test)

    def run(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return carry.step(values, body)

    last = carry.settled(lambda begins: control.while_loop(runs, run, begins))
    carry.leave(last, False, [n for n in assigned if n not in names])


# -- calls ---------------------------------------------------------------------------------------


def captured(function: Any) -> Any:
    """Returns the function with its control flow captured; the same object if it has no source
    that can be rewritten.

    >>> captured(len) is len
    True
    """
    return functions.captured(function, sys.modules[__name__])


def callee(function: Any) -> Any:
    """Returns what is to be called instead of ``function``: its captured form, if it is the
    user's."""
    if isinstance(function, types.FunctionType | types.MethodType):
        return function if is_installed(package_of(function.__module__)) else captured(function)
    try:
        return _BUILTINS.get(function, function)
    except TypeError:  # it has no hash
        return function


def _range(*bounds: Any) -> Any:
    bounds = tuple(b.number() if type(b) is Size else b for b in bounds)
    if any(type(b) is Proxy for b in bounds):
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        return _Range(start, stop, step)
    return range(*bounds)


def _extreme(name: str) -> Callable[..., Any]:
    plain = getattr(builtins, name)

    def extreme(*values: Any, **options: Any) -> Any:
        listed = len(values) == 1 and isinstance(values[0], list | tuple)
        each: list[Any] = [*values[0]] if listed else [*values]
        if not options and len(each) > 1 and any(type(v) is Proxy for v in each):
            best, *others = each
            for value in others:
                better = value > best if name == "max" else value < best
                best = chosen(better, lambda v=value: v, lambda b=best: b)
            return best
        return plain(*values, **options)

    return extreme


def _int(*values: Any) -> Any:
    if len(values) == 1 and type(values[0]) is Proxy and not values[0].shape:
        number = lift(np.trunc(values[0]) if values[0].dtype.kind == "f" else values[0])
        return Proxy(lift(number.astype(np.int64)).atom, number.owner, int)
    return int(*values)


def _float(*values: Any) -> Any:
    if len(values) == 1 and type(values[0]) is Proxy and not values[0].shape:
        number = lift(values[0].astype(np.float64))
        return Proxy(number.atom, number.owner, float)
    return float(*values)


def _bool(value: Any = False, /) -> Any:
    return negation(negation(value))


_BUILTINS: dict[Any, Any] = {
    range: _range,
    max: _extreme("max"),
    min: _extreme("min"),
    int: _int,
    float: _float,
    bool: _bool,
}

"""One run of a Python function on traced arrays: its emitted operators and captured arrays."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.dims import Dim
from ...ir.dtype import DType, dtype_of, widens_many
from ...ir.errors import LoopwrightError, LoopwrightTypeError
from ...ir.graph.builder import Builder
from ...ir.graph.nodes import Atom, Constant, Function, Module, Var
from ...ir.graph.operator import OPERATORS, Pattern
from ...ir.graph.types import TensorType, Type
from ...ir.loop.prim import PrimFunc
from ...ir.ops import get
from ...ir.span import Span
from ..memory.regions import Update
from ..memory.scope import Scope, Storage
from ..memory.storage import Memory
from ..memory.value_numbers import ValueNumbers
from .captured_values import Borrowed
from .dispatch import METHODS
from .int_arguments import Needs, Numbers
from .spans import Decoded, iterations_around, span_of, user_frame

if TYPE_CHECKING:
    from ...ir.schedule.steps import Schedule
    from .passes import Passes
    from .snapshot import Snapshot


MOST_SHORT = 16
"""Iterations of a loop that Python runs, so that each sees its item as Python does."""

OFTEN = "often "
"""Begins what a run asks for of a function that calls itself many times while Python runs it."""

FEW_OPERATORS = 256
"""Operators of a trace after which it looks, and whenever they have doubled, whether it unrolls a
long Python loop: then it begins anew, and captures it."""

FEW_APART = 32
"""Operators of which one may be no part of a chain that becomes one kernel."""

MANY_OPERATORS = 3_000
"""Operators that are taken for an unrolled loop wherever they stand."""


class TracedAnewError(BaseException):
    """Ends a run of a function that is traced again. No ``except`` of the user's catches it."""


class Trace:
    """The scopes of one function, and what messages need to know about its values.

    ``main`` is the function's own scope, ``scope`` the innermost one at the moment; ``functions``
    are those that it calls.
    ``origins`` says in words where an atom comes from ("argument x of layer"); ``span`` is the
    user's place while one of our functions runs, and None while the user's own code does. With
    ``borrowed``, big arrays that are captured are read in place. ``names`` are those of arrays from
    outside, where no variables hold them (a model's); None: they are looked up. ``outside`` is
    what the function could reach before it ran.
    """

    def __init__(
        self,
        name: str,
        check_index: bool = False,
        borrowed: Borrowed | None = None,
        outside: Snapshot | None = None,
    ) -> None:
        self.name = name
        self.outside = outside
        self.borrowed = borrowed
        self._homes: dict[Var, Scope] = {}  # the scope of each variable that is not one of main's
        self._versions = itertools.count(1)
        self.main = self.scope = Scope(None, self._homes, function=False)
        self.functions: dict[str, Function | PrimFunc] = {}
        self.schedules: dict[str, Schedule] = {}  # of the PrimFuncs among them
        self.callees: dict[Hashable, Any] = {}  # of lw.function, by kind of arguments
        self.calling: list[Any] = []  # those that are being traced
        self._function_names = {"main"}
        self.origins: dict[Atom, tuple[str, str]] = {}  # name, and the sentence
        self.span: Span | None = None
        self.errstate = np.geterr()  # around the call of the function
        self.memory = Memory()
        self.updates: dict[Atom, Update] = {}  # the values that writes of regions gave
        self.values = ValueNumbers()
        self.numbers = Numbers()
        self.needs = Needs(self.values.definitions)
        self.sizes: dict[str, int] = {}  # the arguments' symbolic sizes: values that decide guards
        self.indexed_sizes = False  # Python or NumPy needed the value of one
        self.check_index = check_index
        self.checks: list[tuple[Any, ...]] = []  # error, message, place and source of each
        self.checked: set[Hashable] = set()  # scopes, and the conditions that were checked there
        self.data_sizes: dict[str, Atom] = {}  # that values decide: the scalars they come from
        self.known_sizes: dict[Hashable, Dim] = {}  # by scope, value and most
        self.receives = False  # one of NumPy's arrays was to take a traced argument
        self.writes_numpys = False  # one was to be written, with traced values or indices
        self.converts = False  # one of NumPy's functions asked for the values of a traced array
        self.emitted = 0  # operators so far
        self._next_look = FEW_OPERATORS
        self.may_capture = False  # it may begin anew, with Python's control flow rewritten
        # "capturing" it, and the loops that have to be unrolled, or native.
        self.wanted: set[str] = set()
        self.captured_calls: list[tuple[CodeType, Scope]] = []  # that are being traced
        self.failed: dict[str, Exception] = {}  # why functions were no functions in earlier runs
        self.own_calls: Counter[CodeType] = (
            Counter()
        )  # of those, calls of itself that ran in Python
        self.iterations: list[int | None] = []  # of the loops that are being traced, at most
        self.region: Any = None  # where values of data types are
        self.made: dict[type, Any] = {}  # those that runs so far have made: types of their fields
        self.lists: list[Any] = []  # of the user's, whose elements the graph has
        self.unbound: set[str] = set()  # variables that one side of a branch alone has bound
        self.listed: dict[Storage, str] = {}  # arrays in such lists, and what keeps them Python's
        self.loops: dict[tuple[str, int], str] = {}  # what became of the user's, by file and line
        self.unrolled: list[tuple[str, int]] = []  # captured loops that run now, their iterations
        self.asked: frozenset[str] = frozenset()  # of what it lacks, by earlier runs
        self.refused: LoopwrightError | None = None  # what the user's code may have caught
        self.outermost: FrameType | None = None  # that traces what it calls
        self.names: dict[int, tuple[np.ndarray[Any, Any], str]] | None = None
        self._captured: dict[int, tuple[np.ndarray[Any, Any], Constant]] = {}
        self._cast: dict[tuple[Constant, DType], Constant] = {}
        self._names: set[str] = set()
        self._positions: dict[int, Decoded] = {}

    @property
    def lacks(self) -> frozenset[str]:
        """Returns what this run needs of NumPy's own arrays and functions in another one: to be
        indexed by traced arrays, to take traced values, to convert traced arrays, to take sizes."""
        needed = {
            "receiving": self.receives,
            "creating": self.writes_numpys,
            "capturing": self.writes_numpys and "creating" in self.asked and self.may_capture,
            "converting": self.converts,
            "sizing": self.indexed_sizes,
        }
        named = {what for what, is_needed in needed.items() if is_needed}
        return frozenset(named | self.wanted) - self.asked

    @property
    def reconsidered(self) -> frozenset[str]:
        """Returns what another run tries after an error: Python has the lists, and runs functions
        that call themselves so often that compiled code should."""
        places = (what[len(OFTEN) :] for what in self.asked if what.startswith(OFTEN))
        tries = {f"inline {place}" for place in places} | {each.key for each in self.lists}
        return frozenset(tries) - self.asked

    def want_captured(self) -> None:
        """Asks for another run, in which Python's control flow is captured."""
        if self.may_capture:
            self.wanted.add("capturing")

    @functools.cached_property
    def passes(self) -> Passes:
        """The notes of passes over bodies."""
        from .passes import Passes  # loaded when it is first needed

        return Passes()

    @property
    def builder(self) -> Builder:
        """The builder of the innermost scope."""
        return self.scope.builder

    @contextmanager
    def block(self, function: bool = False) -> Generator[Scope, None, None]:
        """A scope for the body, in which the user's code runs. What it writes is undone at the end;
        ``scope.finals`` has it."""
        outer, span = self.scope, self.span
        scope = Scope(outer, self._homes, function)
        self.scope, self.span = scope, None
        self.numbers.nested += 1
        try:
            yield scope
        finally:
            self.numbers.nested -= 1
            self.scope, self.span = outer, span
            scope.end()

    @contextmanager
    def reopened(self, scope: Scope) -> Generator[None, None, None]:
        """Lets the body emit into a scope that has ended."""
        outer, self.scope, scope.ended = self.scope, scope, False
        try:
            yield
        finally:
            self.scope, scope.ended = outer, True

    @property
    def nests(self) -> bool:
        """True if there are branches, loops or functions."""
        return bool(self._homes)

    def function_name(self, wanted: str) -> str:
        """Returns a name for a function of the module."""
        base, count = _identifier(wanted), 0
        name = base
        while name in self._function_names:
            count += 1
            name = f"{base}_{count}"
        self._function_names.add(name)
        return name

    def module(self, main: Function) -> Module:
        """Returns ``main`` and the functions that it calls."""
        called: dict[str, Function | PrimFunc] = {"main": main}
        if not self.functions:
            return Module(called)
        from ...ir.graph.walk import global_variables  # loaded when it is first needed

        work = [main]
        while work:
            for name in global_variables(work.pop()):
                if name not in called:
                    called[name] = function = self.functions[name]
                    work += [function] if isinstance(function, Function) else []
        return Module(called, {n: s for n, s in self.schedules.items() if n in called})

    def visible(self, atom: Atom) -> Atom:
        """Returns what ``atom`` is called in this scope: in a function, one from outside of it is
        a parameter. LoopwrightTypeError for an atom of a scope that has ended."""
        if not isinstance(atom, Var) or (not self._homes and self.scope.function is None):
            return atom
        home = self._homes.get(atom, self.main)
        if home.ended:
            raise ended(atom)
        function = self.scope.function
        if function is None or home.function is function:
            return atom
        param = function.captures.get(atom)
        if param is None:
            param = function.captures[atom] = function.param(atom.name, atom.type)
        return param

    def assign(self, storage: Storage, atom: Atom) -> None:
        """Gives a storage another value; scopes to which it is from outside take note."""
        scope: Scope | None = self.scope
        home = storage.scope or self.main
        while scope is not None and scope is not home:
            scope.entries.setdefault(storage, (storage.atom, storage.version))
            scope = scope.parent
        storage.atom = atom
        storage.version = next(self._versions)

    def here(self) -> Span | None:
        """Returns the user's place, computed from the frames."""
        frame = user_frame()
        return None if frame is None else span_of(frame, self._positions)

    def param(self, name: str, type: Type, origin: str) -> Var:
        var = self.main.builder.param(name, type)
        self.origins[var] = (name, f"argument {origin} of {self.name}")
        return var

    def emit(self, name: str, args: Sequence[Atom], attrs: Mapping[str, Any]) -> Var:
        """Applies the operator called ``name`` at the user's place."""
        span = self.span if self.span is not None else self.here()
        self.emitted += 1
        if self.emitted >= self._next_look:
            self._look_for_loops()
        operands = [self.visible(a) for a in args]
        var = self.builder.emit(get(name), operands, attrs, span=span)
        self.values.define(var, name, tuple(operands), attrs)
        if not {"raise", "call"}.isdisjoint(np.geterr().values()):
            METHODS["errstate.checks"](self, name, operands, var)
        return var

    def _look_for_loops(self) -> None:
        """Begins anew, and captures control flow, if a long loop is being unrolled."""
        self._next_look *= 2
        is_long = iterations_around() > MOST_SHORT
        if self.emitted >= MANY_OPERATORS or (is_long and not self._is_chain()):
            self.begin_captured()
        elif is_long and "capturing" not in self.asked:
            self.note_loop("is in an unrolled loop, whose operators become few kernels", first=True)

    def note_loop(self, text: str, first: bool = False) -> None:
        """Says what became of the loop at the user's line; if ``first``, only of a new one."""
        place = self.here()
        if place is not None and not (first and (place.file, place.line) in self.loops):
            self.loops[place.file, place.line] = text

    def _is_chain(self) -> bool:
        """True if nearly all operators so far compute element by element, and index maps only read
        what was there before: then they become few kernels, faster than a loop of kernels."""
        definitions = self.values.definitions
        apart = 0
        for name, args, _ in definitions.values():
            pattern = OPERATORS[name].pattern
            is_map = pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST)
            if not is_map and (pattern != Pattern.INJECTIVE or any(a in definitions for a in args)):
                apart += 1
        return apart * FEW_APART < len(definitions)

    def begin_captured(self) -> None:
        """Begins anew with Python's control flow captured, unless it is, or may not be."""
        if "capturing" not in self.asked and self.may_capture:
            self.want_captured()
            raise TracedAnewError

    def cast(self, atom: Atom, dtype: DType) -> Atom:
        """``atom`` with elements of ``dtype``; constants are converted at once, but for those that
        are read faster as they are."""
        assert isinstance(atom.type, TensorType)
        if atom.type.dtype == dtype:
            return atom
        if not isinstance(atom, Constant) or (dtype.is_float and widens_many(atom.value, dtype)):
            return self.emit("cast", (atom,), {"dtype": str(dtype)})
        converted = self._cast.get((atom, dtype))
        if converted is None:
            kept = dtype.is_complex or dtype.is_bool or not atom.type.dtype.is_complex
            with np.errstate(all="ignore"):
                value = (atom.value if kept else atom.value.real).astype(dtype.numpy)
            converted = Constant(value, self._unique(atom.name) if atom.name else "", atom.span)
            self._cast[atom, dtype] = converted
            if atom in self.origins:
                self.origins[converted] = self.origins[atom]
        return converted

    def capture(self, array: np.ndarray[Any, Any]) -> Constant:
        """Returns the constant for an array from outside, named after the variable that holds it.

        Its values are those of this moment: a writeable array is copied, unless ``borrowed`` says
        that nobody writes to it before the code is made.
        """
        earlier = self._captured.get(id(array))
        if earlier is not None and _is_unchanged(earlier[1].value, array):
            return earlier[1]
        dtype = dtype_of(array.dtype)
        held = self._variable_of(array)
        base = array.base if held is None and isinstance(array.base, np.ndarray) else None
        owner = self._variable_of(base) if base is not None else None
        if held is not None:
            origin = (held, f"captured variable {held}")
        elif base is not None and owner is not None:
            type = TensorType(tuple(base.shape), dtype_of(base.dtype))
            origin = ("", f"view of captured variable {owner} ({type.short})")
        else:
            origin = ("", "array computed outside of the trace")
        name = self._unique(_identifier(held)) if held else self._numbered()
        value = self.borrowed.borrow(array, held or "") if self.borrowed is not None else None
        if value is None:
            copy = array.flags.writeable or None
            value = np.array(array, dtype=dtype.numpy, order="C", copy=copy)
            value.flags.writeable = False
        constant = Constant(value, name, self.span)
        self._captured[id(array)] = (array, constant)
        self.origins[constant] = origin
        return constant

    def name_array(self, array: np.ndarray[Any, Any], name: str) -> None:
        """Says what an array from outside is called."""
        assert self.names is not None
        self.names[id(array)] = (array, name)

    def captures(self) -> list[np.ndarray[Any, Any]]:
        """Returns the arrays that were captured and that others hold, too."""
        return [
            array
            for array, constant in self._captured.values()
            if sys.getrefcount(array) - 3 > (constant.value.base is array) or _is_view(array)
        ]

    def captured(self, array: np.ndarray[Any, Any]) -> Constant | None:
        """Returns the constant made for ``array``, if it has been captured."""
        earlier = self._captured.get(id(array))
        return earlier[1] if earlier is not None else None

    def _unique(self, name: str) -> str:
        candidate, count = name, 0
        while candidate in self._names:
            count += 1
            candidate = f"{name}_{count}"
        self._names.add(candidate)
        return candidate

    def _numbered(self) -> str:
        count = 0
        while f"c{count}" in self._names:
            count += 1
        return self._unique(f"c{count}")

    def _variable_of(self, array: np.ndarray[Any, Any]) -> str | None:
        """Returns the user's expression for exactly this array, if a variable holds it."""
        if self.names is not None:
            return self.names[id(array)][1] if id(array) in self.names else None
        frame = user_frame()
        seen: FrameType | None = frame
        while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] != (
            "loopwright"
        ):
            for name, value in frame.f_locals.items():
                if value is array:
                    return name
            for name, value in frame.f_locals.items():
                inside = _member(value, array)
                if inside is not None:
                    return name + inside
            frame = frame.f_back
        if seen is not None:
            variables = seen.f_globals.copy()  # other threads may change them
            for name, value in variables.items():
                if value is array:
                    return name
            for name, value in variables.items():
                if name in seen.f_code.co_names and (inside := _member(value, array)) is not None:
                    return name + inside
        return None


def ended(atom: Var) -> LoopwrightTypeError:
    """Returns the error for a value of a branch or loop that is used outside of it."""
    where = f" (from {atom.span})" if atom.span is not None else ""
    return LoopwrightTypeError(
        f"this uses a value from inside of a branch, loop or function{where} that has ended",
        hint="return it from there",
    )


def _is_view(array: np.ndarray[Any, Any]) -> bool:
    """True if others hold memory of which an array is a view."""
    base = array.base
    while isinstance(base, np.ndarray):
        if sys.getrefcount(base) > 3:
            return True
        base = base.base
    return base is not None


def _is_unchanged(value: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> bool:
    """True if an array still holds what it did when ``value`` was made of it."""
    if np.may_share_memory(value, array):
        return True  # it is read in place
    return np.array_equal(value, array, equal_nan=array.dtype.kind in "fc")


def _member(holder: object, array: np.ndarray[Any, Any]) -> str | None:
    """Returns the attribute or item of ``holder`` that is ``array``, as Python writes it."""
    if isinstance(holder, dict):
        return next((f"[{k!r}]" for k, v in holder.copy().items() if v is array), None)
    if isinstance(holder, list | tuple):
        return next((f"[{i}]" for i, v in enumerate(holder) if v is array), None)
    fields = getattr(holder, "__dict__", None)
    if isinstance(fields, dict):
        return next((f".{k}" for k, v in fields.copy().items() if v is array), None)
    return None


def _identifier(path: str) -> str:
    """``self.layers[0]`` as a name the IR can print: ``self_layers_0``."""
    words = "".join(c if c.isalnum() or c == "_" else " " for c in path).split()
    return "_".join(words) or "c"


_STACK = threading.local()


def active() -> Trace | None:
    """Returns the trace that runs in this thread, the innermost if there are several."""
    stack = getattr(_STACK, "traces", None)
    return stack[-1] if stack else None


@contextmanager
def tracing(trace: Trace) -> Generator[Trace, None, None]:
    """Makes ``trace`` the active one for the body."""
    if not hasattr(_STACK, "traces"):
        _STACK.traces = []
    _STACK.traces.append(trace)
    trace.outermost = sys._getframe(2)
    try:
        yield trace
    finally:
        trace.outermost = None
        _STACK.traces.pop()


@contextmanager
def untraced() -> Generator[None, None, None]:
    """Makes no trace active for the body: functions of ``nn`` compute with NumPy there."""
    if not hasattr(_STACK, "traces"):
        _STACK.traces = []
    _STACK.traces.append(None)
    try:
        yield
    finally:
        _STACK.traces.pop()

"""``@lw.function``: functions that stay functions, so that they may call themselves.

Each kind of arguments gives a function of the module. A function that calls itself needs the type
of its own result before it is known. So it is traced once without: a branch that calls it is
abandoned, and the other branch says what the type is (see ``traced_branches``). Then it is traced
again, until the type, the arguments that it writes, and the values from outside that it uses stay
as they are. The same goes for several functions that call one another: those that were traced while
the type of another was unknown are traced anew.

Values of the caller that the function uses without having them as arguments become arguments too;
arrays of the caller that it writes become arguments and results.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from typing import Any

from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightTypeError, UnsupportedError
from ...ir.graph.nodes import Atom, Function, GlobalVar, Var
from ...ir.graph.types import FuncType, TensorType, TupleType, Type
from ..core.array_writes import write
from ..core.emitting import lift
from ..core.object_kinds import ARRAY
from ..core.proxy import Proxy
from ..core.pytree import Structure, leaves_within, paths, unflatten
from ..core.side_effects import watched
from ..core.snapshot import Snapshot
from ..core.spans import caret_lines, definition_of
from ..core.trace import Trace, active
from ..memory.scope import Scope, Storage
from .leaves import Fixed, LeafType, flattened, leaf_type
from .traced import UnknownResultError, atom_of, new_proxy, running, under
from .user import for_users

MOST_KINDS_NESTED = 24
"""Calls inside of one another, each with other types of arguments, before that is an error."""

MOST_PASSES = 8
"""Times that a function is traced until its type stays as it is."""


@dataclass(frozen=True, slots=True)
class _Result:
    """The type of a call's result: the tree, its leaves' types, and the arguments that are written
    (numbers of array leaves)."""

    structure: Structure
    types: tuple[LeafType | Fixed, ...]
    written: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Callee:
    """A function for one kind of arguments: ``function`` when it is finished.

    ``captures`` are the values from outside that it uses, ``outside`` the arrays from there that it
    writes, ``reads`` those that it looks at, with the versions that they had. ``numbers`` are the
    Python numbers of its closure.
    ``incomplete``: it called itself before its ``result`` was known, and ``waits``: it called
    another one whose result was not.
    """

    python: Callable[..., Any]
    name: str
    structure: Structure
    types: tuple[LeafType | Fixed, ...]
    numbers: tuple[Any, ...]
    result: _Result | None = None
    captures: list[Atom] = field(default_factory=list[Atom])
    outside: list[Storage] = field(default_factory=list[Storage])
    reads: dict[Storage, int] = field(default_factory=dict[Storage, int])
    function: Function | None = None
    incomplete: bool = False
    waits: bool = False

    @property
    def tensors(self) -> list[LeafType]:
        return [t for t in self.types if isinstance(t, LeafType)]

    @property
    def is_current(self) -> bool:
        """True unless an array that it reads and does not write has other values by now."""
        return all(s.version == version or s in self.outside for s, version in self.reads.items())


def call(python: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Emits a call of the function that ``python`` is for such arguments; returns its result."""
    trace = running()
    span = trace.span or trace.here()
    tree = _bound(python, args, kwargs)
    leaves, structure = flattened(tree)
    types = tuple(leaf_type(leaf) for leaf in leaves)
    given = [leaf for leaf, t in zip(leaves, types) if isinstance(t, Fixed)]
    around, numbers = _surroundings(python, given)
    key = (python, structure, types, around)
    variants: list[Callee] = trace.callees.setdefault(_hashable(python, key), [])
    callee = next(
        (v for v in variants if v in trace.calling or (v.is_current and v.numbers == numbers)), None
    )
    if callee is None:
        name = trace.function_name(getattr(python, "__name__", "function"))
        callee = Callee(python, name, structure, types, numbers)
        variants.append(callee)
    with under(trace, span):
        if callee in trace.calling:
            if callee.result is None:
                raise _unknown(trace, callee)
        elif callee.function is None:
            _trace(trace, callee)
        return _emitted(trace, callee, leaves)


def _callees(trace: Trace) -> list[Callee]:
    return [callee for variants in trace.callees.values() for callee in variants]


def _bound(python: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        bound = inspect.signature(python).bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(python, "__name__", "function")
        raise LoopwrightTypeError(f"{name}: {error}") from None
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _hashable(python: Callable[..., Any], key: Hashable) -> Hashable:
    try:
        hash(key)
    except TypeError:
        name = getattr(python, "__name__", "function")
        raise LoopwrightTypeError(
            f"{name}: an argument is neither an array nor a value with a hash",
            hint="a dataclass of arrays",
        ) from None
    return key


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A traced value as a key: equal if it is the same object, which it keeps alive."""

    value: Proxy

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


SEARCHED_LEVELS = 3
"""Depth to which containers around a function are searched for traced values."""


def _surroundings(
    python: Callable[..., Any], given: Sequence[Any]
) -> tuple[tuple[_Same, ...], tuple[Any, ...]]:
    """Returns the traced values and the numbers among what the function reads: variables, their
    attributes, those of functions that it calls and of objects that it is given."""
    traced: list[_Same] = []
    numbers: list[Any] = []
    records = Snapshot([python, *given]).records.values()
    for value in [v for r in records if r.kind is not ARRAY for v in r.parts.values()]:
        values = leaves_within(value, SEARCHED_LEVELS)
        traced += [_Same(v) for v in values if type(v) is Proxy]
        numbers += [(type(v), v) for v in values if type(v) in (bool, int, float, str)]
    return tuple(traced), tuple(numbers)


def _unknown(trace: Trace, callee: Callee) -> UnknownResultError:
    """Notes who is traced without the result of ``callee``."""
    callee.incomplete = True
    depth = trace.calling.index(callee)
    for other in trace.calling[depth + 1 :]:
        other.waits = True
    return UnknownResultError(depth)


def _emitted(trace: Trace, callee: Callee, leaves: list[Any]) -> Any:
    """Emits the call, and writes the arguments that the function writes."""
    result = callee.result
    assert result is not None
    for storage, version in callee.reads.items():
        trace.scope.read(storage, version)
    pairs = [(v, t) for v, t in zip(leaves, callee.types) if isinstance(t, LeafType)]
    atoms = [atom_of(trace, value, type_) for value, type_ in pairs]
    atoms += [trace.visible(s.atom) for s in callee.outside]
    atoms += [trace.visible(a) for a in callee.captures]
    tensors = [t for t in result.types if isinstance(t, LeafType)]
    fields: list[Type] = [t.tensor for t in tensors]
    fields += [callee.tensors[n].tensor for n in result.written]
    fields += [s.atom.type for s in callee.outside]
    if not fields:
        return unflatten(result.structure, [t.value for t in result.types if isinstance(t, Fixed)])
    type_ = fields[0] if len(fields) == 1 else TupleType(tuple(fields))
    signature = FuncType(tuple(a.type for a in atoms), type_)
    called = trace.builder.emit(GlobalVar(callee.name, signature), atoms, span=trace.span)
    values: list[Atom] = [called]
    if not isinstance(type_, TensorType):
        values = [trace.builder.get_item(called, i, span=trace.span) for i in range(len(fields))]
    rest = iter(values)
    leaves = [
        t.value if isinstance(t, Fixed) else new_proxy(trace, next(rest), t) for t in result.types
    ]
    _refuse_aliases(callee, [pairs[n][0] for n in result.written], [v for v, _ in pairs])
    for storage, atom in zip(callee.outside, values[len(fields) - len(callee.outside) :]):
        trace.assign(storage, atom)
    for number, atom in zip(result.written, rest):
        write(lift(pairs[number][0]), Proxy(atom, trace), "output array")
    return unflatten(result.structure, leaves)


def _refuse_aliases(callee: Callee, written: list[Any], values: list[Any]) -> None:
    """Raises if an array that is written is an argument twice, or a view of another one."""
    storages: list[Storage] = [v.storage for v in values if type(v) is Proxy]
    changed: list[Storage] = [v.storage for v in written if type(v) is Proxy]
    for storage in (*changed, *callee.outside):
        if storages.count(storage) > (storage not in callee.outside):
            raise UnsupportedError(
                f"{callee.name} writes to an argument that shares memory with another one",
                hint="a .copy() of one of them",
            )


def _trace(trace: Trace, callee: Callee) -> None:
    """Traces the function until nothing changes any more."""
    if len(trace.calling) >= MOST_KINDS_NESTED:
        kinds = ", ".join(map(str, callee.tensors))
        raise LoopwrightTypeError(
            f"{callee.name} calls itself with arguments of ever other types, lastly {kinds}",
            hint="arrays of one shape in all calls, of which a part is used",
        )
    trace.calling.append(callee)
    callee.captures = []  # those of an earlier trace may be of scopes that have ended
    try:
        for _ in range(MOST_PASSES):
            if _pass(trace, callee):
                return
        raise LoopwrightTypeError(
            f"{callee.name} gives another type whenever it calls itself: {_types(callee)}",
            hint=".astype(...) of what it returns",
        )
    finally:
        trace.calling.remove(callee)


def _types(callee: Callee) -> str:
    assert callee.result is not None
    return ", ".join(map(str, callee.result.types))


def _pass(trace: Trace, callee: Callee) -> bool:
    """Traces the function once; False if it has to be traced again."""
    before = callee.result, set(callee.captures), set(callee.outside)
    read = set(callee.reads)
    callee.incomplete = callee.waits = False
    finished = {other for other in _callees(trace) if other.function is not None}
    try:
        with trace.block(function=True) as scope:
            params, atoms = _run(trace, callee, scope)
    except UnknownResultError as error:
        if trace.calling[error.depth] is callee:
            raise _without_end(callee) from None
        raise
    if before[1] != set(scope.captures):
        callee.captures = list(scope.captures)
    if new := [s for s in scope.entries if s not in before[2]]:
        callee.outside += new
        callee.captures = []  # what arrays held that are parameters from now on is not used
    callee.reads = scope.reads
    now = callee.result, set(callee.captures), set(callee.outside)
    if now != before or read != set(callee.reads) or callee.incomplete:
        for other in _callees(trace):  # they may have taken another type for granted
            if other.function is not None and other not in finished:
                other.function = None
        return callee.waits
    if callee.waits:
        return True
    params += [scope.captures[a] for a in callee.captures]
    builder = scope.builder
    with trace.reopened(scope):
        result = atoms[0] if len(atoms) == 1 else builder.make_tuple(atoms)
    callee.function = Function(tuple(params), builder.block(result), {}, trace.span)
    trace.functions[callee.name] = callee.function
    return True


def _run(trace: Trace, callee: Callee, scope: Scope) -> tuple[list[Var], list[Atom]]:
    """Runs the Python function in ``scope``; returns the parameters and the results."""
    names = paths(callee.structure, "")
    params: list[Var] = []
    leaves: list[Any] = []
    outside = list(callee.outside)
    for name, type_ in zip(names, callee.types, strict=True):
        if isinstance(type_, Fixed):
            leaves.append(type_.value)
            continue
        params.append(scope.param(_name(callee, name), type_.tensor))
        leaves.append(new_proxy(trace, params[-1], type_))
    arrays = [leaf for leaf in leaves if type(leaf) is Proxy]
    arguments = params[:]
    for storage in outside:
        params.append(scope.param("array", storage.atom.type))
        trace.assign(storage, params[-1])
    args, kwargs = unflatten(callee.structure, leaves)
    values, structure = flattened(watched(trace, callee.python, *args, **kwargs))
    types = tuple(leaf_type(v) for v in values)
    tensors = [(v, t) for v, t in zip(values, types) if isinstance(t, LeafType)]
    atoms = [atom_of(trace, value, type_) for value, type_ in tensors]
    changed = [n for n, a in enumerate(arrays) if a.storage.atom is not arguments[n]]
    atoms += [trace.visible(arrays[n].storage.atom) for n in changed]
    atoms += [trace.visible(storage.atom) for storage in outside]
    callee.result = _Result(structure, types, tuple(changed))
    return params, atoms


def _name(callee: Callee, path: str) -> str:
    """Returns the name of a parameter: that of Python's, and the path inside of it."""
    words = "".join(c if c.isalnum() or c == "_" else " " for c in path).split()
    names = list(inspect.signature(callee.python).parameters)
    if words[:1] == ["0"] and len(words) > 1 and int(words[1]) < len(names):
        return "_".join([names[int(words[1])], *words[2:]])
    return "_".join(words[1:]) or "x"


def _without_end(callee: Callee) -> LoopwrightTypeError:
    where = definition_of(callee.python)
    return LoopwrightTypeError(
        f"{callee.name} calls itself in every case, so it never ends",
        span=where,
        source=caret_lines(where) if where is not None else (),
        hint="lw.cond(condition, the case without a call, the case with one)",
    )


class TracedFunction:
    """A Python function that compiled code calls, instead of having its operations inline."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __repr__(self) -> str:
        return f"<function {getattr(self.function, '__name__', self.function)}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active() is None:  # with as few of Python's frames as possible: recursion is deep
            return self.function(*args, **kwargs)
        return _called(self, args, kwargs)


def function(f: Callable[..., Any]) -> TracedFunction:
    """Decorates a function that may call itself, or others that call it.

    While another function is compiled, a call of it is a call in the compiled code too. Arguments
    and results are arrays and numbers, or containers of them. A call that is the last thing a
    function does takes no stack. The recursion has to end in a branch of ``lw.cond``.

    >>> import loopwright as lw
    >>> @lw.function
    ... def factorial(n):
    ...     return lw.cond(n <= 1, lambda: 1, lambda: n * factorial(n - 1))
    >>> factorial(5), int(lw.compile(factorial)(10))
    (120, 3628800)
    """
    return TracedFunction(f)


@for_users
def _called(f: TracedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(f.function, args, kwargs)

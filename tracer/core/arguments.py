"""The arguments of a call: arrays to be traced, and static values.

::

    leaf ::= array                    an ndarray, a NumPy scalar, a DLPack or buffer object
           | int | float | complex    a scalar that is weak in promotion, as in NumPy
           | spec                     ``lw.f32[64, 784]``: tracing needs no values
           | static                   bool, str, a dtype, a function ...: the value is in the key

Arguments named in ``static_argnames`` are static whatever they are. An int is traced unless Python
needs its value while tracing: for a size, an axis, a range or a branch (see ``int_arguments.py``).
"""

from __future__ import annotations

import enum
import inspect
import itertools
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dtype import COMPLEX128, FLOAT64, INT64, dtype_of
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.types import TensorType
from .argument_specs import DTypeSpec, Spec
from .misuse import is_plain, refuse_subclass
from .proxy import Proxy
from .pytree import Items, Structure, children_of, flatten, leaves_within, paths

_STATIC_TYPES = (
    bool,
    str,
    bytes,
    slice,
    range,
    enum.Enum,
    np.dtype,
    type,
    type(Ellipsis),
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    np.ufunc,
)


_WHOLE = (int, np.integer, np.bool)
"""Types of scalars whose values may be needed while tracing: sizes, axes, counts and flags."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """A leaf to be traced. ``weak`` is int, float or complex for a Python number."""

    type: TensorType
    weak: type[int] | type[float] | type[complex] | None = None

    def __str__(self) -> str:
        return self.weak.__name__ if self.weak else self.type.short


@dataclass(frozen=True, slots=True)
class Static:
    """A leaf known while tracing; ``True`` and ``1`` are different values."""

    type: type
    value: Hashable

    def __str__(self) -> str:
        return repr(self.value)


LeafSpec: TypeAlias = ArraySpec | Static


@dataclass(frozen=True, slots=True)
class Placement:
    """Memory layout of one operand, where a function that writes depends on it.

    ``strides`` count elements (None: no whole number of them), and are () for an array of rank 0;
    ``same_as`` is an earlier operand that is the same memory.
    """

    operand: int
    strides: tuple[int, ...] | None = None
    same_as: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """The key under which compiled code is kept: all that it is specialised for.

    ``placements`` are those of operands that are not as code is made for at first: arrays in C
    order that share no memory, and scalars. ``values`` are those that the symbolic sizes have in
    the call that asks for code, if there is one: hints for tracing, and no part of the key.
    ``case`` counts the requests that differ only in how comparisons of their sizes come out.
    """

    names: tuple[str, ...]
    structures: tuple[Structure, ...]
    leaves: tuple[LeafSpec, ...]
    placements: tuple[Placement, ...] = ()
    values: Mapping[str, int] | None = field(default=None, compare=False)
    case: int = 0

    def with_placements(self, placements: tuple[Placement, ...]) -> Request:
        """Returns the same for operands placed in that way."""
        return self if placements == self.placements else replace(self, placements=placements)

    @property
    def paths(self) -> list[str]:
        """Names of the leaves as the user writes them: ``params['w']``."""
        return [p for name, s in zip(self.names, self.structures) for p in paths(s, name)]

    def __str__(self) -> str:
        return ", ".join(f"{p}: {leaf}" for p, leaf in zip(self.paths, self.leaves))


@dataclass(frozen=True, slots=True)
class Arguments:
    """A request, and the values of its leaves (static ones included) in the same order."""

    request: Request
    values: list[Any]

    def parameter_of(self, leaf: int) -> str:
        """Returns the name of the parameter in whose argument a leaf is."""
        names = (n for n, s in zip(self.request.names, self.request.structures) for _ in paths(s))
        return next(itertools.islice(names, leaf, None))


def signature_of(function: Callable[..., Any], static_argnames: Sequence[str]) -> inspect.Signature:
    """Returns the function's signature; ``static_argnames`` must name parameters of it."""
    signature = inspect.signature(function)
    keywords = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for name in static_argnames:
        if name not in signature.parameters and not keywords:
            raise LoopwrightValueError(
                f"static_argnames: {function.__name__} has no parameter {name!r} "
                f"(it has: {', '.join(signature.parameters) or 'none'})"
            )
    return signature


def bind(
    name: str,
    signature: inspect.Signature,
    static_argnames: frozenset[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    valued: frozenset[str] = frozenset(),
) -> Arguments:
    """Sorts the arguments of a call of ``name`` into arrays and static values. Ints are static in
    arguments that are named in ``valued``.

    Raises LoopwrightTypeError where the arguments do not fit the signature, or cannot be traced.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise LoopwrightTypeError(f"{name}: {error}", notes=(f"def {name}{signature}",)) from None
    names: list[str] = []
    structures: list[Structure] = []
    specs: list[LeafSpec] = []
    values: list[Any] = []
    for parameter, value in _by_parameter(bound):
        names.append(parameter)
        static = parameter.lstrip("*") in static_argnames
        leaves, structure = ([value], flatten(0)[1]) if static else flatten(value)
        structures.append(structure)
        for position, leaf in enumerate(leaves):
            if static or (parameter in valued and isinstance(leaf, _WHOLE)):
                spec = _static(name, parameter, leaf)
            elif (spec := _spec(leaf)) is None or not is_plain(leaf):
                where = paths(structure, parameter)[position]
                refuse_subclass(leaf, where, name)
                raise _untraceable(name, where, leaf)
            specs.append(spec)
            values.append(leaf)
    request = Request(tuple(names), tuple(structures), tuple(specs))
    return Arguments(request.with_placements(rank_0(request, values)), values)


def valued_names(request: Request, static: frozenset[str]) -> frozenset[str]:
    """Returns the names of the arguments whose ints are static in ``request``, as in ``bind``."""
    names = (n for n, s in zip(request.names, request.structures) for _ in paths(s))
    return frozenset(
        name
        for name, leaf in zip(names, request.leaves, strict=True)
        if name not in static and isinstance(leaf, Static) and _is_whole(leaf.value)
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, _WHOLE) and type(value) is not bool


def rank_0(request: Request, values: Sequence[Any]) -> tuple[Placement, ...]:
    """Returns the placements of operands that are arrays of rank 0 instead of scalars."""
    operands = (v for v, spec in zip(values, request.leaves) if isinstance(spec, ArraySpec))
    return tuple(
        Placement(operand, ())
        for operand, value in enumerate(operands)
        if isinstance(value, np.ndarray) and value.ndim == 0
    )


def _by_parameter(bound: inspect.BoundArguments) -> list[tuple[str, Any]]:
    """Parameters and values; each keyword of ``**kwargs`` counts by itself."""
    pairs: list[tuple[str, Any]] = []
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            pairs += sorted(value.items())
        else:
            pairs.append((name, value))
    return pairs


def _static(function: str, name: str, value: Any) -> Static:
    try:
        hash(value)
    except TypeError:
        raise LoopwrightTypeError(
            f"{function}: the static argument {name} is a {type(value).__name__}, "
            "which has no hash",
            hint="a tuple instead of a list, or leave it out of static_argnames",
        ) from None
    return Static(type(value), value)


def _spec(leaf: Any) -> LeafSpec | None:
    """Returns the spec of a leaf, or None if it cannot be traced."""
    if isinstance(leaf, np.ndarray | np.generic):
        return _array_spec(leaf.shape, leaf.dtype)
    if isinstance(leaf, _STATIC_TYPES):
        if isinstance(leaf, slice):  # no hash before Python 3.12
            return Static(slice, (leaf.start, leaf.stop, leaf.step))
        return Static(type(leaf), leaf)
    if isinstance(leaf, int):
        return ArraySpec(TensorType((), INT64), int)
    if isinstance(leaf, float):
        return ArraySpec(TensorType((), FLOAT64), float)
    if isinstance(leaf, complex):
        return ArraySpec(TensorType((), COMPLEX128), complex)
    if isinstance(leaf, Spec | DTypeSpec):
        return ArraySpec(leaf.type)
    if hasattr(leaf, "__dlpack__") or hasattr(leaf, "__array__") or _has_buffer(leaf):
        array = to_array(leaf)
        return _array_spec(array.shape, array.dtype)
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return _array_spec(tuple(leaf.shape), leaf.dtype)
    return None


def _array_spec(shape: tuple[int, ...], dtype: Any) -> ArraySpec | None:
    try:
        return ArraySpec(TensorType(shape, dtype_of(dtype)))
    except TypeError:
        return None


def _has_buffer(leaf: Any) -> bool:
    try:
        memoryview(leaf)
    except TypeError:
        return False
    return True


def _untraceable(function: str, where: str, leaf: Any) -> LoopwrightTypeError:
    dtype = getattr(leaf, "dtype", None)
    if dtype is not None:
        hint = f"{where}.astype(np.float32)" if getattr(dtype, "kind", "") == "f" else None
        return LoopwrightTypeError(
            f"{function}: argument {where} has dtype {dtype}, which is not supported", hint=hint
        )
    root = where.partition("[")[0].partition(".")[0]
    hint = f"a dataclass of arrays, or static_argnames=({root!r},)"
    return LoopwrightTypeError(
        f"{function}: argument {where} is a {type(leaf).__name__}, which cannot be traced",
        hint=f"{where}.to_numpy(np.float64)" if hasattr(leaf, "to_numpy") else hint,
    )


def to_array(value: Any) -> np.ndarray[Any, Any]:
    """``value`` as a NumPy array in native byte order and C order, without a copy where possible.

    Other libraries' arrays come by DLPack or the buffer protocol. Raises LoopwrightTypeError for
    what has no array in it.
    """
    array = value if isinstance(value, np.ndarray) else foreign_array(value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.c_contiguous:
        array = np.array(array, order="C")
    return array if type(array) is np.ndarray else np.asarray(array)


def shares_its_memory(value: Any) -> bool:
    """True if ``to_array(value)`` shares the memory of ``value``."""
    if isinstance(value, np.generic | int | float | complex):
        return False
    return isinstance(value, np.ndarray) or hasattr(value, "__dlpack__") or _has_buffer(value)


def foreign_array(value: Any) -> np.ndarray[Any, Any]:
    """Converts another library's array to NumPy's, without a copy where possible."""
    other: Any = value
    if isinstance(value, Spec | DTypeSpec):
        raise LoopwrightTypeError(
            f"the spec {value!r} has no values", hint="an array, or f.lower(...) for a spec"
        )
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise LoopwrightValueError(f"the Python int {value} does not fit int64")
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        try:
            return np.from_dlpack(other)
        except (BufferError, RuntimeError, TypeError):
            pass  # a dtype or device that DLPack does not take; its own conversion may
    try:
        array = np.asarray(value)
    except Exception as error:
        raise LoopwrightTypeError(f"a {_kind(value)} gives no NumPy array: {error}") from error
    if array.dtype == object and isinstance(getattr(value, "dtype", None), np.dtype):
        raise LoopwrightTypeError(
            f"a {_kind(value)} is not a dense array", hint="its .toarray(), or arrays of its parts"
        )
    return array


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


_VALUES = (bool, str, type(None))


def quick_key(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static: frozenset[int | str],
    valued: frozenset[int | str] = frozenset(),
) -> tuple[tuple[Any, ...], list[Any]] | None:
    """A hashable key, and the leaves that carry values, arrays and numbers, in the call's order.

    ``static`` holds the positions and names of static arguments, ``valued`` those of arguments
    whose ints are static. None stands for arguments that only ``bind`` can judge.
    """
    key: list[Any] = [len(args)]
    leaves: list[Any] = []
    try:
        for place, value in enumerate(args):
            if static and place in static:
                key += (type(value), value)
            elif not _add(value, key, leaves, place in valued):
                return None
        for name, value in kwargs.items():
            key.append(name)
            if name in static:
                key += (type(value), value)
            elif not _add(value, key, leaves, name in valued):
                return None
        whole = tuple(key)
        hash(whole)
    except (TypeError, RecursionError):  # a static value that has no hash; an object in itself
        return None
    return whole, leaves


def same_leaves(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """True if leaves are the same objects in the same order, or equal arrays that were made anew
    of the same value."""
    return len(some) == len(others) and all(
        a is b or (type(a) is type(b) and np.array_equal(a, b)) for a, b in zip(some, others)
    )


def _add(value: Any, key: list[Any], leaves: list[Any], valued: bool) -> bool:
    cls = type(value)
    if cls is np.ndarray:
        key += (value.shape, value.dtype)
        leaves.append(value)
        return True
    if valued and isinstance(value, _WHOLE):
        key += (cls, value)
        return True
    if cls is float or cls is int or cls is complex:
        key.append(cls)
        leaves.append(value)
        return True
    if cls in _VALUES:
        key += (cls, value)
        return True
    if issubclass(cls, np.generic):
        key += (None, value.dtype)  # no array of rank 0: that can be changed in place
        leaves.append(value)
        return True
    inside = children_of(value)
    if inside is None:
        return False
    children, rest = inside
    key += (cls, len(children), rest)
    return all(_add(child, key, leaves, valued) for child in children)


def without_iterators(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Returns a call's arguments with what its iterators (generators, maps) give; None if there are
    no such arguments."""
    given = [Items.of(v) if isinstance(v, Iterator) else v for v in (*args, *kwargs.values())]
    if not any(isinstance(v, Iterator) for v in given):
        return None
    return tuple(given[: len(args)]), dict(zip(kwargs, given[len(args) :]))


def any_traced(values: Iterable[Any]) -> bool:
    """True if a traced array is among ``values``, or in a container among them."""
    return any(type(leaf) is Proxy for leaf in leaves_within(list(values)))

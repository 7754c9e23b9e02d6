"""The proxy: an array without values. Operations on it become graph IR.

NumPy hands its functions over through ``__array_ufunc__`` and ``__array_function__``; operators,
indexing and methods arrive here directly. All of them go through ``run``, which knows the user's
place and completes errors, and end in ``emit``, which makes the call.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias
from weakref import ref

import numpy as np

from ...ir import errors as errors
from ...ir.dims import Dim, IntExpr, size_symbols
from ...ir.errors import LoopwrightError, LoopwrightTypeError, UnsupportedError
from ...ir.graph.nodes import Atom
from ...ir.graph.types import TensorType
from ...ir.ops.declare import by_parameter
from ..memory.storage import Kind, Storage, Strides, View, dense, elementwise_strides
from . import misuse
from .dispatch import BY_ELEMENT, IN_C_ORDER, METHODS, UFUNCS, VIEWS, implementation_of
from .error_context import complete, explain
from .symbolic_sizes import expressions, has_sizes, of_expr, of_shape
from .trace import MOST_SHORT, Trace, active

WeakType: TypeAlias = type[bool] | type[int] | type[float] | type[complex]


if TYPE_CHECKING:
    from numpy.lib.mixins import NDArrayOperatorsMixin as _Operators
else:  # ``ufuncs`` sets the operators
    _Operators = object


class Proxy(_Operators):
    """A traced array: an atom of the graph being built.

    ``weak`` is the type of a Python number that was traced as a scalar; such a value does not
    decide the dtype of a result, as NumPy 2 has it for Python numbers.
    """

    __slots__ = ("__weakref__", "_atom", "_version", "alias", "owner", "storage", "weak")
    __array_priority__ = 1000.0

    def __init__(
        self, atom: Atom, owner: Trace, weak: WeakType | None = None, alias: View | None = None
    ) -> None:
        self._atom = atom
        self.owner = owner
        self.weak = weak
        self.alias = alias
        if alias is not None:
            self.storage = alias.parent.storage
            if not alias.certain:
                owner.memory.unsure.append(ref(self))
        else:
            kind = Kind.FRESH if self.type.rank else Kind.SCALAR
            self.storage = Storage(atom, kind)
            self.storage.scope = owner.scope
        self._version = self.storage.version

    @property
    def atom(self) -> Atom:
        """The array's present value in the graph."""
        self.owner.scope.read(self.storage, self.storage.version)
        if self._version != self.storage.version:
            alias = self.alias
            self.remember(self.storage.atom if alias is None else alias.read())
        return self._atom

    def remember(self, atom: Atom) -> None:
        """Stands for ``atom`` until the storage is written again, or the scope ends."""
        self.owner.scope.note(self, self._atom, self._version)
        self._atom, self._version = atom, self.storage.version

    def restore(self, atom: Atom, version: int) -> None:
        """Stands for what it stood for when the storage had that version."""
        self._atom, self._version = atom, version

    @property
    def is_scalar(self) -> bool:
        """True if NumPy has a scalar here, which cannot be changed, and no array."""
        return self.storage.kind is Kind.SCALAR

    @property
    def strides(self) -> Strides:
        """The strides NumPy's array would have: the user's code gets bytes, and what it makes of
        them holds for this layout of the arguments. Our own functions get elements, and None if
        they are not known."""
        strides = self.storage.strides if self.alias is None else self.alias.strides
        if sys._getframe(1).f_globals.get("__name__", "").startswith("loopwright."):
            return strides
        if strides is None:
            hint = "its .copy(), which is in C order"
            _fail(UnsupportedError("strides that are not known while tracing", hint=hint), self)
        self.owner.memory.by_layout = self.owner.memory.changed = True
        return tuple(s * self.itemsize for s in strides)

    # What is known without values.

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class of NumPy's value, so that ``isinstance`` takes the branch it takes in NumPy. C
        code looks at the type itself and is not deceived."""
        if self.weak is not None:
            return self.weak
        # An operand without axes may be a scalar or an array: both run the same code.
        scalar = self.is_scalar and self.storage.operand is None
        return self.dtype.type if scalar else np.ndarray

    @property
    def type(self) -> TensorType:
        assert isinstance(self._atom.type, TensorType)
        return self._atom.type

    @property
    def shape(self) -> tuple[IntExpr, ...]:
        """The sizes. Symbolic ones are expressions to our own functions; the user's code gets
        what stands for ints there."""
        shape = self.type.shape
        return of_shape(shape, self.owner) if self._is_seen_by_user else shape

    @property
    def _is_seen_by_user(self) -> bool:
        owner = self.owner
        return bool(owner.sizes or owner.data_sizes) and owner.span is None and active() is owner

    @shape.setter
    def shape(self, value: Any, /) -> None:
        from .assigned_shapes import assign_shape  # loaded when it is first needed

        assign_shape(self, value, _fail)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype.numpy

    @property
    def ndim(self) -> int:
        return self.type.rank

    @property
    def size(self) -> IntExpr:
        return of_expr(self.type.size, self.owner) if self._is_seen_by_user else self.type.size

    @property
    def itemsize(self) -> int:
        return self.type.dtype.bytes

    @property
    def nbytes(self) -> IntExpr:
        return self.size * self.type.dtype.bytes

    @property
    def device(self) -> str:
        return "cpu"

    def __len__(self) -> int:
        shape = self.type.shape
        if not shape:
            _fail(LoopwrightTypeError("len() of a traced scalar"), self, numpys=True)
        length = shape[0]
        if isinstance(length, Dim):
            self.owner.needs.sizes |= {*size_symbols(length)}
            self.owner.indexed_sizes = True
            message = f"len() is an int, and the first size is symbolic: {length}"
            _fail(LoopwrightTypeError(message, hint="x.shape[0]"), self)
        return length

    def __repr__(self) -> str:
        return self._described(sys._getframe(1))

    def _described(self, caller: FrameType) -> str:
        """Returns type and name, to be printed. In another text they would stand for the values."""
        if active() is self.owner and misuse.is_text(caller):
            _fail(misuse.number_needed("format", self._name()), self)
        name, origin = self.owner.origins.get(self.atom, ("", ""))
        text = f"{name and ' ' + name}: {self.type.short}{', ' + origin if origin else ''}"
        return f"<traced{text}{'; lw.debug.print shows values' * misuse.is_printed()}>"

    def __format__(self, spec: str) -> str:
        if spec and spec[-1] not in "s<>^=0123456789":
            _fail(misuse.number_needed("format", self._name()), self)
        return format(self._described(sys._getframe(1)), spec)

    # What makes copies.

    def __copy__(self) -> Proxy:
        return self._method("copy")()

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        return self._method("copy")()

    def __round__(self, ndigits: int | None = None) -> Proxy:
        """As of NumPy's scalars: to the nearest integer, or to so many digits."""
        if self.shape:
            _fail(misuse.not_rounded(), self)
        rounded = self._method("round")(ndigits or 0)
        return rounded if ndigits is not None else rounded.astype(np.int64)

    # NumPy's protocols.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        implementation = implementation_of(ufunc, UFUNCS)
        if implementation is None:
            _fail(misuse.unknown_function(ufunc.__name__), *inputs)
        if method == "at":
            return run(f"{ufunc.__name__}.at", METHODS["ufunc.at"], (ufunc, *inputs), kwargs)
        outs = _as_tuple(kwargs.pop("out", None))
        self._need_traced(outs, f"np.{ufunc.__name__}", inputs)
        if method != "__call__":
            implementation = _ufunc_method(ufunc, method, inputs)
            return _run_into(ufunc.__name__, implementation, inputs, kwargs, outs[0])
        if all(o is None for o in outs):
            return run(ufunc.__name__, implementation, inputs, kwargs)
        casting, where = kwargs.pop("casting", "same_kind"), kwargs.pop("where", True)

        def into(*args: Any, **options: Any) -> Any:
            results = implementation(*args, **options)
            return METHODS["ufunc.out"](ufunc.__name__, results, outs, casting, where)

        return run(ufunc.__name__, into, inputs, kwargs, aliases=True)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        implementation = implementation_of(function)
        if implementation is None:
            _fail(misuse.unknown_function(misuse.public_name(function)), *args)
        args, out = _out_of(implementation, args, kwargs)
        self._need_traced((out,), f"np.{function.__name__}", args)
        result = _run_into(function.__name__, implementation, args, kwargs, out)
        if isinstance(result, Proxy) and result.weak is not None and function not in _OF_PYTHON:
            return Proxy(result.atom, result.owner)  # NumPy has made an array of the number
        return result

    def _need_traced(self, outs: tuple[Any, ...], name: str, operands: tuple[Any, ...]) -> None:
        """Refuses an ``out=`` of NumPy's; the next attempt traces the arrays the function makes."""
        if any(not isinstance(out, Proxy | None) for out in outs):
            self.owner.writes_numpys = True
            _fail(misuse.out_argument(name), *operands)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        if active() is self.owner:
            self.owner.receives |= misuse.is_received()
            self.owner.converts = True
        if not self.shape:
            self.owner.want_captured()
        self._refuse_value(misuse.array_needed())

    def _refuse_value(self, error: LoopwrightError) -> NoReturn:
        """Raises an error, unless another run has the value; records a write to NumPy's array."""
        need_value(self)
        if active() is self.owner and misuse.is_stored():
            self.owner.writes_numpys = True
        _fail(error, self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return METHODS["__array_namespace__"](self)

    # What Python asks for and tracing cannot give.

    def __bool__(self) -> bool:
        if not self.shape:
            self.owner.want_captured()
        need_value(self)
        types = {p.name: p.type for p in self.owner.main.builder.params}
        scalars = [n for n, t in types.items() if isinstance(t, TensorType) and t.rank == 0]
        _fail(misuse.branch(scalars, not self.shape, self.owner.may_capture), self)

    def __float__(self) -> float:
        self.owner.want_captured()
        self._refuse_value(misuse.number_needed("float", self._name()))

    def __int__(self) -> int:
        self.owner.want_captured()
        self._refuse_value(misuse.number_needed("int", self._name()))

    def __complex__(self) -> complex:
        self.owner.want_captured()
        _fail(misuse.number_needed("complex", self._name()), self)

    def __hash__(self) -> int:
        _fail(misuse.hashed(), self, numpys=True)

    def __index__(self) -> int:
        if active() is self.owner:  # a bound of a slice of one of NumPy's arrays
            self.owner.receives |= misuse.is_received()
            if misuse.is_range():
                self.owner.want_captured()
        self._refuse_value(misuse.size_needed(self._name()))

    def item(self, *_args: int) -> NoReturn:
        need_value(self)
        _fail(misuse.number_needed("item", self._name()), self)

    def tolist(self) -> NoReturn:
        _fail(misuse.number_needed("tolist", self._name()), self)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._method("__setitem__")(key, value)

    def __iter__(self) -> Iterator[Proxy]:
        if not self.type.shape:
            _fail(misuse.iteration("a traced scalar cannot be iterated over"), self, numpys=True)
        rows = self.type.shape[0]
        if isinstance(rows, Dim):
            self.owner.needs.sizes |= {*size_symbols(rows)}
            self.owner.want_captured()
            _fail(misuse.iteration(f"the number of rows is symbolic: {rows}"), self)
        if rows > MOST_SHORT:
            self.owner.begin_captured()
        return (self[row] for row in range(rows))

    def __contains__(self, value: object) -> bool:
        _fail(misuse.branch((), False), self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that are probed for
            raise AttributeError(name)
        if name in METHODS or (hasattr(np.ndarray, name) and implementation_of(name, METHODS)):
            return self._method(name)
        missing = misuse.attribute_missing(name, [n for n in dir(self) if n[0] != "_"])
        _fail(missing, self, numpys=not hasattr(np.ndarray, name))

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *METHODS})

    # Attributes that NumPy's arrays have.

    @property
    def T(self) -> Proxy:
        return self._method("transpose")()

    @property
    def mT(self) -> Proxy:
        return self._method("matrix_transpose")()

    @property
    def at(self) -> Any:
        """``x.at[key].set(v)`` and its like, which return new arrays; see ``lw.at``."""
        return METHODS["array.at"](self)

    @property
    def real(self) -> Proxy:
        return self._method("real")()

    @real.setter
    def real(self, value: Any) -> None:
        self._method("real.set")(value)

    @property
    def imag(self) -> Proxy:
        return self._method("imag")()

    @imag.setter
    def imag(self, value: Any) -> None:
        self._method("imag.set")(value)

    @property
    def flat(self) -> Proxy:
        return self._method("flat")()

    def __getitem__(self, key: Any) -> Proxy:
        return self._method("__getitem__")(key)

    def _method(self, name: str) -> Callable[..., Any]:
        implementation = METHODS[name]

        def method(*args: Any, **kwargs: Any) -> Any:
            args, out = _out_of(implementation, (self, *args), kwargs)
            self._need_traced((out,), name, (self,))
            return _run_into(name, implementation, args, kwargs, out)

        return method

    def _name(self) -> str | None:
        """Returns the name of the argument this is, if it is one."""
        name, origin = self.owner.origins.get(self.atom, ("", ""))
        return name if origin.startswith("argument ") else None


_OF_PYTHON = (np.real, np.imag, np.allclose, np.array_equal, np.array_equiv)
"""Functions that may give Python's numbers and bools."""


def is_array(value: object) -> bool:
    """True if ``value`` is an array of NumPy's whose elements are known, not a traced one."""
    return type(value) is not Proxy and isinstance(value, np.ndarray)


def is_number(value: object) -> bool:
    """True if ``value`` is a Python number that is known, not a traced one. (``np.float64`` is a
    subclass of float, but has a dtype of its own.)"""
    return isinstance(value, int | float | complex) and not isinstance(value, Proxy | np.generic)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _ufunc_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    """``np.add.reduce`` and the like; ``where=`` and other methods are not there."""
    name = f"{ufunc.__name__}.{method}"
    of_any = None if name in METHODS else implementation_of(f"ufunc.{method}", METHODS)
    if name in METHODS:  # the file of the general one may have brought it
        return METHODS[name]
    if of_any is None:
        _fail(misuse.unknown_function(name), *inputs)
    return functools.partial(of_any, ufunc)


def _proxies(values: Any) -> Iterator[Any]:
    """Returns the operands among arguments: arrays, also those inside lists and tuples."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _atom_of(value: Any) -> Atom | None:
    """Returns the atom of an operand for a message; captured arrays have theirs by now."""
    if isinstance(value, Proxy):
        return value.atom
    if isinstance(value, np.ndarray):
        trace = active()
        return trace.captured(value) if trace is not None else None
    return None


def run(
    operation: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] = MappingProxyType({}),
    aliases: bool = False,
) -> Any:
    """Calls ``function`` for the user, who wrote ``operation``; errors get the user's line.

    The result is an array of its own, as if copied, unless ``function`` is known to give views
    (``dispatch.views``) or ``aliases`` says so.
    """
    trace = active()
    if trace is None:
        fail_leaked(args)
    if trace.span is not None:  # called by one of our own functions
        return function(*args, **numpys_options(function, kwargs))
    trace.span = trace.here()
    if (trace.sizes or trace.data_sizes) and has_sizes((args, kwargs)):
        operands = function in BY_ELEMENT
        args, kwargs = expressions(args, operands), expressions(kwargs, operands)
    try:
        result = function(*args, **numpys_options(function, kwargs))
        return publish(result, function, args, aliases or function in VIEWS)
    except LoopwrightError as error:
        operands = [*_proxies(args), *_proxies(kwargs.values())]
        explain(error, trace, operation, [_atom_of(o) for o in operands])
        if isinstance(error, UnsupportedError):  # it may be supported for a number that is known
            for operand in operands:
                if isinstance(operand, Proxy):
                    need_value(operand)
        raise
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        # The arguments do not fit our function's parameters.
        message = str(error).replace(f"{getattr(function, '__qualname__', '')}()", operation)
        raise complete(UnsupportedError(message), trace) from None
    finally:
        trace.span = None


def numpys_options(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns NumPy's keyword arguments ``by_parameter``; ``device`` may only be the CPU."""
    options = by_parameter(function, kwargs)
    if (device := options.get("_device")) not in (None, "cpu"):
        raise errors.LoopwrightValueError(f'Device not understood, only "cpu" is allowed: {device}')
    return options


def _run_into(
    operation: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    out: Proxy | None,
) -> Any:
    """``run``, with the result written into ``out`` if there is one."""
    if out is None:
        return run(operation, function, args, kwargs)

    def into(*args: Any, **kwargs: Any) -> Any:
        return METHODS["function.out"](operation, run(operation, function, args, kwargs), out)

    return run(operation, into, args, kwargs, aliases=True)


@functools.cache
def _place_of_out(implementation: Callable[..., Any]) -> int | None:
    """Returns which positional argument of ``implementation`` is ``_out``, for NumPy's ``out``."""
    parameters = list(inspect.signature(implementation).parameters)
    return parameters.index("_out") if "_out" in parameters else None


def _out_of(
    implementation: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], Any]:
    """Returns the arguments without ``out``, and ``out``, which has a name or a place."""
    place = _place_of_out(implementation)
    if place is None or place >= len(args):
        return args, kwargs.pop("out", None)
    return (*args[:place], None, *args[place + 1 :]), args[place]


def publish(result: Any, function: Callable[..., Any], args: tuple[Any, ...], aliases: bool) -> Any:
    """Returns the result of ``function`` as the user's code gets it: as new arrays, unless it
    ``aliases``."""
    if isinstance(result, list | tuple):
        fields = [publish(r, function, args, aliases) for r in result]
        return type(result)(*fields) if hasattr(result, "_fields") else type(result)(fields)
    trace = active()
    if isinstance(result, Dim) and trace is not None:  # of np.size and np.shape
        return of_expr(result, trace)
    if not isinstance(result, Proxy):
        return result
    if not aliases:
        shared = result.storage.published or result.storage.kind is Kind.CAPTURED
        if result.alias is not None or shared:
            result = Proxy(result.atom, result.owner, result.weak)
        if result.ndim > 1 and result.storage.strides is not None:
            result.storage.strides = _new_strides(result, function, args)
    result.storage.published = True
    return result


def _new_strides(result: Proxy, function: Callable[..., Any], args: tuple[Any, ...]) -> Strides:
    """Returns the strides that NumPy gives the new array that ``function`` made of ``args``.

    That is C order if all operands have it; functions by element keep the order of their operands.
    """
    arrays = [a for a in _proxies(args) if isinstance(a, Proxy | np.ndarray) and a.ndim > 1]
    layouts = [(a.shape, _strides_of(a)) for a in arrays]
    if all(dense(*each) for each in layouts) or function in IN_C_ORDER:
        return result.storage.strides
    return elementwise_strides(result.shape, layouts) if function in BY_ELEMENT else None


def _strides_of(array: Proxy | np.ndarray[Any, Any]) -> Strides:
    if isinstance(array, Proxy):
        return array.strides
    return tuple(s // max(array.itemsize, 1) for s in array.strides)


def need_value(number: Proxy) -> None:
    """Records that Python needs the value of ``number``, which may be one that each call knows."""
    trace = number.owner
    if active() is trace and not number.shape:
        trace.needs.note(number.atom)


def _fail(error: LoopwrightError, *operands: Any, numpys: bool = False) -> NoReturn:
    """Raises ``error``, which is NumPy's as well if ``numpys``, at the user's place."""
    trace = active()
    if trace is None:
        fail_leaked(operands)
    atoms = [_atom_of(o) for o in _proxies(operands) if isinstance(o, Proxy)]
    explain(error, trace, "", atoms, ours=not numpys)
    raise error


def fail_leaked(values: Any) -> NoReturn:
    """Raises for a proxy among ``values`` whose function is not being traced."""
    stray = next(v for v in _proxies(values) if isinstance(v, Proxy))
    name, _ = stray.owner.origins.get(stray.atom, ("", ""))
    raise complete(misuse.leaked(name or None, stray.owner.name), active())

"""The proxy: an array without values. What is done to it is written down as graph IR.

NumPy hands its functions over through ``__array_ufunc__`` and ``__array_function__``; operators,
indexing and methods arrive here directly. All of them go through ``run``, which knows the user's
place and completes errors, and end in ``emit``, which makes the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from ..ir.dims import Dim, IntExpr
from ..ir.dtype import DType, dtype_of
from ..ir.errors import (
    LoopwrightError,
    LoopwrightTypeError,
    LoopwrightValueError,
    UnsupportedError,
)
from ..ir.graph.nodes import Atom, Constant
from ..ir.graph.types import TensorType, TupleType
from . import misuse
from .dispatch import FUNCTIONS, METHODS, UFUNCS
from .explain import explain, locate
from .spans import caret_lines, span_of, user_frame
from .trace import Trace, active

__all__ = ["Proxy", "complete", "emit", "emit_many", "lift", "run"]

WeakType = type[bool] | type[int] | type[float]


class Proxy:
    """A traced array: an atom of the graph being built.

    ``weak`` is the type of a Python number that was traced as a scalar; such a value does not
    decide the dtype of a result, as NumPy 2 has it for Python numbers.
    """

    __slots__ = ("atom", "owner", "weak")
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]  # == works by element, as in NumPy

    def __init__(self, atom: Atom, owner: Trace, weak: WeakType | None = None) -> None:
        self.atom = atom
        self.owner = owner
        self.weak = weak

    # What is known without values.

    @property
    def type(self) -> TensorType:
        assert isinstance(self.atom.type, TensorType)
        return self.atom.type

    @property
    def shape(self) -> tuple[IntExpr, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype.numpy

    @property
    def ndim(self) -> int:
        return self.type.rank

    @property
    def size(self) -> IntExpr:
        return self.type.size

    @property
    def itemsize(self) -> int:
        return self.type.dtype.bytes

    @property
    def nbytes(self) -> IntExpr:
        return self.type.size * self.type.dtype.bytes

    @property
    def device(self) -> str:
        return "cpu"

    def __len__(self) -> int:
        if not self.shape:
            _fail(LoopwrightTypeError("len() of a traced scalar"), self)
        length = self.shape[0]
        if isinstance(length, Dim):
            _fail(
                LoopwrightTypeError(
                    f"len() is an int, and the first size is symbolic: {length}", hint="x.shape[0]"
                ),
                self,
            )
        return length

    def __repr__(self) -> str:
        name, origin = self.owner.origins.get(self.atom, ("", ""))
        what = f" {name}" if name else ""
        return f"<traced{what}: {self.type.short}{', ' + origin if origin else ''}>"

    def __format__(self, spec: str) -> str:
        return format(repr(self), "")

    # NumPy's protocols.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        implementation = UFUNCS.get(ufunc)
        if implementation is None:
            _fail(misuse.unknown_function(ufunc.__name__), *inputs)
        if any(o is not None for o in _as_tuple(kwargs.pop("out", None))):
            _fail(misuse.out_argument(f"np.{ufunc.__name__}"), *inputs)
        if method != "__call__":
            return run(ufunc.__name__, _ufunc_method(ufunc, method, inputs), inputs, kwargs)
        return run(ufunc.__name__, implementation, inputs, kwargs)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        implementation = FUNCTIONS.get(function)
        if implementation is None:
            _fail(misuse.unknown_function(_public_name(function)), *args)
        if kwargs.get("out") is not None:
            _fail(misuse.out_argument(f"np.{function.__name__}"), *args)
        return run(function.__name__, implementation, args, kwargs)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        _fail(misuse.array_needed(), self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return METHODS["__array_namespace__"](self)

    # What Python asks for and tracing cannot give.

    def __bool__(self) -> bool:
        params = self.owner.builder.params
        types = {p.name: p.type for p in params}
        scalars = [n for n, t in types.items() if isinstance(t, TensorType) and t.rank == 0]
        _fail(misuse.branch(scalars), self)

    def __float__(self) -> float:
        _fail(misuse.number_needed("float", self._name()), self)

    def __int__(self) -> int:
        _fail(misuse.number_needed("int", self._name()), self)

    def __complex__(self) -> complex:
        _fail(misuse.number_needed("complex", self._name()), self)

    def __index__(self) -> int:
        _fail(misuse.size_needed(self._name()), self)

    def item(self, *args: int) -> NoReturn:
        _fail(misuse.number_needed("item", self._name()), self)

    def tolist(self) -> NoReturn:
        _fail(misuse.number_needed("tolist", self._name()), self)

    def __setitem__(self, key: Any, value: Any) -> None:
        _fail(misuse.assignment(), self)

    def __iter__(self) -> Iterator[Proxy]:
        if not self.shape:
            _fail(misuse.iteration("a traced scalar cannot be iterated over"), self)
        if isinstance(self.shape[0], Dim):
            _fail(misuse.iteration(f"the number of rows is symbolic: {self.shape[0]}"), self)
        return (self[row] for row in range(self.shape[0]))

    def __contains__(self, value: object) -> bool:
        _fail(misuse.branch(()), self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that are probed for
            raise AttributeError(name)
        if name in METHODS:
            return self._method(name)
        _fail(misuse.attribute_missing(name, [n for n in dir(self) if n[0] != "_"]), self)

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
    def real(self) -> Proxy:
        return self

    @property
    def flat(self) -> Proxy:
        return self._method("ravel")()

    def __getitem__(self, key: Any) -> Proxy:
        return self._method("__getitem__")(key)

    def _method(self, name: str) -> Callable[..., Any]:
        implementation = METHODS[name]

        def method(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("out") is not None:
                _fail(misuse.out_argument(name), self)
            return run(name, implementation, (self, *args), kwargs)

        return method

    def _name(self) -> str | None:
        """The name of the argument this is, if it is one."""
        name, origin = self.owner.origins.get(self.atom, ("", ""))
        return name if origin.startswith("argument ") else None


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _public_name(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", "") or ""
    inner = module.removeprefix("numpy.") if module.startswith("numpy.") else ""
    return f"{inner}.{function.__name__}" if inner in ("linalg", "fft") else function.__name__


def _operator(ufunc: np.ufunc, *operands: Any) -> Any:
    """An operator's symbol applied: NumPy's ufunc, but Python numbers stay Python numbers."""
    if not all(
        isinstance(o, Proxy | bool | int | float | np.ndarray | np.generic) for o in operands
    ):
        if any(isinstance(o, complex | list | tuple | str) or o is None for o in operands):
            return run(ufunc.__name__, UFUNCS[ufunc], operands)
        return NotImplemented
    result = run(ufunc.__name__, UFUNCS[ufunc], operands)
    if all(isinstance(o, bool | int | float) or getattr(o, "weak", None) for o in operands):
        kind: WeakType = {"b": bool, "f": float}.get(result.type.dtype.kind, int)
        return Proxy(result.atom, result.owner, kind)
    return result


_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
_COMPARISON = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _add_operators() -> None:
    for name, ufunc in {**_BINARY, **_COMPARISON}.items():
        setattr(Proxy, f"__{name}__", lambda x, y, ufunc=ufunc: _operator(ufunc, x, y))
    for name, ufunc in _BINARY.items():
        setattr(Proxy, f"__r{name}__", lambda x, y, ufunc=ufunc: _operator(ufunc, y, x))
    for name, ufunc in _UNARY.items():
        setattr(Proxy, f"__{name}__", lambda x, ufunc=ufunc: _operator(ufunc, x))


_add_operators()


def _ufunc_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    """``np.add.reduce`` and the like; ``where=`` and other methods are not there."""
    implementation = METHODS.get(f"{ufunc.__name__}.{method}") or METHODS.get(f"ufunc.{method}")
    if implementation is None:
        _fail(misuse.unknown_function(f"{ufunc.__name__}.{method}"), *inputs)
    if f"{ufunc.__name__}.{method}" in METHODS:
        return implementation
    return functools.partial(implementation, ufunc)


def _proxies(values: Any) -> Iterator[Any]:
    """The operands among arguments: arrays, also those inside lists and tuples."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _atom_of(value: Any) -> Atom | None:
    """The atom of an operand for a message; captured arrays have theirs by now."""
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
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Call ``function`` for the user, who wrote ``operation``; errors get the user's line."""
    trace = active()
    if trace is None:
        _fail_leaked(args)
    if trace.span is not None:  # called by one of our own functions
        return function(*args, **(kwargs or {}))
    trace.span = trace.here()
    try:
        return function(*args, **(kwargs or {}))
    except LoopwrightError as error:
        operands = [*_proxies(args), *_proxies((kwargs or {}).values())]
        explain(error, trace, operation, [_atom_of(o) for o in operands])
        raise
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        raise complete(  # the arguments do not fit our function's parameters
            UnsupportedError(str(error).replace(f"{function.__name__}()", operation)), trace
        ) from None
    finally:
        trace.span = None


def complete(error: LoopwrightError, trace: Trace | None) -> LoopwrightError:
    """``error`` with the user's line, of the running ``trace`` or of a call outside of any."""
    if trace is not None:
        locate(error, trace)
    else:
        frame = user_frame()
        if frame is not None:
            error.span = span_of(frame)
            error.source = caret_lines(error.span)
    return error


def _fail(error: LoopwrightError, *operands: Any) -> NoReturn:
    """Raise ``error`` at the user's place, with notes about ``operands``."""
    trace = active()
    if trace is None:
        _fail_leaked(operands)
    explain(error, trace, "", [_atom_of(o) for o in _proxies(operands) if isinstance(o, Proxy)])
    raise error


def _fail_leaked(values: Any) -> NoReturn:
    stray = next(v for v in _proxies(values) if isinstance(v, Proxy))
    name, _ = stray.owner.origins.get(stray.atom, ("", ""))
    raise complete(misuse.leaked(name or None, stray.owner.name), active())


def lift(value: Any, dtype: DType | None = None) -> Proxy:
    """``value`` as a proxy of the running trace, cast to ``dtype`` if one is given.

    Arrays become constants named after their variables; Python numbers become scalars. Raises
    LoopwrightTypeError for anything else, and for proxies of another trace.
    """
    trace = active()
    if trace is None:
        _fail_leaked((value,))
    if isinstance(value, Proxy):
        if value.owner is not trace:
            _fail_leaked((value,))
        if dtype is None or value.type.dtype == dtype:
            return value
        return Proxy(trace.cast(value.atom, dtype), trace)
    if isinstance(value, np.ndarray):
        misuse.refuse_subclass(value)
        _check_dtype(value)
        return Proxy(_maybe_cast(trace, trace.capture(value), dtype), trace)
    if isinstance(value, np.generic):
        _check_dtype(value)
        return Proxy(Constant(np.asarray(value, None if dtype is None else dtype.numpy)), trace)
    if isinstance(value, bool | int | float):
        return Proxy(_number(value, dtype), trace, None if dtype else type(value))
    if isinstance(value, list | tuple):
        return lift(_array_of(value), dtype)
    raise LoopwrightTypeError(f"an array or a number is needed, not {_described(value)}")


def _maybe_cast(trace: Trace, atom: Atom, dtype: DType | None) -> Atom:
    return atom if dtype is None else trace.cast(atom, dtype)


def _check_dtype(value: Any) -> None:
    try:
        dtype_of(value.dtype)
    except TypeError as error:
        raise misuse.unsupported_dtype(error) from None


def _number(value: bool | int | float, dtype: DType | None) -> Constant:
    target = dtype.numpy if dtype is not None else None
    if dtype is not None and dtype.is_integer and isinstance(value, int):
        info = np.iinfo(dtype.numpy)
        if not info.min <= value <= info.max:
            raise LoopwrightValueError(f"the Python int {value} does not fit {dtype}")
    try:
        array = np.asarray(value, target)
        _check_dtype(array)
    except OverflowError:
        raise LoopwrightValueError(f"the Python int {value} does not fit int64") from None
    return Constant(array)


def _array_of(values: list[Any] | tuple[Any, ...]) -> Any:
    """A nested list as one array: of numbers at once, of traced parts by stacking."""
    if any(isinstance(v, Proxy) for v in values):
        return FUNCTIONS[np.stack](values)
    if any(isinstance(v, list | tuple) for v in values):
        return FUNCTIONS[np.stack]([_array_of(v) for v in values])
    misuse.refuse_subclass(values)
    return np.asarray(values)


def _described(value: object) -> str:
    return f"{value!r}" if value is None or isinstance(value, str) else f"a {type(value).__name__}"


def emit(name: str, *operands: Any, **attrs: Any) -> Proxy:
    """Apply the graph operator ``name`` to proxies (or what ``lift`` takes)."""
    proxies = [lift(o) for o in operands]
    trace = active()
    assert trace is not None
    return Proxy(trace.emit(name, [p.atom for p in proxies], attrs), trace)


def emit_many(name: str, *operands: Any, **attrs: Any) -> list[Proxy]:
    """Apply an operator whose result is a tuple; its fields."""
    trace = active()
    assert trace is not None
    result = trace.emit(name, [lift(o).atom for o in operands], attrs)
    assert isinstance(result.type, TupleType)
    count = len(result.type.fields)
    return [Proxy(trace.builder.get_item(result, i, span=trace.span), trace) for i in range(count)]

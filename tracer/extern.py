"""``lw.extern``: functions that are not compiled, called from those that are."""

from __future__ import annotations

import ctypes
import functools
import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from ..ir.dtype import dtype_of
from ..ir.errors import LoopwrightTypeError
from ..ir.graph.types import TensorType
from ..ir.library.registry import TABLE, ArrayType, LibraryFunction, Typed, Values, register
from .core.argument_specs import DTypeSpec, Spec
from .core.emitting import call_library, lift
from .core.proxy import Proxy, run

Function: TypeAlias = Callable[..., Any]
Results: TypeAlias = Any
"""A spec, a tuple of them, or a function that makes these of the specs of the operands."""

_NATIVE: Any = ctypes.CFUNCTYPE(None).__base__


@overload
def extern(
    function: None = None, *, results: Results, into: bool = False, name: str | None = None
) -> Callable[[Function], Extern]: ...


@overload
def extern(
    function: Function, *, results: Results, into: bool = False, name: str | None = None
) -> Extern: ...


def extern(
    function: Function | None = None,
    *,
    results: Results,
    into: bool = False,
    name: str | None = None,
) -> Extern | Callable[[Function], Extern]:
    """Returns ``function`` as one that compiled functions call as it is, on arrays of NumPy's.

    Its positional arguments are arrays, its keyword arguments static: numbers, strings, bools, None
    and tuples of them. ``results`` are the shapes and dtypes of what it returns: ``lw.f64[3]``, a
    tuple of such specs, or a function that makes them of the specs of the arrays (and the keyword
    arguments), which have ``shape`` and ``dtype``.

    The function gets copies of the arrays. With ``into=True`` it gets the arrays themselves, which
    it must neither write nor keep, and behind them those for its results, which it has to fill: no
    bytes are copied. A function of ``ctypes`` is called with the addresses of all of these, then
    with the values of the keyword arguments.

    What it computes may depend on nothing but its arguments: equal calls may be made once, in
    another order, before a loop that repeats them, or not at all if nobody needs the result. It
    runs on the caller's thread, with the GIL; it may be called in loops and branches. Its
    exceptions are those of the compiled function. A saved program finds it by its ``name``
    (module and qualified name, if none is given), under which it has to be declared before.

    Called on arrays outside of a compiled function, it is the function itself. Raises
    LoopwrightTypeError if the function returns something else than ``results`` says.

    >>> import numpy as np, loopwright as lw
    >>> @lw.extern(results=lambda x: x)
    ... def smooth(x):
    ...     return np.convolve(x, [0.25, 0.5, 0.25], "same")
    >>> @lw.compile
    ... def f(x):
    ...     return smooth(x * 4) + 1
    >>> f(np.array([0.0, 1.0, 0.0]))
    array([2., 3., 2.])
    """
    if function is None:
        return lambda given: Extern(given, results, into, name)
    return Extern(function, results, into, name)


class Extern:
    """A function that compiled ones call as it is; ``lw.extern`` makes it."""

    def __init__(self, function: Function, results: Results, into: bool, name: str | None) -> None:
        native = isinstance(function, _NATIVE)
        self._function = _by_address(function) if native else function
        self._results = results
        self._into = into or native
        self.name = name or _free_name(function)
        if not native:
            functools.update_wrapper(self, function)
        doc = inspect.getdoc(function) or "A function of the user's."
        register(LibraryFunction(self.name, doc, self._rule, self._bind))

    def __repr__(self) -> str:
        return f"<extern {self.name}>"

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        """Calls the function, or emits its call if an array is traced."""
        if any(isinstance(a, Proxy) for a in arrays):
            return run(self.name, self._emitted, arrays, options)
        if not self._into:
            return self._function(*arrays, **options)
        operands = [np.asarray(a) for a in arrays]
        made = TABLE[self.name].allocated(operands, tuple(options.items()))
        return made if self._is_tuple(operands, options) else made[0]

    def _emitted(self, *arrays: Any, **options: Any) -> Any:
        for name, value in options.items():
            if not _is_static(value):
                raise LoopwrightTypeError(
                    f"{self.name}: {name} is an option, a number, string, bool, None or a tuple of "
                    f"them, not {type(value).__name__}",
                    hint="an array as a positional argument",
                )
        operands = [lift(a) for a in arrays]
        results = call_library(self.name, *operands, **options)
        return tuple(results) if self._is_tuple(operands, options) else results[0]

    def _specs(self, operands: Sequence[Typed], options: Mapping[str, Any]) -> Any:
        if isinstance(self._results, Spec | DTypeSpec | list | tuple):
            return self._results
        assert callable(self._results)
        given = [Spec(TensorType(tuple(o.shape), dtype_of(o.dtype))) for o in operands]
        return self._results(*given, **options)

    def _is_tuple(self, operands: Sequence[Any], options: Mapping[str, Any]) -> bool:
        return isinstance(self._specs(operands, options), list | tuple)

    def _rule(self, operands: Sequence[Typed], options: Mapping[str, Any]) -> Sequence[ArrayType]:
        specs = self._specs(operands, options)
        types: list[ArrayType] = []
        for spec in specs if isinstance(specs, list | tuple) else [specs]:
            if not isinstance(spec, Spec | DTypeSpec):
                raise LoopwrightTypeError(
                    f"results are specs, not {spec!r}", hint="results=lw.f64[3]"
                )
            types.append(ArrayType(spec.type.shape, spec.type.dtype))
        return types

    def _bind(self, options: Mapping[str, Any], count: int) -> Values:
        return functools.partial(self._fill if self._into else self._copy, options, count)

    def _fill(self, options: Mapping[str, Any], _count: int, /, *arrays: Any) -> None:
        """Lets the function write into the arrays of its results."""
        try:
            self._function(*arrays, **options)
        except BaseException as error:
            # Frames would keep arrays, whose memory is used again.
            following = error.__traceback__ and error.__traceback__.tb_next
            traceback.clear_frames(following)
            raise

    def _copy(self, options: Mapping[str, Any], count: int, /, *arrays: Any) -> None:
        """Copies what the function returns into the arrays of its results."""
        operands, targets = [a.copy() for a in arrays[:count]], arrays[count:]
        returned = self._function(*operands, **options)
        one = not isinstance(self._specs(operands, options), list | tuple)
        values = [np.asarray(r) for r in ([returned] if one else returned)]
        wanted = [(a.shape, a.dtype) for a in targets]
        if [(a.shape, a.dtype) for a in values] != wanted:
            raise LoopwrightTypeError(
                f"{self.name} returned {_types(values)}, but its results= say {_types(targets)}"
            )
        for target, value in zip(targets, values, strict=True):
            target[...] = value


def _types(arrays: Sequence[Any]) -> str:
    return ", ".join(f"{a.dtype}[{', '.join(map(str, a.shape))}]" for a in arrays) or "nothing"


def _is_static(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_static, value))
    plain = value is None or isinstance(value, bool | int | float | str)
    return plain and not isinstance(value, Proxy)


def _free_name(function: Function) -> str:
    """Returns the name of a function that no other has."""
    module = getattr(function, "__module__", None) or "native"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", "function")
    base = free = f"{module}.{name}"
    count = 1
    while free in TABLE:
        count += 1
        free = f"{base}.{count}"
    return free


def _by_address(function: Function) -> Function:
    """Returns a function of ``ctypes`` as one that takes arrays."""

    def call(*arrays: Any, **options: Any) -> None:
        pointers = (ctypes.c_void_p(a.ctypes.data) for a in arrays)
        function(*pointers, *options.values())

    return call

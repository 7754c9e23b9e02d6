"""``np.zeros(n)`` in a traced function, whose array is to take traced values; ``np.asarray(x)``.

NumPy's functions that make arrays have no traced operand, so what they give is an array of NumPy's:
a constant, which is right as long as it is only read. A function that writes traced values into
such an array, or at traced indices, is traced again within ``replaced``: then these functions give
traced arrays, where the traced function itself calls them as ``np.zeros``. So is one that hands
traced arrays to functions that want their values (``converting``).

As in ``receivers``, what is changed is global: other threads, and the code of libraries, get
NumPy's own arrays as ever.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..ir.errors import LoopwrightError
from .converting import CONVERTERS, SUBSCRIPTED, has_traced, joined_by, vectorized
from .creation import (
    arange,
    empty,
    eye,
    full,
    identity,
    linspace,
    ones,
    tri,
    tril_indices,
    triu_indices,
    zeros,
)
from .dispatch import implementation_of
from .emitting import copied, lift, one_array
from .padding import as_strided
from .proxy import Proxy, run
from .sizes import has_sizes
from .trace import active

_lock = threading.Lock()
_depth = 0


@contextmanager
def replaced() -> Generator[None, None, None]:
    """Within it the functions of NumPy that convert to arrays take traced ones, for the thread that
    traces, and those that make arrays make traced ones if that is ``asked``. Threads that trace at
    the same time share one change."""
    global _depth
    entered = False
    try:
        with _lock:
            _depth += 1
            entered = True
            if _depth == 1:
                _replace(_ours())
        yield
    finally:
        if entered:
            with _lock:
                _depth -= 1
                if not _depth:
                    _replace({**_NUMPYS, "__call__": _VECTORIZED, "len": _LEN})


def _replace(functions: dict[str, Any]) -> None:
    for name, function in functions.items():
        setattr(_OWNERS.get(name, np), name, function)


_FILLED: dict[str, Any] = {"zeros": 0, "ones": 1, "empty": 0}
_LIKE: dict[str, Any] = {"zeros_like": 0, "ones_like": 1, "empty_like": 0}
_COPIES = ("arange", "array", "copy", "eye", "full", "full_like", "identity", "linspace")
_SIZED = (
    *("broadcast_to", "indices", "prod", "repeat", "reshape", "resize", "roll", "tile", "tri"),
    *("tril_indices", "triu_indices"),
)
"""Functions that take sizes, and may be called without any traced array."""
_OF_LISTS = (
    *("all", "any", "amax", "amin", "argmax", "argmin", "argsort", "average", "clip", "cumprod"),
    *("cumsum", "diff", "max", "mean", "median", "min", "prod", "ptp", "round", "sort", "std"),
    *("sum", "transpose", "var"),
)
"""Functions of an array that may be a list of arrays, in which NumPy does not look for traced
ones."""
_CONVERTERS = {**CONVERTERS, "as_strided": as_strided}
_OWNERS: dict[str, Any] = {
    "__call__": np.vectorize,
    "as_strided": np.lib.stride_tricks,
    "len": builtins,
}
_NUMPYS = {
    name: vars(_OWNERS.get(name, np))[name]
    for name in (*_FILLED, *_LIKE, *_COPIES, *_SIZED, *_OF_LISTS, *_CONVERTERS, *SUBSCRIPTED)
}
_LEN = len
_VECTORIZED = np.vectorize.__call__


@functools.cache
def _ours() -> dict[str, Any]:
    made: dict[str, Any] = {
        name: _Subscripted(name, value) if name in SUBSCRIPTED else _creator(name, value)
        for name, value in _NUMPYS.items()
    }
    return {**made, "__call__": _vectorize, "len": _len}


_CREATION = {
    f.__name__: f
    for f in (
        *(arange, empty, eye, full, identity, linspace, ones, tri, tril_indices),
        *(triu_indices, zeros),
    )
}


def _creator(name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    converter, makes = _CONVERTERS.get(name), name in (*_FILLED, *_LIKE, *_COPIES)
    sized = _CREATION.get(name) or implementation_of(otherwise)

    @functools.wraps(otherwise)
    def create(*args: Any, **kwargs: Any) -> Any:
        trace = active()
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if trace is None or _is_library(caller):
            return otherwise(*args, **kwargs)
        if name == "prod" and len(args) == 1 and not kwargs and has_sizes(args):
            return math.prod(args[0]) * np.int64(1)
        if converter is None and sized is not None and has_sizes((args, kwargs)):
            return run(name, sized, args, kwargs)
        if name in _OF_LISTS and args and isinstance(args[0], list | tuple) and has_traced(args[0]):
            args = (run("array", CONVERTERS["array"], args[:1], {}), *args[1:])
        if has_traced((*args, *kwargs.values())):
            return run(name, converter, args, kwargs) if converter else otherwise(*args, **kwargs)
        if not (makes and "creating" in trace.asked):
            return otherwise(*args, **kwargs)
        return run(name, _made, (name, otherwise, args, kwargs))

    return create


class _Subscripted:
    """``np.r_`` or ``np.c_``, which may be indexed by traced arrays."""

    def __init__(self, name: str, otherwise: Any) -> None:
        self.name, self.otherwise = name, otherwise

    def __getitem__(self, key: Any) -> Any:
        if active() is None or not has_traced((key,)):
            return self.otherwise[key]
        return run(f"np.{self.name}", joined_by(self.name), (key,))


def _vectorize(self: Any, *args: Any, **kwargs: Any) -> Any:
    if active() is None or not has_traced((args, kwargs)):
        return _VECTORIZED(self, *args, **kwargs)
    return vectorized(self, args, kwargs)


def _len(x: Any) -> Any:
    of_many = type(x) is Proxy and active() is x.owner and isinstance(x.type.shape[0], Dim)
    return x.shape[0] if of_many else _LEN(x)


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in ("loopwright", "numpy")


def _made(
    name: str, otherwise: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Returns a traced array that holds what NumPy's function gives."""
    value: Any = _FILLED.get(name, _LIKE.get(name))
    if value is None:
        return _traced(otherwise(*args, **kwargs))
    try:
        # No memory is touched for it, however large it is.
        like = _NUMPYS["empty_like" if name in _LIKE else "empty"](*args, **kwargs)
        made = full(like.shape, value, like.dtype)
        return copied(made, "F") if like.flags.fnc else made
    except (LoopwrightError, TypeError):
        return otherwise(*args, **kwargs)


def _traced(array: Any) -> Any:
    """Returns a copy of ``array`` that may be written to; what cannot be traced as it is."""
    if not isinstance(array, np.ndarray):
        return array
    try:
        return one_array(copied(lift(array)))
    except LoopwrightError:
        return array

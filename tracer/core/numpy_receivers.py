"""``table[ids]`` and ``w.dot(x)``: arrays of NumPy's that are handed traced arguments.

NumPy asks neither ``__array_ufunc__`` nor ``__array_function__`` when one of its arrays is indexed,
or a method of it called: it wants the values of the argument. A function that did so is traced
again within ``receiving``, which puts functions of ours in the place of ``ndarray.__getitem__`` and
of the methods that traced arrays have, too. They look whether an argument is traced, and else call
NumPy's own; afterwards ``ndarray`` is as it was.

``ndarray`` is a type that Python code may not change. What is written here are its dictionary and
one pointer, ``mp_subscript``, which gets the function by which any class in Python has its
``__getitem__`` called. ``available`` compares both with what CPython says of them first.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .dispatch import METHODS
from .emitting import lift
from .proxy import Proxy
from .symbolic_sizes import has_sizes
from .trace import active

_MP_SUBSCRIPT = 5  # of the stable ABI's PyType_GetSlot
_AS_MAPPING = 11  # pointers from tp_name to tp_as_mapping in PyTypeObject

_lock = threading.Lock()
_depth = 0


class _Subscripted(np.ndarray[Any, Any]):
    """A class whose ``mp_subscript`` looks ``__getitem__`` up, as that of any class in Python."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key)


@functools.cache
def available() -> bool:
    """True if ``ndarray`` lies in memory as it is written to here."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return _slot().value == _slot_of(np.ndarray) != _slot_of(_Subscripted) and _is_writable()


def _slot_of(cls: type) -> int:
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
    return int(get(cls, _MP_SUBSCRIPT) or 0)


def _slot() -> ctypes.c_size_t:
    """Returns the place of ``ndarray``'s ``mp_subscript``."""
    word = ctypes.sizeof(ctypes.c_size_t)
    fields = id(np.ndarray) + object.__basicsize__ + word  # behind PyObject_VAR_HEAD
    mapping = ctypes.c_size_t.from_address(fields + _AS_MAPPING * word).value
    return ctypes.c_size_t.from_address(mapping + word)


def _is_writable() -> bool:
    place = ctypes.addressof(_slot())
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # a system that does not tell
        return False
    for line in lines:
        span, rights = line.split()[:2]
        first, _, last = span.partition("-")
        if int(first, 16) <= place < int(last, 16):
            return "w" in rights
    return False


@contextmanager
def receiving() -> Generator[None, None, None]:
    """Within it arrays of NumPy's take traced arguments, in the thread that traces.

    Threads that trace at the same time share one change; the last one to leave takes it back, also
    where it failed halfway or an interrupt came. Other threads index as ever, by a longer way.
    """
    global _depth
    entered = False
    try:
        with _lock:
            _depth += 1
            entered = True
            if _depth == 1:
                _change(_ours(), _slot_of(_Subscripted))
        yield
    finally:
        if entered:
            with _lock:
                _depth -= 1
                if not _depth:
                    _change(_NUMPYS, _SUBSCRIPT)


_NUMPYS = {n: f for n, f in vars(np.ndarray).items() if n == "__getitem__" or n[0] != "_"}
_SUBSCRIPT = _slot_of(np.ndarray)


def _change(methods: dict[str, Any], subscript: int) -> None:
    (entries,) = gc.get_referents(vars(np.ndarray))
    # Between the two either slot finds a function that works for all arrays.
    entries.update(methods)
    _slot().value = subscript
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(np.ndarray))  # its lookups are cached


@functools.cache
def _ours() -> dict[str, Any]:
    names = [n for n, f in _NUMPYS.items() if n in METHODS and callable(f)]
    return {name: _receiver(name, _NUMPYS[name]) for name in names}


def _receiver(name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(otherwise)
    def receive(*args: Any, **kwargs: Any) -> Any:
        trace = active()
        if trace is not None and _is_traced((*args[1:], *kwargs.values())):
            return lift(args[0])._method(name)(*args[1:], **kwargs)
        if (
            name == "copy"
            and trace is not None
            and "creating" in trace.asked
            and trace.span is None
        ):
            return lift(args[0])._method(name)(*args[1:], **kwargs)  # it is to be written
        return otherwise(*args, **kwargs)

    return receive


def _is_traced(values: Any) -> bool:
    """True if there is a traced array or a symbolic size among ``values``, or in a list, tuple or
    slice among them."""
    return has_sizes(values) or any(
        type(v) is Proxy
        or (isinstance(v, tuple | list) and _is_traced(v))
        or (isinstance(v, slice) and _is_traced((v.start, v.stop, v.step)))
        for v in values
    )

"""Builtin functions that call native entries, made with CPython's and NumPy's C interfaces.

The code reads the fields of ``ndarray`` objects and uses NumPy's C API table, as every extension
module does. ``available`` compares the fields with the values Python reports before any of it is
used. Where they differ (an interpreter with another object layout), ``Executable`` calls through
ctypes instead.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy._core._multiarray_umath import _ARRAY_API  # pyright: ignore

from ..llvm.link import LoadedObject, load_object
from ..llvm.store import stored_object
from ..target import Target
from .call_text import CALL_TEXT

Array = np.ndarray[Any, Any]

# fmt: off
_PYTHON_SYMBOLS = (
    "PyCapsule_GetPointer", "PyCapsule_New", "PyErr_Clear", "PyErr_NoMemory", "PyErr_SetString",
    "PyEval_RestoreThread", "PyEval_SaveThread", "PyExc_RecursionError", "PyList_New",
    "PyList_SetItem", "PyObject_CallNoArgs", "Py_DecRef", "Py_IncRef", "_Py_NoneStruct",
)
# fmt: on

# Indices into NumPy's C API table; they are part of its ABI and never change.
_NUMPY_SYMBOLS = {"PyArray_Type": 2, "PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}

METH_FASTCALL = 0x80


class ArrayFields(ctypes.Structure):
    """``PyArrayObject``, as far as native code reads it."""

    _fields_ = (
        ("refcount", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("sizes", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Context(np.ndarray[Any, Any]):
    """The ``self`` of a native call: the words it reads. ``kept`` holds the objects they point
    to."""

    kept: object = None


@functools.cache
def available() -> bool:
    """True if the interpreter has a GIL and lays out arrays the way native code reads them."""
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    if sys.implementation.name != "cpython" or not gil or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    samples = [np.zeros((2, 3), np.float32), np.zeros((5, 4), np.int64)[::2], np.ones((), bool)]
    samples[0].flags.writeable = False
    return all(_as_expected(a) for a in samples)


def _as_expected(array: Array) -> bool:
    fields = ArrayFields.from_address(id(array))
    interface = array.__array_interface__
    flags = 0x1 * array.flags.c_contiguous | 0x100 * array.flags.aligned
    flags |= 0x400 * array.flags.writeable
    return (
        fields.type == id(np.ndarray)
        and fields.rank == array.ndim
        and fields.data == interface["data"][0]
        and tuple(fields.sizes[: array.ndim]) == array.shape
        and tuple(fields.strides[: array.ndim]) == array.strides
        and fields.dtype == id(array.dtype)
        and fields.flags & 0x501 == flags
    )


@functools.cache
def native_code() -> LoadedObject:
    """Returns the code of ``call_text``; it is never unloaded, as results may outlive all else."""
    return load_forever(CALL_TEXT, "call path", _PYTHON_SYMBOLS)


def load_forever(
    text: str, label: str, python_symbols: Sequence[str], target: Target | None = None
) -> LoadedObject:
    """Returns loaded code that is never unloaded, and may call NumPy's C functions (``lw.np.``) and
    some of Python's."""
    symbols = {
        name: ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
        for name in python_symbols
    }
    table = _numpy_table()
    for name, index in _NUMPY_SYMBOLS.items():
        symbols[f"lw.np.{name}"] = table[index]
    code = load_object(stored_object(text, target or Target.baseline(), label), symbols)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return code


def _numpy_table() -> Any:
    make = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = make(("PyCapsule_GetPointer", ctypes.pythonapi))
    address = pointer(_ARRAY_API, None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_size_t))


@functools.cache
def _method(function: str, code: Callable[[], LoadedObject]) -> _MethodDef:
    doc = b"Runs on arrays that fit exactly. Returns a list of new arrays, or None if one does not."
    return _MethodDef(b"call", code().address(function), METH_FASTCALL, doc)


def make_call(
    context: Context, function: str = "lw_call", code: Callable[[], LoadedObject] = native_code
) -> Callable[..., Any]:
    """Returns a builtin function of native code, whose ``self`` is ``context``."""
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    new = make(("PyCFunction_NewEx", ctypes.pythonapi))
    return new(ctypes.addressof(_method(function, code)), context, None)

"""Calls of Python callables from native code: library functions on arrays in memory of a program.

``i32 @lw_library(ptr site, ptr pointers)`` takes the GIL, makes an array of each pointer, and calls
the site's callable with them. The status is 0, or RAISED: then the exception is set. ``site`` is an
array of int64::

    site   0 callable   1 operands   2 their specs
    spec   0 dtype object   1 rank   2 sizes   3 flags of the array

Where shapes are symbolic, ``i32 @lw_library_sized(ptr site, ptr pointers, ptr shapes)`` takes the
sizes of all axes, one operand after the other, instead of those of the site.

The arrays are views of memory that is used again, so a callable that keeps one is an error.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from .buffers import ArraySpec
from .call_text import RAISED
from .native_call import available, load_forever
from .status import keep_error

_DENSE, _WRITEABLE = 0x101, 0x400  # flags of an array: C order and aligned; may be written

KEPT_TEXT = (
    "a library function keeps an array that it was called with, whose memory is used again: "
    "keep a copy"
)

_PYTHON_SYMBOLS = (
    "PyErr_SetString",
    "PyExc_RuntimeError",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyObject_Vectorcall",
    "Py_DecRef",
    "Py_IncRef",
)

_HEAD = f"""
%Site = type {{ ptr, i64, ptr }}
%Spec = type {{ ptr, i64, ptr, i64 }}

@"lw.np.PyArray_Type" = external global i8
@PyExc_RuntimeError = external global ptr
@kept.text = internal constant [{len(KEPT_TEXT) + 1} x i8] c"{KEPT_TEXT}\\00"

declare ptr @"lw.np.PyArray_NewFromDescr"(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyErr_SetString(ptr, ptr)
declare void @PyGILState_Release(i32)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
"""

_CALL = f"""
define i32 @lw_library(ptr %site, ptr %pointers) {{
entry:
  %state = call i32 @PyGILState_Ensure()
  %callable = load ptr, ptr %site
  %count = load i64, ptr (%Site, ptr %site, i32 0, i32 1)
  %specs = load ptr, ptr (%Site, ptr %site, i32 0, i32 2)
  %arrays = alloca ptr, i64 %count
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %made ]
  %all = icmp eq i64 %n, %count
  br i1 %all, label %call, label %make
make:
  %spec = getelementptr %Spec, ptr %specs, i64 %n
  %dtype = load ptr, ptr %spec
  %rank = load i32, ptr (%Spec, ptr %spec, i32 0, i32 1)
  %sizes = load ptr, ptr (%Spec, ptr %spec, i32 0, i32 2)
  %flags = load i32, ptr (%Spec, ptr %spec, i32 0, i32 3)
  %data = load ptr, ptr (ptr, ptr %pointers, i64 %n)
  call void @Py_IncRef(ptr %dtype)
  %array = call ptr @"lw.np.PyArray_NewFromDescr"(ptr @"lw.np.PyArray_Type", ptr %dtype, i32 %rank,
                                                  ptr %sizes, ptr null, ptr %data, i32 %flags,
                                                  ptr null)
  %none = icmp eq ptr %array, null
  br i1 %none, label %drop, label %made
made:
  store ptr %array, ptr (ptr, ptr %arrays, i64 %n)
  %n.next = add i64 %n, 1
  br label %next
call:
  %answer = call ptr @PyObject_Vectorcall(ptr %callable, ptr %arrays, i64 %count, ptr null)
  br label %drop
drop:
  %number = phi i64 [ %n, %make ], [ %count, %call ]
  %result = phi ptr [ null, %make ], [ %answer, %call ]
  br label %each
each:
  %m = phi i64 [ 0, %drop ], [ %m.next, %release ]
  %kept = phi i1 [ false, %drop ], [ %kept.next, %release ]
  %done = icmp eq i64 %m, %number
  br i1 %done, label %leave, label %release
release:
  %old = load ptr, ptr (ptr, ptr %arrays, i64 %m)
  %references = load i32, ptr %old
  %held = icmp ugt i32 %references, 1
  %kept.next = or i1 %kept, %held
  call void @Py_DecRef(ptr %old)
  %m.next = add i64 %m, 1
  br label %each
leave:
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %out, label %fine
fine:
  call void @Py_DecRef(ptr %result)
  br i1 %kept, label %refuse, label %out
refuse:
  %type = load ptr, ptr @PyExc_RuntimeError
  call void @PyErr_SetString(ptr %type, ptr @kept.text)
  br label %out
out:
  %status = phi i32 [ {RAISED}, %leave ], [ 0, %fine ], [ {RAISED}, %refuse ]
  call void @PyGILState_Release(i32 %state)
  ret i32 %status
}}
"""


# The same with the shapes of the call.
_SIZED_CALL = (
    _CALL.replace(
        "@lw_library(ptr %site, ptr %pointers)",
        "@lw_library_sized(ptr %site, ptr %pointers, ptr %shapes)",
    )
    .replace(
        "  br label %next\nnext:\n",
        "  br label %next\nnext:\n  %sizes = phi ptr [ %shapes, %entry ], [ %sizes.next, %made ]\n",
        1,
    )
    .replace(
        "  %sizes = load ptr, ptr (%Spec, ptr %spec, i32 0, i32 2)\n",
        "",
    )
    .replace(
        "  %n.next = add i64 %n, 1\n",
        "  %n.next = add i64 %n, 1\n  %sizes.next = getelementptr i64, ptr %sizes, i32 %rank\n",
    )
)
_TEXT = _HEAD + _CALL + _SIZED_CALL


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Site:
    """A place in a program that calls ``call``; ``address`` is what native code is handed. It must
    live as long as the code."""

    call: Callable[..., None]
    operands: tuple[tuple[ArraySpec, bool], ...]
    address: int
    kept: object


def make_site(call: Callable[..., None], operands: Sequence[tuple[ArraySpec, bool]]) -> Site:
    """Returns a site for operands of some types, of which each is written or not."""
    specs = np.zeros((max(1, len(operands)), 4), np.int64)
    kept: list[object] = [call, specs]
    for row, (spec, written) in zip(specs, operands):
        sizes = np.array([s if isinstance(s, int) else -1 for s in spec.shape], np.int64)
        dtype = np.dtype(spec.dtype.type)  # the one object that arrays of that dtype refer to
        kept += [dtype, sizes]
        flags = _DENSE | _WRITEABLE * written
        row[:] = id(dtype), len(spec.shape), sizes.ctypes.data, flags
    words = np.array([id(call), len(operands), specs.ctypes.data, 0], np.int64)
    site = Site(call, tuple(operands), words.ctypes.data, (words, kept))
    _sites[site.address] = site
    return site


_sites: WeakValueDictionary[int, Site] = WeakValueDictionary()
"""The sites that live, by their address."""


@functools.cache
def symbols() -> Mapping[str, int]:
    """Returns the function that entries call, and its address."""
    if available():
        code = load_forever(_TEXT, "calls of libraries", _PYTHON_SYMBOLS)
        return {name: code.address(name) for name in ("lw_library", "lw_library_sized")}
    ways = {"lw_library": _portable, "lw_library_sized": _portable_sized}
    return {name: ctypes.cast(way, ctypes.c_void_p).value or 0 for name, way in ways.items()}


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t))
def _portable(address: int, pointers: Sequence[int]) -> int:
    """The same for interpreters whose calls go through ctypes."""
    shapes = [tuple(map(as_int, spec.shape)) for spec, _ in _sites[address].operands]
    return _called(_sites[address], pointers, shapes)


@ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_int64)
)
def _portable_sized(address: int, pointers: Sequence[int], sizes: Sequence[int]) -> int:
    """The same with the shapes of the call."""
    shapes: list[tuple[int, ...]] = []
    begin = 0
    for spec, _ in _sites[address].operands:
        shapes.append(tuple(sizes[begin : begin + len(spec.shape)]))
        begin += len(spec.shape)
    return _called(_sites[address], pointers, shapes)


def _called(site: Site, pointers: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> int:
    try:
        arrays: list[np.ndarray[Any, Any]] = []
        for n, ((spec, _), shape) in enumerate(zip(site.operands, shapes, strict=True)):
            nbytes = math.prod(shape) * spec.dtype.itemsize
            memory = memoryview((ctypes.c_char * nbytes).from_address(pointers[n]))
            arrays.append(np.frombuffer(memory, spec.dtype).reshape(shape))
        for array, (_, written) in zip(arrays, site.operands):
            array.flags.writeable = written
        site.call(*arrays)
    except BaseException as error:
        keep_error(error)
        return RAISED
    return 0

"""A watch over objects and arrays that others may write to: sums of their bytes, in native code.

``self`` of ``@lw_unchanged`` is an int64 array, its context::

    context   0 regions   1 the one before which the GIL is released   2 ... the regions
    region    0 address   1 bytes   2 their sum; that of a word is its value
              0 argument of a PAGEMAP_SCAN   1 minus its file   2 0

The regions of an array are the fields of the array object, its sizes and strides, and its memory;
those of other objects come from ``object_words``. The first region whose sum differs ends the
check, so that no pointer is followed that has changed. Only the memory of arrays is read without
the GIL: it stays where it is.

A sum takes in words of 64 bits, in 32 chains of their own: ``chain = mix(chain ^ word)``, where
``mix`` is invertible. So a change of one word always changes the sum, and others do but for a
chance of about 2 ** -64; exchanging words is a change.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..llvm.link import LoadedObject
from ..target import Target
from .native_call import ArrayFields, Context, available, load_forever, make_call

Array = np.ndarray[Any, Any]

LONG_BYTES = 1 << 20
"""Memory from which on other Python threads run while it is summed."""

PAGEMAP_SCAN = 0xC0606610
DICT_KEYS = 32  # where a dict has the pointers to its table of keys, and to values beside it

_CHAINS = 32


def _splat(value: int) -> str:
    return f"<{', '.join([f'i64 {value}'] * _CHAINS)}>"


def _mix(type_: str, name: str, constant: Callable[[int], str]) -> str:
    return f"""
declare {type_} @llvm.fshl.{name}({type_}, {type_}, {type_})
define internal {type_} @mix.{name}({type_} %chain, {type_} %word) alwaysinline {{
  %x = xor {type_} %chain, %word
  %high = lshr {type_} %x, {constant(29)}
  %t = xor {type_} %x, %high
  %p = mul {type_} %t, {constant(0x9E3779B1)}
  %r = call {type_} @llvm.fshl.{name}({type_} %p, {type_} %p, {type_} {constant(23)})
  ret {type_} %r
}}"""


_SEEDS = [0x9E3779B97F4A7C15 * (2 * n + 1) % (1 << 63) for n in range(_CHAINS)]
_TEXT = (
    _mix("i64", "i64", str)
    + _mix("<32 x i64>", "v32i64", _splat)
    + f"""
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8
declare void @Py_IncRef(ptr)
declare i32 @ioctl(i32, i64, ...)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @llvm.vector.reduce.add.v32i64(<32 x i64>)

define i64 @lw_sum(ptr %p, i64 %bytes) {{
entry:
  %end = and i64 %bytes, -256
  %none = icmp eq i64 %end, 0
  br i1 %none, label %words, label %block
block:
  %b = phi i64 [ 0, %entry ], [ %b.next, %block ]
  %a = phi <32 x i64> [ <{", ".join(f"i64 {seed}" for seed in _SEEDS)}>, %entry ], [ %n, %block ]
  %q = getelementptr i8, ptr %p, i64 %b
  %w = load <32 x i64>, ptr %q, align 1
  %n = call <32 x i64> @mix.v32i64(<32 x i64> %a, <32 x i64> %w)
  %b.next = add i64 %b, 256
  %more = icmp ult i64 %b.next, %end
  br i1 %more, label %block, label %fold
fold:  ; a bit of each chain has to reach all others before they are added
  %f1 = call <32 x i64> @mix.v32i64(<32 x i64> %n, <32 x i64> zeroinitializer)
  %f2 = call <32 x i64> @mix.v32i64(<32 x i64> %f1, <32 x i64> zeroinitializer)
  %f3 = call <32 x i64> @mix.v32i64(<32 x i64> %f2, <32 x i64> zeroinitializer)
  %f4 = call i64 @llvm.vector.reduce.add.v32i64(<32 x i64> %f3)
  br label %words
words:
  %i = phi i64 [ 0, %entry ], [ %end, %fold ], [ %i.next, %word ]
  %u = phi i64 [ 1, %entry ], [ %f4, %fold ], [ %u.next, %word ]
  %i.next = add i64 %i, 8
  %whole = icmp ule i64 %i.next, %bytes
  %word.p = getelementptr i8, ptr %p, i64 %i
  br i1 %whole, label %word, label %tail
word:
  %word.v = load i64, ptr %word.p, align 1
  %u.next = call i64 @mix.i64(i64 %u, i64 %word.v)
  br label %words
tail:
  %j = phi i64 [ %i, %words ], [ %j.next, %byte ]
  %v = phi i64 [ %u, %words ], [ %v.next, %byte ]
  %left = icmp ult i64 %j, %bytes
  br i1 %left, label %byte, label %done
byte:
  %byte.p = getelementptr i8, ptr %p, i64 %j
  %byte.8 = load i8, ptr %byte.p
  %byte.v = zext i8 %byte.8 to i64
  %v.next = call i64 @mix.i64(i64 %v, i64 %byte.v)
  %j.next = add i64 %j, 1
  br label %tail
done:
  ret i64 %v
}}

define i64 @lw_table(ptr %dict, ptr %copy, i64 %most) {{
entry:
  %keys.p = getelementptr i8, ptr %dict, i64 {DICT_KEYS}
  %keys = load <2 x i64>, ptr %keys.p, align 8
  store <2 x i64> %keys, ptr %copy, align 8
  %table = load ptr, ptr %keys.p
  %sizes.p = getelementptr i64, ptr %table, i64 1
  %sizes = load i64, ptr %sizes.p
  %log.8 = lshr i64 %sizes, 8
  %log = and i64 %log.8, 255
  %indices = shl i64 1, %log
  %kind = and i64 %sizes, 16711680
  %hashes = icmp eq i64 %kind, 0
  %step = select i1 %hashes, i64 24, i64 16
  %count.p = getelementptr i64, ptr %table, i64 3
  %count = load i64, ptr %count.p
  %entries = mul i64 %count, %step
  %head = add i64 %indices, 32
  %bytes = add i64 %head, %entries
  %fits = icmp ule i64 %bytes, %most
  br i1 %fits, label %write, label %done
write:
  %place = getelementptr i8, ptr %copy, i64 16
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %table, i64 %bytes, i1 false)
  br label %done
done:
  ret i64 %bytes
}}

define ptr @lw_unchanged(ptr %self, ptr %arguments, i64 %count) {{
entry:
  %data.p = getelementptr i8, ptr %self, i64 {ArrayFields.data.offset}
  %words = load ptr, ptr %data.p
  %regions = load i64, ptr %words
  %last.p = getelementptr i64, ptr %words, i64 1
  %last = load i64, ptr %last.p
  br label %next
next:
  %held = phi ptr [ null, %entry ], [ %kept, %scan ], [ %kept, %word ], [ %kept, %sum ]
  %n = phi i64 [ 0, %entry ], [ %n.next, %scan ], [ %n.next, %word ], [ %n.next, %sum ]
  %end = icmp eq i64 %n, %regions
  br i1 %end, label %done, label %read
read:
  %long = icmp eq i64 %n, %last
  br i1 %long, label %release, label %compare
release:
  %thread = call ptr @PyEval_SaveThread()
  br label %compare
compare:
  %kept = phi ptr [ %held, %read ], [ %thread, %release ]
  %n.next = add i64 %n, 1
  %region = getelementptr {{ i64, i64, ptr, i64, i64 }}, ptr %words, i64 0, i32 2
  %address.p = getelementptr {{ ptr, i64, i64 }}, ptr %region, i64 %n
  %bytes.p = getelementptr i64, ptr %address.p, i64 1
  %before.p = getelementptr i64, ptr %address.p, i64 2
  %address = load ptr, ptr %address.p
  %bytes = load i64, ptr %bytes.p
  %before = load i64, ptr %before.p
  %pages = icmp slt i64 %bytes, 0
  br i1 %pages, label %scan, label %bytes.there
scan:
  %file.64 = sub i64 0, %bytes
  %file = trunc i64 %file.64 to i32
  %written = call i32 (i32, i64, ...) @ioctl(i32 %file, i64 {PAGEMAP_SCAN}, ptr %address)
  %clean = icmp eq i32 %written, 0
  br i1 %clean, label %next, label %done
bytes.there:
  %one = icmp eq i64 %bytes, 8
  br i1 %one, label %word, label %sum
word:
  %value = load i64, ptr %address, align 1
  %equal = icmp eq i64 %value, %before
  br i1 %equal, label %next, label %done
sum:
  %now = call i64 @lw_sum(ptr %address, i64 %bytes)
  %same = icmp eq i64 %now, %before
  br i1 %same, label %next, label %done
done:
  %left = phi ptr [ %held, %next ], [ %kept, %scan ], [ %kept, %word ], [ %kept, %sum ]
  %answer = select i1 %end, ptr @_Py_TrueStruct, ptr @_Py_FalseStruct
  %with = icmp eq ptr %left, null
  br i1 %with, label %leave, label %take
take:
  call void @PyEval_RestoreThread(ptr %left)
  br label %leave
leave:
  call void @Py_IncRef(ptr %answer)
  ret ptr %answer
}}
"""
)

_PYTHON_SYMBOLS = (
    *("PyEval_RestoreThread", "PyEval_SaveThread", "Py_IncRef", "ioctl"),
    *("_Py_FalseStruct", "_Py_TrueStruct"),
)


@functools.cache
def _code() -> LoadedObject:
    return load_forever(_TEXT, "watch over arrays", _PYTHON_SYMBOLS, Target.host())


@functools.cache
def _native(name: str, kind: Callable[..., Any], parameters: int) -> Callable[..., int]:
    """Returns a function of words; one of the kind PYFUNCTYPE keeps the GIL."""
    signature = kind(ctypes.c_int64, *[ctypes.c_size_t] * parameters)
    return signature(_code().address(name))


def memory_guard(
    arrays: Iterable[tuple[Array, bool]],
    objects: Sequence[tuple[int, int, int]] = (),
    watch: Callable[[Array], tuple[Sequence[tuple[int, int]], object] | None] | None = None,
) -> Callable[[], bool]:
    """Returns a function that says whether every array is what it was: in the same memory, of the
    same shape, with the same bytes; and whether the regions of ``objects`` have the values beside
    them. Arrays beside which stands False are fixed: nobody can write to their memory, so it is not
    summed. The arrays are kept alive. What ``watch`` has regions for is not summed: they say
    whether it was written, maybe with the bytes that it had.
    """
    watched = [*arrays]
    if not available():
        before = [*map(_fields, watched)]
        return lambda: [*map(_fields, watched)] == before
    regions = [region for array, _ in watched for region in _regions(array)]
    memory: list[tuple[int, int]] = []
    kept: list[object] = [watched]
    for array in (array for array, summed in watched if summed):
        seen = None if watch is None else watch(array)
        if seen is None:
            memory.append(_memory(array))
        else:
            regions += seen[0]
            kept.append(seen[1])
    long = sum(bytes_ for _, bytes_ in memory) >= LONG_BYTES
    first = len(objects) + len(regions)
    context = np.zeros(2 + 3 * (first + len(memory)), np.int64).view(Context)
    context[:2] = first + len(memory), first if long else -1
    rows = [*objects, *((*r, _sum_of(*r)) for r in (*regions, *memory))]
    context[2:].reshape(-1, 3)[:] = rows or 0
    context.kept = kept
    return make_call(context, "lw_unchanged", _code)


def table_of(held: dict[Any, Any]) -> list[int]:
    """Returns the words of a dict's pointers to its table and to values beside it, and a copy of
    the table, made while no other thread can change it."""
    copy, bytes_ = np.zeros(2, np.int64), sys.getsizeof(held)
    while 8 * len(copy) - 16 < bytes_:
        copy = np.zeros(2 + -(-bytes_ // 8), np.int64)
        table = _native("lw_table", ctypes.PYFUNCTYPE, 3)
        bytes_ = table(id(held), copy.ctypes.data, 8 * len(copy) - 16)
    return copy.tolist()


def sum_of_words(words: list[int]) -> int:
    """Returns the sum of a region that consists of these words."""
    copy = np.array(words, np.int64)
    return _sum_of(copy.ctypes.data, copy.nbytes)


def _sum_of(address: int, bytes_: int) -> int:
    if bytes_ < 0:  # a scan, which finds no page
        return 0
    if bytes_ == 8:
        return ctypes.c_int64.from_address(address).value
    return _native("lw_sum", ctypes.CFUNCTYPE, 2)(address, bytes_)


def _regions(array: Array) -> list[tuple[int, int]]:
    fields = ArrayFields.from_address(id(array))
    begin = ArrayFields.data.offset
    regions = [(id(array) + begin, ctypes.sizeof(ArrayFields) - begin)]
    sizes, strides = (
        ctypes.cast(p, ctypes.c_void_p).value or 0 for p in (fields.sizes, fields.strides)
    )
    nbytes = ctypes.sizeof(ctypes.c_ssize_t) * array.ndim
    shape = [(sizes, nbytes), (strides, nbytes)]
    return regions + ([(sizes, 2 * nbytes)] if strides == sizes + nbytes else shape)


def _memory(array: Array) -> tuple[int, int]:
    low, high = byte_bounds(array) if array.size else (0, 0)
    return int(low), int(high - low)


def _fields(item: tuple[Array, bool]) -> tuple[Any, ...]:
    """The same of an array for interpreters with another object layout."""
    array, summed = item
    memory = _memory(array)
    return memory, array.shape, array.strides, array.dtype, summed and _sum_of(*memory)

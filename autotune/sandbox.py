"""Native code that is not trusted yet, run in a copy of this process.

::

    this process        operands, a list of operations  ->  clone  ->  what the copy reported
    the copy of it                                          fills, calls, compares, copies out

The copy has all memory of this process, copied on write, and nothing it does reaches back but what
it copies to the shared report: a wrong kernel may write anywhere, crash, or run for ever (a timer
ends it). The copy is made by the system call and runs nothing but the native operations below, so
that locks that other threads hold at that moment do not matter; it is no child that ``os.wait`` of
the program could meet, and ends without a signal to it. Copying takes a millisecond or two.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..codegen.llvm.engine import compile_object
from ..codegen.llvm.link import LoadedObject, load_object
from ..codegen.target import Target
from .guarded import GARBAGE
from .harness import soiling

__all__ = [
    "Arena",
    "Copy",
    "Op",
    "Outcome",
    "call",
    "choose",
    "copy",
    "fill",
    "gather",
    "protect",
    "same",
    "symbols",
    "view",
    "written",
]

_SOILED_STACK = 64 * 1024
_PATIENCE = 20
"""Times the limit in processor time that may pass on the clock: a busy machine."""

_TEXT = f"""
declare i64 @syscall(i64, ...)
declare i32 @prctl(i32, ...)
declare i32 @setrlimit(i32, ptr)
declare i32 @setitimer(i32, ptr, ptr)
declare ptr @signal(i32, ptr)
declare ptr @__errno_location()
declare ptr @memset(ptr, i32, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @memmem(ptr, i64, ptr, i64)

@garbage = internal constant [64 x i8] c"{chr(GARBAGE) * 64}", align 64
@faults = internal constant [9 x i32] [i32 4, i32 5, i32 6, i32 7, i32 8, i32 11, i32 14, i32 27,
                                       i32 31]
@nothing = internal constant [2 x i64] zeroinitializer

define internal void @soil_stack() noinline {{
  %room = alloca [{_SOILED_STACK} x i8]
  %r = call ptr @memset(ptr %room, i32 {GARBAGE}, i64 {_SOILED_STACK})
  call void asm sideeffect "", "r,~{{memory}}"(ptr %room)
  ret void
}}

define internal void @gather(ptr %to, ptr %from, ptr %places, i64 %n, i64 %size) {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %p = getelementptr i64, ptr %places, i64 %i
  %place = load i64, ptr %p
  %at = mul i64 %place, %size
  %q = getelementptr i8, ptr %from, i64 %at
  %there = mul i64 %i, %size
  %t = getelementptr i8, ptr %to, i64 %there
  %r = call ptr @memcpy(ptr %t, ptr %q, i64 %size)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}

; Operations: six words each. %status has a word for each: 1 done, 2 done and found false.
define internal void @run(ptr %ops, i64 %n, ptr %status) {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %o = getelementptr [6 x i64], ptr %ops, i64 %i
  %code = load i64, ptr %o
  %ap = getelementptr i64, ptr %o, i64 1
  %a = load ptr, ptr %ap
  %bp = getelementptr i64, ptr %o, i64 2
  %b = load i64, ptr %bp
  %cp = getelementptr i64, ptr %o, i64 3
  %c = load i64, ptr %cp
  %dp = getelementptr i64, ptr %o, i64 4
  %d = load i64, ptr %dp
  %ep = getelementptr i64, ptr %o, i64 5
  %e = load i64, ptr %ep
  %b.ptr = inttoptr i64 %b to ptr
  %c.ptr = inttoptr i64 %c to ptr
  switch i64 %code, label %done [ i64 0, label %fill   i64 1, label %call   i64 2, label %same
                                  i64 3, label %copy   i64 4, label %gather i64 5, label %written
                                  i64 6, label %choose ]
fill:
  %byte = trunc i64 %c to i32
  %f = call ptr @memset(ptr %a, i32 %byte, i64 %b)
  br label %done
call:
  call void @soil_stack()
  call void asm sideeffect "@SOIL@", "r,@CLOBBERED@"(ptr @garbage)
  call void %a(ptr %b.ptr)
  br label %done
same:
  %value = trunc i64 %c to i8
  %first = load i8, ptr %a
  %begins = icmp eq i8 %first, %value
  %behind = getelementptr i8, ptr %a, i64 1
  %others = sub i64 %b, 1
  %order = call i32 @memcmp(ptr %a, ptr %behind, i64 %others)
  %equal = icmp eq i32 %order, 0
  %right = and i1 %begins, %equal
  br label %done
copy:
  %m = call ptr @memcpy(ptr %a, ptr %b.ptr, i64 %c)
  br label %done
gather:
  call void @gather(ptr %a, ptr %b.ptr, ptr %c.ptr, i64 %d, i64 %e)
  br label %done
written:
  %left = call ptr @memmem(ptr %a, i64 %b, ptr @garbage, i64 %c)
  %all = icmp eq ptr %left, null
  br label %done
choose:
  store ptr %a, ptr @turns
  store i64 %b, ptr @turn_count
  store i64 %c, ptr @loops_before
  br label %done
done:
  %held = phi i1 [ true, %body ], [ true, %fill ], [ true, %call ], [ %right, %same ],
                 [ true, %copy ], [ true, %gather ], [ %all, %written ],
                 [ true, %choose ]
  %word = select i1 %held, i64 1, i64 2
  %s = getelementptr i64, ptr %status, i64 %i
  store volatile i64 %word, ptr %s
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}}

@turns = internal global ptr null
@turn_count = internal global i64 0
@loops_before = internal global i64 0

; A parallel loop, its turns one by one from the last to the first; only some if they were chosen,
; and so many loops have been run before.
define void @lw_backwards(ptr %fn, ptr %context, i64 %n) {{
entry:
  %chosen = load i64, ptr @turn_count
  %loops = load i64, ptr @loops_before
  %fewer = sub i64 %loops, 1
  store i64 %fewer, ptr @loops_before
  %none = icmp eq i64 %chosen, 0
  %early = icmp sgt i64 %loops, 0
  %all = or i1 %none, %early
  br i1 %all, label %head, label %some
some:
  %left = phi i64 [ %chosen, %entry ], [ %k, %one ]
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %one, label %done
one:
  %k = sub i64 %left, 1
  %list = load ptr, ptr @turns
  %place = getelementptr i64, ptr %list, i64 %k
  %turn = load i64, ptr %place
  %then = add i64 %turn, 1
  call void %fn(ptr %context, i64 %turn, i64 %then)
  br label %some
head:
  %end = phi i64 [ %n, %entry ], [ %begin, %body ]
  %more = icmp sgt i64 %end, 0
  br i1 %more, label %body, label %done
body:
  %begin = sub i64 %end, 1
  call void %fn(ptr %context, i64 %begin, i64 %end)
  br label %head
done:
  ret void
}}

define i64 @lw_one_thread() {{
  ret i64 1
}}

; 56 clone, 61 wait4 (of every kind of child), 14 rt_sigprocmask, 231 exit_group.
define i64 @lw_sandbox(ptr %ops, i64 %n, ptr %status, ptr %timer, ptr %clock) {{
entry:
  %pid = call i64 (i64, ...) @syscall(i64 56, i64 0, i64 0, i64 0, i64 0, i64 0)
  %child = icmp eq i64 %pid, 0
  br i1 %child, label %inside, label %outside
inside:
  %r0 = call i32 (i32, ...) @prctl(i32 1, i64 9, i64 0, i64 0, i64 0)
  %r1 = call i32 @setrlimit(i32 4, ptr @nothing)
  br label %default
default:
  %i = phi i64 [ 0, %inside ], [ %next, %default ]
  %fp = getelementptr i32, ptr @faults, i64 %i
  %fault = load i32, ptr %fp
  %old = call ptr @signal(i32 %fault, ptr null)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 9
  br i1 %more, label %default, label %ready
ready:
  %r2 = call i64 (i64, ...) @syscall(i64 14, i64 2, ptr @nothing, ptr null, i64 8)
  %r3 = call i32 @setitimer(i32 2, ptr %timer, ptr null)
  %r4 = call i32 @setitimer(i32 0, ptr %clock, ptr null)
  call void @run(ptr %ops, i64 %n, ptr %status)
  %r5 = call i64 (i64, ...) @syscall(i64 231, i64 0)
  unreachable
outside:
  ret i64 %pid
}}

define void @lw_wait(i64 %pid, ptr %ended) {{
entry:
  br label %wait
wait:
  %r = call i64 (i64, ...) @syscall(i64 61, i64 %pid, ptr %ended, i64 1073741824, i64 0)
  %failed = icmp slt i64 %r, 0
  br i1 %failed, label %why, label %end
why:
  %errno.p = call ptr @__errno_location()
  %errno = load i32, ptr %errno.p
  %interrupted = icmp eq i32 %errno, 4
  br i1 %interrupted, label %wait, label %end
end:
  ret void
}}
"""

Op = tuple[int, ...]
"""A code and up to five words; made by the functions below."""


def fill(address: int, size: int, byte: int) -> Op:
    """Set ``size`` bytes."""
    return 0, address, size, byte


def call(function: int, arguments: int) -> Op:
    """Call ``void function(ptr arguments)`` with garbage in the registers and on the stack."""
    return 1, function, arguments


def same(address: int, size: int, byte: int) -> Op:
    """Whether ``size`` bytes, at least one, have a value."""
    return 2, address, size, byte


def copy(to: int, source: int, size: int) -> Op:
    """Copy bytes, to the shared report for instance."""
    return 3, to, source, size


def gather(to: int, source: int, places: int, count: int, size: int) -> Op:
    """Copy the elements at ``count`` int64 ``places``, each of ``size`` bytes."""
    return 4, to, source, places, count, size


def written(address: int, size: int, width: int) -> Op:
    """Whether nowhere in ``size`` bytes as many as an element has, ``width``, are garbage."""
    return 5, address, size, width


def choose(turns: int, count: int, before: int) -> Op:
    """Run only ``count`` int64 ``turns`` of the parallel loop that comes after ``before`` others;
    all of them if the count is 0."""
    return 6, turns, count, before


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the operations: ``done`` counts them from the first, ``false`` are those whose
    answer is no, and ``died`` says how the copy ended before the last one ("" if it did not)."""

    done: int
    false: tuple[int, ...]
    died: str = ""


class Arena:
    """Memory between forbidden pages, and memory that copies of this process share with it.

    Nothing is touched before it is used: what only a copy writes takes no memory here.
    """

    GUARD = 1 << 24

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []
        self._regions: list[tuple[int, int]] = []

    def reserve(self, size: int, alignment: int) -> tuple[int, int, int]:
        """The address of so many bytes, which end as close to a forbidden page as their alignment
        allows, and the first and the last address of the pages they lie in. MemoryError if there
        are too few."""
        room = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        total = room + 2 * self.GUARD
        base = _libc.mmap(None, total, 0, _PRIVATE, -1, 0)
        if base is None or base == _FAILED:
            raise MemoryError(f"no {size} bytes to try a kernel on")
        self._regions.append((base, total))
        inner = base + self.GUARD
        if _libc.mprotect(inner, room, mmap.PROT_READ | mmap.PROT_WRITE):
            raise MemoryError(f"no {size} bytes to try a kernel on")
        _libc.madvise(inner, room, mmap.MADV_HUGEPAGE)
        return (inner + room - size) // alignment * alignment, inner, inner + room

    def repeated(self, values: npt.NDArray[Any], size: int, alignment: int) -> tuple[int, int, int]:
        """As ``reserve``, with the bytes of ``values``, whole pages of them, again and again. The
        pages are there once, until somebody writes to them."""
        data = values.reshape(-1).view(np.uint8)
        address, first, last = self.reserve(size, alignment)
        file = os.memfd_create("operand")
        try:
            os.write(file, data.data)
            mode = mmap.MAP_PRIVATE | _MAP_FIXED
            for at in range(first, last, data.size):
                length = min(data.size, last - at)
                found = _libc.mmap(at, length, mmap.PROT_READ | mmap.PROT_WRITE, mode, file, 0)
                if found is None or found == _FAILED:
                    raise MemoryError(f"no {size} bytes to try a kernel on")
        finally:
            os.close(file)
        return address, first, last

    def shared(self, size: int) -> npt.NDArray[np.uint8]:
        """So many bytes that copies of this process write to."""
        memory = mmap.mmap(-1, max(size, 1))
        self._maps.append(memory)
        return np.frombuffer(memory, np.uint8)

    def close(self) -> None:
        """Give all memory back; addresses in it must not be used any more."""
        while self._regions:
            _libc.munmap(*self._regions.pop())
        self._maps.clear()


def view(address: int, size: int) -> npt.NDArray[np.uint8]:
    """The bytes at an address."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def protect(first: int, last: int) -> None:
    """Let nobody write to these pages."""
    _libc.mprotect(first, last - first, mmap.PROT_READ)


class Copy:
    """A copy of this process that runs operations, for so many seconds of processor time at most.

    OSError if the system makes no copy. ``wait`` must be called once.
    """

    def __init__(self, ops: Sequence[Op], seconds: float) -> None:
        words = np.zeros((len(ops), 6), np.int64)
        for row, op in zip(words, ops, strict=True):
            row[: len(op)] = op
        self._arena = Arena()
        self._status = self._arena.shared(8 * len(ops)).view(np.int64)
        timers = [_timer(seconds), _timer(_PATIENCE * seconds)]
        start = _function("lw_sandbox", _POINTER, _LONG, *[_POINTER] * 3, result=_LONG)
        self._pid = start(
            words.ctypes.data,
            len(ops),
            self._status.ctypes.data,
            *(ctypes.addressof(timer) for timer in timers),
        )
        if self._pid < 0:
            raise OSError("the system does not copy this process")

    def wait(self) -> Outcome:
        """What became of the operations, when the copy has ended."""
        ended = ctypes.c_int(0)
        _function("lw_wait", _LONG, _POINTER)(self._pid, ctypes.addressof(ended))
        found = self._status.copy()
        del self._status
        self._arena.close()
        count = len(found)
        done = int(np.argmin(found != 0)) if (found == 0).any() else count
        died = "" if done == count else _cause(ended.value & 0x7F)
        return Outcome(done, tuple(np.flatnonzero(found == 2).tolist()), died)


def _cause(number: int) -> str:
    if number in (signal.SIGPROF, signal.SIGALRM):
        return "it took too long"
    if number in (signal.SIGSEGV, signal.SIGBUS):
        return "it touched memory outside of its operands"
    return f"it ended by {signal.Signals(number).name}" if number else "it ended the process"


def _timer(seconds: float) -> ctypes.Array[ctypes.c_int64]:
    """An itimerval that goes off once."""
    whole = int(seconds)
    return (ctypes.c_int64 * 4)(0, 0, whole, max(1, int(1e6 * (seconds - whole))))


def symbols() -> dict[str, int]:
    """What a kernel may call that is to be run here: loops whose turns run backwards."""
    code = _code()
    return {
        "lw_parallel_for": code.address("lw_backwards"),
        "lw_pool_threads": code.address("lw_one_thread"),
    }


@functools.cache
def _code() -> LoadedObject:
    target = Target.host()
    return load_object(compile_object(soiling(_TEXT, target), target, quick=True))


@functools.cache
def _function(name: str, *arguments: Any, result: Any = None) -> Any:
    return _code().function(name, *arguments, restype=result)


_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_MAP_FIXED = 0x10
_FAILED = ctypes.c_void_p(-1).value

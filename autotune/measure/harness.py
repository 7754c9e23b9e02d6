"""Native timing around a kernel, as LLVM text.

``lw_time`` calls a kernel n times between two readings of the monotonic clock, without any Python,
with other arguments in every call if there are any. ``lw_first`` calls it once with garbage in all
vector registers and on the stack, so that reading what is not set gives a wrong result.
Parallel loops go through ``lw_loop``, to the thread pool or to a watcher.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...codegen.llvm.clock import CLOCK_TEXT
from ...codegen.llvm.link import LoadedObject, load_object
from ...codegen.llvm.store import stored_object
from ...codegen.target import Target
from .guarded import GARBAGE
from .rotation import Cycle

Loop = Callable[[int, int, int], None]
"""The watcher of a parallel loop: it is given the address of the loop's function, that of its
context, and the number of iterations."""

_STACK_BYTES = 320 * 1024
"""Bytes below the caller that are filled with garbage: more than private buffers take."""

_SOIL_TEXT = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
@lw_garbage = internal constant [64 x i8] c"{garbage}", align 64

define internal void @lw_soil_stack() noinline {{
  %room = alloca [{stack_bytes} x i8]
  call void @llvm.memset.p0.i64(ptr %room, i8 {byte}, i64 {stack_bytes}, i1 true)
  ret void
}}

; Only the narrow registers are declared as clobbered: otherwise LLVM would clear the upper halves
; before it returns.
define internal void @lw_soil_registers() noinline {{
  call void asm sideeffect "{soil}", "r,{clobbered}"(ptr @lw_garbage)
  ret void
}}
"""
"""Functions that are called right before code that is not trusted yet: if it reads what it has not
set, its result is wrong."""

_HARNESS_TEXT = """
; Nanoseconds of n calls of void fn(ptr args), from number %first of a cycle of %count arguments of
; %words words each.
define i64 @lw_time(ptr %fn, ptr %args, i64 %words, i64 %count, i64 %first, i64 %n) {
entry:
  %start = call i64 @now()
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %at = phi i64 [ %first, %entry ], [ %at.next, %again ]
  %word = mul i64 %at, %words
  %mine = getelementptr i64, ptr %args, i64 %word
  call void %fn(ptr %mine)
  %after = add i64 %at, 1
  %over = icmp sge i64 %after, %count
  %at.next = select i1 %over, i64 0, i64 %after
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %again, label %done
done:
  %stop = call i64 @now()
  %all = sub i64 %stop, %start
  ret i64 %all
}

; Nanoseconds of one call, on registers and a stack full of garbage.
define i64 @lw_first(ptr %fn, ptr %args) {
  call void @lw_soil_stack()
  %start = call i64 @now()
  call void @lw_soil_registers()
  call void %fn(ptr %args)
  %stop = call i64 @now()
  %all = sub i64 %stop, %start
  ret i64 %all
}

; Iterations of a parallel loop, one by one in the order of a list.
define void @lw_iterations(ptr %fn, ptr %context, ptr %list, i64 %n) {
entry:
  call void @lw_soil_stack()
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %place = getelementptr i64, ptr %list, i64 %i
  %begin = load i64, ptr %place
  %end = add i64 %begin, 1
  call void @lw_soil_registers()
  call void %fn(ptr %context, i64 %begin, i64 %end)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

@lw_pool = global ptr null
@lw_watcher = global ptr null

; The lw_parallel_for of kernels.
define void @lw_loop(ptr %fn, ptr %context, i64 %n) {
  %watcher = load ptr, ptr @lw_watcher
  %free = icmp eq ptr %watcher, null
  br i1 %free, label %usual, label %watched
usual:
  %pool = load ptr, ptr @lw_pool
  tail call void %pool(ptr %fn, ptr %context, i64 %n)
  ret void
watched:
  tail call void %watcher(ptr %fn, ptr %context, i64 %n)
  ret void
}
"""


def soil_registers(target: Target, address: str) -> list[str]:
    """Returns assembly that loads all vector registers from an address in a register."""
    load, name = {
        16: ("movups", "xmm"),
        32: ("vmovups", "ymm"),
        64: ("vmovups", "zmm"),
    }[target.vector_bytes]
    return [f"{load} ({address}), %{name}{n}" for n in range(target.vector_registers)]


@functools.cache
def harness_code() -> LoadedObject:
    """Returns the code of the harness, which a process loads once."""
    target = Target.host()
    soil = _SOIL_TEXT.format(
        garbage=chr(GARBAGE) * 64,
        byte=GARBAGE,
        stack_bytes=_STACK_BYTES,
        soil="\\0A".join(soil_registers(target, "$0")),
        clobbered=",".join(f"~{{xmm{n}}}" for n in range(target.vector_registers)),
    )
    text = CLOCK_TEXT + _HARNESS_TEXT + soil
    return load_object(stored_object(text, target, "harness of measurements"))


class Harness:
    """The loaded harness of this process."""

    def __init__(self) -> None:
        self._code = code = harness_code()
        i64, pointer = ctypes.c_int64, ctypes.c_void_p
        self._time = code.function("lw_time", pointer, pointer, *[i64] * 4, restype=i64)
        self._first = code.function("lw_first", pointer, pointer, restype=i64)
        self._iterations = code.function("lw_iterations", pointer, pointer, pointer, i64)
        self._watcher = ctypes.CFUNCTYPE(None, pointer, pointer, i64)

    def _set(self, name: str, value: int) -> None:
        """Sets a global of the harness."""
        ctypes.c_int64.from_address(self._code.address(name)).value = value

    def seconds(self, function: int, arguments: int, calls: int) -> float:
        """Returns the seconds of ``calls`` calls of the kernel at address ``function``.

        ``arguments`` is the address of its array of operand pointers.
        """
        return self._time(function, arguments, 0, 1, 0, calls) * 1e-9

    def rotating(self, function: int, cycle: Cycle, calls: int) -> float:
        """Returns the seconds of ``calls`` calls, which go on in a cycle of arguments."""
        first, cycle.next = cycle.next, (cycle.next + calls) % cycle.count
        words = ctypes.addressof(cycle.words)
        return self._time(function, words, cycle.each, cycle.count, first, calls) * 1e-9

    def first(self, function: int, arguments: int) -> float:
        """Returns the seconds of one call with garbage in the registers and on the stack."""
        return self._first(function, arguments) * 1e-9

    def use_pool(self, address: int) -> int:
        """Sends loops to the pool's ``lw_parallel_for``; return the address that kernels are to
        call."""
        self._set("lw_pool", address)
        return self._code.address("lw_loop")

    @contextmanager
    def watched(self, loop: Loop) -> Iterator[None]:
        """Calls ``loop`` in the place of the thread pool inside a ``with`` block. It must not
        raise."""
        callback = self._watcher(loop)
        self._set("lw_watcher", ctypes.cast(callback, ctypes.c_void_p).value or 0)
        try:
            yield
        finally:
            self._set("lw_watcher", 0)

    def iterations(self, function: int, context: int, order: Sequence[int]) -> None:
        """Runs some iterations of a parallel loop one by one, with garbage in the registers."""
        numbers = (ctypes.c_int64 * len(order))(*order)
        self._iterations(function, context, ctypes.addressof(numbers), len(order))

"""Native timing and fault handling around a kernel, as LLVM text.

``lw_time`` calls a kernel n times between two readings of the monotonic clock, so that no Python
stands between two calls. ``lw_fault`` is the handler of memory faults: it ends the process with a
status that tells a touch of a guard zone from any other.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterable

from ..codegen.llvm.engine import compile_object, load_object
from ..codegen.target import Target
from .worker import FAULT_ELSEWHERE, FAULT_IN_GUARD

__all__ = ["HARNESS_TEXT", "Harness"]

HARNESS_TEXT = f"""
declare i32 @clock_gettime(i32, ptr)
declare void @_exit(i32)

@lw_guards = internal global ptr null
@lw_guard_count = internal global i64 0

define void @lw_set_guards(ptr %pairs, i64 %n) {{
  store ptr %pairs, ptr @lw_guards
  store i64 %n, ptr @lw_guard_count
  ret void
}}

; Nanoseconds that n calls of void fn(ptr args) take. 1 is CLOCK_MONOTONIC.
define i64 @lw_time(ptr %fn, ptr %args, i64 %n) {{
entry:
  %start = alloca [2 x i64]
  %stop = alloca [2 x i64]
  %r0 = call i32 @clock_gettime(i32 1, ptr %start)
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  call void %fn(ptr %args)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %again, label %done
done:
  %r1 = call i32 @clock_gettime(i32 1, ptr %stop)
  %s0 = load i64, ptr %start
  %s1 = load i64, ptr %stop
  %p0 = getelementptr i64, ptr %start, i64 1
  %p1 = getelementptr i64, ptr %stop, i64 1
  %n0 = load i64, ptr %p0
  %n1 = load i64, ptr %p1
  %ds = sub i64 %s1, %s0
  %dn = sub i64 %n1, %n0
  %ns = mul i64 %ds, 1000000000
  %all = add i64 %ns, %dn
  ret i64 %all
}}

; A handler as sigaction's SA_SIGINFO asks for it; the address stands 16 bytes into siginfo.
define void @lw_fault(i32 %signal, ptr %info, ptr %context) {{
entry:
  %where = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %where
  %guards = load ptr, ptr @lw_guards
  %count = load i64, ptr @lw_guard_count
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %elsewhere
body:
  %two = shl i64 %i, 1
  %lowp = getelementptr i64, ptr %guards, i64 %two
  %highp = getelementptr i64, ptr %lowp, i64 1
  %low = load i64, ptr %lowp
  %high = load i64, ptr %highp
  %above = icmp uge i64 %address, %low
  %below = icmp ult i64 %address, %high
  %inside = and i1 %above, %below
  %next = add i64 %i, 1
  br i1 %inside, label %guard, label %head
guard:
  call void @_exit(i32 {FAULT_IN_GUARD})
  unreachable
elsewhere:
  call void @_exit(i32 {FAULT_ELSEWHERE})
  unreachable
}}
"""

_SA_SIGINFO, _SA_ONSTACK = 0x4, 0x08000000
_ALTERNATE_STACK = 64 * 1024


class _SigAction(ctypes.Structure):
    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


class _Stack(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


class Harness:
    """The loaded harness of this process."""

    def __init__(self) -> None:
        self._code = load_object(compile_object(HARNESS_TEXT, Target(isa="x86-64")))
        i64, pointer = ctypes.c_int64, ctypes.c_void_p
        self._time = ctypes.CFUNCTYPE(i64, pointer, pointer, i64)(self._code.address("lw_time"))
        self._set = ctypes.CFUNCTYPE(None, pointer, i64)(self._code.address("lw_set_guards"))
        self._pairs: ctypes.Array[ctypes.c_int64] | None = None

    def seconds(self, function: int, arguments: int, calls: int) -> float:
        """Seconds that ``calls`` calls of the kernel at address ``function`` take together.

        ``arguments`` is the address of its array of operand pointers.
        """
        return self._time(function, arguments, calls) * 1e-9

    def set_guards(self, ranges: Iterable[tuple[int, int]]) -> None:
        """The address ranges whose touch is "out of bounds"."""
        flat = [value for pair in ranges for value in pair]
        pairs = (ctypes.c_int64 * len(flat))(*flat)
        self._set(ctypes.addressof(pairs), len(flat) // 2)
        self._pairs = pairs  # the handler reads it: it must outlive its predecessor

    def handle_faults(self) -> None:
        """From now on a memory fault ends the process with a telling status."""
        libc = ctypes.CDLL(None, use_errno=True)
        # A fault may be an overflow of the stack, so the handler has a stack of its own.
        self._stack = ctypes.create_string_buffer(_ALTERNATE_STACK)
        stack = _Stack(ctypes.addressof(self._stack), 0, _ALTERNATE_STACK)
        libc.sigaltstack(ctypes.byref(stack), None)
        action = _SigAction(self._code.address("lw_fault"), flags=_SA_SIGINFO | _SA_ONSTACK)
        for number in (signal.SIGSEGV, signal.SIGBUS):
            libc.sigaction(int(number), ctypes.byref(action), None)

"""Memory of functions that call themselves: the frames behind a program's arena, and how far the
native stack of the calling thread goes."""

from __future__ import annotations

import os

DEFAULT_STACK_MEGABYTES = 256
"""Megabytes for the frames of recursive functions, by default; memory that is never used costs
nothing but addresses."""

MOST_STACK_MEGABYTES = 1 << 20

# ptr @lw_stack_end(): the lowest address that the native stack of this thread should have. What is
# kept free is for kernels, and for handlers of signals: a quarter of a small stack. It is
# remembered per thread, since the main thread's stack is looked up in a file of the system.
STACK_TEXT = """
declare i64 @pthread_self()
declare i32 @pthread_getattr_np(i64, ptr)
declare i32 @pthread_attr_getstack(ptr, ptr, ptr)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i64 @llvm.umin.i64(i64, i64)

@stack_key = internal global i32 -1

define void @lw_stack_begin() {
  %r = call i32 @pthread_key_create(ptr @stack_key, ptr null)
  ret void
}

define ptr @lw_stack_end() {
entry:
  %key = load i32, ptr @stack_key
  %known = call ptr @pthread_getspecific(i32 %key)
  %new = icmp eq ptr %known, null
  br i1 %new, label %look, label %done
look:
  %attr = alloca [128 x i8], align 16
  %begin.p = alloca ptr
  %size.p = alloca i64
  %self = call i64 @pthread_self()
  %bad = call i32 @pthread_getattr_np(i64 %self, ptr %attr)
  %found = icmp eq i32 %bad, 0
  br i1 %found, label %read, label %guess
read:
  %r1 = call i32 @pthread_attr_getstack(ptr %attr, ptr %begin.p, ptr %size.p)
  %r2 = call i32 @pthread_attr_destroy(ptr %attr)
  %begin = load ptr, ptr %begin.p
  %size = load i64, ptr %size.p
  %quarter = lshr i64 %size, 2
  %kept = call i64 @llvm.umin.i64(i64 %quarter, i64 524288)
  %end = getelementptr i8, ptr %begin, i64 %kept
  br label %keep
guess:
  %below = getelementptr i8, ptr %attr, i64 -65536
  br label %keep
keep:
  %limit = phi ptr [ %end, %read ], [ %below, %guess ]
  %r3 = call i32 @pthread_setspecific(i32 %key, ptr %limit)
  br label %done
done:
  %answer = phi ptr [ %known, %entry ], [ %limit, %keep ]
  ret ptr %answer
}
"""


def stack_bytes() -> int:
    """Returns the bytes for frames: ``LOOPWRIGHT_STACK`` megabytes."""
    try:
        megabytes = int(os.environ.get("LOOPWRIGHT_STACK") or DEFAULT_STACK_MEGABYTES)
    except ValueError:  # a message says so where all settings are read
        megabytes = DEFAULT_STACK_MEGABYTES
    return min(max(megabytes, 1), MOST_STACK_MEGABYTES) << 20

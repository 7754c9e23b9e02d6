"""The call path of entries that write their inputs, as LLVM IR text; it goes on from ``call_text``.

``@lw_update`` is ``@lw_call`` for an entry that writes inputs: these have to be writeable, and to
share no memory with any other input. If they are not, the answer is None, too.
"""

from __future__ import annotations

__all__ = ["UPDATE_TEXT"]

UPDATE_TEXT = """define ptr @lw_update(ptr %self, ptr %args, i64 %count) {
entry:
  %data.p = getelementptr %Array, ptr %self, i32 0, i32 2
  %context = load ptr, ptr %data.p
  %inputs.p = getelementptr %Context, ptr %context, i32 0, i32 1
  %inputs = load i64, ptr %inputs.p
  %in.specs.p = getelementptr %Context, ptr %context, i32 0, i32 3
  %in.specs = load ptr, ptr %in.specs.p
  %written.p = getelementptr %Context, ptr %context, i32 0, i32 9
  %written = load i64, ptr %written.p
  %positions.p = getelementptr %Context, ptr %context, i32 0, i32 10
  %positions = load ptr, ptr %positions.p
  %sizes.p = getelementptr %Context, ptr %context, i32 0, i32 11
  %sizes = load ptr, ptr %sizes.p
  %counted = icmp eq i64 %count, %inputs
  br i1 %counted, label %check, label %misfit
check:
  %c = phi i64 [ 0, %entry ], [ %c.next, %checking ]
  %checked = icmp eq i64 %c, %inputs
  br i1 %checked, label %target, label %checking
checking:
  %c.arg.p = getelementptr ptr, ptr %args, i64 %c
  %c.arg = load ptr, ptr %c.arg.p
  %c.spec = getelementptr %Spec, ptr %in.specs, i64 %c
  %fit = call i1 @fits(ptr %c.arg, ptr %c.spec)
  %c.next = add i64 %c, 1
  br i1 %fit, label %check, label %misfit
target:
  %t = phi i64 [ 0, %check ], [ %t.next, %apart ]
  %told = icmp eq i64 %t, %written
  br i1 %told, label %run, label %one
one:
  %t.next = add i64 %t, 1
  %w.p = getelementptr i64, ptr %positions, i64 %t
  %w = load i64, ptr %w.p
  %w.arg.p = getelementptr ptr, ptr %args, i64 %w
  %w.arg = load ptr, ptr %w.arg.p
  %w.flags.p = getelementptr %Array, ptr %w.arg, i32 0, i32 8
  %w.flags = load i32, ptr %w.flags.p
  %w.bit = and i32 %w.flags, 1024
  %locked = icmp eq i32 %w.bit, 0
  %w.data.p = getelementptr %Array, ptr %w.arg, i32 0, i32 2
  %w.begin = load i64, ptr %w.data.p
  %w.size.p = getelementptr i64, ptr %sizes, i64 %w
  %w.size = load i64, ptr %w.size.p
  %w.end = add i64 %w.begin, %w.size
  br i1 %locked, label %misfit, label %other
other:
  %o = phi i64 [ 0, %one ], [ %o.next, %compare ]
  %apart.from.all = icmp eq i64 %o, %inputs
  br i1 %apart.from.all, label %apart, label %compare
compare:
  %o.arg.p = getelementptr ptr, ptr %args, i64 %o
  %o.arg = load ptr, ptr %o.arg.p
  %o.data.p = getelementptr %Array, ptr %o.arg, i32 0, i32 2
  %o.begin = load i64, ptr %o.data.p
  %o.size.p = getelementptr i64, ptr %sizes, i64 %o
  %o.size = load i64, ptr %o.size.p
  %o.end = add i64 %o.begin, %o.size
  %below = icmp ult i64 %w.begin, %o.end
  %above = icmp ult i64 %o.begin, %w.end
  %meet = and i1 %below, %above
  %another = icmp ne i64 %o, %w
  %shared = and i1 %meet, %another
  %o.next = add i64 %o, 1
  br i1 %shared, label %misfit, label %other
apart:
  br label %target
run:
  %answer = call ptr @lw_call(ptr %self, ptr %args, i64 %count)
  ret ptr %answer
misfit:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}
"""

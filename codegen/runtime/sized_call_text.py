"""The call path of code with symbolic sizes, as LLVM text: a part of ``call_text``.

``@lw_call_sized`` differs from ``@lw_call``: an argument fits if its type, dtype and rank do, and
the entry's own function ``lw.sizes`` (``size_text``) accepts its shape. That function gives the
shapes and bytes of the results, and the bytes of the arena, whose memory comes from a bin, too, and
returns there. The context has more words::

    context  12 lw.sizes   13 words of a frame before the sizes   14 before the axes' sizes
             15 before the answers   16 the answer that is the arena's bytes   17 bins

The bytes of inputs come with the answers, not from word 11. Bins have the sizes of ``bin_sizes``.
"""

from __future__ import annotations

LINEAR, STEPS, LAST = 12, 3, 47
"""Bins of up to 2 ** LINEAR bytes are 64 bytes apart. Then there are 2 ** STEPS from each power of
two to the next, up to 2 ** LAST."""

CLASSES = (1 << LINEAR) // 64 + (LAST - LINEAR) * (1 << STEPS)


def bin_sizes() -> list[int]:
    """Returns the bytes of each bin."""
    sizes = [64 * (n + 1) for n in range((1 << LINEAR) // 64)]
    for power in range(LINEAR, LAST):
        sizes += [(1 << power) + n * (1 << power - STEPS) for n in range(1, (1 << STEPS) + 1)]
    return sizes


SIZED_CALL_TEXT = (
    r"""
%Sized = type { %Context, ptr, i64, i64, i64, i64, ptr }

declare i64 @llvm.ctlz.i64(i64, i1)

; The bin of the least size that holds so many bytes; null for none.
define internal ptr @bin_of(ptr %bins, i64 %bytes) {
entry:
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %nothing, label %some
nothing:
  ret ptr null
some:
  %last = sub i64 %bytes, 1
  %small = icmp ult i64 %last, @LINEAR_BYTES@
  br i1 %small, label %linear, label %powers
linear:
  %lines = lshr i64 %last, 6
  %bin.0 = getelementptr %Bin, ptr %bins, i64 %lines
  ret ptr %bin.0
powers:
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 true)
  %power = sub i64 63, %zeros
  %unit = sub i64 %power, @STEPS@
  %steps = lshr i64 %last, %unit
  %octave = sub i64 %power, @LINEAR@
  %begin = shl i64 %octave, @STEPS@
  %at.0 = add i64 %begin, %steps
  %at = add i64 %at.0, @FIRST@
  %bin.1 = getelementptr %Bin, ptr %bins, i64 %at
  ret ptr %bin.1
}

; Notes an argument's memory and axes, if its type, dtype and rank are those of a spec; returns its
; rank, or -1.
define internal i32 @axes_of(ptr %array, ptr %spec, ptr %axes) {
entry:
@HEADER@  br label %axis
axis:
  %i = phi i32 [ 0, %shape ], [ %i.next, %note ]
  %end = icmp eq i32 %i, %rank
  br i1 %end, label %yes, label %note
note:
  %size = load i64, ptr (i64, ptr %sizes, i32 %i)
  store i64 %size, ptr (i64, ptr %axes, i32 %i)
  %i.next = add i32 %i, 1
  br label %axis
yes:
  ret i32 %rank
no:
  ret i32 -1
}

define ptr @lw_call_sized(ptr %self, ptr %args, i64 %count) {
entry:
  %context = load ptr, ptr (%Array, ptr %self, i32 0, i32 2)
  %inputs = load i64, ptr (%Context, ptr %context, i32 0, i32 1)
  %in.specs = load ptr, ptr (%Context, ptr %context, i32 0, i32 3)
  %idle.p = getelementptr %Context, ptr %context, i32 0, i32 5
  %counted = icmp eq i64 %count, %inputs
  br i1 %counted, label %frame, label %misfit
misfit:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
fail:
  ret ptr null
frame:
  %idle = load ptr, ptr %idle.p
@FRAME@  %pointers = getelementptr ptr, ptr %own, i64 2
  %sizes.at = load i64, ptr (%Sized, ptr %context, i32 0, i32 2)
  %sizes = getelementptr i64, ptr %own, i64 %sizes.at
  %axes.at = load i64, ptr (%Sized, ptr %context, i32 0, i32 3)
  %axes = getelementptr i64, ptr %own, i64 %axes.at
  %answers.at = load i64, ptr (%Sized, ptr %context, i32 0, i32 4)
  %answers = getelementptr i64, ptr %own, i64 %answers.at
  br label %check
check:
  %c = phi i64 [ 0, %begin ], [ %c.next, %filling ]
  %c.axes = phi ptr [ %axes, %begin ], [ %c.axes.next, %filling ]
  %checked = icmp eq i64 %c, %inputs
  br i1 %checked, label %solve, label %checking
checking:
  %c.arg = load ptr, ptr (ptr, ptr %args, i64 %c)
  %c.spec = getelementptr %Spec, ptr %in.specs, i64 %c
  %c.rank = call i32 @axes_of(ptr %c.arg, ptr %c.spec, ptr %c.axes)
  %c.fits = icmp sge i32 %c.rank, 0
  br i1 %c.fits, label %filling, label %refused
filling:
  %c.axes.next = getelementptr i64, ptr %c.axes, i32 %c.rank
  %c.data = load ptr, ptr (%Array, ptr %c.arg, i32 0, i32 2)
  store ptr %c.data, ptr (ptr, ptr %pointers, i64 %c)
  %c.next = add i64 %c, 1
  br label %check
solve:
  %solve.fn = load ptr, ptr (%Sized, ptr %context, i32 0, i32 1)
  %solved = call i32 %solve.fn(ptr %axes, ptr %sizes, ptr %answers)
  %sized = icmp ne i32 %solved, 0
  br i1 %sized, label %fit.all, label %refused
refused:
  %idle.now = load ptr, ptr %idle.p
  store ptr %idle.now, ptr %own
  store ptr %own, ptr %idle.p
  br label %misfit
fit.all:
  %written = load i64, ptr (%Context, ptr %context, i32 0, i32 9)
  %pure = icmp eq i64 %written, 0
  %bytes = getelementptr i64, ptr %answers, i64 2
  br i1 %pure, label %memory, label %updating
updating:
  %positions = load ptr, ptr (%Context, ptr %context, i32 0, i32 10)
  br label %target
@SIZED_WRITES@memory:
  %bins = load ptr, ptr (%Sized, ptr %context, i32 0, i32 6)
  %arena.at = load i64, ptr (%Sized, ptr %context, i32 0, i32 5)
  %arena.bytes = load i64, ptr (i64, ptr %answers, i64 %arena.at)
  %arena.bin = call ptr @bin_of(ptr %bins, i64 %arena.bytes)
  %no.arena = icmp eq ptr %arena.bin, null
  br i1 %no.arena, label %prepare, label %arena.take
arena.take:
  %arena.taken = call ptr @take(ptr %arena.bin)
  %arena.missing = icmp eq ptr %arena.taken, null
  br i1 %arena.missing, label %no.memory, label %prepare
no.memory:
  %n = call ptr @PyErr_NoMemory()
  br label %put.back
prepare:
  %arena = phi ptr [ null, %memory ], [ %arena.taken, %arena.take ]
  %outputs = load i64, ptr (%Context, ptr %context, i32 0, i32 2)
  %out.specs = load ptr, ptr (%Context, ptr %context, i32 0, i32 4)
  %results = call ptr @PyList_New(i64 %outputs)
  %no.list = icmp eq ptr %results, null
  %first.answer = getelementptr i64, ptr %bytes, i64 %inputs
  br i1 %no.list, label %give.back, label %result
result:
  %r = phi i64 [ 0, %prepare ], [ %r.next, %placing ]
  %r.bytes.p = phi ptr [ %first.answer, %prepare ], [ %r.bytes.next, %placing ]
  %all = icmp eq i64 %r, %outputs
  br i1 %all, label %run, label %making
making:
  %r.spec = getelementptr %Spec, ptr %out.specs, i64 %r
  %r.bytes = load i64, ptr %r.bytes.p
  %r.shape = getelementptr i64, ptr %r.bytes.p, i64 1
  %r.bin = call ptr @bin_of(ptr %bins, i64 %r.bytes)
  %array = call ptr @new_array_of(ptr %r.spec, ptr %r.shape, ptr %r.bin)
  %no.array = icmp eq ptr %array, null
  br i1 %no.array, label %drop, label %placing
placing:
  %r.rank = load i64, ptr (%Spec, ptr %r.spec, i32 0, i32 1)
  %r.bytes.next = getelementptr i64, ptr %r.shape, i64 %r.rank
@RUN@  br i1 %fine, label %give.back, label %refuse
refuse:
  call void @refuse(i32 %status)
  br label %drop
drop:
  call void @Py_DecRef(ptr %results)
  br label %give.back
give.back:
  %answer.0 = phi ptr [ %results, %ran ], [ null, %drop ], [ null, %prepare ]
  %arena.none = icmp eq ptr %arena, null
  br i1 %arena.none, label %put.back, label %arena.give
arena.give:
  call void @give(ptr %arena)
  br label %put.back
put.back:
  %answer = phi ptr [ %answer.0, %give.back ], [ %answer.0, %arena.give ], [ null, %no.memory ]
  %idle.then = load ptr, ptr %idle.p
  store ptr %idle.then, ptr %own
  store ptr %own, ptr %idle.p
  ret ptr %answer
}
""".replace("@LINEAR_BYTES@", str(1 << LINEAR))
    .replace("@LINEAR@", str(LINEAR))
    .replace("@STEPS@", str(STEPS))
    .replace("@FIRST@", str((1 << LINEAR) // 64 - (1 << STEPS)))
)

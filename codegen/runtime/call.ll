; A new array of a spec's dtype and rank, with memory of a bin, or of NumPy's if that is null.
define internal ptr @new_array_of(ptr %spec, ptr %sizes, ptr %bin) alwaysinline {
entry:
  %dtype = load ptr, ptr %spec
  %rank = load i32, ptr (%Spec, ptr %spec, i32 0, i32 1)
  call void @Py_IncRef(ptr %dtype)
  %plain = icmp eq ptr %bin, null
  br i1 %plain, label %numpy, label %recycled
numpy:
  %own = call ptr @"lw.np.PyArray_NewFromDescr"(ptr @"lw.np.PyArray_Type", ptr %dtype, i32 %rank,
                                                ptr %sizes, ptr null, ptr null, i32 0, ptr null)
  ret ptr %own
recycled:
  %data = call ptr @take(ptr %bin)
  %missing = icmp eq ptr %data, null
  br i1 %missing, label %no.memory, label %wrap
no.memory:
  call void @Py_DecRef(ptr %dtype)
  %n = call ptr @PyErr_NoMemory()
  ret ptr null
wrap:
  %array = call ptr @"lw.np.PyArray_NewFromDescr"(ptr @"lw.np.PyArray_Type", ptr %dtype, i32 %rank,
                                                  ptr %sizes, ptr null, ptr %data, i32 1281,
                                                  ptr null)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %back, label %own.it
back:
  call void @give(ptr %data)
  ret ptr null
own.it:
  %capsule = call ptr @PyCapsule_New(ptr %data, ptr null, ptr @give_capsule)
  %nocapsule = icmp eq ptr %capsule, null
  br i1 %nocapsule, label %undo, label %attach
undo:
  call void @give(ptr %data)
  br label %drop
attach:
  %error = call i32 @"lw.np.PyArray_SetBaseObject"(ptr %array, ptr %capsule)
  %bad = icmp ne i32 %error, 0
  br i1 %bad, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %array)
  ret ptr null
done:
  ret ptr %array
}

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

; Notes the axes of an argument with the type, dtype and rank of a spec; returns its rank, or -1.
define internal i32 @axes_of(ptr %array, ptr %spec, ptr %axes) {
entry:
  %type = load ptr, ptr (%Array, ptr %array, i32 0, i32 1)
  %exact = icmp eq ptr %type, @"lw.np.PyArray_Type"
  br i1 %exact, label %header, label %no
header:
  %flags = load i32, ptr (%Array, ptr %array, i32 0, i32 8)
  %both = and i32 %flags, 257
  %dense = icmp eq i32 %both, 257
  %dtype = load ptr, ptr (%Array, ptr %array, i32 0, i32 7)
  %wanted.dtype = load ptr, ptr %spec
  %same.dtype = icmp eq ptr %dtype, %wanted.dtype
  %rank = load i32, ptr (%Array, ptr %array, i32 0, i32 3)
  %wanted.rank = load i32, ptr (%Spec, ptr %spec, i32 0, i32 1)
  %same.rank = icmp eq i32 %rank, %wanted.rank
  %ok.1 = and i1 %dense, %same.dtype
  %ok = and i1 %ok.1, %same.rank
  br i1 %ok, label %shape, label %no
shape:
  %sizes = load ptr, ptr (%Array, ptr %array, i32 0, i32 4)
  br label %axis
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

; The ``lw.sizes`` of constant shapes: 1 if all axes have the wanted sizes, whose number stands
; before them. The answers stand in the frame from the beginning.
define i32 @lw_same_axes(ptr %axes, ptr %wanted, ptr %answers) {
entry:
  %count = load i64, ptr %wanted
  br label %axis
axis:
  %i = phi i64 [ 0, %entry ], [ %i.next, %compare ]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %yes, label %compare
compare:
  %i.next = add i64 %i, 1
  %size = load i64, ptr (i64, ptr %axes, i64 %i)
  %wish = load i64, ptr (i64, ptr %wanted, i64 %i.next)
  %same = icmp eq i64 %size, %wish
  br i1 %same, label %axis, label %no
yes:
  ret i32 1
no:
  ret i32 0
}

define ptr @lw_call(ptr %self, ptr %args, i64 %count) {
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
  %lacking = icmp eq ptr %idle, null
  br i1 %lacking, label %grow, label %begin
grow:
  %new = load ptr, ptr (%Context, ptr %context, i32 0, i32 6)
  %made = call ptr @PyObject_CallNoArgs(ptr %new)
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %fail, label %grown
grown:
  call void @Py_DecRef(ptr %made)
  %idle.new = load ptr, ptr %idle.p
  br label %begin
begin:
  %own = phi ptr [ %idle, %frame ], [ %idle.new, %grown ]
  %next = load ptr, ptr %own
  store ptr %next, ptr %idle.p
  %pointers = getelementptr ptr, ptr %own, i64 1
  %sizes.at = load i64, ptr (%Context, ptr %context, i32 0, i32 12)
  %sizes = getelementptr i64, ptr %own, i64 %sizes.at
  %axes.at = load i64, ptr (%Context, ptr %context, i32 0, i32 13)
  %axes = getelementptr i64, ptr %own, i64 %axes.at
  %answers.at = load i64, ptr (%Context, ptr %context, i32 0, i32 14)
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
  %solve.fn = load ptr, ptr (%Context, ptr %context, i32 0, i32 11)
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
target:
  %t = phi i64 [ 0, %updating ], [ %t.next, %disjoint ]
  %all.disjoint = icmp eq i64 %t, %written
  br i1 %all.disjoint, label %memory, label %writeable
writeable:
  %t.next = add i64 %t, 1
  %w = load i64, ptr (i64, ptr %positions, i64 %t)
  %w.arg = load ptr, ptr (ptr, ptr %args, i64 %w)
  %w.flags = load i32, ptr (%Array, ptr %w.arg, i32 0, i32 8)
  %w.bit = and i32 %w.flags, 1024
  %locked = icmp eq i32 %w.bit, 0
  %w.begin = load i64, ptr (%Array, ptr %w.arg, i32 0, i32 2)
  %w.size = load i64, ptr (i64, ptr %bytes, i64 %w)
  %w.end = add i64 %w.begin, %w.size
  br i1 %locked, label %refused, label %other
other:
  %o = phi i64 [ 0, %writeable ], [ %o.next, %compare ]
  %compared = icmp eq i64 %o, %inputs
  br i1 %compared, label %disjoint, label %compare
compare:
  %o.arg = load ptr, ptr (ptr, ptr %args, i64 %o)
  %o.begin = load i64, ptr (%Array, ptr %o.arg, i32 0, i32 2)
  %o.size = load i64, ptr (i64, ptr %bytes, i64 %o)
  %o.end = add i64 %o.begin, %o.size
  %below = icmp ult i64 %w.begin, %o.end
  %above = icmp ult i64 %o.begin, %w.end
  %meet = and i1 %below, %above
  %another = icmp ne i64 %o, %w
  %shared = and i1 %meet, %another
  %o.next = add i64 %o, 1
  br i1 %shared, label %refused, label %other
disjoint:
  br label %target
memory:
  %bins = load ptr, ptr (%Context, ptr %context, i32 0, i32 16)
  %arena.at = load i64, ptr (%Context, ptr %context, i32 0, i32 15)
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
  %ignored = call i32 @PyList_SetItem(ptr %results, i64 %r, ptr %array)
  %r.data = load ptr, ptr (%Array, ptr %array, i32 0, i32 2)
  %r.at = add i64 %inputs, %r
  store ptr %r.data, ptr (ptr, ptr %pointers, i64 %r.at)
  %r.next = add i64 %r, 1
  br label %result
run:
  %entry.fn = load ptr, ptr %context
  %threads = load i64, ptr (%Context, ptr %context, i32 0, i32 8)
  %own.number = icmp ne i64 %threads, 0
  %thread = call ptr @PyEval_SaveThread()
  br i1 %own.number, label %limited, label %plain
plain:
  %plain.status = call i32 %entry.fn(ptr %pointers, ptr %arena)
  br label %ran
limited:
  %limit.fn = load ptr, ptr (%Context, ptr %context, i32 0, i32 7)
  %before = call i64 %limit.fn(i64 %threads)
  %limited.status = call i32 %entry.fn(ptr %pointers, ptr %arena)
  %ignored.limit = call i64 %limit.fn(i64 %before)
  br label %ran
ran:
  %status = phi i32 [ %plain.status, %plain ], [ %limited.status, %limited ]
  call void @PyEval_RestoreThread(ptr %thread)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %give.back, label %refuse
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
  call void @keep(ptr %arena)
  br label %put.back
put.back:
  %answer = phi ptr [ %answer.0, %give.back ], [ %answer.0, %arena.give ], [ null, %no.memory ]
  %idle.then = load ptr, ptr %idle.p
  store ptr %idle.then, ptr %own
  store ptr %own, ptr %idle.p
  ret ptr %answer
}

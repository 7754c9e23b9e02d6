
%Array = type { i64, ptr, ptr, i32, ptr, ptr, ptr, ptr, i32 }
%Spec = type { ptr, i64 }
%Context = type { ptr, i64, i64, ptr, ptr, ptr, ptr, ptr, i64, i64, ptr, ptr, i64, i64, i64, i64,
                  ptr }
%Bin = type { ptr, i64, i64 }

@idle = internal global i64 0
@limit = internal global i64 0
@missed = internal global ptr null

@"lw.np.PyArray_Type" = external global i8
@_Py_NoneStruct = external global i8
@PyExc_RecursionError = external global ptr
@too.deep = internal constant [@TOO_DEEP_BYTES@ x i8] c"@TOO_DEEP_TEXT@\00"

declare ptr @"lw.np.PyArray_NewFromDescr"(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @"lw.np.PyArray_SetBaseObject"(ptr, ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyErr_NoMemory()
declare void @PyErr_Clear()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)

; Sets the exception of a status; that of 1 is set already.
define internal void @refuse(i32 %status) noinline {
  %deep = icmp eq i32 %status, @TOO_DEEP@
  br i1 %deep, label %set, label %done
set:
  %type = load ptr, ptr @PyExc_RecursionError
  call void @PyErr_SetString(ptr %type, ptr @too.deep)
  br label %done
done:
  ret void
}

; Offset of the memory in its block: in the middle of a page, unless it is small.
define internal i64 @head(i64 %size) alwaysinline {
  %small = icmp ult i64 %size, @PAGED@
  %head = select i1 %small, i64 64, i64 @IN_PAGE@
  ret i64 %head
}

; Fresh memory for a bin, or null.
define internal ptr @fresh(ptr %bin, i64 %size) noinline {
entry:
  %out = alloca ptr
  %listener = load ptr, ptr @missed
  %deaf = icmp eq ptr %listener, null
  br i1 %deaf, label %allocate, label %tell
tell:
  %answer = call ptr @PyObject_CallNoArgs(ptr %listener)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %clear, label %drop
clear:
  call void @PyErr_Clear()
  br label %allocate
drop:
  call void @Py_DecRef(ptr %answer)
  br label %allocate
allocate:
  %big = icmp uge i64 %size, 4194304
  %head = call i64 @head(i64 %size)
  %small = icmp eq i64 %head, 64
  %normal = select i1 %small, i64 64, i64 4096
  %alignment = select i1 %big, i64 2097152, i64 %normal
  %total = add i64 %size, %head
  %error = call i32 @posix_memalign(ptr %out, i64 %alignment, i64 %total)
  %bad = icmp ne i32 %error, 0
  br i1 %bad, label %none, label %made
made:
  %raw = load ptr, ptr %out
  br i1 %big, label %advise, label %ready
advise:
  %r = call i32 @madvise(ptr %raw, i64 %total, i32 14)
  br label %ready
ready:
  %data = getelementptr i8, ptr %raw, i64 %head
  store ptr %bin, ptr (i8, ptr %data, i64 -56)
  ret ptr %data
none:
  ret ptr null
}

define internal void @release(ptr %data, i64 %size) {
  %head = call i64 @head(i64 %size)
  %back = sub i64 0, %head
  %raw = getelementptr i8, ptr %data, i64 %back
  call void @free(ptr %raw)
  ret void
}

; Memory from a bin: the block used last, or fresh memory. Null if the system has none.
define internal ptr @take(ptr %bin) alwaysinline {
entry:
  %size = load i64, ptr (%Bin, ptr %bin, i32 0, i32 1)
  %taken.p = getelementptr %Bin, ptr %bin, i32 0, i32 2
  %taken = load i64, ptr %taken.p
  %taken.next = add i64 %taken, 1
  store i64 %taken.next, ptr %taken.p
  %first = load ptr, ptr %bin
  %empty = icmp eq ptr %first, null
  br i1 %empty, label %miss, label %hit
hit:
  %next = load ptr, ptr (i8, ptr %first, i64 -64)
  store ptr %next, ptr %bin
  %idle = load i64, ptr @idle
  %idle.now = sub i64 %idle, %size
  store i64 %idle.now, ptr @idle
  ret ptr %first
miss:
  %data = call ptr @fresh(ptr %bin, i64 %size)
  ret ptr %data
}

; Memory of an arena goes back to its bin, whatever the limit: the next call needs it again.
define internal void @keep(ptr %data) {
  %bin = load ptr, ptr (i8, ptr %data, i64 -56)
  %size = load i64, ptr (%Bin, ptr %bin, i32 0, i32 1)
  %idle = load i64, ptr @idle
  %idle.now = add i64 %idle, %size
  store i64 %idle.now, ptr @idle
  %next.p = getelementptr i8, ptr %data, i64 -64
  %first = load ptr, ptr %bin
  store ptr %first, ptr %next.p
  store ptr %data, ptr %bin
  ret void
}

; Memory goes back to its bin, or to the system if too much is idle.
define internal void @give(ptr %data) {
entry:
  %bin = load ptr, ptr (i8, ptr %data, i64 -56)
  %size = load i64, ptr (%Bin, ptr %bin, i32 0, i32 1)
  %idle = load i64, ptr @idle
  %idle.now = add i64 %idle, %size
  %limit = load i64, ptr @limit
  %over = icmp ugt i64 %idle.now, %limit
  br i1 %over, label %drop, label %fits
drop:
  call void @release(ptr %data, i64 %size)
  ret void
fits:
  call void @keep(ptr %data)
  ret void
}

define internal void @give_capsule(ptr %capsule) {
  %data = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  call void @give(ptr %data)
  ret void
}

; Frees the idle blocks of a bin.
define void @lw_empty_bin(ptr %bin) {
entry:
  %size = load i64, ptr (%Bin, ptr %bin, i32 0, i32 1)
  br label %loop
loop:
  %first = load ptr, ptr %bin
  %done = icmp eq ptr %first, null
  br i1 %done, label %return, label %drop
drop:
  %next = load ptr, ptr (i8, ptr %first, i64 -64)
  store ptr %next, ptr %bin
  call void @release(ptr %first, i64 %size)
  %idle = load i64, ptr @idle
  %idle.now = sub i64 %idle, %size
  store i64 %idle.now, ptr @idle
  br label %loop
return:
  ret void
}

define i64 @lw_idle_bytes() {
  %idle = load i64, ptr @idle
  ret i64 %idle
}

define void @lw_set_limit(i64 %limit, ptr %missed) {
  store i64 %limit, ptr @limit
  store ptr %missed, ptr @missed
  ret void
}


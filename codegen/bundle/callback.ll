
@lw_callback = internal global ptr null

define void @lw_parallel_for(ptr %fn, ptr %context, i64 %n) {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %any, label %done
any:
  %callback = load atomic ptr, ptr @lw_callback acquire, align 8
  %none = icmp eq ptr %callback, null
  br i1 %none, label %all, label %call
call:
  call void %callback(ptr %fn, ptr %context, i64 %n)
  br label %done
all:
  call void %fn(ptr %context, i64 0, i64 %n)
  br label %done
done:
  ret void
}

define void @NAME_set_parallel_for(ptr %callback) {
  store atomic ptr %callback, ptr @lw_callback release, align 8
  ret void
}

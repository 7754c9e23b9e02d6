
define void @lw_parallel_for(ptr %fn, ptr %context, i64 %n) {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %all, label %done
all:
  call void %fn(ptr %context, i64 0, i64 %n)
  br label %done
done:
  ret void
}

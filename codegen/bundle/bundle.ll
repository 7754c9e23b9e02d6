
; Statuses, as the header has them: 0 fine, 1 null, 2 alignment, 3 overlap, 4 size, 5 processor,
; 6 weights, 7 too deep, 8 busy, 9 a check of the function failed.

; Looks at %count operands, those from number %written on are written: addresses, bytes, alignments.
define i32 @lw_check(ptr %addresses, ptr %bytes, ptr %aligns, i64 %count, i64 %written) noinline {
entry:
  br label %one
one:
  %j = phi i64 [ 0, %entry ], [ %j.next, %next ]
  %more = icmp ult i64 %j, %count
  br i1 %more, label %look, label %fine
look:
  %address.p = getelementptr i64, ptr %addresses, i64 %j
  %address = load i64, ptr %address.p, align 8
  %size.p = getelementptr i64, ptr %bytes, i64 %j
  %size = load i64, ptr %size.p, align 8
  %j.next = add i64 %j, 1
  %empty = icmp eq i64 %size, 0
  br i1 %empty, label %next, label %some
some:
  %null = icmp eq i64 %address, 0
  br i1 %null, label %is.null, label %there
there:
  %align.p = getelementptr i64, ptr %aligns, i64 %j
  %align = load i64, ptr %align.p, align 8
  %mask = sub i64 %align, 1
  %off = and i64 %address, %mask
  %aligned = icmp eq i64 %off, 0
  br i1 %aligned, label %placed, label %is.off
placed:
  %end = add i64 %address, %size
  %around = icmp ult i64 %end, %address
  br i1 %around, label %is.over, label %whole
whole:
  %reads = icmp ult i64 %j, %written
  br i1 %reads, label %next, label %against
against:
  %k = phi i64 [ 0, %whole ], [ %k.next, %apart ]
  %others = icmp ult i64 %k, %j
  br i1 %others, label %compare, label %next
compare:
  %k.next = add i64 %k, 1
  %other.p = getelementptr i64, ptr %addresses, i64 %k
  %other = load i64, ptr %other.p, align 8
  %other.size.p = getelementptr i64, ptr %bytes, i64 %k
  %other.size = load i64, ptr %other.size.p, align 8
  %other.end = add i64 %other, %other.size
  %before = icmp ult i64 %address, %other.end
  %behind = icmp ult i64 %other, %end
  %both = and i1 %before, %behind
  %nonempty = icmp ne i64 %other.size, 0
  %overlap = and i1 %both, %nonempty
  br i1 %overlap, label %is.over, label %apart
apart:
  br label %against
next:
  br label %one
fine:
  ret i32 0
is.null:
  ret i32 1
is.off:
  ret i32 2
is.over:
  ret i32 3
}

; Long loops ask whether to go on: nobody interrupts them here.
define i64 @lw_poll(ptr %clock) {
  ret i64 1000000
}

; How far recursive functions may use the stack of the calling thread.
define ptr @lw_stack_end() {
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %end = getelementptr i8, ptr %here, i64 -@STACK@
  ret ptr %end
}
declare ptr @llvm.frameaddress.p0(i32)

; The only library function of a bundle is the one that says that a check has failed.
define i32 @lw_library(ptr %site, ptr %pointers) {
  ret i32 1
}
define i32 @lw_library_sized(ptr %site, ptr %pointers, ptr %shapes) {
  ret i32 1
}

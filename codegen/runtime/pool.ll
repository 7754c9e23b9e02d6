
%Slot = type { i32, i32, i64, i64, i64, ptr, ptr, [80 x i8] }

@slots = internal global [@MAX@ x %Slot] zeroinitializer, align 128
@handles = internal global [@MAX@ x i64] zeroinitializer, align 128
@busy = internal global { i32, [124 x i8] } zeroinitializer, align 128
@threads = internal global i64 1, align 128
@dynamic = internal global i64 1
@spin_ns = internal global i64 50000
@spawned = internal global i64 0
@limit_key = internal global i32 -1

; Estimates for the decision to wake workers, guarded by @busy: nanoseconds * 1024 per index of
; recent functions, when the caller's last job ended, and how long it worked alone in this burst.
@costs = internal global [256 x { i64, i64 }] zeroinitializer
@burst_end = internal global i64 0
@burst_alone = internal global i64 0

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare void @llvm.@PAUSE_TYPE@
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

; Numbers of the workers for the kernel, and the cores that the last caller may run on: a bit each.
@numbers = internal global [@MAX@ x i32] zeroinitializer, align 128
@cores = internal global [16 x i64] zeroinitializer, align 128

; 128: wait (private) while the word is %value; 129: wake %value sleepers (private).
define internal void @futex(ptr %word, i32 %action, i32 %value) {
  %r = call i64 (i64, ...) @syscall(i64 @FUTEX@, ptr %word, i32 %action, i32 %value,
                                    ptr null, ptr null, i32 0)
  ret void
}

define internal ptr @slot(i64 %k) alwaysinline {
  %p = getelementptr [@MAX@ x %Slot], ptr @slots, i64 0, i64 %k
  ret ptr %p
}

; Works through the parts of all participants, its own first. Returns the indices it has done.
define internal i64 @work(i64 %self, i64 %participants, ptr %fn, ptr %ctx) {
entry:
  %dyn = load i64, ptr @dynamic
  %split = icmp ne i64 %dyn, 0
  br label %victim
victim:
  %i = phi i64 [ 0, %entry ], [ %i.next, %exhausted ]
  %before = phi i64 [ 0, %entry ], [ %so.far, %exhausted ]
  %sum = add i64 %self, %i
  %over = icmp uge i64 %sum, %participants
  %wrapped = sub i64 %sum, %participants
  %k = select i1 %over, i64 %wrapped, i64 %sum
  %slot = call ptr @slot(i64 %k)
  %next.p = getelementptr %Slot, ptr %slot, i32 0, i32 2
  %end.p = getelementptr %Slot, ptr %slot, i32 0, i32 3
  br label %claim
claim:
  %so.far = phi i64 [ %before, %victim ], [ %so.far, %take ], [ %with, %run ]
  %next = load atomic i64, ptr %next.p acquire, align 8
  %end = load i64, ptr %end.p
  %left = sub i64 %end, %next
  %none = icmp sle i64 %left, 0
  br i1 %none, label %exhausted, label %take
take:
  %up = add i64 %left, 1
  %half = lshr i64 %up, 1
  %size = select i1 %split, i64 %half, i64 %left
  %stop = add i64 %next, %size
  %swap = cmpxchg ptr %next.p, i64 %next, i64 %stop acq_rel monotonic
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %claim
run:
  call void %fn(ptr %ctx, i64 %next, i64 %stop)
  %with = add i64 %so.far, %size
  br label %claim
exhausted:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %participants
  br i1 %more, label %victim, label %done
done:
  ret i64 %so.far
}

define internal ptr @worker(ptr %arg) {
entry:
  %self = ptrtoint ptr %arg to i64
  %slot = call ptr @slot(i64 %self)
  %count.p = getelementptr %Slot, ptr %slot, i32 0, i32 4
  %fn.p = getelementptr %Slot, ptr %slot, i32 0, i32 5
  %ctx.p = getelementptr %Slot, ptr %slot, i32 0, i32 6
  %number.64 = call i64 (i64, ...) @syscall(i64 @GETTID@)
  %number = trunc i64 %number.64 to i32
  %number.p = getelementptr [@MAX@ x i32], ptr @numbers, i64 0, i64 %self
  store atomic i32 %number, ptr %number.p monotonic, align 4
  br label %fresh
fresh:
  %began = call i64 @now()
  br label %spin
spin:
  %tick = phi i64 [ 0, %fresh ], [ %tick.next, %waited ], [ 0, %check ]
  %state = load atomic i32, ptr %slot acquire, align 4
  switch i32 %state, label %waited [ i32 1, label %posted
                                     i32 4, label %leave ]
waited:
  call void @llvm.@PAUSE@
  %tick.next = add i64 %tick, 1
  %due = icmp ugt i64 %tick.next, 32
  br i1 %due, label %check, label %spin
check:
  %t = call i64 @now()
  %spent = sub i64 %t, %began
  %limit = load i64, ptr @spin_ns
  %tired = icmp sgt i64 %spent, %limit
  br i1 %tired, label %doze, label %spin
doze:
  %lie = cmpxchg ptr %slot, i32 0, i32 3 acq_rel acquire
  %lying = extractvalue { i32, i1 } %lie, 1
  br i1 %lying, label %sleep, label %fresh
sleep:
  call void @futex(ptr %slot, i32 128, i32 3)
  %after = load atomic i32, ptr %slot acquire, align 4
  %still = icmp eq i32 %after, 3
  br i1 %still, label %sleep, label %woken
woken:
  %free = call i32 @sched_setaffinity(i32 0, i64 128, ptr @cores)
  br label %fresh
posted:
  %begin = cmpxchg ptr %slot, i32 1, i32 2 acq_rel acquire
  %mine = extractvalue { i32, i1 } %begin, 1
  br i1 %mine, label %run, label %fresh
run:
  %count = load i64, ptr %count.p
  %fn = load ptr, ptr %fn.p
  %ctx = load ptr, ptr %ctx.p
  %units = call i64 @work(i64 %self, i64 %count, ptr %fn, ptr %ctx)
  store atomic i32 0, ptr %slot release, align 4
  br label %fresh
leave:
  ret ptr null
}

; Starts workers until there are %wanted. Returns how many there are. The caller holds @busy.
define internal i64 @grow(i64 %wanted) noinline {
entry:
  %attr = alloca [128 x i8], align 16
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %r0 = call i32 @pthread_attr_init(ptr %attr)
  %r1 = call i32 @pthread_attr_setstacksize(ptr %attr, i64 16777216)
  %r2 = call i32 @sigfillset(ptr %all)
  %r3 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %loop
loop:
  %have = load i64, ptr @spawned
  %enough = icmp uge i64 %have, %wanted
  br i1 %enough, label %done, label %start
start:
  %k = add i64 %have, 1
  %slot = call ptr @slot(i64 %k)
  store atomic i32 0, ptr %slot release, align 4
  %arg = inttoptr i64 %k to ptr
  %handle = getelementptr [@MAX@ x i64], ptr @handles, i64 0, i64 %k
  %failed = call i32 @pthread_create(ptr %handle, ptr %attr, ptr @worker, ptr %arg)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %started, label %done
started:
  store i64 %k, ptr @spawned
  br label %loop
done:
  %r4 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  %r5 = call i32 @pthread_attr_destroy(ptr %attr)
  %now = load i64, ptr @spawned
  ret i64 %now
}

; Keeps the sleeping worker %k off the core of its caller, until it is awake.
define internal void @keep_apart(i64 %k) noinline {
entry:
  %others = alloca [16 x i64], align 16
  %core = call i32 @sched_getcpu()
  %few = icmp ult i32 %core, 1024
  br i1 %few, label %ask, label %done
ask:
  %failed = call i32 @sched_getaffinity(i32 0, i64 128, ptr @cores)
  %got = icmp eq i32 %failed, 0
  br i1 %got, label %move, label %done
move:
  call void @llvm.memcpy.p0.p0.i64(ptr %others, ptr @cores, i64 128, i1 false)
  %word.32 = lshr i32 %core, 6
  %word = zext i32 %word.32 to i64
  %word.p = getelementptr [16 x i64], ptr %others, i64 0, i64 %word
  %before = load i64, ptr %word.p
  %place.32 = and i32 %core, 63
  %place = zext i32 %place.32 to i64
  %bit = shl i64 1, %place
  %rest = xor i64 %bit, -1
  %without = and i64 %before, %rest
  store i64 %without, ptr %word.p
  %number.p = getelementptr [@MAX@ x i32], ptr @numbers, i64 0, i64 %k
  %number = load atomic i32, ptr %number.p monotonic, align 4
  %r = call i32 @sched_setaffinity(i32 %number, i64 128, ptr %others)
  br label %done
done:
  ret void
}

define internal void @call_worker(ptr %slot, i64 %k) {
entry:
  %was = atomicrmw xchg ptr %slot, i32 1 acq_rel
  %asleep = icmp eq i32 %was, 3
  br i1 %asleep, label %wake, label %done
wake:
  call void @keep_apart(i64 %k)
  call void @futex(ptr %slot, i32 129, i32 1)
  br label %done
done:
  ret void
}

; The caller's work while workers sleep: they are woken if there is enough to do.
define internal void @work_with_sleepers(i64 %count, i64 %n, ptr %fn, ptr %ctx) noinline {
entry:
  %began = call i64 @now()
  %gap.from = load i64, ptr @burst_end
  %gap = sub i64 %began, %gap.from
  %new.burst = icmp sgt i64 %gap, @BURST@
  %kept = load i64, ptr @burst_alone
  %alone = select i1 %new.burst, i64 0, i64 %kept
  %key = ptrtoint ptr %fn to i64
  %mixed = mul i64 %key, -7046029254386353131
  %row = lshr i64 %mixed, 56
  %known.fn.p = getelementptr [256 x { i64, i64 }], ptr @costs, i64 0, i64 %row, i32 0
  %cost.p = getelementptr [256 x { i64, i64 }], ptr @costs, i64 0, i64 %row, i32 1
  %known.fn = load i64, ptr %known.fn.p
  %known = icmp eq i64 %known.fn, %key
  %cost = load i64, ptr %cost.p
  %scaled = mul i64 %cost, %n
  %expected = lshr i64 %scaled, 10
  %total = add i64 %expected, %alone
  %short = icmp slt i64 %total, @WORTH@
  %let.sleep = and i1 %known, %short
  br i1 %let.sleep, label %work, label %waking
waking:
  %k = phi i64 [ 1, %entry ], [ %k.next, %next ]
  %woken = icmp uge i64 %k, %count
  br i1 %woken, label %work, label %look
look:
  %slot = call ptr @slot(i64 %k)
  %state = load atomic i32, ptr %slot monotonic, align 4
  %asleep = icmp eq i32 %state, 3
  br i1 %asleep, label %call, label %next
call:
  call void @call_worker(ptr %slot, i64 %k)
  br label %next
next:
  %k.next = add i64 %k, 1
  br label %waking
work:
  %start = call i64 @now()
  %units = call i64 @work(i64 0, i64 %count, ptr %fn, ptr %ctx)
  %end = call i64 @now()
  %spent = sub i64 %end, %start
  %fixed = shl i64 %spent, 10
  %one = call i64 @llvm.umax.i64(i64 %units, i64 1)
  %each = udiv i64 %fixed, %one
  store i64 %key, ptr %known.fn.p
  store i64 %each, ptr %cost.p
  %alone.now = add i64 %alone, %spent
  %burst = select i1 %let.sleep, i64 %alone.now, i64 0
  store i64 %burst, ptr @burst_alone
  store i64 %end, ptr @burst_end
  ret void
}

; Threads that a loop of the calling thread uses: its own number if it has one, or the common one.
define i64 @lw_pool_threads() {
  %key = load i32, ptr @limit_key
  %own.p = call ptr @pthread_getspecific(i32 %key)
  %own = ptrtoint ptr %own.p to i64
  %common = load atomic i64, ptr @threads monotonic, align 8
  %none = icmp eq i64 %own, 0
  %n = select i1 %none, i64 %common, i64 %own
  ret i64 %n
}

define void @lw_parallel_for(ptr %fn, ptr %ctx, i64 %n) {
entry:
  %limit = call i64 @lw_pool_threads()
  %fewer = icmp slt i64 %n, %limit
  %want = select i1 %fewer, i64 %n, i64 %limit
  %alone = icmp sle i64 %want, 1
  br i1 %alone, label %maybe, label %lock
maybe:
  %empty = icmp sle i64 %n, 0
  br i1 %empty, label %return, label %inline
inline:
  call void %fn(ptr %ctx, i64 0, i64 %n)
  ret void
lock:
  %free = load atomic i32, ptr @busy monotonic, align 4
  %taken = icmp ne i32 %free, 0
  br i1 %taken, label %inline, label %acquire
acquire:
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %locked = extractvalue { i32, i1 } %swap, 1
  br i1 %locked, label %begin, label %inline
begin:
  %helpers = sub i64 %want, 1
  %have = load i64, ptr @spawned
  %lacking = icmp ult i64 %have, %helpers
  br i1 %lacking, label %spawn, label %ready
spawn:
  %grown = call i64 @grow(i64 %helpers)
  br label %ready
ready:
  %alive = phi i64 [ %have, %begin ], [ %grown, %spawn ]
  %short = icmp ult i64 %alive, %helpers
  %workers = select i1 %short, i64 %alive, i64 %helpers
  %count = add i64 %workers, 1
  %share = udiv i64 %n, %count
  %rest = urem i64 %n, %count
  br label %fill
fill:
  %f = phi i64 [ 0, %ready ], [ %f.next, %fill ]
  %start = phi i64 [ 0, %ready ], [ %stop, %fill ]
  %extra = icmp ult i64 %f, %rest
  %one = zext i1 %extra to i64
  %size = add i64 %share, %one
  %stop = add i64 %start, %size
  %fslot = call ptr @slot(i64 %f)
  %next.p = getelementptr %Slot, ptr %fslot, i32 0, i32 2
  %end.p = getelementptr %Slot, ptr %fslot, i32 0, i32 3
  %count.p = getelementptr %Slot, ptr %fslot, i32 0, i32 4
  %fn.p = getelementptr %Slot, ptr %fslot, i32 0, i32 5
  %ctx.p = getelementptr %Slot, ptr %fslot, i32 0, i32 6
  store atomic i64 %start, ptr %next.p monotonic, align 8
  store i64 %stop, ptr %end.p
  store i64 %count, ptr %count.p
  store ptr %fn, ptr %fn.p
  store ptr %ctx, ptr %ctx.p
  %f.next = add i64 %f, 1
  %filled = icmp eq i64 %f.next, %count
  br i1 %filled, label %posting, label %fill
posting:
  %p = phi i64 [ 1, %fill ], [ %p.next, %post.next ]
  %sleepers = phi i64 [ 0, %fill ], [ %sleepers.now, %post.next ]
  %posted = icmp uge i64 %p, %count
  br i1 %posted, label %all.posted, label %post
post:
  %pslot = call ptr @slot(i64 %p)
  %is = load atomic i32, ptr %pslot monotonic, align 4
  %asleep = icmp eq i32 %is, 3
  br i1 %asleep, label %post.next, label %call
call:
  call void @call_worker(ptr %pslot, i64 %p)
  br label %post.next
post.next:
  %more.asleep = zext i1 %asleep to i64
  %sleepers.now = add i64 %sleepers, %more.asleep
  %p.next = add i64 %p, 1
  br label %posting
all.posted:
  %awake = icmp eq i64 %sleepers, 0
  br i1 %awake, label %own, label %own.timed
own:
  %units = call i64 @work(i64 0, i64 %count, ptr %fn, ptr %ctx)
  br label %joining
own.timed:
  call void @work_with_sleepers(i64 %count, i64 %n, ptr %fn, ptr %ctx)
  br label %joining
joining:
  %j = phi i64 [ 1, %own ], [ 1, %own.timed ], [ %j.next, %joined ]
  %all = icmp uge i64 %j, %count
  br i1 %all, label %unlock, label %join
join:
  %jslot = call ptr @slot(i64 %j)
  br label %look
look:
  %tries = phi i64 [ 0, %join ], [ %tries.next, %again ], [ %tries, %late ]
  %state = load atomic i32, ptr %jslot acquire, align 4
  switch i32 %state, label %joined [ i32 1, label %late
                                     i32 2, label %wait ]
late:
  %take = cmpxchg ptr %jslot, i32 1, i32 0 acq_rel acquire
  %off = extractvalue { i32, i1 } %take, 1
  br i1 %off, label %joined, label %look
wait:
  %tries.next = add i64 %tries, 1
  %long = icmp ugt i64 %tries.next, 1000
  br i1 %long, label %yield, label %brief
brief:
  call void @llvm.@PAUSE@
  br label %again
yield:
  %y = call i32 @sched_yield()
  br label %again
again:
  br label %look
joined:
  %j.next = add i64 %j, 1
  br label %joining
unlock:
  store atomic i32 0, ptr @busy release, align 4
  br label %return
return:
  ret void
}

define void @lw_pool_begin() {
  %r = call i32 @pthread_key_create(ptr @limit_key, ptr null)
  ret void
}

; Sets the calling thread's own number (0: none). Returns the previous one.
define i64 @lw_pool_limit(i64 %n) {
  %key = load i32, ptr @limit_key
  %before.p = call ptr @pthread_getspecific(i32 %key)
  %before = ptrtoint ptr %before.p to i64
  %new = inttoptr i64 %n to ptr
  %r = call i32 @pthread_setspecific(i32 %key, ptr %new)
  ret i64 %before
}

define void @lw_pool_configure(i64 %threads, i64 %dynamic, i64 %spin) {
  store atomic i64 %threads, ptr @threads monotonic, align 8
  store i64 %dynamic, ptr @dynamic
  store i64 %spin, ptr @spin_ns
  ret void
}

; In a forked child only the forking thread exists: forget the others.
define void @lw_pool_forget() {
  store i64 0, ptr @spawned
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; Ends all workers and waits for them. False if a job is running.
define i1 @lw_pool_stop() {
entry:
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %locked = extractvalue { i32, i1 } %swap, 1
  br i1 %locked, label %begin, label %refused
refused:
  ret i1 false
begin:
  store atomic i64 1, ptr @threads monotonic, align 8
  %have = load i64, ptr @spawned
  br label %loop
loop:
  %k = phi i64 [ 1, %begin ], [ %k.next, %joined ]
  %done = icmp ugt i64 %k, %have
  br i1 %done, label %unlock, label %end
end:
  %slot = call ptr @slot(i64 %k)
  %was = atomicrmw xchg ptr %slot, i32 4 acq_rel
  call void @futex(ptr %slot, i32 129, i32 1)
  %handle = load i64, ptr ([@MAX@ x i64], ptr @handles, i64 0, i64 %k)
  %r = call i32 @pthread_join(i64 %handle, ptr null)
  br label %joined
joined:
  %k.next = add i64 %k, 1
  br label %loop
unlock:
  store i64 0, ptr @spawned
  store atomic i32 0, ptr @busy release, align 4
  ret i1 true
}

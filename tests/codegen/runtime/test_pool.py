"""The thread pool: every index exactly once, whatever the threads, callers and forks."""

import ctypes
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from loopwright.codegen.llvm.clock import CLOCK_TEXT
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.llvm.store import with_addresses
from loopwright.codegen.runtime import pool
from loopwright.codegen.runtime.pool_text import LINUX, pool_text
from loopwright.codegen.target import ISA_LEVELS, Target
from other_machine import MACHINES, run_program

# @count adds 1 to each element of the range; @nested runs @count inside the loop of another;
# @slow sleeps in each index; @who writes the number of the thread that ran each index.
TEXT = r"""
declare void @lw_parallel_for(ptr, ptr, i64)
declare i32 @usleep(i32)
declare i64 @syscall(i64, ...)

define void @count(ptr %data, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr i64, ptr %data, i64 %i
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @nested(ptr %data, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %row = mul i64 %i, 8
  %p = getelementptr i64, ptr %data, i64 %row
  call void @lw_parallel_for(ptr @count, ptr %p, i64 8)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @who(ptr %data, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %r = call i32 @usleep(i32 2000)
  %self = call i64 (i64, ...) @syscall(i64 186)
  %p = getelementptr i64, ptr %data, i64 %i
  store i64 %self, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.fixture(scope="module")
def code():
    return load_object(compile_object(TEXT, Target.host()), pool.symbols())


@pytest.fixture(autouse=True)
def settings():
    threads = pool.get_threads()
    yield
    pool.set_threads(threads)
    pool.configure(dynamic=True, spin=pool.SPIN_SECONDS)


def _run(code, name: str, data: np.ndarray, n: int) -> None:
    pool.parallel_for(code.address(name), data.ctypes.data, n)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_index_runs_once(code, threads, dynamic):
    pool.set_threads(threads)
    pool.configure(dynamic=dynamic)
    for n in (0, 1, 2, 3, 5, 8, 100, 1001):
        data = np.zeros(n + 1, np.int64)
        for _ in range(20):
            _run(code, "count", data, n)
        np.testing.assert_array_equal(data, [20] * n + [0])


def test_a_negative_count_runs_nothing(code):
    data = np.zeros(4, np.int64)
    _run(code, "count", data, -3)
    assert not data.any()


def test_workers_that_sleep_are_woken(code):
    pool.set_threads(2)
    pool.configure(spin=0.0)
    data = np.zeros(64, np.int64)
    for _ in range(50):
        _run(code, "count", data, 64)
        time.sleep(0.001)
    assert (data == 50).all()


@pytest.mark.parametrize("cores", [1, None])
def test_woken_workers_may_run_where_their_caller_may(code, cores):
    everywhere = os.sched_getaffinity(0)
    pool.set_threads(3)
    pool.configure(spin=0.0)
    data = np.zeros(64, np.int64)
    try:
        os.sched_setaffinity(0, sorted(everywhere)[:cores])
        for _ in range(5):
            _run(code, "who", data, 12)  # long enough for all to wake
            time.sleep(0.002)
        took_part = {int(thread) for thread in data[:12]}
        assert all(os.sched_getaffinity(t) == os.sched_getaffinity(0) for t in took_part)
    finally:
        os.sched_setaffinity(0, everywhere)


@pytest.mark.parametrize("spin", [0.0, pool.SPIN_SECONDS])
def test_several_threads_share_the_work(code, spin):
    pool.set_threads(3)
    pool.configure(spin=spin)
    for _ in range(2):  # the second time it is known to be worth waking sleepers for
        data = np.zeros(24, np.int64)
        _run(code, "who", data, 24)
        assert len(set(data.tolist())) == 3
        time.sleep(0.005)


def test_a_nested_loop_runs_inline(code):
    pool.set_threads(3)
    data = np.zeros(8 * 40, np.int64)
    for _ in range(20):
        _run(code, "nested", data, 40)
    assert (data == 20).all()


def test_python_threads_may_call_at_once(code):
    pool.set_threads(2)
    arrays = [np.zeros(501, np.int64) for _ in range(4)]

    def work(data: np.ndarray) -> None:
        for _ in range(200):
            _run(code, "count", data, 501)

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((a == 200).all() for a in arrays)


def test_a_forked_child_has_a_pool_of_its_own(code):
    pool.set_threads(3)
    data = np.zeros(24, np.int64)
    _run(code, "count", data, 24)
    child = os.fork()
    if child == 0:  # assertions cannot be seen here: the exit code tells
        try:
            _run(code, "who", data, 24)
            os._exit(0 if len(set(data.tolist())) == 3 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_interpreter_ends_cleanly_while_workers_spin():
    script = (
        "import ctypes\n"
        "from loopwright.codegen.llvm.engine import compile_object\n"
        "from loopwright.codegen.llvm.link import load_object\n"
        "from loopwright.codegen.runtime import pool\n"
        "from loopwright.codegen.target import Target\n"
        "text = 'define void @nothing(ptr %c, i64 %b, i64 %e) { ret void }'\n"
        "code = load_object(compile_object(text, Target.host()), pool.symbols())\n"
        "pool.set_threads(4)\n"
        "pool.configure(spin=1.0)\n"
        "pool.parallel_for(code.address('nothing'), 0, 100)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_number_of_threads_is_a_setting(monkeypatch):
    pool.set_threads(5)
    assert pool.get_threads() == 5
    monkeypatch.setenv("LOOPWRIGHT_THREADS", "3")
    assert pool.default_threads() == 3


@pytest.mark.parametrize(
    ("groups", "limits", "share"),
    [
        ("0::/", {}, 64),
        ("0::/", {"cpu.max": "max 100000"}, 64),
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/", {"cpu.max": "1000 100000"}, 1),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
        ("0::/a/b", {"a/b/cpu.max": "400000 100000", "c/cpu.max": "100000 100000"}, 4),
        ("3:cpu,cpuacct:/k", {"cpu/k/cpu.cfs_quota_us": "-1", "cpu/k/cpu.cfs_period_us": "1"}, 64),
        ("3:cpu,cpuacct:/k", {"cpu/k/cpu.cfs_quota_us": "9", "cpu/k/cpu.cfs_period_us": "2"}, 5),
        ("0::/", {"cpu.max": "not a limit"}, 64),
    ],
)
def test_the_default_is_what_the_process_may_use(monkeypatch, tmp_path, groups, limits, share):
    monkeypatch.delenv("LOOPWRIGHT_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    monkeypatch.setattr(pool, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(pool, "OWN_GROUP", tmp_path / "own")
    (tmp_path / "own").write_text(groups + "\n")
    for name, text in limits.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert pool.default_threads() == share


def test_an_idle_pool_burns_no_time(code):
    pool.set_threads(3)
    data = np.zeros(64, np.int64)
    for _ in range(20):
        _run(code, "count", data, 64)
    time.sleep(0.05)  # longer than workers spin
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(0.3)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 0.02


def test_workers_stay_awake_where_loops_are_timed(code):
    def sleeps(thread: int) -> int:
        """How often a thread has given up its core by itself."""
        lines = Path(f"/proc/self/task/{thread}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))

    pool.set_threads(2)
    data = np.zeros(8, np.int64)
    with pool.awake(10.0):
        while len(took_part := set(data.tolist()) - {0, threading.get_native_id()}) != 1:
            _run(code, "who", data, 8)
        (worker,) = took_part
        before = sleeps(worker)
        for _ in range(5):
            _run(code, "count", data, 8)
            time.sleep(0.005)
        assert sleeps(worker) == before
    end = time.monotonic() + 10.0
    while sleeps(worker) == before and time.monotonic() < end:
        time.sleep(0.005)
    assert sleeps(worker) > before


@pytest.mark.parametrize(("turns", "threads"), [(7, 2), (5, 4), (9, 4)])
def test_turns_that_do_not_divide_are_shared_evenly(code, turns, threads):
    """No thread has more turns than need be, as long as all of them run."""
    pool.set_threads(threads)
    pool.configure(spin=0.01)
    most = []
    for _ in range(10):  # a busy machine may keep a thread from its turns
        data = np.zeros(turns, np.int64)
        _run(code, "who", data, turns)
        most.append(max(np.unique(data, return_counts=True)[1]))
    assert min(most) == -(-turns // threads)


def test_a_thread_may_have_a_number_of_its_own(code):
    pool.set_threads(2)
    seen = {}

    def work(count: int) -> None:
        with pool.limited(count):
            data = np.zeros(24, np.int64)
            _run(code, "who", data, 24)
            seen[count] = (pool.get_threads(), len(set(data.tolist())))
        seen[-count] = pool.get_threads()

    for count in (1, 3):
        thread = threading.Thread(target=work, args=(count,))
        thread.start()
        thread.join()
    assert seen == {1: (1, 1), -1: 2, 3: (3, 3), -3: 2}
    with pool.limited(4):
        with pool.limited(5):
            assert pool.get_threads() == 5
        assert pool.get_threads() == 4
        pool.configure(dynamic=False)
    assert pool.get_threads() == 2


@pytest.mark.parametrize("count", [0, -1, 257])
def test_an_impossible_number_of_threads_is_refused(count):
    with pytest.raises(ValueError, match=f"{count} threads asked for; 1 to 256 are possible"):
        pool.set_threads(count)


def test_a_wrong_environment_variable_is_named(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_THREADS", "many")
    with pytest.raises(ValueError, match="LOOPWRIGHT_THREADS is 'many'"):
        pool.default_threads()


def test_the_loop_is_callable_as_a_plain_function(code):
    data = np.zeros(10, np.int64)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    run(pool.symbols()["lw_parallel_for"])(code.address("count"), data.ctypes.data, 10)
    assert (data == 1).all()


ELSEWHERE = """
declare void @lw_pool_begin()
declare void @lw_pool_configure(i64, i64, i64)
declare i1 @lw_pool_stop()
declare void @lw_parallel_for(ptr, ptr, i64)
declare i32 @sched_yield()
@met = internal global i64 0
@sum = internal global i64 0

define void @meet(ptr %context, i64 %begin, i64 %end) {
  %n = sub i64 %end, %begin
  %old = atomicrmw add ptr @met, i64 %n seq_cst
  br label %wait
wait:
  %r = call i32 @sched_yield()
  %here = load atomic i64, ptr @met acquire, align 8
  %few = icmp slt i64 %here, 4
  br i1 %few, label %wait, label %done
done:
  ret void
}

define void @add(ptr %total, i64 %begin, i64 %end) {
  br label %one
one:
  %i = phi i64 [ %begin, %0 ], [ %next, %one ]
  %s = phi i64 [ 0, %0 ], [ %t, %one ]
  %t = add i64 %s, %i
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %one, label %done
done:
  %old = atomicrmw add ptr %total, i64 %t monotonic
  ret void
}

define i32 @main() {
  call void @lw_pool_begin()
  call void @lw_pool_configure(i64 4, i64 1, i64 50000)
  call void @lw_parallel_for(ptr @meet, ptr null, i64 4)
  br label %loop
loop:
  %k = phi i64 [ 0, %0 ], [ %k.next, %loop ]
  call void @lw_parallel_for(ptr @add, ptr @sum, i64 1000)
  %k.next = add i64 %k, 1
  %again = icmp slt i64 %k.next, 300
  br i1 %again, label %loop, label %check
check:
  %stopped = call i1 @lw_pool_stop()
  %sum = load i64, ptr @sum
  %right = icmp eq i64 %sum, 149850000
  %fine = and i1 %right, %stopped
  %status = select i1 %fine, i32 0, i32 1
  ret i32 %status
}
"""
"""Four threads that wait for each other, and then add the indices of 300 loops."""


@pytest.mark.parametrize("isa", [n for n in MACHINES if ISA_LEVELS[n].architecture.name in LINUX])
def test_four_threads_of_another_architecture(isa: str, tmp_path: Path) -> None:
    if not MACHINES[isa].is_installed:
        pytest.skip(f"no emulator and linker for {isa}")
    target = Target(isa)
    run_program([ELSEWHERE, with_addresses(CLOCK_TEXT + pool_text(target))], target, tmp_path)


def test_where_there_is_no_pool_the_caller_does_all() -> None:
    for target in (Target("wasm32"), Target("aarch64", system="macos")):
        assert "pthread" not in pool_text(target)
        assert compile_object(pool_text(target), target)

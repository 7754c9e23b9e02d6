"""Memory of results is recycled, never while anything still looks at it."""

import resource

import numpy as np
import pytest
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.runtime import buffers
from loopwright.codegen.runtime.buffers import HUGE, PAGE, ArraySpec, HugePages, aligned_bytes
from loopwright.codegen.runtime.call_text import IN_PAGE, bin_sizes
from loopwright.codegen.runtime.executable import Executable
from loopwright.codegen.target import Target

SPEC = ArraySpec((300, 1000), np.dtype("float32"))


@pytest.fixture(autouse=True)
def no_idle_memory():
    buffers.trim()
    yield
    buffers.trim()


@pytest.fixture(scope="module")
def run():
    code = load_object(compile_object("define i32 @f(ptr %a, ptr %b) { ret i32 0 }", Target.host()))
    exe = Executable(code.address("f"), [], [SPEC], owner=code)
    return lambda: exe([])[0]


def test_memory_returns_when_the_last_array_is_gone(run):
    first = run()
    address = first.ctypes.data
    second = run()
    assert second.ctypes.data != address
    del first
    assert buffers.idle_bytes() >= SPEC.nbytes
    assert run().ctypes.data == address


def test_views_keep_the_memory(run):
    view = run()[10:20, ::2].T[3:]
    view[...] = 7
    assert buffers.idle_bytes() == 0
    others = [run() for _ in range(3)]
    for other in others:
        other[...] = 1
    assert (view == 7).all()


def test_memoryviews_keep_the_memory(run):
    first = run()
    first[...] = 7
    look = memoryview(first)
    del first
    run()[...] = 1
    assert look[5, 5] == 7
    assert buffers.idle_bytes() == min(n for n in bin_sizes() if n >= SPEC.nbytes)


def test_idle_memory_can_be_given_back(run):
    kept = [run() for _ in range(4)]
    kept.clear()
    assert buffers.idle_bytes() >= 4 * SPEC.nbytes
    buffers.trim()
    assert buffers.idle_bytes() == 0
    run()[...] = 1


def test_memory_that_is_not_used_for_long_is_given_back(run, monkeypatch):
    bins = buffers._bins()
    clock = [0.0]
    monkeypatch.setattr(buffers.time, "monotonic", lambda: clock[0])
    bins.seen.clear()
    run()
    bins.drop_unused()
    clock[0] = buffers.BIN_IDLE_SECONDS / 2
    bins.drop_unused()
    assert buffers.idle_bytes() > 0
    clock[0] = 2 * buffers.BIN_IDLE_SECONDS
    bins.drop_unused()
    assert buffers.idle_bytes() == 0


def test_idle_memory_has_a_limit(monkeypatch):
    code = load_object(compile_object("define i32 @f(ptr %a, ptr %b) { ret i32 0 }", Target.host()))
    spec = ArraySpec((80 << 20,), np.dtype("uint8"))
    exe = Executable(code.address("f"), [], [spec], owner=code)
    kept = [exe([]) for _ in range(20)]
    kept.clear()
    assert 0 < buffers.idle_bytes() <= buffers.IDLE_LIMIT


def test_large_results_come_without_page_faults():
    spec = buffers.ArraySpec((16, 1024, 1024), np.dtype("float32"))
    text = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i32 @f(ptr %args, ptr %arena) {
  %out = load ptr, ptr %args
  call void @llvm.memset.p0.i64(ptr %out, i8 1, i64 67108864, i1 false)
  ret i32 0
}"""
    code = load_object(compile_object(text, Target.host()))
    exe = Executable(code.address("f"), [], [spec], owner=code)
    last = exe([])[0]
    last = exe([])[0]  # now there is memory for two: the last result and the next one
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        last = exe([])[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 50
    assert last.nbytes == 1 << 26
    del last
    buffers.trim()


def test_large_results_can_be_written(run):
    code = load_object(compile_object("define i32 @f(ptr %a, ptr %b) { ret i32 0 }", Target.host()))
    for nbytes in (4 << 20, (4 << 20) - 1, (9 << 20) + 5):
        exe = Executable(code.address("f"), [], [ArraySpec((nbytes,), np.dtype("uint8"))])
        for _ in range(3):
            (result,) = exe([])
            result[...] = 1
            assert result.ctypes.data % 4096 == 2048


@pytest.mark.parametrize("nbytes", [0, 1, 64, 1000, 20000])
def test_aligned_bytes(nbytes):
    made = aligned_bytes(nbytes)
    assert made.nbytes == nbytes
    assert made.ctypes.data % 64 == 0 or nbytes == 0
    assert made.ctypes.data % 4096 == 2048 or nbytes < 16384


def test_arrays_that_live_together_follow_each_other_in_huge_pages():
    memory, small = HugePages(4 * HUGE), HugePages(HUGE)
    arrays = [memory.array((3, 100_000), np.dtype("float32")) for _ in range(8)]
    assert not any(array.any() for array in arrays)
    for n, array in enumerate(arrays):
        array[...] = n
    starts = [a.ctypes.data for a in arrays]
    assert {start % PAGE for start in starts} == {IN_PAGE}
    assert starts[0] % HUGE == IN_PAGE
    assert starts[-1] - starts[0] == 7 * 293 * PAGE  # pages that an array of 1.2 MB begins and ends
    assert all((array == n).all() for n, array in enumerate(arrays))
    alone = memory.array((4 * HUGE,), np.dtype("uint8"))  # there is no room left for it
    assert not alone.any()
    alone[...] = 9
    assert all((array == n).all() for n, array in enumerate(arrays))
    assert small.array((5, 7), np.dtype("int8")).shape == (5, 7)

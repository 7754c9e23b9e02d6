"""Native entries called from Python, through the builtin function and through ctypes."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.runtime import executable, native_call, pool
from loopwright.codegen.runtime.executable import ArraySpec, Executable
from loopwright.codegen.target import Target

F32 = np.dtype("float32")

# out = x * w + arena[0..4], where the entry first writes x to the arena.
TEXT = r"""
define i32 @entry(ptr %args, ptr %arena) {
  %x = load ptr, ptr %args
  %out.p = getelementptr ptr, ptr %args, i64 1
  %out = load ptr, ptr %out.p
  %w.p = getelementptr ptr, ptr %args, i64 2
  %w = load ptr, ptr %w.p
  %a = load <4 x float>, ptr %x, align 4
  store <4 x float> %a, ptr %arena, align 64
  %b = load <4 x float>, ptr %w, align 4
  %c = fmul <4 x float> %a, %b
  %d = load <4 x float>, ptr %arena, align 64
  %e = fadd <4 x float> %c, %d
  store <4 x float> %e, ptr %out, align 64
  ret i32 0
}
define i32 @nothing(ptr %args, ptr %arena) {
  ret i32 0
}
define i32 @deep(ptr %args, ptr %arena) {
  ret i32 2
}
declare i32 @usleep(i32)
define i32 @slow(ptr %args, ptr %arena) {
  %r = call i32 @usleep(i32 200000)
  ret i32 0
}
"""


@pytest.fixture(scope="module")
def code():
    return load_object(compile_object(TEXT, Target.host()))


@pytest.fixture(params=["builtin", "ctypes"])
def way(request, monkeypatch):
    """Both ways to call, the second as if objects had another layout here."""
    assert native_call.available()
    if request.param == "ctypes":
        monkeypatch.setattr(executable, "available", lambda: False)
    return request.param


@pytest.fixture
def exe(code, way):
    spec = ArraySpec((4,), F32)
    weights = np.arange(8, dtype=F32)[::2] / 2
    return Executable(code.address("entry"), [spec], [spec], [weights], 64, owner=code)


def _expected(x):
    return x * np.arange(4, dtype=F32) + x


def test_a_call_gives_new_arrays(exe):
    x = np.array([1, 2, 3, 4], F32)
    (first,) = exe([x])
    (second,) = exe([x + 1])
    np.testing.assert_array_equal(first, _expected(x))
    np.testing.assert_array_equal(second, _expected(x + 1))
    assert type(first) is np.ndarray
    assert first.flags.carray
    assert first.dtype is F32
    assert first.ctypes.data % 64 == 0


def test_constants_start_on_a_cache_line(code, way):
    spec = ArraySpec((4,), F32)
    raw = np.zeros(33, F32)
    odd = raw[1 + (-raw.ctypes.data % 64) // 4 :][:4]
    assert odd.ctypes.data % 64
    run = Executable(code.address("entry"), [spec], [spec], [odd], 64, owner=code)
    assert all(c.ctypes.data % 64 == 0 for c in run.constants)


def test_an_array_that_is_not_dense_is_copied(exe):
    x = np.arange(8, dtype=F32)[::2]
    assert exe.call(x) is None
    np.testing.assert_array_equal(exe([x])[0], _expected(x))
    odd = np.frombuffer(b"\0" + x.tobytes(), F32, offset=1)
    np.testing.assert_array_equal(exe([odd])[0], _expected(x))
    swapped = x.astype(">f4")
    assert exe.call(swapped) is None
    with pytest.raises(TypeError, match="argument 0 is >f4"):
        exe([swapped])


def test_arrays_of_other_classes_are_read(exe):
    class Mine(np.ndarray):
        pass

    x = np.arange(4, dtype=F32)
    np.testing.assert_array_equal(exe([x.view(Mine)])[0], _expected(x))
    assert type(exe([x.view(Mine)])[0]) is np.ndarray


def test_read_only_arrays_are_read_in_place(exe):
    x = np.arange(4, dtype=F32)
    x.flags.writeable = False
    np.testing.assert_array_equal(exe.call(x)[0], _expected(x))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "1 arrays are needed, 0 were given"),
        ([np.zeros(4, F32)] * 2, "1 arrays are needed, 2 were given"),
        ([np.zeros(4)], r"argument 0 is float64\[4\], but the code was made for float32\[4\]"),
        (
            [np.zeros((2, 2), F32)],
            r"argument 0 is float32\[2, 2\], but the code was made for float32\[4\]",
        ),
        ([np.zeros(5, F32)], r"argument 0 is float32\[5\]"),
        ([3], r"argument 0 is int64\[\], but the code was made for float32\[4\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(exe, arrays, message):
    if all(isinstance(a, np.ndarray) for a in arrays):
        assert exe.call(*arrays) is None
    with pytest.raises(TypeError, match=message):
        exe(arrays)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5, 4, 3), (1, 2, 1, 2, 1)])
def test_shapes_and_dtypes(code, way, shape, dtype):
    spec = ArraySpec(shape, np.dtype(dtype))
    run = Executable(code.address("nothing"), [spec] * 3, [spec] * 2)
    results = run.call(*[np.zeros(shape, dtype)] * 3)
    assert [(r.shape, r.dtype) for r in results] == [(shape, np.dtype(dtype))] * 2
    assert run.call(*[np.zeros((*shape, 1), dtype)] * 3) is None
    assert run.call(*[np.zeros(shape, "uint32")] * 3) is None


def test_an_equal_dtype_of_another_name_fits(code, way):
    spec = ArraySpec((2,), np.dtype("int64"))
    run = Executable(code.address("nothing"), [spec], [spec])
    assert run([np.zeros(2, "longlong")])[0].dtype == np.int64


def test_an_entry_may_have_no_arrays_at_all(code, way):
    assert Executable(code.address("nothing"), [], [])([]) == []


def test_results_too_large_for_memory_are_an_error(code, way):
    run = Executable(code.address("nothing"), [], [ArraySpec((1 << 50,), F32)])
    for _ in range(2):
        with pytest.raises(MemoryError):
            run([])


def test_the_call_outlives_the_executable(code):
    spec = ArraySpec((4,), F32)
    call = Executable(code.address("entry"), [spec], [spec], [np.ones(4, F32)], 64, code).call
    gc.collect()
    np.testing.assert_array_equal(call(np.ones(4, F32))[0], 2)


def test_no_references_are_lost_or_kept(code):
    spec = ArraySpec((4,), F32)
    run = Executable(code.address("nothing"), [spec], [spec])
    x, misfit = np.ones(4, F32), np.ones(4)
    run.call(x)
    counted = (x, misfit, F32, run)
    before = [sys.getrefcount(c) for c in counted]
    for _ in range(100):
        run.call(x)
        run.call(misfit)
    assert [sys.getrefcount(c) for c in counted] == before
    (result,) = run.call(x)
    assert sys.getrefcount(result) == 2


def test_threads_may_call_at_once(exe):
    wrong = []

    def work(seed: int) -> None:
        x = np.full(4, seed, F32)
        for _ in range(500):
            if not np.array_equal(exe([x])[0], _expected(x)):
                wrong.append(seed)

    _in_threads(work, 4)
    assert not wrong


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_a_call_may_have_a_number_of_threads_of_its_own(way, threads):
    text = """
declare i64 @lw_pool_threads()
define i32 @ask(ptr %args, ptr %arena) {
  %out = load ptr, ptr %args
  %n = call i64 @lw_pool_threads()
  store i64 %n, ptr %out
  ret i32 0
}"""
    asked = {"lw_pool_threads": pool.loaded_code().address("lw_pool_threads")}
    code = load_object(compile_object(text, Target.host()), asked)
    spec = ArraySpec((1,), np.dtype("int64"))
    exe = Executable(code.address("ask"), [], [spec], owner=code, threads=threads)
    before = pool.get_threads()
    assert exe([])[0] == [threads or before]
    with pool.limited(2):
        assert exe([])[0] == [threads or 2]
        assert pool.get_threads() == 2
    assert pool.get_threads() == before


def test_calls_overlap_in_time(code, way):
    run = Executable(code.address("slow"), [], [])
    count = 0

    def work(seed: int) -> None:
        nonlocal count
        run([])
        count += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    assert count == 0  # this thread runs while the native code does
    for thread in threads:
        thread.join()
    assert count == 3


def _in_threads(work, count):
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_results_may_live_until_the_interpreter_ends():
    script = (
        "import sys, numpy as np\n"
        "from loopwright.codegen.llvm.engine import compile_object\n"
        "from loopwright.codegen.llvm.link import load_object\n"
        "from loopwright.codegen.runtime.executable import ArraySpec, Executable\n"
        "from loopwright.codegen.target import Target\n"
        "text = 'define i32 @f(ptr %a, ptr %b) { ret i32 0 }'\n"
        "code = load_object(compile_object(text, Target.host()))\n"
        "spec = ArraySpec((100000,), np.dtype('float32'))\n"
        "exe = Executable(code.address('f'), [], [spec], owner=code)\n"
        "sys.kept = [exe([])[0] for _ in range(3)]\n"
        "np.kept = exe([])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_status_raises_and_the_next_call_has_its_frame(code, way):
    spec = ArraySpec((4,), F32)
    exe = Executable(code.address("deep"), [spec], [spec], [], 64, owner=code)
    for _ in range(3):
        with pytest.raises(RecursionError, match="compiled functions call each other too deeply"):
            exe([np.ones(4, F32)])

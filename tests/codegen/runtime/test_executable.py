"""Native entries called from Python."""

import threading

import numpy as np
import pytest
from loopwright.codegen.llvm.engine import compile_object, load_object
from loopwright.codegen.runtime.executable import ArraySpec, Executable
from loopwright.codegen.target import Target

F32 = np.dtype("float32")

# out = x * w + arena[0..4], where the entry first writes x to the arena.
TEXT = r"""
define void @entry(ptr %args, ptr %arena) {
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
  store <4 x float> %e, ptr %out, align 4
  ret void
}
"""


@pytest.fixture(scope="module")
def exe():
    code = load_object(compile_object(TEXT, Target.host()))
    spec = ArraySpec((4,), F32)
    weights = np.arange(4, dtype=F32)
    return Executable(code.address("entry"), [spec], [spec], [weights], 64, owner=code)


def _expected(x):
    return x * np.arange(4, dtype=F32) + x


def test_a_call_gives_new_arrays(exe):
    x = np.array([1, 2, 3, 4], F32)
    (first,) = exe([x])
    (second,) = exe([x + 1])
    np.testing.assert_array_equal(first, _expected(x))
    np.testing.assert_array_equal(second, _expected(x + 1))


def test_an_array_that_is_not_dense_is_copied(exe):
    x = np.arange(8, dtype=F32)[::2]
    np.testing.assert_array_equal(exe([x])[0], _expected(x))
    odd = np.frombuffer(b"\0" + x.tobytes(), F32, offset=1)
    np.testing.assert_array_equal(exe([odd])[0], _expected(x))


def test_read_only_arrays_are_read_in_place(exe):
    x = np.arange(4, dtype=F32)
    x.flags.writeable = False
    np.testing.assert_array_equal(exe([x])[0], _expected(x))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "1 arrays are needed, 0 were given"),
        (
            [np.zeros(4)],
            r"argument 0 is float64\[4\], but the code was made for float32\[4\]",
        ),
        (
            [np.zeros((2, 2), F32)],
            r"argument 0 is float32\[2, 2\], but the code was made for float32\[4\]",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(exe, arrays, message):
    with pytest.raises(TypeError, match=message):
        exe(arrays)


def test_threads_may_call_at_once(exe):
    wrong = []

    def work(seed: int) -> None:
        x = np.full(4, seed, F32)
        for _ in range(500):
            if not np.array_equal(exe([x])[0], _expected(x)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

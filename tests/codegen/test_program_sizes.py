"""Programs with symbolic sizes: one entry for all of them, and calls that do not fit refused."""

import threading
from dataclasses import dataclass
from itertools import pairwise

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.module_text import ModuleText
from loopwright.codegen.program import compile_program
from loopwright.codegen.runtime import executable as executable_module
from loopwright.codegen.runtime.call_text import bin_sizes
from loopwright.codegen.target import Target
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.verify import verify


@dataclass(frozen=True)
class Written:
    """A kernel written by hand."""

    name: str
    text: str

    @property
    def code(self) -> ModuleText:
        return ModuleText.of(self.text)


ADD = Written(
    "add",
    """define void @add(ptr %a, ptr %b, ptr %out, ptr %workspace, i64 %n) {
entry:
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %done, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.n, %loop ]
  %a.p = getelementptr float, ptr %a, i64 %i
  %b.p = getelementptr float, ptr %b, i64 %i
  %o.p = getelementptr float, ptr %out, i64 %i
  %x = load float, ptr %a.p, align 4
  %y = load float, ptr %b.p, align 4
  %z = fadd float %x, %y
  store float %z, ptr %o.p, align 4
  %i.n = add i64 %i, 1
  %more = icmp ult i64 %i.n, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
""",
)

MEANING = {"add": lambda a, b, out, n: np.add(a.ravel(), b.ravel(), out=out.reshape(-1))}

TEXT = """
program @main(@in %x: float32[n, 2 * m], @in %y: float32[m + 1], @out %out: float32[2 * m, n])
    for n in 0..40960, m in 0..100000 {
  requires m < 5000
  %2 = alloc float32[2 * n * m]
  call @add(@in %x, @in %x, @out %2) sizes (2 * m * n)
  %3 = alloc float32[n, 2 * m]
  call @add(@in %2, @in %x, @out %3) sizes (2 * m * n)
  free %2
  %4 = alloc float32[n, 2 * m]
  call @add(@in %3, @in %x, @out %4) sizes (2 * m * n)
  free %3
  call @add(@in %4, @in %x, @out %out) sizes (2 * m * n)
  free %4
}
"""


def _compiled(text=TEXT):
    program = verify(optimise(parse_program(text)))
    return program, compile_program(program, {"add": ADD}, Target.host()).executable


def _arrays(n, m):
    x = np.arange(2 * n * m, dtype=np.float32).reshape(n, 2 * m)
    return [x, np.ones(m + 1, np.float32)]


@pytest.fixture(params=["native", "ctypes"])
def compiled(request, monkeypatch):
    if request.param == "ctypes":
        monkeypatch.setattr(executable_module, "available", lambda: False)
    return _compiled()


@pytest.mark.parametrize(
    ("n", "m"), [(0, 0), (1, 1), (0, 5), (3, 0), (3, 7), (100, 300), (1000, 1000), (5, 4999)]
)
def test_one_entry_computes_all_sizes(compiled, n, m):
    program, executable = compiled
    arrays = _arrays(n, m)
    for _ in range(2):
        results = executable.call(*arrays)
        assert [r.shape for r in results] == [(2 * m, n)]
        np.testing.assert_array_equal(results[0], interpret(program, arrays, MEANING)[0])


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        ((3, 4), (4,), "axis 0 of argument 1 is 4, but has to be m + 1 = 3, with n = 3, m = 2"),
        ((3, 5), (3,), "axis 1 of argument 0 is 5, but has to be 2 * m = 4, with n = 3, m = 2"),
        ((40961, 2), (2,), "n = 40961 (axis 0 of argument 0) is not in 0..40960"),
        ((1, 10000), (5001,), "m < 5000 does not hold for n = 1, m = 5000"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(compiled, x, y, why):
    _, executable = compiled
    arrays = [np.zeros(shape, np.float32) for shape in (x, y)]
    assert executable.call(*arrays) is None
    with pytest.raises(TypeError) as error:
        executable(arrays)
    assert str(error.value) == why


def test_other_ranks_and_dtypes_are_refused(compiled):
    _, executable = compiled
    x, y = _arrays(3, 2)
    for wrong in ([x[0], y], [x, y.astype(np.float64)], [x]):
        assert executable.call(*wrong) is None


def test_memory_that_cannot_be_addressed_is_refused(compiled):
    """Sizes whose products overflow int64: the arrays are views of one element."""
    text = """
    program @main(@in %x: float32[n], @in %y: float32[m], @out %out: float32[n, m, n, m])
        for n in 0..2147483647, m in 0..2147483647 {
      call @add(@in %x, @in %y, @out %out) sizes (0)
    }
    """
    _, executable = _compiled(text)
    x = np.zeros(1 << 17, np.float32)
    assert executable.call(x, x) is None
    with pytest.raises(TypeError, match="bytes of memory would be needed"):
        executable([x, x])


def test_threads_call_with_different_sizes_at_once():
    _, executable = _compiled()
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(100):
            x, y = _arrays(*rng.integers(0, 60, 2))
            (result,) = executable.call(x, y)
            if not np.array_equal(result.ravel(), 5 * x.ravel()):
                wrong.append(x.shape)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_bins_hold_little_more_than_what_they_are_taken_for():
    sizes = bin_sizes()
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 1 << 62
    assert all(b <= 1.125 * a + 64 for a, b in pairwise(sizes))


CONTROL = """
program @main(@in %x: float32[n, m], @in %t: int64[], @out %out: float32[n, m])
    for n in 0..40960, m in 0..40960 {
  %c = alloc float32[n, m]
  copy @in %x, @out %c
  for %i: int64[] < %t {
    %a = alloc float32[m * n]
    invoke @twice(@in %c, @out %a) sizes (m * n) on stack
    copy @in %a, @out %c
    free %a
  }
  invoke @twice(@in %c, @out %out) sizes (n * m) on stack
  free %c
}
function program @twice(@in %a: float32[k], @out %b: float32[k]) for k in 0..4611686018427387904 {
  %s = alloc float32[k]
  call @add(@in %a, @in %a, @out %s) sizes (k)
  %r = alloc float32[k]
  call @add(@in %s, @in %a, @out %r) sizes (k)
  call @add(@in %r, @in %s, @out %b) sizes (k)
  free %s
  free %r
}
""".replace(
    "invoke @twice(@in %c, @out %a)",
    "%v = alias %c as float32[m * n]\n    invoke @twice(@in %v, @out %a)",
).replace(
    "invoke @twice(@in %c, @out %out)",
    "%w = alias %c as float32[m * n]\n  %o = alias %out as float32[m * n]\n"
    "  invoke @twice(@in %w, @out %o)",
)


def test_loops_and_functions_have_sizes():
    program, executable = _compiled(CONTROL)
    assert "frame %twice.frame" in str(program)
    for n, m in [(0, 3), (1, 1), (7, 5), (100, 300)]:
        for t in (0, 1, 3):
            arrays = [np.ones((n, m), np.float32), np.array(t)]
            (result,) = executable.call(*arrays)
            np.testing.assert_array_equal(result, interpret(program, arrays, MEANING)[0])
            assert (result == 5.0 ** (t + 1)).all()


def test_a_frame_has_room_for_all_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = []

    class Guarded(executable_module._Frame):
        def __init__(self, words):
            super().__init__([*words, *[12345] * 64])
            frames.append(self)

    monkeypatch.setattr(executable_module, "_Frame", Guarded)

    def f(c, a):  # ``c`` is written in place: one more output, and a size, beside the result
        c[...] = 1
        return a[1:] + c

    c = np.zeros((3, 1))
    for n in 5, 6, 7:
        assert lw.compile(f, dynamic={"a": {0: "n"}})(c, np.ones(n)).shape == (3, n - 1)
    assert frames and all(list(frame.words[-64:]) == [12345] * 64 for frame in frames)

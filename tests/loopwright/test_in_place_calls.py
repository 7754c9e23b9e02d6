"""Functions that change their arguments, in every way in which a function is run or looked at."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.selection.select import Chosen
from loopwright.autotune.workload import workload_of
from loopwright.cli import main
from loopwright.codegen.runtime import buffers
from loopwright.driver.pipeline import build, kernels_of, lower_module
from loopwright.ir.schedule.steps import Schedule, split, stream, vectorize


def step(x, g):
    x -= 0.5 * g
    return (x * x).sum()


def arrays() -> tuple[Any, Any]:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    return x, np.ones_like(x)


def after_a_step() -> Any:
    x, g = arrays()
    step(x, g)
    return x


def test_only_calls_change_arguments(tmp_path: Path) -> None:
    """Tracing, lowering, tuning and comparing leave the caller's arrays as they are."""
    function = lw.compile(step, threads=1)
    x, g = arrays()
    function.trace(x, g)
    lowered = function.lower(x, g)
    lowered.as_text("kernels")
    assert not lw.debug.compare(function, x, g).differs
    function.tune(x, g, trials=4, budget="2s", log=tmp_path / "log.jsonl")
    np.testing.assert_array_equal(x, arrays()[0])
    wanted = after_a_step()
    function(x, g)  # tuned by now
    np.testing.assert_array_equal(x, wanted)
    again, g = arrays()
    lowered.compile()(again, g)
    np.testing.assert_array_equal(again, wanted)
    threads, g = arrays()
    function(threads, g, threads=2)
    np.testing.assert_array_equal(threads, wanted)


def adam(p, g, m, v):
    m *= 0.9
    m += 0.1 * g
    v *= 0.999
    v += 0.001 * g * g
    p -= 1e-3 * m / (np.sqrt(v) + 1e-8)


@pytest.mark.parametrize("size", [3, 64, 1001])
def test_an_update_is_computed_where_the_argument_lies(size: int) -> None:
    """As NumPy does, without a new array: nothing is copied, nor recycled."""
    rng = np.random.default_rng(0)
    given = [rng.random(size, np.float32) for _ in range(4)]
    plain = [a.copy() for a in given]
    function = lw.compile(adam, threads=1)
    text = function.lower(*given).as_text("program")
    assert text.count("in place") == 3 and "alloc" not in text and "copy" not in text
    before = buffers.idle_bytes()
    for _ in range(4):
        function(*given)
        adam(*plain)
    assert buffers.idle_bytes() == before
    for got, wanted in zip(given, plain, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_big_updates_are_not_stored_past_the_caches() -> None:
    """Such stores have to be aligned, and the caller's array is not."""
    size = 1 << 20
    base, g = np.zeros(size + 1, np.float32), np.ones(size, np.float32)
    streamed = Schedule.of(split("i", (size // 64, 64)), vectorize("i.1"), stream("out"))

    def add(x, g):
        x += g

    module = lw.compile(add).trace(base[1:], g).module
    prims = kernels_of(lower_module(module))
    chosen = {workload_of(p).hash: Chosen(streamed, "rules", "plain") for p in prims.values()}
    built = build(module, schedules=chosen, updates=[(0, 0, None)], threads=1)
    assert "stream" not in built.as_text("loops")
    assert "stream" in build(module, schedules=chosen, threads=1).as_text("loops")
    assert built.update is not None
    assert built.update(base[1:], g) == []
    assert base[0] == 0 and (base[1:] == 1).all()


def test_nothing_is_written_if_an_index_is_wrong() -> None:
    def scaled(x, table, i):
        x *= 2
        x += table[i]

    x, table, i = np.ones(3, np.float32), np.ones(4, np.float32), np.array([0, 1, 2])
    function = lw.compile(scaled, threads=1)
    for _ in range(3):
        function(x, table, i)
    np.testing.assert_array_equal(x, 15)
    i[1] = 4
    for _ in range(3):
        with pytest.raises(IndexError):
            function(x, table, i)
    np.testing.assert_array_equal(x, 15)


def test_background_tuning_writes_each_call_once(tmp_path: Path) -> None:
    function = lw.compile(step, log=tmp_path / "log.jsonl", tune=lw.Background(budget="0.4s"))
    x, g = arrays()
    plain, _ = arrays()
    for _ in range(50):
        step(plain, g)
        function(x, g)
    function.background.stop()
    np.testing.assert_array_equal(x, plain)


def test_bench_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.py"
    file.write_text("def update(x, g):\n    x += g\n    x[0] = 2\n    return x\n")
    at = f"{file}:update"
    specs = ["--arg", "x=f32[16,16]", "--arg", "g=f32[16,16]"]
    assert main(["bench", at, *specs, "--seconds", "0.1"]) == 0
    assert "results agree to 0e+00" in capsys.readouterr().out


def raised(function: Callable[..., Any], *args: Any) -> str:
    compiled = function if isinstance(function, lw.CompiledFunction) else lw.compile(function)
    with pytest.raises(lw.LoopwrightError) as caught:
        compiled(*args)
    return re.sub(r"(?m)[\w/.]*test_in_place_calls.py:\d+|^ +\d+ (?=\|)", "#", str(caught.value))


def test_a_read_only_argument_is_refused_before_anything_runs() -> None:
    def both(x, y):
        y += 1
        x[0] += 1

    function = lw.compile(both)
    x, y = arrays()
    function(x, y)
    x, y = arrays()
    x.flags.writeable = False
    for _ in range(2):
        assert raised(function, x, y) == "\n".join(
            [
                "output array is read-only",
                "  #, in both",
                "#|         x[0] += 1",
                "        |         ^^^^^^^^^",
                "  x : float32[8, 8]   argument x of both",
                "  try: a .copy() of it",
            ]
        )
    np.testing.assert_array_equal(y, arrays()[1])
    with pytest.raises(ValueError):
        both(x, y)  # NumPy, too


def test_arguments_that_overlap_are_refused() -> None:
    def shifted(x, y):
        x += y

    base = np.arange(10, dtype=np.float32)
    function = lw.compile(shifted)
    text = raised(function, base[1:], base[:-1])
    assert "shifted: x is changed, and y shares memory with it" in text
    assert "try: y.copy()" in text
    np.testing.assert_array_equal(base, np.arange(10, dtype=np.float32))
    function(base[::2], base[1::2])  # side by side, but apart
    np.testing.assert_array_equal(base[:4], [1, 1, 5, 3])
    wide = np.lib.stride_tricks.as_strided(base, (3, 4), (4, 4))
    assert "elements that share memory" in raised(function, wide, np.ones((3, 4), np.float32))


def test_errors_of_numpy_at_the_users_line() -> None:
    x, i = np.ones((2, 3), np.float32), np.arange(3)

    def cast(x, i):
        i += x[0]

    def divided(x, i):
        i /= 2

    def grown(x, i):
        row = x[0]
        row += x

    def repeated(x, i):
        y = np.broadcast_to(x, (2, 2, 3))
        y += 1

    def diagonal(x, i):
        np.diagonal(x)[0] = 1

    def assigned(x, i):
        x[:, 1:] = i

    def masked(x, i):
        x[i > 1] = 0

    def flat(x, i):
        x.flat[0] = 1

    wanted = {
        cast: "Cannot cast ufunc 'add' output from dtype('float64') to dtype('int64') with "
        "casting rule 'same_kind'",
        divided: "Cannot cast ufunc 'divide' output from dtype('float64') to dtype('int64')",
        grown: "non-broadcastable output operand with shape (3,) doesn't match the broadcast "
        "shape (2,3)",
        repeated: "output array is read-only",
        diagonal: "assignment destination is read-only",
        assigned: "could not broadcast input array from shape (3,) into shape (2,2)",
        masked: "boolean index did not match indexed array",
        flat: "assignment destination is read-only",
    }
    for program, message in wanted.items():
        text = raised(program, x, i)
        assert message in text, text
        assert f"#, in {program.__name__}" in text
        if program is not flat:
            with pytest.raises((TypeError, ValueError, IndexError)):
                program(x.copy(), i.copy())


def test_arrays_from_outside_are_constants() -> None:
    table = np.zeros((2, 3), np.float32)

    def by_view(x):
        view = lw.xp.asarray(table)
        view += x

    def operator(x):
        nonlocal table
        table += x

    x = np.ones((2, 3), np.float32)
    assert "changes an array from outside of the function" in raised(by_view, x)
    assert "table += x writes a traced value into the NumPy array table" in raised(operator, x)
    assert not table.any()


@dataclass
class Model:
    w: Any
    calls: Any = 0

    @lw.compile
    def update(self, g):
        self.w -= g

    @lw.compile
    def counted(self, g):
        self.calls += 1
        return g


def test_a_dataclass_is_written_back_and_not_given_other_values() -> None:
    w, g = arrays()
    model = Model(w)
    model.update(g)
    assert model.w is w
    np.testing.assert_array_equal(w, arrays()[0] - g)
    assert "changes a list, dict or object that is an argument" in raised(Model.counted, model, g)

    def replaced(state, g):
        state["w"] = state["w"] + g

    assert "changes a list, dict or object" in raised(replaced, {"w": w}, g)


def test_memory_of_other_kinds() -> None:
    def doubled(x):
        x *= 2

    function = lw.compile(doubled)
    buffer = bytearray(np.arange(4, dtype=np.float32).tobytes())
    view = memoryview(buffer).cast("f")
    function(view)
    np.testing.assert_array_equal(np.frombuffer(buffer, np.float32), [0, 2, 4, 6])
    big = np.arange(4, dtype=">f4")
    function(big)
    np.testing.assert_array_equal(big, [0, 2, 4, 6])
    assert big.dtype == ">f4"
    assert "output array is read-only" in raised(function, memoryview(bytes(16)).cast("f"))


def test_functions_that_change_nothing_are_called_as_before() -> None:
    function = lw.compile(lambda x: (x + 1)[::2])
    x = np.zeros(4, np.float32)
    for _ in range(3):
        function(x)
    assert function._last.run is None
    assert function._last.direct(x) is not None


def test_an_element_of_an_argument_is_written_without_a_copy_of_it() -> None:
    @lw.compile
    def f(x, i):
        x[i] += 1
        lw.fori_loop(0, 3, lambda k, c: (x.__setitem__((i, k), k), c)[1], 0)

    x, i = np.zeros((400, 5)), np.int64(7)
    f(x, i)
    f(x, i)
    assert x[7].tolist() == [0, 1, 2, 2, 2] and x.sum() == 7
    assert "update %x with %out in place" in f.lower(x, i).as_text("program")

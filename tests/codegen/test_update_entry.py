"""The native entry that writes arguments: rows and strided slices, and what it refuses to touch."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.codegen.program import compile_program
from loopwright.codegen.runtime import executable as runtime
from loopwright.codegen.target import Target
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.planner import plan_memory
from loopwright.ir.program.verify import verify

SLICES = [
    ((7,), np.s_[1:6:2]),
    ((7,), np.s_[2:5]),
    ((4, 5), np.s_[:, 1:4]),
    ((4, 5), np.s_[1:4:2, 0:5]),
    ((4, 5), np.s_[:, 2:3]),
    ((3, 4, 5), np.s_[:, 1:3, :]),
    ((3, 4, 5), np.s_[0:3:2, 0:4:3, 0:5:2]),
    ((3, 4, 5), np.s_[:, :, 4:5]),
    ((2, 1, 6), np.s_[:, :, 1:2]),
    ((3, 4), np.s_[:, :]),
    ((3, 0), np.s_[:, :]),
]


def updating(text: str):
    program = optimise(verify(parse_program(text)))
    compiled = compile_program(program, {}, Target.host())
    assert compiled.updating is not None
    return compiled.updating


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
@pytest.mark.parametrize("native", [True, False])
def test_slices_are_copied_where_they_belong(dtype, native, monkeypatch) -> None:
    if not native:
        monkeypatch.setattr(runtime, "available", lambda: False)
    for shape, key in SLICES:
        key = key if isinstance(key, tuple) else (key,)
        axes = [range(n)[k] for n, k in zip(shape, key, strict=True)]
        size = [len(a) for a in axes]
        slices = ", ".join(f"{a.start}:{max(a.stop, 1)}:{a.step}" for a in axes)
        place = "%x" if 0 in shape else f"%x[{slices}]"
        run = updating(
            f"program @main(@in %x: {dtype}{list(shape)}, @in %g: {dtype}{size}, "
            f"@out %o: {dtype}{size}) {{ copy @in %g, @out %o update {place} with %o }}"
        )
        x = np.zeros(shape, dtype)
        wanted = x.copy()
        g = (1 + np.arange(np.prod(size))).reshape(size).astype(dtype)
        wanted[key] = g
        assert run.call(x, g) == []
        np.testing.assert_array_equal(x, wanted)


TWO = (
    "program @main(@in %x: float32[8], @in %y: float32[8], @out %s: float32[8], @out %o: "
    "float32[8]) { copy @in %x, @out %s copy @in %y, @out %o update %x with %o }"
)


@pytest.mark.parametrize("native", [True, False])
def test_arguments_that_cannot_be_written_are_left_alone(native, monkeypatch) -> None:
    if not native:
        monkeypatch.setattr(runtime, "available", lambda: False)
    run = updating(TWO)
    base = np.arange(24, dtype=np.float32)
    x, y = base[:8], base[8:16]
    (old,) = run.call(x, y)  # side by side
    np.testing.assert_array_equal(old, np.arange(8))
    np.testing.assert_array_equal(x, y)
    before = base.copy()
    assert run.call(x, x) is None
    assert run.call(x, base[7:15]) is None
    assert run.call(base[7:15], x) is None
    assert run.call(base[::3], y) is None
    assert run.call(x.astype(np.float64), y) is None
    x.flags.writeable = False
    assert run.call(x, y) is None
    assert run.call(y, x) is not None  # only read
    before[8:16] = before[:8]
    np.testing.assert_array_equal(base, before)


@pytest.mark.parametrize(("how", "nbytes"), [(" in place", 64), ("", 96)])
def test_the_arena_holds_the_program_and_what_is_copied(how: str, nbytes: int) -> None:
    text = (
        "program @main(@in %x: float32[8], @in %y: float32[8], @out %o: float32[8]) { %t = alloc "
        f"float32[8] copy @in %y, @out %t copy @in %t, @out %o free %t update %x with %o{how} }}"
    )
    program = verify(plan_memory(parse_program(text)))
    assert program.arena == 64
    compiled = compile_program(program, {}, Target.host())
    assert compiled.updating is not None
    assert compiled.updating.arena_bytes == nbytes

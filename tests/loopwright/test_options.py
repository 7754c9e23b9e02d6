"""Options of ``lw.compile``: which there are, and which machine code is for."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.target import ISA_LEVELS, Target


@pytest.mark.parametrize(
    ("name", "hint"),
    [("thread", "threads="), ("static_args", "static_argnames="), ("zz", "one of")],
)
def test_an_option_that_does_not_exist(name: str, hint: str) -> None:
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        lw.compile(lambda x: x, **{name: 1})
    assert str(caught.value).startswith(f"lw.compile has no option {name}\n")
    assert f"\n  try: {hint}" in str(caught.value)
    with pytest.raises(
        lw.LoopwrightTypeError, match=f"lw.build has no option {name}\n  try: {hint}"
    ):
        lw.build("def @main(%x: Tensor[(2), float32]) { add(%x, %x) }", **{name: 1})


def test_a_target_is_the_name_of_a_level() -> None:
    for name, level in ISA_LEVELS.items():
        if level.cpu_flags <= Target.host().level.cpu_flags:
            f = lw.compile(lambda x: x + 1, target=name)
            assert f.target == Target.host().with_isa(name)
            assert f(np.zeros(3)).tolist() == [1, 1, 1]


def test_other_targets_are_refused() -> None:
    for wrong in ("x86-64-v9", "arm", 3):
        with pytest.raises(lw.LoopwrightError, match="x86-64, x86-64-v3, x86-64-v4"):
            lw.compile(lambda x: x, target=wrong)


def test_a_level_above_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.codegen.target._cpuinfo", lambda: (frozenset({"sse2"}), "old"))
    with pytest.raises(lw.LoopwrightValueError, match="above this machine, which lacks avx2"):
        lw.compile(lambda x: x, target="x86-64-v3")


def test_code_for_another_machine_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    f = lw.compile(lambda x: x + 1, target=Target(isa="x86-64-v3"))
    monkeypatch.setattr("loopwright.codegen.target._cpuinfo", lambda: (frozenset({"sse2"}), "old"))
    with pytest.raises(lw.LoopwrightValueError, match="does not run on this machine, which lacks"):
        f(np.zeros(3))


def test_a_function_that_yields_gives_a_generator() -> None:
    def halves(x):
        yield x / 2
        yield x / 4

    f = lw.compile(halves)
    for _ in range(2):
        given = f(np.array([4.0]))
        assert type(given) is type(halves(np.array([4.0])))
        assert [part.tolist() for part in given] == [[2], [1]]

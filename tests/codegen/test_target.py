from __future__ import annotations

import pytest
from loopwright.codegen import target as targets
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.errors import LoopwrightValueError


@pytest.fixture
def host_again():
    """``Target.host`` reads the environment in this test, and again after it."""
    Target.host.cache_clear()
    yield
    Target.host.cache_clear()


def test_an_unknown_level_is_refused_where_it_is_given() -> None:
    with pytest.raises(LoopwrightValueError, match="unknown ISA level 'avx9000'"):
        Target("avx9000")
    with pytest.raises(LoopwrightValueError, match="one of x86-64, x86-64-v3, x86-64-v4"):
        Target().with_isa("x86-64-v5")


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(LoopwrightValueError, match="unknown feature 'amx-fp64' of a target"):
        Target("x86-64-v4", features=frozenset({"amx-fp64", "avx512vnni"}))


def test_an_unknown_level_in_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, host_again: None
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_ISA", "pentium")
    with pytest.raises(LoopwrightValueError, match="unknown ISA level 'pentium'"):
        Target.host()


def test_a_level_above_the_machine_is_refused(
    monkeypatch: pytest.MonkeyPatch, host_again: None
) -> None:
    flags = ISA_LEVELS["x86-64-v3"].cpu_flags
    monkeypatch.setattr(targets, "_cpuinfo", lambda: (flags, "a small one"))
    monkeypatch.setenv("LOOPWRIGHT_ISA", "x86-64-v4")
    with pytest.raises(LoopwrightValueError, match="above this machine, which lacks avx512bw"):
        Target.host()
    Target.host.cache_clear()
    monkeypatch.setenv("LOOPWRIGHT_ISA", "x86-64")
    assert Target.host().isa == "x86-64"

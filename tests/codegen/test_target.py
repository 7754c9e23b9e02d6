from __future__ import annotations

import struct

import pytest
from loopwright.codegen import target as targets
from loopwright.codegen.llvm.engine import compile_object
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


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(LoopwrightValueError, match="riscv64 has no system 'macos'"):
        Target("riscv64", system="macos")


MACHINE_NUMBERS = {
    "ELF": {"x86_64": 62, "aarch64": 183, "riscv64": 243},
    "Mach-O": {"x86_64": 0x01000007, "aarch64": 0x0100000C},
    "COFF": {"x86_64": 0x8664, "aarch64": 0xAA64},
    "wasm": {"wasm32": 1},
}
"""The numbers of architectures in the headers of objects; WebAssembly has a version there."""
HEADERS = {"ELF": ("<4s14xH", b"\x7fELF"), "Mach-O": ("<4sI", b"\xcf\xfa\xed\xfe")}
HEADERS |= {"COFF": ("<0sH", b""), "wasm": ("<4sI", b"\0asm")}


@pytest.mark.parametrize("isa", ISA_LEVELS)
def test_objects_have_the_format_of_the_system(isa: str) -> None:
    text = "declare void @lw_b()\ndefine void @lw_a() {\n  call void @lw_b()\n  ret void\n}"
    architecture = ISA_LEVELS[isa].architecture
    for system in architecture.systems:
        target = Target(isa, system=system)
        code = compile_object(text, target)
        format = target.system_row.object_format
        layout, magic = HEADERS[format]
        number = MACHINE_NUMBERS[format][architecture.name]
        assert struct.unpack_from(layout, code) == (magic, number)
        assert b"lw_a" in code and b"lw_b" in code

"""Targets: what the compiler may assume of a machine.

A target is described, never assumed: the vector width, the number of vector registers and the LLVM
features follow from its ISA level; cache sizes are read from the machine or given.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from ..ir.dataclass import dataclass
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError

CACHE_LINE = 64  # bytes, on every x86-64 and on nearly all other machines

# Linux on x86-64: the call that asks for the state of the tile registers.
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


@dataclass(frozen=True, slots=True)
class System:
    """An operating system, or none: LLVM's ``triple``, in which the architecture's name stands for
    ``{}``, and the format of objects."""

    triple: str
    object_format: str


SYSTEMS = {
    "linux": System("{}-unknown-linux-gnu", "ELF"),
    "macos": System("{}-apple-macosx11.0.0", "Mach-O"),
    "windows": System("{}-pc-windows-msvc", "COFF"),
    "none": System("{}-unknown-unknown", "wasm"),
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture by its name in triples; the first of its ``systems`` is the one of a target
    that names none."""

    name: str
    pointer_bytes: int = 8
    systems: tuple[str, ...] = ("linux", "macos", "windows")


X86, ARM = Architecture("x86_64"), Architecture("aarch64")
RISCV, WASM = Architecture("riscv64", 8, ("linux",)), Architecture("wasm32", 4, ("none",))


@dataclass(frozen=True, slots=True)
class IsaLevel:
    """Instructions of an architecture, as far as they matter for code: one of the x86-64 psABI
    levels, or another architecture with its vectors.

    ``halves`` are conversions of float16 to float32 and back, ``extremes`` LLVM's functions for the
    extreme of two floats that are one instruction. LLVM's ``processor`` is the level's name unless
    given.
    """

    name: str
    vector_bytes: int
    vector_registers: int
    fma: bool
    masks: bool
    halves: bool
    cpu_flags: frozenset[str]  # flags in /proc/cpuinfo that code of this level requires
    tuning: str = ""  # LLVM features besides the processor's
    processor: str = ""
    architecture: Architecture = X86
    extremes: frozenset[str] = frozenset()


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_V3, _AVX512 = "avx2 fma bmi2", " avx512f avx512bw avx512cd avx512dq avx512vl"
_NUMBERS, _NANS = _set("maxnum minnum"), _set("maximum minimum")
_RV64, _RVV = "+m,+a,+f,+d,+c,+v,+zvl128b,+zihintpause", "rv64gcv"
_LEVELS = (
    IsaLevel("x86-64", 16, 16, False, False, False, _set("")),
    IsaLevel("x86-64-v3", 32, 16, True, False, True, _set(_V3)),
    IsaLevel("x86-64-v4", 64, 32, True, True, True, _set(_V3 + _AVX512), "-prefer-256-bit"),
    IsaLevel(
        "aarch64", 16, 32, True, False, True, _set("asimd"), "", "generic", ARM, _NUMBERS | _NANS
    ),
    IsaLevel(
        "riscv64", 16, 32, True, False, False, _set(_RVV), _RV64, "generic-rv64", RISCV, _NUMBERS
    ),
    IsaLevel("wasm32", 16, 16, False, False, False, _set("simd128"), "+simd128", "generic", WASM),
)
ISA_LEVELS = {level.name: level for level in _LEVELS}
X86_LEVELS = tuple(level.name for level in _LEVELS if level.architecture is X86)

EXTREMES = {
    16: ("llvm.x86.sse.{}.ps", "llvm.x86.sse2.{}.pd"),
    32: ("llvm.x86.avx.{}.ps.256", "llvm.x86.avx.{}.pd.256"),
    64: ("llvm.x86.avx512.{}.ps.512", "llvm.x86.avx512.{}.pd.512"),
}
"""LLVM's functions for ``a > b ? a : b`` (max) and ``a < b ? a : b`` (min) of x86-64, of float32
and float64, by bytes of a vector."""


@dataclass(frozen=True, slots=True)
class Feature:
    """Instructions beyond a level: the ``levels`` that can have them, and their flags in
    /proc/cpuinfo. ``dot`` names the dot products of lanes that are among them (the rows of ``DOTS``
    in ``ir/loop/intrinsics.py``); ``function`` is LLVM's for it, by the bits of a vector, of which
    some ``names`` are, and ``element`` the type of its operands' elements, by LLVM's name. Without
    ``totals`` it leaves the sums so far to another instruction. A row without flags is what all
    processors of its levels have."""

    levels: frozenset[str]
    cpu_flags: frozenset[str]
    dot: str = ""
    function: str = ""
    element: str = "i32"
    names: Mapping[int, str] = field(default_factory=dict[int, str])
    totals: bool = True


_VNNI, _USDOT = "llvm.x86.avx512.vpdpbusd.{}", "llvm.aarch64.neon.usdot.v4i32.v16i8"
_DPBF16, _BFDOT = "llvm.x86.avx512bf16.dpbf16ps.{}", "llvm.aarch64.neon.bfdot.v4f32.v8bf16"
_MADD = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}
FEATURES = {
    "avxvnni": Feature(_set("x86-64-v3"), _set("avx_vnni"), "vnni", _VNNI),
    "avx512vnni": Feature(_set("x86-64-v4"), _set("avx512_vnni"), "vnni", _VNNI),
    "avx512bf16": Feature(_set("x86-64-v4"), _set("avx512_bf16"), "bf16", _DPBF16, "bfloat"),
    "amx-int8": Feature(_set("x86-64-v4"), _set("amx_tile amx_int8")),
    "madd": Feature(
        _set("x86-64 x86-64-v3 x86-64-v4"), _set(""), "madd", "llvm.x86.{}", "i16", _MADD, False
    ),
    "avx512vbmi": Feature(_set("x86-64-v4"), _set("avx512vbmi")),
    "relaxed-simd": Feature(_set("wasm32"), _set("relaxed_simd")),
    "simd128-dot": Feature(_set("wasm32"), _set(""), "madd", "llvm.wasm.dot", "i16", totals=False),
    "i8mm": Feature(_set("aarch64"), _set("i8mm"), "vnni", _USDOT, "i8"),
    "bf16": Feature(_set("aarch64"), _set("bf16"), "bf16", _BFDOT, "bfloat"),
}


@dataclass(frozen=True, slots=True)
class Permute:
    """An instruction that picks, for each byte of a vector, one of ``reach`` bytes: LLVM's
    ``function`` of those and of the indices. One of 16 bytes picks from those that each of its
    lanes of 128 bits has, or gives 0 for an index with its highest bit."""

    isa: str
    feature: str
    function: str
    reach: int


PERMUTES = (
    Permute("x86-64-v4", "avx512vbmi", "llvm.x86.avx512.vpermi2var.qi.512", 128),
    Permute("x86-64-v4", "", "llvm.x86.avx512.pshuf.b.512", 16),
    Permute("x86-64-v3", "", "llvm.x86.avx2.pshuf.b", 16),
)


class SumOrder(Protocol):
    """An order of sums that is the same in all schedules: the extra ``sum_order``."""

    lanes: int
    check: Callable[[Any, Any], None]
    continued: Callable[[Any], Any]
    joined: Callable[[list[Any], Callable[[Any, Any], Any]], Any]
    plain_schedule: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to make code for. Cache sizes are in bytes, per core (l3: shared).

    ``features`` are keys of ``FEATURES``: instructions that not every machine of the level has.
    With ``sums`` results have the same bits on every machine and by every schedule.
    ``system`` is one of ``SYSTEMS``, the first of the architecture's unless given.

    >>> Target("aarch64", system="macos").triple, Target("wasm32").pointer_bytes
    ('aarch64-apple-macosx11.0.0', 4)
    """

    isa: str = "x86-64"
    cpu: str = "generic"
    cores: int = 1
    l1: int = 32 * 1024
    l2: int = 256 * 1024
    l3: int = 8 * 1024 * 1024
    features: frozenset[str] = frozenset()
    system: str = ""
    sums: SumOrder | None = None

    def __post_init__(self) -> None:
        """Raises LoopwrightValueError for a level, a feature or a system that is not known."""
        if self.isa not in ISA_LEVELS:
            raise LoopwrightValueError(
                f"unknown ISA level {self.isa!r}", hint=f"one of {', '.join(ISA_LEVELS)}"
            )
        if unknown := self.features - FEATURES.keys():
            raise LoopwrightValueError(
                f"unknown feature {min(unknown)!r} of a target", hint=f"of {', '.join(FEATURES)}"
            )
        if self.system and self.system not in (systems := self.level.architecture.systems):
            raise LoopwrightValueError(
                f"{self.isa} has no system {self.system!r}", hint=f"one of {', '.join(systems)}"
            )

    @property
    def level(self) -> IsaLevel:
        return ISA_LEVELS[self.isa]

    @property
    def system_row(self) -> System:
        """The row of ``SYSTEMS`` for the system."""
        return SYSTEMS[self.system or self.level.architecture.systems[0]]

    @property
    def triple(self) -> str:
        """LLVM's name of architecture and system."""
        return self.system_row.triple.format(self.level.architecture.name)

    @property
    def is_native(self) -> bool:
        """True if processes of this machine can hold the code; it may need instructions that are
        ``missing_here``."""
        return self.level.architecture is _here() and self.triple.endswith("linux-gnu")

    @property
    def pointer_bytes(self) -> int:
        return self.level.architecture.pointer_bytes

    def extreme(self, name: str, size: int, type: str) -> str | None:
        """Returns LLVM's function of ``EXTREMES`` for ``max`` or ``min``; None without one."""
        if self.isa not in X86_LEVELS or size > self.vector_bytes or size not in EXTREMES:
            return None
        return EXTREMES[size][type == "double"].format(name)

    @property
    def vector_bytes(self) -> int:
        return self.level.vector_bytes

    @property
    def vector_registers(self) -> int:
        return self.level.vector_registers

    @property
    def register_bytes(self) -> int:
        """Bytes of all vector registers."""
        return self.vector_registers * self.vector_bytes

    @property
    def has_fma(self) -> bool:
        return self.level.fma or self.sums is not None  # by the C library where there are none

    @property
    def has_halves(self) -> bool:
        return self.level.halves

    @property
    def has_masks(self) -> bool:
        return self.level.masks

    def dot(self, name: str) -> Feature | None:
        """Returns the feature that has the dot products of lanes of this name; None without."""
        rows = ((f, r) for f, r in FEATURES.items() if r.dot == name and self.isa in r.levels)
        return next((r for f, r in rows if f in self.features or not r.cpu_flags), None)

    @property
    def permute(self) -> Permute | None:
        """Returns the instruction that looks bytes up in registers; None without."""
        rows = (row for row in PERMUTES if row.isa == self.isa)
        return next((r for r in rows if not r.feature or r.feature in self.features), None)

    @property
    def has_dots(self) -> bool:
        """True if an instruction sums products of bytes in fours."""
        return self.dot("vnni") is not None

    @property
    def has_tiles(self) -> bool:
        """True if there are registers of 16 x 64 bytes and products of them (AMX)."""
        return "amx-int8" in self.features

    @property
    def byte_products(self) -> int:
        """Products of bytes that are added up in the time of one float32 multiply-add, at best.

        AMX multiplies 16 x 64 by 64 x 16 bytes in 16 cycles, where two 512-bit FMAs a cycle do 512
        products (Intel's optimisation manual, section 20.5); VNNI does four per lane; without it
        ``pmaddubsw`` and ``pmaddwd`` together come to at most two.
        """
        if self.has_tiles:
            return 32
        return 4 if self.has_dots else 2

    def lanes(self, element_bytes: int) -> int:
        """Elements of that size in one native vector."""
        return max(1, self.vector_bytes // element_bytes)

    def with_threads(self, threads: int) -> Target:
        """Returns the target of code that so many threads run: it sees no more cores."""
        return replace(self, cores=threads) if threads < self.cores else self

    @property
    def missing_here(self) -> frozenset[str]:
        """Returns what this machine lacks of the instructions of the level."""
        return self.level.cpu_flags - _cpuinfo()[0]

    def refuse(self, *_args: object) -> NoReturn:
        """Takes the place of a call of code that this machine cannot run. Raises
        LoopwrightValueError."""
        raise LoopwrightValueError(
            f"code for {self.isa} does not run on this machine, which lacks "
            f"{', '.join(sorted(self.missing_here))}",
            hint="only compile and save it here, or leave target= out",
        )

    def with_isa(self, isa: str) -> Target:
        """The same machine with only the features of ``isa`` (used to test by masking)."""
        kept = {f for f in self.features if isa in FEATURES[f].levels}
        return replace(self, isa=isa, features=frozenset(kept))

    @staticmethod
    def named(target: object) -> Target | None:
        """Returns a target that a caller gives: None and targets as they are, the name of a level
        (``"x86-64-v3"``) as this machine with its instructions only.

        Raises LoopwrightTypeError for anything else, LoopwrightValueError for an unknown level
        and for one above this machine.
        """
        if target is None or isinstance(target, Target):
            return target
        if not isinstance(target, str):
            raise LoopwrightTypeError(
                f"target is the name of a level of instructions, not {target!r}",
                hint=f"one of {', '.join(ISA_LEVELS)}",
            )
        return _lowered(Target.host(), target, f"target={target!r}")

    @staticmethod
    def baseline() -> Target:
        """Returns the target that all machines of this process's architecture can run."""
        return Target(next(n for n, level in ISA_LEVELS.items() if level.architecture is _here()))

    @staticmethod
    @functools.cache
    def host() -> Target:
        """This machine. ``LOOPWRIGHT_ISA`` lowers the ISA level.

        Raises LoopwrightValueError for a level that is not known, or that this machine lacks.
        """
        flags, cpu = _cpuinfo()
        best = [
            n
            for n, level in ISA_LEVELS.items()
            if level.cpu_flags <= flags and level.architecture is _here()
        ][-1]
        wanted = os.environ.get("LOOPWRIGHT_ISA")
        target = Target(
            isa=best,
            cpu=cpu,
            cores=len(os.sched_getaffinity(0)),
            l1=_cache_size(1, 32 * 1024),
            l2=_cache_size(2, 256 * 1024),
            l3=_cache_size(3, 8 * 1024 * 1024),
            features=_features(flags),
        ).with_isa(best)
        return _lowered(target, wanted, f"LOOPWRIGHT_ISA={wanted!r}") if wanted else target


def _lowered(target: Target, isa: str, setting: str) -> Target:
    """Returns the target with the instructions of ``isa`` only. Raises LoopwrightValueError if this
    machine lacks some of them; ``setting`` is what asked for the level."""
    lowered = target.with_isa(isa)
    flags, _ = _cpuinfo()
    if missing := lowered.level.cpu_flags - flags:
        raise LoopwrightValueError(
            f"{setting} is above this machine, which lacks {', '.join(sorted(missing))}",
            hint=f"at most {target.isa}",
        )
    return lowered


def _features(flags: frozenset[str]) -> frozenset[str]:
    rows = FEATURES.items()
    features = {name for name, row in rows if row.cpu_flags and row.cpu_flags <= flags}
    return frozenset(features if allow_tiles() else features - {"amx-int8"})


@functools.cache
def allow_tiles() -> bool:
    """Requests the tile registers from the system, for all threads of the process; Linux lets no
    process use them without. Returns False if there are none.
    """
    flags, _ = _cpuinfo()
    if not FEATURES["amx-int8"].cpu_flags <= flags:
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0


@functools.cache
def _here() -> Architecture:
    """The architecture of this process."""
    name = os.uname().machine
    rows = [level.architecture for level in _LEVELS]
    return next((row for row in rows if row.name == name.replace("arm64", "aarch64")), X86)


def _cpuinfo() -> tuple[frozenset[str], str]:
    flags: frozenset[str] = frozenset()
    cpu = "unknown"
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return flags, cpu
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):  # the latter on AArch64
            flags = frozenset(value.split())
        elif key.strip() == "model name":
            cpu = value.strip()
        if flags and cpu != "unknown":
            break
    return flags, cpu


def _cache_size(level: int, default: int) -> int:
    for index in range(8):
        folder = Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}")
        try:
            if int((folder / "level").read_text()) != level:
                continue
            if (folder / "type").read_text().strip() == "Instruction":
                continue
            size = (folder / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        return int(size.rstrip("KM")) * (1024 if size.endswith("K") else 1024 * 1024)
    return default

"""LLVM text that finds out what an x86-64 processor can do, and the system lets programs use."""

from __future__ import annotations

from ..target import FEATURES, X86_LEVELS, Target

# Flag of /proc/cpuinfo -> leaf and subleaf of CPUID, the register (eax, ebx, ecx, edx: 0-3) and its
# bit, and the bits of XCR0 for the registers that it needs (Intel's manual, volume 2A, CPUID).
_VECTORS, _MASKS = 0x06, 0xE6
_FLAGS = {
    "fma": (1, 0, 2, 12, _VECTORS),
    "avx2": (7, 0, 1, 5, _VECTORS),
    "bmi2": (7, 0, 1, 8, 0),
    "avx512f": (7, 0, 1, 16, _MASKS),
    "avx512dq": (7, 0, 1, 17, _MASKS),
    "avx512cd": (7, 0, 1, 28, _MASKS),
    "avx512bw": (7, 0, 1, 30, _MASKS),
    "avx512vl": (7, 0, 1, 31, _MASKS),
    "avx512vbmi": (7, 0, 2, 1, _MASKS),
    "avx512_vnni": (7, 0, 2, 11, _MASKS),
    "avx_vnni": (7, 1, 0, 4, _VECTORS),
    "avx512_bf16": (7, 1, 0, 5, _MASKS),
}
_BITS = {flag: 1 << n for n, flag in enumerate(_FLAGS)}


def needed_flags(target: Target) -> frozenset[str]:
    """Returns the flags of /proc/cpuinfo that a target's code needs."""
    flags = {flag for feature in target.features for flag in FEATURES[feature].cpu_flags}
    return target.level.cpu_flags | flags


def required(target: Target) -> int | None:
    """Returns the bits of ``lw_cpu`` that a target's code needs, 0 for none; None if the function
    does not look for some of it."""
    if target.isa not in X86_LEVELS:
        return 0
    flags = needed_flags(target)
    return None if flags - _BITS.keys() else sum(_BITS[flag] for flag in flags)


def processor_text(target: Target) -> str:
    """Returns the text of ``i64 @lw_cpu()``: the bits of all flags that there are."""
    if target.isa not in X86_LEVELS:
        return "\ndefine i64 @lw_cpu() {\n  ret i64 0\n}\n"
    lines: list[str] = []
    total = "0"
    for flag, (leaf, sub, register, bit, state) in _FLAGS.items():
        at, name = f"{leaf}.{sub}", f"%{flag}"
        lines += [
            f"  {name}.word = extractvalue {{i32, i32, i32, i32}} %l{at}, {register}",
            f"  {name}.bit = lshr i32 {name}.word, {bit}",
            f"  {name}.set = trunc i32 {name}.bit to i1",
            f"  {name}.state = and i32 %state, {state}",
            f"  {name}.kept = icmp eq i32 {name}.state, {state}",
            f"  {name}.1 = and i1 {name}.set, {name}.kept",
            f"  {name}.2 = and i1 {name}.1, %has{at}",
            f"  {name}.3 = select i1 {name}.2, i64 {_BITS[flag]}, i64 0",
            f"  {name}.sum = or i64 {total}, {name}.3",
        ]
        total = f"{name}.sum"
    return _CPUID + "\n".join([_BEGIN, *lines, _END.format(total=total)])


_CPUID = """
define internal {i32, i32, i32, i32} @lw_cpuid(i32 %leaf, i32 %sub) noinline {
  %r = call {i32, i32, i32, i32} asm sideeffect "cpuid",
       "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 %leaf, i32 %sub)
  ret {i32, i32, i32, i32} %r
}

define internal i32 @lw_state() noinline {
  %r = call {i32, i32} asm sideeffect "xgetbv",
       "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)
  %low = extractvalue {i32, i32} %r, 0
  ret i32 %low
}

@lw_cpu_known = internal global i64 -1
"""

_BEGIN = """
define i64 @lw_cpu() {
entry:
  %known = load atomic i64, ptr @lw_cpu_known monotonic, align 8
  %new = icmp eq i64 %known, -1
  br i1 %new, label %first, label %again
again:
  ret i64 %known
first:
  %begin = call {i32, i32, i32, i32} @lw_cpuid(i32 0, i32 0)
  %most = extractvalue {i32, i32, i32, i32} %begin, 0
  ; A leaf that the processor does not have is answered with those of another.
  %has1.0 = icmp uge i32 %most, 1
  %has7.0 = icmp uge i32 %most, 7
  %l1.0 = call {i32, i32, i32, i32} @lw_cpuid(i32 1, i32 0)
  %l7.0 = call {i32, i32, i32, i32} @lw_cpuid(i32 7, i32 0)
  %l7.1 = call {i32, i32, i32, i32} @lw_cpuid(i32 7, i32 1)
  %sub = extractvalue {i32, i32, i32, i32} %l7.0, 0
  %has.sub = icmp uge i32 %sub, 1
  %has7.1 = and i1 %has7.0, %has.sub
  %one.c = extractvalue {i32, i32, i32, i32} %l1.0, 2
  %saves.bit = and i32 %one.c, 134217728
  %saves = icmp ne i32 %saves.bit, 0
  br i1 %saves, label %ask, label %look
ask:
  %asked = call i32 @lw_state()
  br label %look
look:
  %state = phi i32 [ 0, %first ], [ %asked, %ask ]"""

_END = """  store atomic i64 {total}, ptr @lw_cpu_known monotonic, align 8
  ret i64 {total}
}}
"""

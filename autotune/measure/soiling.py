"""LLVM text that fills registers and stack with garbage: ``lw_soil_stack`` and
``lw_soil_registers``, to be called right before code that is not trusted yet. If the code reads
what it has not set, its result is wrong."""

from __future__ import annotations

from ...codegen.target import Target
from .guarded import GARBAGE

_TEXT = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
@lw_garbage = internal constant [64 x i8] c"{garbage}", align 64

define internal void @lw_soil_stack() noinline {{
  %room = alloca [{stack_bytes} x i8]
  call void @llvm.memset.p0.i64(ptr %room, i8 {byte}, i64 {stack_bytes}, i1 true)
  ret void
}}

; Only the narrow registers are declared as clobbered: otherwise LLVM would clear the upper halves
; before it returns.
define internal void @lw_soil_registers() noinline {{
  call void asm sideeffect "{soil}", "r,{clobbered}"(ptr @lw_garbage)
  ret void
}}
"""


def soil_text(target: Target, stack_bytes: int) -> str:
    """Returns definitions for a target's vector registers and ``stack_bytes`` below the caller."""
    registers = range(target.vector_registers)
    return _TEXT.format(
        garbage=chr(GARBAGE) * 64,
        byte=GARBAGE,
        stack_bytes=stack_bytes,
        soil="\\0A".join(soil_registers(target, "$0")),
        clobbered=",".join(f"~{{xmm{n}}}" for n in registers),
    )


def soil_registers(target: Target, address: str) -> list[str]:
    """Returns assembly that loads all vector registers from an address in a register."""
    load, name = {
        16: ("movups", "xmm"),
        32: ("vmovups", "ymm"),
        64: ("vmovups", "zmm"),
    }[target.vector_bytes]
    return [f"{load} ({address}), %{name}{n}" for n in range(target.vector_registers)]

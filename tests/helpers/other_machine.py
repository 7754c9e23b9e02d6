"""Kernels for AArch64, run by an emulator (``apt install qemu-user gcc-aarch64-linux-gnu``).

A program of one kernel reads all operands from the standard input, calls the kernel, and writes
them to the standard output. LLVM makes its code as that of any kernel; the C compiler only links.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from loopwright.codegen.kernel import Kernel, prepare_operands
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.target import Target
from loopwright.ir.dims import as_int
from loopwright.ir.dtype import Array

LINKER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
CAN_RUN = shutil.which(LINKER) is not None and shutil.which(EMULATOR) is not None
BESIDE = 64
"""Bytes of garbage behind every operand, which have to stay."""
GARBAGE = 0xA5
SECONDS = 60

_MAIN = """
@data = internal global [{size} x i8] zeroinitializer, align 64
declare i64 @read(i32, ptr, i64)
declare i64 @write(i32, ptr, i64)
declare void @{name}.packed(ptr)
define void @lw_parallel_for(ptr %fn, ptr %context, i64 %n) {{
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %all, label %done
all:
  call void %fn(ptr %context, i64 0, i64 %n)
  br label %done
done:
  ret void
}}
define i32 @main() {{
  %got = call i64 @read(i32 0, ptr @data, i64 {size})
  %args = alloca i64, i64 {count}, align 8
{lines}
  call void @{name}.packed(ptr %args)
  %put = call i64 @write(i32 1, ptr @data, i64 {size})
  ret i32 0
}}
"""


def run_emulated(
    kernel: Kernel, target: Target, inputs: Mapping[str, Array], folder: Path
) -> list[Array]:
    """Returns the outputs of a kernel. AssertionError if it writes what it may not."""
    operands = prepare_operands(kernel, inputs)
    workspace = np.full(as_int(kernel.workspace_bytes), 1, np.uint8)
    begins: list[int] = []
    data = bytearray()
    for operand, array in [*zip(kernel.operands, operands, strict=True), (None, workspace)]:
        raw = np.full(array.nbytes, 1, np.uint8).tobytes()
        if operand is None or operand.role != "out":
            raw = array.tobytes()
        begins.append(len(data))
        data += raw + bytes([GARBAGE]) * (BESIDE + -len(raw) % 64)
    lines: list[str] = []
    for n, value in enumerate([*begins, *map(int, kernel.size_values)]):
        lines.append(f"  %p{n} = getelementptr i64, ptr %args, i64 {n}")
        if n < len(begins):
            lines.append(f"  %d{n} = getelementptr i8, ptr @data, i64 {value}")
        held = f"ptr %d{n}" if n < len(begins) else f"i64 {value}"
        lines.append(f"  store {held}, ptr %p{n}, align 8")
    main = _MAIN.format(size=len(data), name=kernel.name, count=len(lines), lines="\n".join(lines))
    made = folder / "program"
    for name, text in (("main.o", main), ("kernel.o", kernel.text)):
        (folder / name).write_bytes(compile_object(text, target))
    link = [LINKER, "-static", "-o", made, folder / "main.o", folder / "kernel.o", "-lm"]
    subprocess.run(link, check=True, capture_output=True, timeout=SECONDS)
    (folder / "data").write_bytes(data)
    with (folder / "data").open("rb") as given:
        run = [EMULATOR, "-cpu", "max", made]
        done = subprocess.run(run, stdin=given, check=True, capture_output=True, timeout=SECONDS)
    after = done.stdout
    assert len(after) == len(data)
    outputs: list[Array] = []
    for operand, array, begin in zip(kernel.operands, operands, begins, strict=False):
        end = begin + array.nbytes
        assert set(after[end : end + BESIDE]) == {GARBAGE}, f"writes behind {operand.buffer.name}"
        if operand.role.writes:
            outputs.append(np.frombuffer(after[begin:end], array.dtype).reshape(array.shape))
        else:
            assert after[begin:end] == array.tobytes(), f"writes to {operand.buffer.name}"
    return outputs

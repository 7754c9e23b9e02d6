"""Kernels for another architecture, run by an emulator.

A program of some kernels reads all operands from the standard input, calls the kernels, and writes
them to the standard output. LLVM makes its code as that of any kernel; the linker only links.

``apt install qemu-user gcc-aarch64-linux-gnu gcc-riscv64-linux-gnu lld nodejs`` installs them all;
Debian 12 has QEMU 10 in its backports.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from loopwright.codegen.kernel import Kernel, prepare_operands
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.target import Target
from loopwright.ir.dims import as_int
from loopwright.ir.dtype import Array

BESIDE = 64
"""Bytes of garbage behind every operand, which have to stay."""
GARBAGE = 0xA5
SECONDS = 60
_NODE = Path(__file__).with_name("other_machine.mjs")


class Machine(NamedTuple):
    """The commands that link objects (``-o``, the program, the objects and ``libraries`` follow)
    and run the program."""

    linker: tuple[str, ...]
    libraries: tuple[str, ...]
    emulator: tuple[str, ...]
    least_version: tuple[int, int] = (0, 0)

    @property
    def is_installed(self) -> bool:
        """True if the linker is there, and an emulator that is not too old."""
        if not all(shutil.which(command[0]) for command in (self.linker, self.emulator)):
            return False
        run = [self.emulator[0], "--version"]
        said = subprocess.run(run, check=True, capture_output=True, text=True).stdout
        version = re.search(r"(\d+)\.(\d+)", said)
        return version is not None and (int(version[1]), int(version[2])) >= self.least_version


_WASM = (
    "wasm-ld",
    "--no-entry",
    "--export=main",
    "--allow-undefined",
    "-z",
    "stack-size=8388608",
)
MACHINES = {
    "aarch64": Machine(
        ("aarch64-linux-gnu-gcc", "-static"), ("-lm",), ("qemu-aarch64", "-cpu", "max")
    ),
    "riscv64": Machine(
        ("riscv64-linux-gnu-gcc", "-static"),
        ("-lm",),
        ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"),
        (8, 1),  # older ones stop at vfcvt.rtz (QEMU's issue 1441)
    ),
    "wasm32": Machine(_WASM, (), ("node", str(_NODE))),
}
"""What runs the code of a level of instructions."""

_MAIN = """
@data = internal global [{size} x i8] zeroinitializer, align 64
declare i64 @read(i32, ptr, i64)
declare i64 @write(i32, ptr, i64)
{declared}
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
  br label %more
more:
  %had = phi i64 [ 0, %0 ], [ %has, %more ]
  %at = getelementptr i8, ptr @data, i64 %had
  %left = sub i64 {size}, %had
  %got = call i64 @read(i32 0, ptr %at, i64 %left)
  %has = add i64 %had, %got
  %short = icmp slt i64 %has, {size}
  br i1 %short, label %more, label %all
all:
  %args = alloca i64, i64 {count}, align 8
{lines}
  %put = call i64 @write(i32 1, ptr @data, i64 {size})
  ret i32 0
}}
"""


class Call(NamedTuple):
    """A kernel, and the operands that it is called with."""

    kernel: Kernel
    inputs: Mapping[str, Array]


def run_all(calls: Sequence[Call], target: Target, folder: Path) -> list[list[Array]]:
    """Returns the outputs of kernels, which one program calls. AssertionError if one writes what
    it may not."""
    data, lines, begins = bytearray(), list[str](), list[list[int]]()
    operands = [prepare_operands(call.kernel, call.inputs) for call in calls]
    for number, (call, arrays) in enumerate(zip(calls, operands, strict=True)):
        workspace = np.full(as_int(call.kernel.workspace_bytes), 1, np.uint8)
        roles = [o.role for o in call.kernel.operands]
        begins.append([])
        for role, array in [*zip(roles, arrays, strict=True), ("workspace", workspace)]:
            raw = array.tobytes()
            if role == "out":
                raw = np.full(array.nbytes, 1, np.uint8).tobytes()
            begins[-1].append(len(data))
            data += raw + bytes([GARBAGE]) * (BESIDE + -len(raw) % 64)
        handed = [f"ptr getelementptr (i8, ptr @data, i64 {begin})" for begin in begins[-1]]
        handed += [f"i64 {size}" for size in call.kernel.size_values]
        for n, value in enumerate(handed):
            name = f"%p{number}.{n}"
            lines.append(f"  {name} = getelementptr i64, ptr %args, i64 {n}")
            lines.append(f"  store {value}, ptr {name}, align 8")
        lines.append(f"  call void @kernel{number}.packed(ptr %args)")
    main = _MAIN.format(
        size=len(data),
        declared="\n".join(f"declare void @kernel{n}.packed(ptr)" for n in range(len(calls))),
        count=max(len(arrays) + 1 + len(c.kernel.sizes) for arrays, c in zip(operands, calls)),
        lines="\n".join(lines),
    )
    texts = [main]
    for number, call in enumerate(calls):
        name = re.escape(call.kernel.name)
        texts.append(re.sub(rf"@{name}\b", f"@kernel{number}", call.kernel.text))
    after = run_program(texts, target, folder, bytes(data))
    assert len(after) == len(data)
    return [
        _outputs(call.kernel, arrays, after, places)
        for call, arrays, places in zip(calls, operands, begins, strict=True)
    ]


def run_program(texts: Sequence[str], target: Target, folder: Path, data: bytes = b"") -> bytes:
    """Compiles and links LLVM texts, one of which has ``main``, and returns what the program writes
    when it reads ``data``. CalledProcessError if it fails."""
    machine, made = MACHINES[target.isa], folder / "program"
    objects = [folder / f"{number}.o" for number in range(len(texts))]
    for text, path in zip(texts, objects, strict=True):
        path.write_bytes(compile_object(text, target))
    link = [*machine.linker, "-o", made, *objects, *machine.libraries]
    subprocess.run(link, check=True, capture_output=True, timeout=SECONDS)
    (folder / "data").write_bytes(data)
    with (folder / "data").open("rb") as given:
        run = [*machine.emulator, made]
        done = subprocess.run(run, stdin=given, check=True, capture_output=True, timeout=SECONDS)
    return done.stdout


def _outputs(
    kernel: Kernel, operands: Sequence[Array], after: bytes, begins: Sequence[int]
) -> list[Array]:
    outputs: list[Array] = []
    for operand, array, begin in zip(kernel.operands, operands, begins, strict=False):
        end = begin + array.nbytes
        assert set(after[end : end + BESIDE]) == {GARBAGE}, f"writes behind {operand.buffer.name}"
        if operand.role.writes:
            outputs.append(np.frombuffer(after[begin:end], array.dtype).reshape(array.shape))
        else:
            assert after[begin:end] == array.tobytes(), f"writes to {operand.buffer.name}"
    return outputs

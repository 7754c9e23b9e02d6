"""Kernels written by hand for one small PrimFunc, good ones and bad ones of every kind.

The schedule of a planted kernel is ``[["plant", kind, delay]]``: ``kind`` says what it does,
``delay`` makes a good one slower.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from loopwright.autotune.measure.toolchain import Toolchain
from loopwright.autotune.record import Workload
from loopwright.autotune.settings import TuneSettings
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.expr import const, op, read
from loopwright.ir.loop.kinds import Role
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage

from bench.standins import SyntheticSpace

SIZE = 1000
ERRORS = {
    "wrong": "wrong_result",
    "unwritten": "wrong_result",
    "imprecise": "wrong_result",
    "read_before": "wrong_result",
    "write_after": "out_of_bounds",
    "write_far_after": "out_of_bounds",
    "write_before": "out_of_bounds",
    "read_after": "out_of_bounds",
    "read_before_unused": "out_of_bounds",
    "canary_onto_canary": "out_of_bounds",
    "least_of_old": "wrong_result",
    "write_input": "out_of_bounds",
    "segfault": "out_of_bounds",
    "overflow": "out_of_bounds",
    "abort": "crash",
    "illegal_instruction": "crash",
    "endless": "timeout",
    "huge_workspace": "out_of_memory",
    "illegal": "schedule_error",
    "no_code": "build_error",
    "compiler_crash": "crash",
    "compiler_hangs": "timeout",
    "compiler_eats_memory": "out_of_memory",
}
SETTINGS = TuneSettings(
    least_timeout=2.0, first_timeout=6.0, build_timeout=3.0, measure_seconds=0.002, least_gain=0.0
)


def make_prim() -> PrimFunc:
    """y[i] = x[i] * 2 + 1 on 1,000 floats: 4,000 bytes, so that guards stand right behind."""
    x, y = Buffer("x", (SIZE,), FLOAT32), Buffer("y", (SIZE,), FLOAT32)
    value = op("multiply", read("x", (symbol("i"),), FLOAT32), const(2.0, FLOAT32))
    value = op("add", value, const(1.0, FLOAT32))
    return PrimFunc("twice_plus_one", (x,), ("y",), (Stage(y, (Axis("i", SIZE),), value),))


def make_task(threads: int = 1) -> Task:
    return Task(
        make_prim(),
        Target.host(),
        SyntheticSpace(),
        Workload("planted", "twice_plus_one", str(make_prim())),
        name="twice_plus_one",
        threads=threads,
    )


@dataclass(frozen=True)
class PlantedOperand:
    role: Role
    buffer: Buffer
    pack: None = None


@dataclass(frozen=True)
class PlantedKernel:
    name: str
    text: str
    operands: tuple[PlantedOperand, ...]
    workspace_bytes: int
    size_values: tuple[int, ...] = ()


# What the loop does for index %i; %v is the right value, %x and %y the buffers.
_BODIES = {
    "good": "store float %v, ptr %yi",
    "wrong": "%w = fadd float %v, 0.5\n  store float %w, ptr %yi",
    "unwritten": "%late = icmp sgt i64 %i, 3\n  br i1 %late, label %ok, label %next\nok:\n"
    "  store float %v, ptr %yi",
    "imprecise": "%b = bitcast float %v to i32\n  %c = and i32 %b, -65536\n  store i32 %c, ptr %yi",
    "read_before": "%p = getelementptr float, ptr %xi, i64 -1\n  %q = load float, ptr %p\n"
    "  %z = fmul float %q, 0.0\n  %w = fadd float %v, %z\n  store float %w, ptr %yi",
    "write_after": "store float %v, ptr %yi\n  %p = getelementptr float, ptr %yi, i64 1\n"
    "  store float %v, ptr %p",
    "write_far_after": "store float %v, ptr %yi\n  %p = getelementptr float, ptr %yi, i64 5000\n"
    "  store float %v, ptr %p",
    "write_before": "store float %v, ptr %yi\n  %p = getelementptr float, ptr %yi, i64 -9\n"
    "  store float 1.0, ptr %p\n  store float %v, ptr %yi",
    "read_before_unused": "%p = getelementptr float, ptr %x, i64 -1\n"
    "  %q = load volatile float, ptr %p\n  store float %v, ptr %yi",
    "canary_onto_canary": "store float %v, ptr %yi\n  %p = getelementptr float, ptr %x, i64 -1\n"
    "  %q = load float, ptr %p\n  %r = getelementptr float, ptr %y, i64 -1\n"
    "  store float %q, ptr %r",
    "least_of_old": "%q = load float, ptr %yi\n  %s = fcmp olt float %q, %v\n"
    "  %w = select i1 %s, float %q, float %v\n  store float %w, ptr %yi",
    "read_after": "%p = getelementptr float, ptr %xi, i64 1\n  %q = load volatile float, ptr %p\n"
    "  store float %v, ptr %yi",
    "write_input": "store float %v, ptr %yi\n  store float %v, ptr %xi",
    "segfault": "store float %v, ptr inttoptr (i64 64 to ptr)",
    "overflow": "call void @deep(i64 %i)",
    "abort": "call void @abort()",
    "illegal_instruction": "call void @llvm.trap()",
    "endless": "store volatile float %v, ptr %yi\n  br label %body",
    "huge_workspace": "store float %v, ptr %yi",
}
_TEXT = """
declare void @abort()
declare void @llvm.trap()
define internal void @deep(i64 %n) noinline {{
  %room = alloca [4096 x i8]
  store volatile i8 1, ptr %room
  %m = add i64 %n, 1
  call void @deep(i64 %m)
  store volatile i8 2, ptr %room
  ret void
}}
define void @{name}(ptr %x, ptr %y, ptr %workspace) {{
entry:
  br label %delay
delay:
  %d = phi i64 [ 0, %entry ], [ %d1, %delay ]
  %d1 = add i64 %d, 1
  store volatile i64 %d1, ptr %workspace
  %waited = icmp sge i64 %d1, {delay}
  br i1 %waited, label %head, label %delay
head:
  %i = phi i64 [ 0, %delay ], [ %i1, %next ]
  %xi = getelementptr float, ptr %x, i64 %i
  %yi = getelementptr float, ptr %y, i64 %i
  %a = load float, ptr %xi
  %t = fmul float %a, 2.0
  %v = fadd float %t, 1.0
  br label %body
body:
  {body}
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, {size}
  br i1 %more, label %head, label %exit
exit:
  ret void
}}
define void @{name}.packed(ptr %args) {{
  %x = load ptr, ptr %args
  %p1 = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %p1
  %p2 = getelementptr ptr, ptr %args, i64 2
  %w = load ptr, ptr %p2
  call void @{name}(ptr %x, ptr %y, ptr %w)
  ret void
}}
"""


def compile_planted(prim: PrimFunc, schedule: Any, target: Target, name: str) -> PlantedKernel:
    _, kind, delay = schedule[0]
    if kind == "illegal":
        raise ScheduleError("split: the factors do not multiply to the extent")
    if kind == "compiler_crash":
        ctypes.string_at(8)
    if kind == "compiler_hangs":
        time.sleep(1000)
    if kind == "compiler_eats_memory":
        np.ones(50 << 30, np.uint8)
    if kind == "compiler_killed":
        os.kill(os.getpid(), 9)
    if kind == "slow_build":
        time.sleep(0.3)
        kind = "good"
    body = "nonsense" if kind == "no_code" else _BODIES[kind]
    if kind == "endless":  # its body ends with a branch already
        body += "\ndead:"
    text = _TEXT.format(name=name, delay=delay, body=body, size=SIZE)
    operands = (
        PlantedOperand(Role.IN, prim.params[0]),
        PlantedOperand(Role.OUT, prim.output_buffers[0]),
    )
    return PlantedKernel(name, text, operands, 50 << 30 if kind == "huge_workspace" else 64)


def prepare_planted(kernel: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    return [inputs["x"], np.empty(SIZE, np.float32)]


TOOLCHAIN = Toolchain(compile_planted, prepare_planted)

"""Small kernels that show what a machine can do, as LLVM text, and the clock around them.

Three kernels of one signature, ``void (ptr data, i64 bytes, i64 repeats)``:

- ``fma``: independent chains of fused multiply-adds (or multiplies and additions, where the ISA
  has no FMA) that live in registers. There are more chains than latency x units of any x86 core
  (4 x 2), and they still fit the registers.
- ``read`` and ``read_streams``: sum a buffer, from its start to its end or as four streams at once
  (which keeps more of a core's prefetchers busy).
- ``triad`` and ``triad_stream``: ``a = b + s * c`` over three thirds of a buffer, as in McCalpin's
  STREAM benchmark, with ordinary and with non-temporal stores.

Threads start together: each waits on a counter in native code before it reads the clock, so that
neither Python's lock nor a late thread enters the figure.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .llvm.clock import CLOCK_TEXT
from .llvm.engine import compile_object
from .llvm.link import LoadedObject, load_object
from .target import Target

Floats: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float32]]"

_UNROLL = 4  # vectors per array and step of the triad


def aligned_buffer(size: int, alignment: int = 4096) -> Floats:
    """``size`` bytes of ones as float32 (no denormals, pages touched), at an aligned address."""
    raw = np.ones((size + alignment) // 4, np.float32)
    skip = -raw.ctypes.data % alignment // 4
    return raw[skip : skip + size // 4]


class Probes:
    """The kernels for one target, loaded into this process.

    The target's instructions must run here.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._code: LoadedObject = load_object(compile_object(probe_module(target), target))
        pointer, i64 = ctypes.c_void_p, ctypes.c_int64
        self._rounds = self._code.function("rounds", pointer, pointer, *[i64] * 4)

    def flops_per_repeat(self, element_bytes: int = 4) -> int:
        """Operations in one repeat of ``fma``; a fused multiply-add is two."""
        chains = _fma_chains(self.target)
        per_chain = 2 if self.target.has_fma else 1
        return chains * per_chain * self.target.lanes(element_bytes)

    def seconds(
        self, kernel: str, buffers: list[Floats], repeats: int, rounds: int
    ) -> tuple[float, float]:
        """``kernel`` on one buffer per thread, all at the same time, ``rounds`` times over.

        Gives the best round's seconds, from the first start to the last end, and those of the
        quickest single thread.
        """
        threads = len(buffers)
        counter = np.zeros(16, np.int64)
        times = np.zeros((threads, rounds, 2), np.int64)
        cores = sorted(os.sched_getaffinity(0))

        def run(index: int) -> None:
            # Two threads that share a core by chance would wait for each other's time slices.
            os.sched_setaffinity(0, {cores[index % len(cores)]})
            buffer = buffers[index]
            shared = np.array(
                [self._code.address(kernel), counter.ctypes.data, times[index].ctypes.data],
                np.int64,
            )
            self._rounds(
                buffer.ctypes.data, shared.ctypes.data, buffer.nbytes, repeats, threads, rounds
            )

        workers = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        spans = times[:, :, 1].max(axis=0) - times[:, :, 0].min(axis=0)
        alone = (times[:, :, 1] - times[:, :, 0]).min()
        return max(float(spans.min()), 1.0) * 1e-9, max(float(alone), 1.0) * 1e-9


def probe_module(target: Target) -> str:
    """All kernels and the driver as one LLVM module.

    >>> "@llvm.fma.v8f32" in probe_module(Target(isa="x86-64-v3"))
    True
    """
    parts = [
        CLOCK_TEXT + _DRIVER,
        _fma(target, "float", 4),
        _fma(target, "double", 8),
        _read(target, "read", streams=1),
        _read(target, "read_streams", streams=4),
        _triad(target, "triad", stream=False),
        _triad(target, "triad_stream", stream=True),
        "!0 = !{i32 1}\n",
    ]
    return "\n".join(parts)


def _fma_chains(target: Target) -> int:
    # Two registers hold the operands, and a couple are left to the compiler.
    return 24 if target.vector_registers >= 32 else 12


def _fma(target: Target, element: str, size: int) -> str:
    lanes = target.lanes(size)
    vec = f"<{lanes} x {element}>"
    kind = f"v{lanes}f{8 * size}"
    chains = range(_fma_chains(target))
    phis, steps, stores = [], [], []
    for c in chains:
        phis.append(f"%a{c} = phi {vec} [ %x, %entry ], [ %n{c}, %loop ]")
        if target.has_fma:
            steps.append(f"%n{c} = call {vec} @llvm.fma.{kind}({vec} %a{c}, {vec} %x, {vec} %y)")
        else:
            steps.append(f"%n{c} = {'fmul' if c % 2 else 'fadd'} {vec} %a{c}, %{'xy'[1 - c % 2]}")
        stores.append(f"%p{c} = getelementptr {vec}, ptr %data, i64 {c}")
        stores.append(f"store volatile {vec} %n{c}, ptr %p{c}, align {size}")
    return f"""
declare {vec} @llvm.fma.{kind}({vec}, {vec}, {vec})
define void @fma{8 * size}(ptr %data, i64 %bytes, i64 %repeats) {{
entry:
  %x = load volatile {vec}, ptr %data, align {size}
  %y = load volatile {vec}, ptr %data, align {size}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
{_lines([*phis, *steps])}
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %repeats
  br i1 %more, label %loop, label %done
done:
{_lines(stores)}
  ret void
}}
"""


def _read(target: Target, name: str, *, streams: int) -> str:
    lanes = target.lanes(4)
    vec = f"<{lanes} x float>"
    width = 16 if target.vector_registers >= 32 else 8
    each = width // streams
    setup = [f"%part = sdiv i64 %bytes, {streams}"]
    for s in range(streams):
        setup.append(f"%start{s} = mul i64 %part, {s}")
        setup.append(f"%base{s} = getelementptr i8, ptr %data, i64 %start{s}")
    outer, inner, body, ends = [], [], [], []
    for v in range(width):
        outer.append(f"%s{v} = phi {vec} [ zeroinitializer, %entry ], [ %n{v}, %next ]")
        inner.append(f"%a{v} = phi {vec} [ %s{v}, %outer ], [ %n{v}, %inner ]")
        body += [
            f"%o{v} = add i64 %at, {v % each * target.vector_bytes}",
            f"%p{v} = getelementptr i8, ptr %base{v // each}, i64 %o{v}",
            f"%v{v} = load {vec}, ptr %p{v}, align {target.vector_bytes}",
            f"%n{v} = fadd {vec} %a{v}, %v{v}",
        ]
        ends += [
            f"%e{v} = getelementptr {vec}, ptr %data, i64 {v}",
            f"store volatile {vec} %n{v}, ptr %e{v}, align {target.vector_bytes}",
        ]
    step = each * target.vector_bytes
    return _passes(name, setup, "%part", step, [*inner, *body], outer=outer, ends=ends)


def _triad(target: Target, name: str, *, stream: bool) -> str:
    lanes = target.lanes(4)
    vec = f"<{lanes} x float>"
    size = target.vector_bytes
    hint = ", !nontemporal !0" if stream else ""
    setup = [
        "%third = sdiv i64 %bytes, 3",
        "%b = getelementptr i8, ptr %data, i64 %third",
        "%twice = mul i64 %third, 2",
        "%c = getelementptr i8, ptr %data, i64 %twice",
    ]
    body = []
    for v in range(_UNROLL):
        body += [
            f"%o{v} = add i64 %at, {v * size}",
            f"%pa{v} = getelementptr i8, ptr %data, i64 %o{v}",
            f"%pb{v} = getelementptr i8, ptr %b, i64 %o{v}",
            f"%pc{v} = getelementptr i8, ptr %c, i64 %o{v}",
            f"%vb{v} = load {vec}, ptr %pb{v}, align {size}",
            f"%vc{v} = load {vec}, ptr %pc{v}, align {size}",
            f"%m{v} = fmul {vec} %vc{v}, splat (float 5.000000e-01)",
            f"%t{v} = fadd {vec} %m{v}, %vb{v}",
            f"store {vec} %t{v}, ptr %pa{v}, align {size}{hint}",
        ]
    return _passes(name, setup, "%third", _UNROLL * size, body, ends=["fence seq_cst"])


def _passes(
    name: str,
    setup: Sequence[str],
    bytes_: str,
    step: int,
    inner: Sequence[str],
    *,
    outer: Sequence[str] = (),
    ends: Sequence[str] = (),
) -> str:
    """Returns a kernel that runs over the first ``bytes_`` from ``%at`` = 0 on, ``repeats`` times.
    ``inner`` is what it does in each step, ``outer`` what begins each pass, ``ends`` the end."""
    return f"""
define void @{name}(ptr %data, i64 %bytes, i64 %repeats) {{
entry:
{_lines(setup)}
  br label %outer
outer:
  %r = phi i64 [ 0, %entry ], [ %r.next, %next ]
{_lines(outer)}
  br label %inner
inner:
  %at = phi i64 [ 0, %outer ], [ %at.next, %inner ]
{_lines(inner)}
  %at.next = add i64 %at, {step}
  %more = icmp slt i64 %at.next, {bytes_}
  br i1 %more, label %inner, label %next
next:
  %r.next = add i64 %r, 1
  %again = icmp slt i64 %r.next, %repeats
  br i1 %again, label %outer, label %done
done:
{_lines(ends)}
  ret void
}}
"""


def _lines(instructions: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in instructions)


# rounds(data, shared, bytes, repeats, threads, rounds): each round waits until all threads have
# arrived, then writes the clock before and after one call of the kernel to its own row of times.
_DRIVER = """
define void @rounds(ptr %data, ptr %shared, i64 %bytes, i64 %repeats, i64 %threads, i64 %rounds) {
entry:
  %kernel = load ptr, ptr %shared
  %at.counter = getelementptr ptr, ptr %shared, i64 1
  %counter = load ptr, ptr %at.counter
  %at.times = getelementptr ptr, ptr %shared, i64 2
  %times = load ptr, ptr %at.times
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r.next, %go ]
  %r.next = add i64 %r, 1
  %goal = mul i64 %r.next, %threads
  %old = atomicrmw add ptr %counter, i64 1 seq_cst
  br label %wait
wait:
  %seen = load atomic i64, ptr %counter seq_cst, align 8
  %ready = icmp sge i64 %seen, %goal
  br i1 %ready, label %go, label %wait
go:
  %start = call i64 @now()
  call void %kernel(ptr %data, i64 %bytes, i64 %repeats)
  %end = call i64 @now()
  %row = mul i64 %r, 2
  %p0 = getelementptr i64, ptr %times, i64 %row
  store i64 %start, ptr %p0
  %p1 = getelementptr i64, ptr %p0, i64 1
  store i64 %end, ptr %p1
  %more = icmp slt i64 %r.next, %rounds
  br i1 %more, label %round, label %done
done:
  ret void
}
"""

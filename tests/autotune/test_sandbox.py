"""The program that tries kernels: its operations, its library, and what the user sees of it."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from loopwright.autotune.measure.sandbox import Job, Outcome, Report
from loopwright.autotune.measure.trial import padding
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.target import Target
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.loop.pack import Pack
from loopwright.ir.loop.prim import Buffer

HOST = Target.host()


def run(job: Job) -> Outcome:
    try:
        job.start()
        return job.wait()
    finally:
        job.close()


def called(text: str, values: np.ndarray, isa: str = "x86-64") -> np.ndarray:
    """What ``void f(ptr)`` makes of an array, in the program."""
    job = Job()
    code = job.code(compile_object(text, HOST.with_isa(isa)))
    room = job.room("x", values.nbytes)
    job.repeat(room, job.pages(at_the_end(values, room.last - room.first)), room.last - room.first)
    job.call(code["f"], room.address)
    report = job.report(values.nbytes)
    job.copy(report, room.address)
    found = np.zeros_like(values)
    try:
        job.start()
        assert job.wait().died == ""
        found = job.read(report).view(values.dtype)
    finally:
        job.close()
    return found


def at_the_end(values: np.ndarray, size: int) -> np.ndarray:
    content = np.zeros(size, np.uint8)
    begin = (size - values.nbytes) // 64 * 64
    content[begin : begin + values.nbytes] = values.view(np.uint8)
    return content


def test_operations_answer() -> None:
    job = Job()
    room = job.room("x", 1000)
    job.zeros(room)
    job.fill(room.address, 1000, 7)
    job.fill(room.address + 8, 8, 0x7B)
    narrow, wide = job.written(room, 4), job.written(room, 8)
    job.fill(room.address + 12, 4, 7)
    half, whole = job.written(room, 4), job.written(room, 8)
    job.clear(room.address + np.array([0, 100, 200]), 2)
    report = job.report(16)
    job.gather(report, room.address + 4 * np.array([0, 12, 25, 50]), 4)
    try:
        job.start()
        outcome = job.wait()
        seen = job.read(report).reshape(4, 4).tolist()
    finally:
        job.close()
    assert outcome == Outcome(job.length, (narrow, wide, half), "")
    assert whole not in outcome.false
    assert seen == [[0, 0, 7, 7], [7] * 4, [0, 0, 7, 7], [0, 0, 7, 7]]


@pytest.mark.parametrize("place", ["before", "behind", "an input", "this process"])
def test_what_is_not_in_a_room_cannot_be_touched(place: str) -> None:
    mine = np.zeros(8, np.uint8)
    job = Job()
    room = job.room("x", 4096)
    given = job.room("y", 100, 4)
    job.zeros(room)
    job.repeat(given, job.pages(np.zeros(4096, np.uint8)), 4096)
    job.protect(given)
    at = {
        "before": room.first - 1,
        "behind": room.last,
        "an input": given.address,
        "this process": mine.ctypes.data,
    }
    job.fill(at[place], 1, 1)
    outcome = run(job)
    assert outcome.done == job.length - 1 and "outside of its operands" in outcome.died
    assert not mine.any()


def test_the_program_is_no_child_that_the_user_meets() -> None:
    """And what the user does with signals does not reach it."""
    seen: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, _: seen.append(number))
    ignored = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        job = Job()
        code = job.code(
            compile_object("define void @f(ptr %x) {\n  br label %l\nl:\n  br label %l\n}", HOST)
        )
        job.limit(0.05)
        job.call(code["f"], 0)
        job.start()
        with pytest.raises(ChildProcessError):
            os.waitpid(job._pid, os.WNOHANG)
        assert job.wait().died == "it took too long"
        job.close()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        signal.signal(signal.SIGPROF, ignored)
        signal.signal(signal.SIGCHLD, before)
    assert seen == []


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", ["rint", "floor", "ceil", "trunc"])
def test_what_the_least_machines_have_no_instruction_for(name: str, kind: str) -> None:
    bits = 32 if kind == "float" else 64
    text = f"declare {kind} @llvm.{name}.f{bits}({kind})\ndefine void @f(ptr %x) {{\n"
    text += "".join(
        f"  %p{n} = getelementptr {kind}, ptr %x, i64 {n}\n  %a{n} = load {kind}, ptr %p{n}\n"
        f"  %b{n} = call {kind} @llvm.{name}.f{bits}({kind} %a{n})\n"
        f"  store {kind} %b{n}, ptr %p{n}\n"
        for n in range(13)
    )
    values = [0.5, 1.5, 2.5, -0.5, -1.5, 0.0, -0.0, 0.3, -0.7, 1e30, -np.inf, np.inf, np.nan]
    given = np.array(values, np.float32 if kind == "float" else np.float64)
    with np.errstate(invalid="ignore"):
        right = getattr(np, name)(given)
    found = called(text + "  ret void\n}", given)
    np.testing.assert_array_equal(found, right)
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(right[:-1]))


@pytest.mark.parametrize(("to", "source"), [(0, 3), (3, 0), (0, 100), (100, 0)])
def test_memory_is_moved(to: int, source: int) -> None:
    text = f"""
    declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
    define void @f(ptr %x) {{
      %to = getelementptr i8, ptr %x, i64 {to}
      %from = getelementptr i8, ptr %x, i64 {source}
      %n.p = getelementptr i64, ptr %x, i64 31
      %n = load i64, ptr %n.p
      call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
      ret void
    }}"""
    given = np.arange(256, dtype=np.uint8)
    given[248:] = [77, *[0] * 7]
    right = given.copy()
    right[to : to + 77] = given[source : source + 77]
    np.testing.assert_array_equal(called(text, given), right)


def test_code_that_calls_more_than_kernels_may_is_not_linked() -> None:
    job = Job()
    text = "declare void @abort()\ndefine void @f() {\n  call void @abort()\n  ret void\n}"
    with pytest.raises(KeyError, match="abort"):
        job.code(compile_object(text, HOST))
    job.close()


@pytest.mark.parametrize("group", [None, (0, 4), (1, 4), (2, 4)])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_padding_of_a_packed_operand_is_cleared(
    dim: int, group: tuple[int, int] | None
) -> None:
    if group is not None and group[0] == dim:
        return
    pack = Pack.of(Buffer("w", (5, 6, 7), FLOAT32), dim, 3, group)
    packed = pack.array(np.ones(pack.shape, np.float32))
    cleared = np.ones(packed.size, np.float32)
    for begin, count, stride, width in padding(pack):
        for n in range(count):
            cleared[begin + n * stride :][:width] = 0
    np.testing.assert_array_equal(cleared.reshape(packed.shape), packed)


def test_a_report_is_what_was_written_last() -> None:
    job = Job()
    room = job.room("x", 64)
    job.zeros(room)
    reports: list[Report] = []
    for byte in (1, 2):
        job.fill(room.address, 64, byte)
        reports.append(job.report(64))
        job.copy(reports[-1], room.address)
    try:
        job.start()
        job.wait()
        assert [set(job.read(r).tolist()) for r in reports] == [{1}, {2}]
    finally:
        job.close()

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from loopwright.autotune.measure.guarded import GuardedBuffer
from loopwright.autotune.measure.harness import Harness
from loopwright.autotune.measure.transport import (
    Frame,
    FrameError,
    FrameReader,
    read_frame,
    write_frame,
)
from loopwright.autotune.measure.worker_process import WorkerProcess
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.target import Target
from loopwright.ir.dims import floordiv, symbol
from loopwright.ir.dtype import FLOAT32, INT32
from loopwright.ir.loop.expr import cast, const, index, op, read, select, within


def test_frames_pass_a_pipe_in_pieces() -> None:
    read_end, write_end = os.pipe()
    write_frame(write_end, Frame({"a": 1}, b"blob"))
    write_frame(write_end, Frame({}))
    assert read_frame(read_end) == Frame({"a": 1}, b"blob")
    reader, frame = FrameReader(), None
    while frame is None:
        frame = reader.feed(os.read(read_end, min(3, reader.wanted)))
    assert frame == Frame({})
    os.close(write_end)
    assert read_frame(read_end) is None
    os.close(read_end)


@pytest.mark.parametrize("data", [b"x" * 16, b"lwF1" + b"\xff" * 12])
def test_garbage_is_no_frame(data: bytes) -> None:
    with pytest.raises(FrameError, match="no frame begins here"):
        FrameReader().feed(data)


def test_a_header_must_be_an_object() -> None:
    read_end, write_end = os.pipe()
    write_frame(write_end, Frame([1]))  # type: ignore[arg-type]
    with pytest.raises(FrameError, match="not an object"):
        read_frame(read_end)
    os.close(read_end)
    os.close(write_end)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4000, 4096, 4097, 100_000])
@pytest.mark.parametrize("alignment", [1, 4, 64])
def test_a_buffer_ends_as_close_to_its_guard_as_it_can(size: int, alignment: int) -> None:
    buffer = GuardedBuffer(size, alignment)
    (_, low), (high, _) = buffer.guards
    assert buffer.address % alignment == 0
    assert low <= buffer.address and 0 <= high - (buffer.address + size) < alignment
    buffer.fill_with_garbage()
    assert buffer.intact()
    assert buffer._before.size + size + buffer._after.size == high - low
    for zone in (buffer._before, buffer._after):
        if zone.size:
            zone[0] = 0
            assert not buffer.intact()
            buffer.mend()
            assert buffer.intact()
    buffer.close()
    buffer.close()


def test_a_buffer_holds_an_array() -> None:
    buffer = GuardedBuffer(24)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer.fill(values.T)
    assert (buffer.array((3, 2), np.float32) == values.T).all()
    buffer.close()


def test_memory_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MemoryError, match="no 1125899906842624 bytes for an operand"):
        GuardedBuffer(1 << 50)


def test_the_harness_repeats_a_kernel() -> None:
    text = """
    define void @count(ptr %args) {
      %n = load i64, ptr %args
      %m = add i64 %n, 1
      store i64 %m, ptr %args
      ret void
    }"""
    code = load_object(compile_object(text, Target(isa="x86-64")))
    counter = np.zeros(1, np.int64)
    seconds = Harness().seconds(code.address("count"), counter.ctypes.data, 1000)
    assert counter[0] == 1000
    assert 0 < seconds < 1


def test_expressions_travel_between_processes() -> None:
    i, n = symbol("i"), symbol("n")
    element = read("x", (floordiv(i + 3, 2), cast(read("p", (i,), INT32), INT32)), FLOAT32)
    whole = select(within(i, 1, n), op("add", element, const(2.0, FLOAT32)), element)
    whole = op("add", whole, cast(index(i * n), FLOAT32))
    assert pickle.loads(pickle.dumps(whole)) is whole  # interned there, too
    size = pickle.loads(pickle.dumps(i * n + 1))
    assert size == i * n + 1 and hash(size) == hash(i * n + 1)


def test_workers_of_a_tuner_are_forked_from_one_process() -> None:
    with WorkerProcess() as first, WorkerProcess(cpus=frozenset({0})) as second:
        first.start()
        second.start()
        parents = {
            int(Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[1])
            for worker in (first, second)
        }
        assert len(parents) == 1 and os.getpid() not in parents
        assert second.pid is not None and os.sched_getaffinity(second.pid) == {0}

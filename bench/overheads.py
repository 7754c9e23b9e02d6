"""Cost of a call, of fork and join, and of waking threads: ``python -m bench.overheads``.

::

    call             from Python to a compiled function of no work and back, beside NumPy's add;
                     with a list of 20 arrays, with 8 and 20 in nested dicts, with 20 in and out;
                     of a method whose object has two arrays; and with three symbolic sizes
    fork and join    a parallel loop of one iteration per thread, while the workers spin
    wake             the same after a pause in which they have gone to sleep
    alone            the same of no work, for which the pool does not wake them
    idle             processor time burnt in a second after a call, per thread
    result of 64 MB  page faults of a call that makes one

Medians, so that a busy machine disturbs little; what is shared with others moves all the same.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.codegen.llvm.clock import CLOCK_TEXT
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import LoadedObject, load_object
from loopwright.codegen.runtime import pool
from loopwright.codegen.target import Target

__all__ = ["main", "overheads"]

# @idle does nothing; @busy spends the nanoseconds that its context holds on each iteration.
_TEXT = """
define void @idle(ptr %context, i64 %begin, i64 %end) { ret void }
declare void @lw_parallel_for(ptr, ptr, i64)

; Nanoseconds of so many loops over n iterations of @busy.
define i64 @forks(i64 %loops, i64 %n, ptr %context) {
entry:
  %start = call i64 @now()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @lw_parallel_for(ptr @busy, ptr %context, i64 %n)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %loops
  br i1 %more, label %loop, label %done
done:
  %end = call i64 @now()
  %ns = sub i64 %end, %start
  ret i64 %ns
}
define void @busy(ptr %context, i64 %begin, i64 %end) {
entry:
  %iterations = sub i64 %end, %begin
  %each = load i64, ptr %context
  %long = mul i64 %iterations, %each
  %start = call i64 @now()
  %until = add i64 %start, %long
  br label %loop
loop:
  %t = call i64 @now()
  %more = icmp slt i64 %t, %until
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
SHORT, LONG = 5_000, 500_000  # nanoseconds of an iteration


def _three_sizes(a: Any, b: Any) -> Any:
    return a + 1, b + 1


Row = tuple[str, float, str]


class _Layer:
    def __init__(self) -> None:
        self.scale, self.shift = np.ones(8, np.float32), np.ones(8, np.float32)

    @lw.compile
    def __call__(self, x: Any) -> Any:
        return x * self.scale + self.shift


def overheads(threads: int, rounds: int = 200) -> Iterator[Row]:
    """Name, figure and unit of each row."""
    code = load_object(compile_object(CLOCK_TEXT + _TEXT, Target.host()), pool.symbols())
    yield from _calls(rounds)
    with pool.limited(threads):
        if threads > 1:
            yield from _forks(code, threads, rounds)
        yield "idle, per second", _idle(code, threads) * 1e6, "us"
    yield "result of 64 MB", _faults(), "faults"


def _calls(rounds: int) -> Iterator[Row]:
    x = np.ones(8, np.float32)
    plus = lw.compile(lambda x: x + x)
    plus(x)
    yield "call", _each(lambda: plus(x), rounds) * 1e6, "us"
    one = plus.with_threads(1)
    one(x)
    yield "call with its own threads", _each(lambda: one(x), rounds) * 1e6, "us"
    trees = lw.compile(lambda tree, x: x + x)
    arrays = [np.ones(8, np.float32) for _ in range(20)]
    layers = {name: {"w": x, "b": x} for name in "abcd"}
    more = {name: {"w": x, "b": x} for name in "abcdefghij"}
    for name, tree in (
        ("call with a list of 20", arrays),
        ("call with dicts of 8", layers),
        ("call with dicts of 20", more),
    ):
        for _ in range(2):
            trees(tree, x)
        yield name, _each(functools.partial(trees, tree, x), rounds) * 1e6, "us"
    same = lw.compile(lambda tree: tree)
    for _ in range(2):
        same(arrays)
    yield "call with 20 in and out", _each(lambda: same(arrays), rounds) * 1e6, "us"
    layer = _Layer()
    for _ in range(2):
        layer(x)
    yield "call of a method", _each(lambda: layer(x), rounds) * 1e6, "us"
    sized = lw.compile(_three_sizes, dynamic={"a": ("n", "m"), "b": ("m", "k")})
    a = np.ones((2, 2), np.float32)
    for _ in range(2):
        sized(a, a)
    yield "call with three sizes", _each(lambda: sized(a, a), rounds) * 1e6, "us"
    yield "numpy.add", _each(lambda: np.add(x, x), rounds) * 1e6, "us"


def _forks(code: LoadedObject, threads: int, rounds: int) -> Iterator[Row]:
    i64 = ctypes.c_int64
    forks = ctypes.CFUNCTYPE(i64, i64, i64, ctypes.c_void_p)(code.address("forks"))
    short = np.array([SHORT])
    pool.configure(spin=1.0)
    forks(100, threads, short.ctypes.data)
    medians = statistics.median(forks(10, threads, short.ctypes.data) / 10 for _ in range(rounds))
    yield "fork and join", (medians - SHORT) / 1e3, "us"
    pool.configure(spin=0.0)
    for name, function, nanoseconds in (("wake", "busy", LONG), ("alone", "idle", 0)):
        seconds = _after_pauses(code.address(function), threads, nanoseconds, max(10, rounds // 10))
        yield name, seconds * 1e6 - nanoseconds / 1e3, "us"
    pool.configure(spin=pool.SPIN_SECONDS)


def _after_pauses(function: int, threads: int, nanoseconds: int, times: int) -> float:
    """Median seconds of a loop that finds the workers asleep."""
    context = np.array([nanoseconds])
    found: list[float] = []
    for _ in range(times):
        time.sleep(1e-3)
        start = time.perf_counter()
        pool.parallel_for(function, context.ctypes.data, threads)
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def _each(call: Callable[[], Any], rounds: int, calls: int = 100) -> float:
    """Median seconds of one call."""
    found: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        found.append((time.perf_counter() - start) / calls)
    return statistics.median(found)


def _idle(code: LoadedObject, threads: int) -> float:
    context = np.array([LONG])
    pool.parallel_for(code.address("busy"), context.ctypes.data, threads)
    time.sleep(0.01)
    before = _processor_seconds()
    time.sleep(1.0)
    return (_processor_seconds() - before) / threads


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _faults() -> float:
    x = np.ones(1 << 24, np.float32)
    plus = lw.compile(lambda x: x + x)
    kept = [plus(x), plus(x)]
    kept.pop()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        kept[0] = plus(x)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.overheads", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--threads", type=int, default=pool.default_threads())
    parser.add_argument("--rounds", type=int, default=200, help="of each measurement (200)")
    args = parser.parse_args()
    print(f"{args.threads} threads")
    for name, figure, unit in overheads(args.threads, args.rounds):
        print(f"{name:<26} {figure:9.2f} {unit}")


if __name__ == "__main__":
    main()

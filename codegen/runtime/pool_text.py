"""The thread pool: ``pool.ll`` over pthreads and futexes (Linux), and its numbers.

The pool is an array of slots, two cache lines each. Slot 0 belongs to the caller, slot k to worker
k. A slot holds the part of the range its owner starts with, and a state word::

    IDLE 0       nothing to do, the worker spins           POSTED 1   a job waits for the worker
    RUNNING 2    the worker is in the job                  SLEEPING 3 the worker sleeps in a futex
    LEAVING 4    the worker is to end

A job is forked by writing every slot's part and then exchanging the states of the workers to
POSTED, which moves one cache line to each worker. Each thread claims pieces of its own part by
compare-and-swap on ``next`` (half of the remaining indices each time, or all of them in static
mode) and then helps the others. The caller joins by waiting until no worker is RUNNING. A worker
that has not begun by then is taken off the job again (POSTED -> IDLE), so a sleeping or descheduled
worker never delays a job whose work is done. This is work sharing with lazily split ranges, as in
"Lazy binary splitting" (Tzannes, Caragea, Barua, Vishkin, PPoPP 2010), without its deques.

Waking a sleeping worker costs more than a small job (docs/measurements.md), so it is done only if
the job is expected to be worth it: the time per index is remembered from earlier jobs of the same
function, and work that the caller has just done alone counts as well. A function not seen before is
worth it.

A worker that has slept for milliseconds is put on the core of the thread that wakes it by Linux,
even if another core is idle, and waits there until the job is done. So it may not run on its
caller's core until it is awake; then it may again run wherever its caller may.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..target import Target

MAX_THREADS = 256

WORTH_WAKING_NANOSECONDS = 30_000
"""Work in a burst from which on sleeping workers are woken. Waking one costs several microseconds,
on virtual machines tens of them."""

BURST_GAP_NANOSECONDS = 200_000
"""A pause between two jobs that begins a new burst."""


class LinuxRow(NamedTuple):
    """Linux on an architecture: the function of LLVM that pauses, with its operands as they are
    called and declared, and the numbers of two system calls."""

    pause: str
    declared: str
    futex: int
    gettid: int


LINUX = {
    "x86_64": LinuxRow("x86.sse2.pause()", "x86.sse2.pause()", 202, 186),
    "aarch64": LinuxRow("aarch64.isb(i32 15)", "aarch64.isb(i32)", 98, 178),
    "riscv64": LinuxRow("riscv.pause()", "riscv.pause()", 98, 178),
}

_SERIAL = """
define void @lw_parallel_for(ptr %fn, ptr %context, i64 %n) {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %all, label %done
all:
  call void %fn(ptr %context, i64 0, i64 %n)
  br label %done
done:
  ret void
}
define i64 @lw_pool_threads() {
  ret i64 1
}
"""


def pool_text(target: Target) -> str:
    """Returns the text of ``lw_parallel_for`` and ``lw_pool_threads``, on Linux with those that
    set the pool up, which need ``CLOCK_TEXT``; on other systems the calling thread does all."""
    row = LINUX.get(target.level.architecture.name)
    if row is None or not target.triple.endswith("linux-gnu"):
        return _SERIAL
    text = Path(__file__).with_name("pool.ll").read_text()
    words = {
        "MAX": MAX_THREADS,
        "WORTH": WORTH_WAKING_NANOSECONDS,
        "BURST": BURST_GAP_NANOSECONDS,
        "PAUSE": row.pause,
        "PAUSE_TYPE": row.declared,
        "FUTEX": row.futex,
        "GETTID": row.gettid,
    }
    for name, value in words.items():
        text = text.replace(f"@{name}@", str(value))
    return text

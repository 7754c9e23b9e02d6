"""Measures a machine's limits: peak floating-point rate and bandwidth per memory level.

These figures are the denominators of every "share of peak", and features of the cost model. They
are measured once per machine and ISA level and kept in the user's cache folder. A shared machine is
noisy, and noise only ever makes it slower: every figure is the best of many short rounds, and
``Contention`` says how much of the machine others used meanwhile.
"""

from __future__ import annotations

import functools
import json
import os
import time
from dataclasses import asdict, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ..ir.dataclass import dataclass
from .llvm.store import entry_key, store
from .probes import Floats, Probes, aligned_buffer
from .target import Target


class Contention:
    """Within it others are watched; ``share`` is afterwards how much of our cores they had.

    From ``/proc/stat``: what the cores that this process may use did, other than for this process,
    and what the hypervisor took away. 0 where the system does not say.

    >>> with Contention() as others:
    ...     _ = sum(range(1000))
    >>> 0 <= others.share <= 1
    True
    """

    share = 0.0

    def __enter__(self) -> Contention:
        self._begun, self._busy, self._own = time.monotonic(), _busy(), _own()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = (time.monotonic() - self._begun) * len(os.sched_getaffinity(0))
        others = (_busy() - self._busy) - (_own() - self._own)
        self.share = min(1.0, max(0.0, others / seconds)) if seconds > 0 else 0.0


def _own() -> float:
    spent = os.times()
    return spent.user + spent.system


def _busy() -> float:
    """Seconds that our cores were not idle, or not given to us, since the system began."""
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    except OSError:
        return 0.0
    ticks = 0
    for name, *counts in rows:
        if name in names and len(counts) >= 8:
            user, nice, system, _idle, _waiting, interrupts, soft, stolen = map(int, counts[:8])
            ticks += user + nice + system + interrupts + soft + stolen
    return ticks / os.sysconf("SC_CLK_TCK")


VERSION = 2  # of the figures that are kept: those of others are measured again
LEVELS = ("l1", "l2", "l3", "dram")


@dataclass(frozen=True, slots=True)
class Measuring:
    """Settings of measuring a machine; seconds, unless a field says otherwise."""

    most_memory: int = 512 * 1024 * 1024  # Bytes of one buffer.
    round: float = 1e-3  # Of one round: longer than the clock's error, shorter than a time slice.
    improving: float = 0.2  # After which a figure that still improves is taken as it is.
    peak_patience: float = 0.6  # The same for the peak, the figure that matters most.
    stream_patience: float = 0.5  # And for main memory, where a round takes tens of milliseconds.
    attempts: int = 6  # At the peak of all threads.
    pause: float = 0.4  # Between two of them.
    contended: float = 0.1  # Share of the cores that others may use beside figures that are kept.
    retry: float = 300.0  # Between two attempts on a machine that is busy.
    step: float = 1.25  # Ratio of two sizes at which the end of the last-level cache is looked for.


MEASURING = Measuring()


@dataclass(frozen=True, slots=True)
class MachineModel:
    """Rates in FLOP/s and bytes/s, for one thread (``_1``) and for ``threads`` threads (``_n``).

    ``bandwidth`` is that of reading; ``triad`` counts the bytes of ``a = b + s * c``, two reads and
    a write, with whichever of ordinary and non-temporal stores is faster. Both go by the level the
    data fits in: l1, l2, l3, dram. ``measured`` is False for an estimate. ``last_cache`` is how
    much memory one thread reads faster than from main memory, in bytes (0: not known);
    ``contention`` the share of our cores that others used meanwhile, ``at`` the time (Unix).
    """

    isa: str
    cpu: str
    threads: int
    peak_flops_1: float
    peak_flops_n: float
    peak_flops64_1: float
    peak_flops64_n: float
    bandwidth_1: dict[str, float] = field(default_factory=dict[str, float])
    bandwidth_n: dict[str, float] = field(default_factory=dict[str, float])
    triad_1: dict[str, float] = field(default_factory=dict[str, float])
    triad_n: dict[str, float] = field(default_factory=dict[str, float])
    measured: bool = True
    version: int = VERSION
    last_cache: int = 0
    contention: float = 0.0
    at: float = 0.0

    def seen_by(self, target: Target) -> Target:
        """Returns ``target`` with the measured last-level cache: a CPU reports its whole cache, of
        which a guest has a part.
        """
        measured = self.measured and 0 < self.last_cache < target.l3
        return replace(target, l3=self.last_cache) if measured else target

    @property
    def is_doubtful(self) -> bool:
        """True if others used so much of the machine that the figures may be too low."""
        return self.contention > MEASURING.contended

    def peak_flops(self, threads: int = 1, element_bytes: int = 4) -> float:
        """Peak FLOP/s on ``threads`` threads for elements of that size."""
        one, all_of_them = self.peak_flops_1, self.peak_flops_n
        if element_bytes == 8:
            one, all_of_them = self.peak_flops64_1, self.peak_flops64_n
        return one if threads <= 1 else min(one * threads, all_of_them)

    def bandwidth(self, level: str, threads: int = 1, *, writes: bool = False) -> float:
        """Bytes per second from ``level``; ``writes`` if some of the bytes are stores."""
        one = (self.triad_1 if writes else self.bandwidth_1)[level]
        all_of_them = (self.triad_n if writes else self.bandwidth_n)[level]
        return one if threads <= 1 else min(one * threads, all_of_them)


def measured_machine(target: Target | None = None, *, fresh: bool = False) -> MachineModel:
    """The figures of this machine, for code of ``target``'s ISA level.

    The first call measures for about eight seconds, later ones read the cache; ``fresh`` measures
    again. A target whose instructions this machine lacks gets an estimate.
    """
    target = target or Target.host()
    if fresh:
        _model_of.cache_clear()
        _measure_and_keep(target)
    return _model_of(target)


def known_machine(target: Target | None = None) -> MachineModel:
    """The figures if this machine was ever measured, else an estimate; costs nothing."""
    target = target or Target.host()
    return _read(target) or estimated_machine(target)


@functools.cache
def _model_of(target: Target) -> MachineModel:
    host = Target.host()
    if not target.level.cpu_flags <= host.level.cpu_flags:
        return estimated_machine(target)
    model = _read(target)
    if model is None or (model.is_doubtful and not 0 <= time.time() - model.at < MEASURING.retry):
        return _measure_and_keep(target)
    return model


def estimated_machine(target: Target) -> MachineModel:
    """Figures of a usual core of 3 GHz, for a target that cannot be measured here."""
    clock = 3e9
    one = clock * target.lanes(4) * 4
    near = {"l1": 64.0, "l2": 32.0, "l3": 16.0, "dram": 8.0}  # bytes per cycle and core
    read = {level: clock * rate for level, rate in near.items()}
    n = target.cores
    many = {level: rate * (min(n, 4) if level == "dram" else n) for level, rate in read.items()}
    return MachineModel(
        isa=target.isa,
        cpu=target.cpu,
        threads=n,
        peak_flops_1=one,
        peak_flops_n=one * n,
        peak_flops64_1=one / 2,
        peak_flops64_n=one * n / 2,
        bandwidth_1=read,
        bandwidth_n=many,
        triad_1=read,
        triad_n=many,
        measured=False,
    )


def _key(target: Target) -> str:
    caches = target.l1, target.l2, target.l3
    return entry_key("machine", VERSION, target.cpu, target.isa, target.cores, *caches)


def _read(target: Target) -> MachineModel | None:
    content = store("machine").get(_key(target))
    return None if content is None else MachineModel(**json.loads(content))


def _measure_and_keep(target: Target) -> MachineModel:
    with Contention() as others:
        model = _measure(target)
    model = replace(model, contention=others.share, at=time.time())
    earlier = _read(target)
    if earlier is not None and earlier.is_doubtful:
        model = _better(model, earlier)
    # A machine without a writable home measures in every process; nothing else is lost.
    store("machine").put(_key(target), f"machine {target.isa}", json.dumps(asdict(model)).encode())
    return model


def _better(model: MachineModel, other: MachineModel) -> MachineModel:
    """Returns the best of two measurements of one machine: others only ever make it slower."""
    best: dict[str, Any] = {}
    for name in ("peak_flops_1", "peak_flops_n", "peak_flops64_1", "peak_flops64_n", "last_cache"):
        best[name] = max(getattr(model, name), getattr(other, name))
    for name in ("bandwidth_1", "bandwidth_n", "triad_1", "triad_n"):
        mine, theirs = getattr(model, name), getattr(other, name)
        best[name] = {level: max(rate, theirs[level]) for level, rate in mine.items()}
    return replace(model, **best)


def _measure(target: Target) -> MachineModel:
    probes = Probes(target)
    n = target.cores
    one, many = _peaks(probes, "fma32", 4, n)
    one64, many64 = _peaks(probes, "fma64", 8, n)
    read_1, read_n = _bandwidths(probes, target, ("read", "read_streams"))
    triad_1, triad_n = _bandwidths(probes, target, ("triad", "triad_stream"))
    return MachineModel(
        isa=target.isa,
        cpu=target.cpu,
        threads=n,
        peak_flops_1=one,
        peak_flops_n=many,
        peak_flops64_1=one64,
        peak_flops64_n=many64,
        bandwidth_1=read_1,
        bandwidth_n=read_n,
        triad_1=triad_1,
        triad_n=triad_n,
        last_cache=_last_cache(probes, target, read_1),
    )


def _last_cache(probes: Probes, target: Target, rates: dict[str, float]) -> int:
    """Bytes up to which one thread reads faster than half-way (geometrically) to main memory.

    The sizes are bisected: reading gets no faster as they grow.
    """
    level = (rates["l3"] * rates["dram"]) ** 0.5
    low, high = 2 * target.l2, max(target.l3, _working_set(target, "l3", 1))
    if rates["l3"] < 1.2 * rates["dram"]:  # no step to be found
        return 0
    buffer = aligned_buffer(min(high, MEASURING.most_memory))
    high = buffer.nbytes
    while high > MEASURING.step * low:
        step = 3 * 16 * 64
        size = int((low * high) ** 0.5) // step * step
        rate = _best_rate(probes, "read_streams", [buffer[: size // 4]], size, MEASURING.improving)
        low, high = (size, high) if rate > level else (low, size)
    return low


def _peaks(probes: Probes, kernel: str, element_bytes: int, n: int) -> tuple[float, float]:
    small = aligned_buffer(16 * 1024)
    work = probes.flops_per_repeat(element_bytes)
    one = _best_rate(probes, kernel, [small], work, MEASURING.peak_patience)
    many = one
    # On virtual machines two of our cores are, for seconds at a time, the two hyper-threads of one
    # core, and the others' load comes and goes. Less than n times one thread is asked for again.
    for attempt in range(MEASURING.attempts if n > 1 else 0):
        if attempt:
            time.sleep(MEASURING.pause)
        rate = _best_rate(probes, kernel, [small] * n, work * n, MEASURING.peak_patience)
        many = max(many, rate)
        if many > 0.97 * n * one:
            break
    return one, many


def _bandwidths(
    probes: Probes, target: Target, kernels: tuple[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns bandwidths of one thread and of all, by level; the second kernel is tried beyond
    L2."""
    one: dict[str, float] = {}
    many: dict[str, float] = {}
    n = target.cores
    for level in LEVELS:
        patience = MEASURING.stream_patience if level == "dram" else MEASURING.improving
        near = level in ("l1", "l2")
        tried: dict[str, float] = {}
        buffers = [aligned_buffer(_working_set(target, level, 1))]
        for kernel in kernels[:1] if near else kernels:
            tried[kernel] = _best_rate(probes, kernel, buffers, buffers[0].nbytes, patience)
        best = max(tried, key=tried.__getitem__)
        one[level] = many[level] = tried[best]
        if n > 1:
            buffers = [aligned_buffer(_working_set(target, level, n)) for _ in range(n)]
            work = sum(b.nbytes for b in buffers)
            many[level] = max(one[level], _best_rate(probes, best, buffers, work, patience))
    return one, many


def _working_set(target: Target, level: str, threads: int) -> int:
    """Bytes per thread that sit in ``level``: whole steps of every kernel."""
    step = 3 * 16 * 64
    far = max(4 * target.l3 // threads, 32 * 1024 * 1024)
    size = {
        "l1": target.l1 // 2,
        "l2": max(target.l2 // 2, 2 * target.l1),
        "l3": max(min(target.l3 // (2 * threads), 8 * target.l2), 2 * target.l2),
        "dram": min(far, MEASURING.most_memory),
    }[level]
    return max(1, size // step) * step


def _best_rate(
    probes: Probes, kernel: str, buffers: list[Floats], work: float, patience: float
) -> float:
    """Work per second at best. Stops when five more batches of rounds change nothing."""
    repeats = 1
    # Grow until a round is long enough for the clock; this also wakes the core up.
    while (alone := probes.seconds(kernel, buffers, repeats, 2)[1]) < MEASURING.round / 2:
        repeats = max(repeats + 1, min(8 * repeats, int(repeats * MEASURING.round / alone)))
    rounds = 3 if alone > 4 * MEASURING.round else 10
    best, unchanged = 0.0, 0
    end = time.perf_counter() + patience
    while unchanged < 5 and time.perf_counter() < end:
        rate = work * repeats / probes.seconds(kernel, buffers, repeats, rounds)[0]
        unchanged = unchanged + 1 if rate < 1.002 * best else 0
        best = max(best, rate)
    return best

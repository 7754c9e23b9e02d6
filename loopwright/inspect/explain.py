"""Measures the kernels of a call, and compares each with what the machine allows.

::

    build, arguments -> timed program -> seconds of each kernel
    loop nests -> traffic -> the roof of each                       -> Explanation
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autotune.log.lookup import LookupResult, related
from ..autotune.log.record import target_key
from ..autotune.select import Chosen, Origin
from ..autotune.space.least_work import least_flops
from ..autotune.space.space import ScheduleSpace
from ..autotune.space.tiling import UNUSED
from ..autotune.workload import workload_of
from ..codegen.kernel import Kernel
from ..codegen.machine import MachineModel
from ..codegen.reuse import reuse_distances
from ..codegen.roofline import COMPUTE, Roof, Work
from ..codegen.target import Target
from ..codegen.timed_program import timed_program
from ..codegen.traffic import LEVELS, Traffic, traffic_of
from ..ir.dims import as_int
from ..ir.dtype import FLOAT64
from ..ir.errors import UnsupportedError
from ..ir.loop.expr import Read, walk
from ..ir.loop.prim import PrimFunc
from ..ir.program.nodes import Call
from ..ir.schedule.steps import Schedule
from ..pipeline import Built, Parts
from ..text import bytes_text, rate_text, seconds_text, table

__all__ = ["Explained", "Explanation", "explain", "explanation_text", "work_of"]

Array = np.ndarray[Any, Any]

FAR_BELOW = 0.6
"""Share of its roof below which a kernel gets a remark."""

LIMIT_NOISE = 1.1
"""Greatest share of its limit that a kernel may seem to reach by noise."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One kernel: ``seconds`` of all its ``calls`` together, and the work of one.

    ``roof`` is that of the threads it runs on. ``source`` says where the schedule came from,
    ``choices`` what it is made of, and ``nest`` is the loop nest it gives.
    """

    name: str
    calls: int
    seconds: float
    work: Work
    roof: Roof
    source: str
    sketch: str
    choices: Mapping[str, int]
    nest: str

    @property
    def bound(self) -> str:
        """The bound of the kernel: "compute" or a level of memory."""
        return self.roof.bound(self.work)[0]

    @property
    def limit(self) -> float:
        """Least seconds of all calls by the roof."""
        return self.roof.bound(self.work)[1] * self.calls

    @property
    def share(self) -> float:
        """Share of its roof that the kernel reaches; nan above ``LIMIT_NOISE``.

        There the roof does not bound it: the machine was slower when it was measured, or the kernel
        moves less than its loops say.
        """
        share = self.limit / self.seconds
        return min(1.0, share) if share <= LIMIT_NOISE else math.nan

    @property
    def flops_per_second(self) -> float:
        """Measured rate."""
        return self.work.flops * self.calls / self.seconds


@dataclass(frozen=True, slots=True)
class Explanation:
    """All kernels in the order of their first call, and the seconds ``between`` them in a call.

    ``str`` is a table of the kernels, their schedules, and remarks.
    """

    kernels: tuple[Explained, ...]
    between: float
    machine: MachineModel
    threads: int
    name: str = ""

    def __str__(self) -> str:
        return explanation_text(self.name, self)

    @property
    def in_kernels(self) -> float:
        """Seconds that the kernels take together."""
        return sum(k.seconds for k in self.kernels)

    @property
    def seconds(self) -> float:
        """Seconds of a whole call."""
        return self.in_kernels + self.between


def explain(
    built: Built,
    arrays: Sequence[Array],
    machine: MachineModel,
    seconds: float = 1.0,
    name: str = "",
) -> Explanation:
    """Runs ``built`` on ``arrays`` for about ``seconds``, and compares each kernel with its roof.

    ``name`` is what the text calls the program. Times are the best of all runs, since whatever
    disturbs them only makes them longer.
    """
    parts = built.parts
    if parts is None:
        raise UnsupportedError("this build does not say what it is made of")
    per_call, between = _measure(parts, arrays, seconds)
    spent: defaultdict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    for kernel, took in per_call:
        spent[kernel] += took
        calls[kernel] += 1
    far = _distances(parts)
    kernels = tuple(
        _explained(parts, k, built.chosen[k], calls[k], spent[k], machine, far[k]) for k in calls
    )
    return Explanation(kernels, between, machine, parts.threads, name)


def _measure(
    parts: Parts, arrays: Sequence[Array], seconds: float
) -> tuple[list[tuple[str, float]], float]:
    """Returns the least seconds of every call, by kernel, and the seconds between calls of
    kernels."""
    timed = timed_program(parts.program, parts.kernels, parts.target, parts.threads)
    best = timed.run(arrays)
    between = np.inf
    end = time.perf_counter() + seconds
    runs = 0
    while runs < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        took = timed.run(arrays)
        between = min(between, time.perf_counter() - start - took.sum())
        best = np.minimum(best, took)
        runs += 1
    names = [call.kernel for call in timed.calls]
    return [(n, max(float(s), 1e-9)) for n, s in zip(names, best)], max(0.0, float(between))


def _distances(parts: Parts) -> dict[str, dict[str, float]]:
    """Returns the reuse distances of each kernel's operands, at its first call."""
    calls = [i for i in parts.program.body if isinstance(i, Call)]
    by_kernel: dict[str, dict[str, float]] = {}
    for call, distances in zip(calls, reuse_distances(parts.program)):
        names = [o.buffer.name for o in parts.kernels[call.kernel].operands]
        by_kernel.setdefault(call.kernel, dict(zip(names, map(float, distances))))
    return by_kernel


def work_of(
    prim: PrimFunc,
    kernel: Kernel,
    target: Target,
    threads: int = 1,
    distances: Mapping[str, float] | None = None,
) -> Work:
    """Returns the work of one call, as the kernel's loop nest does it; see ``traffic_of``."""
    wide = any(o.buffer.dtype == FLOAT64 for o in kernel.operands)
    used = threads if kernel.parallel else 1
    moved = _once(kernel) if kernel.library else traffic_of(kernel.nest, target, used, distances)
    rate = target.byte_products if _sums_bytes(prim) else 1
    return Work(least_flops(prim), moved, 8 if wide else 4, rate)


def _sums_bytes(prim: PrimFunc) -> bool:
    """True if a kernel sums products of bytes, for which there are instructions."""
    buffers = prim.buffers
    for stage in prim.stages:
        reads = [node for node in walk(stage.expr) if isinstance(node, Read)]
        if stage.combiner == "sum" and reads:
            return all(buffers[r.buffer].dtype.bytes == 1 for r in reads)
    return False


def _once(kernel: Kernel) -> dict[str, Traffic]:
    """Returns the traffic of a kernel whose loops are unknown: every operand once, at least."""
    moved = Traffic()
    for operand in kernel.operands:
        size = float(as_int(operand.buffer.size) * operand.buffer.dtype.bytes)
        moved += Traffic(written=size) if operand.role == "out" else Traffic(read=size)
    return dict.fromkeys(LEVELS, moved)


def _explained(
    parts: Parts,
    name: str,
    chosen: Chosen,
    calls: int,
    seconds: float,
    machine: MachineModel,
    distances: Mapping[str, float],
) -> Explained:
    prim, kernel = parts.prims[name], parts.kernels[name]
    return Explained(
        name=name,
        calls=calls,
        seconds=seconds,
        work=work_of(prim, kernel, machine.seen_by(parts.target), parts.threads, distances),
        roof=Roof(machine, parts.threads if kernel.parallel else 1),
        source=_source(parts, prim, chosen),
        sketch=chosen.sketch,
        choices=_choices(prim, parts, chosen.schedule),
        nest=str(kernel.nest),
    )


def _source(parts: Parts, prim: PrimFunc, chosen: Chosen) -> str:
    if chosen.origin == Origin.RULES and (chosen.passed or chosen.refused):
        return f"by the rules; {', '.join((*chosen.refused, *chosen.passed))}"
    if chosen.origin == Origin.RULES:
        return "by the rules, the logs have nothing like it"
    if chosen.origin == Origin.LIBRARY:
        return f"its product by {chosen.sketch}, NumPy's library, which was faster in the program"
    if chosen.origin == Origin.MODEL:
        return "picked by the cost model among schedules near the default one"
    if chosen.origin == Origin.NEAR:
        return "fitted to this shape from the log's record of a near one"
    if chosen.origin == Origin.GIVEN:
        return "the one that the kernel was written with"
    took = f"{chosen.seconds * 1e3:.3g} ms"
    if chosen.origin == Origin.EXACT:
        return f"from the log, measured {took}"
    key = target_key(parts.target, parts.threads)
    (result, *_) = related(parts.logs, workload_of(prim), key) or [LookupResult("none")]
    if result.record is None:
        return chosen.origin
    where = result.record.target
    return f"from the log of another machine ({where.text}: {took})"


def _choices(prim: PrimFunc, parts: Parts, schedule: Schedule) -> dict[str, int]:
    """Returns the knobs that the schedule uses; none if the rules cannot make it."""
    if not schedule.steps:
        return {}
    space = ScheduleSpace(prim, parts.target)
    row = space.row_of(schedule)
    if row is None:
        return {}
    return {k: v for k, v in space.choices(row).items() if v != UNUSED.get(k)}


def explanation_text(name: str, explanation: Explanation, *, loops: bool = False) -> str:
    """Returns the explanation as text: the machine, a table of kernels, schedules, remarks."""
    parts = [
        "\n".join(_head(name, explanation)),
        _kernel_table(explanation),
        "\n".join(_schedules(explanation)),
    ]
    remarks = "\n".join(_remarks(explanation))
    if remarks:
        parts.append(remarks)
    if loops:
        parts += [kernel.nest.rstrip() for kernel in explanation.kernels]
    return "\n\n".join(parts)


def _head(name: str, explanation: Explanation) -> Iterator[str]:
    machine, roof = explanation.machine, Roof(explanation.machine, explanation.threads)
    count = len(explanation.kernels)
    yield (
        f"{name}   {seconds_text(explanation.seconds)} a call, "
        f"{seconds_text(explanation.in_kernels)} of it in {count} kernel{'' if count == 1 else 's'}"
    )
    threads = f"{explanation.threads} thread{'' if explanation.threads == 1 else 's'}"
    how = "measured" if machine.measured else "estimated, not measured"
    yield f"machine    {machine.cpu}, {machine.isa}, {threads}; {how}:"
    rates = [f"float32 {rate_text(roof.peak(), 'FLOP/s')}"]
    rates += [f"{level.upper()} {rate_text(roof.bandwidth(level), 'B/s')}" for level in LEVELS]
    yield "           " + ", ".join(rates)


def _kernel_table(explanation: Explanation) -> str:
    head = ("kernel", "time", "share", "flops", *(n.upper() for n in LEVELS))
    head += ("bound by", "allows", "reached")
    rows = [
        (
            kernel.name + (f" x{kernel.calls}" if kernel.calls > 1 else ""),
            seconds_text(kernel.seconds),
            f"{kernel.seconds / explanation.in_kernels:.0%}",
            _count(kernel.work.flops * kernel.calls),
            *(_bytes(kernel.work.traffic[n].total * kernel.calls) for n in LEVELS),
            bound_text(kernel, explanation),
            seconds_text(kernel.limit),
            f"{kernel.share:.0%}" if kernel.share == kernel.share else "-",
        )
        for kernel in explanation.kernels
    ]
    return table(head, rows, left=(0, 8))


def bound_text(kernel: Explained, explanation: Explanation) -> str:
    """Returns what bounds a kernel, and its number of threads if it does not run on all."""
    what = kernel.bound if kernel.bound == COMPUTE else kernel.bound.upper()
    return what if kernel.roof.threads == explanation.threads else f"{what} of one thread"


def _count(number: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def _bytes(size: float) -> str:
    if size == 0:
        return "-"
    text = bytes_text(size)
    number, _, unit = text.partition(" ")
    return f"{float(number):.3g} {unit}"


def _schedules(explanation: Explanation) -> Iterator[str]:
    yield "schedules"
    for kernel in explanation.kernels:
        choices = ", ".join(f"{name} {value}" for name, value in kernel.choices.items())
        sketch = kernel.sketch.removesuffix("()")
        yield f"  {kernel.name}"
        yield f"    {kernel.source}"
        yield f"    {sketch}{': ' if choices else ''}{choices}"


def _remarks(explanation: Explanation) -> Iterator[str]:
    """Yields remarks on where most of the time could be saved, and how."""
    if explanation.between > 0.2 * explanation.seconds:
        yield f"{seconds_text(explanation.between)} of a call are spent between the kernels"
    for kernel in sorted(explanation.kernels, key=lambda k: k.limit - k.seconds):
        lost = kernel.seconds - kernel.limit
        if not kernel.share < FAR_BELOW or lost < 0.1 * explanation.in_kernels:
            continue
        advice = "tuning may find better" if "measured" not in kernel.source else "it was tuned"
        yield (f"{kernel.name} takes {seconds_text(lost)} more than its roof allows; {advice}")

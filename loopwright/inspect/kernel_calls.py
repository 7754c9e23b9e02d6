"""The kernel calls of a program with their times, work and roofs.

::

    loop nest -> traffic -> the work of a call
    program   -> its operands, line and place   -> KernelCall
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ..autotune.ranges import specialised, typical_point
from ..autotune.space.least_work import least_flops
from ..codegen.kernel import Kernel
from ..codegen.machine import MachineModel
from ..codegen.reuse import by_cycles
from ..codegen.roofline import COMPUTE, Roof, Work
from ..codegen.target import Target
from ..codegen.timed_program import TimedProgram, Times
from ..driver.built import Parts
from ..ir.dataclass import dataclass
from ..ir.dims import IntExpr, substitute, typical
from ..ir.dtype import FLOAT64, Array
from ..ir.graph.printer import span_text
from ..ir.loop.expr import Read, walk
from ..ir.loop.prim import PrimFunc
from ..ir.program import analysis
from ..ir.program.analysis import Place, live_bytes, places, regions, scopes
from ..ir.program.nodes import Call, Invoke, Library, Program
from ..ir.span import Span
from ..text import seconds_text, shortened
from ..tuning.at_sizes import point_of_call
from .traffic import traffic_of

SPAN_WIDTH = 60
"""Columns of a loop's place and code."""

LIMIT_NOISE = 1.1
"""Greatest share of its limit that a kernel may seem to reach by noise."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A kernel: ``seconds`` of all its ``calls`` together, and the work of one.

    ``roof`` is that of the threads it runs on.
    """

    name: str
    calls: int
    seconds: float
    work: Work
    roof: Roof

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
        share = self.limit / self.seconds if self.seconds else math.nan
        return min(1.0, share) if share <= LIMIT_NOISE else math.nan

    @property
    def flops_per_second(self) -> float:
        """Measured rate."""
        return self.work.flops * self.calls / self.seconds


@dataclass(frozen=True, slots=True)
class KernelCall(Timed):
    """One place of the program where it calls a kernel.

    ``nbytes`` is the size of its operands, each counted once. ``span`` is the user's line, or the
    node of the imported model, whose result the kernel computes; None if that is not known.
    ``live`` is the size of the arena's buffers that hold values while it runs. One that is inside
    of a loop is a single one of many ``calls``, one in a branch that was not taken of none.
    """

    nbytes: int
    span: Span | None
    live: int

    @property
    def bytes_per_second(self) -> float:
        """Operand bytes over the measured time."""
        return self.nbytes * self.calls / self.seconds


@dataclass(frozen=True, slots=True)
class LoopTime:
    """A loop of the program, inside of ``depth`` others, or an invocation of a ``function``: how
    often it was entered in a call, its iterations, and the seconds of all together. ``in_kernels``
    are those of the kernel calls inside, nan where functions call them. ``place`` is the number of
    an outermost one among the timed places of the program, -1 of others."""

    place: int
    span: Span | None
    function: str
    entered: int
    iterations: int
    seconds: float
    in_kernels: float
    depth: int = 0

    @property
    def name(self) -> str:
        """The loop by its line."""
        what = f"function @{self.function}" if self.function else "loop"
        where = "" if self.span is None else f" at {shortened(span_text(self.span), SPAN_WIDTH)}"
        return what + where

    def __str__(self) -> str:
        count = self.entered if self.function else self.iterations
        unit = "call" if self.function else "iteration"
        each = seconds_text(self.seconds / max(1, count))
        text = f"{'  ' * self.depth}{self.name}: {count:,} {unit}{'' if count == 1 else 's'}"
        text += f", {seconds_text(self.seconds)}, {each} each"
        share = self.in_kernels / self.seconds if self.seconds else math.nan
        return text if math.isnan(share) else f"{text}, {min(1, share):.0%} in kernels"


def loop_times(
    timed: TimedProgram, times: Times, nested: TimedProgram, within: Times, iterations: Array
) -> tuple[LoopTime, ...]:
    """Returns the loops of a program that were entered, each followed by those in it.

    ``within`` are the times of the program that is ``nested``. An inner loop has the share of the
    loop around all that it has there, since its own clock makes all of them longer.
    """
    places = {id(i): n for n, i in enumerate((*timed.calls, *timed.loops))}
    first, factor = len(timed.calls), 1.0
    inside = [{id(i) for i in analysis.walk((loop,))} - {id(loop)} for loop in nested.loops]
    loops: list[LoopTime] = []
    for n, loop in enumerate(nested.loops):
        entered, seconds = int(within.counts[first + n]), float(within.seconds[first + n])
        place = places.get(id(loop), -1)
        if not entered:
            continue
        if place >= 0:
            factor = float(times.seconds[place]) / seconds
        in_kernels = sum(float(times.seconds[places[i]]) for i in inside[n] if i in places)
        invokes = any(isinstance(i, Invoke | Library) for i in analysis.walk((loop,)))
        loops.append(
            LoopTime(
                place,
                loop.span,
                loop.function if isinstance(loop, Invoke | Library) else "",
                entered,
                int(iterations[n]),
                seconds * factor,
                math.nan if invokes else in_kernels,
                sum(id(loop) in other for other in inside),
            )
        )
    return tuple(loops)


def kernel_calls(
    parts: Parts, times: Times, machine: MachineModel, values: Mapping[str, int] | None = None
) -> tuple[KernelCall, ...]:
    """Returns the kernel calls of a build's program in order, with their ``times``, for ``values``
    of its symbolic sizes; of sizes that depend on data, typical ones."""
    calls: list[KernelCall] = []
    works = works_of(parts, machine.seen_by(parts.target), values)
    for n, (call, place, kernel, work) in enumerate(works):
        calls.append(
            KernelCall(
                name=call.kernel,
                calls=int(times.counts[n]),
                seconds=float(times.seconds[n]),
                work=work,
                roof=Roof(machine, parts.threads if kernel.parallel else 1),
                nbytes=_at(place.nbytes, values),
                span=call.span,
                live=_at(place.live, values),
            )
        )
    return tuple(calls)


def works_of(
    parts: Parts, target: Target, values: Mapping[str, int] | None = None
) -> Iterator[tuple[Call, _Place, Kernel, Work]]:
    """Yields the kernel calls of a build's program in order, each with its kernel at ``values`` of
    symbolic sizes and the work of one call; of sizes that are not known, at typical ones."""
    works: dict[tuple[str, tuple[int, ...]], Work] = {}
    for call, place in _calls(parts.program):
        prim, kernel = parts.prims[call.kernel], parts.kernels[call.kernel]
        point: Mapping[str, int] = {}
        if prim.sizes:
            point = point_of_call(call, prim, values or {}) or typical_point(prim)
            prim, kernel = specialised(prim, point), kernel.at(point)
        key = call.kernel, (*place.distances, *point.values())
        if key not in works:
            names = (o.buffer.name for o in kernel.operands)
            far = dict(zip(names, map(float, place.distances)))
            works[key] = work_of(prim, kernel, target, parts.threads, far)
        yield call, place, kernel, works[key]


def _at(size: IntExpr, values: Mapping[str, int] | None) -> int:
    """Returns the value of a size; that at typical sizes where some are not known."""
    return typical(substitute(size, values or {}))


@dataclass(frozen=True, slots=True)
class _Place:
    """The program around a call: reuse distances and bytes of the operands, live bytes."""

    distances: list[int]
    nbytes: IntExpr
    live: IntExpr


def _calls(program: Program) -> Iterator[tuple[Call, _Place]]:
    """Yields the kernel calls of a program and its functions, but for those that are a part of the
    code around them."""
    distances = iter(reuse_distances(program))
    for scope in scopes(program):
        region = regions(scope)
        for call, live in zip(analysis.walk(scope.body), live_bytes(scope), strict=True):
            if isinstance(call, Call):
                nbytes = sum(region[o.name].nbytes for o in call.operands)
                place = _Place(next(distances), nbytes, live)
                if not call.inline:
                    yield call, place


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
    moved = traffic_of(kernel.nest, target, used, distances)
    return Work(least_flops(prim), moved, 8 if wide else 4, _rate(prim, target))


def _rate(prim: PrimFunc, target: Target) -> int:
    """Returns the products that a kernel sums in the time of one of float32, at best: there are
    instructions for bytes, and for bfloat16."""
    buffers = prim.buffers
    for stage in prim.stages:
        dtypes = {buffers[n.buffer].dtype for n in walk(stage.expr) if isinstance(n, Read)}
        if stage.combiner == "sum" and dtypes:
            if all(dtype.bytes == 1 for dtype in dtypes):
                return target.byte_products
            return 2 if target.dot("bf16") and {d.name for d in dtypes} == {"bfloat16"} else 1
    return 1


def reuse_distances(program: Program) -> list[list[int]]:
    """Returns a distance in bytes for each call of the program and each of its operands, in the
    order of ``calls``.

    For an operand that is read, it is the memory touched since its last use; for one that is
    written, until its next use: all memory of the calls in between and of both calls. Cycles are
    those of ``bytes_between_uses``.
    """
    return by_cycles(program, lambda scope: partial(_of_cycle, place_of=places(scope)))


def _of_cycle(calls: Sequence[Call], place_of: Mapping[str, Place]) -> dict[int, list[int]]:
    """Returns the distances of calls that run one after the other, again and again."""
    touched: list[dict[str, int]] = []
    for call in calls:
        spots = [place_of[o.name] for o in call.operands]
        touched.append({s.root: 0 for s in spots})
        for spot in spots:
            size = typical(spot.end - spot.begin)
            touched[-1][spot.root] = max(touched[-1][spot.root], size)
    return {
        id(call): [
            _distance(touched, n, place_of[o.name].root, 1 if o.access.writes else -1)
            for o in call.operands
        ]
        for n, call in enumerate(calls)
    }


def _distance(touched: Sequence[dict[str, int]], start: int, root: str, step: int) -> int:
    """Returns the bytes of the calls from ``start`` on, forwards or backwards, up to one with
    ``root``.
    """
    seen = dict(touched[start])
    for n in range(1, len(touched) + 1):
        other = touched[(start + step * n) % len(touched)]
        for name, size in other.items():
            seen[name] = max(seen.get(name, 0), size)
        if root in other:
            break
    return sum(seen.values())


def bound_text(kernel: Timed, threads: int) -> str:
    """Returns what bounds a kernel, and its number of threads if it does not run on all."""
    what = kernel.bound if kernel.bound == COMPUTE else kernel.bound.upper()
    return what if kernel.roof.threads == threads else f"{what} of one thread"

"""Explains a program kernel by kernel: its time, what the machine allows, and its schedule.

::

    profile: times and work of each kernel call -> by kernel, with schedules -> Explanation
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..autotune.ranges import Point, fitted, point_of, specialised, typical_point
from ..autotune.selection.select import Chosen, Origin
from ..autotune.space.space import ScheduleSpace
from ..autotune.space.tiling import UNUSED
from ..codegen.lower.lowering import lowered
from ..codegen.machine import MachineModel
from ..codegen.roofline import LEVELS, Roof
from ..driver.built import Built, Parts
from ..driver.pipeline import build
from ..ir.dataclass import dataclass
from ..ir.dims import substitute
from ..ir.dtype import Array
from ..ir.graph.passes.round_factors import rounding_text
from ..ir.loop.prim import PrimFunc
from ..ir.program.analysis import calls as calls_of
from ..ir.schedule.cases import Cases, on_one_thread
from ..ir.schedule.steps import Schedule
from ..text import bytes_text, rate_text, seconds_text, table
from .hottest import hottest_loop
from .kernel_calls import KernelCall, LoopTime, Timed, bound_text
from .notebook import folded_html, table_html, text_html
from .profile import profile

FAR_BELOW = 0.6
"""Share of its roof below which a kernel gets a remark."""


@dataclass(frozen=True, slots=True)
class Explained(Timed):
    """One kernel: the work of its first call stands for that of each.

    ``source`` says where the schedule came from, ``choices`` what it is made of, ``nest`` is the
    loop nest it gives, in vectors, and ``hottest`` its hottest loop. ``cases`` says which schedule
    a kernel with symbolic sizes has where.
    """

    source: str
    sketch: str
    choices: Mapping[str, int]
    nest: str
    cases: tuple[str, ...] = ()
    hottest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """All kernels in the order of their first call, and the seconds ``between`` them in a call;
    ``loops`` are those of the program, which are around both. ``captured`` says of the
    user's loops which are native, and why long ones were unrolled; ``rounded`` says how many
    products are of factors in bfloat16, and how far results are from those without.

    ``str`` is a table of the kernels, their schedules, and remarks.
    """

    kernels: tuple[Explained, ...]
    between: float
    machine: MachineModel
    threads: int
    name: str = ""
    loops: tuple[LoopTime, ...] = ()
    captured: tuple[str, ...] = ()
    rounded: str = ""

    def __str__(self) -> str:
        return explanation_text(self.name, self)

    def __repr__(self) -> str:
        return "\n".join([*_head(self.name, self), "", table(*_kernel_table(self), left=_LEFT)])

    def _repr_html_(self) -> str:
        title, *about = _head(self.name, self)
        notes = (" ".join(line.split()) for line in (*about, *_remarks(self)))
        shares = [kernel.seconds / self.in_kernels for kernel in self.kernels]
        page = table_html(title, *_kernel_table(self), left=_LEFT, notes=[*notes], shares=shares)
        schedules = text_html("\n".join(_schedules(self)))
        return page + folded_html("schedules", schedules)

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
    captured: tuple[str, ...] = (),
) -> Explanation:
    """Runs ``built`` on ``arrays`` for about ``seconds``, and compares each kernel with its roof.

    ``name`` is what the text calls the program, ``captured`` is said of the user's loops. Times are
    the best of all runs, since whatever
    disturbs them only makes them longer.
    """
    measured = profile(built, arrays, machine, seconds, name)
    parts = built.parts
    assert parts is not None
    by_kernel: dict[str, list[KernelCall]] = {}
    for call in measured.calls:
        if call.calls:
            by_kernel.setdefault(call.name, []).append(call)
    kernels = tuple(_explained(parts, k, built.chosen[k], by_kernel[k]) for k in by_kernel)
    between, threads = measured.between, parts.threads
    rounded = _rounded(built, arrays)
    return Explanation(kernels, between, machine, threads, name, measured.loops, captured, rounded)


def _rounded(built: Built, arrays: Sequence[Array]) -> str:
    """Returns a line on factors in bfloat16, with the results on ``arrays`` compared with those of
    the same program in float32; empty for programs without."""
    source = built.source
    if source is None or not source.preferences.rounds_factors:
        return ""
    text = rounding_text(source.lowered)
    if not source.whole:
        return text
    exact = build(source.module, target=source.target, log=source.log, threads=source.threads)
    pairs = zip(*(each.call([a.copy() for a in arrays]) for each in (built, exact)), strict=True)
    errors = [_error(result, right) for result, right in pairs if right.dtype.kind == "f"]
    return f"{text}: off by {max(errors, default=0.0):.2g} of the largest result in float32"


def _error(result: Array, right: Array) -> float:
    """Returns the largest difference over the largest of the right values that are finite."""
    finite = np.isfinite(right) & np.isfinite(result)
    largest = np.abs(right[finite]).max(initial=np.finfo(np.float32).tiny)
    return float(np.abs(result[finite].astype(np.float64) - right[finite]).max(initial=0) / largest)


def _explained(parts: Parts, name: str, chosen: Chosen, calls: Sequence[KernelCall]) -> Explained:
    prim, schedule = parts.prims[name], chosen.schedule
    nest = lowered(parts.kernels[name].nest, parts.target)
    return Explained(
        name=name,
        calls=sum(call.calls for call in calls),
        seconds=sum(call.seconds for call in calls),
        work=calls[0].work,
        roof=calls[0].roof,
        source=_source(chosen),
        sketch=chosen.sketch,
        choices={} if isinstance(schedule, Cases) else _choices(prim, parts, schedule),
        nest=str(nest),
        hottest=tuple(hottest_loop(nest)),
        cases=tuple(_cases(parts, name, chosen)) if prim.sizes else (),
    )


def _cases(parts: Parts, name: str, chosen: Chosen) -> Iterator[str]:
    """Yields the decision of a kernel with symbolic sizes, a line for each interval, and what was
    measured at which sizes."""
    prim = parts.prims[name]
    call = next(c for c in calls_of(parts.program) if c.kernel == name)
    sizes = {s.name: value for s, value in zip(prim.sizes, call.sizes, strict=True)}
    if isinstance(chosen.schedule, Cases):
        size = substitute(chosen.schedule.size, sizes)
        last = chosen.schedule.otherwise
        for interval in chosen.schedule.intervals():
            schedule = interval.schedule
            what = _knobs(prim, parts, schedule, point_of(prim, interval.high))
            if schedule != last and schedule == on_one_thread(last):
                what = "as below, on one thread"
            ends = f"{size} = {interval.low}"
            if interval.low < interval.high:
                ends = f"{size} in {interval.low}..{interval.high}"
            yield f"{ends}: {what}"
    if chosen.measured:
        expr = ", ".join(map(str, sizes.values()))
        times = (f"{seconds_text(t)} at {', '.join(map(str, at))}" for at, t in chosen.measured)
        yield f"measured by {expr}: {'; '.join(times)}"


def _knobs(prim: PrimFunc, parts: Parts, schedule: Schedule, point: Point) -> str:
    """Returns the choices of a schedule at a point, or the number of its steps where the rules
    cannot make it."""
    there = specialised(prim, point)
    choices = _choices(there, parts, fitted(schedule, there))
    return ", ".join(f"{n} {v}" for n, v in choices.items()) or f"{len(schedule.steps)} steps"


def _source(chosen: Chosen) -> str:
    if chosen.origin == Origin.RULES and (chosen.passed or chosen.refused):
        return f"by the rules; {', '.join((*chosen.refused, *chosen.passed))}"
    if chosen.origin == Origin.RULES:
        return "by the rules, the logs have nothing like it"
    if chosen.origin == Origin.GIVEN:
        return "the one that the kernel was written with"
    if chosen.origin == Origin.EXACT:
        return f"from the log, measured {chosen.seconds * 1e3:.3g} ms"
    return f"fitted from the log's {chosen.source}, {chosen.gain:.2f}x the default's speed"


def _choices(prim: PrimFunc, parts: Parts, schedule: Schedule) -> dict[str, int]:
    """Returns the knobs that the schedule uses; none if the rules cannot make it."""
    if not schedule.steps:
        return {}
    if prim.sizes:
        prim = specialised(prim, typical_point(prim))
        schedule = fitted(schedule, prim)
    space = ScheduleSpace(prim, parts.target)
    row = space.row_of(schedule)
    if row is None:
        return {}
    return {k: v for k, v in space.choices(row).items() if v != UNUSED.get(k)}


def explanation_text(name: str, explanation: Explanation, *, loops: bool = False) -> str:
    """Returns the explanation as text: the machine, a table of kernels, schedules, remarks."""
    parts = [
        "\n".join(_head(name, explanation)),
        table(*_kernel_table(explanation), left=_LEFT),
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
    for loop in explanation.loops:
        yield str(loop)
    yield from explanation.captured
    if explanation.rounded:
        yield f"bf16       {explanation.rounded}"


_LEFT = (0, 8)
"""Columns of the table that are texts."""


def _kernel_table(explanation: Explanation) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns the head and the rows of the table of kernels."""
    head = ("kernel", "time", "share", "flops", *(n.upper() for n in LEVELS))
    head += ("bound by", "allows", "reached")
    rows = [
        (
            kernel.name + (f" x{kernel.calls:,}" if kernel.calls > 1 else ""),
            seconds_text(kernel.seconds),
            f"{kernel.seconds / explanation.in_kernels:.0%}",
            _count(kernel.work.flops * kernel.calls),
            *(_bytes(kernel.work.traffic[n].total * kernel.calls) for n in LEVELS),
            bound_text(kernel, explanation.threads),
            seconds_text(kernel.limit),
            f"{kernel.share:.0%}" if kernel.share == kernel.share else "-",
        )
        for kernel in explanation.kernels
    ]
    return head, rows


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
        yield from (f"    {line}" for line in (*kernel.cases, *kernel.hottest))


def _remarks(explanation: Explanation) -> Iterator[str]:
    """Yields remarks on where most of the time could be saved, and how."""
    if explanation.between > 0.2 * explanation.seconds:
        inside = ", most of them by code of the loops themselves" if explanation.loops else ""
        yield f"{seconds_text(explanation.between)} of a call are spent between the kernels{inside}"
    for kernel in sorted(explanation.kernels, key=lambda k: k.limit - k.seconds):
        lost = kernel.seconds - kernel.limit
        if not kernel.share < FAR_BELOW or lost < 0.1 * explanation.in_kernels:
            continue
        advice = "tuning may find better" if "measured" not in kernel.source else "it was tuned"
        yield (f"{kernel.name} takes {seconds_text(lost)} more than its roof allows; {advice}")

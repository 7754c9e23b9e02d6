"""The nests of a kernel with a schedule for each range of a size, without code that is there twice.

::

    n <= 1: A          =>   @k.0    A for n = 1, whose code has no size
    n <= 40: B              @k.1    C for n in 2..4096, called with serial = (n <= 40)
    otherwise: C

where B is C without its parallel loops.
"""

from __future__ import annotations

from ..ir.dataclass import dataclass
from ..ir.dims import Dim, IntExpr, Symbol, size
from ..ir.errors import ScheduleError
from ..ir.loop.nest import Nest
from ..ir.loop.prim import PrimFunc
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.cases import Cases, on_one_thread
from ..ir.schedule.steps import Schedule


@dataclass(frozen=True, slots=True)
class Variant:
    """A nest of a PrimFunc whose size has a narrower range. ``switched``: some calls run its
    parallel loops on the calling thread."""

    prim: PrimFunc
    nest: Nest
    switched: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The variant, by number, for sizes up to ``at_most``."""

    at_most: int
    variant: int
    serial: bool


def variants_of(prim: PrimFunc, cases: Cases) -> tuple[list[Variant], list[Choice]]:
    """Returns the variants, and the choices in ascending order, the last of which has no limit.

    Raises ScheduleError if a schedule is illegal, or packs operands in another way than others.
    """
    intervals = list(cases.intervals())
    schedules = {interval.schedule for interval in intervals}
    shared = {on_one_thread(s): s for s in schedules if on_one_thread(s) != s}
    ends: dict[Schedule, tuple[int, int]] = {}  # the sizes for which a nest is used
    for interval in intervals:
        schedule = shared.get(interval.schedule, interval.schedule)
        low, _ = ends.get(schedule, (interval.low, 0))
        ends[schedule] = low, interval.high
    order = list(ends)
    choices = [
        Choice(i.high, order.index(shared.get(i.schedule, i.schedule)), i.schedule in shared)
        for i in intervals
    ]
    variants: list[Variant] = []
    for number, (schedule, (low, high)) in enumerate(ends.items()):
        narrowed = _narrowed(prim, cases.size, low, high)
        switched = any(c.serial for c in choices if c.variant == number)
        variants.append(Variant(narrowed, apply_schedule(narrowed, schedule), switched))
    layouts = {tuple(o.pack and o.pack.layout for o in v.nest.operands) for v in variants}
    if len(layouts) > 1:
        raise ScheduleError("the schedules for a range of sizes pack operands in different ways")
    return variants, choices


def _narrowed(prim: PrimFunc, expr: IntExpr, low: int, high: int) -> PrimFunc:
    """Returns the PrimFunc for values of a size in a range."""
    atoms = expr.terms[0][0] if isinstance(expr, Dim) and len(expr.terms) == 1 else ()
    if len(atoms) != 1 or not isinstance(atoms[0], Symbol) or expr != Dim(((atoms, 1),)):
        return prim
    name = atoms[0].name
    return prim.at({name: low if low == high else size(name, low, high)})

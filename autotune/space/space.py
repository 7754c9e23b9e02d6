"""The search space of a PrimFunc: variants (what is inlined, which sketch), and knobs as arrays.

A row of a population is ``[variant, knob, knob, ...]``; a knob's entry is an index into the table
of values its variant offers. Sampling, mutation and validity are whole-array functions;
only a row that is measured becomes a Schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, combinations, product
from math import inf, prod

import numpy as np
import numpy.typing as npt

from ...codegen.limits import check_limits, check_private_buffers
from ...codegen.target import Target
from ...ir.dims import as_int, symbols
from ...ir.errors import ScheduleError
from ...ir.loop.expr import Op, Read, walk
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.loop.procedure import Procedure
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.loop.work import prim_bytes, stage_points
from ...ir.schedule.apply import apply_schedule, completed
from ...ir.schedule.schedule import Preparation
from ...ir.schedule.steps import Schedule, Step, compute_inline, own_axis, split_reduction, state_of
from ..protocols import BoolArray, Knob, Population
from ..ranges import fitted, specialised, typical_point
from .analysis import Group, groups_of
from .estimate import least_cycles
from .features import space_features
from .loop_arrays import LoopArrays, loop_arrays
from .rules import (
    SPECIAL,
    chain_sketches,
    grouped_sketches,
    procedure_sketch,
    sketches_of,
    user_sketches,
)
from .rules.window import is_windowed
from .settings import SPACE
from .sketch import AnySketch
from .tiling import Choices, Values
from .variant import Variant, transposed_layouts


class ScheduleSpace:
    """All schedules offered for one PrimFunc on one target; see ``SearchSpace`` for the methods."""

    def __init__(
        self,
        prim: PrimFunc,
        target: Target,
        threads: int | None = None,
        variants: Sequence[Variant] | None = None,
    ) -> None:
        """With these ``variants`` alone (all); ``threads`` are to run it (all cores)."""
        self.threads = threads or target.cores
        self.prim, self.target = prim, target.with_threads(self.threads)
        self.variants = tuple(_variants(prim, self.target) if variants is None else variants)
        self.names = tuple(dict.fromkeys(name for v in self.variants for name in v.tables))
        self.sizes = np.array(
            [[len(v.tables.get(name, (0,))) for name in self.names] for v in self.variants],
            np.int32,
        ).reshape(len(self.variants), len(self.names))
        widest = self.sizes.max(axis=0, initial=1)
        self._knobs = (
            Knob("variant", max(1, len(self.variants))),
            *(Knob(name, int(size)) for name, size in zip(self.names, widest)),
        )

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return self._knobs

    # -- populations ---------------------------------------------------------------------------

    def values(self, rows: Population, number: int) -> Values:
        """int64[n] for every knob of a variant: what the entries of its ``rows`` stand for."""
        return {
            name: table[np.minimum(rows[:, self.names.index(name) + 1], len(table) - 1)]
            for name, table in self.variants[number].tables.items()
        }

    def sample(self, n: int, rng: np.random.Generator) -> Population:
        if not self.variants:
            return np.empty((0, len(self._knobs)), np.int32)
        valid = np.empty((0, len(self._knobs)), np.int32)
        for _ in range(8):
            rows = np.empty((2 * n, len(self._knobs)), np.int32)
            rows[:, 0] = rng.integers(0, len(self.variants), 2 * n)
            sizes = self.sizes[rows[:, 0]]
            rows[:, 1:] = (rng.random(sizes.shape) * sizes).astype(np.int32)
            valid = np.concatenate([valid, rows[self.valid(rows)]])
            if len(valid) >= n:
                break
        return valid[:n]

    def mutate(self, rows: Population, rng: np.random.Generator) -> Population:
        """Each row with one or two knobs moved, a step or anywhere; rarely another variant."""
        new = rows.copy()
        count = len(rows)
        for _ in range(2):
            column = rng.integers(1, len(self._knobs), count)
            sizes = self.sizes[new[:, 0], column - 1]
            near = new[np.arange(count), column] + rng.choice([-1, 1], count)
            far = (rng.random(count) * sizes).astype(np.int32)
            value = np.where(rng.random(count) < 0.6, near, far)
            apply = rng.random(count) < (1.0 if _ == 0 else 0.4)
            value = np.clip(value, 0, sizes - 1)
            new[apply, column[apply]] = value[apply]
        if len(self.variants) > 1:
            other = rng.random(count) < 0.05
            new[other, 0] = rng.integers(0, len(self.variants), int(other.sum()))
            new[:, 1:] = np.minimum(new[:, 1:], self.sizes[new[:, 0]] - 1)
        good = self.valid(new)
        new[~good] = rows[~good]
        return new

    def valid(self, rows: Population) -> BoolArray:
        rows = np.asarray(rows)
        good = (rows[:, 0] >= 0) & (rows[:, 0] < len(self.variants))
        if not self.variants:
            return good
        safe = np.where(good, rows[:, 0], 0)
        good &= ((rows[:, 1:] >= 0) & (rows[:, 1:] < self.sizes[safe])).all(axis=1)
        for number, variant in enumerate(self.variants):
            mine = good & (rows[:, 0] == number)
            if mine.any():
                good[mine] = variant.sketch.fits(self.values(rows[mine], number))
        return good

    def default(self) -> Population:
        return self._default

    @cached_property
    def _default(self) -> Population:
        rows = [
            self._row(number, choices)
            for number, variant in enumerate(self.variants)
            for choices in variant.defaults[: SPACE.defaults if number == 0 else 1]
        ]
        population = np.array(rows, np.int32).reshape(-1, len(self._knobs))
        return population[self.valid(population)] if len(population) else population

    # -- schedules -----------------------------------------------------------------------------

    def choices(self, row: npt.NDArray[np.int32]) -> Choices:
        """The value of every knob of a row."""
        knobs = self.variants[int(row[0])].sketch.knobs
        entries = dict(zip(self.names, row[1:].tolist()))
        return {name: table[entries[name]] for name, table in knobs.items()}

    def sketch_name(self, row: npt.NDArray[np.int32]) -> str:
        return self.variants[int(row[0])].name

    def schedule(self, row: npt.NDArray[np.int32]) -> Schedule:
        return self.variants[int(row[0])].schedule(self.choices(row))

    def _row(self, variant: int, choices: Choices) -> list[int]:
        """The row with the values nearest to ``choices``."""
        row = [variant] + [0] * len(self.names)
        for name, table in self.variants[variant].tables.items():
            wanted = np.log2(max(choices[name], 0.5))
            away = np.abs(np.log2(np.maximum(table, 0.5)) - wanted)
            row[self.names.index(name) + 1] = int(np.argmin(away))
        return row

    def with_choice(
        self, row: npt.NDArray[np.int32], knob: str, value: int
    ) -> npt.NDArray[np.int32] | None:
        """The row with another value of a knob, the nearest there is; None if it is not valid."""
        changed = np.array([self._row(int(row[0]), {**self.choices(row), knob: value})], np.int32)
        return changed[0] if self.valid(changed)[0] else None

    def row_of(self, schedule: Schedule) -> npt.NDArray[np.int32] | None:
        complete: Schedule | None = None  # with steps that records of older versions left out
        for number, variant in enumerate(self.variants):
            if schedule.steps[: len(variant.prepare)] != variant.prepare:
                continue
            choices = variant.sketch.read(schedule)
            if choices is None:
                continue
            # A value may stand for a near one: 584 steps in 32 parts are 31 of 19.
            row = np.array(self._row(number, choices), np.int32)
            built = self.schedule(row)
            if built == schedule:
                return row
            try:
                complete = complete or completed(self.prim, schedule)
            except ScheduleError:
                return None
            if built == complete:
                return row
        return None

    def refit(self, schedule: Schedule, lanes: float = 1.0) -> npt.NDArray[np.int32] | None:
        """Returns the row closest to a schedule of the same kind of workload at other sizes, whose
        canonical names are the same, and whose vectors have ``lanes`` times as many elements: with
        fewer registers, where there are not so many."""
        wanted = _preparation(schedule)
        for number, variant in enumerate(self.variants):
            if _preparation(Schedule(variant.prepare)) != wanted:
                continue
            choices = variant.sketch.read(schedule)
            if choices is None:
                continue
            if "vectors" in choices:
                choices = {**choices, "vectors": max(1, round(choices["vectors"] / lanes))}
            for fewer in _with_fewer_registers(choices):
                smaller = {**fewer, "cache_vectors": 1, "cache_rows": 1, "k_blocks": 1}
                fitted = np.array([self._row(number, c) for c in (fewer, smaller)], np.int32)
                for row in fitted[self.valid(fitted)]:
                    return row
        return None

    def loops(self, rows: Population) -> Iterator[LoopArrays]:
        """Yields the loops of all rows, those of one variant together."""
        for number in sorted(set(rows[:, 0].tolist())):  # np.unique would import numpy.ma
            mine, variant = np.flatnonzero(rows[:, 0] == number), self.variants[number]
            paths = variant.steps(self.values(rows[mine], number), len(mine))
            yield from loop_arrays(self.prim, ((mine[members], steps) for members, steps in paths))

    def features(self, rows: Population) -> npt.NDArray[np.float32]:
        return space_features(self, rows)


def _with_fewer_registers(choices: Choices) -> Iterator[Choices]:
    """Yields choices with ever smaller tiles, these first; of equal ones that with more rows."""
    names = [name for name in ("vectors", "rows", "second_rows") if name in choices]
    halved = [[choices[name] >> n for n in range(choices[name].bit_length())] for name in names]
    for values in sorted(product(*halved), key=lambda tile: (-prod(tile), tile)):
        yield {**choices, **dict(zip(names, values))}


def _preparation(schedule: Schedule) -> list[tuple[object, ...]]:
    """The steps that make a variant, without the sizes in them."""
    return [
        (s.name, *(a for a in s.args if not isinstance(a, int)))
        for s in schedule.steps
        if isinstance(s.primitive, Preparation)
    ]


def _variants(prim: PrimFunc, target: Target) -> Iterator[Variant]:
    """Yields the variants of the built-in rules, most promising first, then of users' rules."""
    if isinstance(prim, Procedure):
        sketch = procedure_sketch(prim, target)
        yield Variant(sketch.name, (), sketch)
    else:
        yield from _built_in(prim, target)
    for sketch in user_sketches(prim, target):
        variant = _working(prim, Variant(sketch.name, (), sketch), target)
        if variant is not None:
            yield variant


def _built_in(prim: PrimFunc, target: Target) -> Iterator[Variant]:
    """Yields a variant for every choice of inlined stages and every sketch of the main group."""
    chained = False
    for prepare, sketch in chain(chain_sketches(prim, target), grouped_sketches(prim, target)):
        variant = _working(prim, Variant(_name(sketch, prepare), prepare, sketch), target)
        if variant is not None:
            chained = True
            yield variant
    if chained:
        return
    variants = _prepared_variants(prim, target)
    transposed = transposed_layouts(prim)
    first = next(variants, None)
    if first is not None and not transposed and _is_good(prim, target, first):
        yield first
        yield from variants
        return
    # Stages that share loops may not be best together: a change of layout in front of a convolution
    # is read anew for each of its taps. Which order is best depends on how wide groups are.
    every = [] if first is None else [first, *variants]
    before = transposed or _apart(prim)
    every += _prepared_variants(prim, target, before) if before else ()
    lead = 1.0 if transposed or first is None else SPACE.clearly
    if first is None or min(v.cycles for v in every) * lead < first.cycles:
        every.sort(key=lambda v: v.cycles)
    yield from every[: SPACE.max_variants]


def _is_good(prim: PrimFunc, target: Target, first: Variant) -> bool:
    """True if the estimate of a variant is not far from the least cycles, or if there is no other
    way."""
    if len(prim.stages) == 1 or isinstance(first.sketch, SPECIAL):
        return True
    element_bytes = groups_of(prim)[0].element_bytes
    least = least_cycles(prim.stages, prim_bytes(prim), element_bytes, target)
    return first.cycles <= SPACE.doubtful * least


def _apart(prim: PrimFunc) -> tuple[Step, ...]:
    """Steps that give every stage loops of its own, for stages that no rule can do together: each
    is then done well by itself, and what is between them goes through memory."""
    steps: list[Step] = []
    taken: set[str] = set()
    for stage in prim.stages:
        steps += [own_axis(stage.name, a.name) for a in stage.axes if a.name in taken]
        taken |= {a.name for a in stage.axes}
    return tuple(steps)


def _prepared_variants(
    prim: PrimFunc, target: Target, before: tuple[Step, ...] = ()
) -> Iterator[Variant]:
    made: list[Variant] = []
    for prepare, prepared in _preparations(prim, target, before):
        groups = groups_of(prepared)
        main = max(groups, key=lambda g: g.flops)
        if any(_too_large(g) for g in groups):
            continue
        firsts = [next(sketches_of(g, target), None) for g in groups if g is not main]
        others = tuple(sketch for sketch in firsts if sketch is not None)
        for sketch in sketches_of(main, target):
            variant = Variant(_name(sketch, prepare), prepare, sketch, others)
            if made and SPACE.hopeless * min(v.cycles for v in made) < variant.cycles < inf:
                continue
            working = _working(prim, variant, target)
            if working is not None:
                yield working
                made.append(working)
                if len(made) == SPACE.max_variants:
                    return


def _name(sketch: AnySketch, prepare: tuple[Step, ...]) -> str:
    kept = ("layout", "cache_read", "own_axis")
    names = [str(s.args[0]) for s in prepare if s.name not in kept]
    return f"{sketch.name}({','.join(names)})"


def _working(prim: PrimFunc, variant: Variant, target: Target) -> Variant | None:
    """Returns a variant whose first default is legal, the least choices if no other is; None if
    none is.

    An estimate may choose what a primitive refuses. A kernel that lost all its variants to that
    would run as plain loops, which is a hundred times slower.
    """
    offers = list(variant.defaults)
    if variant.tiling is not None:
        offers.append(variant.tiling.base_choices())
    for place, choices in enumerate(offers):
        if is_legal(prim, variant.schedule(choices), target):
            return variant if place == 0 else replace(variant, offers=tuple(offers[place:]))
    return None


def is_legal(prim: PrimFunc, schedule: Schedule, target: Target) -> bool:
    """True if a schedule applies, and its nest stays within what a kernel may have."""
    try:
        nest = apply_schedule(prim, schedule)
        check_private_buffers(nest, target)
        check_limits(prim, nest, target)
    except ScheduleError:
        return False
    return True


def _too_large(group: Group) -> bool:
    """True if a stage would keep too long a row between it and its readers."""
    if len(group.stages) == 1 or not group.shared:
        return False
    for stage in group.stages[:-1]:
        if stage.combiner is not None or stage.name in group.prim.outputs:
            continue
        private = [as_int(a.extent) for a in stage.axes if a.name not in group.shared]
        size = stage.buffer.dtype.bytes
        for extent in private:
            size *= extent
        if size > SPACE.max_stack_row:
            return True
    return False


def _preparations(
    prim: PrimFunc, target: Target, before: tuple[Step, ...] = ()
) -> Iterator[tuple[tuple[Step, ...], PrimFunc]]:
    """Yields the preparing steps, and the PrimFunc they make: which maps are inlined, and into how
    many parts a long reduction is cut for the threads. Maps that ``before`` lays out anew stay."""
    pieces = _pieces(prim, target)
    maps = [s.name for s in prim.stages if s.combiner is None and s.name not in prim.outputs]
    subsets: list[tuple[str, ...]] = [(), tuple(maps)] if maps else [()]
    if maps and is_windowed(prim):
        subsets = [tuple(maps), ()]  # each element is read a few times: no copy pays
    elif 1 < len(maps) <= SPACE.max_inlined:
        subsets = list(chain.from_iterable(combinations(maps, n) for n in range(len(maps) + 1)))
    cheap = tuple(s.name for s in prim.stages if s.name in maps and _is_cheap(prim, s))
    first = cheap or subsets[0]
    subsets.sort(key=lambda subset: subset != first)
    laid_out = {step.args[0] for step in before}
    for cut in pieces:
        for subset in subsets:
            if laid_out & set(subset):
                continue
            steps = (*before, *cut, *(compute_inline(name) for name in subset))
            try:
                yield steps, state_of(prim, Schedule(steps)).prim
            except ScheduleError:
                continue


def _is_cheap(prim: PrimFunc, stage: Stage) -> bool:
    """True if computing a map where it is read takes no longer than storing and loading it: one
    operation along a row, each element of which every reader reads once."""
    row = {a.name for a in stage.axes[-1:]}
    reads = {s.name: [n for n in walk(s.expr) if isinstance(n, Read)] for s in prim.stages}
    walked = {r for r in reads[stage.name] if any(row & symbols(i) for i in r.plain_indices)}
    moving = [n for n in walk(stage.expr) if not walked.isdisjoint(walk(n))]
    readers = [s for s in prim.stages if any(r.buffer == stage.name for r in reads[s.name])]
    return (
        len(moving) <= 2
        and all(n.name == "cast" or SCALAR_OPS[n.name].cost <= 1 for n in moving if type(n) is Op)
        and all(stage_points(s) == stage_points(stage) for s in readers)
    )


def _pieces(prim: PrimFunc, target: Target) -> list[tuple[Step, ...]]:
    """The cuts of long reductions, and none: first what is best without measuring.

    A reduction with a few outputs for every core needs no cut to keep the threads busy, and the
    pieces would only have to be joined.
    """
    cuts: list[tuple[Step, ...]] = []
    needed = False
    for stage in prim.stages:
        outputs = as_int(stage.buffer.size)
        long = max(stage.reduce_axes, key=lambda a: as_int(a.extent), default=None)
        if long is None or outputs > SPACE.few_outputs or target.sums:
            continue
        extent = as_int(long.extent)
        total = outputs * extent
        for parts in (n * target.cores for n in SPACE.parts_per_core):
            if total // parts >= SPACE.min_part and extent >= 2 * parts:
                exact = next((p for p in range(parts, parts // 2, -1) if extent % p == 0), parts)
                step = split_reduction(stage.name, long.name, exact)
                needed |= outputs < SPACE.outputs_per_core * target.cores
                if (step,) not in cuts:
                    cuts.append((step,))
    return [*cuts[:1], (), *cuts[1:]] if needed and target.cores > 1 else [(), *cuts]


def default_schedule(prim: PrimFunc, target: Target) -> tuple[Schedule, str]:
    """Returns the default schedule of a PrimFunc and its sketch (else the plain nest)."""
    schedule, variant = default_variant(prim, target)
    return schedule, variant.name if variant is not None else "plain"


def default_variant(
    prim: PrimFunc, target: Target, refused: Collection[Schedule] = ()
) -> tuple[Schedule, Variant | None]:
    """Returns the first default schedule that is not ``refused``, and its variant;
    the plain nest and None where there is none.

    Of a PrimFunc with symbolic sizes it is that of the typical ones.
    """
    offers = ((s, v) for s, v, _ in default_choices(prim, target) if s not in refused)
    return next(offers, (plain_schedule(prim, target), None))


def plain_schedule(prim: PrimFunc, target: Target) -> Schedule:
    """Returns the plain nest."""
    return target.sums.plain_schedule(prim) if target.sums else Schedule()


def default_choices(prim: PrimFunc, target: Target) -> Iterator[tuple[Schedule, Variant, Choices]]:
    """Yields the default schedules of a PrimFunc, the best first, each with what makes it."""
    typical = specialised(prim, typical_point(prim))
    for variant in _variants(typical, target):  # the first choices of each were checked
        for place, choices in enumerate(variant.defaults):
            offers = [choices]
            if typical is not prim and choices.get("pack"):
                offers.append({**choices, "pack": 0})  # panels are of bounded sizes alone
            for offer in offers:
                schedule = variant.schedule(offer)
                if typical is not prim:
                    schedule = fitted(schedule, prim)
                if (place == 0 and typical is prim) or is_legal(prim, schedule, target):
                    yield schedule, variant, offer
                    break

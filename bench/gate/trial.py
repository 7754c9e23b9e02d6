"""Mutants and right candidates on their way through the processes that measure, counted."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from loopwright.autotune.measure.kernels import TOOLCHAIN, task_of
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.measure.toolchain import Toolchain
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.settings import DEFAULT_SETTINGS, TuneSettings
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.autotune.task import Task
from loopwright.autotune.workload import as_lists
from loopwright.codegen.kernel import Kernel, emit_kernel, prepare_operands
from loopwright.codegen.objects import object_code
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.nest import Nest
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule

from .judge import is_right, never_meet
from .mutants import KINDS, mutate

__all__ = [
    "MUTANTS",
    "MutantTrial",
    "RightTrial",
    "is_same_code",
    "try_mutants",
    "try_right_ones",
]

THREADS = 2
"""Mutants run on two threads, so that a race is one."""
SETTINGS = replace(DEFAULT_SETTINGS, measure_seconds=0.002, least_timeout=2.0, first_timeout=20.0)
NOT_BUILT = ("schedule_error", "build_error")
_BATCH = 40


@dataclass
class MutantTrial:
    """Outcomes of mutants. ``refused`` counts by kind, ``words`` by the error's word.

    ``harmless`` ones compute the right result after all, ``survivors`` do not and were accepted.
    """

    refused: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    harmless: int = 0
    survivors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def count(self) -> int:
        return self.refused.total() + len(self.survivors)

    def __str__(self) -> str:
        lines = [f"{self.refused.total()} of {self.count} mutated kernels refused"]
        lines += [f"  {kind:<20} {self.refused[kind]:4d} refused" for kind in KINDS]
        lines.append("  by: " + ", ".join(f"{w} {n}" for w, n in self.words.most_common()))
        lines.append(f"  {self.harmless} more compute the right result after all: not counted")
        lines += [f"  ACCEPTED {text}" for text in self.survivors]
        return "\n".join([*lines, f"  {self.seconds:.0f} s"])


@dataclass
class RightTrial:
    """Outcomes of right candidates: how many were accepted, and the records of the others."""

    accepted: int = 0
    refused: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def count(self) -> int:
        return self.accepted + len(self.refused)

    def __str__(self) -> str:
        lines = [f"{self.accepted} of {self.count} right candidates accepted"]
        lines += [f"  REFUSED {text}" for text in self.refused]
        return "\n".join([*lines, f"  {self.seconds:.0f} s"])


# -- mutants as candidates -------------------------------------------------------------------------


def _mutant_nest(prim: PrimFunc, data: Any) -> tuple[Nest, str]:
    """The nest of a candidate ``[["mutant", kind, seed], step, ...]``."""
    (_, kind, seed), *steps = as_lists(data)  # type: ignore[misc]
    nest = apply_schedule(prim, Schedule.from_json(steps))
    found = mutate(nest, kind, seed)
    if found is None:
        raise ScheduleError(f"nothing here for a {kind}")
    return found


def _compile(prim: PrimFunc, data: Any, target: Target, name: str) -> Kernel:
    return emit_kernel(_mutant_nest(prim, data)[0], target, name)


def _prepare(kernel: Any, inputs: Any) -> list[np.ndarray[Any, Any]]:
    return prepare_operands(kernel, inputs)


MUTANTS = Toolchain(_compile, _prepare)


def try_mutants(
    prims: Sequence[PrimFunc],
    counts: dict[str, int],
    seed: int = 0,
    settings: TuneSettings = SETTINGS,
) -> MutantTrial:
    """Try so many mutants of each kind, harmless ones and those that do not build not counted."""
    begun = time.monotonic()
    trial = MutantTrial()
    done: Counter[str] = Counter()
    rng = random.Random(seed)
    with ExitStack() as stack:
        workers = stack.enter_context(Workers(THREADS, settings))
        turns = list(prims)
        rng.shuffle(turns)
        while turns and any(done[kind] < counts[kind] for kind in counts):
            prim = turns.pop(0)
            turns.append(prim)
            task = _task(prim, THREADS)
            wanted = [kind for kind in counts if done[kind] < counts[kind]]
            candidates = _mutants_of(task, wanted, rng)
            with NativeMeasurer(task, MUTANTS, settings, seed, workers) as measurer:
                for index, record in measurer.measure(candidates):
                    _count(trial, done, prim, candidates[index], record)
    trial.seconds = time.monotonic() - begun
    return trial


def _mutants_of(task: Task, kinds: Sequence[str], rng: random.Random) -> list[Candidate]:
    """One mutant of each kind for a kernel, as far as it has a place for it."""
    space = task.space
    rows = space.sample(8, np.random.default_rng(rng.randrange(1 << 30)))
    found: list[Candidate] = []
    for kind in kinds:
        for row in rng.sample(list(rows), len(rows)):
            data = (("mutant", kind, rng.randrange(1 << 30)), *space.schedule(row).to_json())
            try:
                _mutant_nest(task.prim, data)
            except ScheduleError:
                continue
            found.append(Candidate(data, "mutant/1"))
            break
    return found


def _count(
    trial: MutantTrial,
    done: Counter[str],
    prim: PrimFunc,
    candidate: Candidate,
    record: MeasureRecord,
) -> None:
    kind = candidate.schedule[0][1]
    if record.error in NOT_BUILT or record.detail == "while building":
        return
    if record.error is not None:
        trial.refused[kind] += 1
        trial.words[record.error] += 1
        done[kind] += 1
        return
    nest, where = _mutant_nest(prim, candidate.schedule)
    if kind == "race":  # the interpreter knows no threads, but some loops are never shared out
        kernel = _compile(prim, candidate.schedule, Target.host(), "candidate")
        harmless = not kernel.parallel or ("shared" not in where and never_meet(prim, nest))
    else:
        harmless = is_right(prim, nest, apply_schedule(prim, _schedule(candidate)))
    if harmless or is_same_code(nest, apply_schedule(prim, _schedule(candidate))):
        trial.harmless += 1
        return
    done[kind] += 1
    trial.survivors.append(f"{kind} at {where}\n{prim}{list(candidate.schedule)}\n{nest}")


def _schedule(candidate: Candidate) -> Schedule:
    return Schedule.from_json(as_lists(candidate.schedule)[1:])


def is_same_code(nest: Nest, origin: Nest) -> bool:
    """True if both are the same machine code: what a mutant reads at a wrong place, or beside its
    array, is not read at all where no result depends on it."""
    kernels = [emit_kernel(n, Target.host(), "candidate") for n in (nest, origin)]
    codes = [object_code(kernel.code, Target.host()) for kernel in kernels]
    return codes[0] == codes[1]


# -- right ones ------------------------------------------------------------------------------------


def try_right_ones(
    prims: Sequence[PrimFunc], count: int, seed: int = 0, settings: TuneSettings = SETTINGS
) -> RightTrial:
    """Try so many schedules out of the kernels' own spaces, on one thread and on two."""
    begun = time.monotonic()
    trial = RightTrial()
    rng = np.random.default_rng(seed)
    share = -(-count // (2 * len(prims)))
    for threads in (1, THREADS):
        with Workers(threads, settings) as workers:
            for task, candidates in _right_ones(prims, threads, share, rng):
                left = count - trial.count
                with NativeMeasurer(task, TOOLCHAIN, settings, seed, workers) as measurer:
                    for _, record in measurer.measure(candidates[:left]):
                        if record.ok:
                            trial.accepted += 1
                        elif record.error not in NOT_BUILT:
                            why = f"{record.error}: {record.detail}"
                            trial.refused.append(f"{why}\n{task.prim}{list(record.schedule)}")
    trial.seconds = time.monotonic() - begun
    return trial


def _right_ones(
    prims: Sequence[PrimFunc], threads: int, share: int, rng: np.random.Generator
) -> Iterator[tuple[Task, list[Candidate]]]:
    for prim in prims:
        task = _task(prim, threads)
        rows = np.concatenate([task.space.default(), task.space.sample(share, rng)])[:share]
        yield task, [Candidate(tuple(task.space.schedule(r).to_json())) for r in rows]


def _task(prim: PrimFunc, threads: int) -> Task:
    task = task_of(prim, Target.host(), threads)
    assert isinstance(task.space, ScheduleSpace)
    return task

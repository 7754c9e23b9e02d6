"""Kernels under random schedules, whose LLVM text is run for every kind of machine."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from loopwright.autotune.measure.inputs import make_inputs, make_probes
from loopwright.autotune.measure.reference import Reference
from loopwright.codegen.kernel import Kernel, compile_nest
from loopwright.codegen.module_text import ModuleText
from loopwright.codegen.target import FEATURES, ISA_LEVELS, Target
from loopwright.debug.machine.kernels import TEXT_STORES, run_text
from loopwright.debug.machine.memory import Fault
from loopwright.ir.dtype import Array
from loopwright.ir.errors import InternalError, ScheduleError
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.procedure import executions
from loopwright.ir.schedule.apply import apply_schedule
from mutated_schedules import schedules
from planted_text import ERRORS, planted
from small_kernels import draw_kernel

MACHINES = [
    Target(isa=isa, features=frozenset(n for n, f in FEATURES.items() if isa in f.levels))
    for isa in ISA_LEVELS
]
"""A machine of every level, with every instruction that one of its level may have."""
SPECIAL = 0.2
"""Share of nan, infinities, zeros and the like among the elements of the last inputs."""
LONG_TEXT = 60_000
"""Characters of text beyond which no errors are planted."""
TRIED = 200
"""Schedules that are looked at for those of a kernel that are legal and short."""


Case = tuple[dict[str, Array], Reference]


def cases(prim: PrimFunc, seed: int, count: int) -> list[Case]:
    """Returns inputs and the results for them: random ones, and some that are hard."""
    inputs = make_inputs(prim, seed)
    given = [inputs, *make_probes(prim, inputs, seed)[: count - 2]]
    given.append(make_inputs(prim, seed, special=SPECIAL))
    if prim.name.startswith("cholesky"):  # of other matrices it is nan
        given += [{n: _positive(a) for n, a in inputs.items()}]
    return [(each, Reference(prim, each)) for each in given]


def _positive(matrices: Array) -> Array:
    size = matrices.shape[-1]
    return matrices @ matrices.swapaxes(-1, -2) + size * np.eye(size, dtype=matrices.dtype)


def wrong(kernel: Kernel, given: Sequence[Case]) -> str:
    """Returns in words what is wrong with a kernel's text; empty if nothing is."""
    for inputs, reference in given:
        try:
            outputs = run_text(kernel, inputs)
        except (Fault, InternalError) as error:
            return str(error)
        verdict = reference.check(dict(zip(reference.prim.outputs, outputs, strict=True)))
        if not verdict.right:
            return f"{verdict.reason} ({verdict.max_error:.2g})"
    return ""


def kernels(seed: int, most: int) -> Iterator[tuple[str, PrimFunc, Target, Kernel]]:
    """Yields a random kernel under up to ``most`` schedules for each machine."""
    rng = random.Random(seed)
    name, prim = draw_kernel(rng)
    for machine in MACHINES:
        made: set[str] = set()
        for schedule in islice(schedules(prim, machine, rng), TRIED):
            try:
                nest = apply_schedule(prim, schedule)
                if executions(nest.body) > TEXT_STORES:
                    continue
                kernel = compile_nest(prim, nest, machine, "candidate")
            except ScheduleError:
                continue
            if kernel.text not in made:
                made.add(kernel.text)
                yield name, prim, machine, kernel
            if len(made) == most:
                break


def trial(seed: int, most: int) -> tuple[int, list[str]]:
    """Returns how many texts of a seed's kernel were run, and what was wrong."""
    count, bad, given = 0, list[str](), list[Case]()
    for name, prim, machine, kernel in kernels(seed, most):
        given = given or cases(prim, seed, 3)
        count += 1
        if text := wrong(kernel, given):
            bad.append(f"seed {seed}, {name} for {machine.isa}: {text}")
    return count, bad


def planted_errors(seed: int, most: int) -> Iterator[tuple[str, str, bool]]:
    """Yields for a seed's kernels each kind of error that there is room for, planted once: the
    kind, what is said of it, and whether it changes no bit of any result."""
    rng, given = random.Random(seed), list[Case]()
    for _, prim, _, kernel in kernels(seed, most):
        if len(kernel.text) > LONG_TEXT:
            continue
        given = given or cases(prim, seed, 4)
        right = [run_text(kernel, inputs) for inputs, _ in given]
        for kind in ERRORS:
            for text in islice(planted(kernel.text, kind, rng), 1):
                bad = replace(kernel, code=ModuleText.of(text))
                said = wrong(bad, given)
                yield (
                    kind,
                    said,
                    not said
                    and all(
                        a.tobytes() == b.tobytes()
                        for outputs, (inputs, _) in zip(right, given, strict=True)
                        for a, b in zip(outputs, run_text(bad, inputs), strict=True)
                    ),
                )

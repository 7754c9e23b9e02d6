"""Kernels under random schedules, whose LLVM text is run for every kind of machine."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import loopwright as lw
import numpy as np
from loopwright.autotune.measure.inputs import make_inputs, make_probes
from loopwright.autotune.measure.reference import Reference
from loopwright.codegen.kernel import Kernel, compile_nest
from loopwright.codegen.lower.lanes import Machine as Lowered
from loopwright.codegen.lower.lowering import LOWERINGS
from loopwright.codegen.module_text import ModuleText
from loopwright.codegen.target import FEATURES, ISA_LEVELS, Target
from loopwright.debug.machine.kernels import (
    TEXT_STORES,
    VECTOR_STORES,
    run_nest,
    run_text,
    wrong_lowering,
)
from loopwright.debug.machine.memory import Fault
from loopwright.ir.dtype import Array
from loopwright.ir.errors import InternalError, ScheduleError
from loopwright.ir.loop.nest import Nest
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.procedure import executions
from loopwright.ir.schedule.apply import apply_schedule
from mutated_schedules import schedules
from planted_lowering import ERRORS as ERRORS_OF_PASSES
from planted_lowering import planted as planted_nests
from planted_text import ERRORS, planted
from random_sizes import draw_sized
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
        except (Fault, InternalError, KeyError) as error:  # a value that no path has made, too
            return str(error)
        verdict = reference.check(dict(zip(reference.prim.outputs, outputs, strict=True)))
        if not verdict.right:
            return f"{verdict.reason} ({verdict.max_error:.2g})"
    return ""


def kernels(
    seed: int, most: int, machines: Sequence[Target] = MACHINES
) -> Iterator[tuple[str, PrimFunc, Target, Kernel]]:
    """Yields a random kernel under up to ``most`` schedules for each machine."""
    rng = random.Random(seed)
    name, prim = draw_kernel(rng)
    for machine in machines:
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
        text = wrong_lowering(prim, kernel, given[-1][0], machine, {}) or wrong(kernel, given)
        if text:
            bad.append(f"seed {seed}, {name} for {machine.isa}: {text}")
    return count, bad


def trial_of_program(seed: int) -> tuple[int, list[str]]:
    """Returns for how many machines a program of symbolic sizes was compiled, and what the compile
    says of its kernels: their nests in vectors, and their texts, run at small sizes, masks among
    them. The process verifies that much (``LOOPWRIGHT_VERIFY=2``)."""
    program, count, bad = draw_sized(seed), 0, list[str]()
    arrays = program.arrays(dict.fromkeys(("n", "m", "k"), 7), np.random.default_rng(seed))
    for machine in MACHINES:
        compiled = lw.compile(program.function(), dynamic=program.dynamic, target=machine)
        try:
            compiled.lower(*arrays)
        except InternalError as error:
            bad.append(f"seed {seed} for {machine.isa}: {error}\n{program}")
        except lw.LoopwrightError:
            continue
        count += 1
    return count, bad


BITS = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}
"""Bits behind the point of floats that are rounded."""


def _same(a: Array, b: Array) -> bool:
    """True if two results differ by rounding at most, which no check can take for an error."""
    if a.dtype.name not in BITS:
        return a.tobytes() == b.tobytes()
    wide = a.astype(np.float64), b.astype(np.float64)
    return np.allclose(*wide, rtol=2.0 ** (2 - BITS[a.dtype.name]), atol=0, equal_nan=True)


def planted_errors(seed: int, most: int) -> Iterator[tuple[str, str, bool]]:
    """Yields for a seed's kernels each kind of error that there is room for, planted once: the
    kind, what is said of it, and whether it changes no result by more than rounding."""
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
                        _same(a, b)
                        for outputs, (inputs, _) in zip(right, given, strict=True)
                        for a, b in zip(outputs, run_text(bad, inputs), strict=True)
                    ),
                )


def planted_in_lowerings(
    seed: int, most: int, machines: Sequence[Target] = MACHINES
) -> Iterator[tuple[str, str, str, bool]]:
    """Yields for a seed's kernels each kind of error, planted once in what each pass from nest to
    nest returns: the pass, the kind, what is said of it, and whether it changes no bit."""
    rng = random.Random(seed)
    for _, prim, machine, kernel in kernels(seed, most, machines):
        if executions(kernel.nest.body) > VECTOR_STORES:
            continue
        given = [make_inputs(prim, seed), make_inputs(prim, seed, special=SPECIAL)]
        for number, lowering in enumerate(LOWERINGS):
            nest = kernel.nest
            for before in LOWERINGS[: number + 1]:
                nest = before(nest, Lowered.of(kernel.nest, machine))
            for kind in ERRORS_OF_PASSES:
                for bad in islice(planted_nests(nest, kind, rng), 1):
                    passes = (*LOWERINGS[:number], lambda _nest, _machine, bad=bad: bad)
                    said = [wrong_lowering(prim, kernel, x, machine, {}, passes) for x in given]
                    is_none = not any(said) and all(_same_bits(nest, bad, kernel, x) for x in given)
                    yield lowering.__name__, kind, "".join(said), is_none


def _same_bits(nest: Nest, other: Nest, kernel: Kernel, inputs: dict[str, Array]) -> bool:
    pair = (run_nest(each, kernel, inputs, {}) for each in (nest, other))
    return all(a.tobytes() == b.tobytes() for a, b in zip(*pair, strict=True))

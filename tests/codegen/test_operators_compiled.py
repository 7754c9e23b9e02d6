"""Every operator's samples: compiled code on every ISA level, and the loop interpreter.

Every sample is compiled for this machine, and a quarter of them for each older level. The samples
of operators with statements are compiled, for every level, in ``ir/ops/test_statements.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import compiled
import numpy as np
import pytest
from emulated_samples import Sample, run_rounds
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.kernel import Kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.debug.machine.kernels import run_text
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.ops import all_operators
from loopwright.ir.schedule.steps import Schedule
from operators import Evaluated, assert_agree, has_statements
from other_machine import MACHINES

HOST = Target.host()
ARM = Target(isa="aarch64", features=frozenset({"i8mm"}))
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
NAMES = sorted(all_operators())
WITHOUT_STATEMENTS = [name for name in NAMES if not has_statements(all_operators()[name])]
MOST_INTERPRETED = 4_000  # terms of sums; the interpreter takes microseconds for each


def check(
    name: str,
    target: Target,
    run: Any,
    choose: compiled.Chooser | None = None,
    chosen: slice = slice(None),
) -> None:
    samples = compiled.prepared(name)
    samples = samples[chosen] or samples[:1]
    if run is not compiled.run_kernel:
        least = min(s.terms for s in samples)
        samples = [s for s in samples if s.terms <= max(least, MOST_INTERPRETED)]
    for args, module, wanted, length in samples:
        found = compiled.run_module(module, args, target, run, choose)
        assert_agree(Evaluated(found, length), wanted, args)


@pytest.mark.parametrize("name", WITHOUT_STATEMENTS)
def test_compiled_code_agrees_with_the_reference(name: str) -> None:
    check(name, HOST, compiled.run_kernel)


@pytest.mark.parametrize("isa", LEVELS[:-1])
@pytest.mark.parametrize("name", WITHOUT_STATEMENTS)
def test_code_for_older_machines_agrees_with_the_reference(name: str, isa: str) -> None:
    chosen = slice(2 * LEVELS.index(isa), None, 4)
    check(name, HOST.with_isa(isa), compiled.run_kernel, chosen=chosen)


@pytest.mark.parametrize("name", NAMES)
def test_interpreted_nests_agree_with_the_reference(name: str) -> None:
    def run(kernel: Kernel, target: Target, inputs: Mapping[str, Any]) -> list[Any]:
        return compiled.interpret_kernel(kernel, inputs)

    check(name, HOST, run)


@pytest.mark.parametrize("name", NAMES)
def test_text_for_another_architecture_agrees_with_the_reference(name: str) -> None:
    def run(kernel: Kernel, target: Target, inputs: Mapping[str, Any]) -> list[Any]:
        return run_text(kernel, inputs)

    check(name, ARM, run, chosen=slice(0, 1))


@pytest.mark.parametrize("isa", MACHINES)
def test_code_for_another_architecture_agrees_with_the_reference(isa: str) -> None:
    """Each operator on one of the emulators; ``fuzz/machine_run.py`` takes all samples of all."""
    if not MACHINES[isa].is_installed:
        pytest.skip(f"no emulator and linker for {isa}")
    target = ARM if isa == ARM.isa else Target(isa)
    names = NAMES[list(MACHINES).index(isa) :: len(MACHINES)]
    samples = [Sample(name, 0, compiled.prepared(name)[0], target, None) for name in names]
    run_rounds(samples, target)
    assert not [f"{s.name}: {s.error}" for s in samples if s.error]


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize(
    "name", ["nn.matmul", "nn.conv2d", "nn.softmax", "nn.layer_norm", "sum", "argmax", "einsum"]
)
def test_random_schedules_agree_with_the_reference(name: str, isa: str) -> None:
    rng = np.random.default_rng(7)
    target = HOST.with_isa(isa)

    def choose(prim: PrimFunc) -> Schedule:
        space = ScheduleSpace(prim, target)
        rows = space.sample(8, rng)
        if not len(rows):
            return Schedule()
        row = rows[rng.integers(len(rows))]
        schedule = space.schedule(row)
        assert space.row_of(schedule) is not None
        return schedule

    # Each level has schedules of its own for other samples.
    chosen = slice(LEVELS.index(isa), None, len(LEVELS))
    check(name, target, compiled.run_kernel, choose, chosen)

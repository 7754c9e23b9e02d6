"""Every operator's samples: compiled code on every ISA level, and the loop interpreter.

Every sample is compiled for this machine, and a quarter of them for each older level. The samples
of operators with statements are compiled, for every level, in ``ir/ops/test_statements.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import compiled
import numpy as np
import pytest
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.kernel import Kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.debug.machine.kernels import run_text
from loopwright.ir.graph.nodes import Module
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.ops import all_operators
from loopwright.ir.schedule.steps import Schedule
from operators import (
    Evaluated,
    array_type,
    assert_agree,
    has_statements,
    reduction_length,
    samples_of,
)
from other_machine import CAN_RUN, run_emulated

HOST = Target.host()
ARM = Target(isa="aarch64", features=frozenset({"i8mm"}))
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
NAMES = sorted(all_operators())
WITHOUT_STATEMENTS = [name for name in NAMES if not has_statements(all_operators()[name])]
MOST_INTERPRETED = 4_000  # terms of sums; the interpreter takes microseconds for each


class Prepared(NamedTuple):
    """A sample's operands, its lowered module, the reference's result, and the terms summed."""

    args: Sequence[Any]
    module: Module
    wanted: Any
    length: int

    @property
    def terms(self) -> int:
        """Terms of all sums of the result, or its elements; at least those of the operands."""
        parts = self.wanted if isinstance(self.wanted, tuple | list) else [self.wanted]
        sums = max(1, self.length) * sum(np.size(part) for part in parts)
        return max(sums, *(a.size for a in self.args), 0)


@cache
def prepared(name: str) -> list[Prepared]:
    """The samples of an operator; the same for every target."""
    op = all_operators()[name]
    samples: list[Prepared] = []
    for sample in samples_of(op):
        attrs = op.complete_attrs(sample.attrs)
        with np.errstate(all="ignore"):
            wanted = op.reference(sample.args, attrs)
        length = reduction_length(op, [array_type(a) for a in sample.args], attrs)
        module = compiled.lower(compiled.operator_module(op, sample.args, sample.attrs))
        samples.append(Prepared(sample.args, module, wanted, length))
    return samples


def check(
    name: str,
    target: Target,
    run: Any,
    choose: compiled.Chooser | None = None,
    chosen: slice = slice(None),
) -> None:
    samples = prepared(name)
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


@pytest.mark.skipif(not CAN_RUN, reason="no emulator and linker for AArch64")
@pytest.mark.parametrize("name", NAMES)
def test_code_for_another_architecture_agrees_with_the_reference(name: str, tmp_path: Path) -> None:
    def run(kernel: Kernel, target: Target, inputs: Mapping[str, Any]) -> list[Any]:
        return run_emulated(kernel, target, inputs, tmp_path)

    check(name, ARM, run, chosen=slice(0, 2))


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

"""A kernel by its LLVM text, and whether that says what its loop nest says.

Four levels say what a kernel computes: tensor expressions, the loop nest, LLVM text, machine code.
``run_text`` runs the third one, for any target and on any machine, in memory where an access out
of place is an error; ``validate`` holds it against the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...autotune.measure.inputs import make_inputs
from ...autotune.measure.reference import Reference
from ...codegen.kernel import Kernel, prepare_operands
from ...ir.dims import Symbol, as_int
from ...ir.dtype import Array
from ...ir.errors import InternalError
from ...ir.loop.prim import PrimFunc
from ...ir.loop.procedure import executions
from .memory import Fault
from .parser import parse_llvm
from .run import Machine

TEXT_STORES = 4_000
"""Stores of a kernel up to which a compile that is to be verified runs its text."""
BESIDE_VECTORS = (0, 1, 15, 16, 17)
"""Symbolic sizes that are tried: none, one, and those around the lanes of a vector."""
SEED = 0
"""The seed of the inputs that kernels are validated on."""


def halves(count: int) -> Sequence[tuple[int, int]]:
    """Returns the iterations of a parallel loop in two pieces, of which the last one comes first:
    no order is promised."""
    return [(count // 2, count), (0, count // 2)]


def run_text(kernel: Kernel, inputs: Mapping[str, Array]) -> list[Array]:
    """Returns the outputs of a kernel, by parameter's name those of ``inputs``; the kernel is one
    of known sizes (``Kernel.at``).

    Raises Fault for an access outside of an operand, or one that is not aligned as promised: what
    is read stands at odd places, as elements may.
    """
    machine = Machine(parse_llvm(kernel.text), halves)
    operands = prepare_operands(kernel, inputs)
    addresses: list[int] = []
    for operand, array in zip(kernel.operands, operands, strict=True):
        if operand.role == "out":  # garbage that is also a valid bool
            array.reshape(-1).view(np.uint8)[...] = 1
        skew = 0 if operand.role.writes else array.itemsize % 64
        addresses.append(machine.memory.add(array, operand.buffer.name, skew))
    workspace = np.full(as_int(kernel.workspace_bytes), 1, np.uint8)
    addresses.append(machine.memory.add(workspace, "the workspace"))
    handed = np.array([*addresses, *map(int, kernel.size_values)], np.int64)
    machine.call(f"{kernel.name}.packed", machine.memory.add(handed, "the arguments"))
    return [a for o, a in zip(kernel.operands, operands, strict=True) if o.role.writes]


def validate(prim: PrimFunc, kernel: Kernel) -> None:
    """Runs a kernel's text, if it is short, on random inputs, and with symbolic sizes at small
    ones. Raises InternalError if it does what no kernel may, or gives other results than ``prim``.
    """
    for values in _sizes(prim.sizes):
        one, made = (prim.at(values), kernel.at(values)) if values else (prim, kernel)
        if executions(made.nest.body) > TEXT_STORES:
            continue
        inputs = make_inputs(one, SEED)
        at = f" at {', '.join(f'{n} = {v}' for n, v in values.items())}" if values else ""
        try:
            outputs = run_text(made, inputs)
        except Fault as fault:
            raise InternalError(f"the LLVM text of kernel {kernel.name}{at} {fault}") from None
        verdict = Reference(one, inputs).check(dict(zip(one.outputs, outputs, strict=True)))
        if not verdict.right:
            raise InternalError(
                f"the LLVM text of kernel {kernel.name}{at} is wrong: {verdict.reason}",
                hint="LOOPWRIGHT_DUMP=folder and a report of its files",
            )


def _sizes(symbols: Sequence[Symbol]) -> list[dict[str, int]]:
    """Returns the values to try of symbolic sizes: none if there are none."""
    if not symbols:
        return [{}]
    made: list[dict[str, int]] = []
    for value in BESIDE_VECTORS:
        values = {s.name: max(s.low or 0, min(value, s.high or value)) for s in symbols}
        made += [values] if values not in made else []
    return made

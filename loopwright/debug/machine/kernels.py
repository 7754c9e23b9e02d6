"""A kernel by the loop nest that its target runs, and by its LLVM text, and whether these say what
its tensor expressions say.

Five levels say what a kernel computes: tensor expressions, the loop nest, the nest in vectors, LLVM
text, machine code. ``run_text`` runs the fourth one, for any target and on any machine, in memory
where an access out of place is an error; ``validate`` holds it and the third against the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...autotune.measure.inputs import make_inputs
from ...autotune.measure.reference import Reference
from ...codegen.kernel import Kernel, prepare_operands
from ...codegen.lower.lanes import Machine as Lowered
from ...codegen.lower.lowering import LOWERINGS, Lowering
from ...codegen.lower.meaning import interpret_vectors, verify_vectors
from ...codegen.target import Target
from ...ir.dims import Symbol, as_int
from ...ir.dtype import Array
from ...ir.errors import InternalError
from ...ir.loop.kinds import LoopKind, Role
from ...ir.loop.nest import Nest, statements
from ...ir.loop.prim import PrimFunc
from ...ir.loop.procedure import executions
from .memory import Fault
from .parser import parse_llvm
from .run import Machine

TEXT_STORES = 4_000
"""Stores of a kernel up to which a compile that is to be verified runs its text."""
VECTOR_STORES = 256
"""Stores of a kernel up to which every compile that is verified runs its nest in vectors."""
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
    operands = _operands(kernel, inputs)
    addresses: list[int] = []
    for operand, array in zip(kernel.operands, operands, strict=True):
        skew = 0 if operand.role.writes else array.itemsize % 64
        addresses.append(machine.memory.add(array, operand.buffer.name, skew))
    workspace = np.full(as_int(kernel.workspace_bytes), 1, np.uint8)
    addresses.append(machine.memory.add(workspace, "the workspace"))
    handed = np.array([*addresses, *map(int, kernel.size_values)], np.int64)
    machine.call(f"{kernel.name}.packed", machine.memory.add(handed, "the arguments"))
    return [a for o, a in zip(kernel.operands, operands, strict=True) if o.role.writes]


def _operands(kernel: Kernel, inputs: Mapping[str, Array]) -> list[Array]:
    """The arrays to hand to a kernel; results hold garbage that is also a valid bool."""
    operands = prepare_operands(kernel, inputs)
    for operand, array in zip(kernel.operands, operands, strict=True):
        if operand.role == Role.OUT:
            array.reshape(-1).view(np.uint8)[...] = 1
    return operands


def validate(prim: PrimFunc, kernel: Kernel, target: Target, text: bool = True) -> None:
    """Runs a kernel's nest in vectors, and its ``text``, if they are short, on random inputs, and
    with symbolic sizes at small ones. Raises InternalError if the first gives other results than
    the nest without vectors, or the second does what no kernel may, or gives others than ``prim``.
    """
    for values in _sizes(prim.sizes):
        one, made = (prim.at(values), kernel.at(values)) if values else (prim, kernel)
        stores = executions(made.nest.body)
        if stores > TEXT_STORES or (stores > VECTOR_STORES and not text):
            continue
        inputs = make_inputs(one, SEED)
        try:
            problem = wrong_lowering(one, kernel, inputs, target, values)
        except IndexError:  # it reads what is empty: a check has the program raise before
            continue
        if not problem and text:
            problem = _wrong_text(one, made, inputs)
        if problem:
            at = f" at {', '.join(f'{n} = {v}' for n, v in values.items())}" if values else ""
            raise InternalError(
                f"kernel {kernel.name}{at}: {problem}",
                hint="LOOPWRIGHT_DUMP=folder and a report of its files",
            )


def wrong_lowering(
    prim: PrimFunc,
    kernel: Kernel,
    inputs: Mapping[str, Array],
    target: Target,
    sizes: Mapping[str, int],
    lowerings: Sequence[Lowering] | None = None,
) -> str:
    """Returns which pass makes the nest of a kernel give other results, in words; empty if none
    does. ``prim`` and ``inputs`` are of these ``sizes``.

    Results are the same to the last bit, or where lanes are joined as right as ``prim`` allows.
    Raises IndexError if the nest itself reads what is not there at these sizes.
    """
    nest, made = kernel.nest_for(sizes), kernel.at(sizes)
    machine, right = Lowered.of(nest, target), run_nest(nest, made, inputs, sizes)
    for lowering in lowerings or LOWERINGS:
        nest = lowering(nest, machine)
        try:
            verify_vectors(nest)
            results = run_nest(nest, made, inputs, sizes)
        except (InternalError, IndexError) as error:
            return f"after {lowering.__name__} {error}"
        same = all(np.array_equal(*pair, equal_nan=True) for pair in zip(results, right))
        if not same:
            joins = any(getattr(s, "kind", None) == LoopKind.REDUCE for s in statements(nest.body))
            verdict = Reference(prim, inputs).check(dict(zip(prim.outputs, results, strict=True)))
            if not joins or not verdict.right:
                return f"{lowering.__name__} changes the results of its nest: {verdict.reason}"
    return ""


def run_nest(
    nest: Nest, kernel: Kernel, inputs: Mapping[str, Array], sizes: Mapping[str, int]
) -> list[Array]:
    """Returns the outputs of a kernel by one of its nests, at these sizes."""
    operands = _operands(kernel, inputs)
    interpret_vectors(nest, {o.buffer.name: a for o, a in zip(kernel.operands, operands)}, sizes)
    return [a for o, a in zip(kernel.operands, operands, strict=True) if o.role.writes]


def _wrong_text(prim: PrimFunc, kernel: Kernel, inputs: Mapping[str, Array]) -> str:
    try:
        outputs = run_text(kernel, inputs)
    except Fault as fault:
        return f"its LLVM text {fault}"
    verdict = Reference(prim, inputs).check(dict(zip(prim.outputs, outputs, strict=True)))
    return "" if verdict.right else f"its LLVM text is wrong: {verdict.reason}"


def _sizes(symbols: Sequence[Symbol]) -> list[dict[str, int]]:
    """Returns the values to try of symbolic sizes: none if there are none."""
    if not symbols:
        return [{}]
    made: list[dict[str, int]] = []
    for value in BESIDE_VECTORS:
        values = {s.name: max(s.low or 0, min(value, s.high or value)) for s in symbols}
        made += [values] if values not in made else []
    return made

"""Finds the first operation of a kernel that is wrong, and the level at which it goes wrong.

What a kernel computes on its way is in registers and never seen. So every operation of the group
becomes the last one of a kernel of its own, with all that it needs before it: under the steps of
the kernel's schedule as far as they apply to the shorter one, and under the default one. The
first operation whose kernel is wrong is to blame. Where only the whole kernel is, it is the kernel
as such: how its operations come together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..autotune.measure.reference import error_bound
from ..autotune.space.space import default_schedule
from ..codegen.kernel import Kernel, compile_kernel, prepare_operands
from ..codegen.one_kernel import run_kernel
from ..codegen.target import Target
from ..ir.dataclass import dataclass
from ..ir.dims import as_int
from ..ir.dtype import Array, dtype_of
from ..ir.errors import ScheduleError
from ..ir.graph.fusion.to_prim import group_to_prim
from ..ir.graph.nodes import Atom, Binding, Block, Call, Function, GlobalVar, Module, Var
from ..ir.graph.walk import operands
from ..ir.loop.evaluate import evaluate_prim
from ..ir.loop.interpret import interpret
from ..ir.loop.prim import PrimFunc
from ..ir.loop.widen import widened
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.steps import Schedule
from .difference import Difference, difference
from .machine.kernels import run_text
from .machine.memory import Fault
from .wide import Value, flat, values_of

MOST_ITERATIONS = 200_000
"""Iterations of loops up to which a nest is interpreted: about a second."""
MOST_EVALUATIONS = 50_000_000
"""Scalar evaluations up to which tensor expressions are evaluated."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A kernel's operations and what they are applied to.

    ``constant`` are the positions of parameters known when compiling, ``causal`` those that are a
    triangle (see ``group_to_prim``). ``exact`` and ``narrow`` are the values of all bindings, in
    float64 and in the group's dtypes.
    """

    name: str
    function: Function
    inputs: tuple[Array, ...]
    constant: frozenset[int]
    causal: Mapping[int, int]
    schedule: Schedule
    target: Target
    threads: int
    exact: Mapping[Var, Value]
    narrow: Mapping[Var, Value]

    @staticmethod
    def of(
        name: str,
        function: Function,
        inputs: tuple[Array, ...],
        operands: tuple[frozenset[int], Mapping[int, int]],
        schedule: Schedule,
        machine: tuple[Target, int],
        module: Module,
    ) -> Group:
        """Returns the group with its values computed. ``machine`` is a target and threads, and
        ``module`` has the kernels that it calls."""
        exact = values_of(function, inputs, module, wide=True)
        narrow = values_of(function, inputs, module, wide=False)
        return Group(name, function, inputs, *operands, schedule, *machine, exact, narrow)


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """One operation of a group as the last of a kernel: ``how`` says under which schedule."""

    binding: Binding
    difference: Difference
    how: str
    prim: PrimFunc
    kernel: Kernel


def operations(group: Group) -> Iterator[Binding]:
    """Returns the operations of a group in order."""
    for binding in group.function.body.bindings:
        if isinstance(binding.value, Call):
            yield binding


def check_operation(group: Group, binding: Binding) -> Checked | None:
    """Runs one operation, and all it needs, as a kernel under several schedules, and returns the
    worst result. None if it cannot be a kernel by itself."""
    if isinstance(binding.value, Call) and isinstance(binding.value.op, GlobalVar):
        return None
    shorter, places = _up_to(group.function, binding)
    constant = [n for n, p in enumerate(places) if p in group.constant]
    causal = {n: group.causal[p] for n, p in enumerate(places) if p in group.causal}
    prim = group_to_prim(group.name, shorter, constant, causal)
    inputs = {b.name: group.inputs[p] for b, p in zip(prim.params, places)}
    right, narrow = flat(group.exact[binding.var]), flat(group.narrow[binding.var])
    worst: Checked | None = None
    for schedule, how in _schedules(prim, group):
        try:
            kernel = compile_kernel(prim, schedule, group.target, f"lw_debug_{group.name}")
        except Exception:  # part of a schedule need not compile
            continue
        outputs = run_kernel(kernel, inputs, group.target, group.threads)
        bound = error_bound(prim, prim.output_buffers[0].dtype)
        off = difference(outputs[0].reshape(right[0].shape), right[0], narrow[0], bound)
        if worst is None or (off.wrong, off.error) > (
            worst.difference.wrong,
            worst.difference.error,
        ):
            worst = Checked(binding, off, how, prim, kernel)
        if off.differs:
            return worst
    return worst


def _up_to(function: Function, binding: Binding) -> tuple[Function, list[int]]:
    """Returns the function that computes one binding's value, and the parameters it keeps."""
    needed: set[Atom] = {binding.var}
    kept: list[Binding] = []
    for one in reversed(function.body.bindings):
        if one.var in needed:
            kept.append(one)
            needed.update(operands(one.value))
    places = [n for n, p in enumerate(function.params) if p in needed]
    params = tuple(function.params[n] for n in places)
    body = Block(tuple(reversed(kept)), binding.var)
    return Function(params, body, function.attrs, function.span), places


def _schedules(prim: PrimFunc, group: Group) -> Iterator[tuple[Schedule, str]]:
    try:
        apply_schedule(prim, group.schedule)
        yield group.schedule, "under the kernel's schedule"
    except ScheduleError:
        steps: list[Any] = []
        for step in group.schedule.steps:
            try:
                apply_schedule(prim, Schedule((*steps, step)))
            except ScheduleError:
                continue
            steps.append(step)
        if steps:
            yield Schedule(tuple(steps)), "under the steps of the kernel's schedule that apply"
    yield default_schedule(prim, group.target)[0], "under the default schedule"


def levels(prim: PrimFunc, kernel: Kernel, inputs: Mapping[str, Array], right: Array) -> str:
    """Returns, in words, the first level between an operator and its code that is wrong."""
    work = sum(math.prod(as_int(a.extent) for a in (*s.axes, *s.reduce_axes)) for s in prim.stages)
    if work > MOST_EVALUATIONS:
        return "too large to tell expressions, loop nest and machine code apart"
    bound = error_bound(prim, prim.output_buffers[0].dtype)

    def agrees(output: Array) -> bool:
        return not difference(output.reshape(right.shape), right, right, bound).differs

    given = {b.name: inputs[b.name].reshape([as_int(n) for n in b.shape]) for b in prim.params}
    wide = {k: a.astype(dtype_of(a).wide.numpy, copy=False) for k, a in given.items()}
    name = prim.outputs[0]
    if not agrees(evaluate_prim(widened(prim), wide)[name]):
        return "the tensor expressions are wrong: lowering the operators to loops"
    if work > MOST_ITERATIONS:
        return "the tensor expressions are right; the loop nest or the machine code is wrong"
    arrays = prepare_operands(kernel, given)
    try:
        interpret(kernel.nest, {o.buffer.name: a for o, a in zip(kernel.operands, arrays)})
    except IndexError as error:
        return f"the loop nest is wrong: {error}"
    outs = [a for o, a in zip(kernel.operands, arrays) if o.role.writes]
    if not agrees(outs[0]):
        return "the loop nest is wrong: the schedule, or applying it"
    try:
        if not agrees(run_text(kernel, given)[0]):
            return "the loop nest is right, the LLVM text written of it is not"
    except Fault as fault:
        return f"the loop nest is right, the LLVM text written of it {fault}"
    return "the LLVM text is right, what LLVM makes of it is not"

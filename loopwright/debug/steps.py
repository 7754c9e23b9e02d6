"""Runs a compiled program kernel by kernel, with the kernels and the memory that it has.

::

    program (planned)  ->  a step for each call: what the kernel was handed, what it wrote
    lowered main       ->  which binding of the graph each step is, and what it should be handed

The value of a binding is what its kernel wrote, kept aside. So what a kernel finds in memory later
on can be held against it: where the plan lets two values share memory that they may not share, the
step that reads the spoilt one says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..codegen.kernel import Kernel, parameter_places
from ..codegen.one_kernel import aligned, call_kernel
from ..codegen.program_from_graph import is_view
from ..ir.dims import as_int
from ..ir.dtype import Array
from ..ir.errors import InternalError
from ..ir.graph.nodes import (
    Atom,
    Binding,
    Block,
    Constant,
    Function,
    GlobalVar,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir.graph.nodes import Call as GraphCall
from ..ir.graph.operator import Operator
from ..ir.graph.types import TensorType
from ..ir.loop.nest import Operand
from ..ir.program.analysis import places, regions
from ..ir.program.nodes import Alloc, Call, Copy, Program
from ..pipeline import Parts, Source
from .wide import Value, flat

__all__ = ["Step", "Steps"]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One call of a kernel: ``binding`` of the lowered main, the ``group`` it calls.

    ``inputs`` are the values that the graph says it is handed, one per parameter of the group;
    ``spoilt`` the positions of those that lay in memory as something else. ``outputs`` are what it
    wrote.
    """

    binding: Binding
    name: str
    group: Function
    inputs: tuple[Array, ...]
    spoilt: tuple[int, ...]
    outputs: tuple[Array, ...]


class Steps:
    """Iterate once over the steps; then ``results`` are the arrays of the program's outputs."""

    def __init__(self, parts: Parts, source: Source, arrays: Sequence[Array]) -> None:
        self.parts = parts
        self.results: list[Array] = []
        self.values: dict[Var, Value] = {}
        self._lowered = source.lowered
        self._program: Program = parts.program
        self._memory = _Memory(parts.program, arrays)
        main = source.lowered.main
        given = iter(arrays)
        for param in main.params:
            self.values[param] = _taken(param.type, given)
        self._bindings = {b.var: b for b in main.body.bindings}
        self._waiting = [b for b in main.body.bindings if self._kernel_of(b) is not None]

    def __iter__(self) -> Iterator[Step]:
        for instr in self._program.body:
            if isinstance(instr, Copy):
                self._memory.bytes_of(instr.target)[...] = self._memory.bytes_of(instr.source)
            elif isinstance(instr, Call):
                yield self._step(instr)
        self.results = [self._memory.array(r.name).copy() for r in self._program.outputs]

    def expected(self) -> list[Array]:
        """Returns the outputs by the graph: the values that kernels wrote for them."""
        return flat(self._value(self._lowered.main.body.result))

    def _step(self, call: Call) -> Step:
        kernel = self.parts.kernels[call.kernel]
        operands = [self._memory.array(o.name) for o in call.operands]
        binding, inputs, spoilt = self._binding_of(call.kernel, kernel, operands)
        self._waiting.remove(binding)
        workspace = None if call.workspace is None else self._memory.bytes_of(call.workspace)
        call_kernel(kernel, operands, workspace, self.parts.target, self.parts.threads)
        outs = [a.copy() for o, a in zip(kernel.operands, operands, strict=True) if o.role.writes]
        types = binding.var.type
        self.values[binding.var] = _taken(types, iter(outs))
        group = self._lowered.functions[call.kernel]
        if not isinstance(group, Function):
            group = _only_call(binding)
        outputs = tuple(flat(self.values[binding.var]))
        return Step(binding, call.kernel, group, tuple(inputs), tuple(spoilt), outputs)

    def _binding_of(
        self, name: str, kernel: Kernel, operands: Sequence[Array]
    ) -> tuple[Binding, list[Array], list[int]]:
        """Returns the binding that a call belongs to: of the bindings that call the group, the one
        whose operands are in the call's memory; with its operands, and the positions of those that
        are not."""
        best: tuple[Binding, list[Array], list[int]] | None = None
        places = parameter_places(kernel.operands)
        for binding in self._waiting:
            if self._kernel_of(binding) != name or not self._is_ready(binding):
                continue
            assert isinstance(binding.value, GraphCall)
            inputs = [a for atom in binding.value.args for a in flat(self._value(atom))]
            spoilt = [
                n
                for n, (wanted, place) in enumerate(zip(inputs, places))
                if not _same(_laid_out(kernel.operands[place], wanted), operands[place])
            ]
            if best is None or len(spoilt) < len(best[2]):
                best = (binding, inputs, spoilt)
        if best is None:
            raise InternalError(f"the program calls @{name} before its operands are there")
        return best

    def _kernel_of(self, binding: Binding) -> str | None:
        call = binding.value
        if not isinstance(call, GraphCall) or not isinstance(call.op, GlobalVar):
            return None
        return None if is_view(self._lowered.functions.get(call.op.name)) else call.op.name

    def _is_ready(self, binding: Binding) -> bool:
        assert isinstance(binding.value, GraphCall)
        try:
            for atom in binding.value.args:
                self._value(atom)
        except KeyError:
            return False
        return True

    def _value(self, atom: Atom) -> Value:
        """Returns the value of an atom. Raises KeyError if a kernel that it depends on has not
        run."""
        if isinstance(atom, Constant):
            return atom.value
        assert isinstance(atom, Var)
        if atom in self.values:
            return self.values[atom]
        expr = self._bindings[atom].value
        if isinstance(expr, Tuple):
            return tuple(self._value(f) for f in expr.fields)
        if isinstance(expr, TupleGetItem):
            fields = self._value(expr.value)
            assert isinstance(fields, tuple)
            return fields[expr.index]
        if isinstance(expr, Var | Constant):
            return self._value(expr)
        if isinstance(expr, GraphCall) and (
            isinstance(expr.op, Operator) or self._kernel_of(self._bindings[atom]) is None
        ):
            (source,) = flat(self._value(expr.args[0]))
            return _taken(atom.type, iter([source]))
        raise KeyError(atom.name)


def _laid_out(operand: Operand, value: Array) -> Array:
    return operand.pack.array(value) if operand.pack is not None else value


def _only_call(binding: Binding) -> Function:
    """Returns a group that only calls the kernel which ``binding`` calls."""
    call = binding.value
    assert isinstance(call, GraphCall)
    params = tuple(Var(f"p{n}", a.type) for n, a in enumerate(call.args))
    var = Var(binding.var.name, binding.var.type, binding.var.span)
    made = GraphCall(call.op, params, call.attrs, call.span)
    return Function(params, Block((Binding(var, made),), var))


class _Memory:
    """The memory of a program: inputs, outputs, constants, and its one arena."""

    def __init__(self, program: Program, arrays: Sequence[Array]) -> None:
        self._regions = regions(program)
        self._places = places(program)
        self._roots: dict[str, Array] = {}
        for region, array in zip(program.inputs, arrays, strict=True):
            self._roots[region.name] = _bytes(array)
        for constant in program.constants:
            assert constant.value is not None
            self._roots[constant.region.name] = _bytes(constant.value)
        for region in program.outputs:
            self._roots[region.name] = aligned((region.nbytes,), np.dtype(np.uint8))
        arena = aligned((program.arena or 0,), np.dtype(np.uint8))
        for instr in program.body:
            if isinstance(instr, Alloc) and instr.offset is not None:
                end = instr.offset + instr.region.nbytes
                self._roots[instr.region.name] = arena[instr.offset : end]

    def bytes_of(self, name: str) -> Array:
        place = self._places[name]
        return self._roots[place.root][place.begin : place.end]

    def array(self, name: str) -> Array:
        region = self._regions[name]
        return self.bytes_of(name).view(region.dtype.numpy).reshape(region.shape)


def _bytes(array: Array) -> Array:
    memory = aligned((array.nbytes,), np.dtype(np.uint8))
    memory[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memory


def _taken(kind: Any, arrays: Iterator[Array]) -> Value:
    """Returns a value of a type from arrays in order, each in the shape that the type says."""
    if isinstance(kind, TensorType):
        return next(arrays).reshape([as_int(s) for s in kind.shape])
    return tuple(_taken(field, arrays) for field in kind.fields)


def _same(wanted: Array, given: Array) -> bool:
    a, b = np.ascontiguousarray(wanted).reshape(-1), given.reshape(-1)
    return a.nbytes == b.nbytes and np.array_equal(a.view(np.uint8), b.view(np.uint8))

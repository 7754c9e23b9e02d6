"""Runs a compiled program kernel by kernel, with the kernels and the memory that it has.

::

    program (planned)  ->  a step for each call: what the kernel was handed, what it wrote
    lowered graph      ->  which binding of the graph each step is, and what it should be handed

The value of a binding is what its kernel wrote, kept aside. So what a kernel finds in memory later
on can be held against it: where the plan lets two values share memory that they may not share, the
step that reads the spoilt one says so.

The program decides which branch is taken and how long a loop runs, as its code does. Each of its
branches, loops and functions is one of the graph's, whose values have a frame of their own in every
iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..codegen.one_kernel import aligned, call_kernel
from ..driver.built import Parts, Source
from ..ir.dataclass import dataclass
from ..ir.dims import as_int
from ..ir.dtype import Array
from ..ir.errors import SymbolicSizeError
from ..ir.graph.nodes import Binding, Block, Function, Var
from ..ir.graph.nodes import Call as GraphCall
from ..ir.library.lookup import library_function
from ..ir.program.analysis import places, regions, scopes, walk
from ..ir.program.nodes import (
    Access,
    Alias,
    Alloc,
    Call,
    Copy,
    For,
    Free,
    If,
    Instr,
    Invoke,
    Library,
    Program,
    SetSize,
    Swap,
    While,
)
from ..ir.span import Span
from ..tracer.core.spans import caret_lines
from .frames import Frame, Graph, Inside, library_name, taken_from
from .wide import flat


@dataclass(frozen=True, slots=True)
class Iteration:
    """The iteration ``number``, from 0, of the loop at ``span``; or a call of a ``function``."""

    span: Span | None
    number: int = 0
    function: str = ""

    def __str__(self) -> str:
        where = "" if self.span is None else f" at {self.span}"
        if self.function:
            return f"in @{self.function}, called{where}"
        return f"in iteration {self.number} of the loop{where}"


def lines_of(span: Span | None, iterations: Sequence[Iteration]) -> list[str]:
    """Returns where something is, in lines: the user's, and the loops around it from inside."""
    lines = [f"  {iteration}" for iteration in reversed(iterations)]
    if span is None:
        return lines
    where = f", in {span.function}" if span.function else ""
    return [f"  {span}{where}", *(f"  {line}" for line in caret_lines(span)), *lines]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One call of a kernel: ``binding`` of the lowered graph, the ``group`` it calls.

    ``inputs`` are the values that the graph says it is handed, one per parameter of the group;
    ``spoilt`` the positions of those that lay in memory as something else. ``outputs`` are what it
    wrote. ``where`` are the loops and functions around it, the innermost last.
    """

    binding: Binding
    name: str
    group: Function
    inputs: tuple[Array, ...]
    spoilt: tuple[int, ...]
    outputs: tuple[Array, ...]
    where: tuple[Iteration, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Strayed:
    """A branch or loop whose condition lay in memory as something else than the graph says."""

    binding: Binding
    where: tuple[Iteration, ...]


class Steps:
    """Iterate once over the steps; then ``results`` are the arrays of the program's outputs.

    Raises SymbolicSizeError for a program with symbolic sizes.
    """

    def __init__(self, parts: Parts, source: Source, arrays: Sequence[Array]) -> None:
        if parts.program.sizes:
            names = ", ".join(s.name for s in parts.program.sizes)
            raise SymbolicSizeError(f"steps of a program are run at constant sizes, not at {names}")
        self.parts = parts
        self.results: list[Array] = []
        self.graph = Graph(source.lowered)
        self._scopes = {p.name: p for p in scopes(parts.program)}
        constants = {
            c.region.name: _bytes(c.value) for c in parts.program.constants if c.value is not None
        }
        self._memory = _Memory(parts.program, constants)
        for region, array in zip(parts.program.inputs, arrays, strict=True):
            self._memory.roots[region.name] = _bytes(array)
        for region in parts.program.outputs:
            self._memory.roots[region.name] = aligned((as_int(region.nbytes),), np.dtype(np.uint8))
        main = source.lowered.main
        given = iter(arrays)
        values = {param: taken_from(param.type, given) for param in main.params}
        self._main = Frame(self.graph, main.body, values)

    def __iter__(self) -> Iterator[Step | Strayed]:
        program = self.parts.program
        yield from self._run(program.body, self._memory, self._main, ())
        self.results = [self._memory.array(r.name).copy() for r in program.outputs]

    def expected(self) -> list[Array]:
        """Returns the outputs by the graph: the values that kernels wrote for them."""
        return flat(self._main.result())

    def _run(
        self, body: Sequence[Instr], memory: _Memory, frame: Frame, where: tuple[Iteration, ...]
    ) -> Iterator[Step | Strayed]:
        """Runs a body of the program, which is the graph's block of ``frame``."""
        for instr in body:
            match instr:
                case Alloc() | Free() | Alias():
                    pass
                case Copy(source, target):
                    memory.bytes_of(target)[...] = memory.bytes_of(source)
                case Swap(one, other):
                    memory.swap(one, other)
                case SetSize():
                    raise SymbolicSizeError(
                        f"steps of a program are run at constant sizes; data decides {instr.size}",
                        hint=None,
                        span=instr.span,
                    )
                case Call():
                    yield self._step(instr, memory, frame, where)
                case Library():
                    self._call_library(instr, memory, frame)
                case If() | While() | For() | Invoke():
                    yield from self._nested(instr, memory, frame, where)

    def _call_library(self, call: Library, memory: _Memory, frame: Frame) -> None:
        """Calls a library function, whose results are taken to be right."""
        arrays = [memory.array(o.name) for o in call.operands]
        count = sum(o.access is Access.IN for o in call.operands)
        binding = frame.next_library_call(library_name(call.function), arrays[:count])
        library_function(call.function).bind(dict(call.options), count)(*arrays)
        results = (a.copy() for a in arrays[count:])
        frame.values[binding.var] = taken_from(binding.var.type, results)

    def _nested(
        self,
        instr: If | While | For | Invoke,
        memory: _Memory,
        frame: Frame,
        where: tuple[Iteration, ...],
    ) -> Iterator[Step | Strayed]:
        """Runs a branch, loop or function. Where it calls no kernel, there is nothing to tell of
        the values inside, and it is only done to memory."""
        called = self._kernels_in(instr)
        binding = frame.next_nested(type(instr).__name__, called, instr.span) if called else None
        inside = Inside(frame, None if binding is None else binding.value)
        match instr:
            case If(condition, then, orelse):
                taken = bool(memory.array(condition))
                if binding is not None and taken != inside.condition():
                    yield Strayed(binding, where)
                inner = inside.branch(taken)
                yield from self._run(then if taken else orelse, memory, inner, where)
                inside.carry = inner
            case While(head, condition, body):
                for number in itertools.count():
                    here = (*where, Iteration(instr.span, number))
                    inner = inside.block(0)
                    yield from self._run(head, memory, inner, here)
                    taken = bool(memory.array(condition))
                    if binding is not None and taken != bool(inner.result()):
                        yield Strayed(binding, here)
                    if not taken:
                        break
                    inner = inside.block(1)
                    yield from self._run(body, memory, inner, here)
                    inside.carry = inner
            case For(index, extent, body):
                count = extent if isinstance(extent, int) else int(memory.array(extent))
                for number in range(count):
                    memory.array(index.name)[...] = number
                    inner = inside.block(0, np.asarray(number, np.int64))
                    here = (*where, Iteration(instr.span, number))
                    yield from self._run(body, memory, inner, here)
                    inside.carry = inner
            case Invoke(function, operands):
                program = self._scopes[function]
                callee = _Memory(program, memory.roots)
                for (region, _), operand in zip(program.params, operands, strict=True):
                    callee.roots[region.name] = memory.bytes_of(operand.name)
                inner = inside.function()
                here = (*where, Iteration(instr.span, function=function))
                yield from self._run(program.body, callee, inner, here)
                inside.carry = inner
        if binding is not None:
            frame.values[binding.var] = inside.result()

    def _kernels_in(self, instr: Instr) -> set[str]:
        """Returns the kernels that an instruction calls, or functions that it invokes."""
        kernels: set[str] = set()
        work: list[tuple[Instr, ...]] = [(instr,)]
        seen: set[str] = set()
        while work:
            for inner in walk(work.pop()):
                if isinstance(inner, Call):
                    kernels.add(inner.kernel)
                elif isinstance(inner, Library):
                    kernels.add(library_name(inner.function))
                elif isinstance(inner, Invoke) and inner.function not in seen:
                    seen.add(inner.function)
                    work.append(self._scopes[inner.function].body)
        return kernels

    def _step(
        self, call: Call, memory: _Memory, frame: Frame, where: tuple[Iteration, ...]
    ) -> Step:
        kernel = self.parts.kernels[call.kernel]
        operands = [memory.array(o.name) for o in call.operands]
        binding, inputs, spoilt = frame.next_call(call.kernel, kernel, operands)
        workspace = None if call.workspace is None else memory.bytes_of(call.workspace)
        call_kernel(kernel, operands, workspace, self.parts.target, self.parts.threads)
        outs = [a.copy() for o, a in zip(kernel.operands, operands, strict=True) if o.role.writes]
        frame.values[binding.var] = taken_from(binding.var.type, iter(outs))
        group = self.graph.module.functions[call.kernel]
        if not isinstance(group, Function):
            group = _only_call(binding)
        outputs = tuple(flat(frame.values[binding.var]))
        return Step(binding, call.kernel, group, tuple(inputs), tuple(spoilt), outputs, where)


def _only_call(binding: Binding) -> Function:
    """Returns a group that only calls the kernel which ``binding`` calls."""
    call = binding.value
    assert isinstance(call, GraphCall)
    params = tuple(Var(f"p{n}", a.type) for n, a in enumerate(call.args))
    var = Var(binding.var.name, binding.var.type, binding.var.span)
    made = GraphCall(call.op, params, call.attrs, call.span)
    return Function(params, Block((Binding(var, made),), var))


class _Memory:
    """The memory of a program or one of its functions, by the names of its regions: ``roots`` are
    those that share no memory of another. It begins with those of ``shared`` that are constants,
    and has an arena of its own."""

    def __init__(self, program: Program, shared: Mapping[str, Array]) -> None:
        self._regions = regions(program)
        self._places = places(program)
        constants = (c.region.name for c in program.constants)
        self.roots: dict[str, Array] = {name: shared[name] for name in constants}
        arena = aligned((as_int(program.scratch),), np.dtype(np.uint8))
        for instr in walk(program.body):
            if isinstance(instr, Alloc) and instr.offset is not None:
                begin = as_int(instr.offset)
                end = begin + as_int(instr.region.nbytes)
                self.roots[instr.region.name] = arena[begin:end]
            elif isinstance(instr, Alloc | For):
                region = instr.region if isinstance(instr, Alloc) else instr.index
                self.roots[region.name] = aligned((as_int(region.nbytes),), np.dtype(np.uint8))

    def swap(self, one: str, other: str) -> None:
        a, b = self._places[one].root, self._places[other].root
        self.roots[a], self.roots[b] = self.roots[b], self.roots[a]

    def bytes_of(self, name: str) -> Array:
        place = self._places[name]
        return self.roots[place.root][place.begin : place.end]

    def array(self, name: str) -> Array:
        region = self._regions[name]
        return (
            self.bytes_of(name).view(region.dtype.numpy).reshape(tuple(map(as_int, region.shape)))
        )


def _bytes(array: Array) -> Array:
    memory = aligned((array.nbytes,), np.dtype(np.uint8))
    memory[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memory

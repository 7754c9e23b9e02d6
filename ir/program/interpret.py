"""The meaning of a program, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np

from ..dataclass import dataclass
from ..dims import IntExpr, as_int, evaluate
from ..dtype import Array
from ..errors import InternalError, LoopwrightValueError
from ..library.lookup import library_function
from ..size_table import Misfit
from ..window import dense_offset
from . import nodes
from .analysis import at_sizes, largest, places, regions, scopes, size_table

Kernel: TypeAlias = Callable[..., None]
"""Called with one array per operand, then the workspace (uint8) if there is one, then its sizes;
writes its outputs and workspace, as the native kernel does."""

MOST_FRAMES = 100_000
"""Functions that may run inside of one another; so many are an error of the call."""

_POISON = 0xA5


def interpret(
    program: nodes.Program,
    inputs: Sequence[Array],
    kernels: Mapping[str, Kernel],
    constants: Mapping[str, Array] | None = None,
    update: bool = False,
    deepest: int = MOST_FRAMES,
) -> list[Array]:
    """Run the program and return the arrays of its outputs.

    ``constants`` are values by name, which replace those in the program. With ``update`` the
    inputs, which have to be dense then, get their new values. Raises RecursionError if more than
    ``deepest`` functions run inside of one another, and TypeError for inputs that do not fit.

    Allocations are filled with a pattern before and after their lifetime, and a planned program
    runs in one arena, so that a wrong lifetime or plan changes the result.
    """
    table = size_table(program)
    if table is not None:
        values_of_sizes = table.values([array.shape for array in inputs])
        if isinstance(values_of_sizes, Misfit):
            raise TypeError(str(values_of_sizes))
        program = at_sizes(program, values_of_sizes)
    values: dict[str, Array] = {}
    for constant in program.constants:
        value = (constants or {}).get(constant.region.name, constant.value)
        if value is None:
            raise InternalError(f"the constant {constant.region} has no value")
        values[constant.region.name] = _bytes(value)
    memory = dict(values)
    for region, array in zip(program.inputs, inputs, strict=True):
        if array.shape != region.shape or array.dtype != region.dtype.numpy:
            raise TypeError(f"{region} was given {array.dtype}{list(array.shape)}")
        memory[region.name] = _viewed(array) if update else _bytes(array)
    for region in largest(program, program.outputs):
        memory[region.name] = _poisoned(_nbytes(region))
    updates = program.updates if update else ()
    shapes = {r.name: r for r in program.inputs}
    for one in updates:
        if one.in_place:
            begin = dense_offset(shapes[one.target].shape, one.window)
            assert begin is not None
            begin = as_int(begin) * shapes[one.target].dtype.bytes
            size = memory[one.source].size
            memory[one.source] = memory[one.target][begin : begin + size]
    main, *functions = scopes(program)
    frame = _Frame(_Code(main), memory, _poisoned(as_int(program.scratch)))
    _run(frame, _Functions(functions), values, kernels, deepest)
    for one in updates:
        if not one.in_place:
            window = one.window or ()
            key = tuple(
                slice(as_int(b), as_int(b) + (as_int(n) - 1) * s + 1, s) for b, s, n in window
            )
            frame.array(one.target)[key] = frame.array(one.source)
    return [frame.array(r.name) for r in program.outputs]


@dataclass(frozen=True, slots=True)
class _Jump:
    """Goes on at step ``target``: always, or if a condition is false, or if a loop is at its end.
    A jump back to the test of a loop counts its index."""

    target: int
    unless: str | None = None
    ended: nodes.For | None = None
    counted: nodes.For | None = None


_Step: TypeAlias = (
    nodes.Alloc
    | nodes.Free
    | nodes.Alias
    | nodes.SetSize
    | nodes.Call
    | nodes.Library
    | nodes.Copy
    | nodes.Swap
    | nodes.Invoke
    | nodes.For
    | _Jump
)


class _Code:
    """A program as steps and jumps. A ``For`` among the steps begins that loop."""

    def __init__(self, scope: nodes.Program) -> None:
        self.scope = scope
        self.places = places(scope)
        self.regions = regions(scope)
        self.steps: list[_Step] = []
        self.body(scope.body)

    def body(self, body: Sequence[nodes.Instr]) -> None:
        for instr in body:
            if isinstance(instr, nodes.If | nodes.While | nodes.For):
                self.nested(instr)
            else:
                self.steps.append(instr)

    def nested(self, instr: nodes.If | nodes.While | nodes.For) -> None:
        match instr:
            case nodes.If(condition, then, orelse):
                test = self.jump()
                self.body(then)
                end = self.jump()
                self.steps[test] = _Jump(len(self.steps), unless=condition)
                self.body(orelse)
                self.steps[end] = _Jump(len(self.steps))
            case nodes.While(head, condition, body):
                begin = len(self.steps)
                self.body(head)
                test = self.jump()
                self.body(body)
                self.steps.append(_Jump(begin))
                self.steps[test] = _Jump(len(self.steps), unless=condition)
            case nodes.For(_, _, body):
                self.steps.append(instr)
                test = self.jump()
                self.body(body)
                self.steps.append(_Jump(test, counted=instr))
                self.steps[test] = _Jump(len(self.steps), ended=instr)

    def jump(self) -> int:
        """Makes room for a jump whose target is yet to come."""
        self.steps.append(_Jump(0))
        return len(self.steps) - 1


class _Functions:
    """The functions of a program, each for the sizes it is invoked with."""

    def __init__(self, scopes: Sequence[nodes.Program]) -> None:
        self.scopes = {scope.name: scope for scope in scopes}
        self.codes: dict[tuple[str, tuple[IntExpr, ...]], _Code] = {}

    def code(self, invoke: nodes.Invoke) -> _Code:
        code = self.codes.get((invoke.function, invoke.sizes))
        if code is None:
            scope = self.scopes[invoke.function]
            values = zip((s.name for s in scope.sizes), invoke.sizes, strict=True)
            code = _Code(at_sizes(scope, dict(values)))
            self.codes[invoke.function, invoke.sizes] = code
        return code


@dataclass(slots=True)
class _Frame:
    """A run of a program or function: the bytes of each root, and the step that comes next."""

    code: _Code
    memory: dict[str, Array]
    arena: Array
    extents: dict[str, int] = field(default_factory=dict[str, int])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    next: int = 0

    def at(self, expr: IntExpr) -> int:
        """The value of an expression over the sizes that have been set."""
        return evaluate(expr, self.sizes)

    def nbytes(self, region: nodes.Region) -> int:
        return self.at(region.nbytes)

    def bytes(self, name: str) -> Array:
        place = self.code.places[name]
        return self.memory[place.root][self.at(place.begin) : self.at(place.end)]

    def array(self, name: str) -> Array:
        region = self.code.regions[name]
        return self.bytes(name).view(region.dtype.numpy).reshape([self.at(s) for s in region.shape])

    def jumps(self, jump: _Jump) -> bool:
        if jump.unless is not None:
            return not self.array(jump.unless)
        if jump.ended is not None:
            index = jump.ended.index.name
            return int(self.array(index)) >= self.extents[index]
        if jump.counted is not None:
            self.array(jump.counted.index.name)[...] += 1
        return True


def _run(
    frame: _Frame,
    functions: _Functions,
    constants: Mapping[str, Array],
    kernels: Mapping[str, Kernel],
    deepest: int,
) -> None:
    """Runs a frame to its end. Functions run in frames of a list, so that the depth of Python's
    own stack is not that of the program."""
    frames = [frame]
    while frames:
        frame = frames[-1]
        if frame.next == len(frame.code.steps):
            frames.pop()
            continue
        step = frame.code.steps[frame.next]
        frame.next += 1
        match step:
            case _Jump(target):
                if frame.jumps(step):
                    frame.next = target
            case nodes.Alloc(region, offset):
                nbytes = frame.nbytes(region)
                if offset is None:
                    frame.memory[region.name] = _poisoned(nbytes)
                else:
                    begin = as_int(offset)
                    frame.memory[region.name] = frame.arena[begin : begin + nbytes]
                    frame.memory[region.name][...] = _POISON
            case nodes.Free(name):
                frame.memory.pop(name)[...] = _POISON
            case nodes.Alias():
                pass
            case nodes.SetSize(size, count, most):
                value = int(frame.array(count))
                if not 0 <= value <= frame.at(most):
                    raise LoopwrightValueError(
                        f"{size} is {value}, and at most {frame.at(most)}", span=step.span
                    )
                frame.sizes[size.name] = value
            case nodes.Copy(source, target):
                frame.bytes(target)[...] = frame.bytes(source)
            case nodes.Swap(one, other):
                memory = frame.memory
                memory[one], memory[other] = memory[other], memory[one]
            case nodes.For(index, extent):
                frame.memory[index.name] = np.zeros(_nbytes(index), np.uint8)
                count = extent if isinstance(extent, int) else int(frame.array(extent))
                if step.most is not None and count > step.most:
                    raise InternalError(f"there are {count} iterations: {step}")
                frame.extents[index.name] = count
            case nodes.Call(kernel, operands, workspace):
                for stated in step.ranges:
                    value = frame.array(stated.name)
                    if not stated.low <= value <= stated.high:
                        raise InternalError(f"%{stated.name} is {value}: {step}")
                arrays = [frame.array(o.name) for o in operands]
                extra = [] if workspace is None else [frame.array(workspace)]
                kernels[kernel](*arrays, *extra, *map(frame.at, step.sizes))
            case nodes.Library(function, operands, options):
                arrays = [frame.array(o.name) for o in operands]
                count = sum(o.access is nodes.Access.IN for o in operands)
                library_function(function).bind(dict(options), count)(*arrays)
            case nodes.Invoke(function):
                if len(frames) > deepest:
                    raise RecursionError(f"@{function} runs {deepest} times inside of itself")
                step = replace(step, sizes=tuple(map(frame.at, step.sizes)))
                frames.append(_invoked(frame, step, functions.code(step), constants))


def _invoked(
    frame: _Frame, invoke: nodes.Invoke, code: _Code, constants: Mapping[str, Array]
) -> _Frame:
    """The frame of a function: its arena is a region of the caller, or new."""
    memory = dict(constants)
    for (param, _), operand in zip(code.scope.params, invoke.operands, strict=True):
        memory[param.name] = frame.bytes(operand.name)
        if operand.access is nodes.Access.OUT:
            memory[param.name][...] = _POISON
    if invoke.frame is None:
        return _Frame(code, memory, _poisoned(as_int(code.scope.scratch)))
    arena = frame.bytes(invoke.frame)
    arena[...] = _POISON
    return _Frame(code, memory, arena)


def _nbytes(region: nodes.Region) -> int:
    return as_int(region.nbytes)


def _bytes(array: Array) -> Array:
    return np.array(array, order="C").reshape(-1).view(np.uint8)


def _viewed(array: Array) -> Array:
    if not array.flags.c_contiguous:
        raise TypeError("an array that is updated has to be dense")
    return array.reshape(-1).view(np.uint8)


def _poisoned(nbytes: int) -> Array:
    return np.full(nbytes, _POISON, np.uint8)

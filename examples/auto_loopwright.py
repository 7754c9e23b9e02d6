"""A whole tracing and tuning compiler in one file, to be read before the large one.

It does what Loopwright does, for float32 arrays, in the same order and the same words::

    graph      what is computed: values, each an operator applied to other values
    tracer     a Python function, run once on proxies, becomes a graph
    fusion     operators become kernels: what one element of a result is
    schedule   how a kernel's loops are split, ordered, unrolled and vectorised, as data
    nest       the schedule applied to the kernel; an interpreter says what it means
    code       the nest as LLVM text, and the function that LLVM makes of it
    space      all schedules of a kernel as rows of integers, and features of them
    search     a model picks candidates, they are measured, the model learns
    log        the fastest schedules, as JSON lines, for the next process
    face       ``@compile``, and ``tune``

``python examples/auto_loopwright.py`` prints one program at every level, tunes it, and compares it
with NumPy (on one thread with OPENBLAS_NUM_THREADS=1). What the large one has beyond: more dtypes
and operators, sizes that are not known while compiling, remainders of loops, memory planning,
threads, errors that name the user's line, candidates that run in processes of their own, and code
that is as fast as the machine.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numpy as np
import xgboost

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]

# ---- The graph ----------------------------------------------------------------------------------

# Elementwise operators: the NumPy function that says what they mean. Code has one line for each.
ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "exp": np.exp,
}

# Reductions of the last axis, which stays with size 1: NumPy's function, the operator that combines
# two elements, and the value to begin with. A matrix product is a sum, too.
REDUCTIONS: dict[str, tuple[Callable[..., Any], str, float]] = {
    "sum": (np.sum, "add", 0.0),
    "max": (np.max, "maximum", -math.inf),
    "matmul": (np.matmul, "add", 0.0),
}


@dataclass(frozen=True, eq=False)
class Value:
    """An operator applied to ``args``, or an array that is there: a parameter, or a constant with
    ``data``. Two values are the same only if they are the same object."""

    name: str
    shape: Shape
    op: str | None = None
    args: tuple[Value, ...] = ()
    data: Array | None = None


@dataclass(frozen=True)
class Graph:
    """``values`` in an order in which they can be computed; the last one is the result."""

    params: tuple[Value, ...]
    values: tuple[Value, ...]

    def __str__(self) -> str:
        lines = [f"  %{v.name} = {v.op}({', '.join('%' + a.name for a in v.args)})  # {_type(v)}"
                 for v in self.values]  # fmt: skip
        params = ", ".join(f"%{p.name}: {_type(p)}" for p in self.params)
        return "\n".join([f"def @main({params}) {{", *lines, "}"])


def _type(value: Value) -> str:
    return f"float32[{', '.join(map(str, value.shape))}]"


def apply(op: str, args: Sequence[Value], name: str) -> Value:
    """Returns ``op`` applied to ``args``, which is how all values come to be: the shape is checked.

    Raises TypeError if the shapes do not fit.

    >>> x = Value("x", (4, 3))
    >>> apply("matmul", [x, Value("w", (3, 8))], "y").shape, apply("sum", [x], "s").shape
    ((4, 8), (4, 1))
    """
    shapes = [a.shape for a in args]
    if op == "matmul":
        if any(len(s) != 2 for s in shapes) or shapes[0][1] != shapes[1][0]:
            raise TypeError(f"matmul: inner sizes differ: {shapes[0]} @ {shapes[1]}")
        return Value(name, (shapes[0][0], shapes[1][1]), op, tuple(args))
    if op in REDUCTIONS:
        return Value(name, (*shapes[0][:-1], 1), op, tuple(args))
    try:
        return Value(name, np.broadcast_shapes(*shapes), op, tuple(args))
    except ValueError:
        raise TypeError(
            f"{op}: shapes do not broadcast: {' and '.join(map(str, shapes))}"
        ) from None


def evaluate(graph: Graph, arrays: Sequence[Array]) -> Array:
    """The meaning of a graph, by NumPy, value by value: the oracle of all that follows."""
    held: dict[Value, Array] = dict(zip(graph.params, arrays))
    for value in graph.values:
        args = [held[a] if a.data is None else a.data for a in value.args]
        held[value] = _numpy(value.op or "", args)
    return held[graph.values[-1]]


def _numpy(op: str, args: Sequence[Array]) -> Array:
    if op in ("sum", "max"):
        return REDUCTIONS[op][0](args[0], axis=-1, keepdims=True)
    return np.asarray((ELEMENTWISE.get(op) or REDUCTIONS[op][0])(*args), np.float32)


# ---- The tracer ---------------------------------------------------------------------------------


class Proxy(np.lib.mixins.NDArrayOperatorsMixin):
    """An array without elements: what NumPy's functions do to it is written down in a trace."""

    def __init__(self, value: Value, trace: Trace) -> None:
        self.value, self._trace = value, trace

    @property
    def shape(self) -> Shape:
        return self.value.shape

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Proxy:
        if method != "__call__" or options or ufunc.__name__ not in (*ELEMENTWISE, "matmul"):
            raise TypeError(f"np.{ufunc.__name__} ({method}) is none of {', '.join(ELEMENTWISE)}")
        return self._trace.emit(ufunc.__name__, *args)

    def __array_function__(self, function: Any, _types: Any, args: Any, options: Any) -> Any:
        names = {np.sum: "sum", np.max: "max"}
        if function not in names:
            raise TypeError(f"np.{function.__name__} is not known here")
        return self._reduced(names[function], *args[1:], **options)

    def sum(self, axis: int | None = None, keepdims: bool = False) -> Proxy:
        return self._reduced("sum", axis, keepdims)

    def max(self, axis: int | None = None, keepdims: bool = False) -> Proxy:
        return self._reduced("max", axis, keepdims)

    def _reduced(self, op: str, axis: int | None = None, keepdims: bool = False) -> Proxy:
        if axis not in (-1, len(self.shape) - 1) or not keepdims:
            raise TypeError(f"{op} takes axis=-1, keepdims=True here")
        return self._trace.emit(op, self)


@dataclass
class Trace:
    """The values of a function that runs on proxies. Arrays from outside become constants."""

    values: list[Value] = field(default_factory=list[Value])
    constants: list[tuple[Array, Value]] = field(default_factory=list[tuple[Array, Value]])

    def emit(self, op: str, *operands: Any) -> Proxy:
        args = [o.value if isinstance(o, Proxy) else self._constant(o) for o in operands]
        self.values.append(apply(op, args, str(len(self.values))))
        return Proxy(self.values[-1], self)

    def _constant(self, operand: Any) -> Value:
        data = np.array(operand, np.float32)
        self.constants.append((data, Value(f"c{len(self.constants)}", data.shape, data=data)))
        return self.constants[-1][1]


def trace(function: Callable[..., Any], shapes: Sequence[Shape]) -> Graph:
    """Runs ``function`` once, on proxies of the given shapes.

    >>> print(trace(lambda x: np.exp(x) * 2, [(3,)]))
    def @main(%x: float32[3]) {
      %0 = exp(%x)  # float32[3]
      %1 = multiply(%0, %c0)  # float32[3]
    }
    """
    names = [*inspect.signature(function).parameters]
    params = tuple(Value(name, shape) for name, shape in zip(names, shapes))
    run = Trace()
    result = function(*(Proxy(param, run) for param in params))
    if not isinstance(result, Proxy) or result.value is not run.values[-1]:
        raise TypeError("the function has to return the last array that it computes")
    return Graph(params, tuple(run.values))


# ---- Fusion: operators become kernels -----------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """An element of a buffer; an axis of size 1 is read at None."""

    buffer: str
    index: tuple[str | None, ...]

    def __str__(self) -> str:
        return f"{self.buffer}[{', '.join(axis or '0' for axis in self.index)}]"


@dataclass(frozen=True)
class Apply:
    """An elementwise operator on elements."""

    op: str
    args: tuple[Expr, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Reduced:
    """The result of the kernel's reduction, at the element that is computed."""

    def __str__(self) -> str:
        return "t"


Expr: TypeAlias = Read | Apply | Reduced


@dataclass(frozen=True)
class Kernel:
    """``out[axes] = result``, where ``t`` in the result is a reduction of ``body`` over axis k.

    Equal kernels have equal text, whatever the values were called: the log goes by it.
    """

    axes: tuple[tuple[str, int], ...]  # of the output, then k
    buffers: tuple[tuple[str, Shape], ...]  # operands, then "out"
    result: Expr
    reduction: str | None = None
    body: Expr | None = None

    @property
    def extents(self) -> dict[str, int]:
        return dict(self.axes)

    @property
    def out(self) -> tuple[str, ...]:
        return tuple(axis for axis, _ in self.axes if axis != "k")

    def __str__(self) -> str:
        buffers = ", ".join(f"{name}: float32{list(shape)}" for name, shape in self.buffers)
        reduction = f"  t = {self.reduction}(k: {self.extents.get('k')}) {self.body}\n"
        head = f"kernel({buffers}) over {dict(self.axes)} {{\n{reduction if self.body else ''}"
        return f"{head}  {Read('out', self.out)} = {self.result}\n}}"


@dataclass(frozen=True)
class Call:
    """A kernel, and the values that are its operands and its output."""

    kernel: Kernel
    operands: tuple[Value, ...]
    output: Value


def fuse(graph: Graph) -> list[Call]:
    """Groups operators so that few values are written to memory.

    An elementwise operator goes into the kernel of its only reader. A reduction begins a kernel,
    which the elementwise operators behind it join as long as they have its shape: one kernel has
    one reduction. What a matrix product reads is in memory, as it reads every element many times.
    """
    readers: dict[Value, list[Value]] = {v: [] for v in graph.values}
    for value, arg in ((v, a) for v in graph.values for a in v.args if a.op):
        readers[arg].append(value)
    carried: dict[Value, Value | None] = {}  # the reduction inside of a value's kernel
    written = [graph.values[-1]]
    for value in graph.values:
        inside: Value | None = value if value.op in REDUCTIONS else None
        for arg in (a for a in value.args if a.op):
            joins = len(readers[arg]) == 1 and value.op != "matmul"
            if carried[arg] is not None:
                joins = joins and inside is None and arg.shape == value.shape
            if joins:
                inside = inside or carried[arg]
            else:
                written.append(arg)
        carried[value] = inside
    return [_call(value, written) for value in graph.values if value in written]


def _call(output: Value, written: Sequence[Value]) -> Call:
    """Returns the kernel of a value: everything up to values that are in memory."""
    operands: list[Value] = []
    reductions: list[tuple[str, Expr, int]] = []

    def read(value: Value, index: Sequence[str | None]) -> Read:
        if value not in operands:
            operands.append(value)
        axes = zip(index[len(index) - len(value.shape) :], value.shape)
        return Read(f"x{operands.index(value)}", tuple(a if n > 1 else None for a, n in axes))

    def element(value: Value, index: Sequence[str | None]) -> Expr:
        if value.op is None or (value in written and value is not output):
            return read(value, index)
        if value.op in ELEMENTWISE:
            return Apply(value.op, tuple(element(arg, index) for arg in value.args))
        if value.op == "matmul":
            left, right = value.args
            factors = read(left, (index[0], "k")), read(right, ("k", index[1]))
            reductions.append((value.op, Apply("multiply", factors), left.shape[1]))
        else:
            inner = element(value.args[0], (*index[:-1], "k"))
            reductions.append((value.op, inner, value.args[0].shape[-1]))
        return Reduced()

    axes = [(axis, n) for axis, n in zip("ijlm", output.shape)]
    result = element(output, tuple(axis for axis, _ in axes))
    buffers = [(f"x{n}", value.shape) for n, value in enumerate(operands)]
    op, body, extent = reductions[0] if reductions else (None, None, 0)
    axes += [("k", extent)] * bool(reductions)
    kernel = Kernel(tuple(axes), (*buffers, ("out", output.shape)), result, op, body)
    return Call(kernel, tuple(operands), output)


# ---- Schedules ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Axis ``i`` becomes loops ``i.0`` and ``i.1``, the inner of ``factor`` iterations."""

    axis: str
    factor: int


@dataclass(frozen=True)
class Order:
    """The loops from the outermost to the innermost."""

    loops: tuple[str, ...]


@dataclass(frozen=True)
class Unroll:
    """The body of a loop is written out for every iteration."""

    loop: str


@dataclass(frozen=True)
class Vectorize:
    """A loop becomes one vector."""

    loop: str


Step: TypeAlias = Split | Order | Unroll | Vectorize
STEPS: dict[str, type[Step]] = {s.__name__.lower(): s for s in (Split, Order, Unroll, Vectorize)}


class ScheduleError(Exception):
    """A step that cannot be applied: the search reads it as "not in the space"."""


def to_json(schedule: Sequence[Step]) -> list[list[Any]]:
    return [[type(step).__name__.lower(), *vars(step).values()] for step in schedule]


def from_json(rows: Sequence[Sequence[Any]]) -> tuple[Step, ...]:
    """
    >>> schedule = (Split("i", 4), Order(("i.0", "i.1")), Vectorize("i.1"))
    >>> from_json(json.loads(json.dumps(to_json(schedule)))) == schedule
    True
    """
    made = [[tuple(v) if isinstance(v, list) else v for v in values] for _, *values in rows]
    return tuple(STEPS[row[0]](*values) for row, values in zip(rows, made))


# ---- Loop nests ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loop:
    """``axis`` goes on by ``stride`` in each of ``extent`` iterations."""

    name: str
    axis: str
    extent: int
    stride: int
    kind: str = "for"


@dataclass(frozen=True)
class Nest:
    """A kernel's loops. Those ``inside`` of the first loop over k compute a tile of results at a
    time, which registers hold; they are written out."""

    kernel: Kernel
    loops: tuple[Loop, ...]

    @property
    def outside(self) -> tuple[Loop, ...]:
        return tuple(itertools.takewhile(self._is_outside, self.loops))

    @property
    def reduced(self) -> tuple[Loop, ...]:
        return tuple(loop for loop in self.loops if loop.axis == "k")

    @property
    def tile(self) -> tuple[Loop, ...]:
        return tuple(x for x in self.loops if x.axis != "k" and x not in self.outside)

    def _is_outside(self, loop: Loop) -> bool:
        return loop.axis != "k" and loop.kind == "for"

    def __str__(self) -> str:
        kernel, lines = self.kernel, [str(self.kernel).partition("\n")[0]]
        sizes = [loop.extent for loop in self.tile]
        index = {a: "+".join(_times(x) for x in self.loops if x.axis == a) for a in kernel.extents}
        indent = 1
        for loop in self.loops:
            if kernel.body is not None and loop is self.reduced[0]:
                start = REDUCTIONS[kernel.reduction or ""][2]
                lines.append(f"{'  ' * indent}registers t{sizes} = {start}")
            lines.append(f"{'  ' * indent}{loop.kind} {loop.name} in {loop.extent}:")
            indent += 1
        if kernel.body is not None:
            combine = REDUCTIONS[kernel.reduction or ""][1]
            lines.append(f"{'  ' * indent}t = {combine}(t, {_at(kernel.body, index)})")
            indent = 1 + len(self.outside)
            for loop in self.tile:
                lines.append(f"{'  ' * indent}{loop.kind} {loop.name} in {loop.extent}:")
                indent += 1
        result = f"{_at(Read('out', kernel.out), index)} = {_at(kernel.result, index)}"
        return "\n".join([*lines, f"{'  ' * indent}{result}", "}"])


def _times(loop: Loop) -> str:
    return loop.name if loop.stride == 1 else f"{loop.stride}*{loop.name}"


def _at(expr: Expr, index: Mapping[str, str]) -> str:
    if isinstance(expr, Apply):
        return f"{expr.op}({', '.join(_at(arg, index) for arg in expr.args)})"
    if isinstance(expr, Read):
        return f"{expr.buffer}[{', '.join(index[axis] if axis else '0' for axis in expr.index)}]"
    return str(expr)


MOST_REGISTERS = 32  # vectors of a tile
MOST_WRITTEN_OUT = 256  # bodies


def apply_schedule(kernel: Kernel, schedule: Sequence[Step]) -> Nest:
    """Returns the loop nest that a schedule makes of a kernel. Raises ScheduleError."""
    loops = {axis: Loop(axis, axis, extent, 1) for axis, extent in kernel.axes}
    for step in schedule:
        if isinstance(step, Split):
            whole = loops.pop(step.axis, None)
            if whole is None or whole.extent % step.factor:
                raise ScheduleError(f"{step}: the factor does not divide the loop")
            outer = replace(
                whole, extent=whole.extent // step.factor, stride=step.factor * whole.stride
            )
            inner = replace(whole, extent=step.factor, name=f"{step.axis}.1")
            loops |= {"outer": replace(outer, name=f"{step.axis}.0"), inner.name: inner}
            loops[f"{step.axis}.0"] = loops.pop("outer")
        elif isinstance(step, Order):
            if {*step.loops} != {*loops}:
                raise ScheduleError(f"{step}: the loops are {', '.join(loops)}")
            loops = {name: loops[name] for name in step.loops}
        else:
            kind = "unroll" if isinstance(step, Unroll) else "vectorize"
            loops[step.loop] = replace(loops[step.loop], kind=kind)
    nest = Nest(kernel, tuple(loops.values()))
    _check(nest)
    return nest


def _check(nest: Nest) -> None:
    """Raises ScheduleError if a nest cannot be written as code."""
    written_out = [x for x in nest.loops if x.kind != "for"]
    tile = math.prod(x.extent for x in nest.tile if x.kind == "unroll")
    if any(x.kind == "for" for x in nest.tile) or tile > MOST_REGISTERS:
        raise ScheduleError("the tile is not written out, or takes too many registers")
    if math.prod(x.extent for x in written_out) > MOST_WRITTEN_OUT * 16:
        raise ScheduleError("there are too many bodies")
    for loop in (x for x in nest.loops if x.kind == "vectorize"):
        if loop is not nest.loops[-1] or loop.axis == "k" or loop.stride != 1:
            raise ScheduleError("a vector is the innermost loop, and none of k")
        for read in [*reads(nest.kernel), Read("out", nest.kernel.out)]:
            if loop.axis in read.index[:-1]:
                raise ScheduleError(f"the vector would gather elements of {read}")


def reads(kernel: Kernel) -> list[Read]:
    """Returns the reads of a kernel, those of its reduction first."""
    found: list[Read] = []
    work: list[Expr] = [e for e in (kernel.result, kernel.body) if e is not None]
    while work:
        expr = work.pop()
        if isinstance(expr, Read):
            found.append(expr)
        elif isinstance(expr, Apply):
            work += reversed(expr.args)
    return found


def interpret(nest: Nest, buffers: Mapping[str, Array]) -> None:
    """The meaning of a nest, loop by loop: slow, and the oracle of its code."""
    kernel = nest.kernel

    def value(expr: Expr, axes: Mapping[str, int], t: Any) -> Any:
        if isinstance(expr, Apply):
            return ELEMENTWISE[expr.op](*(value(arg, axes, t) for arg in expr.args))
        if isinstance(expr, Reduced):
            return t
        return buffers[expr.buffer][tuple(axes[a] if a else 0 for a in expr.index)]

    inner = nest.loops[len(nest.outside) :]
    for outer in _iterations(nest.outside):
        registers: dict[tuple[tuple[str, int], ...], Any] = {}
        for point in _iterations(inner) if kernel.body is not None else ():
            element = tuple((a, n) for a, n in point.items() if a != "k")
            axes = {a: outer.get(a, 0) + point.get(a, 0) for a in kernel.extents}
            _, combine, start = REDUCTIONS[kernel.reduction or ""]
            before = registers.get(element, np.float32(start))
            registers[element] = ELEMENTWISE[combine](before, value(kernel.body, axes, None))
        for point in _iterations(nest.tile):
            axes = {a: outer.get(a, 0) + point.get(a, 0) for a in kernel.out}
            t = registers.get(tuple(point.items()))
            buffers["out"][tuple(axes[a] for a in kernel.out)] = value(kernel.result, axes, t)


def _iterations(loops: Sequence[Loop]) -> Iterator[dict[str, int]]:
    """What the loops contribute to their axes, in every iteration."""
    for numbers in itertools.product(*(range(loop.extent) for loop in loops)):
        axes: dict[str, int] = dict.fromkeys((loop.axis for loop in loops), 0)
        for loop, n in zip(loops, numbers):
            axes[loop.axis] += loop.stride * n
        yield axes


# ---- Code ---------------------------------------------------------------------------------------

_OPERANDS = {"maximum": 2, "minimum": 2, "fma": 3, "rint": 1}  # of LLVM's intrinsic functions

Offset: TypeAlias = tuple[str, int]  # an LLVM value, and a constant beside it
Registers: TypeAlias = dict[tuple[int, ...], str]  # by the iterations of unrolled loops of the tile


class Emitter:
    """Writes a nest as a function in LLVM text, whose arguments are the kernel's buffers."""

    def __init__(self, nest: Nest) -> None:
        self.nest, self.kernel = nest, nest.kernel
        self.vector = next((x for x in nest.loops if x.kind == "vectorize"), None)
        self.type = f"<{self.vector.extent} x float>" if self.vector else "float"
        self.lines: list[str] = []
        self._names = itertools.count()

    def text(self) -> str:
        buffers = ", ".join(f"ptr noalias %{name}" for name, _ in self.kernel.buffers)
        start: dict[str, Offset] = dict.fromkeys(self.kernel.extents, ("0", 0))
        self._loops(self.nest.outside, start, {}, (), self._tile)
        body = "\n".join(f"  {line}" if line[-1] != ":" else line for line in self.lines)
        declared = sorted(
            {line.split(" @")[1].split("(")[0] for line in self.lines if "call" in line}
        )
        heads = [
            f"declare {self.type} @{name}({', '.join([self.type] * _OPERANDS[name.split('.')[1]])})"
            for name in declared
        ]
        return "\n".join(
            [*heads, f"define void @kernel({buffers}) {{", "entry:", body, "  ret void", "}", ""]
        )

    def _tile(self, axes: dict[str, Offset], _registers: Registers, _key: tuple[int, ...]) -> None:
        """One iteration of the outer loops: registers are set up, filled, and stored."""
        nest, registers = self.nest, Registers()
        if self.kernel.body is not None:
            tile = [range(x.extent) for x in nest.tile if x.kind == "unroll"]
            _, _, start = REDUCTIONS[self.kernel.reduction or ""]
            registers = {key: self._constant(start) for key in itertools.product(*tile)}
            self._loops(nest.loops[len(nest.outside) :], axes, registers, (), self._combine)
        self._loops(nest.tile, axes, registers, (), self._store)

    def _loops(
        self,
        loops: Sequence[Loop],
        axes: dict[str, Offset],
        registers: Registers,
        key: tuple[int, ...],
        body: Callable[[dict[str, Offset], Registers, tuple[int, ...]], None],
    ) -> None:
        """Writes loops around ``body``, which may change the registers."""
        if not loops:
            body(axes, registers, key)
            return
        loop, rest = loops[0], loops[1:]
        base, constant = axes[loop.axis]
        if loop.kind == "vectorize":
            self._loops(rest, axes, registers, key, body)
        elif loop.kind == "unroll":
            for n in range(loop.extent):
                moved = axes | {loop.axis: (base, constant + n * loop.stride)}
                self._loops(rest, moved, registers, key if loop.axis == "k" else (*key, n), body)
        else:
            self._loop(loop, rest, axes, registers, key, body)

    def _loop(
        self,
        loop: Loop,
        rest: Sequence[Loop],
        axes: dict[str, Offset],
        registers: Registers,
        key: tuple[int, ...],
        body: Callable[[dict[str, Offset], Registers, tuple[int, ...]], None],
    ) -> None:
        n, before = next(self._names), {k: next(self._names) for k in registers}
        self.lines += [f"br label %begin{n}", f"begin{n}:", f"br label %loop{n}", f"loop{n}:"]
        self.lines.append(f"%n{n} = phi i64 [ 0, %begin{n} ], [ %next{n}, %end{n} ]")
        phis = len(self.lines)
        begin = dict(registers)
        registers.update({k: f"%v{before[k]}" for k in registers})
        step = self._put(f"mul i64 %n{n}, {loop.stride}")
        base, constant = axes[loop.axis]
        moved = self._put(f"add i64 {base}, {step}")
        self._loops(rest, axes | {loop.axis: (moved, constant)}, registers, key, body)
        for k, after in registers.items():
            incoming = f"[ {begin[k]}, %begin{n} ], [ {after}, %end{n} ]"
            self.lines.insert(phis, f"%v{before[k]} = phi {self.type} {incoming}")
        self.lines += [f"br label %end{n}", f"end{n}:", f"%next{n} = add i64 %n{n}, 1"]
        self.lines.append(f"%more{n} = icmp ult i64 %next{n}, {loop.extent}")
        self.lines += [f"br i1 %more{n}, label %loop{n}, label %done{n}", f"done{n}:"]

    def _combine(self, axes: dict[str, Offset], registers: Registers, key: tuple[int, ...]) -> None:
        assert self.kernel.body is not None
        combine = REDUCTIONS[self.kernel.reduction or ""][1]
        value = self._value(self.kernel.body, axes, "")
        registers[key] = self._operator(combine, [registers[key], value])

    def _store(self, axes: dict[str, Offset], registers: Registers, key: tuple[int, ...]) -> None:
        value = self._value(self.kernel.result, axes, registers.get(key, ""))
        address = self._address(Read("out", self.kernel.out), axes)
        self.lines.append(f"store {self.type} {value}, ptr {address}, align 4")

    def _value(self, expr: Expr, axes: dict[str, Offset], t: str) -> str:
        if isinstance(expr, Apply):
            return self._operator(expr.op, [self._value(arg, axes, t) for arg in expr.args])
        if isinstance(expr, Reduced):
            return t
        address = self._address(expr, axes)
        if self.vector is None or self.vector.axis in expr.index:
            return self._put(f"load {self.type}, ptr {address}, align 4")
        return self._splat(self._put(f"load float, ptr {address}, align 4"))

    def _address(self, read: Read, axes: dict[str, Offset]) -> str:
        shape, total, constant = dict(self.kernel.buffers)[read.buffer], "0", 0
        for dim, axis in enumerate(read.index):
            if axis is not None:
                stride = math.prod(shape[dim + 1 :])
                base, more = axes[axis]
                total = self._put(f"add i64 {total}, {self._put(f'mul i64 {base}, {stride}')}")
                constant += more * stride
        moved = self._put(f"getelementptr float, ptr %{read.buffer}, i64 {total}")
        return self._put(f"getelementptr float, ptr {moved}, i64 {constant}")

    def _operator(self, op: str, args: list[str]) -> str:
        names = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
        if op in names:  # a product and a sum may be one instruction
            return self._put(f"{names[op]} contract {self.type} {', '.join(args)}")
        return self._exp(args[0]) if op == "exp" else self._call(op, *args)

    def _exp(self, x: str) -> str:
        """2 ** n * exp(r) for the whole number n nearest to x / log 2 and the small rest r."""
        x = self._call(
            "minimum", self._call("maximum", x, self._constant(-87.0)), self._constant(88.0)
        )
        n = self._call("rint", self._operator("multiply", [x, self._constant(1 / math.log(2))]))
        high, low = np.float32(0.693359375), np.float32(math.log(2) - 0.693359375)
        r = self._call("fma", n, self._constant(-float(high)), x)
        r = self._call("fma", n, self._constant(-float(low)), r)
        sum_ = self._constant(1 / math.factorial(7))
        for power in range(6, -1, -1):
            sum_ = self._call("fma", sum_, r, self._constant(1 / math.factorial(power)))
        ints = self.type.replace("float", "i32")
        whole = self._put(f"fptosi {self.type} {n} to {ints}")
        bits = self._put(f"shl {ints} {whole}, {self._each('i32', '23')}")
        found = self._put(f"add {ints} {bits}, {self._each('i32', str(127 << 23))}")
        return self._operator(
            "multiply", [sum_, self._put(f"bitcast {ints} {found} to {self.type}")]
        )

    def _call(self, name: str, *args: str) -> str:
        lanes = f"v{self.vector.extent}f32" if self.vector else "f32"
        operands = ", ".join(f"{self.type} {arg}" for arg in args)
        return self._put(f"call {self.type} @llvm.{name}.{lanes}({operands})")

    def _constant(self, value: float) -> str:
        (bits,) = np.array([np.float32(value)], np.float64).view(np.uint64)
        return self._each("float", f"0x{bits:016X}")

    def _each(self, type_: str, text: str) -> str:
        lanes = self.vector.extent if self.vector else 0
        return f"<{', '.join([f'{type_} {text}'] * lanes)}>" if lanes else text

    def _splat(self, scalar: str) -> str:
        assert self.vector is not None
        one = self._put(f"insertelement {self.type} poison, float {scalar}, i64 0")
        mask = f"<{self.vector.extent} x i32> zeroinitializer"
        return self._put(f"shufflevector {self.type} {one}, {self.type} poison, {mask}")

    def _put(self, text: str) -> str:
        name = f"%v{next(self._names)}"
        self.lines.append(f"{name} = {text}")
        return name


class Code:
    """The machine code of a nest, a function of addresses."""

    def __init__(self, nest: Nest) -> None:
        machine = _target_machine()
        module = llvm.parse_assembly(Emitter(nest).text())
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        llvm.create_pass_builder(machine, options).getModulePassManager().run(
            module, llvm.create_pass_builder(machine, options)
        )
        self._engine = llvm.create_mcjit_compiler(module, machine)  # it owns the code
        arguments = [ctypes.c_void_p] * len(nest.kernel.buffers)
        address = self._engine.get_function_address("kernel")
        self._function = ctypes.CFUNCTYPE(None, *arguments)(address)

    def __call__(self, *arrays: Array) -> None:
        self._function(*(array.ctypes.data for array in arrays))


def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=3)


# ---- The space ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """All schedules of a kernel that tile it for registers: a row holds an index of each knob's
    values. Populations are int arrays of rows, so that all of it works on whole arrays."""

    kernel: Kernel

    @functools.cached_property
    def knobs(self) -> dict[str, list[int]]:
        """Iterations of the tile along each axis, lanes of a vector, and how far k is unrolled."""
        extents, out = self.kernel.extents, self.kernel.out
        lanes = [n for n in (1, 4, 8, 16) if extents[out[-1]] % n == 0 and self._may_be_vector(n)]
        knobs = {axis: _divisors(extents[axis], 12) for axis in out[:-1]}
        knobs |= {"lanes": lanes, "vectors": _divisors(extents[out[-1]], 6)}
        return knobs | ({"k": _divisors(extents["k"], 8)} if "k" in extents else {})

    def _may_be_vector(self, lanes: int) -> bool:
        axis = self.kernel.out[-1]
        return lanes == 1 or not any(axis in read.index[:-1] for read in reads(self.kernel))

    @property
    def default(self) -> Array:
        """A tile of about 4 x 2 long vectors."""
        wanted = {"lanes": 16, "vectors": 2, "k": 1}
        row = [
            int(np.argmin(np.abs(np.array(values) - wanted.get(name, 4))))
            for name, values in self.knobs.items()
        ]
        rows = np.array([row, [0] * len(row)])  # the second has no tile: it always fits
        return rows[self.valid(rows)][:1]

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        sizes = [len(values) for values in self.knobs.values()]
        rows = rng.integers(0, sizes, (count, len(sizes)))
        return rows[self.valid(rows)]

    def mutate(self, rows: Array, rng: np.random.Generator) -> Array:
        """Returns the rows with one knob each moved by one value."""
        moved = rows.copy()
        each, knob = np.arange(len(rows)), rng.integers(0, rows.shape[1], len(rows))
        sizes = np.array([len(values) for values in self.knobs.values()])
        moved[each, knob] = np.clip(
            moved[each, knob] + rng.choice([-1, 1], len(rows)), 0, sizes[knob] - 1
        )
        return moved[self.valid(moved)]

    def values(self, rows: Array) -> dict[str, Array]:
        """The values of the knobs, int[P] each."""
        return {name: np.array(v)[rows[:, n]] for n, (name, v) in enumerate(self.knobs.items())}

    def valid(self, rows: Array) -> Array:
        """bool[P]: the tile fits the registers, and the axis its vectors."""
        values = self.values(rows)
        tile = math.prod([v for name, v in values.items() if name not in ("lanes", "k")])
        fits = self.kernel.extents[self.kernel.out[-1]] % (values["lanes"] * values["vectors"]) == 0
        return np.asarray(fits & (tile <= MOST_REGISTERS) & (tile * values.get("k", 1) <= 128))

    def features(self, rows: Array) -> Array:
        """float32[P, F]: logarithms of the knobs, of the tile, of loads for each body of it, and of
        how often the tile is computed."""
        values = self.values(rows)
        out = [v for name, v in values.items() if name not in ("lanes", "k")]
        tile = math.prod(out)
        loads = sum(tile // v for v in out)
        trips = math.prod(self.kernel.extents.values()) / (tile * values["lanes"])
        named = [*values.values(), tile, loads / tile, trips]
        return np.log2(np.stack([np.asarray(v, np.float32) for v in named], 1))

    def schedule(self, row: Array) -> tuple[Step, ...]:
        """The schedule of one row."""
        values = {name: int(v[0]) for name, v in self.values(row[None]).items()}
        *others, last = self.kernel.out
        steps: list[Step] = [Split(axis, values[axis]) for axis in others]
        steps += [
            Split(last, values["lanes"] * values["vectors"]),
            Split(f"{last}.1", values["lanes"]),
        ]
        steps += [Split("k", values["k"])] if "k" in values else []
        inner = [f"{axis}.1" for axis in others] + [f"{last}.1.0"]
        k = ["k.0", "k.1"] if "k" in values else []
        outer = [f"{axis}.0" for axis in (*others, last)]
        steps.append(Order((*outer, *k, *inner, f"{last}.1.1")))
        steps += [Unroll(loop) for loop in (*k[1:], *inner)]
        return (*steps, Vectorize(f"{last}.1.1") if values["lanes"] > 1 else Unroll(f"{last}.1.1"))


def _divisors(number: int, most: int) -> list[int]:
    return [n for n in range(1, most + 1) if number % n == 0]


# ---- The search ---------------------------------------------------------------------------------


class Model:
    """XGBoost, which learns the order of candidates from measured runs of all kernels so far."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, Array, float]] = []
        self._booster: xgboost.Booster | None = None

    def predict(self, features: Array) -> Array:
        """float[P], higher is faster; zeros while nothing is learned."""
        if self._booster is None:
            return np.zeros(len(features))
        return self._booster.predict(xgboost.DMatrix(_padded(features)))

    def update(self, kernel: int, features: Array, seconds: Sequence[float]) -> None:
        self._rows += [(kernel, row, s) for row, s in zip(_padded(features), seconds)]
        rows = sorted(self._rows, key=lambda row: row[0])
        best = {k: min(s for i, _, s in rows if i == k) for k, _, _ in rows}
        data = xgboost.DMatrix(
            np.stack([row for _, row, _ in rows]), [best[k] / s for k, _, s in rows]
        )
        settings = {"max_depth": 5, "eta": 0.2, "nthread": 1, "verbosity": 0}
        self._booster = xgboost.train(settings, data, 40)


def _padded(features: Array) -> Array:
    """Kernels of other ranks have fewer knobs: they share the last columns."""
    return np.pad(features, ((0, 0), (10 - features.shape[1], 0)), constant_values=np.nan)


def search(kernel: Kernel, trials: int, log: Log, model: Model, seed: int = 0) -> float:
    """Measures up to ``trials`` schedules of a kernel into the log; returns the least seconds.

    A batch is what the model rates best among mutations of the fastest and samples, and two of them
    by chance: the model has to see what it is wrong about.
    """
    space, rng = Space(kernel), np.random.default_rng(seed)
    batch = np.concatenate([space.default, space.sample(7, rng)])
    measured: dict[bytes, tuple[float, Array]] = {}
    while len(batch) and len(measured) < trials:
        batch = batch[: trials - len(measured)]
        seconds = [measure(kernel, space.schedule(row)) for row in batch]
        for row, took in zip(batch, seconds):
            log.append(kernel, space.schedule(row), took)  # before anything else can fail
            measured[row.tobytes()] = took, row
        model.update(hash(str(kernel)), space.features(batch), seconds)
        leaders = np.stack([row for _, row in sorted(measured.values(), key=lambda m: m[0])[:4]])
        near = space.mutate(np.repeat(leaders, 16, axis=0), rng)
        pool = np.unique(np.concatenate([near, space.sample(64, rng)]), axis=0)
        pool = pool[[row.tobytes() not in measured for row in pool]]
        ranked = pool[np.argsort(-model.predict(space.features(pool)), kind="stable")]
        batch = np.unique(np.concatenate([ranked[:6], rng.permutation(pool)[:2]]), axis=0)
    return min((took for took, _ in measured.values()), default=math.inf)


def measure(kernel: Kernel, schedule: Sequence[Step]) -> float:
    """Returns the seconds of a schedule's code, infinity if its results are wrong."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for _, shape in kernel.buffers]
    code = Code(apply_schedule(kernel, schedule))
    code(*arrays)
    wanted = reference(kernel, dict(zip((name for name, _ in kernel.buffers), arrays)))
    if not np.allclose(
        arrays[-1], wanted, rtol=1e-4, atol=1e-4 * kernel.extents.get("k", 1) ** 0.5
    ):
        return math.inf
    times: list[float] = []
    while len(times) < 5 or sum(times) < 2e-3:
        begun = time.perf_counter()
        code(*arrays)
        times.append(time.perf_counter() - begun)
    return min(times)


def reference(kernel: Kernel, buffers: Mapping[str, Array]) -> Array:
    """What a kernel computes, by NumPy on whole arrays."""

    def value(expr: Expr, t: Any) -> Any:
        if isinstance(expr, Apply):
            return ELEMENTWISE[expr.op](*(value(arg, t) for arg in expr.args))
        return t if isinstance(expr, Reduced) else buffers[expr.buffer]

    t: Any = None
    if kernel.reduction == "matmul":
        t = np.matmul(*(buffers[read.buffer] for read in reads(replace(kernel, result=Reduced()))))
    elif kernel.body is not None:
        function, _, _ = REDUCTIONS[kernel.reduction or ""]
        t = function(value(kernel.body, None), axis=-1, keepdims=True)
    return np.broadcast_to(value(kernel.result, t), dict(kernel.buffers)["out"])


# ---- The log ------------------------------------------------------------------------------------


@dataclass
class Log:
    """Measured runs: JSON lines, which are only ever appended to. ``path`` None: in memory."""

    path: Path | None = None
    lines: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            self.lines = self.path.read_text().splitlines()

    def append(self, kernel: Kernel, schedule: Sequence[Step], seconds: float) -> None:
        record = {"kernel": str(kernel), "cpu": llvm.get_host_cpu_name()}
        took = seconds if math.isfinite(seconds) else None
        self.lines.append(json.dumps(record | {"schedule": to_json(schedule), "seconds": took}))
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(self.lines[-1] + "\n")

    def best(self, kernel: Kernel) -> tuple[Step, ...] | None:
        """Returns the fastest schedule of a kernel on a CPU like ours; torn lines are skipped."""
        fastest: tuple[float, tuple[Step, ...] | None] = math.inf, None
        for line in self.lines:
            try:
                record = json.loads(line)
                alike = (record["kernel"], record["cpu"]) == (str(kernel), llvm.get_host_cpu_name())
                if alike and record["seconds"] is not None and record["seconds"] < fastest[0]:
                    schedule = from_json(record["schedule"])
                    apply_schedule(kernel, schedule)
                    fastest = record["seconds"], schedule
            except (ValueError, KeyError, TypeError, AttributeError, ScheduleError):
                continue
        return fastest[1]


# ---- The face -----------------------------------------------------------------------------------


class Compiled:
    """A function that is traced and compiled for each kind of arguments it meets."""

    def __init__(self, function: Callable[..., Any], log: Path | None = None) -> None:
        self.function, self.log, self._model = function, Log(log), Model()
        self._graphs: dict[tuple[Shape, ...], Graph] = {}
        self._known: dict[tuple[Shape, ...], list[tuple[Call, Code]]] = {}

    def __call__(self, *operands: Any) -> Array:
        arrays = [np.ascontiguousarray(operand, np.float32) for operand in operands]
        shapes = tuple(array.shape for array in arrays)
        if shapes not in self._known:
            self._known[shapes] = self._compile(shapes)
        held = dict(zip(self.graph(*shapes).params, arrays))
        for call, code in self._known[shapes]:
            held[call.output] = np.empty(call.output.shape, np.float32)
            read = [held[v] if v.data is None else v.data for v in call.operands]
            code(*read, held[call.output])
        return held[call.output]

    def graph(self, *shapes: Shape) -> Graph:
        if shapes not in self._graphs:
            self._graphs[shapes] = trace(self.function, shapes)
        return self._graphs[shapes]

    def kernels(self, *shapes: Shape) -> list[Call]:
        return fuse(self.graph(*shapes))

    def schedule(self, kernel: Kernel) -> tuple[Step, ...]:
        """The log's best schedule of a kernel, else the default."""
        return self.log.best(kernel) or Space(kernel).schedule(Space(kernel).default[0])

    def _compile(self, shapes: tuple[Shape, ...]) -> list[tuple[Call, Code]]:
        calls = self.kernels(*shapes)
        return [
            (call, Code(apply_schedule(call.kernel, self.schedule(call.kernel)))) for call in calls
        ]

    def tune(self, *arrays: Array, trials: int = 64) -> None:
        """Searches schedules for the kernels of a call with these arguments."""
        shapes = tuple(array.shape for array in arrays)
        for kernel in {str(c.kernel): c.kernel for c in self.kernels(*shapes)}.values():
            search(kernel, trials, self.log, self._model)
        self._known.pop(shapes, None)


def compile(function: Callable[..., Any] | None = None, *, log: Path | None = None) -> Any:
    """Makes a compiled function.

    >>> @compile
    ... def scaled(x):
    ...     return np.maximum(x * 2, 0)
    >>> scaled(np.array([1, -1]))
    array([2., 0.], dtype=float32)
    """
    return Compiled(function, log) if function else functools.partial(compile, log=log)


def main() -> None:
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((256, 512), np.float32) / 16, rng.standard_normal(512, np.float32)

    @compile
    def layer(x: Any) -> Any:
        scores = np.maximum(x @ w + b, 0)
        weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        return weights / np.sum(weights, axis=-1, keepdims=True)

    x = rng.standard_normal((256, 256), np.float32)
    print("graph\n-----\n", layer.graph(x.shape), "\n\nkernels\n-------", sep="")
    calls = layer.kernels(x.shape)
    print("\n".join(str(call.kernel) for call in calls))
    kernel = calls[0].kernel
    print("\nschedule\n--------", *layer.schedule(kernel), sep="\n")
    print(f"\nnest\n----\n{apply_schedule(kernel, layer.schedule(kernel))}\n")
    text = Emitter(apply_schedule(kernel, layer.schedule(kernel))).text()
    print("code\n----\n", "\n".join(text.splitlines()[:12]), "\n  ...\n", sep="")
    expected = evaluate(layer.graph(x.shape), [x])
    for label in ("untuned", "tuned"):
        error = np.abs(layer(x) - expected).max()
        print(f"{label:8} {1e6 * _seconds(lambda: layer(x)):7.0f} us, off by {error:.1e}")
        if label == "untuned":
            layer.tune(x)
    print(f"NumPy    {1e6 * _seconds(lambda: layer.function(x)):7.0f} us")


def _seconds(function: Callable[[], Any]) -> float:
    times: list[float] = []
    for _ in range(50):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return min(times)


if __name__ == "__main__":
    main()

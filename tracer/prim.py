"""``lw.prim``: functions at the level of loops, written as tensor expressions.

A function is run once, on operands without values. Each ``map`` or reduction in it makes a stage of
a PrimFunc. A call in a traced function emits the operators that a stage is read as (see
``prim_operators``), or one whose meaning is the stage.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeAlias, overload

import numpy as np

from ..ir.dims import Dim, IntExpr, linear, size_symbols, substitute, symbol, symbols
from ..ir.dtype import BOOL, DTYPES, FLOAT64, INT64, DType, dtype_of, promote
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.graph.nodes import GlobalVar
from ..ir.graph.requirements import require
from ..ir.graph.types import TensorType
from ..ir.graph.verify import signature_of
from ..ir.loop.evaluate import evaluate_prim
from ..ir.loop.expr import Expr, Read, cast, const, index, index_value, op, read, select, walk
from ..ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from ..ir.loop.scalar import COMBINERS, SCALAR_OPS
from ..ir.loop.simplify_prim import rename
from ..ir.loop.tensor import index_add, index_div, index_mod, index_mul, index_sub
from ..ir.loop.verify import verify_prim
from ..ir.loop.workload import workload_text
from ..ir.ops.stage import operator_of
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.steps import Schedule, Step, split
from .core.argument_specs import DTypeSpec, Spec
from .core.emitting import emit, lift
from .core.proxy import Proxy, run
from .core.trace import active
from .prim_operators import as_operators

Size: TypeAlias = "IntExpr | Scalar"
Element: TypeAlias = "Callable[..., Scalar | float | int]"


class Scalar:
    """One element: a value that is computed of elements, numbers and indices."""

    __slots__ = ("expr",)
    __array_ufunc__ = None

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __repr__(self) -> str:
        return str(self.expr)

    def __bool__(self) -> bool:
        raise LoopwrightTypeError(
            "an element has no value yet", hint="te.where(condition, a, b) instead of if"
        )

    def __neg__(self) -> Scalar:
        return apply("multiply", self, -1) if _is_weak(self) else apply("negative", self)

    def __abs__(self) -> Scalar:
        return apply("abs", self)

    def astype(self, dtype: Any) -> Scalar:
        """The value in another dtype."""
        return Scalar(cast(self.expr, _dtype(dtype)))

    def __getitem__(self, indices: Any) -> Scalar:
        raise LoopwrightTypeError("an element is not indexed")


_INDEX = {
    "add": index_add,
    "subtract": index_sub,
    "multiply": index_mul,
    "floor_divide": index_div,
    "floor_mod": index_mod,
}


def _operator(name: str) -> Callable[[Scalar, Any], Any]:
    def method(self: Scalar, other: Any) -> Any:
        return apply(name, self, other) if _is_scalar(other) else NotImplemented

    return method


def _reflected(name: str) -> Callable[[Scalar, Any], Any]:
    def method(self: Scalar, other: Any) -> Any:
        return apply(name, other, self) if _is_scalar(other) else NotImplemented

    return method


for _method, _name in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "floor_mod",
    "pow": "power",
    "and": "logical_and",
    "or": "logical_or",
}.items():
    setattr(Scalar, f"__{_method}__", _operator(_name))
    setattr(Scalar, f"__r{_method}__", _reflected(_name))
for _method, _name in {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}.items():
    setattr(Scalar, f"__{_method}__", _operator(_name))


def _is_scalar(value: object) -> bool:
    return isinstance(value, Scalar | bool | int | float | Dim | np.generic)


def _expr(value: Any, dtype: DType | None = None) -> Expr:
    """A value as an expression; Python's numbers, sizes and indices take ``dtype``."""
    if isinstance(value, Scalar):
        weak = index_value(value.expr) is not None
        return cast(value.expr, dtype) if weak and dtype is not None else value.expr
    if isinstance(value, Dim):
        return _expr(Scalar(index(value)), dtype)
    if isinstance(value, np.generic):
        return const(value.item(), dtype_of(value.dtype))
    if isinstance(value, bool):
        return const(value, BOOL)
    if isinstance(value, int):
        return const(value, dtype or INT64)
    if isinstance(value, float):
        return const(value, dtype if dtype is not None and dtype.is_float else FLOAT64)
    raise LoopwrightTypeError(f"{value!r} is not a number, an element or an index")


def _is_weak(value: Any) -> bool:
    if isinstance(value, Scalar):
        return index_value(value.expr) is not None
    return isinstance(value, int | float | Dim) and not isinstance(value, bool)


def apply(name: str, *operands: Any) -> Scalar:
    """Returns a scalar operator applied to elements and numbers, in NumPy's dtype for them."""
    plain: list[Any] = [index_value(o.expr) if isinstance(o, Scalar) else o for o in operands]
    if name in _INDEX and all(isinstance(p, int | Dim) and not isinstance(p, bool) for p in plain):
        value = _INDEX[name](*plain)
        assert isinstance(value, int | Dim)
        return Scalar(index(value))
    strong = [_expr(o).dtype for o in operands if not _is_weak(o)]
    dtype = functools.reduce(promote, strong) if strong else None
    floats = any(isinstance(o, float) for o in operands)
    if dtype is None:
        dtype = FLOAT64 if floats else INT64
    elif floats and not dtype.is_float:
        dtype = FLOAT64
    if SCALAR_OPS[name].kinds == "f" and not dtype.is_float:
        dtype = FLOAT64
    return Scalar(op(name, *(cast(_expr(o, dtype), dtype) for o in operands)))


def where(condition: Scalar, then: Any, orelse: Any) -> Scalar:
    """``then`` where the condition holds; reads in the branch that is not taken are not made.

    >>> @lw.prim
    ... def f(x: lw.f32[2]):
    ...     return lw.te.map((2,), lambda i: lw.te.where(x[i] > 1, x[i], 0))
    >>> f(np.float32([1, 2])).tolist()
    [0.0, 2.0]
    """
    strong = [_expr(o).dtype for o in (then, orelse) if not _is_weak(o)]
    default = FLOAT64 if any(isinstance(o, float) for o in (then, orelse)) else INT64
    dtype = functools.reduce(promote, strong) if strong else default
    a, b = (cast(_expr(o, dtype), dtype) for o in (then, orelse))
    return Scalar(select(condition.expr, a, b))


def _dtype(dtype: Any) -> DType:
    return DTYPES[dtype] if isinstance(dtype, str) else dtype_of(np.dtype(dtype))


class Operand:
    """A parameter or a stage; indexed with one index per axis, it is an element."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes: ints, and what stands for symbolic ones."""
        return tuple(s if isinstance(s, int) else Scalar(index(s)) for s in self.buffer.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.buffer.dtype.numpy

    def __getitem__(self, indices: Any) -> Scalar:
        places = indices if isinstance(indices, tuple) else (indices,)
        if len(places) != len(self.buffer.shape):
            raise LoopwrightTypeError(
                f"{self.buffer} has {len(self.buffer.shape)} indices, not {len(places)}"
            )
        plain = [p.expr if isinstance(p, Scalar) else p for p in places]
        return Scalar(read(self.buffer.name, plain, self.buffer.dtype))


_STAGES: ContextVar[list[Stage] | None] = ContextVar("stages", default=None)
_NAMES: ContextVar[frozenset[str]] = ContextVar("names", default=frozenset())
"""The names of parameters and sizes, which no axis has."""


def _sizes(shape: Any) -> tuple[IntExpr, ...]:
    given = shape if isinstance(shape, tuple | list) else (shape,)
    sizes = [index_value(s.expr) if isinstance(s, Scalar) else s for s in given]
    for size in sizes:
        if not isinstance(size, int | Dim):
            raise LoopwrightTypeError(f"a shape of sizes, not {shape!r}")
    return tuple(s for s in sizes if s is not None)


def _stage(shape: Any, over: Any, element: Element, combiner: str | None) -> Operand:
    stages = _STAGES.get()
    if stages is None:
        raise LoopwrightTypeError(
            "tensor expressions are a part of functions at the level of loops", hint="@lw.prim"
        )
    sizes, reduced = _sizes(shape), _sizes(over)
    name = f"t{len(stages)}"
    walked = _axes(element, (*sizes, *reduced), stages)
    axes, over = walked[: len(sizes)], walked[len(sizes) :]
    value = element(*(Scalar(index(symbol(a.name))) for a in walked))
    expr = _expr(value)
    stages.append(Stage(Buffer(name, sizes, expr.dtype), tuple(axes), expr, tuple(over), combiner))
    return Operand(stages[-1].buffer)


def _axes(element: Element, extents: Sequence[IntExpr], stages: Sequence[Stage]) -> list[Axis]:
    """The axes of a stage, with the names of the parameters of ``element``. One name is one loop:
    another extent gets another name."""
    given = [*inspect.signature(element).parameters]
    if len(given) != len(extents):
        raise LoopwrightTypeError(f"an element has {len(extents)} indices here, not {len(given)}")
    extent_of = {a.name: a.extent for s in stages for a in (*s.axes, *s.reduce_axes)}
    taken = {s.name for s in stages} | _NAMES.get()
    axes: list[Axis] = []
    for wanted, extent in zip(given, extents, strict=True):
        name = wanted
        while (
            name in taken or extent_of.get(name, extent) != extent or name in [a.name for a in axes]
        ):
            name += "_"
        axes.append(Axis(name, extent))
    return axes


def tensor_map(shape: Any, element: Element) -> Operand:
    """The tensor of a shape whose element at ``(i, ...)`` is ``element(i, ...)``.

    >>> @lw.prim
    ... def double(x: lw.f32[2]):
    ...     return lw.te.map((2,), lambda i: x[i] * 2)
    >>> double(np.ones(2, np.float32)).tolist()
    [2.0, 2.0]
    """
    return _stage(shape, (), element, None)


def reduction(combiner: str) -> Callable[[Any, Any, Element], Operand]:
    """Returns the function that makes reductions with a combiner."""

    def reduce(shape: Any, over: Any, element: Element) -> Operand:
        return _stage(shape, over, element, combiner)

    reduce.__doc__ = (
        f"The tensor of a shape whose element at ``(i, ...)`` is the {combiner} of "
        f"``element(i, ..., k, ...)`` for all k below ``over``; of none, "
        f"{COMBINERS[combiner].identity(FLOAT64)}.\n\n>>> @lw.prim\n... def f(x: lw.f32[2, 3]):\n"
        f"...     return lw.te.{combiner}((2,), 3, lambda i, k: x[i, k])\n"
        ">>> f(np.ones((2, 3), np.float32)).shape\n(2,)"
    )
    return reduce


class Prim:
    """A function at the level of loops; ``lw.prim`` makes it."""

    def __init__(self, function: Callable[..., Any], schedule: Schedule | None) -> None:
        self._function = function
        self.schedule = schedule
        functools.update_wrapper(self, function)

    @functools.cached_property
    def primfunc(self) -> PrimFunc:
        """The PrimFunc of the function; raises LoopwrightTypeError if it returns anything else."""
        name = self._function.__name__
        params: list[Buffer] = []
        for param in inspect.signature(self._function, eval_str=True).parameters.values():
            spec = param.annotation
            if not isinstance(spec, Spec | DTypeSpec):
                raise LoopwrightTypeError(
                    f"{name}: the parameter {param.name} has no spec",
                    hint=f'{param.name}: lw.f32["n", 64]',
                )
            params.append(Buffer(param.name, spec.type.shape, spec.type.dtype))
        stages: list[Stage] = []
        sizes = size_symbols(*(s for p in params for s in p.shape))
        tokens = _STAGES.set(stages), _NAMES.set(frozenset({p.name for p in params} | sizes.keys()))
        try:
            results = self._function(*map(Operand, params))
        finally:
            _STAGES.reset(tokens[0])
            _NAMES.reset(tokens[1])
        made = [s.buffer for s in stages]
        outputs = results if isinstance(results, tuple) else (results,)
        if not all(isinstance(r, Operand) and r.buffer in made for r in outputs):
            raise LoopwrightTypeError(f"{name} returns tensors that te.map, te.sum, ... made")
        prim = PrimFunc(name, tuple(params), tuple(r.buffer.name for r in outputs), tuple(stages))
        verify_prim(prim)
        if self.schedule is not None:
            apply_schedule(prim, self.schedule)
        return prim

    def __str__(self) -> str:
        return str(self.primfunc)

    def __call__(self, *arrays: Any) -> Any:
        """Computes the function on NumPy's arrays, or emits its stages if an array is traced."""
        prim = self.primfunc
        if len(arrays) != len(prim.params):
            raise LoopwrightTypeError(
                f"{prim.name} takes {len(prim.params)} arrays, not {len(arrays)}"
            )
        if any(isinstance(a, Proxy) for a in arrays):
            return run(prim.name, self._emitted, arrays)
        given = {p.name: np.asarray(a) for p, a in zip(prim.params, arrays, strict=True)}
        results = evaluate_prim(prim, given)
        values = tuple(results[name] for name in prim.outputs)
        return values[0] if len(values) == 1 else values

    def _emitted(self, *arrays: Any) -> Any:
        prim = self.primfunc
        values: dict[str, Proxy] = {}
        sizes: dict[str, IntExpr] = {}
        for param, array in zip(prim.params, arrays, strict=True):
            proxy = lift(array)
            wanted = Spec(_type(param))
            if proxy.type.dtype != param.dtype or proxy.type.rank != len(param.shape):
                raise LoopwrightTypeError(f"{param.name} is {wanted}, not {proxy.type.short}")
            values[param.name] = proxy
            for size, actual in zip(param.shape, proxy.type.shape, strict=True):
                parts = linear(size)
                if parts is not None and len(parts[0]) == 1:
                    ((name, factor),) = parts[0].items()
                    if factor == 1:
                        sizes.setdefault(name, actual - parts[1])
        unknown = [s.name for s in prim.sizes if s.name not in sizes]
        if unknown:
            raise LoopwrightValueError(f"no axis of an argument is {unknown[0]} alone")
        for param in prim.params:
            given_type = values[param.name].type
            message = f"{param.name} is {_type(param).short}, not {given_type.short}"
            for size, actual in zip(param.shape, given_type.shape, strict=True):
                if not require(actual, "==", substitute(size, sizes), message):
                    raise LoopwrightTypeError(message)
        for size in prim.sizes:
            assert size.low is not None and size.high is not None
            actual = sizes[size.name]
            message = f"{size.name} is in {size.low}..{size.high}, not {actual}"
            within = require(size.low, "<=", actual, message)
            if not within or not require(actual, "<=", size.high, message):
                raise LoopwrightValueError(message)
        if self.schedule is not None:
            return _kernel(prim, self.schedule, sizes, [values[p.name] for p in prim.params])
        for stage in prim.stages:
            value = as_operators(stage, values, sizes)
            if value is not None:
                values[stage.name] = value
                continue
            part = _alone(prim, stage)
            operands = [values[p.name] for p in part.params]
            given = tuple(sizes[s.name] for s in part.sizes)
            values[stage.name] = emit(
                operator_of(part), *operands, body=workload_text(part), sizes=given
            )
        results = tuple(values[name] for name in prim.outputs)
        return results[0] if len(results) == 1 else results


def _type(buffer: Buffer) -> TensorType:
    return TensorType(buffer.shape, buffer.dtype)


def _kernel(
    prim: PrimFunc, schedule: Schedule, sizes: Mapping[str, IntExpr], operands: Sequence[Proxy]
) -> Any:
    """Emits the call of a PrimFunc that stays a kernel of its own, under its own schedule."""
    trace = active()
    assert trace is not None
    theirs = {name for value in sizes.values() for name in symbols(value)}
    axes = {a.name: a.name for s in prim.stages for a in (*s.axes, *s.reduce_axes)}
    for name in axes:  # a size of the caller's may have the name of an axis
        while axes[name] in theirs:
            axes[name] += "_"
    special = replace(rename(prim, axes, {}).at(sizes), name=trace.function_name(prim.name))
    fitted = _fitted(special, schedule.renamed(axes))
    apply_schedule(special, fitted)
    trace.functions[special.name] = special
    trace.schedules[special.name] = fitted
    called = GlobalVar(special.name, signature_of(special))
    atom = trace.builder.emit(called, [p.atom for p in operands], span=trace.span)
    if isinstance(atom.type, TensorType):
        return Proxy(atom, trace)
    parts = [trace.builder.get_item(atom, n, span=trace.span) for n in range(len(prim.outputs))]
    return tuple(Proxy(part, trace) for part in parts)


def _alone(prim: PrimFunc, stage: Stage) -> PrimFunc:
    """The PrimFunc of one stage, whose parameters are what it reads."""
    buffers = prim.buffers
    names = {n.buffer: None for n in walk(stage.expr) if isinstance(n, Read)}
    params: Sequence[Buffer] = [buffers[name] for name in names]
    return PrimFunc(stage.name, tuple(params), (stage.name,), (stage,))


def _fitted(prim: PrimFunc, schedule: Schedule) -> Schedule:
    """A schedule for symbolic sizes as one for these: splits cover what the axes have become."""
    extents = {a.name: a.extent for s in prim.stages for a in (*s.axes, *s.reduce_axes)}
    steps: list[Step] = []
    for step in schedule.steps:
        extent = extents.get(step.args[0]) if step.name == "split" else None
        if isinstance(extent, int):
            inner = math.prod(step.args[1][1:])
            step = split(step.args[0], (max(1, -(-extent // inner)), *step.args[1][1:]))
        steps.append(step)
    return Schedule(tuple(steps))


@overload
def prim(function: Callable[..., Any], *, schedule: Schedule | None = None) -> Prim: ...


@overload
def prim(*, schedule: Schedule | None = None) -> Callable[[Callable[..., Any]], Prim]: ...


def prim(function: Any = None, *, schedule: Schedule | None = None) -> Any:
    """Returns a function at the level of loops, for compiled functions to call like an operator.

    Its parameters are annotated with specs, whose sizes may be symbolic. Its body is made of tensor
    expressions of ``lw.te``: ``te.map(shape, element)``, ``te.sum(shape, over, element)`` and other
    reductions, where ``element`` gives one element for its indices. What it does is read off these,
    so the operators around it fuse with it. On NumPy's arrays it computes what it says, slowly.

    With a ``schedule`` it is a kernel of its own, run in these loops. Axes have the names of the
    parameters of ``element`` (one name is one loop; a name that a size or a parameter has gets an
    underscore), stages are called ``t0``, ``t1``, ...: print the function to see them. Of a
    symbolic axis, the first factor of a split may be any.

    Raises LoopwrightTypeError for a parameter without a spec, for arrays of other dtypes or shapes,
    and if it does not return such tensors; LoopwrightValueError for a size out of its range,
    ScheduleError for an illegal schedule.

    >>> import numpy as np, loopwright as lw
    >>> @lw.prim
    ... def rms_norm(x: lw.f32["n", "m"], gain: lw.f32["m"]):
    ...     n, m = x.shape
    ...     mean = lw.te.sum((n,), m, lambda i, k: x[i, k] * x[i, k] / m)
    ...     return lw.te.map((n, m), lambda i, j: x[i, j] / lw.te.sqrt(mean[i]) * gain[j])
    >>> @lw.compile
    ... def f(x, gain):
    ...     return np.maximum(rms_norm(x, gain), 0)
    >>> f(np.array([[3, -3]], np.float32), np.ones(2, np.float32))
    array([[1., 0.]], dtype=float32)
    """
    if function is None:
        return functools.partial(Prim, schedule=schedule)
    return Prim(function, schedule)

"""The sizes at which a program with symbolic sizes is tuned, and what its kernels meet there.

::

    def @main(%x: float32[n, 784])  ->  n = 1, 16, 128, 2048: arrays of a call, a weight for each
                                    ->  matmul at 1, 16, ..., attention at (1, 1), (16, 16), ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..autotune.ranges import POINTS, Point, Weights, evenly_weighted, in_range
from ..autotune.workload import workload_of
from ..ir.dataclass import dataclass
from ..ir.dims import IntExpr, Symbol, evaluate, linear, product, size_symbols, symbols
from ..ir.errors import LoopwrightValueError
from ..ir.graph.nodes import Module
from ..ir.graph.types import TensorType
from ..ir.loop.prim import PrimFunc
from ..ir.program.analysis import calls
from ..ir.program.nodes import Call, Program

Array = np.ndarray[Any, Any]
SizeWeights: TypeAlias = Mapping[int | tuple[int, ...], float]
"""The share of calls that have a size, or several sizes in order of appearance."""

MOST_ARGUMENT_BYTES = 256 << 20
"""Arguments of the calls that are made up for other sizes than those of the caller's."""


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """The arrays of a call, and the values of the program's symbolic sizes in it; ``weight`` is how
    often it is made, None if all sizes count alike."""

    arrays: Sequence[Array]
    values: Mapping[str, int]
    weight: float | None = None

    @property
    def text(self) -> str:
        """The sizes as the user named them: ``n = 16``."""
        return ", ".join(f"{_base(n)} = {v * _step(n)}" for n, v in self.values.items())


def arguments_of(
    module: Module,
    arrays: Sequence[Array] | None,
    weights: SizeWeights | None = None,
    seed: int = 0,
) -> tuple[Arguments, ...]:
    """Returns the calls on which a module is tuned, the smallest first: one without symbolic sizes,
    else one for each of the ``weights``, or the points of its range with that of ``arrays`` among
    them. Values come from ``arrays``, repeated, or are random.

    Raises LoopwrightValueError for weights that are none, or sizes that the module does not take.
    """
    types = [p.type for p in module.main.params if isinstance(p.type, TensorType)]
    sizes = size_symbols(*(s for t in types for s in t.shape))
    if not sizes:
        if weights:
            raise LoopwrightValueError(
                "weights are for symbolic sizes, and this function has none",
                hint='lw.compile(dynamic={"x": {0: "n"}}), or arguments with an axis lw.Dim("n")',
            )
        return (Arguments(random_arrays(module, {}, seed) if arrays is None else list(arrays), {}),)
    made: list[Arguments] = []
    if weights:
        for given, weight in weights.items():
            values = _values(sizes, given)
            share = _share(given, weight)
            made.append(Arguments(_arrays_at(module, values, arrays, seed), values, share))
    else:
        taken = None if arrays is None else size_values([t.shape for t in types], arrays)
        taken = taken if taken is not None and taken.keys() >= sizes.keys() else None
        for values in _points(module, sizes, taken):
            at = arrays if arrays is not None and values == taken else None
            made.append(Arguments(at or _arrays_at(module, values, arrays, seed), values))
    return tuple(sorted(made, key=lambda a: math.prod(a.values.values())))


def _share(given: int | tuple[int, ...], weight: object) -> float:
    """Returns the weight that a user gives a size."""
    if isinstance(weight, int | float) and 0 < weight < math.inf:
        return float(weight)
    raise LoopwrightValueError(f"the weight of {given} is {weight!r}, not a share")


def _values(sizes: Mapping[str, Symbol], given: int | tuple[int, ...]) -> dict[str, int]:
    """Returns the values of symbols for sizes that a user names."""
    each = given if isinstance(given, tuple) else (given,) * len(sizes)
    names = ", ".join(map(_base, sizes))
    if len(each) != len(sizes) or any(type(value) is not int for value in each):
        raise LoopwrightValueError(f"weights are by the sizes ({names}), not by {given!r}")
    values: dict[str, int] = {}
    for (name, atom), value in zip(sizes.items(), each, strict=True):
        values[name], rest = divmod(value, _step(name))
        assert atom.low is not None and atom.high is not None
        if rest or not max(atom.low, 1) <= values[name] <= atom.high:
            step, low = _step(name), max(atom.low, 1)
            multiple = f", a multiple of {step}" if step > 1 else ""
            raise LoopwrightValueError(
                f"{_base(name)} = {value} has a weight, and {_base(name)} is from {low * step} to "
                f"{atom.high * step}{multiple}"
            )
    return values


def size_values(shapes: Sequence[tuple[IntExpr, ...]], arrays: Sequence[Array]) -> dict[str, int]:
    """Returns the values of the symbolic sizes for which an axis of an array alone stands."""
    values: dict[str, int] = {}
    for shape, array in zip(shapes, arrays):
        for wanted, given in zip(shape, array.shape):
            parts = linear(wanted)
            if parts is not None and len(parts[0]) == 1:
                ((name, factor),) = parts[0].items()
                values.setdefault(name, (given - parts[1]) // factor)
    return values


def _points(
    module: Module, sizes: Mapping[str, Symbol], taken: Mapping[str, int] | None
) -> list[dict[str, int]]:
    """Returns values of the sizes at which the best schedules may differ, with ``taken`` in the
    place of the nearest."""
    distinct: dict[tuple[int, ...], dict[str, int]] = {}
    for wanted in POINTS:
        value = wanted
        while True:
            values = {n: max(s.low or 0, min(s.high or 0, value)) for n, s in sizes.items()}
            if value <= 1 or _argument_bytes(module, values) <= MOST_ARGUMENT_BYTES:
                break
            value //= 2
        if all(values.values()):
            distinct.setdefault(tuple(values.values()), values)
    if taken is not None and all(taken.values()):
        place = math.log(math.prod(taken.values()))
        nearest = min(
            distinct,
            key=lambda v: abs(math.log(math.prod(v)) - place),
            default=tuple(taken.values()),
        )
        distinct.pop(nearest, None)
        distinct[tuple(taken.values())] = dict(taken)
    return list(distinct.values())


def _argument_bytes(module: Module, values: Mapping[str, int]) -> int:
    types = [p.type for p in module.main.params if isinstance(p.type, TensorType)]
    return sum(evaluate(product(t.shape), values) * t.dtype.bytes for t in types)


def _arrays_at(
    module: Module, values: Mapping[str, int], arrays: Sequence[Array] | None, seed: int
) -> list[Array]:
    """Returns arrays of other sizes with the values of a call's arrays, or random ones."""
    made = random_arrays(module, values, seed)
    if arrays is None:
        return made
    return [
        np.resize(given, new.shape).astype(new.dtype, copy=False) if given.size else new
        for given, new in zip(arrays, made, strict=True)
    ]


def random_arrays(module: Module, values: Mapping[str, int], seed: int = 0) -> list[Array]:
    """Returns a random array for each parameter of ``main``, for callers that have only shapes."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for param in module.main.params:
        assert isinstance(param.type, TensorType)
        shape, dtype = tuple(evaluate(s, values) for s in param.type.shape), param.type.dtype
        if dtype.is_float:
            arrays.append(rng.standard_normal(shape).astype(dtype.numpy))
        else:
            arrays.append(rng.integers(0, 2 if dtype.is_bool else 100, shape).astype(dtype.numpy))
    return arrays


def kernel_points(
    program: Program, prims: Mapping[str, PrimFunc], values: Mapping[str, int]
) -> dict[str, Point]:
    """Returns the values of the sizes of each kernel in a call of the program: those of its first
    call, of kernels whose sizes do not depend on data."""
    points: dict[str, Point] = {}
    for call in calls(program):
        sizes = prims[call.kernel].sizes
        if call.kernel in points or not sizes:
            continue
        point = point_of_call(call, prims[call.kernel], values)
        if point is not None and all(point.values()):
            points[call.kernel] = point
    return points


def point_of_call(call: Call, prim: PrimFunc, values: Mapping[str, int]) -> Point | None:
    """Returns the values of a kernel's sizes in a call, None if they depend on data."""
    if not all(symbols(value) <= values.keys() for value in call.sizes):
        return None
    there = [evaluate(value, values) for value in call.sizes]
    sizes = zip(prim.sizes, there, strict=True)
    return {s.name: v for s, v in sizes} if in_range(prim, there) else None


def kernel_weights(
    program: Program, prims: Mapping[str, PrimFunc], arguments: Sequence[Arguments]
) -> dict[str, Weights]:
    """Returns the points at which each kernel is to be tuned, by workload."""
    each = [(kernel_points(program, prims, a.values), a.weight) for a in arguments]
    weights: dict[str, Weights] = {}
    for name, prim in prims.items():
        at = {tuple(p[name].values()): (p[name], w) for p, w in each if name in p}
        points = [point for point, _ in at.values()]
        if points and all(w is None for _, w in at.values()):
            weights[workload_of(prim).hash] = evenly_weighted(prim, points)
        elif points:
            weights[workload_of(prim).hash] = [(p, w or 1.0) for p, w in at.values()]
    return weights


def _base(name: str) -> str:
    return name.partition(".")[0]


def _step(name: str) -> int:
    return int(name.partition(".")[2] or 1)

"""Checks results: inputs of a task, its right outputs, and the allowed error of a candidate.

The reference is the PrimFunc evaluated by NumPy, as a whole where that is fast, and in float64
unless rounding can change a result discontinuously. Where the whole takes too long, elements are
evaluated that lie in every row of every axis, corners included, and the first result that agrees on
them is kept; elements in which a later candidate differs from it are evaluated to decide who is
right.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...codegen.kernel import compile_kernel
from ...codegen.one_kernel import run_kernel
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.dims import Dim, as_int, symbols
from ...ir.dtype import FLOAT32, DType, dtype_of
from ...ir.loop.evaluate import evaluate_points, evaluate_prim
from ...ir.loop.expr import Const, Expr, Index, IndexLike, Op, Read, walk
from ...ir.loop.nest import At, expressions, statements
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.loop.procedure import Procedure, executions
from ...ir.loop.rounding import Rounding
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.loop.widen import widened
from ...ir.schedule.steps import Schedule
from ...ir.tolerance import tolerance
from ...ir.traits import Trait
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .guarded import GARBAGE

Array = npt.NDArray[Any]

_OPERATIONS = 16
"""Elementwise steps in sequence that the tolerance allows for, see ir/tolerance.py."""
INTERPRETED = 20_000
"""Stores of a procedure up to which the interpreter runs it. Longer ones run as machine code
without a schedule, since that is what a schedule must not change."""
_ROUNDINGS = 8
"""Pairs of roundings that are tried, until an element with a large error is among their results."""
_COARSE = (-0.75, 0.25, 0.5, 1.5)
"""Coarse floats: exact in every dtype, as are small sums of them."""
_WORST_FIRST = 64
"""Elements with the largest errors, which are looked at first."""
_MOST_ELEMENTS = 2000
"""Most elements that are evaluated, so that every row has one: longer axes are covered in part."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``max_error`` is relative to the size of the result; ``reason`` is a sentence if it is not
    right."""

    right: bool
    max_error: float
    bound: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InputKind:
    """The dtype of random values, the least float (below 1), and the range of integers."""

    dtype: DType
    low: float
    integers: tuple[int, int]

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator, coarse: bool = False) -> Array:
        """Returns random values; ``coarse`` ones are few, and so they are often equal."""
        if self.dtype.is_bool:
            return rng.integers(0, 2, shape).astype(np.bool_)
        if coarse:
            least, end = self.integers
            few: Any = _COARSE if self.low < 0 else np.abs(_COARSE)
            if self.dtype.is_integer:  # odd numbers, whose product never vanishes, and the ends
                few = least, min(end - 1, least + ((end - least) // 3 & ~1)), end - 1
            return rng.choice(few, shape).astype(self.dtype.numpy)
        if self.dtype.is_integer:
            return rng.integers(*self.integers, shape).astype(self.dtype.numpy)
        values = random_floats(self.dtype, shape, rng)
        values *= values.dtype.type(1.0 - self.low)
        values += values.dtype.type(self.low)
        return values


def random_floats(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Returns floats in [0, 1), of halves in [0, 1]: NumPy draws no halves."""
    drawn = FLOAT32 if dtype.is_half else dtype
    return rng.random(shape, dtype=drawn.numpy.type).astype(dtype.numpy, copy=False)


def input_kinds(prim: PrimFunc) -> dict[str, InputKind]:
    """Returns the distribution of the elements of every parameter.

    Floats lie in [-1, 1), or in [0.1, 1) if the PrimFunc uses functions with a restricted domain,
    of acosh in (1, 3];
    integers in [1, 100), and indices anywhere along the axis they index: a table read at a hundred
    places only would seem to be in L1. Integers that are shifted right have bits everywhere.
    """
    exprs = [s.expr for s in prim.stages]
    if isinstance(prim, Procedure):
        exprs = [e for s in statements(prim.body) for e in expressions(s)]
    ops = [node for e in exprs for node in walk(e) if isinstance(node, Op)]
    shifted = [node for o in ops if o.name == "right_shift" for node in walk(o.args[0])]
    words = {node.buffer for node in shifted if isinstance(node, Read) and node.dtype.is_integer}
    low = 0.1 if any(Trait.POSITIVE_DOMAIN in SCALAR_OPS[o.name].traits for o in ops) else -1.0
    low = 3.0 if any(o.name == "acosh" for o in ops) else low
    ends = index_ranges(prim) | {
        p.name: (1 << min(8 * p.dtype.bytes - 1, 63)) - 1 for p in prim.params if p.name in words
    }
    ranges = {p.name: (0, ends[p.name]) if p.name in ends else (1, 100) for p in prim.params}
    return {p.name: InputKind(p.dtype, low, ranges[p.name]) for p in prim.params}


def make_inputs(prim: PrimFunc, seed: int, coarse: bool = False) -> dict[str, Array]:
    """Returns an array per parameter, the same for the same seed."""
    rng = np.random.default_rng(seed)
    kinds = input_kinds(prim)
    shapes = {p.name: tuple(map(as_int, p.shape)) for p in prim.params}
    return {name: kinds[name].draw(shape, rng, coarse) for name, shape in shapes.items()}


def index_ranges(prim: PrimFunc) -> dict[str, int]:
    """Returns the length of the axis that a parameter's elements index, the shortest of several."""
    lengths: dict[str, int] = {}
    given = {p.name for p in prim.params}
    if isinstance(prim, Procedure):
        for at in (s for s in statements(prim.body) if isinstance(s, At)):
            for node in walk(at.value):
                if isinstance(node, Read) and node.buffer in given and node.dtype.is_integer:
                    least = min(at.trips, np.iinfo(node.dtype.numpy).max + 1)
                    lengths[node.buffer] = max(1, min(lengths.get(node.buffer, least), least))
    nodes = [node for s in prim.stages for node in walk(s.expr)]
    for node in nodes:
        if not isinstance(node, Read):
            continue
        for i, size in zip(node.indices, prim.buffers[node.buffer].shape, strict=True):
            if isinstance(i, int | Dim):
                continue
            for inner in walk(i):
                if isinstance(inner, Read) and inner.dtype.is_integer:
                    least = min(as_int(size), np.iinfo(inner.dtype.numpy).max + 1)
                    lengths[inner.buffer] = max(1, min(lengths.get(inner.buffer, least), least))
    return lengths


class Reference:
    """The right outputs of ``prim`` on ``inputs``, computed once per task."""

    def __init__(
        self,
        prim: PrimFunc,
        inputs: Mapping[str, Array],
        settings: TuneSettings = DEFAULT_SETTINGS,
        seed: int = 0,
        points: Mapping[str, Array] | None = None,
    ) -> None:
        """``points`` are the elements of each output to evaluate, int64[n, rank], where the whole
        would take too long; by default they are drawn."""
        self.prim = prim
        self.inputs = inputs
        self._whole: dict[str, Array] = {}
        self._points: dict[str, Array] = {}
        self._values: dict[str, Array] = {}
        self._measures: dict[str, tuple[Array, Array, Array]] = {}  # right values, scale, scratch
        if isinstance(prim, Procedure) and _work(prim) > INTERPRETED:
            self._whole = _run_plain(prim, inputs)
            return
        if is_evaluated_whole(prim, settings):
            self._whole = evaluate_prim(_exact(prim), inputs)
            return
        if points is None:
            rng = np.random.default_rng(seed)
            count = affordable_points(prim, settings)
            points = {
                b.name: sample_points(tuple(as_int(s) for s in b.shape), count, rng)
                for b in prim.output_buffers
            }
        for name, places in points.items():
            self._points[name] = places
            self._values[name] = self._evaluated(name, places)

    def _evaluated(self, name: str, points: Array) -> Array:
        return evaluate_points(_exact(self.prim), self.inputs, name, points)

    def save(self, path: Path) -> None:
        """Saves the certain values to a file, so that the next process need not compute them."""
        parts = {"whole": {} if self.partial else self._whole, "points": self._points}
        parts["values"] = self._values
        arrays = {f"{part}.{k}": v for part, named in parts.items() for k, v in named.items()}
        new = path.with_suffix(".new.npz")
        np.savez(new, allow_pickle=False, **arrays)
        new.replace(path)

    @staticmethod
    def load(path: Path, prim: PrimFunc, inputs: Mapping[str, Array]) -> Reference:
        """Returns a reference with the values that ``save`` wrote."""
        made = Reference.__new__(Reference)
        made.prim, made.inputs, made._measures = prim, inputs, {}
        made._whole, made._points, made._values = {}, {}, {}
        parts = {"whole": made._whole, "points": made._points, "values": made._values}
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                part, _, name = key.partition(".")
                parts[part][name] = file[key]
        return made

    @property
    def partial(self) -> bool:
        """True if only some elements are known for certain."""
        return bool(self._points)

    def check(self, outputs: Mapping[str, Array]) -> Verdict:
        """Compares a candidate's outputs, arrays by name."""
        worst = Verdict(True, 0.0, 0.0)
        for buffer in self.prim.output_buffers:
            verdict = self._check_one(
                buffer.name, outputs[buffer.name], error_bound(self.prim, buffer.dtype)
            )
            if not verdict.right:
                return verdict
            if verdict.max_error >= worst.max_error:
                worst = verdict
        if self.partial and not self._whole:
            self._whole = {name: outputs[name].copy() for name in self._points}
            self._measures = {}
        return worst

    def check_points(self, values: Mapping[str, Array]) -> Verdict:
        """Compares a candidate's outputs at the points given to ``__init__``."""
        verdict = Verdict(True, 0.0, 0.0)
        for buffer in self.prim.output_buffers:
            bound = error_bound(self.prim, buffer.dtype)
            name = buffer.name
            points = self._points[name]
            verdict = self._judge(name, values[name], self._values[name], bound, points)
            if not verdict.right:
                break
        return verdict

    def _check_one(self, name: str, got: Array, bound: float) -> Verdict:
        if self.partial:
            if _unwritten(got):
                return Verdict(False, 1e300, bound, f"parts of {name} are never written")
            at_points = np.atleast_1d(got[tuple(self._points[name].T)])
            verdict = self._judge(name, at_points, self._values[name], bound, self._points[name])
            if not verdict.right or name not in self._whole:
                return verdict
        allowed = 2 * bound if self.partial else bound
        if (worst := self._quick_error(name, got)) <= allowed:
            return Verdict(True, worst, allowed)
        if not self.partial:
            return self._judge(name, got, self._whole[name], allowed)
        verdict = _verdict(_errors(got, self._whole[name]), allowed, name)
        return verdict if verdict.right else self._arbitrate(name, got, bound)

    def _judge(
        self, name: str, got: Array, right: Array, bound: float, points: Array | None = None
    ) -> Verdict:
        """Compares elements, those at ``points`` if these are given. What differs by more than
        ``bound`` is right if another rounding of every step gives it, too (``ir/loop/rounding``).
        """
        error = _errors(got, right)
        failing = np.flatnonzero(error > bound)
        if failing.size > _WORST_FIRST:
            failing = failing[np.argpartition(-error.reshape(-1)[failing], _WORST_FIRST)]
        for part in (
            failing[:_WORST_FIRST],
            failing[_WORST_FIRST:],
        ):  # of a wrong result few are evaluated
            at = np.array(np.unravel_index(part, got.shape or (1,))).T[:, : got.ndim]
            at = at if points is None else points[part]
            given, true = got.reshape(-1)[part], right.reshape(-1)[part]
            reached = self._is_rounding(name, at, given, true, bound)
            error.reshape(-1)[part[reached]] = bound
            if not reached.all():
                break
        return _verdict(error, bound, name)

    def _is_rounding(
        self, name: str, points: Array, got: Array, right: Array, bound: float
    ) -> Array:
        """Returns which elements of ``got`` lie among the results of other roundings."""
        prim = self.prim
        if not got.size or not any(b.dtype.is_float for b in prim.buffers.values()):
            return np.zeros(got.shape, np.bool_)
        if isinstance(prim, Procedure):  # what a schedule must not change is the code without one
            return _errors(got, _run_plain(prim, self.inputs)[name][tuple(points.T)]) <= bound
        got, low = _as_float(got.view(np.uint8) if got.dtype == bool else got), _as_float(right)
        high, reached = low, np.zeros(got.shape, np.bool_)
        single = any(b.dtype == FLOAT32 for b in prim.buffers.values())
        for seed in range(_ROUNDINGS):
            for sign in (1, -1):
                rounding = Rounding(seed, sign, single)
                value = evaluate_points(_exact(prim), self.inputs, name, points, rounding)
                value = np.atleast_1d(_as_float(value))
                reached |= (got == value) | (np.isnan(got) & np.isnan(value))
                value[np.isinf(value)] = np.nan
                low, high = np.fmin(low, value), np.fmax(high, value)
            reached |= (low <= got) & (got <= high)
            if reached.all():
                break
        return reached

    def _quick_error(self, name: str, got: Array) -> float:
        """Returns the greatest relative error of floats, in few passes over them; NaN where
        infinities or other cases of ``_compare`` have to be distinguished."""
        right = self._whole[name]
        if got.dtype.kind != "f" or not right.size:
            return math.nan
        if name not in self._measures:
            right = np.atleast_1d(_as_float(right))
            scale = np.abs(right) + _typical_size(right)
            self._measures[name] = right, scale, np.empty_like(right)
        right, scale, error = self._measures[name]
        with np.errstate(all="ignore"):
            np.subtract(np.atleast_1d(got), right, out=error)
            np.abs(error, out=error)
            np.divide(error, scale, out=error)
        return float(error.max())

    def _arbitrate(self, name: str, got: Array, bound: float) -> Verdict:
        """Evaluates the elements in which two candidates differ most, to decide who is right."""
        difference = np.abs(_as_float(got) - _as_float(self._whole[name])).reshape(-1)
        difference[np.isnan(difference)] = np.inf
        worst = np.argsort(-difference, kind="stable")[: len(self._points[name])]
        points = np.stack(np.unravel_index(worst, got.shape), axis=1)
        true = self._evaluated(name, points)
        verdict = self._judge(name, got.reshape(-1)[worst], true, bound, points)
        if verdict.right:
            self._whole[name] = got.copy()
            self._measures.pop(name, None)
        return verdict


def is_evaluated_whole(prim: PrimFunc, settings: TuneSettings) -> bool:
    """True if every element of the results is evaluated, instead of some."""
    return isinstance(prim, Procedure) or _work(prim) <= settings.reference_work


def _run_plain(prim: Procedure, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the outputs of a procedure without a schedule, as machine code on one thread."""
    target = Target.host()
    kernel = compile_kernel(prim, Schedule(), target)
    outputs = run_kernel(kernel, inputs, target, 1)
    return {b.name: values for b, values in zip(prim.results, outputs, strict=True)}


@functools.lru_cache(maxsize=16)
def _exact(prim: PrimFunc) -> PrimFunc:
    """Returns the PrimFunc to evaluate: in float64 where that gives the better reference."""
    return widened(prim) if _is_continuous(prim) else prim


def error_bound(prim: PrimFunc, dtype: DType) -> float:
    """Returns the allowed error of an output of ``dtype``: that of a chain of sums, whose errors
    add up.

    It is relative to an element and to the size of all of them. Terms of both signs partly cancel,
    and ``n`` of them sum to ``sqrt(n)`` times one: so the tolerance's absolute part, ``w * n * u``
    terms, is its relative part of the result's size.
    """
    if not dtype.is_float:
        return 0.0
    floats = [s for s in prim.stages if s.buffer.dtype.is_float]
    made = [n.dtype for s in floats for n in walk(s.expr) if isinstance(n, Op)]
    dtypes = [dtype, *(s.buffer.dtype for s in floats), *(d for d in made if d.is_float)]
    narrow = min(dtypes, key=lambda d: d.bits)
    sums = [
        math.prod(as_int(a.extent) for a in s.reduce_axes)
        for s in floats
        if s.combiner in ("sum", "prod")
    ]
    bound = tolerance(narrow, operations=_OPERATIONS).rtol
    return bound + sum(tolerance(narrow, n, operations=0).rtol for n in sums)


def _errors(got: Array, right: Array) -> Array:
    """Returns the error of each element: relative to its size and that of all, or 1 for a wrong
    integer."""
    got, right = np.atleast_1d(got), np.atleast_1d(right)  # scalars have no item assignment
    if not dtype_of(got.dtype).is_float:
        same = got.view(np.uint8) == right.view(np.uint8) if got.dtype == bool else got == right
        return 1.0 - same
    got, right = _as_float(got), _as_float(right)
    with np.errstate(all="ignore"):
        error = np.abs(got - right) / (np.abs(right) + _typical_size(right))
    error[got == right] = 0.0  # equal infinities and zeros
    error[np.isnan(got) & np.isnan(right)] = 0.0
    error[np.isnan(error)] = np.inf
    return error


def _verdict(error: Array, bound: float, name: str) -> Verdict:
    worst = float(error.max(initial=0.0))
    if worst <= bound:
        return Verdict(True, worst, bound)
    wrong = int(np.count_nonzero(error > bound))
    first = ""
    if bound:  # floats, whose place may say how far sums have come
        first = f", the first at {tuple(int(i) for i in np.argwhere(error > bound)[0])}"
    reason = f"{wrong} of {error.size} elements of {name} are wrong{first}"
    return Verdict(False, min(worst, 1e300), bound, reason)


def _typical_size(values: Array) -> float:
    """Returns the root mean square of the finite values."""
    finite = np.isfinite(values)
    return float(np.sqrt(np.mean(np.square(values[finite])))) if finite.any() else 0.0


def _is_continuous(prim: PrimFunc) -> bool:
    """True if a small rounding error changes results only a little: no comparison or integer
    depends on computed floats."""
    params = {p.name for p in prim.params}

    def exact(node: Expr) -> bool:
        given = isinstance(node, Read) and node.buffer in params
        return given or isinstance(node, Const | Index) or not node.dtype.is_float

    for stage in prim.stages:
        for node in walk(stage.expr):
            if not isinstance(node, Op):
                continue
            rounds = node.name == "cast" and not node.dtype.is_float
            jumps = rounds or Trait.JUMPS in SCALAR_OPS[node.name].traits
            if jumps and not all(exact(a) for a in node.args):
                return False
    return True


def _unwritten(values: Array) -> bool:
    """True if elements hold the garbage that outputs are filled with before a call."""
    if values.dtype.itemsize < 4:
        return False
    word = np.dtype(f"u{values.dtype.itemsize}")
    pattern = np.full(values.dtype.itemsize, GARBAGE, np.uint8).view(word)[0]
    return bool((np.atleast_1d(values).view(word) == pattern).any())


def _as_float(values: Array) -> Array:
    return values.astype(np.float64)


def _work(prim: PrimFunc) -> int:
    """Returns the scalar evaluations of the whole PrimFunc."""
    if isinstance(prim, Procedure):
        return executions(prim.body)
    return sum(math.prod(as_int(a.extent) for a in (*s.axes, *s.reduce_axes)) for s in prim.stages)


def affordable_points(prim: PrimFunc, settings: TuneSettings) -> int:
    """As many as give every row of every axis one, within reason and the work allowed."""
    longest = max(as_int(n) for b in prim.output_buffers for n in (*b.shape, 1))
    count = max(settings.reference_points, min(longest, _MOST_ELEMENTS))
    stages = [_StageWork.of(stage) for stage in reversed(prim.stages)]
    while count > 8 and _work_of_points(prim, stages, count) > settings.reference_work:
        count = max(8, count * 3 // 4)
    return count


@dataclass(frozen=True, slots=True)
class _StageWork:
    """``size`` of a stage, evaluations per element, and the elements of others that one reads."""

    name: str
    size: int
    per_element: int
    reads: tuple[tuple[str, int], ...]

    @staticmethod
    def of(stage: Stage) -> _StageWork:
        extents = {a.name: as_int(a.extent) for a in stage.reduce_axes}
        reads: list[tuple[str, int]] = []
        for node in walk(stage.expr):
            if isinstance(node, Read):
                names = {n for i in node.indices for n in _symbols_of(i)}
                reads.append((node.buffer, math.prod(extents[n] for n in names & extents.keys())))
        size = math.prod(as_int(a.extent) for a in stage.axes)
        return _StageWork(stage.name, size, math.prod(extents.values()), tuple(reads))


def _work_of_points(prim: PrimFunc, stages: Sequence[_StageWork], count: int) -> int:
    """Returns the scalar evaluations for ``count`` elements of each output and all they depend
    on."""
    wanted = dict.fromkeys(prim.outputs, count)
    total = 0
    for stage in stages:
        elements = min(stage.size, wanted.get(stage.name, 0))
        total += elements * stage.per_element
        for buffer, factor in stage.reads:
            wanted[buffer] = wanted.get(buffer, 0) + elements * factor
    return total


def _symbols_of(index: IndexLike) -> frozenset[str]:
    if isinstance(index, int | Dim):
        return symbols(index)
    inner = [node.value for node in walk(index) if isinstance(node, Index)]
    return frozenset[str]().union(*map(symbols, inner))


def sample_points(shape: tuple[int, ...], count: int, rng: np.random.Generator) -> Array:
    """Returns int64[n, rank]: places that use all indices of an axis before one repeats, and all
    corners as far as they fit into a quarter."""
    size = math.prod(shape)
    if not shape or not size:
        return np.zeros((min(size, 1), len(shape)), np.int64)
    places = np.arange(size)
    if size > count:
        corners = np.zeros(1, np.int64)
        for n in shape:
            corners = np.add.outer(corners * n, [0, n - 1]).reshape(-1)
        drawn = np.ravel_multi_index([_spread(n, count, rng) for n in shape], shape)
        places = np.unique(np.concatenate([corners[: max(2, count // 4)], drawn]))
    return np.stack(np.unravel_index(places, shape), axis=1)


def _spread(extent: int, count: int, rng: np.random.Generator) -> Array:
    """Returns indices of an axis in random order: all before one repeats, or one of each of
    ``count`` pieces of a long axis."""
    if extent > count:
        return (rng.permutation(count) * extent + rng.integers(0, extent, count)) // count
    rounds = [rng.permutation(extent) for _ in range(-(-count // extent))]
    return np.concatenate(rounds)[:count]

"""Checks results: right outputs of a task, and the allowed error of a candidate.

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

from ...codegen.kernel import Kernel, compile_kernel
from ...codegen.one_kernel import run_kernel
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.dims import Dim, as_int, symbols
from ...ir.dtype import FLOAT32, DType, dtype_of
from ...ir.files import read_arrays, write_arrays
from ...ir.loop.evaluate import evaluate_points, evaluate_prim
from ...ir.loop.expr import Const, Expr, Index, IndexLike, Op, Read, walk
from ...ir.loop.nest import Accumulate, expressions, statements
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.loop.procedure import Procedure, executions
from ...ir.loop.rounding import Rounding, rounds
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.loop.widen import widened
from ...ir.schedule.steps import Schedule
from ...ir.tolerance import tolerance
from ...ir.traits import Trait
from ..settings import DEFAULT_SETTINGS, TuneSettings
from .guarded import GARBAGE

Array = npt.NDArray[Any]

_OPERATIONS = 16
"""Elementwise steps of a procedure in sequence that the tolerance allows for, see
ir/tolerance.py."""
_SUMS = ("sum", "prod")
INTERPRETED = 20_000
"""Stores of a procedure up to which the interpreter runs it. Longer ones run as machine code
without a schedule, since that is what a schedule must not change."""
_ROUNDINGS = 8
"""Pairs of roundings that are tried, until an element with a large error is among their results."""
_WORST_FIRST = 64
"""Elements with the largest errors, which are looked at first."""
_SEEN_BYTES = 1 << 22
"""Bytes of an output that are kept: many candidates give the same ones."""
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


class Reference:
    """The right outputs of ``prim`` on ``inputs``, computed once per task."""

    def __init__(
        self,
        prim: PrimFunc,
        inputs: Mapping[str, Array],
        settings: TuneSettings = DEFAULT_SETTINGS,
        seed: int = 0,
        points: Mapping[str, Array] | None = None,
        plain: bool = False,
    ) -> None:
        """``points`` are the elements of each output to evaluate, int64[n, rank], where the whole
        would take too long; by default they are drawn. A ``plain`` reference of a procedure is
        machine code, however short it is."""
        self.prim, self.inputs = prim, inputs
        self._whole: dict[str, Array] = {}
        self._points: dict[str, Array] = {}
        self._values: dict[str, Array] = {}
        self._measures: dict[str, tuple[Array, Array]] = {}  # right values and their scale
        self._seen: dict[str, tuple[Array, Verdict]] = {}  # bytes of an output that was right
        if isinstance(prim, Procedure) and (plain or _work(prim) > INTERPRETED):
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
        self._points |= points
        self._values |= {name: self._evaluated(name, p) for name, p in points.items()}

    def _evaluated(self, name: str, points: Array) -> Array:
        return evaluate_points(_exact(self.prim), self.inputs, name, points)

    def save(self, path: Path) -> None:
        """Saves the certain values to a file, so that the next process need not compute them."""
        parts = {} if self.partial else self._whole, self._points, self._values
        arrays = {f"{n}.{k}": v for n, named in enumerate(parts) for k, v in named.items()}
        write_arrays(path, arrays)

    @staticmethod
    def load(path: Path, prim: PrimFunc, inputs: Mapping[str, Array]) -> Reference:
        """Returns a reference with the values that ``save`` wrote."""
        made = Reference.__new__(Reference)
        made.prim, made.inputs, made._measures, made._seen = prim, inputs, {}, {}
        made._whole, made._points, made._values = parts = {}, {}, {}
        arrays = read_arrays(path)
        assert isinstance(arrays, dict)
        for key, values in arrays.items():
            part, _, name = key.partition(".")
            parts[int(part)][name] = values
        return made

    @functools.cached_property
    def _bounds(self) -> dict[str, float]:
        return {b.name: error_bound(self.prim, b.dtype) for b in self.prim.output_buffers}

    @property
    def partial(self) -> bool:
        """True if only some elements are known for certain."""
        return bool(self._points)

    def check(self, outputs: Mapping[str, Array]) -> Verdict:
        """Compares a candidate's outputs, arrays by name."""
        worst = Verdict(True, 0.0, 0.0)
        for name in self.prim.outputs:
            data = outputs[name].reshape(-1).view(np.uint8)
            seen, verdict = self._seen.get(name, (None, worst))
            if seen is None or not np.array_equal(seen, data):
                verdict = self._check_one(name, outputs[name])
                if not verdict.right:
                    return verdict
                self._seen |= {name: (data.copy(), verdict)} if data.size <= _SEEN_BYTES else {}
            if verdict.max_error >= worst.max_error:
                worst = verdict
        if self.partial and not self._whole:
            self._whole = {name: outputs[name].copy() for name in self._points}
            self._measures = {}
        return worst

    def check_points(self, values: Mapping[str, Array]) -> Verdict:
        """Compares a candidate's outputs at the points given to ``__init__``."""
        for name in self.prim.outputs:
            right, bound, points = self._values[name], self._bounds[name], self._points[name]
            if not (verdict := self._judge(name, values[name], right, bound, points)).right:
                return verdict
        return Verdict(True, 0.0, 0.0)

    def _check_one(self, name: str, got: Array) -> Verdict:
        bound = self._bounds[name]
        if self.partial:
            if _unwritten(got):
                return Verdict(False, 1e300, bound, f"parts of {name} are never written")
            at_points = np.atleast_1d(got[tuple(self._points[name].T)])
            verdict = self._judge(name, at_points, self._values[name], bound, self._points[name])
            if not verdict.right or name not in self._whole:
                return verdict
        if not self.partial:
            return self._judge(name, got, self._kept(name)[0], bound)
        verdict = _verdict(_errors(got, *self._kept(name)), 2 * bound, name)
        return verdict if verdict.right else self._arbitrate(name, got, bound)

    def _judge(
        self, name: str, got: Array, right: Array, bound: float, points: Array | None = None
    ) -> Verdict:
        """Compares elements, those at ``points`` if these are given. What differs by more than
        ``bound`` is right if another rounding of every step gives it, too (``ir/loop/rounding``).
        """
        scale = self._kept(name)[1] if points is None else self._scale(right)
        error = _errors(got, right, scale)
        failing = np.flatnonzero(error > bound)
        if failing.size > _WORST_FIRST:
            failing = failing[np.argpartition(-error.reshape(-1)[failing], _WORST_FIRST)]
        for part in (failing[:_WORST_FIRST], failing[_WORST_FIRST:]):  # few of a wrong result
            at = np.array(np.unravel_index(part, got.shape or (1,))).T[:, : got.ndim]
            at = at if points is None else points[part]
            given, true = got.reshape(-1)[part], right.reshape(-1)[part]
            reached = part[self._is_rounding(name, at, given, true, bound)]
            if bound:  # other candidates may be as far from it
                growth = error.reshape(-1)[reached] / bound
                scale.reshape(-1)[reached] *= np.where(np.isinf(growth), 1.0, growth)
            error.reshape(-1)[reached] = bound
            if reached.size < part.size:
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
            plain = _run_plain(prim, self.inputs)[name][tuple(points.T)]
            return _errors(got, plain, self._scale(plain)) <= bound
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

    def _kept(self, name: str) -> tuple[Array, Array]:
        """Returns a whole output that is right, and its scale."""
        if name not in self._measures:
            right = np.atleast_1d(self._whole[name])
            floats = dtype_of(right.dtype).is_float
            right = _as_float(right) if floats else right
            self._measures[name] = right, self._scale(right) if floats else right
        return self._measures[name]

    def _scale(self, right: Array) -> Array:
        """Returns what errors of elements are relative to: their size, where there are sums that of
        all, and at least the least normal number."""
        sums = _has_sums(self.prim)
        floats = [b.dtype for b in self.prim.buffers.values() if b.dtype.is_float]
        least = max((2.0 ** (1 - d.exponent_bias) for d in floats), default=0.0)
        right = _as_float(right)
        return np.abs(right) + max(_typical_size(right) if sums else 0.0, least)

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
    outputs = run_kernel(_plain_kernel(prim), inputs, Target.host(), 1)
    return {b.name: values for b, values in zip(prim.results, outputs, strict=True)}


@functools.lru_cache(maxsize=16)
def _plain_kernel(prim: Procedure) -> Kernel:
    return compile_kernel(prim, Schedule(), Target.host())


@functools.lru_cache(maxsize=16)
def _exact(prim: PrimFunc) -> PrimFunc:
    """Returns the PrimFunc to evaluate: in float64 where that gives the better reference. What is
    rounded to a half on its way is so in every right result."""
    nodes = [node for s in prim.stages for node in walk(s.expr)]
    halves = any(node.dtype.is_half for node in nodes if isinstance(node, Op))
    return prim if halves or not _is_continuous(prim) else widened(prim)


@functools.lru_cache(maxsize=16)
def error_bound(prim: PrimFunc, dtype: DType) -> float:
    """Returns the allowed error of an output of ``dtype``: that of the longest chain of operations
    and sums, each in the dtype it is computed in. It is 0 where nothing is rounded.

    It is relative to an element and, where there are sums, to the size of all of them. Terms of
    both signs partly cancel, and ``n`` of them sum to ``sqrt(n)`` times one: so the tolerance's
    absolute part, ``w * n * u`` terms, is its relative part of the result's size.
    """
    if not dtype.is_float:
        return 0.0
    if isinstance(prim, Procedure):
        stmts = statements(prim.body)
        rounded = any(isinstance(s, Accumulate) and s.combiner in _SUMS for s in stmts) or any(
            isinstance(n, Op) and rounds(n) for s in stmts for e in expressions(s) for n in walk(e)
        )
        return tolerance(dtype, operations=_OPERATIONS * rounded).rtol
    bounds: dict[str, float] = {}
    for stage in prim.stages:
        done: dict[int, float] = {}
        for node in walk(stage.expr):
            done[id(node)] = bounds.get(node.buffer, 0.0) if isinstance(node, Read) else 0.0
            if isinstance(node, Op):
                done[id(node)] = max(done[id(a)] for a in node.args)
                single = FLOAT32 if node.dtype.is_half else node.dtype  # see _exact
                done[id(node)] += tolerance(single, operations=rounds(node)).rtol
        terms = terms_of(stage)
        summed = tolerance(stage.buffer.dtype, terms if terms > 1 else 0, operations=0).rtol
        bounds[stage.name] = done[id(stage.expr)] + summed
    return max(bounds[name] for name in prim.outputs)


def terms_of(stage: Stage) -> int:
    """Returns how many floats an element of a stage adds up or multiplies."""
    sums = stage.combiner in _SUMS and stage.buffer.dtype.is_float
    return math.prod(as_int(a.extent) for a in stage.reduce_axes) if sums else 0


@functools.lru_cache(maxsize=16)
def _has_sums(prim: PrimFunc) -> bool:
    """True if terms of a result may cancel, so that it is much smaller than its error. Products of
    any length keep the relative error of their factors."""
    if not isinstance(prim, Procedure):
        return any(s.combiner == "sum" and terms_of(s) > 1 for s in prim.stages)
    stmts = statements(prim.body)
    return any(isinstance(s, Accumulate) and s.combiner == "sum" for s in stmts) or any(
        isinstance(n, Op) and rounds(n) and n.name not in ("multiply", "divide")
        for s in stmts
        for e in expressions(s)
        for n in walk(e)
    )


def _errors(got: Array, right: Array, scale: Array) -> Array:
    """Returns the error of each element: relative to its ``scale``, or 1 for a wrong integer."""
    got, right = np.atleast_1d(got), np.atleast_1d(right)  # scalars have no item assignment
    if not dtype_of(got.dtype).is_float:
        same = got.view(np.uint8) == right.view(np.uint8) if got.dtype == bool else got == right
        return 1.0 - same
    got, right = _as_float(got), _as_float(right)
    with np.errstate(all="ignore"):
        error = np.abs(got - right)
        error /= scale
    if not error.max(initial=0.0) < np.inf:
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
            jumps = node.name == "cast" and not node.dtype.is_float
            jumps = jumps or Trait.JUMPS in SCALAR_OPS[node.name].traits
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
    return values.astype(np.float64, copy=False)


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

"""Random inputs of a task, and probes, for kernels of which random inputs show too little.

A sum shows whether a term is missing, a maximum only if the missing element is the greatest. So
kernels that select are run on inputs in which every line along one axis has two spikes, at 0, 1, 3,
7, ... elements from its ends: any block that a split cuts off at an end or beside a remainder
contains such a place. Where selected elements are used up, as in a softmax, which is the same
whatever it subtracts, the same inputs are tried many times larger, so that something overflows.

Kernels that compare, round, or hold no floats are run on draws of few values, which are equal now
and then, some of them zeros, nan, and the ends of the dtype; those with few results on more random
draws. A procedure is run on all of these, on sorted arrays, and on some of which one lies above
another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, as_int
from ...ir.dtype import FLOAT32, DType, dtype_of
from ...ir.loop.evaluate import evaluate_prim
from ...ir.loop.expr import Op, Read, walk
from ...ir.loop.nest import At, expressions, statements
from ...ir.loop.prim import PrimFunc
from ...ir.loop.procedure import Procedure, executions
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.traits import Trait
from .reference import Reference, terms_of

Array = npt.NDArray[Any]
Rng: TypeAlias = np.random.Generator


@dataclass(frozen=True, slots=True)
class Probing:
    """Settings of the inputs that candidates are checked on."""

    least: int = 4  # Probes of a kernel with much work, or with as many rows as ``most``.
    most: int = 8  # Probes of others.
    # A fault in one of a few rows shows only if the spike of that row is where the fault is.
    small_work: int = 50_000  # Scalar evaluations up to which more probes cost little.
    most_of_small: int = 16  # Probes of a kernel with so little work.
    work: int = 2_000_000  # Evaluations above which random inputs find every element.
    procedures: int = 400_000  # Stores of a procedure in all its probes.
    as_integers: float = 16.0  # Factor of floats that become integers.
    tame: float = 0.5  # Share of the tolerance that NumPy's error reaches in a loud probe of use.
    few_results: int = 64  # Results so few that an error may be too small to be seen, by chance.
    special: float = 1 / 3  # Share of special values where elements do not meet.
    rare: float = 1 / 8  # The same in procedures, where they may.
    coarse: tuple[float, ...] = (-0.75, 0.25, 0.5, 1.5)  # Exact in every dtype, as are small sums.


PROBING = Probing()
_LOUD = {1: 2.0, 2: 16.0, 4: 256.0, 8: 1024.0}
"""Factor of loud probes, by the bytes of a float: ``exp`` overflows at 11, 89 and 710."""


@dataclass(frozen=True, slots=True)
class InputKind:
    """The dtype of random values, the least float (below 1), the range of integers, and values that
    are special."""

    dtype: DType
    low: float
    integers: tuple[int, int]
    specials: tuple[float, ...] = ()

    def draw(self, shape: Any, rng: Rng, coarse: bool = False, special: float = 0.0) -> Array:
        """Returns random values; ``coarse`` ones are few, and so they are often equal. A share of
        them is ``special``: zeros, the ends of the dtype, nan."""
        if special and self.specials:
            chosen = rng.choice(np.array(self.specials, self.dtype.numpy), shape)
            return np.where(rng.random(shape) < special, chosen, self.draw(shape, rng, coarse))
        if self.dtype.is_bool:
            return rng.integers(0, 2, shape).astype(np.bool_)
        if coarse:
            return rng.choice(self.few, shape).astype(self.dtype.numpy)
        if self.dtype.is_integer:
            return rng.integers(*self.integers, shape).astype(self.dtype.numpy)
        values = random_floats(self.dtype, shape, rng)
        values *= values.dtype.type(1.0 - self.low)
        values += values.dtype.type(self.low)
        return values

    @property
    def few(self) -> Any:
        """The values of coarse draws: of integers odd ones, whose product never vanishes, and the
        ends."""
        least, end = self.integers
        if self.dtype.is_integer:
            return least, end - 1, min(end - 1, least + ((end - least) // 3 & ~1))
        return PROBING.coarse if self.low < 0 else np.abs(PROBING.coarse)


def random_floats(dtype: DType, shape: tuple[int, ...], rng: Rng) -> Array:
    """Returns floats in [0, 1), of halves in [0, 1]: NumPy draws no halves."""
    drawn = FLOAT32 if dtype.is_half else dtype
    return rng.random(shape, dtype=drawn.numpy.type).astype(dtype.numpy, copy=False)


def input_kinds(prim: PrimFunc) -> dict[str, InputKind]:
    """Returns the distribution of the elements of every parameter.

    Floats lie in [-1, 1), or in [0.1, 1) if the PrimFunc uses functions with a restricted domain,
    of acosh in (1, 3]; integers in [-99, 100), or in [1, 100), and indices anywhere along the axis
    they index: a table read at a hundred places only would seem to be in L1. Integers that are
    shifted right have bits everywhere. Special values are finite in sums, of which schedules leave
    out terms that are zeros times a number, and where they become integers, which NumPy leaves
    open.
    """
    exprs = [s.expr for s in prim.stages]
    if isinstance(prim, Procedure):
        exprs = [e for s in statements(prim.body) for e in expressions(s)]
    ops = [node for e in exprs for node in walk(e) if isinstance(node, Op)]
    shifted = [node for o in ops if o.name == "right_shift" for node in walk(o.args[0])]
    words = {node.buffer for node in shifted if isinstance(node, Read) and node.dtype.is_integer}
    low = 0.1 if any(Trait.POSITIVE_DOMAIN in SCALAR_OPS[o.name].traits for o in ops) else -1.0
    low = 3.0 if any(o.name == "acosh" for o in ops) else low
    casts = [o for o in ops if o.name == "cast" and o.args[0].dtype.is_float]
    finite = any(o.dtype.is_integer for o in casts) or any(map(terms_of, prim.stages))
    indices = index_ranges(prim)
    ends = indices | {
        p.name: (1 << min(8 * p.dtype.bytes - 1, 63)) - 1 for p in prim.params if p.name in words
    }
    kinds: dict[str, InputKind] = {}
    for p in prim.params:
        least = 1 if low > 0 or p.dtype.kind != "i" else -99
        special: tuple[float, ...] = ()
        if p.dtype.is_float:
            special = (0.0, -0.0) if finite else (0.0, -0.0, math.nan, math.inf, -math.inf)
        elif p.dtype.is_integer and p.name not in indices and low < 0:
            special = 0, *p.dtype.limits
        span = (0, ends[p.name]) if p.name in ends else (least, 100)
        kinds[p.name] = InputKind(p.dtype, low, span, special)
    return kinds


def make_inputs(
    prim: PrimFunc, seed: int, coarse: bool = False, special: float = 0.0
) -> dict[str, Array]:
    """Returns an array per parameter, the same for the same seed."""
    rng = np.random.default_rng(seed)
    kinds = input_kinds(prim)
    shapes = {p.name: tuple(map(as_int, p.shape)) for p in prim.params}
    return {name: kinds[name].draw(shape, rng, coarse, special) for name, shape in shapes.items()}


def index_ranges(prim: PrimFunc) -> dict[str, int]:
    """Returns the length of the axis that a parameter's elements index, the shortest of several."""
    places: list[tuple[Any, int]] = []
    if isinstance(prim, Procedure):
        places += [(s.value, s.trips) for s in statements(prim.body) if isinstance(s, At)]
    for node in (node for s in prim.stages for node in walk(s.expr) if isinstance(node, Read)):
        shape = map(as_int, prim.buffers[node.buffer].shape)
        places += zip(node.indices, shape, strict=True)
    lengths: dict[str, int] = {}
    for index, size in places:
        for node in () if isinstance(index, int | Dim) else walk(index):
            if isinstance(node, Read) and node.dtype.is_integer:
                least = min(size, node.dtype.limits[1] + 1)
                lengths[node.buffer] = max(1, min(lengths.get(node.buffer, least), least))
    return lengths


def chooses(prim: PrimFunc) -> bool:
    """True if a result depends on one element of many."""
    return any(
        s.combiner not in (None, "sum", "prod") and _size(s.reduce_axes) > 1 for s in prim.stages
    )


def compares(prim: PrimFunc) -> bool:
    """True if results depend on which of two values is greater, on what one is rounded to, or are
    no floats, so that a product of many may be 0."""
    ops = (n for s in prim.stages for n in walk(s.expr) if isinstance(n, Op))
    exact = (Trait.EXACT in SCALAR_OPS[o.name].traits or not o.dtype.is_float for o in ops)
    return any(exact) or any(not s.buffer.dtype.is_float for s in prim.stages)


def make_probes(
    prim: PrimFunc, inputs: Mapping[str, Array], seed: int, most: int = PROBING.most_of_small
) -> list[dict[str, Array]]:
    """Returns inputs beside ``inputs``, with other values of what is not constant: for kernels that
    select, at most ``most`` quiet ones and as many loud ones; half as many other draws for those
    that compare or have few results.

    Constants and indices stay the same in what selects.
    """
    work = sum(_size((*s.axes, *s.reduce_axes)) for s in prim.stages)
    if work > PROBING.work:
        return []
    if isinstance(prim, Procedure):
        count = min(most, PROBING.procedures // max(1, executions(prim.body)))
        return [_drawn(prim, seed, n, PROBING.rare) for n in range(count)]
    count = min(most // 2, PROBING.most if work <= PROBING.small_work else PROBING.least)
    share = min([PROBING.special, *(1 / max(1, _size(s.reduce_axes)) for s in prim.stages)])
    coarse: list[dict[str, Array]] = []
    if compares(prim):
        coarse = [_drawn(prim, seed, n, share) for n in range(count)]
    elif sum(as_int(b.size) for b in prim.output_buffers) <= PROBING.few_results:
        coarse = [make_inputs(prim, seed + 1 + n) for n in range(count // 2)]
    rng = np.random.default_rng(seed + 1)
    kept = {p.name for p in prim.params if p.constant} | index_ranges(prim).keys()
    free = [name for name, values in inputs.items() if name not in kept and values.size > 1]
    if not free or not chooses(prim):
        return coarse
    lines = min(inputs[name].size // max(inputs[name].shape) for name in free)
    count = PROBING.least if lines >= PROBING.most else PROBING.most
    count = min(most, PROBING.most_of_small if work <= PROBING.small_work else count)
    probes = [
        {
            name: _spiked(values, number, which, rng) if name in free else values
            for which, (name, values) in enumerate(inputs.items())
        }
        for number in range(count)
    ]
    used_up = [s for s in prim.stages if s.name not in prim.outputs and s.buffer.dtype.is_float]
    if not any(s.combiner in ("max", "min") for s in used_up):
        return probes + coarse
    loud = [{n: _louder(v) if n in free else v for n, v in probe.items()} for probe in probes]
    return [*probes, *(probe for probe in loud if _is_tame(prim, probe)), *coarse]


def _drawn(prim: PrimFunc, seed: int, number: int, share: float) -> dict[str, Array]:
    """Returns random inputs: every second draw has few values, most of these a ``share`` of special
    ones; every fourth has larger ones, if they become integers, most of which are 0 else. For a
    procedure arrays are sorted in some, and lie in a half of their range."""
    special = share if number % 2 == 0 and number % 8 != 2 else 0.0
    drawn = make_inputs(prim, seed + 1 + number, number % 2 == 0, special)
    if not isinstance(prim, Procedure):
        if number % 2 == 0:  # chance might never try the ends of a single number, such as an index
            for place, (name, kind) in enumerate(input_kinds(prim).items()):
                if kind.dtype.is_integer and drawn[name].size == 1:
                    drawn[name][...] = kind.few[(number // 2 + place) % len(kind.few)]
        if number % 4 == 1 and _floats_become_words(prim):
            large = {n: _louder(v, PROBING.as_integers) for n, v in drawn.items()}
            return large if _fit_words(prim, large) else drawn
        return drawn
    indices = index_ranges(prim)
    for place, (name, values) in enumerate(drawn.items()):
        half = (number // 2 + place) % 3  # 0 is the whole range
        if name not in indices and values.dtype.kind in "fiu" and half:
            values = values / 2 + (50 if values.dtype.kind in "iu" else 0.5) * (half - 1)
            drawn[name] = values.astype(drawn[name].dtype)
        if number % 4 == 3 and values.ndim:
            drawn[name].sort()
            if number % 8 == 7:
                drawn[name] = np.ascontiguousarray(drawn[name][..., ::-1])
    return drawn


def _floats_become_words(prim: PrimFunc) -> bool:
    """True if floats are cast to integers of which any sum of a few hundred floats is one."""
    nodes = (n for s in prim.stages for n in walk(s.expr) if isinstance(n, Op))
    casts = [n for n in nodes if n.name == "cast" and n.args[0].dtype.is_float]
    return any(n.dtype.is_integer and n.dtype.bytes >= 4 for n in casts)


def _fit_words(prim: PrimFunc, inputs: Mapping[str, Array]) -> bool:
    """True if no result is as large as what NumPy makes of nan, or of floats beyond integers."""
    with np.errstate(all="ignore"):
        results = evaluate_prim(prim, inputs).values()
    return all((np.abs(r.astype(np.float64)) < 1 << 30).all() for r in results)


def _louder(values: Array, factor: float | None = None) -> Array:
    if not dtype_of(values.dtype).is_float:
        return values
    return values * values.dtype.type(factor or _LOUD[values.dtype.itemsize])


def _is_tame(prim: PrimFunc, probe: Mapping[str, Array]) -> bool:
    """True if rounding does not matter: NumPy in the kernel's own dtypes is close to the exact
    result and finite."""
    with np.errstate(all="ignore"):
        results = evaluate_prim(prim, dict(probe))
        if not all(np.isfinite(values).all() for values in results.values()):
            return False
        verdict = Reference(prim, probe).check(results)
    return verdict.right and verdict.max_error <= PROBING.tame * verdict.bound


def _size(axes: Any) -> int:
    return math.prod(as_int(a.extent) for a in axes)


def _spiked(values: Array, number: int, which: int, rng: Rng) -> Array:
    """Returns quiet values with two spikes, a low and a high one, on every line along one axis: in
    every second probe beyond what random inputs have. ``which`` array it is decides their order."""
    quiet, low, high = _levels(values, number, rng)
    if number % 2 and dtype_of(values.dtype).is_float:
        low, high = 4 * low, 4 * high
    number //= 2
    sizes = [n for n in range(values.ndim) if values.shape[n] > 1]
    # The last axis first and most often: reduced axes are usually there.
    axis = sizes[-1 - (number % len(sizes))]
    lines = np.moveaxis(quiet, axis, -1)
    flat = lines.reshape(-1, lines.shape[-1]).copy()
    places = _places(flat.shape[1])
    line = np.arange(len(flat)) + number * len(flat)
    order = np.random.default_rng(which).permutation(len(places))
    rows = np.arange(len(flat))
    flat[rows, places[order[line % len(places)]]] = high
    flat[rows, places[order[(line + 1) % len(places)]]] = low
    return np.ascontiguousarray(np.moveaxis(flat.reshape(lines.shape), -1, axis))


def _places(extent: int) -> npt.NDArray[np.int64]:
    """Returns the elements 2**n - 1 away from either end."""
    steps = [(1 << n) - 1 for n in range(extent.bit_length() + 1) if (1 << n) <= extent]
    return np.unique(np.array([*steps, *(extent - 1 - s for s in steps)], np.int64))


def _levels(values: Array, number: int, rng: Rng) -> tuple[Array, Any, Any]:
    """Returns quiet values, and a spike below and one above all of them."""
    if values.dtype.kind == "b":
        calm = bool(number % 2)
        return np.full(values.shape, calm), not calm, not calm
    if values.dtype.kind in "iu":
        return rng.integers(40, 60, values.shape).astype(values.dtype), 1, 99
    positive = values.size > 0 and float(values.min()) >= 0
    quiet = random_floats(dtype_of(values.dtype), values.shape, rng)
    if positive:
        return quiet * values.dtype.type(0.3) + values.dtype.type(0.2), 0.1, 0.96875
    return quiet - values.dtype.type(0.5), -0.96875, 0.96875

"""Inputs on which every element counts, for kernels that select elements instead of summing them.

A sum shows whether a term is missing. A maximum shows it only if the missing element is the
greatest, and ``any`` only if it is the only true one. On random inputs that is rare where few
results are selected among many elements: of a row's 1,000 elements, the eight of a forgotten
remainder hold the maximum once in 125 rows. So kernels that select are run on probes as well: quiet
inputs in which every line along one axis has two spikes, at 0, 1, 3, 7, ... elements from its ends.
Any block that a split cuts off at an end or beside a remainder is at least as long as its distance
from the end, and so contains such a place.

A selected element may cancel afterwards: a softmax subtracts a maximum, and any other number in its
place gives the same result, unless a large element overflows. Kernels that use up their selected
elements are therefore run on loud probes, too, of the same form and many times larger, unless even
NumPy's results are dominated by rounding there.

What a procedure does to an element depends on the data: an index may name one twice, a minimum keep
what was there. Small ones are run on other random inputs, so that each of their stores matters in
some. Every second draw has few values, so that two indices meet.

Elements that are compared may all compare alike: random floats are never equal, and one large
number is greater than all of an array. So kernels that compare run on draws of few values, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dims import as_int
from ...ir.dtype import dtype_of
from ...ir.loop.evaluate import evaluate_prim
from ...ir.loop.expr import Op, walk
from ...ir.loop.prim import PrimFunc
from ...ir.loop.procedure import Procedure, executions
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.traits import Trait
from .reference import INTERPRETED, Reference, index_ranges, make_inputs, random_floats

Array = npt.NDArray[Any]
_CHOOSING = ("max", "min", "any", "all")
_LEAST, _MOST = 4, 8
_SMALL_WORK, _MOST_OF_SMALL = 50_000, 16
"""Kernels with fewer scalar evaluations are run on more probes, which cost little there: a fault in
one of a few rows shows only if the spike of that row is where the fault is."""
_LOUD = {2: 16.0, 4: 256.0, 8: 1024.0}
"""Factor of loud probes, by the bytes of a float: ``exp`` overflows at 11, 89 and 710."""
_TAME = 0.25
"""Share of the tolerance that NumPy's own error may reach for a loud probe to be of use."""
_WORK = 2_000_000
"""Kernels with more scalar evaluations have enough results for random inputs to find every
element."""


def chooses(prim: PrimFunc) -> bool:
    """True if a result depends on one element of many."""
    return any(s.combiner in _CHOOSING and _size(s.reduce_axes) > 1 for s in prim.stages)


def compares(prim: PrimFunc) -> bool:
    """True if results depend on which of two values is greater, on what one is rounded to, or are
    no floats, so that a product of many may be 0."""
    ops = (n for s in prim.stages for n in walk(s.expr) if isinstance(n, Op))
    exact = (Trait.EXACT in SCALAR_OPS[o.name].traits or not o.dtype.is_float for o in ops)
    return any(exact) or any(not s.buffer.dtype.is_float for s in prim.stages)


def make_probes(
    prim: PrimFunc, inputs: Mapping[str, Array], seed: int, most: int = _MOST_OF_SMALL
) -> list[dict[str, Array]]:
    """Returns inputs beside ``inputs`` for kernels that select, with other values of what is not
    constant: at most ``most`` quiet ones and as many loud ones, and half as many draws of few
    values. Of a small procedure they are other random inputs.

    Constants and indices stay the same in what selects.
    """
    if isinstance(prim, Procedure):
        count = min(most, _MOST_OF_SMALL, INTERPRETED // max(1, executions(prim.body)))
        return [make_inputs(prim, seed + 1 + n, n % 2 == 1) for n in range(count)]
    work = sum(_size((*s.axes, *s.reduce_axes)) for s in prim.stages)
    if work > _WORK:
        return []
    count = min(most // 2, _MOST if work <= _SMALL_WORK else _LEAST) if compares(prim) else 0
    coarse = [make_inputs(prim, seed + 1 + n, True) for n in range(count)]
    rng = np.random.default_rng(seed + 1)
    kept = {p.name for p in prim.params if p.constant} | index_ranges(prim).keys()
    free = [name for name, values in inputs.items() if name not in kept and values.size > 1]
    if not free or not chooses(prim):
        return coarse
    lines = min(inputs[name].size // max(inputs[name].shape) for name in free)
    count = _LEAST if lines >= _MOST else _MOST
    count = min(most, _MOST_OF_SMALL if work <= _SMALL_WORK else count)
    probes = [
        {
            name: _spiked(values, number, rng) if name in free else values
            for name, values in inputs.items()
        }
        for number in range(count)
    ]
    if not _cancels(prim):
        return probes + coarse
    loud = [{n: _louder(v) if n in free else v for n, v in probe.items()} for probe in probes]
    return [*probes, *(probe for probe in loud if _is_tame(prim, probe)), *coarse]


def _cancels(prim: PrimFunc) -> bool:
    """True if selected floats are used up by other stages."""
    return any(
        s.combiner in ("max", "min") and s.buffer.dtype.is_float and s.name not in prim.outputs
        for s in prim.stages
    )


def _louder(values: Array) -> Array:
    if not dtype_of(values.dtype).is_float:
        return values
    return values * values.dtype.type(_LOUD[values.dtype.itemsize])


def _is_tame(prim: PrimFunc, probe: Mapping[str, Array]) -> bool:
    """True if rounding does not matter: NumPy in the kernel's own dtypes is close to the exact
    result and finite."""
    with np.errstate(all="ignore"):
        results = evaluate_prim(prim, dict(probe))
        if not all(np.isfinite(values).all() for values in results.values()):
            return False
        verdict = Reference(prim, probe).check(results)
    return verdict.right and verdict.max_error <= _TAME * verdict.bound


def _size(axes: Any) -> int:
    return math.prod(as_int(a.extent) for a in axes)


def _spiked(values: Array, number: int, rng: np.random.Generator) -> Array:
    """Returns quiet values with two spikes, a low and a high one, on every line along one axis."""
    quiet, low, high = _levels(values, number, rng)
    sizes = [n for n in range(values.ndim) if values.shape[n] > 1]
    # The last axis first and most often: reduced axes are usually there.
    axis = sizes[-1 - (number % len(sizes))]
    lines = np.moveaxis(quiet, axis, -1)
    flat = lines.reshape(-1, lines.shape[-1]).copy()
    places = _places(flat.shape[1])
    line = np.arange(len(flat)) + number * len(flat)
    order = rng.permutation(len(places))
    rows = np.arange(len(flat))
    flat[rows, places[order[line % len(places)]]] = high
    flat[rows, places[order[(line + 1) % len(places)]]] = low
    return np.ascontiguousarray(np.moveaxis(flat.reshape(lines.shape), -1, axis))


def _places(extent: int) -> npt.NDArray[np.int64]:
    """Returns the elements 2**n - 1 away from either end."""
    steps = [(1 << n) - 1 for n in range(extent.bit_length() + 1) if (1 << n) <= extent]
    return np.unique(np.array([*steps, *(extent - 1 - s for s in steps)], np.int64))


def _levels(values: Array, number: int, rng: np.random.Generator) -> tuple[Array, Any, Any]:
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

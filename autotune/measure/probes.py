"""Inputs on which no element goes unnoticed where results are chosen rather than added up.

A sum shows whether a term is missing. A maximum shows it only if the missing element is the
greatest, and whether any condition holds only if it is the one that does. On random inputs that is
rare where few results are chosen among many elements: of a row's 1,000 elements, the eight of a
forgotten tail hold the maximum once in 125 rows. So kernels that choose are run on probes as well:
quiet inputs in which every line along one axis has two spikes, at 0, 1, 3, 7, ... elements from its
ends, one after the other. Whatever block a split cuts off there, at an end or beside a rest, is as
long as it is far from the end at least, and so holds such a place.

What is chosen may cancel afterwards: a softmax subtracts a maximum, and any other number in its
place gives the same, until a large element overflows. Kernels that use up what they choose are
therefore run on loud probes, too, of the same shape and many times larger; unless their results are
a matter of rounding there, even for NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dims import as_int
from ...ir.loop.evaluate import evaluate_prim
from ...ir.loop.prim import PrimFunc
from .reference import Reference, index_ranges

__all__ = ["chooses", "make_probes"]

Array = npt.NDArray[Any]
_CHOOSING = ("max", "min", "any", "all")
_LEAST, _MOST = 4, 8
_LOUD = {4: 256.0, 8: 1024.0}
"""How many times larger loud probes are, by the bytes of a float: ``exp`` overflows at 89 and 710.
"""
_TAME = 0.25
"""Of the tolerance: the error of NumPy's own result up to which a loud probe says something."""
_WORK = 2_000_000
"""Kernels with more scalar evaluations have results enough for chance to find every element."""


def chooses(prim: PrimFunc) -> bool:
    """Whether a result depends on one element of many."""
    return any(s.combiner in _CHOOSING and _size(s.reduce_axes) > 1 for s in prim.stages)


def make_probes(
    prim: PrimFunc, inputs: Mapping[str, Array], seed: int, most: int = _MOST
) -> list[dict[str, Array]]:
    """Some inputs beside ``inputs``, for what is not constant; none for kernels that add up only.
    At most ``most`` quiet ones and as many loud ones.

    Constants stay what they are, since they have been packed, and so do indices.
    """
    work = sum(_size((*s.axes, *s.reduce_axes)) for s in prim.stages)
    if not chooses(prim) or work > _WORK:
        return []
    rng = np.random.default_rng(seed + 1)
    kept = {p.name for p in prim.params if p.constant} | index_ranges(prim).keys()
    free = [name for name, values in inputs.items() if name not in kept and values.size > 1]
    if not free:
        return []
    lines = min(inputs[name].size // max(inputs[name].shape) for name in free)
    count = min(most, _LEAST if lines >= _MOST else _MOST)
    probes = [
        {
            name: _spiked(values, number, rng) if name in free else values
            for name, values in inputs.items()
        }
        for number in range(count)
    ]
    if not _cancels(prim):
        return probes
    loud = [{n: _louder(v) if n in free else v for n, v in probe.items()} for probe in probes]
    return probes + [probe for probe in loud if _is_tame(prim, probe)]


def _cancels(prim: PrimFunc) -> bool:
    """Whether floats that are chosen are used up by other stages."""
    return any(
        s.combiner in ("max", "min") and s.buffer.dtype.is_float and s.name not in prim.outputs
        for s in prim.stages
    )


def _louder(values: Array) -> Array:
    if values.dtype.kind != "f":
        return values
    return values * values.dtype.type(_LOUD[values.dtype.itemsize])


def _is_tame(prim: PrimFunc, probe: Mapping[str, Array]) -> bool:
    """Whether rounding decides nothing: NumPy in the kernel's own dtypes comes close, and neither
    overflows nor has anything that is not a number."""
    with np.errstate(all="ignore"):
        found = evaluate_prim(prim, dict(probe))
        if not all(np.isfinite(values).all() for values in found.values()):
            return False
        verdict = Reference(prim, probe).check(found)
    return verdict.right and verdict.max_error <= _TAME * verdict.bound


def _size(axes: Any) -> int:
    return math.prod(as_int(a.extent) for a in axes)


def _spiked(values: Array, number: int, rng: np.random.Generator) -> Array:
    """Quiet values with two spikes, a low and a high one, on every line along one axis."""
    quiet, low, high = _levels(values, number, rng)
    sizes = [n for n in range(values.ndim) if values.shape[n] > 1]
    # The last axis first, and again more often: what is reduced usually lies there.
    axis = sizes[-1 - (number % len(sizes))]
    lines = np.moveaxis(quiet, axis, -1)
    flat = lines.reshape(-1, lines.shape[-1]).copy()
    places = _places(flat.shape[1])
    turn = np.arange(len(flat)) + number * len(flat)
    order = rng.permutation(len(places))
    rows = np.arange(len(flat))
    flat[rows, places[order[turn % len(places)]]] = high
    flat[rows, places[order[(turn + 1) % len(places)]]] = low
    return np.ascontiguousarray(np.moveaxis(flat.reshape(lines.shape), -1, axis))


def _places(extent: int) -> npt.NDArray[np.int64]:
    """Elements 2**n - 1 away from either end."""
    steps = [(1 << n) - 1 for n in range(extent.bit_length() + 1) if (1 << n) <= extent]
    return np.unique(np.array([*steps, *(extent - 1 - s for s in steps)], np.int64))


def _levels(values: Array, number: int, rng: np.random.Generator) -> tuple[Array, Any, Any]:
    """Quiet values, and a spike below and one above all of them."""
    if values.dtype.kind == "b":
        calm = bool(number % 2)
        return np.full(values.shape, calm), not calm, not calm
    if values.dtype.kind in "iu":
        return rng.integers(40, 60, values.shape).astype(values.dtype), 1, 99
    positive = values.size > 0 and float(values.min()) >= 0
    quiet = rng.random(values.shape, dtype=values.dtype.type)
    if positive:
        return quiet * values.dtype.type(0.3) + values.dtype.type(0.2), 0.1, 0.96875
    return quiet - values.dtype.type(0.5), -0.96875, 0.96875

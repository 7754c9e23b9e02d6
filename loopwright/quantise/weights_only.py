"""Products whose constant weights have few bits, in groups with a scale each, and floats beside.

Weights are rounded one row after the other; what a row's rounding takes off the products on the
samples, the rows behind it make good (least squares: E. Frantar and others, "GPTQ", 2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..face.module import build
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import LoopwrightValueError
from ..ir.graph.builder import Builder
from ..ir.graph.compose import F, Value
from ..ir.graph.nodes import Atom, Call, Constant, Module
from ..ir.graph.weights import groups_of
from .ranges import Scheme
from .rewrite import is_product
from .sites import Site, extended, results_of, with_results

DAMPING = 0.01
"""Part of the mean square of a factor's channels that is added to each: some are always 0."""


@dataclass(frozen=True, slots=True)
class RoundedWeights:
    """Operands of ``nn.matmul_nbits``, how far the product is off on the samples, as a part of its
    norm, and how far it would be with each weight rounded to the nearest."""

    w: Array
    scales: Array
    bits: int
    error: float
    nearest: float

    def product(self, call: Call, builder: Builder) -> Atom:
        """Emits the product of a call's left factor and the weights."""
        x, *rest = (
            Value(builder, a) for a in (call.args[0], *map(Constant, (self.w, self.scales)))
        )
        return F.nn.matmul_nbits(x, *rest, bits=self.bits, activations="float32").atom


def takes(site: Site, scheme: Scheme) -> bool:
    """Returns True for a product with a constant matrix that is in whole groups."""
    if not is_product(site) or site.weights is None:
        return False
    return site.weights.value.shape[site.roles.summed[0]] % scheme.group == 0


def rounded_weights(
    module: Module,
    sites: Sequence[Site],
    samples: Sequence[Sequence[Array]],
    scheme: Scheme,
    options: Mapping[str, Any],
) -> dict[str, RoundedWeights]:
    """Returns the weights of sites, by their names, as ``scheme`` says.

    Raises LoopwrightValueError for values whose squares are not finite."""
    builder = extended(module)
    factors = list(dict.fromkeys(site.call.args[0] for site in sites))
    parts: list[Any] = []
    for x in (Value(builder, factor) for factor in factors):
        rows = F.reshape(x, newshape=(-1, x.shape[-1]))
        parts.append(F.nn.matmul(F.transpose(rows), rows).atom)
    call = build(with_results(module, builder, parts), **options)
    totals = [np.zeros(part.type.shape) for part in parts]
    for sample in samples:
        for total, square in zip(totals, results_of(call, sample), strict=True):
            total += square
    squares = dict(zip(factors, totals, strict=True))
    for site in sites:
        if not np.isfinite(squares[site.call.args[0]]).all():
            raise LoopwrightValueError(
                f"{site.name} takes values that are inf, nan or greater than 1e19 on the samples"
            )
    return {site.name: _rounded(site, squares[site.call.args[0]], scheme) for site in sites}


def _rounded(site: Site, square: Array, scheme: Scheme) -> RoundedWeights:
    assert site.weights is not None and scheme.weights_only is not None
    matrix = np.moveaxis(site.weights.value, site.roles.summed[0], 0).astype(np.float64)
    bits, most = scheme.weights_only, (1 << scheme.weights_only - 1) - 1

    def of(correction: Array | None) -> tuple[Array, Array, float]:
        codes, scales = grouped(matrix, scheme.group, most, correction)
        lost = matrix - codes * np.repeat(scales, scheme.group, axis=0)
        whole = np.einsum("kn,kn->", matrix, square @ matrix)
        return (
            codes,
            scales,
            float((np.einsum("kn,kn->", lost, square @ lost) / (whole or 1)) ** 0.5),
        )

    codes, scales, nearest = of(None)
    error = nearest
    if scheme.least_squares:
        corrected = of(_correction(square))
        if corrected[2] < nearest:
            codes, scales, error = corrected
    w = groups_of((codes + most + 1).astype(np.uint8), bits, scheme.group)
    return RoundedWeights(w, scales.astype(np.float32), bits, error, nearest)


def _correction(square: Array) -> Array:
    """The upper triangle whose row k says what rounding weight k wrongly by 1 adds to the best
    values of those behind it: the root of the inverse of the sum of squares."""
    damped = square + np.eye(len(square)) * (DAMPING * np.trace(square) / len(square) or 1.0)
    return np.linalg.cholesky(np.linalg.inv(damped)).T


def grouped(w: Array, group: int, most: int, correction: Array | None) -> tuple[Array, Array]:
    """Returns codes from ``-most`` to ``most`` for weights (k, n), and scales for each ``group`` of
    them along k, float16 in value where that can hold them."""
    w, codes = w.copy(), np.empty(w.shape)
    scales = np.empty((len(w) // group, w.shape[1]))
    for number, start in enumerate(range(0, len(w), group)):
        block, end = w[start : start + group], start + group
        scale = np.abs(block).max(axis=0) / most
        half = (
            scale.astype(np.float16) if scale.max(initial=0) < np.finfo(np.float16).max else scale
        )
        scale = np.maximum(half.astype(np.float64), np.finfo(np.float32).tiny)
        errors = np.empty(block.shape)
        for row in range(group):
            codes[start + row] = np.clip(np.rint(block[row] / scale), -most, most)
            if correction is not None:
                lost = block[row] - codes[start + row] * scale
                errors[row] = lost / correction[start + row, start + row]
                behind = correction[start + row, start + row + 1 : end]
                block[row + 1 :] -= np.outer(behind, errors[row])
        if correction is not None:
            w[end:] -= correction[start:end, end:].T @ errors
        scales[number] = scale
    return codes, scales

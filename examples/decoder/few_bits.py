"""Weights of a decoder in 16, 8 or 4 bits.

Matrices of 8 and 4 bits are codes in groups of 32 neighbours along the reduced axis, each of which
has a float16 scale: 8.5 and 4.5 bits a weight. What they are multiplied with is rounded to bytes,
row by row, as instructions for products of bytes take it. Embeddings, of which a token reads one
row, and vectors keep 16 and 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import loopwright as lw
import ml_dtypes
import numpy as np

__all__ = ["KINDS", "Packed", "is_packed", "narrowed", "times", "widened"]

KINDS = ("float32", "bfloat16", "int8", "int4")
GROUP = 32

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Packed:
    """A matrix (k, n) as ``lw.nn.matmul_nbits`` takes it."""

    w: Array
    scales: Array
    bits: int

    @classmethod
    def of(cls, matrix: Array, bits: int) -> Packed:
        """Rounds each group to ``2**bits - 1`` levels around zero."""
        groups = matrix.astype(np.float32).reshape(-1, GROUP, matrix.shape[1])
        most = (1 << bits - 1) - 1
        scales = (np.abs(groups).max(1) / most).astype(np.float16)
        steps = np.maximum(scales.astype(np.float32), np.finfo(np.float32).tiny)[:, None]
        codes = np.clip(np.rint(groups / steps), -most, most).astype(np.int64) + most + 1
        w = lw.nn.pack_nbits(codes.reshape(matrix.shape), GROUP, bits)
        return cls(w, scales, bits)

    @property
    def nbytes(self) -> int:
        return self.w.nbytes + self.scales.nbytes

    def product(self, x: Any, activations: str) -> Any:
        """``x @ matrix``."""
        return lw.nn.matmul_nbits(x, self.w, self.scales, None, self.bits, activations)

    def dense(self) -> Array:
        """The matrix that the codes stand for."""
        identity = np.eye(len(self.w) * 8 // self.bits, dtype=np.float32)
        return lw.nn.matmul_nbits(identity, self.w, self.scales, bits=self.bits)


def times(x: Any, matrix: Any) -> Any:
    """``x @ matrix`` for an array or a packed matrix, whose rows are rounded to bytes."""
    return matrix.product(x, "int8") if is_packed(matrix) else x @ matrix


def is_packed(matrix: Any) -> bool:
    """True for a matrix (k, n) of few bits, ours or that of a file."""
    return hasattr(matrix, "product")


def narrowed(weights: Mapping[str, Any], kind: str, transposed: bool = False) -> dict[str, Any]:
    """Returns the weights of a model in another ``kind``; ``transposed``: matrices are (n, k).

    Packed matrices are (k, n). That of the scores is called "head" where embeddings are used for
    it, too.
    """
    if kind == "float32":
        return dict(weights)
    made: dict[str, Any] = {}
    for name, array in weights.items():
        row = "wpe" in name or "embed" in name or "wte" in name
        if array.ndim < 2:
            made[name] = array
        elif row or kind == "bfloat16":
            made[name] = array.astype(ml_dtypes.bfloat16)
        else:
            made[name] = Packed.of(array.T if transposed else array, 4 if kind == "int4" else 8)
        if "wte" in name and kind != "bfloat16":
            made["head"] = Packed.of(array.T, 4 if kind == "int4" else 8)
    return made


def widened(weights: Mapping[str, Any], transposed: bool = False) -> dict[str, Any]:
    """Returns arrays of float64 with the values of weights of any kind."""
    made: dict[str, Any] = {}
    for name, value in weights.items():
        array = value.dense() if isinstance(value, Packed) else value
        lies = transposed and isinstance(value, Packed)
        made[name] = (array.T if lies else array).astype(np.float64)
    return made

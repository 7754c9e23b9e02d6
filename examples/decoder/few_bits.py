"""Weights of a decoder in 16, 8 or 4 bits.

Matrices of 8 and 4 bits are codes in groups of 32 neighbours along the reduced axis, each of which
has a float16 scale: 8.5 and 4.5 bits a weight. What they are multiplied with is rounded to bytes,
row by row, as instructions for products of bytes take it. Embeddings, of which a token reads one
row, and vectors keep 16 and 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopwright as lw
import ml_dtypes
import numpy as np
from loopwright.decoding.llama import is_packed
from loopwright.doors.weight_files import PackedWeights

__all__ = ["KINDS", "narrowed", "widened"]

KINDS = ("float32", "bfloat16", "int8", "int4")
GROUP = 32

Array = np.ndarray[Any, Any]


def packed(matrix: Array, bits: int) -> PackedWeights:
    """Returns a matrix (k, n), each group of it rounded to ``2**bits - 1`` levels around zero."""
    groups = matrix.astype(np.float32).reshape(-1, GROUP, matrix.shape[1])
    most = (1 << bits - 1) - 1
    scales = (np.abs(groups).max(1) / most).astype(np.float16)
    steps = np.maximum(scales.astype(np.float32), np.finfo(np.float32).tiny)[:, None]
    codes = np.clip(np.rint(groups / steps), -most, most).astype(np.int64) + most + 1
    w = lw.nn.pack_nbits(codes.reshape(matrix.shape), GROUP, bits)
    return PackedWeights(w, scales, bits)


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
            made[name] = packed(array.T if transposed else array, 4 if kind == "int4" else 8)
        if "wte" in name and kind != "bfloat16":
            made["head"] = packed(array.T, 4 if kind == "int4" else 8)
    return made


def widened(weights: Mapping[str, Any], transposed: bool = False) -> dict[str, Any]:
    """Returns arrays of float64 with the values of weights of any kind."""
    made: dict[str, Any] = {}
    for name, value in weights.items():
        array = value.columns() if is_packed(value) else value
        lies = transposed and is_packed(value)
        made[name] = (array.T if lies else array).astype(np.float64)
    return made

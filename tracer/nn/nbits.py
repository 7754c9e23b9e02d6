"""Products with weights of few bits: see ``ir/ops/matmul_nbits.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.dtype import Array
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.nodes import Constant
from ...ir.ops.matmul_nbits import BITS, groups_of
from ..core.argument_conversion import by_numpy, checked
from ..core.proxy import Proxy
from .apply import apply_as_given

LARGEST = 127
"""The code of the element of a row that has the largest magnitude, in int8."""


def pack_nbits(codes: Any, group: int, bits: int = 4) -> Array:
    """The codes of a matrix (k, n) of weights, integers from 0 to ``2**bits - 1``, as the operand
    ``w`` of ``matmul_nbits``: uint8 (k * bits / 8, n), in groups of ``group`` neighbours along k.

    Raises LoopwrightValueError for codes out of range, or groups that do not divide k.

    >>> pack_nbits(np.arange(16)[:, None], 8).shape
    (8, 1)
    """
    array = np.asarray(codes)
    if bits not in BITS or array.ndim != 2 or array.dtype.kind not in "iu":
        raise LoopwrightValueError(f"a matrix of integers of 2, 4 or 8 bits, not {array.dtype}")
    if group < 1 or group * bits % 8 or len(array) % group:
        raise LoopwrightValueError(f"groups of {group} weights do not divide {len(array)} rows")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << bits:
        raise LoopwrightValueError(f"codes are not from 0 to {(1 << bits) - 1}")
    return groups_of(array.astype(np.uint8), bits, group)


def is_finite(scales: Any) -> bool:
    """True if no scale is infinite or nan, as far as their values are known."""
    atom = scales.atom if type(scales) is Proxy else None
    known = atom.value if isinstance(atom, Constant) else None if atom is not None else scales
    if known is None:
        return True
    wide = np.asarray(known).astype(np.float32)
    return all(math.isfinite(each) for each in (wide.min(initial=0), wide.max(initial=0)))


@checked
def matmul_nbits(
    x: Any, w: Any, scales: Any, zeros: Any = None, bits: int = 4, activations: str = "float32"
) -> Any:
    """``x @ ((codes - zeros) * scales)`` for weights of 2, 4 or 8 bits, which stay as they are.

    ``x`` is (..., k), float32 or int8; ``w`` is what ``pack_nbits`` makes of the codes; ``scales``
    (k / group, n) are floats; ``zeros`` are uint8 of the same shape, ``2**(bits - 1)`` by default.
    With ``activations="int8"`` rows of ``x`` are rounded to 255 levels of their own first, and
    bytes are multiplied, as instructions for that do: several times as fast, and not exact. The
    result is float32. Raises LoopwrightTypeError where shapes or dtypes do not fit.

    >>> codes = np.full((32, 2), 9)
    >>> matmul_nbits(np.ones((1, 32), np.float32), pack_nbits(codes, 16), np.ones((2, 2), "f"))
    array([[32., 32.]], dtype=float32)
    """
    if activations not in ("float32", "int8"):
        raise LoopwrightValueError(f"activations are float32 or int8, not {activations!r}")
    if not is_finite(scales):
        raise LoopwrightValueError("matmul_nbits: scales are finite")
    x = _rows(x)
    *batch, k = np.shape(x)
    rows = by_numpy(np.reshape, x, (math.prod(batch), k))
    operands = (w, scales) if zeros is None else (w, scales, zeros)
    if activations == "float32" or x.dtype == np.int8:
        result = apply_as_given("nn.matmul_nbits", rows, *operands, bits=bits)
    else:
        most = by_numpy(lambda: np.max(np.abs(rows), axis=1, keepdims=True))
        step = by_numpy(lambda: most * np.float32(1 / LARGEST))
        whole = by_numpy(lambda: np.where(step > 0, step, np.float32(1)))
        codes = by_numpy(lambda: np.rint(rows / whole).astype(np.int8))
        result = apply_as_given("nn.matmul_nbits", codes, *operands, bits=bits)
        result = by_numpy(lambda: result * step)
    return by_numpy(np.reshape, result, (*batch, np.shape(result)[-1]))


def _rows(x: Any) -> Any:
    x = x if hasattr(x, "dtype") else np.asarray(x)
    if np.ndim(x) < 1 or x.dtype not in (np.float32, np.int8):
        raise LoopwrightTypeError(f"matmul_nbits: rows are float32 or int8, not {x.dtype}")
    return x

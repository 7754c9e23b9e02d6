"""Products with weights of few bits: see ``ir/ops/quantise.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.dtype import Array
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.nodes import Constant
from ...ir.graph.weights import groups_of
from ...ir.ops.quantise import BITS
from ..core.argument_conversion import checked
from ..core.proxy import Proxy
from .apply import apply_as_given


@checked
def pack_nbits(codes: Any, group: int, bits: int = 4) -> Array:
    """The codes of a matrix (k, n) of weights, integers from 0 to ``2**bits - 1``, as the operand
    ``w`` of ``matmul_nbits``: uint8 (k * bits / 8, n), in groups of ``group`` neighbours along k.

    Raises LoopwrightTypeError for other than a matrix of constant integers, and
    LoopwrightValueError for codes out of range, and groups that do not divide k.

    >>> pack_nbits(np.arange(16)[:, None], 8).shape
    (8, 1)
    """
    given = codes.atom.value if _is_constant(codes) else codes
    if isinstance(given, Proxy) or np.ndim(given) != 2 or given.dtype.kind not in "iu":
        raise LoopwrightTypeError("pack_nbits: codes are a matrix of constant integers")
    array = np.asarray(given)
    if bits not in BITS:
        raise LoopwrightValueError(f"pack_nbits: codes of 2, 4 or 8 bits, not {bits}")
    if group < 1 or group * bits % 8 or len(array) % group:
        raise LoopwrightValueError(f"groups of {group} weights do not divide {len(array)} rows")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << bits:
        raise LoopwrightValueError(f"codes are not from 0 to {(1 << bits) - 1}")
    return groups_of(array.astype(np.uint8), bits, group)


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
    if not _is_finite(scales):
        raise LoopwrightValueError("matmul_nbits: scales are finite")
    operands = (w, scales) if zeros is None else (w, scales, zeros)
    options = {"bits": bits, "activations": activations}
    return apply_as_given("nn.matmul_nbits", x, *operands, **options)


def _is_constant(value: Any) -> bool:
    return type(value) is Proxy and isinstance(value.atom, Constant)


def _is_finite(scales: Any) -> bool:
    """True if no scale is infinite or nan, as far as their values are constants."""
    atom = scales.atom if type(scales) is Proxy else None
    values = scales if atom is None else atom.value if isinstance(atom, Constant) else ()
    wide = np.asarray(values).astype(np.float32)
    return all(math.isfinite(each) for each in (wide.min(initial=0), wide.max(initial=0)))

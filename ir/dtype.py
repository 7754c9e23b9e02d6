"""Element types of tensors, and how two of them meet.

The eleven dtypes of the language are the rows of one table. Promotion is NumPy 2's, with one stated
difference: the language has no float16, so where NumPy would answer float16 (``np.exp`` of an int8
array) the answer is float32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = [
    "BOOL",
    "DTYPES",
    "FLOAT32",
    "FLOAT64",
    "INT32",
    "INT64",
    "DType",
    "dtype_of",
    "float_for",
    "promote",
]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type. ``kind`` is NumPy's letter: b(ool), i(nt), u(nsigned), f(loat)."""

    name: str
    kind: str
    bits: int
    numpy: np.dtype[Any] = field(compare=False, repr=False)

    @property
    def bytes(self) -> int:
        """Bytes an element takes in memory (bool takes one)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer; bool is neither."""
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    def __str__(self) -> str:
        return self.name


def _row(name: str, kind: str, bits: int) -> DType:
    return DType(name, kind, bits, np.dtype(name))


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        _row("bool", "b", 1),
        _row("int8", "i", 8),
        _row("int16", "i", 16),
        _row("int32", "i", 32),
        _row("int64", "i", 64),
        _row("uint8", "u", 8),
        _row("uint16", "u", 16),
        _row("uint32", "u", 32),
        _row("uint64", "u", 64),
        _row("float32", "f", 32),
        _row("float64", "f", 64),
    )
}

_BY_NUMPY: dict[np.dtype[Any], DType] = {d.numpy: d for d in DTYPES.values()}

BOOL, INT32, INT64 = DTYPES["bool"], DTYPES["int32"], DTYPES["int64"]
FLOAT32, FLOAT64 = DTYPES["float32"], DTYPES["float64"]


def dtype_of(value: object) -> DType:
    """The DType of a name, a NumPy dtype or scalar type, an array, or a DType itself.

    Raises TypeError for an element type the language does not have.

    >>> dtype_of("float32").bits
    32
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, np.dtype) and value in _BY_NUMPY:
        return _BY_NUMPY[value]
    try:
        carrier = value if isinstance(value, type) else getattr(value, "dtype", value)
        name = np.dtype(carrier).name  # type: ignore[call-overload]
    except TypeError:
        name = str(value)
    found = DTYPES.get(name)
    if found is None:
        known = ", ".join(DTYPES)
        raise TypeError(f"dtype {name} is not supported; the dtypes are {known}")
    return found


def promote(*dtypes: DType) -> DType:
    """NumPy 2's result type of operands that all carry a dtype.

    >>> str(promote(DTYPES["int64"], DTYPES["float32"]))
    'float64'
    """
    return dtype_of(np.result_type(*(d.numpy for d in dtypes)))


def float_for(dtype: DType) -> DType:
    """The float type in which an elementary function of ``dtype`` is computed."""
    if dtype.is_float:
        return dtype
    return FLOAT64 if dtype.bits >= 32 else FLOAT32

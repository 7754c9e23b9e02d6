"""Inspection of ``lw.xp``: capabilities, devices, dtypes and their limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dataclass import dataclass
from ..tracer.core.trace import active
from .eager import check_device

_KINDS = {
    "bool": "bool",
    "signed integer": "int8 int16 int32 int64",
    "unsigned integer": "uint8 uint16 uint32 uint64",
    "real floating": "float32 float64",
    "complex floating": "complex64 complex128",
}
_UNIONS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}
_MOST_AXES = 64


class Info:
    """Capabilities, devices and dtypes, as ``__array_namespace_info__()`` returns them."""

    def capabilities(self) -> dict[str, Any]:
        """Returns what plain arrays can do and, in a function that is being traced, traced ones."""
        eager = active() is None
        return {
            "boolean indexing": eager,
            "data-dependent shapes": eager,
            "max dimensions": _MOST_AXES,
        }

    def default_device(self) -> str:
        """Returns ``"cpu"``."""
        return "cpu"

    def devices(self) -> list[str]:
        """Returns ``["cpu"]``."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Returns the dtypes that functions choose where none is given, by kind."""
        check_device(device)
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.int64),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """Returns dtypes by name: all, those of a kind, or of any of a tuple of kinds.

        Raises ValueError for any other kind.
        """
        check_device(device)
        kinds = tuple(_KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        names: dict[str, Any] = {}
        for each in kinds:
            if each not in _KINDS and each not in _UNIONS:
                raise ValueError(f"unknown kind of dtypes {each!r}")
            for part in _UNIONS.get(each, (each,)):
                names |= {name: np.dtype(name) for name in _KINDS[part].split()}
        return names


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a floating dtype, as Python numbers; of a complex one, of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> FloatInfo:
    """Returns the limits of a floating or complex dtype, or of that of an array."""
    limits = np.finfo(_dtype(type))
    return FloatInfo(
        limits.bits,
        float(limits.eps),
        float(limits.max),
        float(limits.min),
        float(limits.smallest_normal),
        np.dtype(limits.dtype),
    )


def iinfo(type: Any, /) -> np.iinfo[Any]:
    """Returns the limits of an integer dtype, or of that of an array."""
    return np.iinfo(_dtype(type))


def _dtype(value: Any) -> Any:
    dtype = None if isinstance(value, type) else getattr(value, "dtype", None)
    return np.dtype(value if dtype is None else dtype)


def can_cast(from_: Any, to: Any, /) -> bool:
    """True if each value of a dtype, or of that of an array, is one of dtype ``to``."""
    return bool(np.can_cast(_dtype(from_), to))


def isdtype(dtype: Any, kind: Any) -> bool:
    """True if ``dtype`` is ``kind``: another dtype, a name (``"integral"``), or one of a tuple."""
    return bool(np.isdtype(np.dtype(dtype), kind))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Returns the dtype that arrays, dtypes and Python numbers have in common."""
    return np.result_type(*(_common(each) for each in arrays_and_dtypes))


def _common(each: Any) -> Any:
    weak = getattr(each, "weak", None)  # of a traced Python number
    if weak is not None:
        return weak()
    return each if isinstance(each, bool | int | float | complex) else _dtype(each)

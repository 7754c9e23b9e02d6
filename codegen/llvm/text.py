"""LLVM's spelling of the constants of a type and of the names of overloaded intrinsics."""

from __future__ import annotations

import struct
from functools import cache

from ...ir.dtype import LLVM_TYPES


def rounded(value: float, type: str) -> float:
    """``value`` as a float type of LLVM holds it."""
    return float(LLVM_TYPES[type].numpy.type(value))


def float_literal(value: float, type: str) -> str:
    """The exact spelling of a float constant: the bits of it as a double."""
    return f"0x{struct.unpack('Q', struct.pack('d', rounded(value, type)))[0]:016X}"


@cache
def full_type(type: str, lanes: int = 1) -> str:
    """The type of a vector of some lanes, or of a scalar."""
    return type if lanes == 1 else f"<{lanes} x {type}>"


@cache
def overload(type: str, lanes: int = 1) -> str:
    """The suffix of an intrinsic on vectors of a type: ``f32``, ``v16f32``, ``v4i64``."""
    row = LLVM_TYPES.get(type)
    name = row.short if row is not None and row.is_float else type
    return name if lanes == 1 else f"v{lanes}{name}"

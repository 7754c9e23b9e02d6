"""LLVM's spelling of the constants of a type and of the names of overloaded intrinsics."""

from __future__ import annotations

import itertools
import re
import struct
from functools import cache

from ..ir.dtype import LLVM_TYPES


def rounded(value: float, type: str) -> float:
    """``value`` as a float type of LLVM holds it."""
    return float(LLVM_TYPES[type].numpy.type(value))


def float_literal(value: float, type: str) -> str:
    """The exact spelling of a float constant: the bits of it as a double."""
    return f"0x{struct.unpack('Q', struct.pack('d', rounded(value, type)))[0]:016X}"


@cache
def overload(type: str, lanes: int = 1) -> str:
    """The suffix of an intrinsic on vectors of a type: ``f32``, ``v16f32``, ``v4i64``."""
    row = LLVM_TYPES.get(type)
    name = row.short if row is not None and row.is_float else type
    return name if lanes == 1 else f"v{lanes}{name}"


_ADDRESSED = re.compile(r"\n([^(\n]*, ptr )\((.*)\)$", re.MULTILINE)


def with_addresses(text: str) -> str:
    """Returns LLVM's own form of a text whose loads and stores have their address in place, as the
    operands of a ``getelementptr``.

    >>> print(with_addresses("entry:\\n%next = load ptr, ptr (%Block, ptr %block, i32 0, i32 1)"))
    entry:
    %address.0 = getelementptr %Block, ptr %block, i32 0, i32 1
    %next = load ptr, ptr %address.0
    """
    names = (f"%address.{n}" for n in itertools.count())
    return _ADDRESSED.sub(
        lambda m: f"\n{(name := next(names))} = getelementptr {m[2]}\n{m[1]}{name}", text
    )

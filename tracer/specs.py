"""Specs: shapes and dtypes of arguments. ``lw.f32[64, 784]``, ``lw.i64["n"]``, ``lw.f32``.

::

    spec ::= dtype                          a scalar
           | dtype "[" size, ... "]"        ``dtype[()]`` is a scalar, too
    size ::= int | "n" | "4*n + 1"          a string is a size that the caller chooses
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dims import Dim, IntExpr
from ..ir.dims_parser import parse_dim
from ..ir.dtype import DTYPES, DType, dtype_of
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError, ParseError
from ..ir.graph.types import TensorType
from .pytree import register_leaf

__all__ = ["SPEC_DTYPES", "DTypeSpec", "Spec", "parse_spec"]


@register_leaf
@dataclass(frozen=True, slots=True)
class Spec:
    """An array's shape and dtype. Sizes are ints, or expressions over symbols."""

    type: TensorType

    @property
    def shape(self) -> tuple[IntExpr, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype.numpy

    def __str__(self) -> str:
        return self.type.short

    def __repr__(self) -> str:
        sizes = ", ".join(repr(str(s)) if isinstance(s, Dim) else str(s) for s in self.shape)
        return f"{self.type.dtype.short}[{sizes or '()'}]"


@register_leaf
@dataclass(frozen=True, slots=True)
class DTypeSpec:
    """A dtype that makes specs by indexing; alone it is the spec of a scalar.

    NumPy takes it wherever it takes a dtype.

    >>> f32 = SPEC_DTYPES["f32"]
    >>> str(f32[64, 784]), str(f32["n", 784]), str(f32[()])
    ('float32[64, 784]', 'float32[n, 784]', 'float32[]')
    """

    of: DType

    @property
    def dtype(self) -> np.dtype:
        return self.of.numpy

    @property
    def type(self) -> TensorType:
        return TensorType((), self.of)

    def __getitem__(self, sizes: int | str | Dim | tuple[int | str | Dim, ...]) -> Spec:
        shape = sizes if isinstance(sizes, tuple) else (sizes,)
        return Spec(TensorType(tuple(_size(s) for s in shape), self.of))

    def __repr__(self) -> str:
        return self.of.short


def _size(size: object) -> IntExpr:
    if isinstance(size, str):
        return parse_dim(size)
    if isinstance(size, Dim):
        return size
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise LoopwrightTypeError(
            f"a size is an int or the name of a symbolic one, not {size!r}", hint='f32[64, "n"]'
        )
    if size < 0:
        raise LoopwrightValueError(f"a size cannot be negative, this one is {size}")
    return int(size)


SPEC_DTYPES: dict[str, DTypeSpec] = {row.short: DTypeSpec(row) for row in DTYPES.values()}


def __getattr__(name: str) -> Any:
    if name == "bf16":  # whose NumPy dtype takes a while to load
        return DTypeSpec(dtype_of("bfloat16"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def parse_spec(text: str) -> Spec:
    """Reads a spec as a command line has it. Raises ParseError.

    >>> parse_spec("f32[1, 3, 224, 224]")
    f32[1, 3, 224, 224]
    >>> parse_spec("float32[n, 2*n]")
    f32['n', '2 * n']
    """
    name, bracket, rest = text.strip().partition("[")
    dtype = DTYPES.get(name.strip())
    maker = SPEC_DTYPES.get(name.strip()) or (DTypeSpec(dtype) if dtype else None)
    if maker is None:
        names = ", ".join(SPEC_DTYPES)
        raise ParseError(f"spec {text!r}: {name.strip()!r} is not a dtype ({names})")
    if not bracket:
        return maker[()]
    if not rest.endswith("]"):
        raise ParseError(f"spec {text!r}: the closing ] is missing", hint="f32[64, 784]")
    inner = rest[:-1].strip()
    if inner in ("", "()"):
        return maker[()]
    return maker[tuple(parse_dim(size) for size in inner.split(","))]

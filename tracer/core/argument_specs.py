"""Specs: shapes and dtypes of arguments. ``lw.f32[64, 784]``, ``lw.i64["n"]``, ``lw.f32``.

::

    spec ::= dtype                          a scalar
           | dtype "[" size, ... "]"        ``dtype[()]`` is a scalar, too
    size ::= int | "n" | "4*n + 1"          a string is a size that the caller chooses
           | Dim("n", min=1, max=4096)      one that states its range
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import dims
from ...ir.dataclass import dataclass
from ...ir.dims import LARGEST_SIZE, IntExpr
from ...ir.dims_parser import parse_dim
from ...ir.dtype import DTYPES, DType, dtype_named, dtype_of
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, ParseError
from ...ir.graph.types import TensorType
from .pytree import register_leaf


@register_leaf
@dataclass(frozen=True, slots=True)
class Spec:
    """An array's shape and dtype. Sizes are ints, or expressions over symbols.

    >>> lw.f32[2, 3]
    f32[2, 3]
    >>> lw.f32["n", 3].shape[1]
    3
    """

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
        sizes = ", ".join(repr(str(s)) if isinstance(s, dims.Dim) else str(s) for s in self.shape)
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

    def __getitem__(self, sizes: int | str | dims.Dim | tuple[int | str | dims.Dim, ...]) -> Spec:
        shape = sizes if isinstance(sizes, tuple) else (sizes,)
        return Spec(TensorType(tuple(size_of(s) for s in shape), self.of))

    def __repr__(self) -> str:
        return self.of.short


def Dim(name: str, *, min: int = 0, max: int = LARGEST_SIZE, multiple_of: int = 1) -> IntExpr:
    """Returns a symbolic size: one compile serves all its values.

    It stands for itself in specs and in ``dynamic=`` of ``lw.compile``, and in expressions there
    (``2 * n``, ``n + 1``); the name alone, as a string, is the same size in other arguments. Calls
    with a size below ``min``, above ``max`` or that is not a ``multiple_of`` are refused. Raises
    LoopwrightValueError for a range without values.

    >>> n = Dim("n", min=1, max=4096)
    >>> SPEC_DTYPES["f32"][n, n + 1]
    f32['n', 'n + 1']
    """
    if not name.isidentifier():
        raise LoopwrightValueError(f"the name of a size is an identifier, not {name!r}")
    step = multiple_of if multiple_of > 0 else 1
    low, high = -(-min // step), max // step
    if multiple_of < 1 or not 0 <= min <= max <= LARGEST_SIZE or low > high:
        of = f", multiples of {multiple_of}" if multiple_of != 1 else ""
        raise LoopwrightValueError(
            f"the size {name} has no values: {min} to {max}{of}",
            hint=f"0 <= min <= max <= {LARGEST_SIZE}, multiple_of >= 1",
        )
    if multiple_of == 1:
        return dims.size(name, min, max)
    # The symbol of the quotient is named after both, so that the name alone still finds it.
    return multiple_of * dims.size(f"{name}.{multiple_of}", low, high)


def size_of(size: object) -> IntExpr:
    """Returns a size as a user gives it; symbols without a range get the whole one."""
    if isinstance(size, str):
        size = parse_dim(size)
    if isinstance(size, dims.Dim):
        ranged = dims.size_symbols(size)
        return dims.substitute(
            size, {name: dims.size(name) for name in dims.symbols(size) - ranged.keys()}
        )
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
    dtype = dtype_named(name.strip())
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

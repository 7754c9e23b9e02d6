"""Element types of tensors, and NumPy's promotion of them.

The dtypes of the language are the rows of one table, ``DTYPES``: everything that the compiler knows
of an element type is a column of it. Promotion is NumPy 2's.

Floats shorter than float32 are storage types: kernels load and store them, and compute in float32;
so are integers shorter than a byte, which they compute with as bytes. The graph pass
``widen_halves`` writes the conversions, so that every operator rounds its result as NumPy's does.
Those that NumPy has not are of the package ml_dtypes (``_OF_ML_DTYPES``), an element a byte or two,
and have no row in ``DTYPES`` until they are first named.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np

from .dataclass import dataclass
from .errors import UnsupportedError

Array: TypeAlias = np.ndarray[Any, Any]
"""An array of NumPy's, of any shape and dtype."""


class Kind(StrEnum):
    """The family of a dtype; the values are NumPy's letters."""

    BOOL = "b"
    INT = "i"
    UINT = "u"
    FLOAT = "f"
    COMPLEX = "c"


class Specials(StrEnum):
    """The codes of a float that are no numbers."""

    IEEE = "ieee"
    """Those with the greatest exponent: infinities, and nan."""
    LAST = "fn"
    """The last one of either sign is nan; there are no infinities."""
    MINUS_ZERO = "fnuz"
    """That of -0 is nan, and there is no other. The bias is one more."""
    NONE = "n"
    """None: what is too large is the largest number."""
    UNSIGNED = "fnu"
    """The last one is nan, and there is no sign, and no zero: all codes are powers of two."""


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type. There is one object per type, so ``is`` and ``==`` mean the same."""

    name: str
    """In every text of the compiler and in tuning logs."""
    numpy: np.dtype[Any] = field(repr=False)
    short: str
    """In specs (``lw.f32[64]``); for floats also in the names of LLVM's overloaded intrinsics."""
    suffix: str
    """Behind a literal of this dtype in the text of the graph: ``0.5f``, ``3i64``."""
    kind: Kind
    bits: int
    llvm_name: str | None
    """The LLVM type of a value in a register; None where no code can be generated."""
    accumulator_name: str
    """The dtype in which such elements are added up, if the user names none."""
    fraction_bits: int = 0
    """Stored bits of the significand of a float."""
    wide_name: str | None = None
    """The dtype in which a result is computed to judge its rounding; None: its own."""
    part_name: str | None = None
    """The dtype of the real and the imaginary part of a complex number."""
    specials: Specials = Specials.IEEE

    @property
    def llvm(self) -> str:
        """The LLVM type of a value in a register.

        Raises UnsupportedError if the code generator cannot compute with this dtype.

        >>> FLOAT32.llvm, BOOL.llvm
        ('float', 'i1')
        """
        if self.llvm_name is None:
            raise UnsupportedError(
                f"no machine code can be generated for {self} yet", hint=".astype(np.float32)"
            )
        return self.llvm_name

    @property
    def llvm_memory(self) -> str:
        """The LLVM type of an element in memory, where a bool is a byte."""
        return "i8" if self.is_bool else self.llvm

    @property
    def accumulator(self) -> DType:
        """The dtype in which sums and products of such elements are accumulated."""
        return DTYPES[self.accumulator_name]

    @property
    def wide(self) -> DType:
        """The dtype in which a result is computed to judge its rounding, ``self`` at the widest."""
        return DTYPES[self.wide_name] if self.wide_name else self

    @property
    def part(self) -> DType:
        """The dtype of the real and the imaginary part of a complex dtype; else ``self``."""
        return DTYPES[self.part_name] if self.part_name else self

    @property
    def complex(self) -> DType:
        """The complex dtype whose parts are of this float dtype.

        >>> str(FLOAT64.complex)
        'complex128'
        """
        part = FLOAT32 if self.is_half else self
        return next(row for row in _ROWS if row.part_name == part.name)

    @property
    def bytes(self) -> int:
        """Bytes an element takes in memory (bool takes one)."""
        return max(1, self.bits // 8)

    @property
    def exponent_bits(self) -> int:
        return self.bits - (self.specials is not Specials.UNSIGNED) - self.fraction_bits

    @property
    def exponent_bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - (self.specials is not Specials.MINUS_ZERO)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer of an integer dtype.

        >>> DTYPES["int8"].limits
        (-128, 127)
        """
        half = 1 << (self.bits - 1)
        return (-half, half - 1) if self.is_signed else (0, 2 * half - 1)

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_half(self) -> bool:
        """True for floats that are only stored: registers hold their bits as an integer."""
        return self.kind is Kind.FLOAT and self.bits < 32

    @property
    def computed(self) -> DType:
        """The dtype in which kernels compute with such elements: ``self``, if not only stored."""
        if self.is_half:
            return FLOAT32
        return (INT8 if self.is_signed else UINT8) if self.is_integer and self.bits < 8 else self

    @property
    def is_complex(self) -> bool:
        return self.kind is Kind.COMPLEX

    @property
    def is_inexact(self) -> bool:
        """True for floats and complex numbers, which have infinities and nan."""
        return self.is_float or self.is_complex

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer; bool is neither."""
        return self.kind is Kind.INT or self.kind is Kind.UINT

    @property
    def is_signed(self) -> bool:
        """True for signed integers."""
        return self.kind is Kind.INT

    @property
    def is_bool(self) -> bool:
        return self.kind is Kind.BOOL

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_of, (self.name,)


_B, _I, _U, _F, _C = Kind

# name, NumPy dtype, short, literal suffix, kind, bits, LLVM type, accumulator, fraction bits,
# wide, part
_ROWS = (
    DType("bool", np.dtype("?"), "bool_", "", _B, 1, "i1", "int64"),
    DType("int8", np.dtype("i1"), "i8", "i8", _I, 8, "i8", "int64"),
    DType("int16", np.dtype("i2"), "i16", "i16", _I, 16, "i16", "int64"),
    DType("int32", np.dtype("i4"), "i32", "", _I, 32, "i32", "int64"),
    DType("int64", np.dtype("i8"), "i64", "i64", _I, 64, "i64", "int64"),
    DType("uint8", np.dtype("u1"), "u8", "u8", _U, 8, "i8", "uint64"),
    DType("uint16", np.dtype("u2"), "u16", "u16", _U, 16, "i16", "uint64"),
    DType("uint32", np.dtype("u4"), "u32", "u32", _U, 32, "i32", "uint64"),
    DType("uint64", np.dtype("u8"), "u64", "u64", _U, 64, "i64", "uint64"),
    DType("float16", np.dtype("f2"), "f16", "f16", _F, 16, "i16", "float16", 10, "float64"),
    DType("float32", np.dtype("f4"), "f32", "f", _F, 32, "float", "float32", 23, "float64"),
    DType("float64", np.dtype("f8"), "f64", "f64", _F, 64, "double", "float64", 52),
    # Complex values are pairs of floats below the graph: see ``ir/graph/passes/split_complex.py``.
    DType(
        "complex64",
        np.dtype("c8"),
        "c64",
        "c64",
        _C,
        64,
        None,
        "complex64",
        0,
        "complex128",
        "float32",
    ),
    DType(
        "complex128",
        np.dtype("c16"),
        "c128",
        "c128",
        _C,
        128,
        None,
        "complex128",
        0,
        None,
        "float64",
    ),
)
DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}

LLVM_TYPES: Mapping[str, DType] = {row.llvm: row for row in reversed(_ROWS) if row.llvm_name}
"""A dtype by its LLVM type in registers; the signed one of two integers."""

_BY_NUMPY: dict[np.dtype[Any], DType] = {row.numpy: row for row in _ROWS}

BOOL, INT8, INT16 = DTYPES["bool"], DTYPES["int8"], DTYPES["int16"]
INT32, INT64 = DTYPES["int32"], DTYPES["int64"]
UINT8, UINT64 = DTYPES["uint8"], DTYPES["uint64"]
FLOAT32, FLOAT64 = DTYPES["float32"], DTYPES["float64"]
COMPLEX64, COMPLEX128 = DTYPES["complex64"], DTYPES["complex128"]


_OF_ML_DTYPES: Mapping[str, tuple[Kind, int, int, Specials]] = {
    "bfloat16": (_F, 16, 7, Specials.IEEE),
    "float8_e4m3fn": (_F, 8, 3, Specials.LAST),
    "float8_e4m3fnuz": (_F, 8, 3, Specials.MINUS_ZERO),
    "float8_e5m2": (_F, 8, 2, Specials.IEEE),
    "float8_e5m2fnuz": (_F, 8, 2, Specials.MINUS_ZERO),
    "float8_e8m0fnu": (_F, 8, 0, Specials.UNSIGNED),
    "float4_e2m1fn": (_F, 4, 1, Specials.NONE),
    "int4": (_I, 4, 0, Specials.IEEE),
    "uint4": (_U, 4, 0, Specials.IEEE),
    "int2": (_I, 2, 0, Specials.IEEE),
    "uint2": (_U, 2, 0, Specials.IEEE),
}
"""Dtypes that NumPy has not: kind, bits, bits of the fraction, codes that are no numbers."""


def _of_ml_dtypes(name: str) -> DType:
    """Enters such a dtype into the table. Its NumPy dtype is that of the package ml_dtypes, which
    takes a while to load. Raises TypeError if it is not installed."""
    try:
        dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        raise TypeError(f"{name} is a dtype of the package ml_dtypes, which is missing") from None
    kind, bits, fraction, specials = _OF_ML_DTYPES[name]
    short = "bf16" if name == "bfloat16" else name
    llvm, wide = f"i{8 * dtype.itemsize}", "float64" if kind is _F else None
    row = DType(
        name, dtype, short, short, kind, bits, llvm, name, fraction, wide, specials=specials
    )
    _BY_NUMPY[dtype] = row
    return DTYPES.setdefault(name, row)


def literal_dtypes() -> dict[str, DType]:
    """Returns the dtypes of number literals by the suffix behind the digits."""
    numbers = [row for row in DTYPES.values() if not row.is_bool]
    return {row.short: row for row in numbers} | {row.suffix: row for row in numbers}


def dtype_names() -> str:
    """Returns the names of all dtypes, as a message has them."""
    return ", ".join((*(row.name for row in _ROWS), *_OF_ML_DTYPES))


def dtype_named(name: str) -> DType | None:
    """Returns the dtype of a name in a text; None if there is none. TypeError if it is of a package
    that is missing."""
    return DTYPES.get(name) or (_of_ml_dtypes(name) if name in _OF_ML_DTYPES else None)


def dtype_of(value: object) -> DType:
    """Returns the DType of a name, a NumPy dtype or scalar type, an array, or a DType itself.

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
    row = dtype_named(name)
    if row is None:
        raise TypeError(f"dtype {name} is not supported; the dtypes are {dtype_names()}")
    return row


def promote(*dtypes: DType) -> DType:
    """NumPy 2's result type of operands that all carry a dtype.

    >>> str(promote(DTYPES["int64"], DTYPES["float32"]))
    'float64'
    """
    return dtype_of(np.result_type(*(d.numpy for d in dtypes)))


def float_for(dtype: DType) -> DType:
    """Returns the float or complex type in which an elementary function of ``dtype`` is
    computed."""
    if dtype.is_inexact:
        return dtype
    return FLOAT64 if dtype.bits >= 32 else FLOAT32


MOST_WIDENED = 256
"""Elements of a narrow constant that are widened when it is compiled."""


def widens_many(array: Array, dtype: DType) -> bool:
    """True if a constant of 8 or 16 bits would become one of wider numbers, which take longer to
    read: it is widened in registers, where it is read."""
    size = array.dtype.itemsize
    narrow = size == 1 or (size == 2 and dtype.is_float)
    return narrow and size < dtype.bytes and array.size > MOST_WIDENED

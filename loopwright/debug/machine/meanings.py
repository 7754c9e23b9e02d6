"""The meaning of instructions, as functions of NumPy on all lanes at once.

A scalar is one of NumPy's, a vector an array. Floats are rounded after every operation, as the
machine does it; a fused multiply-add is exact but for its one rounding.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ir.dtype import Array
from .memory import Fault
from .parser import Type

Meaning = Callable[..., Any]


def unsigned(x: Any) -> Any:
    """Returns integers as unsigned ones of the same bits."""
    return x if x.dtype.kind == "b" else x.view(f"u{x.dtype.itemsize}")


def _on_unsigned(function: Meaning) -> Meaning:
    def apply(a: Any, b: Any) -> Any:
        result = function(unsigned(a), unsigned(b))
        return result.view(a.dtype) if result.dtype.kind == "u" else result

    return apply


def _shift(function: Meaning) -> Meaning:
    """Returns a shift; by more than the number's bits it is poison, which is 0 here."""

    def apply(a: Any, b: Any) -> Any:
        bits = 8 * a.dtype.itemsize
        fits = unsigned(b) < bits
        return np.where(fits, function(a, b & (bits - 1)), a.dtype.type(0)).astype(a.dtype)[()]

    return apply


def _divided(function: Meaning) -> Meaning:
    def apply(a: Any, b: Any) -> Any:
        if not np.all(b):
            raise Fault("a division by zero")
        return function(a, b)

    return apply


def _quotient(a: Any, b: Any) -> Any:
    """Rounds to zero, as the machine does."""
    down = a // b
    return (down + ((a % b != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)


ARITHMETIC: dict[str, Meaning] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": _shift(lambda a, b: np.left_shift(a, b)),
    "ashr": _shift(lambda a, b: np.right_shift(a, b)),
    "lshr": _shift(lambda a, b: np.right_shift(unsigned(a), unsigned(b)).view(a.dtype)),
    "sdiv": _divided(_quotient),
    "srem": _divided(lambda a, b: np.fmod(a, b)),
    "udiv": _divided(_on_unsigned(operator.floordiv)),
    "urem": _divided(_on_unsigned(operator.mod)),
    "fadd": operator.add,
    "fsub": operator.sub,
    "fmul": operator.mul,
    "fdiv": operator.truediv,
    "fneg": operator.neg,
    "freeze": lambda a: a,
}

_ORDERS: dict[str, Meaning] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def comparison(opcode: str, predicate: str) -> Meaning:
    """Returns what a predicate of ``icmp`` or ``fcmp`` says."""
    if opcode == "icmp":
        compare = _ORDERS[predicate[-2:]]
        return _on_unsigned(compare) if predicate[0] == "u" else compare
    if predicate in ("uno", "ord"):
        wanted = predicate == "uno"
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == wanted
    compare = _ORDERS[predicate[1:]]
    if predicate[0] == "o":  # false of nan, which only != is not by itself
        return lambda a, b: compare(a, b) & ~np.isnan(a) & ~np.isnan(b)
    return lambda a, b: compare(a, b) | np.isnan(a) | np.isnan(b)


def select(condition: Any, then: Any, orelse: Any) -> Any:
    """Returns one of two values, or of vectors one in each lane where ``condition`` is one."""
    if np.ndim(condition):
        return np.where(condition, then, orelse)
    return then if condition else orelse


def cast(opcode: str, source: Type, to: Type) -> Meaning:
    """Returns a conversion between two types."""
    if opcode == "bitcast":
        return lambda x: _bits_as(x, source, to)
    if opcode in ("zext", "uitofp"):
        return lambda x: unsigned(x).astype(to.dtype)
    if opcode == "trunc":
        if to.element == "i1":
            return lambda x: (x & 1).astype(np.bool_)
        return lambda x: _narrowed(x.astype(to.dtype), to)
    if opcode == "fptosi":
        return lambda x: _rounded(x, to.dtype, to.bits - 1, -1)
    if opcode == "fptoui":
        return lambda x: _rounded(x, to.dtype, to.bits, 0)
    if opcode == "sext" and source.element == "i1":
        return lambda x: -x.astype(to.dtype)
    return lambda x: x.astype(to.dtype)


def _narrowed(x: Any, to: Type) -> Any:
    spare = 8 * to.dtype.itemsize - to.bits
    return (x << spare) >> spare if spare else x


def _rounded(x: Any, dtype: np.dtype[Any], bits: int, least: int) -> Any:
    """Returns floats as integers; one out of range as the least integer, as x86-64 does it."""
    inside = (x > least * 2.0**bits - 1) & (x < 2.0**bits)
    wide = np.where(inside, np.trunc(x), 0)
    whole = wide.astype(f"u{dtype.itemsize}" if not least else dtype).view(dtype)
    return np.where(inside, whole, np.iinfo(dtype).min)[()].astype(dtype)


def _bits_as(x: Any, source: Type, to: Type) -> Any:
    if source.element == "i1":
        packed = np.packbits(np.atleast_1d(x), bitorder="little")
        data = np.zeros(-(-len(packed) // to.dtype.itemsize) * to.dtype.itemsize, np.uint8)
        data[: len(packed)] = packed
    else:
        data = np.atleast_1d(x).view(np.uint8)
    if to.element == "i1":
        bits = np.unpackbits(data, bitorder="little")[: to.lanes].astype(np.bool_)
        return bits if to.lanes else bits[0]
    return data.view(to.dtype).copy() if to.lanes else data.view(to.dtype)[0]


# -- functions ------------------------------------------------------------------------------------


def fma(a: Any, b: Any, c: Any) -> Any:
    """Returns ``a * b + c``, rounded once."""
    if a.dtype.itemsize < 8:
        return (a.astype(np.float64) * b.astype(np.float64) + c).astype(a.dtype)
    product = a * b
    error = _error_of_product(a, b, product)
    total = product + c
    part = total - product
    lost = (product - (total - part)) + (c - part)
    exact = total + (lost + error)
    return np.where(np.isfinite(error) & np.isfinite(exact), exact, total)[()]


def _error_of_product(a: Any, b: Any, product: Any) -> Any:
    """Returns what a product in float64 lost by rounding (T. Dekker, 1971)."""
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(x: Any) -> tuple[Any, Any]:
    """Returns a float64 as two of 26 bits."""
    large = x * 134217729.0
    first = large - (large - x)
    return first, x - first


def _getexp(x: Any) -> Any:
    _, exponent = np.frexp(np.abs(x))
    special = np.where(np.isfinite(x), -np.inf, np.abs(x))
    return np.where(np.isfinite(x) & (x != 0), exponent - 1, special).astype(x.dtype)


_LEAST = {0: 1.0, 2: 0.5, 3: 0.75}
"""The least fraction, by the interval that ``vgetmant`` is asked for."""


def _getmant(x: Any, kind: Any) -> Any:
    """Returns the fraction of a float in an interval; without its sign, as ``codegen`` asks it."""
    half, _ = np.frexp(np.abs(x))
    fraction = np.where(half >= _LEAST[int(kind) & 3], half, 2 * half)
    special = np.where(x == 0, 1.0, np.abs(x))
    return np.where(np.isfinite(x) & (x != 0), fraction, special).astype(x.dtype)


def _range(a: Any, b: Any, kind: Any) -> Any:
    """Returns one of two floats, the lesser or the greater, with a sign that ``kind`` says."""
    size_a, size_b = (np.abs(a), np.abs(b)) if int(kind) & 2 else (a, b)
    first = (size_a > size_b) if int(kind) & 1 else (size_a <= size_b)
    chosen = np.where(np.isnan(b) | first, a, b)
    chosen = np.where(np.isnan(a), b, chosen)
    sign = {0: np.copysign(chosen, a), 1: chosen, 2: np.abs(chosen), 3: -np.abs(chosen)}
    return sign[int(kind) >> 2 & 3].astype(a.dtype)


def _dot(total: Array, a: Array, b: Array) -> Array:
    """Adds to each int32 the products of its four unsigned and four signed bytes."""
    left = a.view(np.uint8).astype(np.int32).reshape(-1, 4)
    right = b.view(np.int8).astype(np.int32).reshape(-1, 4)
    return total + (left * right).sum(1, dtype=np.int32)


def _sums_of_pairs(a: Array, b: Array) -> Array:
    """Returns int32 sums of the products of pairs of int16."""
    return (a.astype(np.int32) * b.astype(np.int32)).reshape(-1, 2).sum(1, dtype=np.int32)


def _rounded_flushed(x: Array) -> Array:
    """Returns the bits of float32 rounded to bfloat16; what is subnormal is zero, a nan quiet."""
    bits = np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)
    bits = bits.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), bits >> 16 | 0x40, rounded).astype(np.uint16).view(np.int16)


def _dot_of_pairs(total: Array, a: Array, b: Array) -> Array:
    """Adds to each float32 the products of its pairs of bfloat16, the second pair first. Operands,
    sums and results that are subnormal are zero."""

    def flushed(x: Array) -> Array:
        return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)

    def widened(x: Array) -> Array:
        return flushed((x.astype(np.int32) << 16).view(np.float32)).reshape(-1, 2)

    products = widened(a).astype(np.float64) * widened(b)
    for pair in (1, 0):
        total = flushed((flushed(total) + products[:, pair]).astype(np.float32))
    return total


def _picked(table: Array, index: Array) -> Array:
    return table[index & (len(table) - 1)]


def _picked_in_rows(table: Array, index: Array) -> Array:
    """Picks bytes of a row of 16 in each of its lanes, 0 where an index has its highest bit."""
    rows = np.arange(len(index)) // 16 * 16
    return np.where(index < 0, table.dtype.type(0), table[rows + (index & 15)])


def _count(x: Any, bits: Callable[[str], int]) -> Any:
    size = 8 * x.dtype.itemsize
    numbers = [bits(f"{int(n) & ((1 << size) - 1):0{size}b}") for n in np.atleast_1d(x)]
    made = np.array(numbers, x.dtype)
    return made if np.ndim(x) else made[0]


def _fshl(a: Any, b: Any, by: Any) -> Any:
    bits = 8 * a.dtype.itemsize
    by = by & (bits - 1)
    low = _shift(lambda x, n: np.right_shift(unsigned(x), unsigned(n)).view(x.dtype))
    return np.left_shift(a, by) | low(b, (bits - by).astype(a.dtype))


def _of_lanes(choose: Meaning) -> Meaning:
    """Returns the second operand where a comparison is false, as x86's extremes do of nan."""
    return lambda a, b, *_: np.where(choose(a, b), a, b)


def _masked(x: Array, _other: Array, mask: Array) -> Array:
    return np.concatenate([x[mask], np.zeros(int((~mask).sum()), x.dtype)])


def _scaled(a: Array, b: Array, *_: Any) -> Array:
    power = np.clip(np.floor(np.nan_to_num(b)), -5000, 5000).astype(np.int32)
    return np.where(np.isnan(b), b, np.ldexp(a, power))


_PAIRS = "x86.sse2.pmadd.wd x86.avx2.pmadd.wd x86.avx512.pmaddw.d"
_EXTREMES = "sse.{0}.ps sse2.{0}.pd avx.{0}.ps avx.{0}.pd avx512.{0}.ps avx512.{0}.pd"

FUNCTIONS: Mapping[str, Meaning] = {
    "smax": np.maximum,
    "smin": np.minimum,
    "umax": _on_unsigned(np.maximum),
    "umin": _on_unsigned(np.minimum),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "maxnum": np.fmax,
    "minnum": np.fmin,
    "fma": fma,
    "wasm.relaxed.madd": fma,
    "sqrt": np.sqrt,
    "fabs": np.abs,
    "abs": lambda x, _: np.abs(x),
    "copysign": np.copysign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "ldexp": np.ldexp,
    "expect": lambda x, _: x,
    "arithmetic.fence": lambda x: x,
    "assume": lambda _: None,
    "prefetch": lambda *_: None,
    "ctpop": lambda x: _count(x, lambda bits: bits.count("1")),
    "ctlz": lambda x, _: _count(x, lambda bits: len(bits) - len(bits.lstrip("0"))),
    "fshl": _fshl,
    "vector.reduce.add": lambda x: x.sum(dtype=x.dtype),
    **{f"x86.{row}": _of_lanes(operator.gt) for row in _EXTREMES.format("max").split()},
    **{f"x86.{row}": _of_lanes(operator.lt) for row in _EXTREMES.format("min").split()},
    **{
        f"x86.avx512.{name}.{kind}": meaning
        for kind in ("ps", "pd")
        for name, meaning in {
            "mask.scalef": _scaled,
            "mask.getexp": lambda a, *_: _getexp(a),
            "mask.getmant": lambda a, kind, *_: _getmant(a, kind),
            "mask.range": lambda a, b, kind, *_: _range(a, b, kind),
            "rcp14": lambda a, *_: 1 / a,
            "vpermi2var": lambda a, index, b: _picked(np.concatenate([a, b]), index),
        }.items()
    },
    **{f"x86.avx512.permvar.{kind}": _picked for kind in ("sf", "df", "di")},
    "x86.avx2.permd": _picked,
    "x86.avx512.vpermi2var.qi": lambda a, index, b: _picked(np.concatenate([a, b]), index),
    **dict.fromkeys(("x86.avx2.pshuf.b", "x86.avx512.pshuf.b"), _picked_in_rows),
    "x86.avx512.mask.compress": _masked,
    "x86.avx512.vpdpbusd": _dot,
    **dict.fromkeys((*_PAIRS.split(), "wasm.dot"), _sums_of_pairs),
    "aarch64.neon.usdot": _dot,
    "x86.avx512bf16.dpbf16ps": _dot_of_pairs,
    "x86.avx512bf16.cvtneps2bf16": _rounded_flushed,
}
"""Functions of LLVM by name, without ``llvm.`` and without types and widths behind it."""

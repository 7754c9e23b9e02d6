"""Division of integers: // and % as NumPy rounds them, and C's %. It never traps.

A zero divisor gives 0, and MIN / -1 wraps to MIN. Vectors have no integer division: variable
divisors of up to 32 bits are divided as floats with twice as many bits, which never round a
fractional quotient up to an integer. A constant divisor is a multiplication (T. Granlund,
P. Montgomery: "Division by invariant integers using multiplication", 1994).
"""

from __future__ import annotations

from ...ir.dtype import DType, dtype_of
from ..elementary.emitter import Emitter, Value


def divide_integers(e: Emitter, name: str, a: Value, b: Value, dtype: DType) -> Value:
    """``floor_divide``, ``floor_mod`` or ``truncate_mod`` of values of equal lanes."""
    constant = _literal(b)
    if constant is not None and not (dtype.is_signed and constant < 0):
        return _by_constant(e, name, a, constant, dtype)
    return (_of_scalars if e.lanes == 1 else _by_variable)(e, name, a, b, dtype)


def _literal(value: Value) -> int | None:
    """Returns the literal in all lanes; None if the value is not a literal."""
    text = value.ssa.name.removeprefix("splat (").removesuffix(")").split()[-1]
    return int(text) if text.lstrip("-").isdigit() else None


def _by_constant(e: Emitter, name: str, a: Value, divisor: int, dtype: DType) -> Value:
    """Returns the quotient by a constant that is not negative, or the remainder."""
    if divisor == 0:
        return e.constant(0)
    signed, divides = dtype.is_signed, name == "floor_divide"
    bits = divisor.bit_length() - 1
    if divisor == 1 << bits and (name != "truncate_mod" or not signed):
        if divides:
            return a >> bits if signed else a.logical_shift_right(bits)
        return a & (divisor - 1)
    if not signed:
        quotient = _unsigned_quotient(e, a, divisor, dtype.bits, dtype.bits)
        return quotient if divides else a - quotient * divisor
    if e.lanes == 1 and not divides:
        rest = a.apply("srem", divisor)
        if name == "truncate_mod":
            return rest
        rest = e.select(rest < 0, rest + divisor, rest)
        # The mask leaves it as it is. LLVM reads off that it is not negative, and short: then what
        # is computed from it is divided as a number without sign.
        return rest & ((1 << (divisor - 1).bit_length()) - 1)
    # ~x = -1 - x has the floor -1 - floor(x / d): negative numbers are divided as ~x.
    sign = a >> (dtype.bits - 1)
    flipped = a ^ sign
    if name == "truncate_mod":
        rest = _by_constant(e, name, flipped - sign, divisor, dtype_of(f"uint{dtype.bits}"))
        return (rest ^ sign) - sign
    quotient = _unsigned_quotient(e, flipped, divisor, dtype.bits, dtype.bits - 1) ^ sign
    return quotient if divides else a - quotient * divisor


def _unsigned_quotient(e: Emitter, a: Value, divisor: int, width: int, bits: int) -> Value:
    """``a``, a number of ``bits`` bits without sign, by a constant.

    LLVM does this itself for scalars, and up to 32 bits; vectors have no upper half of 64-bit
    products.
    """
    if width < 64 or e.lanes == 1:
        return (a if bits == width else a & ((1 << bits) - 1)).apply("udiv", divisor)
    places = (divisor - 1).bit_length()
    factor = (1 << (bits + places)) // divisor + 1
    if factor < 1 << 64:
        return _upper_product(a, factor).logical_shift_right(bits + places - 64)
    # The factor has 65 bits, the first of which stands for ``a`` itself: (high + a) >> places.
    high = _upper_product(a, factor - (1 << 64))
    return ((a - high).logical_shift_right(1) + high).logical_shift_right(places - 1)


def _upper_product(a: Value, factor: int) -> Value:
    """The upper 64 bits of a product with a constant, by products of 32 bits."""
    mask = 0xFFFFFFFF
    low, high = factor & mask, factor >> 32
    a_low, a_high = a & mask, a.logical_shift_right(32)
    middle = a_high * low + (a_low * low).logical_shift_right(32)
    other = a_low * high + (middle & mask)
    upper = a_high * high + middle.logical_shift_right(32)
    return upper + other.logical_shift_right(32)


def _of_scalars(e: Emitter, name: str, a: Value, b: Value, dtype: DType) -> Value:
    """The same with the machine's own division, which gives the quotient and the remainder.

    What would trap is divided by 1 instead: the remainder is 0 then, and the quotient that is meant
    is 0 (by zero) or -a (by -1).
    """
    signed = dtype.is_signed
    special = (b + 1).below(2) if signed else b.below(1)
    safe = e.select(special, 1, b, unlikely=True)
    remainder = a.apply("srem" if signed else "urem", safe)
    if name == "truncate_mod" or (name == "floor_mod" and not signed):
        return remainder
    if not signed:
        return e.select(special, 0, a.apply("udiv", safe))
    adjust = remainder.differs(0) & ((remainder ^ safe) < 0)
    if name == "floor_mod":  # of two signs it is rarely; a jump does not wait for what it skips
        return e.select(adjust, remainder + safe, remainder, unlikely=True)
    return e.select(special, -(a & b), a / safe + e.cast("sext", adjust, a.kind))


def _by_variable(e: Emitter, name: str, a: Value, b: Value, dtype: DType) -> Value:
    by_zero = b.equals(0)
    if not dtype.is_signed:
        safe = e.select(by_zero, 1, b)
        quotient = _quotient(e, a, safe, dtype)
        return e.select(by_zero, 0, quotient if name == "floor_divide" else a - quotient * safe)
    wraps = a.equals(-(1 << (dtype.bits - 1))) & b.equals(-1)
    safe = e.select(by_zero | wraps, 1, b)
    quotient = _quotient(e, a, safe, dtype)
    remainder = a - quotient * safe
    if name == "truncate_mod":
        return e.select(by_zero, 0, remainder)
    adjust = remainder.differs(0) & ((remainder ^ safe) < 0)
    mod = name == "floor_mod"
    usual, other = (remainder, remainder + safe) if mod else (quotient, quotient - 1)
    return e.select(by_zero, 0, e.select(adjust, other, usual))


def _quotient(e: Emitter, a: Value, b: Value, dtype: DType) -> Value:
    """The quotient rounded to zero, of operands for which there is one."""
    signed = dtype.is_signed
    if dtype.bits == 64 or _literal(b) is not None:
        return a.apply("sdiv" if signed else "udiv", b)
    if dtype.bits == 32:
        to_float, to_whole = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        return e.cast(
            to_whole, e.cast(to_float, a, "double") / e.cast(to_float, b, "double"), "i32"
        )
    grow = "sext" if signed else "zext"
    x, y = (e.cast("sitofp", e.cast(grow, v, "i32"), "float") for v in (a, b))
    return e.cast("trunc", e.cast("fptosi", x / y, "i32"), a.kind)

"""Division of integers: // and % as NumPy rounds them, and C's %. It never traps.

A zero divisor gives 0, and MIN / -1 wraps to MIN. Vectors have no integer division: variable
divisors of up to 32 bits are divided as floats with twice as many bits, which never round a
fractional quotient up to an integer. A constant divisor is a multiplication (T. Granlund,
P. Montgomery: "Division by invariant integers using multiplication", 1994).
"""

from __future__ import annotations

from ...ir.dtype import DType, dtype_of
from .writer import FunctionWriter, Value


def divide_integers(w: FunctionWriter, name: str, a: Value, b: Value, dtype: DType) -> Value:
    """``floor_divide``, ``floor_mod`` or ``truncate_mod`` of values of equal lanes."""
    constant = _literal(b)
    if constant is not None and not (dtype.is_signed and constant < 0):
        return _by_constant(w, name, a, constant, dtype)
    if a.lanes == 1:
        return _of_scalars(w, name, a, b, dtype)
    return _by_variable(w, name, a, b, dtype)


def _literal(value: Value) -> int | None:
    """Returns the literal in all lanes; None if the value is not a literal."""
    text = value.name.removeprefix("splat (").removesuffix(")").split()[-1]
    return int(text) if text.lstrip("-").isdigit() else None


def _integer(w: FunctionWriter, value: int, like: Value) -> Value:
    return w.splat(Value(str(value), like.type), like.lanes)


def _by_constant(w: FunctionWriter, name: str, a: Value, divisor: int, dtype: DType) -> Value:
    """Returns the quotient by a constant that is not negative, or the remainder."""

    def integer(value: int) -> Value:
        return _integer(w, value, a)

    if divisor == 0:
        return integer(0)
    signed = dtype.is_signed
    bits = divisor.bit_length() - 1
    if divisor == 1 << bits and (name != "truncate_mod" or not signed):
        if name == "floor_divide":
            return w.op("ashr" if signed else "lshr", a, integer(bits))
        return w.op("and", a, integer(divisor - 1))
    if not signed:
        quotient = _unsigned_quotient(w, a, divisor, dtype.bits, dtype.bits)
        return quotient if name == "floor_divide" else _rest(w, a, integer(divisor), quotient)
    if a.lanes == 1 and name != "floor_divide":
        rest = w.op("srem", a, integer(divisor))
        if name == "truncate_mod":
            return rest
        below = w.op("icmp slt", rest, integer(0), type="i1")
        rest = w.select(below, w.op("add", rest, integer(divisor)), rest)
        # The mask leaves it as it is. LLVM reads off that it is not negative, and short: then what
        # is computed from it is divided as a number without sign.
        return w.op("and", rest, integer((1 << (divisor - 1).bit_length()) - 1))
    # ~x = -1 - x has the floor -1 - floor(x / d): negative numbers are divided as ~x.
    sign = w.op("ashr", a, integer(dtype.bits - 1))
    flipped = w.op("xor", a, sign)
    if name == "truncate_mod":
        size = w.op("sub", flipped, sign)
        rest = _by_constant(w, name, size, divisor, dtype_of(f"uint{dtype.bits}"))
        return w.op("sub", w.op("xor", rest, sign), sign)
    quotient = _unsigned_quotient(w, flipped, divisor, dtype.bits, dtype.bits - 1)
    quotient = w.op("xor", quotient, sign)
    return quotient if name == "floor_divide" else _rest(w, a, integer(divisor), quotient)


def _unsigned_quotient(w: FunctionWriter, a: Value, divisor: int, width: int, bits: int) -> Value:
    """``a``, a number of ``bits`` bits without sign, by a constant.

    LLVM does this itself for scalars, and up to 32 bits; vectors have no upper half of 64-bit
    products.
    """
    if width < 64 or a.lanes == 1:
        masked = a if bits == width else w.op("and", a, _integer(w, (1 << bits) - 1, a))
        return w.op("udiv", masked, _integer(w, divisor, a))
    places = (divisor - 1).bit_length()
    factor = (1 << (bits + places)) // divisor + 1
    if factor < 1 << 64:
        high = _upper_product(w, a, factor)
        return w.op("lshr", high, _integer(w, bits + places - 64, a))
    # The factor has 65 bits, the first of which stands for ``a`` itself: (high + a) >> places.
    high = _upper_product(w, a, factor - (1 << 64))
    half = w.op("lshr", w.op("sub", a, high), _integer(w, 1, a))
    return w.op("lshr", w.op("add", half, high), _integer(w, places - 1, a))


def _upper_product(w: FunctionWriter, a: Value, factor: int) -> Value:
    """The upper 64 bits of a product with a constant, by products of 32 bits."""
    mask, half = _integer(w, 0xFFFFFFFF, a), _integer(w, 32, a)
    low, high = _integer(w, factor & 0xFFFFFFFF, a), _integer(w, factor >> 32, a)
    a_low, a_high = w.op("and", a, mask), w.op("lshr", a, half)
    middle = w.op("add", w.op("mul", a_high, low), w.op("lshr", w.op("mul", a_low, low), half))
    other = w.op("add", w.op("mul", a_low, high), w.op("and", middle, mask))
    upper = w.op("add", w.op("mul", a_high, high), w.op("lshr", middle, half))
    return w.op("add", upper, w.op("lshr", other, half))


def _of_scalars(w: FunctionWriter, name: str, a: Value, b: Value, dtype: DType) -> Value:
    """The same with the machine's own division, which gives the quotient and the remainder.

    What would trap is divided by 1 instead: the remainder is 0 then, and the quotient that is meant
    is 0 (by zero) or -a (by -1).
    """
    zero, one, signed = _integer(w, 0, a), _integer(w, 1, a), dtype.is_signed
    shifted, traps = (w.op("add", b, one), 2) if signed else (b, 1)
    special = w.op("icmp ult", shifted, _integer(w, traps, a), type="i1")
    safe = w.select(special, one, b, unlikely=True)
    remainder = w.op("srem" if signed else "urem", a, safe)
    if name == "truncate_mod" or (name == "floor_mod" and not signed):
        return remainder
    if not signed:
        return w.select(special, zero, w.op("udiv", a, safe))
    inexact = w.op("icmp ne", remainder, zero, type="i1")
    opposite = w.op("icmp slt", w.op("xor", remainder, safe), zero, type="i1")
    adjust = w.op("and", inexact, opposite)
    if name == "floor_mod":  # of two signs it is rarely; a jump does not wait for what it skips
        return w.select(adjust, w.op("add", remainder, safe), remainder, unlikely=True)
    quotient = w.op("add", w.op("sdiv", a, safe), w.convert("sext", adjust, a.type))
    return w.select(special, w.op("sub", zero, w.op("and", a, b)), quotient)


def _by_variable(w: FunctionWriter, name: str, a: Value, b: Value, dtype: DType) -> Value:
    zero, one = _integer(w, 0, a), _integer(w, 1, a)
    by_zero = w.op("icmp eq", b, zero, type="i1")
    if not dtype.is_signed:
        safe = w.select(by_zero, one, b)
        quotient = _quotient(w, a, safe, dtype)
        value = quotient if name == "floor_divide" else _rest(w, a, safe, quotient)
        return w.select(by_zero, zero, value)
    minus_one = _integer(w, -1, a)
    least = _integer(w, -(1 << (dtype.bits - 1)), a)
    wraps = w.op(
        "and", w.op("icmp eq", a, least, type="i1"), w.op("icmp eq", b, minus_one, type="i1")
    )
    safe = w.select(w.op("or", by_zero, wraps), one, b)
    quotient = _quotient(w, a, safe, dtype)
    remainder = _rest(w, a, safe, quotient)
    if name == "truncate_mod":
        return w.select(by_zero, zero, remainder)
    inexact = w.op("icmp ne", remainder, zero, type="i1")
    opposite = w.op("icmp slt", w.op("xor", remainder, safe), zero, type="i1")
    adjust = w.op("and", inexact, opposite)
    if name == "floor_mod":
        value = w.select(adjust, w.op("add", remainder, safe), remainder)
    else:
        value = w.select(adjust, w.op("sub", quotient, one), quotient)
    return w.select(by_zero, zero, value)


def _quotient(w: FunctionWriter, a: Value, b: Value, dtype: DType) -> Value:
    """The quotient rounded to zero, of operands for which there is one."""
    signed = dtype.is_signed
    if a.lanes == 1 or dtype.bits == 64 or _literal(b) is not None:
        return w.op("sdiv" if signed else "udiv", a, b)
    if dtype.bits == 32:
        to_float, to_whole = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        x, y = (w.convert(to_float, v, "double") for v in (a, b))
        return w.convert(to_whole, w.op("fdiv", x, y), "i32")
    grow = "sext" if signed else "zext"
    x, y = (w.convert("sitofp", w.convert(grow, v, "i32"), "float") for v in (a, b))
    return w.convert("trunc", w.convert("fptosi", w.op("fdiv", x, y), "i32"), a.type)


def _rest(w: FunctionWriter, a: Value, b: Value, quotient: Value) -> Value:
    return w.op("sub", a, w.op("mul", quotient, b))

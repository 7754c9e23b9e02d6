"""log, log2, log10, log1p.

x = 2^k (1 + f) is taken apart by integer arithmetic on the representation. In float32, 1 + f is in
[2/3, 4/3) and log(1 + f) = f - f^2 / 2 + f^3 P(f) with a minimax P. In float64 it is in [sqrt(1/2),
sqrt(2)), and the series in s = f / (2 + f) converges faster: log(1 + f) = f - h + s (h + R(s^2))
with h = f^2 / 2, as in Sun's fdlibm (Muller et al., "Handbook of Floating-Point Arithmetic", ch.
10). k ln2 is added last. Denormal x are scaled up first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .emitter import Emitter, Value
from .exp import LN2_HIGH, LN2_LOW
from .log_table import applies, is_reducible, log1p_by_table, log_by_table

# log(1 + f) = f + f^2 * P(f), |f| <= 1/3
LOG32 = (
    -0.5, 0.3333321213722229, -0.24999824166297913, 0.20010577142238617, -0.16679348051548004,
    0.14003533124923706, -0.12199457734823227, 0.1399444192647934, -0.1282760351896286,
)  # fmt: skip
# The same on [sqrt(1/2) - 1, sqrt(2) - 1]
LOG1P32 = (
    -0.5, 0.3333333134651184, -0.250008225440979, 0.20001238584518433, -0.166233092546463,
    0.1420166939496994, -0.13160689175128937, 0.12761634588241577, -0.0763251930475235,
)  # fmt: skip
# log2(1 + f) = f * P(f), log10(1 + f) = f * P(f)
LOG2_32 = (
    1.4426950216293335, -0.7213475108146667, 0.4809011220932007, -0.3606739938259125,
    0.2885133624076843, -0.24052581191062927, 0.2043834626674652, -0.1773741990327835,
    0.19191551208496094, -0.17933012545108795,
)  # fmt: skip
LOG10_32 = (
    0.4342944920063019, -0.21714724600315094, 0.14476174116134644, -0.10857190936803818,
    0.08701545000076294, -0.07248564064502716, 0.05924854055047035, -0.052227579057216644,
    0.06778404116630554, -0.059295542538166046,
)  # fmt: skip
# log((1 + s) / (1 - s)) = 2 s + s z P(z), z = s^2
LOG64 = (
    0.666666666666682, 0.39999999998957253, 0.28571428830473433, 0.22222190454013127,
    0.18183952224773775, 0.15304781846338114, 0.14883560023159115,
)  # fmt: skip
# The least significand, as a representation: 2/3, sqrt(1/2).
LEAST = {"float": 0x3F2AAAAB, "double": 0x3FE6A09E667F3BCD}
ROOT_HALF32 = 0x3F3504F3
LOG10_2_HIGH = {"float": 0.301025390625, "double": 0.3010299956640665}
LOG10_2 = 0.3010299956639812


def split(
    e: Emitter, x: Value, lost: Value | None = None, normal: bool = False
) -> tuple[Value, Value]:
    """(k, f) with x = 2^k (1 + f) for positive finite x; k as a float.

    ``lost`` is a small term to be added to x (then x >= 2^-p is expected: no denormals), ``normal``
    promises that there are none.
    """
    kind, bits_kind = x.kind, f"i{e.bit_width}"
    small = None
    least = LEAST[kind] if lost is None or kind == "double" else ROOT_HALF32
    if lost is None and not normal:
        least_normal = 2.0 ** (1 - e.exponent_bias)
        small = x < least_normal
        x = e.select(small, x * 2.0**e.fraction_bits, x)
    bits = e.bits(x)
    exponent = (bits - least) & -(1 << e.fraction_bits)
    f = e.float_of_bits(bits - exponent) - 1.0
    if lost is not None:
        # lost * 2^-k in two factors, so that neither leaves the exponent's range.
        up = e.exponent_bias // 2
        one = e.constant((e.exponent_bias + up) << e.fraction_bits, bits_kind)
        f = f + lost * 2.0**-up * e.float_of_bits(one - exponent)
    k = integer_to_float(e, exponent >> e.fraction_bits)
    if small is not None:
        k = k + e.select(small, e.constant(-float(e.fraction_bits)), 0.0)
    return k, f


def integer_to_float(e: Emitter, k: Value) -> Value:
    """A small integer of the float's width as a float.

    Only AVX-512 converts 64-bit integers: elsewhere the magic number does it.
    """
    if k.kind == "i32" or e.target.has_masks:
        return e.cast("sitofp", k, e.kind)
    magic = e.bits(e.constant(e.magic()))
    return e.float_of_bits(k + magic) - e.magic()


def outside_domain(e: Emitter, x: Value, result: Value) -> Value:
    """``result``, but -inf at 0, NaN below, and x itself for inf and NaN."""
    result = e.select(x < math.inf, result, x)
    result = e.select(x < 0.0, e.constant(math.nan), result)
    return e.select(x.equals(0.0), e.constant(-math.inf), result)


def tail64(e: Emitter, f: Value) -> tuple[Value, Value]:
    """(h, t) with log(1 + f) = f - (h - t) in float64; t = s (h + R)."""
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    return h, s * e.fma(z, e.polynomial(z, LOG64), h)


def log_core(e: Emitter, k: Value, f: Value, polynomial32: tuple[float, ...] = LOG32) -> Value:
    """log(2^k (1 + f)). Without FMA ln2 is split, so that its greater product with k is exact."""
    high, low = LN2_HIGH[e.kind], LN2_LOW[e.kind]
    if e.kind == "double":
        h, t = tail64(e, f)
        return e.fma(k, high, f - (h - e.fma(k, low, t)))
    log1p = e.fma(f * f, e.polynomial(f, polynomial32), f)
    if e.target.has_fma:
        return e.fma(k, math.log(2), log1p)
    return k * high + (k * low + log1p)


def log(e: Emitter, x: Value) -> Value:
    """Natural logarithm."""
    return quick(e, x, "e", plain_log) if e.has_tables else plain_log(e, x)


def plain_log(e: Emitter, x: Value) -> Value:
    return outside_domain(e, x, log_core(e, *split(e, x)))


def in_base(e: Emitter, f: Value, inverse_log: float) -> tuple[Value, Value]:
    """log(1 + f) / log(base) as a sum of two doubles, the first short."""
    h, t = tail64(e, f)
    mask = -(1 << 32)
    high = e.float_of_bits(e.bits(f - h) & mask)
    low = (f - high) - h + t
    short = math.ldexp(round(math.ldexp(inverse_log, 20)), -20)
    return high * short, (low + high) * (inverse_log - short) + low * short


def log2(e: Emitter, x: Value) -> Value:
    """The logarithm to base 2; exact for powers of two."""
    return quick(e, x, "2", plain_log2) if e.has_tables else plain_log2(e, x)


def log10(e: Emitter, x: Value) -> Value:
    """The logarithm to base 10."""
    return quick(e, x, "10", plain_log10) if e.has_tables else plain_log10(e, x)


def quick(e: Emitter, x: Value, base: str, plain: Callable[[Emitter, Value], Value]) -> Value:
    """The logarithm by tables in registers, and a rare branch for lanes of zeros, negatives,
    denormals, infinities and NaN."""
    result = e.in_full_register(x, lambda wide, v: log_by_table(wide, v, base))
    right = is_reducible(e, x)
    if applies(e):
        return e.rarely(~right, [result], lambda: [e.select(right, result, plain(e, x))])[0]
    return e.select(right, result, plain(e, x))


def plain_log2(e: Emitter, x: Value) -> Value:
    k, f = split(e, x)
    if e.kind == "float":
        return outside_domain(e, x, e.fma(f, e.polynomial(f, LOG2_32), k))
    high, low = in_base(e, f, 1 / math.log(2))
    total = k + high
    return outside_domain(e, x, total + ((k - total) + high + low))


def plain_log10(e: Emitter, x: Value) -> Value:
    k, f = split(e, x)
    short = LOG10_2_HIGH[e.kind]
    if e.kind == "float":
        rest = e.fma(k, LOG10_2 - short, f * e.polynomial(f, LOG10_32))
        return outside_domain(e, x, e.fma(k, short, rest))
    high, low = in_base(e, f, 1 / math.log(10))
    main = k * short
    total = main + high
    low = e.fma(k, LOG10_2 - short, low)
    return outside_domain(e, x, total + ((main - total) + high + low))


def log1p_of(e: Emitter, x: Value, roughly: bool = False) -> Value:
    """log(1 + x) for x > -1: the rounding error of 1 + x is added to f.

    In float32, too, 1 + f is in [sqrt(1/2), sqrt(2)) here: f is no longer exact, and ln2 + log(1 +
    f) would magnify its error by cancellation where 1 + f is 2/3.
    """
    u = 1.0 + x
    lost = e.select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    if not e.has_tables:
        return outside_domain(e, u, log_core(e, *split(e, u, lost), LOG1P32))
    result = e.in_full_register(
        u, lambda wide, u, lost: log1p_by_table(wide, u, lost, roughly), lost
    )
    if applies(e):
        outside = ~is_reducible(e, u)
        return e.rarely(outside, [result], lambda: [outside_domain(e, u, result)])[0]
    return outside_domain(e, u, result)


def log1p(e: Emitter, x: Value) -> Value:
    """log(1 + x); numbers too small to matter to 1, and -0, are their own result."""
    return e.select(e.abs(x) < 2.0 ** -(e.fraction_bits + 3), x, log1p_of(e, x))

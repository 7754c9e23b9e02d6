"""sin, cos and tan.

|x| = n pi / 2 + r with |r| <= pi / 4. For moderate x, pi / 2 is subtracted in parts (Cody and
Waite). Beyond, a branch taken when any lane is large finds the fraction of x / (2 pi) in fixed
point with as many bits of 2 / pi as matter (Payne and Hanek, "Radian reduction for trigonometric
functions", 1983; Muller et al., "Handbook of Floating-Point Arithmetic", ch. 10). The window of
bits is chosen by a barrel of selects rather than by loads from a table.
"""

from __future__ import annotations

import math

from ...ir.dataclass import dataclass
from .emitter import Emitter, Value

# sin(r) = r + r * y * P(y), y = r^2, |r| <= pi / 4
SIN32 = (-0.16666653752326965, 0.008332115598022938, -0.000195098458789289)
SIN64 = (
    -0.1666666666666663, 0.008333333333321794, -0.0001984126982929862, 2.7557313512361156e-06,
    -2.505072966140256e-08, 1.5895130015041093e-10,
)  # fmt: skip
# cos(r) = 1 - y / 2 + y^2 * P(y)
COS32 = (0.04166664555668831, -0.0013887305976822972, 2.443165794829838e-05)
COS64 = (
    0.04166666666666659, -0.0013888888888872232, 2.480158728834425e-05, -2.7557314033738596e-07,
    2.0875681102412767e-09, -1.1357513684396473e-11,
)  # fmt: skip
# tan(r) = r + r * y * P(y), y = r^2, |r| <= pi / 4
TAN32 = (
    0.3333335220813751, 0.13332588970661163, 0.05406763404607773, 0.021244646981358528,
    0.010929255746304989, -2.5720635676407255e-05, 0.004432102665305138,
)  # fmt: skip

TAN64 = (
    0.3333333333333271, 0.1333333333342392, 0.05396825392223907, 0.021869489714982916,
    0.00886321767292172, 0.003592302522379069, 0.0014546763478188328, 0.0005954080321037693,
    0.00022136754636822322, 0.0001386116949325078, -2.9328750693092508e-05,
    9.21588953470962e-05, -4.633886499512459e-05, 2.1215220110889028e-05,
)  # fmt: skip
TAN = {"float": TAN32, "double": TAN64}

# 2 / pi = 0.a2f9..., after the point, 1312 bits.
_DIGITS = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006"
    "492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c84"
    "5f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527ba"
    "c7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361da9e39161"
)
TWO_OVER_PI, TWO_OVER_PI_BITS = int(_DIGITS, 16), 4 * len(_DIGITS)
LARGE = 2.0**18

# pi / 2 in parts. With FMA each product with n is exact whatever its length; without it those of
# the parts of 33 bits are, for n < 2^20.
FUSED32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
FUSED64 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
PIECES = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)


@dataclass(frozen=True, slots=True)
class Reduced:
    """|x| = n pi / 2 + r + rest: ``n`` counts modulo 4; ``rest`` is known for float64 only."""

    n: Value
    r: Value
    rest: Value | None = None


def reduce(e: Emitter, x: Value, wide: bool = False) -> Reduced:
    """The reduction of |x|; for float32 r is a float, or a double if ``wide``."""
    magnitude = e.abs(x)
    shifted = e.fma(magnitude, 2 / math.pi, e.magic())
    common = subtract_multiple(e, magnitude, shifted, wide)
    large = magnitude > LARGE

    def slow() -> list[Value]:
        far = reduce_large(e, magnitude, wide)
        return [e.select(large, a, b) for a, b in zip(parts(far), parts(common))]

    return Reduced(*e.rarely(large, parts(common), slow))


def parts(reduced: Reduced) -> list[Value]:
    return [v for v in (reduced.n, reduced.r, reduced.rest) if v is not None]


def subtract_multiple(e: Emitter, x: Value, shifted: Value, wide: bool) -> Reduced:
    """x less n pi / 2 for 0 <= x <= LARGE, accurate relative to the difference."""
    n, bits = shifted - e.magic(), e.bits(shifted)
    first, second, third, fourth = PIECES
    if x.kind == "float":
        if e.target.has_fma and not wide:
            r = x
            for part in FUSED32:
                r = e.negative_fma(n, part, r)
            return Reduced(bits, r)
        wide_x, wide_n = e.widen(x), e.widen(n)
        r = e.negative_fma(wide_n, second, wide_x - wide_n * first)
        return Reduced(bits, r if wide else e.narrow(r))
    if e.target.has_fma:
        nearer, tail = subtract_in_two_parts(e, x, n, FUSED64)
        r = nearer + tail
        return Reduced(bits, r, (nearer - r) + tail)
    near = x - n * first  # exact, and so is the next product
    product = n * second
    nearer = near - product
    tail = (near - nearer) - product - n * third - n * fourth
    r = nearer + tail
    return Reduced(bits, r, (nearer - r) + tail)


def subtract_in_two_parts(
    e: Emitter, x: Value, n: Value, pieces: tuple[float, float, float]
) -> tuple[Value, Value]:
    """Two numbers whose sum is x less n pi / 2, with FMA.

    The second is small beside the first, unless that is close to zero.
    """
    near = e.negative_fma(n, pieces[0], x)  # exact
    nearer = near - n * pieces[1]
    tail = e.negative_fma(n, pieces[1], near - nearer)
    return nearer, e.negative_fma(n, pieces[2], tail)


def reduce_large(e: Emitter, x: Value, wide: bool) -> Reduced:
    """The reduction of x > LARGE, by Payne and Hanek's method; NaN for infinity."""
    narrow = x.kind == "float"
    bits = e.cast("zext", e.bits(x), "i64") if narrow else e.bits(x)
    exponent = bits.logical_shift_right(e.fraction_bits)
    m = (bits & ((1 << e.fraction_bits) - 1)) | (1 << e.fraction_bits)
    # x = m 2^(position - lead). In 2 / pi, with ``lead`` zeros put in front, the window begins two
    # bits before the place where the product with m is below 1: they count multiples of pi / 2.
    lead = 38
    position = exponent - (e.exponent_bias + e.fraction_bits - lead + 2)
    kept = 3 if narrow else 6
    last = (e.exponent_bias - e.fraction_bits + lead - 2) // 32
    words = window(e, position.logical_shift_right(5), last, kept + 1, lead)
    shift = position & 31
    digits = [
        (((words[k] << 32) | words[k + 1]) << shift).logical_shift_right(32) for k in range(kept)
    ]
    # high (and low after it): x / (2 pi), modulo 1, as a fraction of 64 (128) bits.
    if narrow:
        high = ((m * digits[0]) << 32) + m * digits[1] + (m * digits[2]).logical_shift_right(32)
        low = e.constant(0, "i64")
    else:
        high, low = multiply_fraction(e, m, digits)
    n = (high + (1 << 61)).logical_shift_right(62)
    fraction = (high << 2) | low.logical_shift_right(62)
    rounded = e.cast("sitofp", fraction, "double")
    finite = x < math.inf
    if narrow:
        r = e.select(finite, rounded * (math.pi / 2 * 2.0**-64), e.constant(math.nan, "double"))
        return Reduced(e.cast("trunc", n, "i32"), r if wide else e.narrow(r))
    # The fraction is rounded + lost, and the part below its last bit follows.
    below = e.cast("sitofp", (low << 2).logical_shift_right(1), "double") * 2.0**-63
    lost = e.cast("sitofp", fraction - e.cast("fptosi", rounded, "i64"), "double") + below
    r, rest = times_half_pi(e, rounded * 2.0**-64, lost * 2.0**-64)
    return Reduced(n, e.select(finite, r, e.constant(math.nan)), rest)


def window(e: Emitter, index: Value, last: int, count: int, lead: int) -> list[Value]:
    """``count`` 32-bit words (as i64) of the bits of 2 / pi, from word ``index`` <= ``last`` on.

    ``lead`` zero bits stand before the first bit after the point.
    """
    steps = last.bit_length()
    total = (1 << steps) - 1 + count
    digits = TWO_OVER_PI << max(0, total * 32 - lead - TWO_OVER_PI_BITS)
    digits >>= max(0, TWO_OVER_PI_BITS + lead - total * 32)
    words: list[Value] = [
        e.constant((digits >> (32 * (total - 1 - k))) & 0xFFFFFFFF, "i64") for k in range(total)
    ]
    for step in reversed(range(steps)):
        far = (index & (1 << step)).differs(0)
        needed = (1 << step) - 1 + count
        words = [e.select(far, words[k + (1 << step)], words[k]) for k in range(needed)]
    return words


def multiply_fraction(e: Emitter, m: Value, digits: list[Value]) -> tuple[Value, Value]:
    """The fraction of m * 0.digits as two 64-bit words, for m of 53 bits and 32-bit digits."""
    parts = (m & 0xFFFFFFFF, m.logical_shift_right(32))
    # columns[c] is the sum of the terms with weight 2^(-32 c), in pieces of 32 bits.
    columns: list[list[Value]] = [[] for _ in range(len(digits) + 2)]
    for place, part in enumerate(parts):
        for k, digit in enumerate(digits):
            column = k + 1 - place
            product = part * digit
            if column >= 1:
                columns[column].append(product & 0xFFFFFFFF)
            if column - 1 >= 1:
                columns[column - 1].append(product.logical_shift_right(32))
    carry = e.constant(0, "i64")
    fraction: dict[int, Value] = {}
    for column in range(len(digits), 0, -1):
        total = carry
        for piece in columns[column]:
            total = total + piece
        fraction[column] = total & 0xFFFFFFFF
        carry = total.logical_shift_right(32)
    return (fraction[1] << 32) | fraction[2], (fraction[3] << 32) | fraction[4]


def times_half_pi(e: Emitter, high: Value, low: Value) -> tuple[Value, Value]:
    """(high + low) * pi / 2 as a sum of two doubles."""
    first, second, _ = FUSED64
    if e.target.has_fma:
        product = high * first
        error = e.fma(high, first, -product)
    else:
        # Dekker's splitting: halves of 26 bits multiply exactly.
        upper = e.float_of_bits(e.bits(high) & -(1 << 27))
        split = math.ldexp(round(math.ldexp(first, 25)), -25)
        product = high * first
        error = ((upper * split - product) + upper * (first - split) + (high - upper) * split) + (
            high - upper
        ) * (first - split)
    tail = error + (high * second + low * first)
    r = product + tail
    return r, (product - r) + tail


def sine(e: Emitter, r: Value, n: Value) -> tuple[Value, Value]:
    """sin(r + n pi / 2) up to the sign, and an integer whose top bit is the sign."""
    y = r * r
    odd, tail = (SIN32, COS32) if e.kind == "float" else (SIN64, COS64)
    sine = e.fma(r * y, e.polynomial(y, odd), r)
    cosine = e.fma(y, e.fma(y, e.polynomial(y, tail), -0.5), 1.0)
    return e.select((n & 1).equals(0), sine, cosine), n << (e.bit_width - 2)


def sin(e: Emitter, x: Value) -> Value:
    """sin: 27 instructions in float32 with AVX-512, for moderate arguments."""
    reduced = reduce(e, x)
    magnitude, sign = sine(e, reduced.r, reduced.n)
    return e.flip_sign(magnitude, (sign ^ e.bits(x)) & e.sign_mask)


def cos(e: Emitter, x: Value) -> Value:
    """cos(x) = sin(|x| + pi / 2)."""
    reduced = reduce(e, x)
    magnitude, sign = sine(e, reduced.r, reduced.n + 1)
    return e.flip_sign(magnitude, sign & e.sign_mask)


def tan(e: Emitter, x: Value) -> Value:
    """tan: tan(r) for even n, -1 / tan(r) for odd n.

    With FMA the rounding errors of r and tan(r) are added; without it doubles are used.
    """
    if e.target.has_fma:
        return tan_in_two_parts(e, x)
    if e.kind == "double":
        return tan_by_quotient(e, x)
    reduced = reduce(e, x, wide=True)
    r = reduced.r
    y = r * r
    t = e.fma(r, y * e.polynomial(y, TAN32), r)
    even = (reduced.n & 1).equals(0)
    return e.copy_sign_of(x, e.narrow(e.select(even, t, -1.0 / t)))


def tan_in_two_parts(e: Emitter, x: Value) -> Value:
    """tan(r + d) = t + low, to first order in d and low; d (1 + r^2) is nearly enough of it."""
    magnitude = e.abs(x)
    shifted = e.fma(magnitude, 2 / math.pi, e.magic())
    pieces = FUSED32 if e.kind == "float" else FUSED64
    common = subtract_in_two_parts(e, magnitude, shifted - e.magic(), pieces)
    large = magnitude > LARGE

    def slow() -> list[Value]:
        far = reduce_large(e, magnitude, True)
        n, r, d = far.n, far.r, far.rest
        if d is None:
            r = e.narrow(far.r)
            d = e.narrow(far.r - e.widen(r))
        y = r * r
        # Here there is time for the rest of the slope, 1 + tan(r)^2.
        return [e.select(large, a, b) for a, b in zip([n, r, d * e.fma(y * y, 0.62, 1.0)], near)]

    near = [e.bits(shifted), *common]
    n, r, d = e.rarely(large, near, slow)
    y = r * r
    more = e.fma(y, e.fma(r, e.polynomial(y, TAN[e.kind]), d), d)
    t = r + more
    low = (r - t) + more
    odd = negative_inverse(e, t, low)
    return e.copy_sign_of(x, e.select((n & 1).equals(0), t, odd))


def negative_inverse(e: Emitter, t: Value, low: Value) -> Value:
    """-1 / (t + low)."""

    def estimated(wide: Emitter, t: Value) -> Value:
        q = wide.reciprocal_estimate(t)
        return q if e.kind == "float" else wide.fma(q, wide.negative_fma(t, q, 1.0), q)

    q = e.in_full_register(t, estimated) if e.has_tables else 1.0 / t
    return e.negative_fma(e.negative_fma(low, q, e.negative_fma(t, q, 1.0)), q, -q)


def tan_by_quotient(e: Emitter, x: Value) -> Value:
    """tan in float64 as a quotient of sine and cosine, each with its rounding error.

    sin(r + d) = sin r + d cos r and cos(r + d) = cos r - d sin r to first order.
    """
    reduced = reduce(e, x)
    r, d = reduced.r, reduced.rest
    assert d is not None
    y = r * r
    more = r * y * e.polynomial(y, SIN64) + d * (1.0 - 0.5 * y)
    less = y * y * e.polynomial(y, COS64) - d * r - 0.5 * y
    sine, cosine = r + more, 1.0 + less
    sine_low, cosine_low = (r - sine) + more, (1.0 - cosine) + less
    even = (reduced.n & 1).equals(0)
    above, below = e.select(even, sine, -cosine), e.select(even, cosine, sine)
    above_low = e.select(even, sine_low, -cosine_low)
    below_low = e.select(even, cosine_low, sine_low)
    q = above / below
    return e.copy_sign_of(x, q + (above_low - q * below_low) / below)

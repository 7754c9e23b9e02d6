"""The scalar operators: one row each. The graph's elementwise operators have the same names.

A row holds the documentation of the operator, the NumPy function that defines its meaning, its
dtypes, its cost and its traits. Its machine code is a ``composition`` of other rows, or a function
of that name in ``codegen/emit/scalars.py`` or ``codegen/elementary``. Its derivative is ``slopes``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..dims import NEGATED, RELATIONS, SWAPPED
from ..dtype import BOOL, DTYPES, DType
from ..errors import InternalError
from ..traits import Trait


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One row of the table.

    - ``arity`` is the number of operands: 1, 2, or 3 for ``where``.
    - ``numpy`` is the function that defines the meaning.
    - ``kinds`` are the kinds of dtype (NumPy's letters) that the operands may have.
    - ``text`` is the documentation; it begins with a sentence.
    - ``cost`` is the number of arithmetic instructions, roughly.
    - ``symbol`` is the infix operator that prints and parses it.
    - ``to_bool`` is True if the result is a bool, False if it has the dtype of the operands.
    - ``to_bits`` is True if the result has the bits of the operand: of a float an unsigned integer,
      of an unsigned integer a float.
    - ``to_part`` is True if the result of complex numbers, which only the graph has, is real.
    - ``internal`` is True if only schedules introduce the operator: users have no such function.
    - ``neutral`` is the identity as a number, before it is limited to a dtype, of an operator that
      is associative and commutative.
    - ``domain`` is the range [low, high) of random float operands in samples; ``largest`` is False
      if the greatest floats are no samples.
    - ``composition(s, *operands)`` writes the operator in terms of others: ``s(name, *operands)``
      applies one of them, and numbers are constants.
    - ``slopes`` are the partial derivatives, one for each operand: a number, a function of the
      graph's operators ``F``, the result ``r`` and the operands, or None where the result does not
      change smoothly with that operand. An operator that JUMPS, or that does not give floats,
      needs none.
    """

    name: str
    arity: int
    numpy: Any
    kinds: str
    text: str = ""
    cost: float = 1.0
    symbol: str = ""
    to_bool: bool = False
    to_bits: bool = False
    to_part: bool = False
    internal: bool = False
    neutral: float | None = None
    domain: tuple[float, float] = (-4.0, 4.0)
    largest: bool = True
    traits: Trait = Trait.NONE
    composition: Callable[..., Any] | None = None
    slopes: tuple[Any, ...] = ()

    @property
    def compares(self) -> bool:
        """True for a comparison of two operands."""
        return self.symbol in RELATIONS

    @property
    def negated(self) -> str:
        """The comparison that holds where this one does not, if no operand is nan."""
        return _BY_SYMBOL[NEGATED[self.symbol]]

    @property
    def swapped(self) -> str:
        """The comparison that holds with the operands the other way round."""
        return _BY_SYMBOL[SWAPPED[self.symbol]]

    @property
    def is_ours(self) -> bool:
        """True if NumPy has no such function, so that users find it in ``lw.nn``."""
        return getattr(np, self.numpy.__name__, None) is not self.numpy

    def result(self, dtypes: Sequence[DType]) -> DType:
        """The dtype of the result; InternalError if the operands' dtypes do not fit."""
        values = dtypes[1:] if self.arity == 3 else dtypes
        if any(d != values[0] for d in values) or values[0].kind not in self.kinds:
            raise InternalError(f"scalar {self.name} on {', '.join(map(str, dtypes))}")
        return self.of(values[0])

    def identity(self, dtype: DType) -> bool | int | float:
        """Returns the identity element in that dtype."""
        assert self.neutral is not None
        if dtype.is_inexact:
            return float(self.neutral)
        if dtype.is_bool:
            return self.neutral != 0 and self.neutral != -math.inf
        least, greatest = dtype.limits
        if math.isinf(self.neutral):
            return greatest if self.neutral > 0 else least
        return int(self.neutral) if dtype.is_signed else int(self.neutral) & greatest

    def of(self, dtype: DType) -> DType:
        """The dtype of the result for values of ``dtype``."""
        if self.to_bits:
            return DTYPES[f"{'uint' if dtype.is_float else 'float'}{dtype.bits}"]
        if self.to_part:
            return dtype.part
        return BOOL if self.to_bool else dtype


def _erf(x: Any) -> Any:
    """erf by math.erf, element by element (NumPy has none)."""
    x = np.asarray(x)
    return np.vectorize(math.erf, otypes=[x.dtype])(x) if x.size else x


def _sigmoid(x: Any) -> Any:
    x = np.asarray(x)
    with np.errstate(over="ignore"):
        return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def _bits(x: Any) -> Any:
    x = np.asarray(x)
    return x.view(f"u{x.itemsize}")


def _from_bits(x: Any) -> Any:
    x = np.asarray(x)
    return x.view(f"f{x.itemsize}")


def _flush(x: Any) -> Any:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.zeros((), x.dtype), x), x)


def _rsqrt(x: Any) -> Any:
    x = np.asarray(x)
    return (1.0 / np.sqrt(x.astype(np.result_type(x, np.float64)))).astype(x.dtype)


def _share_of_greater(F: Any, x: Any, y: Any) -> Any:
    """Slope of the greater of two in the first: half of it where both are equal."""
    one, half, none = (x.full((), number) for number in (1, 0.5, 0))
    return F.where(F.greater(x, y), one, F.where(F.equal(x, y), half, none))


def _share_of_lesser(F: Any, x: Any, y: Any) -> Any:
    return _share_of_greater(F, y, x)


def _slope_of_abs(F: Any, r: Any, x: Any) -> Any:
    """Slope of the absolute value: the sign; of a complex number, its conjugate over its size."""
    if not x.dtype.is_complex:
        return F.sign(x)
    return F.conj(x) / F.complex(F.where(F.equal(r, 0), r.full((), 1), r), r.full((), 0))


def _slope_of_base(F: Any, x: Any, y: Any) -> Any:
    """Slope of x ** y in x: 0 where y is 0, also at x = 0."""
    zero = F.equal(y, 0)
    return y * F.power(x, F.where(zero, y.full((), 1), y - 1))


def _slope_of_exponent(F: Any, r: Any, x: Any) -> Any:
    """Slope of x ** y in y: 0 where x is 0."""
    return r * F.log(F.where(F.equal(x, 0), x.full((), 1), x))


_ALL, _NUM, _INT, _FLT, _BITS = "biuf", "iuf", "iu", "f", "biu"
_COMMUTATIVE = Trait.COMMUTATIVE
_EITHER_ZERO = Trait.EITHER_ZERO
_BLIND = Trait.IGNORES_ZERO_SIGN
_NOT_MINUS_0 = Trait.NEVER_NEGATIVE_ZERO
_JUMPS = Trait.JUMPS
_CANCELS = Trait.CANCELS
_POSITIVE = Trait.POSITIVE_DOMAIN
_EXACT = Trait.EXACT
_NAN = Trait.PASSES_NAN
_LINEAR = Trait.LINEAR

r = ScalarOp
# fmt: off
_ROWS = (
    r("add", 2, np.add, _ALL, symbol="+", neutral=0,
      traits=_COMMUTATIVE | _CANCELS | _LINEAR | _NAN,
      text="Sum. Integers wrap around; of bools, logical or.",
      slopes=(1, 1)),
    r("subtract", 2, np.subtract, _NUM, symbol="-", traits=_CANCELS | _LINEAR | _NAN,
      text="Difference. Integers wrap around.",
      slopes=(1, -1)),
    r("multiply", 2, np.multiply, _ALL, symbol="*", neutral=1,
      traits=_COMMUTATIVE | Trait.MULTILINEAR | _NAN,
      text="Product. Integers wrap around; of bools, logical and.",
      slopes=(lambda y: y, lambda x: x)),
    r("divide", 2, np.divide, _FLT, cost=4, symbol="/", traits=_NAN,
      text="Quotient of floats; x / 0 is inf, -inf or nan.",
      slopes=(lambda y: 1 / y, lambda r, y: -r / y)),
    r("floor_divide", 2, np.floor_divide, _NUM, cost=6, symbol="//", largest=False, traits=_JUMPS,
      text="Quotient rounded to minus infinity, Python's //. An integer divided by 0 is 0."),
    r("floor_mod", 2, np.mod, _NUM, cost=6, symbol="%", largest=False, traits=_JUMPS,
      text="Remainder with the sign of the divisor, Python's %. An integer modulo 0 is 0.",
      slopes=(1, lambda F, x, y: -F.floor(x / y))),
    r("truncate_mod", 2, np.fmod, _NUM, cost=6, largest=False, traits=_JUMPS,
      text="Remainder with the sign of the dividend, C's fmod; an integer by 0 is 0.",
      slopes=(1, lambda F, x, y: -F.trunc(x / y))),
    r("negative", 1, np.negative, _NUM, traits=_EXACT | _LINEAR | _NAN,
      text="The opposite; of an unsigned integer, its two's complement.",
      slopes=(-1,)),
    r("abs", 1, np.abs, _NUM, to_part=True, traits=_EXACT | _BLIND | _NOT_MINUS_0,
      text="Absolute value; of the least signed integer, itself.",
      slopes=(_slope_of_abs,)),
    r("sign", 1, np.sign, _NUM, "-1, 0 or 1; of nan, nan.", cost=2, traits=_EXACT | _JUMPS),
    r("maximum", 2, np.maximum, _ALL, neutral=-math.inf,
      traits=_EXACT | _COMMUTATIVE | _EITHER_ZERO | _NAN,
      text="The greater; nan if either is nan.",
      slopes=(_share_of_greater, lambda F, x, y: _share_of_greater(F, y, x))),
    r("minimum", 2, np.minimum, _ALL, neutral=math.inf,
      traits=_EXACT | _COMMUTATIVE | _EITHER_ZERO | _NAN,
      text="The lesser; nan if either is nan.",
      slopes=(_share_of_lesser, lambda F, x, y: _share_of_lesser(F, y, x))),
    r("fmax", 2, np.fmax, _ALL, traits=_EXACT | _COMMUTATIVE | _EITHER_ZERO,
      text="The greater; of a number and nan, the number.",
      slopes=(_share_of_greater, lambda F, x, y: _share_of_greater(F, y, x))),
    r("fmin", 2, np.fmin, _ALL, traits=_EXACT | _COMMUTATIVE | _EITHER_ZERO,
      text="The lesser; of a number and nan, the number.",
      slopes=(_share_of_lesser, lambda F, x, y: _share_of_lesser(F, y, x))),
    r("power", 2, np.power, _NUM, cost=40, symbol="**", domain=(0.1, 4), traits=_POSITIVE,
      text="The first to the power of the second. Integers wrap around; their exponents must "
           "not be negative (the result is then not specified, NumPy raises).",
      slopes=(_slope_of_base, _slope_of_exponent)),
    r("sqrt", 1, np.sqrt, _FLT, cost=4, domain=(0, 100), traits=_POSITIVE,
      text="Square root; nan below 0.",
      slopes=(lambda r: 0.5 / r,)),
    r("rsqrt", 1, _rsqrt, _FLT,
      cost=6, domain=(0.01, 100), traits=_POSITIVE,
      text="1 / sqrt(x); inf at 0.", composition=lambda s, x: s("divide", 1, s("sqrt", x)),
      slopes=(lambda r, x: -0.5 * r / x,)),
    r("cbrt", 1, np.cbrt, _FLT, cost=20, domain=(-100, 100),
      text="Cube root, of negative numbers too.",
      slopes=(lambda r: 1 / (3 * r * r),)),
    r("ceil", 1, np.ceil, _FLT, "The least integer that is not less.", traits=_EXACT | _JUMPS),
    r("floor", 1, np.floor, _FLT, "The greatest integer not greater.", traits=_EXACT | _JUMPS),
    r("trunc", 1, np.trunc, _FLT, "The integer part.", traits=_EXACT | _JUMPS),
    r("round", 1, np.rint, _FLT, traits=_EXACT | _JUMPS,
      text="The nearest integer, halves to the even one."),
    r("flush", 1, _flush, _FLT, traits=_EXACT, slopes=(1,),
      text="Zero with its sign below a magnitude of 2**-126, float32's least normal number."),
    r("copysign", 2, np.copysign, _FLT, traits=_EXACT,
      text="The magnitude of the first with the sign of the second, of -0 and nan too.",
      slopes=(lambda F, x, y: F.sign(x) * F.copysign(1, y), None)),
    r("exp", 1, np.exp, _FLT, cost=12, domain=(-20, 20), traits=_BLIND | _NOT_MINUS_0 | _NAN,
      text="e to the power of x.",
      slopes=(lambda r: r,)),
    r("exp2", 1, np.exp2, _FLT, cost=12, domain=(-20, 20), traits=_BLIND | _NOT_MINUS_0,
      text="2 to the power of x.",
      slopes=(lambda r: r * math.log(2),)),
    r("expm1", 1, np.expm1, _FLT, "exp(x) - 1, exact near 0.", cost=20,
      slopes=(lambda r: r + 1,)),
    r("log", 1, np.log, _FLT, cost=16, domain=(0.01, 100), traits=_POSITIVE | _NAN,
      text="Natural logarithm; -inf at 0, nan below.",
      slopes=(lambda x: 1 / x,)),
    r("log1p", 1, np.log1p, _FLT, cost=20, domain=(-0.9, 10), traits=_POSITIVE,
      text="log(1 + x), exact near 0.",
      slopes=(lambda x: 1 / (1 + x),)),
    r("log2", 1, np.log2, _FLT, cost=16, domain=(0.01, 100), traits=_POSITIVE,
      text="Logarithm to base 2; -inf at 0, nan below.",
      slopes=(lambda x: 1 / (math.log(2) * x),)),
    r("log10", 1, np.log10, _FLT, cost=16, domain=(0.01, 100), traits=_POSITIVE,
      text="Logarithm to base 10; -inf at 0, nan below.",
      slopes=(lambda x: 1 / (math.log(10) * x),)),
    r("sin", 1, np.sin, _FLT, "Sine of radians.", cost=25, domain=(-20, 20), largest=False,
      slopes=(lambda F, x: F.cos(x),)),
    r("cos", 1, np.cos, _FLT, cost=25, domain=(-20, 20), largest=False, traits=_BLIND,
      text="Cosine of radians.",
      slopes=(lambda F, x: -F.sin(x),)),
    r("tan", 1, np.tan, _FLT, "Tangent of radians.", cost=35, domain=(-20, 20), largest=False,
      slopes=(lambda r: 1 + r * r,)),
    r("asin", 1, np.arcsin, _FLT, cost=20, domain=(-1, 1),
      text="Inverse sine; nan outside [-1, 1].",
      slopes=(lambda F, x: F.rsqrt(1 - x * x),)),
    r("acos", 1, np.arccos, _FLT, cost=20, domain=(-1, 1), traits=_NOT_MINUS_0,
      text="Inverse cosine; nan outside [-1, 1].",
      slopes=(lambda F, x: -F.rsqrt(1 - x * x),)),
    r("atan", 1, np.arctan, _FLT, "Inverse tangent.", cost=20, domain=(-20, 20),
      slopes=(lambda x: 1 / (1 + x * x),)),
    r("atan2", 2, np.arctan2, _FLT, cost=30,
      text="The angle of the point (second, first), with the signs of zeros.",
      slopes=(lambda x, y: y / (x * x + y * y), lambda x, y: -x / (x * x + y * y))),
    r("sinh", 1, np.sinh, _FLT, "Hyperbolic sine.", cost=25,
      slopes=(lambda F, x: F.cosh(x),)),
    r("cosh", 1, np.cosh, _FLT, "Hyperbolic cosine.", cost=25, traits=_BLIND | _NOT_MINUS_0,
      slopes=(lambda F, x: F.sinh(x),)),
    r("tanh", 1, np.tanh, _FLT, "Hyperbolic tangent.", cost=18,
      slopes=(lambda r: 1 - r * r,)),
    r("asinh", 1, np.arcsinh, _FLT, "Inverse hyperbolic sine.", cost=25, domain=(-20, 20),
      slopes=(lambda F, x: F.rsqrt(x * x + 1),)),
    r("acosh", 1, np.arccosh, _FLT, cost=25, domain=(1, 20), traits=_NOT_MINUS_0,
      text="Inverse hyperbolic cosine; nan below 1.",
      slopes=(lambda F, x: F.rsqrt((x - 1) * (x + 1)),)),
    r("atanh", 1, np.arctanh, _FLT, cost=25, domain=(-1, 1),
      text="Inverse hyperbolic tangent; nan outside [-1, 1].",
      slopes=(lambda x: 1 / (1 - x * x),)),
    r("erf", 1, _erf, _FLT, "The error function.", cost=20,
      slopes=(lambda F, x: F.exp(-x * x) * (2 / math.sqrt(math.pi)),)),
    r("sigmoid", 1, _sigmoid, _FLT, cost=18, domain=(-10, 10), traits=_BLIND | _NOT_MINUS_0,
      text="1 / (1 + exp(-x)).",
      slopes=(lambda r: r * (1 - r),)),
    r("equal", 2, np.equal, _ALL, symbol="==", to_bool=True, traits=_COMMUTATIVE | _BLIND | _JUMPS,
      text="True where both are equal; nan equals nothing."),
    r("not_equal", 2, np.not_equal, _ALL,
      symbol="!=", to_bool=True, traits=_COMMUTATIVE | _BLIND | _JUMPS,
      text="True where both differ; nan differs from everything."),
    r("less", 2, np.less, _ALL, symbol="<", to_bool=True, traits=_BLIND | _JUMPS,
      text="True where the first is less; False for nan."),
    r("less_equal", 2, np.less_equal, _ALL, symbol="<=", to_bool=True, traits=_BLIND | _JUMPS,
      text="True where the first is less or equal; False for nan."),
    r("greater", 2, np.greater, _ALL, symbol=">", to_bool=True, traits=_BLIND | _JUMPS,
      text="True where the first is greater; False for nan."),
    r("greater_equal", 2, np.greater_equal, _ALL,
      symbol=">=", to_bool=True, traits=_BLIND | _JUMPS,
      text="True where the first is greater or equal; False for nan."),
    r("isnan", 1, np.isnan, _FLT, "True where x is nan.", to_bool=True, traits=_BLIND),
    r("isinf", 1, np.isinf, _FLT,
      to_bool=True, traits=_BLIND, composition=lambda s, x: s("equal", s("abs", x), math.inf),
      text="True where x is inf or -inf."),
    r("isfinite", 1, np.isfinite, _FLT,
      to_bool=True, traits=_BLIND, composition=lambda s, x: s("less", s("abs", x), math.inf),
      text="True where x is neither nan nor infinite."),
    r("logical_and", 2, np.logical_and, "b", symbol="and", neutral=True, traits=_COMMUTATIVE,
      text="True where both are True."),
    r("logical_or", 2, np.logical_or, "b", symbol="or", neutral=False, traits=_COMMUTATIVE,
      text="True where at least one of both is True."),
    r("logical_xor", 2, np.logical_xor, "b", symbol="xor", traits=_COMMUTATIVE,
      text="True where exactly one of both is True."),
    r("logical_not", 1, np.logical_not, "b", "True where x is False."),
    r("bitwise_and", 2, np.bitwise_and, _BITS, symbol="&", neutral=-1, traits=_COMMUTATIVE,
      text="The bits that both have."),
    r("bitwise_or", 2, np.bitwise_or, _BITS, symbol="|", neutral=0, traits=_COMMUTATIVE,
      text="The bits that one of both has."),
    r("bitwise_xor", 2, np.bitwise_xor, _BITS, symbol="^", neutral=0, traits=_COMMUTATIVE,
      text="The bits that exactly one of both has."),
    r("bitwise_not", 1, np.invert, _BITS,
      text="The bits that x does not have; of a bool, logical not."),
    r("left_shift", 2, np.left_shift, _INT, symbol="<<",
      text="Bits moved up; 0 where the count is negative or not less than the number of bits."),
    r("right_shift", 2, np.right_shift, _INT, symbol=">>",
      text="Bits moved down, the sign repeated. It is 0 or -1 where the count is negative or "
           "not less than the number of bits."),
    r("bits", 1, _bits, _FLT, to_bits=True, traits=_EXACT | _JUMPS,
      text="The bits of a float as an unsigned integer."),
    r("from_bits", 1, _from_bits, "u", to_bits=True, traits=_EXACT | _JUMPS,
      text="The float that has the bits of an unsigned integer."),
    r("max_number", 2, np.fmax, _FLT, traits=_EXACT | _COMMUTATIVE | _EITHER_ZERO, internal=True,
      neutral=-math.inf,
      text="The greater; of a number and nan, either: see ``ir/schedule/weights.py``."),
    r("exp_weight", 1, np.exp, _FLT, cost=10, domain=(-20, 0), traits=_BLIND | _NOT_MINUS_0,
      internal=True, text="exp of a rounded difference that is not above 0, to its accuracy."),
    r("divide_weight", 2, np.divide, _FLT, cost=3, internal=True,
      text="Quotient of a weight in [0, 1] and a sum that is 0, nan, or at least 1."),
    r("where", 3, np.where, _ALL, traits=_EXACT | Trait.MOVES,
      text="The second operand where the condition is True, else the third."),
    r("cast", 1, np.asarray, _ALL, "The element converted to another dtype."),
)
# fmt: on


def require_reachable(row: ScalarOp) -> ScalarOp:
    """Returns ``row``; InternalError if users find no function that applies it: NumPy's is not a
    ufunc, whose calls are traced, and ``lw.nn`` offers what NumPy lacks. ``where`` and ``cast`` are
    methods and functions of their own."""
    traced = isinstance(row.numpy, np.ufunc) or row.name in ("where", "cast")
    if not (row.internal or row.is_ours or traced):
        raise InternalError(f"scalar {row.name}: np.{row.numpy.__name__} is not a ufunc")
    return row


SCALAR_OPS: dict[str, ScalarOp] = {row.name: require_reachable(row) for row in _ROWS}
_BY_SYMBOL = {row.symbol: row.name for row in _ROWS}


@dataclass(frozen=True, slots=True)
class Combiner:
    """Operation that joins values of a reduction: a scalar operator that has an identity. ``sign``
    is the assignment operator of one step in the text."""

    name: str
    op: str
    sign: str

    @property
    def numpy(self) -> Any:
        """NumPy's ufunc, for reductions along an axis."""
        return SCALAR_OPS[self.op].numpy

    def identity(self, dtype: DType) -> bool | int | float:
        """Returns the identity element in that dtype."""
        return SCALAR_OPS[self.op].identity(dtype)


COMBINERS: dict[str, Combiner] = {
    c.name: c
    for c in (
        Combiner("sum", "add", "+="),
        Combiner("prod", "multiply", "*="),
        Combiner("max", "maximum", "max="),
        Combiner("min", "minimum", "min="),
        Combiner("max_number", "max_number", "max_number="),
        Combiner("any", "logical_or", "or="),
        Combiner("all", "logical_and", "and="),
    )
}

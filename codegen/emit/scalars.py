"""What each scalar operator is in LLVM instructions, on one element or on a vector.

The elementary functions (exp, sin, ...) come from ``codegen/elementary``; here are the rest.
NumPy's meaning holds throughout: min and max pass NaN on, integer division by zero gives 0, shifts
beyond the width give 0 or the sign.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtype import LLVM_TYPES, DType
from ...ir.errors import InternalError
from ..elementary import function as elementary_function
from ..llvm_text import float_literal
from ..target import Target
from .division import divide_by_one, inverse_square
from .integer_division import divide_integers
from .writer import FunctionWriter, Value

__all__ = ["ScalarEmitter", "literal"]


def literal(value: bool | int | float, dtype: DType) -> Value:
    """A constant of that dtype."""
    type = dtype.llvm
    if dtype.is_float:
        return Value(float_literal(float(value), type), type)
    if dtype.is_bool:
        return Value("true" if value else "false", "i1")
    return Value(str(int(value)), type)


_INT_COMPARE = {
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}
_FLOAT_COMPARE = {
    "equal": "oeq",
    "not_equal": "une",
    "less": "olt",
    "less_equal": "ole",
    "greater": "ogt",
    "greater_equal": "oge",
}
_BITWISE = {
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
}
_FLOAT_ARITHMETIC = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_INT_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul"}
_BOOL_ARITHMETIC = {
    "add": "or",
    "multiply": "and",
    "maximum": "or",
    "minimum": "and",
    "fmax": "or",
    "fmin": "and",
}
_FLOAT_INTRINSICS = {
    "abs": "fabs",
    "sqrt": "sqrt",
    "ceil": "ceil",
    "floor": "floor",
    "trunc": "trunc",
    "round": "rint",
    "copysign": "copysign",
}


class ScalarEmitter:
    """Writes scalar operators into a function; ``functions`` collects the helpers they call."""

    def __init__(self, writer: FunctionWriter, target: Target, functions: dict[str, str]) -> None:
        self.w = writer
        self.target = target
        self.functions = functions

    def apply(self, name: str, args: list[Value], dtypes: list[DType], result: DType) -> Value:
        """The operator on values of equal lanes; ``dtypes`` are the operands'."""
        lanes = max(a.lanes for a in args)
        if name == "divide" and dtypes[0].is_float and self._many_by_one(*args):
            return divide_by_one(self.w, *args)
        args = [self.w.splat(a, lanes) for a in args]
        if name == "where":
            return self.w.select(*args)
        if name == "cast":
            return self.cast(args[0], dtypes[0], result)
        dtype = dtypes[0]
        special = self._special(name, args, dtype)
        if special is not None:
            return special
        if dtype.is_float:
            return self._float(name, args, dtype)
        return self._bool(name, args) if dtype.is_bool else self._int(name, args, dtype)

    def _special(self, name: str, args: list[Value], dtype: DType) -> Value | None:
        if name in _BITWISE and not dtype.is_float:
            return self.w.op(_BITWISE[name], *args)
        if name in ("logical_not", "bitwise_not"):
            ones = self.w.splat(
                Value("true" if dtype.is_bool else "-1", args[0].type), args[0].lanes
            )
            return self.w.op("xor", args[0], ones)
        if name in _INT_COMPARE:
            if dtype.is_float:
                return self.w.op(f"fcmp {_FLOAT_COMPARE[name]}", *args, type="i1")
            relation = _INT_COMPARE[name]
            sign = "" if relation in ("eq", "ne") else ("s" if dtype.is_signed else "u")
            return self.w.op(f"icmp {sign}{relation}", *args, type="i1")
        return None

    def _bool(self, name: str, args: list[Value]) -> Value:
        if name not in _BOOL_ARITHMETIC:
            raise InternalError(f"{name} has no meaning on bool")
        return self.w.op(_BOOL_ARITHMETIC[name], *args)

    # -- floats --------------------------------------------------------------------------------

    def _many_by_one(self, x: Value, y: Value) -> bool:
        """Whether a loop divides vectors by what is the same in all of its turns."""
        return self.target.has_fma and x.lanes > 1 and y.lanes in (1, x.lanes) and y.depth < x.depth

    def _float(self, name: str, args: list[Value], dtype: DType) -> Value:
        w = self.w
        if name in _FLOAT_ARITHMETIC:
            return w.op(_FLOAT_ARITHMETIC[name], *args)
        if name in _FLOAT_INTRINSICS:
            return w.intrinsic(_FLOAT_INTRINSICS[name], *args)
        own: Callable[..., Value] | None = getattr(self, f"_float_{name}", None)
        if own is not None:
            return own(dtype, *args)
        return self.elementary(name, args, dtype)

    def elementary(self, name: str, args: list[Value], dtype: DType) -> Value:
        """A call of our own vector code, which LLVM inlines."""
        lanes = args[0].lanes
        made = elementary_function(name, dtype.name, lanes, self.target)
        self.functions[made.symbol] = made.text
        self.w.calls.update(made.declarations)
        return self.w.call(made.symbol, *args, type=args[0].type, lanes=lanes)

    def const(self, value: float, like: Value) -> Value:
        return self.w.splat(Value(float_literal(value, like.type), like.type), like.lanes)

    def _float_negative(self, dtype: DType, x: Value) -> Value:
        return self.w.op("fneg", x)

    def _float_rsqrt(self, dtype: DType, x: Value) -> Value:
        return self.w.op("fdiv", self.const(1.0, x), self.w.intrinsic("sqrt", x))

    def _float_power(self, dtype: DType, x: Value, y: Value) -> Value:
        if self.target.has_fma and y.name == self.const(-2.0, x).name:
            return inverse_square(self.w, x)
        return self.elementary("power", [x, y], dtype)

    def _float_sign(self, dtype: DType, x: Value) -> Value:
        w, zero = self.w, self.const(0.0, x)
        below = w.select(w.op("fcmp olt", x, zero, type="i1"), self.const(-1.0, x), x)
        signed = w.select(w.op("fcmp ogt", x, zero, type="i1"), self.const(1.0, x), below)
        return w.select(w.op("fcmp oeq", x, zero, type="i1"), zero, signed)

    def _float_maximum(self, dtype: DType, a: Value, b: Value) -> Value:
        return self._extreme("ogt", a, b)

    def _float_minimum(self, dtype: DType, a: Value, b: Value) -> Value:
        return self._extreme("olt", a, b)

    def _extreme(self, relation: str, a: Value, b: Value) -> Value:
        """``a > b ? a : b`` is one instruction and passes NaN in b on; a needs its own look."""
        if _is_number(b):
            a, b = b, a
        symbol = self._machine_extreme(relation, a)
        if symbol:
            rounding = (Value("4", "i32"),) if a.lanes * LLVM_TYPES[a.type].bytes == 64 else ()
            chosen = self.w.call(symbol, a, b, *rounding, type=a.type, lanes=a.lanes)
        else:
            chosen = self.w.select(self.w.op(f"fcmp {relation}", a, b, type="i1"), a, b)
        if _is_number(a):
            return chosen
        return self.w.select(self.w.op("fcmp uno", a, a, type="i1"), a, chosen)

    def _machine_extreme(self, relation: str, a: Value) -> str:
        """The machine's instruction by name: LLVM would merge a comparison with the next one."""
        size = a.lanes * LLVM_TYPES[a.type].bytes
        if a.lanes == 1 or size not in (16, 32, 64) or size > self.target.vector_bytes:
            return ""
        kind = {"float": "ps", "double": "pd"}[a.type]
        name = "max" if relation == "ogt" else "min"
        if size == 64:
            return f"llvm.x86.avx512.{name}.{kind}.512"
        if size == 32:
            return f"llvm.x86.avx.{name}.{kind}.256"
        return f"llvm.x86.{'sse' if kind == 'ps' else 'sse2'}.{name}.{kind}"

    def _float_fmax(self, dtype: DType, a: Value, b: Value) -> Value:
        return self._extreme_number("oge", a, b)

    def _float_fmin(self, dtype: DType, a: Value, b: Value) -> Value:
        return self._extreme_number("ole", a, b)

    def _extreme_number(self, relation: str, a: Value, b: Value) -> Value:
        take = self.w.op(f"fcmp {relation}", a, b, type="i1")
        missing = self.w.op("fcmp uno", b, b, type="i1")
        return self.w.select(self.w.op("or", take, missing), a, b)

    def _float_isnan(self, dtype: DType, x: Value) -> Value:
        return self.w.op("fcmp uno", x, x, type="i1")

    def _float_isinf(self, dtype: DType, x: Value) -> Value:
        infinity = self.const(float("inf"), x)
        return self.w.op("fcmp oeq", self.w.intrinsic("fabs", x), infinity, type="i1")

    def _float_isfinite(self, dtype: DType, x: Value) -> Value:
        infinity = self.const(float("inf"), x)
        return self.w.op("fcmp olt", self.w.intrinsic("fabs", x), infinity, type="i1")

    # -- integers ------------------------------------------------------------------------------

    def _int(self, name: str, args: list[Value], dtype: DType) -> Value:
        w = self.w
        signed = dtype.is_signed
        if name in _INT_ARITHMETIC:
            return w.op(_INT_ARITHMETIC[name], *args)
        if name in ("maximum", "fmax", "minimum", "fmin"):
            kind = ("s" if signed else "u") + ("max" if "max" in name else "min")
            return w.intrinsic(kind, *args)
        if name == "negative":
            return w.op("sub", self.integer(0, args[0]), args[0])
        if name == "abs":
            return w.intrinsic("abs", *args, extra="false") if signed else args[0]
        if name == "sign":
            return self._int_sign(args[0], signed)
        if name in ("floor_divide", "floor_mod", "truncate_mod"):
            return divide_integers(w, name, *args, dtype=dtype)
        if name in ("left_shift", "right_shift"):
            return self._shift(name, *args, dtype=dtype)
        return self.elementary(name, args, dtype)

    def integer(self, value: int, like: Value) -> Value:
        return self.w.splat(Value(str(value), like.type), like.lanes)

    def _int_sign(self, x: Value, signed: bool) -> Value:
        w, zero = self.w, self.integer(0, x)
        positive = w.convert(
            "zext", w.op("icmp sgt" if signed else "icmp ne", x, zero, type="i1"), x.type
        )
        if not signed:
            return positive
        negative = w.convert("zext", w.op("icmp slt", x, zero, type="i1"), x.type)
        return w.op("sub", positive, negative)

    def _shift(self, name: str, a: Value, b: Value, dtype: DType) -> Value:
        w = self.w
        inside = w.op("icmp ult", b, self.integer(dtype.bits, b), type="i1")
        arithmetic = name == "right_shift" and dtype.is_signed
        limit = self.integer(dtype.bits - 1 if arithmetic else 0, b)
        count = w.select(inside, b, limit)
        if arithmetic:
            return w.op("ashr", a, count)
        shifted = w.op("shl" if name == "left_shift" else "lshr", a, count)
        return w.select(inside, shifted, self.integer(0, a))

    # -- conversions ---------------------------------------------------------------------------

    def cast(self, x: Value, source: DType, target: DType) -> Value:
        """``astype``; a float outside the integer's range gives what x86-64 gives, never poison."""
        w = self.w
        to = target.llvm
        if source == target:
            return x
        if target.is_bool:
            zero = self.const(0.0, x) if source.is_float else self.integer(0, x)
            return w.op("fcmp une" if source.is_float else "icmp ne", x, zero, type="i1")
        if source.is_float and target.is_float:
            return w.convert("fpext" if target.bits > source.bits else "fptrunc", x, to)
        if target.is_float:
            return w.convert("sitofp" if source.is_signed else "uitofp", x, to)
        if source.is_float:
            unsigned = not target.is_signed and target.bits == 64
            bits = 64 if target.bits == 64 or (not target.is_signed and target.bits == 32) else 32
            wide = w.op("freeze", w.convert("fptoui" if unsigned else "fptosi", x, f"i{bits}"))
            return wide if bits == target.bits else w.convert("trunc", wide, to)
        if target.bits == source.bits:
            return x
        if target.bits < source.bits:
            return w.convert("trunc", x, to)
        return w.convert("sext" if source.is_signed else "zext", x, to)

    def combine(self, combiner_op: str, old: Value, new: Value, dtype: DType) -> Value:
        """One step of a reduction. For min and max the new value comes first: see ``_extreme``."""
        lanes = max(old.lanes, new.lanes)
        old, new = self.w.splat(old, lanes), self.w.splat(new, lanes)
        first, second = (new, old) if combiner_op in ("maximum", "minimum") else (old, new)
        return self.apply(combiner_op, [first, second], [dtype, dtype], dtype)

    def horizontal(self, combiner_op: str, vector: Value, dtype: DType) -> Value:
        """All lanes of a vector joined, in a tree."""
        while vector.lanes > 1:
            half = vector.lanes // 2
            if half == 1:
                low, high = self.w.extract(vector, 0), self.w.extract(vector, 1)
            else:
                low = self.w.shuffle(vector, vector, tuple(range(half)))
                high = self.w.shuffle(vector, vector, tuple(range(half, 2 * half)))
            vector = self.combine(combiner_op, low, high, dtype)
        return vector

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """``a * b + c`` on floats, fused where the machine can."""
        lanes = max(a.lanes, b.lanes, c.lanes)
        a, b, c = (self.w.splat(v, lanes) for v in (a, b, c))
        if self.target.has_fma:
            return self.w.intrinsic("fma", a, b, c)
        return self.w.op("fadd", self.w.op("fmul", a, b), c)


def _is_number(value: Value) -> bool:
    """Whether the value is a literal that is not NaN."""
    if value.name.startswith("%"):
        return False
    text = value.name.split()[-1].rstrip(")")
    bits = int(text, 16) if text.startswith("0x") else 0
    return bits & 0x7FFFFFFFFFFFFFFF <= 0x7FF0000000000000

"""The LLVM instructions of each scalar operator, on one element or on a vector.

``_CODE`` holds one row per operator. An operator without a row is a ``composition`` of others (see
``ir/loop/scalar.py``) or an elementary function (``codegen/elementary``: exp, sin, ...). NumPy's
meaning holds throughout: min and max pass NaN on, integer division by zero gives 0, shifts beyond
the width give 0 or the sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ...ir.dtype import BOOL, FLOAT32, LLVM_TYPES, DType
from ...ir.errors import InternalError
from ...ir.loop.scalar import SCALAR_OPS
from ..elementary import FUNCTIONS, INTERNAL
from ..elementary import function as elementary_function
from ..elementary.emitter import Emitter
from ..llvm.text import float_literal
from ..llvm.writer import FunctionWriter, Value
from ..target import Target
from .division import divide_by_one, divide_weight, inverse_square
from .integer_division import divide_integers
from .short_floats import narrowed, rounded_to_odd, widened


def literal(value: bool | int | float, dtype: DType) -> Value:
    """Returns a constant of that dtype."""
    type = dtype.llvm
    if dtype.computed is not dtype:
        return Value(str(np.asarray(value, dtype.numpy).view(f"i{dtype.bytes}").item()), type)
    if dtype.is_float:
        return Value(float_literal(float(value), type), type)
    if dtype.is_bool:
        return Value("true" if value else "false", "i1")
    return Value(str(int(value)), type)


class ScalarEmitter:
    """Writes scalar operators into a function; ``functions`` collects the helpers they call."""

    def __init__(self, writer: FunctionWriter, target: Target, functions: dict[str, str]) -> None:
        self.w = writer
        self.target = target
        self.functions = functions
        self.operators: dict[object, Callable[[list[Value]], Value]] = {}  # by name and dtypes
        self.flushed: dict[str, Value] = {}  # what was flushed, by the name of the result

    def apply(self, name: str, args: list[Value], dtypes: Sequence[DType], result: DType) -> Value:
        """Writes the operator on some values; ``dtypes`` are the operands'."""
        return self.operator(name, dtypes, result)(args)

    def operator(
        self, name: str, dtypes: Sequence[DType], result: DType
    ) -> Callable[[list[Value]], Value]:
        """Returns what writes an operator on operands of these dtypes."""
        key = (name, *dtypes, result)
        write = self.operators.get(key)
        if write is None:
            write = self.operators[key] = self._operator(name, dtypes[0], result)
        return write

    def _operator(self, name: str, dtype: DType, result: DType) -> Callable[[list[Value]], Value]:
        if name == "exp_weight" and self.target.sums:  # fused or not, it is one function
            name = "exp"
        w, code = self.w, _CODE.get(name, _NONE)
        body = code.floats if dtype.is_float else code.bools if dtype.is_bool else code.ints
        by_one = divide_weight if name == "divide_weight" else divide_by_one
        by_inverse = dtype.is_float and self.target.has_fma and self.target.sums is None
        divides = by_inverse and name in ("divide", "divide_weight")

        def write(args: list[Value]) -> Value:
            lanes = max([a.lanes for a in args])
            if divides and _many_by_one(*args):
                e, x = Emitter.of(w, self.target, args[0])
                return by_one(e, x, Emitter.of(w, self.target, args[1])[1]).ssa
            args = [a if a.lanes == lanes else w.splat(a, lanes) for a in args]
            if name == "where":
                return w.select(*args)
            if name == "cast":
                return self.cast(args[0], dtype, result)
            if body is not None:
                return body(self, dtype, *args)
            if SCALAR_OPS[name].composition is not None:
                return self._composed(name, args, dtype)
            return self.elementary(name, args, dtype)

        return write

    def _composed(self, name: str, args: list[Value], dtype: DType) -> Value:
        """Writes the composition that defines the operator, on operands of ``dtype``."""

        def step(name: str, *given: Value | float) -> Value:
            values = [v if isinstance(v, Value) else self.const(v, args[0]) for v in given]
            dtypes = [BOOL if v.type == "i1" else dtype for v in values]
            return self.apply(name, values, dtypes, dtype)

        composition = SCALAR_OPS[name].composition
        assert composition is not None
        return composition(step, *args)

    def elementary(self, name: str, args: list[Value], dtype: DType) -> Value:
        """Writes a call of our own vector code, which LLVM inlines."""
        lanes = args[0].lanes
        if name not in FUNCTIONS and name not in INTERNAL:
            raise InternalError(
                f"scalar operator {name} has no code for {dtype}: it needs a composition in its "
                "row of ir/loop/scalar.py, or instructions in codegen/emit/scalars.py"
            )
        made = elementary_function(name, dtype.name, lanes, self.target)
        self.functions[made.symbol] = made.text
        self.w.calls.update(made.declarations)
        return self.w.call(made.symbol, *args, type=args[0].type, lanes=lanes)

    def const(self, value: float, like: Value) -> Value:
        return self.w.splat(Value(float_literal(value, like.type), like.type), like.lanes)

    def integer(self, value: int, like: Value) -> Value:
        return self.w.splat(Value(str(value), like.type), like.lanes)

    # -- conversions ---------------------------------------------------------------------------

    def cast(self, x: Value, source: DType, target: DType) -> Value:
        """``astype``; a float outside the integer's range gives what x86-64 gives, never poison."""
        w = self.w
        to = target.llvm
        if source == target:
            return x
        if source.is_half:
            return self.cast(widened(w, self.target, x, source), FLOAT32, target)
        if target.is_half:
            double = source.is_float and source.bits == 64
            if target.name == "bfloat16" and (value := self._rounded_flushed(x)):
                return value
            single = rounded_to_odd(w, self.target, x) if double else self.cast(x, source, FLOAT32)
            return narrowed(w, self.target, single, target)
        if source.computed is not source:  # an integer shorter than a byte, in its low bits
            left = self.integer(8 - source.bits, x)
            high = w.op("shl", x, left)
            whole = w.op("ashr" if source.is_signed else "lshr", high, left)
            return self.cast(whole, source.computed, target)
        if target.computed is not target:
            whole = self.cast(x, source, target.computed)
            return w.op("and", whole, self.integer((1 << target.bits) - 1, whole))
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

    def _rounded_flushed(self, x: Value) -> Value | None:
        """Returns what ``flush`` made of a vector of float32, rounded to bfloat16, if there is an
        instruction that does both."""
        operand = self.flushed.get(x.name)
        if operand is None or x.lanes not in (8, 16) or "avx512bf16" not in self.target.features:
            return None
        symbol = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * x.lanes}"
        wide = self.w.call(symbol, operand, type="bfloat", lanes=x.lanes)
        return self.w.recast(wide, "i16", x.lanes)

    def combine(self, combiner_op: str, old: Value, new: Value, dtype: DType) -> Value:
        """One step of a reduction. For min and max the new value comes first: see ``_extreme``."""
        lanes = max(old.lanes, new.lanes)
        old, new = self.w.splat(old, lanes), self.w.splat(new, lanes)
        first, second = (new, old) if combiner_op in _NEW_FIRST else (old, new)
        return self.apply(combiner_op, [first, second], [dtype, dtype], dtype)

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """``a * b + c`` on floats, fused where the machine can."""
        lanes = max(a.lanes, b.lanes, c.lanes)
        a, b, c = [v if v.lanes == lanes else self.w.splat(v, lanes) for v in (a, b, c)]
        if self.target.has_fma:
            return self.w.intrinsic("fma", a, b, c)
        size = lanes * LLVM_TYPES[a.type].bytes
        if size == self.target.vector_bytes and "relaxed-simd" in self.target.features:
            return self.w.intrinsic("wasm.relaxed.madd", a, b, c)
        return self.w.op("fadd", self.w.op("fmul", a, b), c)


def _many_by_one(x: Value, y: Value) -> bool:
    """True if a loop divides vectors by a value that is the same in all of its iterations."""
    return x.lanes > 1 and y.lanes in (1, x.lanes) and y.depth < x.depth


_NEW_FIRST = ("maximum", "minimum", "max_number")

Body: TypeAlias = Callable[..., Value]  # of the emitter, the operands' dtype and the operands


class _Code(NamedTuple):
    """The functions that write an operator on floats, integers and bools; None if not defined."""

    floats: Body | None = None
    ints: Body | None = None
    bools: Body | None = None


_NONE = _Code()


def _op(instruction: str) -> Body:
    return lambda e, _dtype, *args: e.w.op(instruction, *args)


def _intrinsic(name: str) -> Body:
    return lambda e, _dtype, *args: e.w.intrinsic(name, *args)


def _comparison(floats: str, ints: str) -> _Code:
    """Comparison of two operands; that of integers is signed or unsigned unless it is eq or ne."""

    def on_integers(e: ScalarEmitter, dtype: DType, a: Value, b: Value) -> Value:
        sign = "" if ints in ("eq", "ne") else ("s" if dtype.is_signed else "u")
        return e.w.op(f"icmp {sign}{ints}", a, b, type="i1")

    def on_floats(e: ScalarEmitter, _dtype: DType, a: Value, b: Value) -> Value:
        return e.w.op(f"fcmp {floats}", a, b, type="i1")

    return _Code(on_floats, on_integers, on_integers)


def _is_nan(e: ScalarEmitter, _dtype: DType, x: Value) -> Value:
    return e.w.op("fcmp uno", x, x, type="i1")


def _power(e: ScalarEmitter, dtype: DType, x: Value, y: Value) -> Value:
    if e.target.has_fma and y.name == e.const(-2.0, x).name:
        return inverse_square(*Emitter.of(e.w, e.target, x)).ssa
    return e.elementary("power", [x, y], dtype)


def _flush(e: ScalarEmitter, _dtype: DType, x: Value) -> Value:
    w = e.w
    is_small = w.op("fcmp olt", w.intrinsic("fabs", x), e.const(2.0**-126, x), type="i1")
    value = w.select(is_small, w.intrinsic("copysign", e.const(0.0, x), x), x)
    if x.type == "float":
        e.flushed[value.name] = x
    return value


def _sign_of_floats(e: ScalarEmitter, _dtype: DType, x: Value) -> Value:
    w, zero = e.w, e.const(0.0, x)
    below = w.select(w.op("fcmp olt", x, zero, type="i1"), e.const(-1.0, x), x)
    signed = w.select(w.op("fcmp ogt", x, zero, type="i1"), e.const(1.0, x), below)
    return w.select(w.op("fcmp oeq", x, zero, type="i1"), zero, signed)


def _sign_of_integers(e: ScalarEmitter, dtype: DType, x: Value) -> Value:
    w, zero, signed = e.w, e.integer(0, x), dtype.is_signed
    positive = w.convert(
        "zext", w.op("icmp sgt" if signed else "icmp ne", x, zero, type="i1"), x.type
    )
    if not signed:
        return positive
    negative = w.convert("zext", w.op("icmp slt", x, zero, type="i1"), x.type)
    return w.op("sub", positive, negative)


def _negated_integers(e: ScalarEmitter, _dtype: DType, x: Value) -> Value:
    return e.w.op("sub", e.integer(0, x), x)


def _absolute_integers(e: ScalarEmitter, dtype: DType, x: Value) -> Value:
    return e.w.intrinsic("abs", x, extra="false") if dtype.is_signed else x


def _inverted(e: ScalarEmitter, dtype: DType, x: Value) -> Value:
    ones = Value("true" if dtype.is_bool else "-1", x.type)
    return e.w.op("xor", x, e.w.splat(ones, x.lanes))


def _integer_division(name: str) -> Body:
    def write(e: ScalarEmitter, dtype: DType, a: Value, b: Value) -> Value:
        other, x = Emitter.of(e.w, e.target, a)
        return divide_integers(other, name, x, other.of(e.w, e.target, b)[1], dtype).ssa

    return write


def _left_shift(e: ScalarEmitter, dtype: DType, a: Value, b: Value) -> Value:
    return _logical_shift("shl", e, dtype, a, b)


def _right_shift(e: ScalarEmitter, dtype: DType, a: Value, b: Value) -> Value:
    if not dtype.is_signed:
        return _logical_shift("lshr", e, dtype, a, b)
    inside = e.w.op("icmp ult", b, e.integer(dtype.bits, b), type="i1")
    return e.w.op("ashr", a, e.w.select(inside, b, e.integer(dtype.bits - 1, b)))


def _logical_shift(instruction: str, e: ScalarEmitter, dtype: DType, a: Value, b: Value) -> Value:
    """A shift that gives 0 for counts that are not less than the number of bits."""
    w = e.w
    inside = w.op("icmp ult", b, e.integer(dtype.bits, b), type="i1")
    shifted = w.op(instruction, a, w.select(inside, b, e.integer(0, b)))
    return w.select(inside, shifted, e.integer(0, a))


def _integer_extreme(name: str) -> Body:
    return lambda e, dtype, *args: e.w.intrinsic(("s" if dtype.is_signed else "u") + name, *args)


_LLVM_EXTREMES = {
    "ogt": ("maxnum", "maximum"),
    "oge": ("maxnum", "maximum"),
    "olt": ("minnum", "minimum"),
    "ole": ("minnum", "minimum"),
}
"""LLVM's functions that give a number if there is one, and those that give nan if there is one."""


def _extreme(relation: str) -> Body:
    """``a > b ? a : b`` passes NaN in b on; NaN in a is tested for."""
    one = _second_if_nan(relation)

    def body(e: ScalarEmitter, dtype: DType, a: Value, b: Value) -> Value:
        if (name := _LLVM_EXTREMES[relation][1]) in e.target.level.extremes:
            return e.w.intrinsic(name, a, b)
        if _is_number(b):
            a, b = b, a
        chosen = one(e, dtype, a, b)
        return chosen if _is_number(a) else e.w.select(_is_nan(e, dtype, a), a, chosen)

    return body


def _second_if_nan(relation: str) -> Body:
    """``a > b ? a : b``, one instruction: b if either is NaN."""

    def body(e: ScalarEmitter, _dtype: DType, a: Value, b: Value) -> Value:
        size = a.lanes * LLVM_TYPES[a.type].bytes
        name = "max" if relation == "ogt" else "min"
        symbol = e.target.extreme(name, size, a.type) if a.lanes > 1 else None
        if symbol is not None:  # LLVM would merge a comparison with the next one
            rounding = (Value("4", "i32"),) if size == 64 else ()
            return e.w.call(symbol, a, b, *rounding, type=a.type, lanes=a.lanes)
        return e.w.select(e.w.op(f"fcmp {relation}", a, b, type="i1"), a, b)

    return body


def _extreme_number(relation: str, fast: bool = False) -> Body:
    """The extreme of two floats; of a number and NaN, the number, or either if ``fast``."""
    one = _second_if_nan(relation)

    def body(e: ScalarEmitter, dtype: DType, a: Value, b: Value) -> Value:
        if (name := _LLVM_EXTREMES[relation][0]) in e.target.level.extremes:
            return e.w.intrinsic(name, a, b)
        if fast:
            return one(e, dtype, a, b)
        take = e.w.op(f"fcmp {relation}", a, b, type="i1")
        return e.w.select(e.w.op("or", take, _is_nan(e, dtype, b)), a, b)

    return body


_CODE = {
    "add": _Code(_op("fadd"), _op("add"), _op("or")),
    "subtract": _Code(_op("fsub"), _op("sub")),
    "multiply": _Code(_op("fmul"), _op("mul"), _op("and")),
    "divide": _Code(_op("fdiv")),
    "divide_weight": _Code(_op("fdiv")),
    "floor_divide": _Code(ints=_integer_division("floor_divide")),
    "floor_mod": _Code(ints=_integer_division("floor_mod")),
    "truncate_mod": _Code(ints=_integer_division("truncate_mod")),
    "negative": _Code(_op("fneg"), _negated_integers),
    "abs": _Code(_intrinsic("fabs"), _absolute_integers),
    "sign": _Code(_sign_of_floats, _sign_of_integers),
    "maximum": _Code(_extreme("ogt"), _integer_extreme("max"), _op("or")),
    "max_number": _Code(_extreme_number("ogt", fast=True)),
    "minimum": _Code(_extreme("olt"), _integer_extreme("min"), _op("and")),
    "fmax": _Code(_extreme_number("oge"), _integer_extreme("max"), _op("or")),
    "fmin": _Code(_extreme_number("ole"), _integer_extreme("min"), _op("and")),
    "power": _Code(_power),
    "sqrt": _Code(_intrinsic("sqrt")),
    "ceil": _Code(_intrinsic("ceil")),
    "floor": _Code(_intrinsic("floor")),
    "trunc": _Code(_intrinsic("trunc")),
    "round": _Code(_intrinsic("rint")),
    "flush": _Code(_flush),
    "copysign": _Code(_intrinsic("copysign")),
    "isnan": _Code(_is_nan),
    "equal": _comparison("oeq", "eq"),
    "not_equal": _comparison("une", "ne"),
    "less": _comparison("olt", "lt"),
    "less_equal": _comparison("ole", "le"),
    "greater": _comparison("ogt", "gt"),
    "greater_equal": _comparison("oge", "ge"),
    "logical_and": _Code(bools=_op("and")),
    "logical_or": _Code(bools=_op("or")),
    "logical_xor": _Code(bools=_op("xor")),
    "logical_not": _Code(bools=_inverted),
    "bitwise_and": _Code(None, _op("and"), _op("and")),
    "bitwise_or": _Code(None, _op("or"), _op("or")),
    "bitwise_xor": _Code(None, _op("xor"), _op("xor")),
    "bitwise_not": _Code(None, _inverted, _inverted),
    "left_shift": _Code(ints=_left_shift),
    "right_shift": _Code(ints=_right_shift),
    "bits": _Code(lambda s, dtype, x: s.w.convert("bitcast", x, f"i{dtype.bits}")),
    "from_bits": _Code(
        ints=lambda s, dtype, x: s.w.convert(
            "bitcast", x, "float" if dtype.bits == 32 else "double"
        )
    ),
}


def _is_number(value: Value) -> bool:
    """True if the value is a literal that is not NaN."""
    if value.name.startswith("%"):
        return False
    text = value.name.split()[-1].rstrip(")")
    bits = int(text, 16) if text.startswith("0x") else 0
    return bits & 0x7FFFFFFFFFFFFFFF <= 0x7FF0000000000000

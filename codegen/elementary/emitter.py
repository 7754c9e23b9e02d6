"""A small language for writing vector arithmetic as LLVM text.

``Emitter`` collects the instructions of one function; ``Value`` is one SSA name (or constant) that
knows its element kind, so that an algorithm reads as its formula::

    e = Emitter.function("square_plus_one", "float32", 16, Target.host())
    (x,) = e.parameters("x")
    e.finish(e.fma(x, x, 1.0)).text

Every operation works on all lanes. Kinds are LLVM's element types: ``float``, ``double``, ``i1`` to
``i64``. LLVM contracts and reassociates nothing: every operation rounds as it is written.
``FunctionWriter`` writes each only once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...ir.dataclass import dataclass
from ...ir.dtype import DTYPES, LLVM_TYPES
from ..llvm import writer
from ..llvm.text import float_literal, rounded
from ..llvm.writer import POISON, FunctionWriter
from ..target import Target

Number: TypeAlias = int | float

_FLOATS = {32: "float", 64: "double"}  # by their bits


@dataclass(frozen=True, slots=True)
class ElementaryFunction:
    """The text of one function: ``declarations`` are the ``declare`` lines it relies on."""

    symbol: str
    text: str
    declarations: tuple[str, ...]


def _operator(floats: str, integers: str = "") -> Callable[[Value, Value | Number], Value]:
    """The operator that is one instruction on floats, and one on integers."""

    def write(self: Value, other: Value | Number) -> Value:
        return self.apply(floats if self.is_float or not integers else integers, other)

    return write


def _comparison(floats: str, integers: str) -> Callable[[Value, Value | Number], Value]:
    return lambda self, other: self.compare(floats, integers, other)


class Value:
    """An SSA value, or a constant in all lanes. Operators emit instructions.

    ``/``, ``<`` and the like depend on the kind: floats compare ordered (false for NaN), integers
    are signed; ``>>`` is the arithmetic shift.
    """

    __slots__ = ("emitter", "ssa")

    def __init__(self, emitter: Emitter, ssa: writer.Value) -> None:
        self.emitter = emitter
        self.ssa = ssa

    @property
    def kind(self) -> str:
        return self.ssa.type

    @property
    def is_float(self) -> bool:
        return LLVM_TYPES[self.kind].is_float

    def apply(self, instruction: str, other: Value | Number, kind: str | None = None) -> Value:
        e = self.emitter
        if not isinstance(other, Value):
            other = e.constant(other, self.kind, self.ssa.lanes)
        return Value(e, e.w.op(instruction, self.ssa, other.ssa, type=kind))

    __add__ = __radd__ = _operator("fadd", "add")
    __sub__ = _operator("fsub", "sub")
    __mul__ = __rmul__ = _operator("fmul", "mul")
    __truediv__ = _operator("fdiv", "sdiv")
    __and__ = _operator("and")
    __or__ = _operator("or")
    __xor__ = _operator("xor")
    __lshift__ = _operator("shl")
    __rshift__ = _operator("ashr")
    logical_shift_right = _operator("lshr")

    def __rsub__(self, other: Number) -> Value:
        return self.emitter.constant(other, self.kind, self.ssa.lanes) - self

    def __rtruediv__(self, other: Number) -> Value:
        return self.emitter.constant(other, self.kind, self.ssa.lanes) / self

    def __neg__(self) -> Value:
        e = self.emitter
        return Value(e, e.w.op("fneg", self.ssa)) if self.is_float else 0 - self

    def __invert__(self) -> Value:
        return self ^ (-1 if self.kind != "i1" else 1)

    def compare(self, float_predicate: str, integer_predicate: str, other: Value | Number) -> Value:
        how = f"fcmp {float_predicate}" if self.is_float else f"icmp {integer_predicate}"
        return self.apply(how, other, "i1")

    __lt__ = _comparison("olt", "slt")
    __le__ = _comparison("ole", "sle")
    __gt__ = _comparison("ogt", "sgt")
    __ge__ = _comparison("oge", "sge")
    equals = _comparison("oeq", "eq")
    differs = _comparison("une", "ne")  # for floats also true when either is NaN

    def is_nan(self) -> Value:
        return self.compare("uno", "ne", self)

    def below(self, other: Value | Number) -> Value:
        """True where an integer without sign is less than another."""
        return self.compare("", "ult", other)


class Emitter:
    """Writes into a function, with constants of ``lanes`` elements of a kind."""

    def __init__(self, w: FunctionWriter, kind: str, lanes: int, target: Target) -> None:
        self.w = w
        self.kind = kind
        self.lanes = lanes
        self.target = target

    @staticmethod
    def function(symbol: str, dtype: str, lanes: int, target: Target) -> Emitter:
        """Begins a function of elements of ``dtype`` (``float32``, ``int8``, ...)."""
        w = FunctionWriter(symbol, "", attributes="alwaysinline nounwind")
        return Emitter(w, DTYPES[dtype].llvm, lanes, target)

    @staticmethod
    def of(w: FunctionWriter, target: Target, x: writer.Value) -> tuple[Emitter, Value]:
        """Returns an emitter of constants like a value, and the value."""
        e = Emitter(w, x.type, x.lanes, target)
        return e, Value(e, x)

    def parameters(self, *names: str) -> tuple[Value, ...]:
        values = [writer.Value(f"%{name}", self.kind, self.lanes) for name in names]
        self.w.params = ", ".join(map(str, values))
        return tuple([Value(self, value) for value in values])

    def finish(self, result: Value) -> ElementaryFunction:
        """The function that returns ``result``."""
        w, w.result = self.w, result.ssa
        return ElementaryFunction(w.name, w.text(linkage="internal "), tuple(sorted(w.calls)))

    def twin(self, dtype: str) -> Emitter:
        """Returns an emitter of another dtype that writes into this function."""
        other = copy.copy(self)
        other.kind = DTYPES[dtype].llvm
        return other

    def adopt(self, x: Value) -> Value:
        """Returns the value as one of this emitter's."""
        return Value(self, x.ssa)

    @property
    def has_tables(self) -> bool:
        """True if a vector register can be a table (``lookup``): AVX-512 permutes across lanes."""
        masks = self.target.has_masks and self.target.sums is None
        return masks and self.lanes * self.bit_width <= 512

    def in_full_register(self, x: Value, body: Callable[..., Value], *more: Value) -> Value:
        """Returns ``body`` of ``x`` (and ``more``), computed in as many lanes as a 64-byte register
        has; the additional lanes are undefined."""
        wide = copy.copy(self)
        wide.lanes = 512 // self.bit_width
        if wide.lanes == self.lanes:
            return body(self, x, *more)
        w, none = self.w, writer.Value(POISON, self.kind, wide.lanes)
        if self.lanes == 1:
            result = body(wide, *(Value(wide, w.insert(none, v.ssa, 0)) for v in (x, *more)))
            return Value(self, w.extract(result.ssa, 0))
        result = body(wide, *(Value(wide, _resized(w, v.ssa, wide.lanes)) for v in (x, *more)))
        return Value(self, _resized(w, result.ssa, self.lanes))

    def constant(self, number: Number, kind: str | None = None, lanes: int | None = None) -> Value:
        """``number`` in all lanes, rounded to the kind (the function's own by default)."""
        kind = kind or self.kind
        dtype = LLVM_TYPES[kind]
        if dtype.is_float:
            text = float_literal(number, kind)
        else:
            bits = dtype.bits
            wrapped = int(number) & ((1 << bits) - 1)
            text = str(wrapped - (1 << bits) if bits > 1 and wrapped >> (bits - 1) else wrapped)
        return Value(self, self.w.splat(writer.Value(text, kind), lanes or self.lanes))

    def rounded(self, number: Number, kind: str | None = None) -> Number:
        """``number`` as the kind (the function's own by default) can hold it."""
        return rounded(number, kind or self.kind)

    def splat(self, x: Value) -> Value:
        """A scalar in all lanes."""
        return Value(self, self.w.splat(x.ssa, self.lanes))

    def value(self, x: Value | Number, kind: str) -> Value:
        return x if isinstance(x, Value) else self.constant(x, kind)

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """A call of ``@llvm.name`` on whole vectors."""
        return Value(self, self.w.intrinsic(name, *(v.ssa for v in operands)))

    def _avx512(
        self, name: str, *arguments: Value | int, masked: bool = False, kinds: str = "ps pd"
    ) -> Value:
        """A call of ``@llvm.x86.avx512.name``; if ``masked``, of all lanes with the last value in
        the place of others. Numbers are constants, the one behind the mask the rounding."""
        every = (writer.Value("-1", f"i{self.lanes}"),) if masked else ()
        values = [a.ssa if isinstance(a, Value) else writer.Value(str(a), "i32") for a in arguments]
        last = next((n for n in range(len(values), 0, -1) if values[n - 1].lanes > 1), 0)
        symbol = f"llvm.x86.avx512.{name}.{kinds.split()[self.kind == 'double']}.512"
        given = (*values[:last], *every, *values[last:])
        return Value(self, self.w.call(symbol, *given, type=self.kind, lanes=self.lanes))

    def lookup(self, table: Sequence[float], index: Value) -> Value:
        """``table[index]``, the index modulo the size: one or two full registers of numbers."""
        n = self.lanes
        numbers = [f"{self.kind} {float_literal(t, self.kind)}" for t in table]
        rows = [", ".join(numbers[i : i + n]) for i in range(0, len(table), n)]
        parts = [Value(self, writer.Value(f"<{row}>", self.kind, n)) for row in rows]
        if len(parts) == 1:
            return self._avx512("permvar", parts[0], index, kinds="sf df")
        return self._avx512("vpermi2var", parts[0], index, parts[1])

    def scale_by_floor(self, y: Value, n: Value) -> Value:
        """y * 2^floor(n), rounded once, for any n, infinite ones too: AVX-512's ``vscalef``."""
        return self._avx512("mask.scalef", y, n, y, 4, masked=True)

    def exponent_of(self, x: Value) -> Value:
        """floor(log2 |x|), denormal x too; -inf of 0, inf of inf, NaN of NaN: ``vgetexp``."""
        return self._avx512("mask.getexp", x, x, 4, masked=True)

    def significand_of(self, x: Value, least: float = 1.0) -> Value:
        """|x| times a power of two, in [1, 2) or [3/4, 3/2) by ``least``, denormal x too; 1 of 0
        and inf: ``vgetmant``. In [1, 2) the power is 2^-``exponent_of``."""
        form = {1.0: 4, 0.75: 7}[least]
        return self._avx512("mask.getmant", x, form, x, 4, masked=True)

    def reciprocal_estimate(self, x: Value) -> Value:
        """1 / x within 2^-14: AVX-512's ``vrcp14``."""
        return self._avx512("rcp14", x, x, masked=True)

    def bounded(self, x: Value, bound: float) -> Value:
        """``x``, its magnitude at most ``bound``, and ``bound`` for NaN: AVX-512's ``vrange``."""
        limit = self.constant(bound)
        return self._avx512("mask.range", x, limit, 2, x, 4, masked=True)

    def fma(self, a: Value, b: Value | Number, c: Value | Number) -> Value:
        """a * b + c: rounded once where the target has FMA, twice where it has not."""
        b, c = self.value(b, a.kind), self.value(c, a.kind)
        return self.intrinsic("fma", a, b, c) if self.target.has_fma else a * b + c

    def negative_fma(self, a: Value, b: Value | Number, c: Value | Number) -> Value:
        """c - a * b, rounded as ``fma``."""
        b, c = self.value(b, a.kind), self.value(c, a.kind)
        return self.intrinsic("fma", -a, b, c) if self.target.has_fma else c - a * b

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Horner's rule; the constant term first."""
        total: Value | Number = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            total = self.fma(x, total, c)
        return self.value(total, x.kind)

    def select(
        self,
        condition: Value,
        a: Value | Number,
        b: Value | Number,
        *,
        unlikely: bool = False,
    ) -> Value:
        """``a`` where the condition holds, else ``b``; at least one of them is a Value."""
        kind = a.kind if isinstance(a, Value) else b.kind if isinstance(b, Value) else self.kind
        a, b = self.value(a, kind), self.value(b, kind)
        return Value(self, self.w.select(condition.ssa, a.ssa, b.ssa, unlikely=unlikely))

    def at_most(self, x: Value, bound: Value | Number) -> Value:
        """min(x, bound), NaN when x is NaN; one instruction on x86."""
        bound = self.value(bound, x.kind)
        if x.is_float and "minimum" in self.target.level.extremes:
            return self.intrinsic("minimum", x, bound)
        return self.select(bound < x, bound, x)

    def at_least(self, x: Value, bound: Value | Number) -> Value:
        """max(x, bound), NaN when x is NaN."""
        bound = self.value(bound, x.kind)
        if x.is_float and "maximum" in self.target.level.extremes:
            return self.intrinsic("maximum", x, bound)
        return self.select(bound > x, bound, x)

    def bits(self, x: Value) -> Value:
        """The float's representation as an integer of its width."""
        return self.cast("bitcast", x, f"i{LLVM_TYPES[x.kind].bits}")

    def float_of_bits(self, x: Value) -> Value:
        return self.cast("bitcast", x, _FLOATS[LLVM_TYPES[x.kind].bits])

    def cast(self, instruction: str, x: Value, kind: str) -> Value:
        """LLVM's conversions: fpext, fptrunc, fptosi, sitofp, zext, sext, trunc, bitcast."""
        return Value(self, self.w.convert(instruction, x.ssa, kind))

    def widen(self, x: Value) -> Value:
        """float to double."""
        return self.cast("fpext", x, "double")

    def narrow(self, x: Value) -> Value:
        """double to float, rounded to nearest."""
        return self.cast("fptrunc", x, "float")

    def abs(self, x: Value) -> Value:
        return self.intrinsic("fabs", x)

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("sqrt", x)

    def copysign(self, magnitude: Value | Number, sign: Value) -> Value:
        return self.intrinsic("copysign", self.value(magnitude, sign.kind), sign)

    def sign_bit(self, x: Value) -> Value:
        """The sign bit of ``x`` alone, as an integer."""
        return self.bits(x) & (1 << (LLVM_TYPES[x.kind].bits - 1))

    def copy_sign_of(self, x: Value, odd: Value) -> Value:
        """``odd`` of |x| made odd in x: negated where x is negative."""
        return self.flip_sign(odd, self.sign_bit(x))

    def flip_sign(self, x: Value, sign: Value) -> Value:
        """``x`` with its sign inverted where the integer ``sign`` has its top bit set (no
        others)."""
        return self.float_of_bits(self.bits(x) ^ sign)

    @property
    def fraction_bits(self) -> int:
        """Stored bits of the significand of the function's float kind."""
        return LLVM_TYPES[self.kind].fraction_bits

    @property
    def exponent_bias(self) -> int:
        return LLVM_TYPES[self.kind].exponent_bias

    @property
    def exponent_bits(self) -> int:
        return LLVM_TYPES[self.kind].exponent_bits

    @property
    def bit_width(self) -> int:
        return LLVM_TYPES[self.kind].bits

    @property
    def sign_mask(self) -> int:
        return 1 << (self.bit_width - 1)

    def magic(self, kind: str | None = None) -> float:
        """1.5 * 2^(p-1): adding it to a small number rounds that to an integer in the low bits."""
        return 1.5 * 2.0 ** LLVM_TYPES[kind or self.kind].fraction_bits

    def any(self, condition: Value) -> writer.Value:
        """A scalar i1: true if the condition holds in some lane."""
        if self.lanes == 1:
            return condition.ssa
        # A bit test of the mask as one integer becomes movmsk / kortest.
        w, mask = self.w, f"i{self.lanes}"
        packed = w.pure(f"bitcast {condition.ssa} to {mask}", mask, 1, condition.ssa.depth)
        return w.op("icmp ne", packed, w.int(0), type="i1")

    def rarely(
        self, condition: Value, common: Sequence[Value], rare: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """Returns ``rare()`` if the condition holds in some lane, otherwise ``common``, by a
        branch.

        ``rare`` emits the code of the slow path, which computes all lanes.
        """
        usual = [v.ssa for v in common]
        results = self.w.where(
            self.any(condition), lambda: [v.ssa for v in rare()], usual, cold=True
        )
        return [Value(self, value) for value in results]

    def repeat(
        self,
        state: Sequence[Value],
        unfinished: Callable[[list[Value]], Value],
        body: Callable[[list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """``while any(unfinished(state)): state = body(state)``; all lanes run while one does."""

        def held(state: Sequence[writer.Value]) -> list[Value]:
            return [Value(self, value) for value in state]

        ends = self.w.repeat(
            [v.ssa for v in state],
            lambda now: self.any(unfinished(held(now))),
            lambda now: [v.ssa for v in body(held(now))],
        )
        return held(ends)


def _resized(w: FunctionWriter, x: writer.Value, lanes: int) -> writer.Value:
    """The first ``lanes`` lanes; those that ``x`` does not have are undefined."""
    none = x._replace(name=POISON, depth=0)
    return w.shuffle(x, none, tuple([lane if lane < x.lanes else -1 for lane in range(lanes)]))

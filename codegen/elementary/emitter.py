"""A small language for writing vector arithmetic as LLVM text.

``Emitter`` collects the instructions of one function; ``Value`` is one SSA name (or constant) that
knows its element kind, so that an algorithm reads as its formula::

    e = Emitter("square_plus_one", "float32", 16, Target.host())
    (x,) = e.parameters("x")
    e.finish(e.fma(x, x, 1.0)).text

Every operation works on all lanes. Kinds are LLVM's element types: ``float``, ``double``, ``i1`` to
``i64``. LLVM contracts and reassociates nothing: every operation rounds as it is written.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence

from ...ir.dataclass import dataclass
from ...ir.dtype import DTYPES, LLVM_TYPES
from ..llvm.text import float_literal, overload, rounded
from ..target import Target

Number = int | float

_FLOATS = {32: "float", 64: "double"}  # by their bits


@dataclass(frozen=True, slots=True)
class ElementaryFunction:
    """The text of one function: ``declarations`` are the ``declare`` lines it relies on."""

    symbol: str
    text: str
    declarations: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An SSA value, or a constant in all lanes. Operators emit instructions.

    ``/``, ``<`` and the like depend on the kind: floats compare ordered (false for NaN), integers
    are signed; ``>>`` is the arithmetic shift.
    """

    emitter: Emitter
    ref: str
    kind: str

    @property
    def is_float(self) -> bool:
        return LLVM_TYPES[self.kind].is_float

    def _binary(self, other: Value | Number, on_floats: str, on_integers: str) -> Value:
        e = self.emitter
        b = e.value(other, self.kind)
        how = on_floats if self.is_float else on_integers
        return e.emit(f"{how} {e.type(self.kind)} {self.ref}, {b.ref}", self.kind)

    def _reversed(self, other: Number) -> Value:
        return self.emitter.constant(other, self.kind)

    def __add__(self, other: Value | Number) -> Value:
        return self._binary(other, "fadd", "add")

    def __sub__(self, other: Value | Number) -> Value:
        return self._binary(other, "fsub", "sub")

    def __mul__(self, other: Value | Number) -> Value:
        return self._binary(other, "fmul", "mul")

    def __truediv__(self, other: Value | Number) -> Value:
        return self._binary(other, "fdiv", "sdiv")

    def __radd__(self, other: Number) -> Value:
        return self + other

    def __rmul__(self, other: Number) -> Value:
        return self * other

    def __rsub__(self, other: Number) -> Value:
        return self._reversed(other) - self

    def __rtruediv__(self, other: Number) -> Value:
        return self._reversed(other) / self

    def __neg__(self) -> Value:
        e = self.emitter
        if not self.is_float:
            return 0 - self
        return e.emit(f"fneg {e.type(self.kind)} {self.ref}", self.kind)

    def __and__(self, other: Value | Number) -> Value:
        return self._binary(other, "and", "and")

    def __or__(self, other: Value | Number) -> Value:
        return self._binary(other, "or", "or")

    def __xor__(self, other: Value | Number) -> Value:
        return self._binary(other, "xor", "xor")

    def __invert__(self) -> Value:
        return self ^ (-1 if self.kind != "i1" else 1)

    def __lshift__(self, other: Value | Number) -> Value:
        return self._binary(other, "shl", "shl")

    def __rshift__(self, other: Value | Number) -> Value:
        return self._binary(other, "ashr", "ashr")

    def logical_shift_right(self, other: Value | Number) -> Value:
        return self._binary(other, "lshr", "lshr")

    def compare(self, float_predicate: str, integer_predicate: str, other: Value | Number) -> Value:
        e = self.emitter
        b = e.value(other, self.kind)
        how = f"fcmp {float_predicate}" if self.is_float else f"icmp {integer_predicate}"
        return e.emit(f"{how} {e.type(self.kind)} {self.ref}, {b.ref}", "i1")

    def __lt__(self, other: Value | Number) -> Value:
        return self.compare("olt", "slt", other)

    def __le__(self, other: Value | Number) -> Value:
        return self.compare("ole", "sle", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self.compare("ogt", "sgt", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self.compare("oge", "sge", other)

    def equals(self, other: Value | Number) -> Value:
        return self.compare("oeq", "eq", other)

    def differs(self, other: Value | Number) -> Value:
        """Unequal; for floats also true when either is NaN."""
        return self.compare("une", "ne", other)

    def is_nan(self) -> Value:
        return self.compare("uno", "ne", self)


class Emitter:
    """Writes one function of ``lanes`` elements of ``dtype`` (``float32``, ``int8``, ...)."""

    def __init__(self, symbol: str, dtype: str, lanes: int, target: Target) -> None:
        self.symbol = symbol
        self.lanes = lanes
        self.target = target
        self.kind = DTYPES[dtype].llvm
        self._parameters: tuple[Value, ...] = ()
        self._lines: list[str] = []
        self._declarations: dict[str, None] = {}
        self._names = itertools.count()

    def type(self, kind: str) -> str:
        """The LLVM type of a value of this kind: a vector, or a scalar when there is one lane."""
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def mangle(self, kind: str) -> str:
        return overload(kind, self.lanes)

    def parameters(self, *names: str) -> tuple[Value, ...]:
        self._parameters = tuple(Value(self, f"%{name}", self.kind) for name in names)
        return self._parameters

    def twin(self, dtype: str) -> Emitter:
        """Returns an emitter of another dtype that writes into this function."""
        other = copy.copy(self)
        other.kind = DTYPES[dtype].llvm
        return other

    def adopt(self, x: Value) -> Value:
        """Returns the value as one of this emitter's."""
        return Value(self, x.ref, x.kind)

    @property
    def has_tables(self) -> bool:
        """True if a vector register can be a table (``lookup``): AVX-512 permutes across lanes."""
        return self.target.has_masks and self.lanes * self.bit_width <= 512

    def in_full_register(self, x: Value, body: Callable[..., Value], *more: Value) -> Value:
        """Returns ``body`` of ``x`` (and ``more``), computed in as many lanes as a 64-byte register
        has; the additional lanes are undefined."""
        wide = copy.copy(self)
        wide.lanes = 512 // self.bit_width
        if wide.lanes == self.lanes:
            return body(self, x, *more)
        if self.lanes == 1:
            result = body(wide, *(wide._alone(v) for v in (x, *more)))
            vector = f"{wide.type(result.kind)} {result.ref}"
            return self.emit(f"extractelement {vector}, i32 0", result.kind)
        result = body(wide, *(wide.adopt(self._shuffled(v, wide.lanes)) for v in (x, *more)))
        return self.adopt(wide._shuffled(result, self.lanes))

    def _alone(self, x: Value) -> Value:
        """Returns a scalar in the first lane of a vector."""
        return self.emit(
            f"insertelement {self.type(x.kind)} poison, {x.kind} {x.ref}, i32 0", x.kind
        )

    def _shuffled(self, x: Value, lanes: int) -> Value:
        """Returns the first ``lanes`` lanes; those that ``x`` does not have are undefined."""
        places = ", ".join(f"i32 {i if i < self.lanes else 'poison'}" for i in range(lanes))
        t = self.type(x.kind)
        return self.emit(
            f"shufflevector {t} {x.ref}, {t} poison, <{lanes} x i32> <{places}>", x.kind
        )

    def emit(self, instruction: str, kind: str) -> Value:
        name = f"%v{next(self._names)}"
        self._lines.append(f"  {name} = {instruction}")
        return Value(self, name, kind)

    def finish(self, result: Value) -> ElementaryFunction:
        """The function that returns ``result``."""
        arguments = ", ".join(f"{self.type(p.kind)} {p.ref}" for p in self._parameters)
        head = f"define internal {self.type(result.kind)} @{self.symbol}({arguments})"
        lines = (
            f"{head} alwaysinline nounwind {{",
            "entry:",
            *self._lines,
            f"  ret {self.type(result.kind)} {result.ref}",
            "}",
        )
        return ElementaryFunction(self.symbol, "\n".join(lines) + "\n", tuple(self._declarations))

    def constant(self, number: Number, kind: str | None = None) -> Value:
        """``number`` in all lanes, rounded to the kind (the function's own by default)."""
        kind = kind or self.kind
        dtype = LLVM_TYPES[kind]
        if dtype.is_float:
            text = float_literal(number, kind)
        else:
            bits = dtype.bits
            wrapped = int(number) & ((1 << bits) - 1)
            text = str(wrapped - (1 << bits) if bits > 1 and wrapped >> (bits - 1) else wrapped)
        return Value(self, text if self.lanes == 1 else f"splat ({kind} {text})", kind)

    def rounded(self, number: Number, kind: str | None = None) -> Number:
        """``number`` as the kind (the function's own by default) can hold it."""
        return rounded(number, kind or self.kind)

    def value(self, x: Value | Number, kind: str) -> Value:
        return x if isinstance(x, Value) else self.constant(x, kind)

    def intrinsic(
        self, name: str, operands: Sequence[Value], kind: str | None = None, overload: str = ""
    ) -> Value:
        """A call of ``@llvm.name`` on whole vectors."""
        kind = kind or operands[0].kind
        full = f"@llvm.{name}.{overload or self.mangle(operands[0].kind)}"
        types = ", ".join(self.type(v.kind) for v in operands)
        self._declarations[f"declare {self.type(kind)} {full}({types})"] = None
        arguments = ", ".join(f"{self.type(v.kind)} {v.ref}" for v in operands)
        return self.emit(f"call {self.type(kind)} {full}({arguments})", kind)

    def _avx512(
        self, name: str, arguments: Sequence[Value | str], kinds: tuple[str, str] = ("ps", "pd")
    ) -> Value:
        """A call of ``@llvm.x86.avx512.name``; arguments that are text are integer constants."""
        typed = [a if isinstance(a, str) else f"{self.type(a.kind)} {a.ref}" for a in arguments]
        types = [a.split()[0] if isinstance(a, str) else self.type(a.kind) for a in arguments]
        full = f"@llvm.x86.avx512.{name}.{kinds[self.kind == 'double']}.512"
        result = self.type(self.kind)
        self._declarations[f"declare {result} {full}({', '.join(types)})"] = None
        return self.emit(f"call {result} {full}({', '.join(typed)})", self.kind)

    def lookup(self, table: Sequence[float], index: Value) -> Value:
        """``table[index]``, the index modulo the size: one or two full registers of numbers."""
        numbers = [self.constant(t).ref.removeprefix("splat (").removesuffix(")") for t in table]
        n = self.lanes
        parts = [
            Value(self, f"<{', '.join(numbers[i : i + n])}>", self.kind)
            for i in range(0, len(table), n)
        ]
        if len(parts) == 1:
            return self._avx512("permvar", (parts[0], index), ("sf", "df"))
        return self._avx512("vpermi2var", (parts[0], index, parts[1]))

    def scale_by_floor(self, y: Value, n: Value) -> Value:
        """y * 2^floor(n), rounded once, for any n, infinite ones too: AVX-512's ``vscalef``."""
        return self._avx512("mask.scalef", (y, n, y, f"i{self.lanes} -1", "i32 4"))

    def exponent_of(self, x: Value) -> Value:
        """floor(log2 |x|), denormal x too; -inf of 0, inf of inf, NaN of NaN: ``vgetexp``."""
        return self._avx512("mask.getexp", (x, x, f"i{self.lanes} -1", "i32 4"))

    def significand_of(self, x: Value, least: float = 1.0) -> Value:
        """|x| times a power of two, in [1, 2) or [3/4, 3/2) by ``least``, denormal x too; 1 of 0
        and inf: ``vgetmant``. In [1, 2) the power is 2^-``exponent_of``."""
        form = {1.0: 4, 0.75: 7}[least]
        return self._avx512("mask.getmant", (x, f"i32 {form}", x, f"i{self.lanes} -1", "i32 4"))

    def reciprocal_estimate(self, x: Value) -> Value:
        """1 / x within 2^-14: AVX-512's ``vrcp14``."""
        return self._avx512("rcp14", (x, x, f"i{self.lanes} -1"))

    def bounded(self, x: Value, bound: float) -> Value:
        """``x``, its magnitude at most ``bound``, and ``bound`` for NaN: AVX-512's ``vrange``."""
        limit = self.constant(bound)
        return self._avx512("mask.range", (x, limit, "i32 2", x, f"i{self.lanes} -1", "i32 4"))

    def fma(self, a: Value, b: Value | Number, c: Value | Number) -> Value:
        """a * b + c: rounded once where the target has FMA, twice where it has not."""
        b, c = self.value(b, a.kind), self.value(c, a.kind)
        return self.intrinsic("fma", [a, b, c]) if self.target.has_fma else a * b + c

    def negative_fma(self, a: Value, b: Value | Number, c: Value | Number) -> Value:
        """c - a * b, rounded as ``fma``."""
        b, c = self.value(b, a.kind), self.value(c, a.kind)
        return self.intrinsic("fma", [-a, b, c]) if self.target.has_fma else c - a * b

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Horner's rule; the constant term first."""
        total: Value | Number = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            total = self.fma(x, total, c)
        return self.value(total, x.kind)

    def select(self, condition: Value, a: Value | Number, b: Value | Number) -> Value:
        """``a`` where the condition holds, else ``b``; at least one of them is a Value."""
        kind = a.kind if isinstance(a, Value) else b.kind if isinstance(b, Value) else self.kind
        a, b = self.value(a, kind), self.value(b, kind)
        t = self.type(kind)
        return self.emit(
            f"select {self.type('i1')} {condition.ref}, {t} {a.ref}, {t} {b.ref}", kind
        )

    def at_most(self, x: Value, bound: Value | Number) -> Value:
        """min(x, bound), NaN when x is NaN; one instruction on x86."""
        bound = self.value(bound, x.kind)
        return self.select(bound < x, bound, x)

    def at_least(self, x: Value, bound: Value | Number) -> Value:
        """max(x, bound), NaN when x is NaN."""
        bound = self.value(bound, x.kind)
        return self.select(bound > x, bound, x)

    def bits(self, x: Value) -> Value:
        """The float's representation as an integer of its width."""
        return self.cast("bitcast", x, f"i{LLVM_TYPES[x.kind].bits}")

    def float_of_bits(self, x: Value) -> Value:
        return self.cast("bitcast", x, _FLOATS[LLVM_TYPES[x.kind].bits])

    def cast(self, instruction: str, x: Value, kind: str) -> Value:
        """LLVM's conversions: fpext, fptrunc, fptosi, sitofp, zext, sext, trunc, bitcast."""
        return self.emit(f"{instruction} {self.type(x.kind)} {x.ref} to {self.type(kind)}", kind)

    def widen(self, x: Value) -> Value:
        """float to double."""
        return self.cast("fpext", x, "double")

    def narrow(self, x: Value) -> Value:
        """double to float, rounded to nearest."""
        return self.cast("fptrunc", x, "float")

    def abs(self, x: Value) -> Value:
        return self.intrinsic("fabs", [x])

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("sqrt", [x])

    def copysign(self, magnitude: Value | Number, sign: Value) -> Value:
        return self.intrinsic("copysign", [self.value(magnitude, sign.kind), sign])

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

    def any(self, condition: Value) -> str:
        """Returns the name of a scalar i1: true if the condition holds in some lane."""
        if self.lanes == 1:
            return condition.ref
        # A bit test of the mask as one integer becomes movmsk / kortest.
        mask = f"i{self.lanes}"
        packed = self.emit(f"bitcast {self.type('i1')} {condition.ref} to {mask}", mask)
        return self.emit(f"icmp ne {mask} {packed.ref}, 0", "i1").ref

    def rarely(
        self, condition: Value, common: Sequence[Value], rare: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """Returns ``rare()`` if the condition holds in some lane, otherwise ``common``, by a
        branch.

        ``rare`` emits the code of the slow path, which computes all lanes.
        """
        flag = self.any(condition)
        before, number = self._block, next(self._names)
        slow, done = f"slow{number}", f"done{number}"
        self._lines.append(
            f"  br i1 {flag}, label %{slow}, label %{done}, "
            '!prof !{!"branch_weights", i32 1, i32 1000}'
        )
        self._begin(slow)
        results = rare()
        self._lines.append(f"  br label %{done}")
        after = self._block
        self._begin(done)
        return [
            self.emit(
                f"phi {self.type(a.kind)} [ {a.ref}, %{before} ], [ {b.ref}, %{after} ]", a.kind
            )
            for a, b in zip(common, results)
        ]

    def repeat(
        self,
        state: Sequence[Value],
        unfinished: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """``while any(unfinished(state)): state = body(state)``; all lanes run while one does."""
        before, number = self._block, next(self._names)
        test, loop, after = (f"{part}{number}" for part in ("test", "again", "after"))
        now = [Value(self, f"%s{number}.{i}", v.kind) for i, v in enumerate(state)]
        self._lines.append(f"  br label %{test}")
        self._begin(test)
        place = len(self._lines)
        flag = self.any(unfinished(now))
        self._lines.append(f"  br i1 {flag}, label %{loop}, label %{after}")
        self._begin(loop)
        following = body(now)
        self._lines.append(f"  br label %{test}")
        phis = [
            f"  {n.ref} = phi {self.type(n.kind)} "
            f"[ {first.ref}, %{before} ], [ {later.ref}, %{self._block} ]"
            for n, first, later in zip(now, state, following)
        ]
        self._lines[place:place] = phis
        self._begin(after)
        return now

    def _begin(self, block: str) -> None:
        self._lines.append(f"{block}:")

    @property
    def _block(self) -> str:
        """The label of the block being written."""
        labels = (line[:-1] for line in reversed(self._lines) if line.endswith(":"))
        return next(labels, "entry")

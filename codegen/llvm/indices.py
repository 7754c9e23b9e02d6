"""Indices as SSA values: loop variables and sizes, and arithmetic on them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import cast

from ...ir.dataclass import dataclass
from ...ir.dims import (
    Dim,
    FloorDiv,
    IntExpr,
    Max,
    Min,
    Mod,
    Symbol,
    bounds,
    of_atom,
    size_symbols,
    symbols,
    terms_of,
)
from ...ir.loop.stride import stride_along
from .writer import FunctionWriter, Value


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vector loop being written: lane l stands for ``var = offset + l``, for l < ``active``,
    and only where it is true in ``mask``, if there is one."""

    var: str
    offset: int
    lanes: int
    active: int
    mask: Value | None = None


class Bindings(dict[str, "int | Value"]):
    """Values of variables. ``loops`` is the same number as long as the SSA values are the same."""

    __slots__ = ("loops",)

    def __init__(self, values: Mapping[str, int | Value]) -> None:
        super().__init__(values)
        self.loops = values.loops if isinstance(values, Bindings) else next(_numbers)

    def bound(self, name: str, value: int | Value) -> Bindings:
        bindings = Bindings(self)
        if isinstance(value, Value) or isinstance(self.get(name), Value):
            bindings.loops = next(_numbers)
        bindings[name] = value
        return bindings


_numbers = itertools.count(1)


class Env:
    """Values of loop variables: an int where the loop is unrolled, an SSA value elsewhere. The
    variable of a vector loop stands for its value at lane 0."""

    __slots__ = ("lanes", "masks", "values")

    def __init__(self, values: Mapping[str, int | Value], lanes: Lanes | None = None) -> None:
        bindings = values if isinstance(values, Bindings) else Bindings(values)
        self.values = bindings if lanes is None else bindings.bound(lanes.var, lanes.offset)
        self.lanes = lanes
        # Constant conditions, by identity, with their value in each lane.
        self.masks: dict[int, tuple[object, tuple[bool, ...] | None]] = {}

    def bind(self, name: str, value: int | Value) -> Env:
        env = Env(self.values.bound(name, value))
        env.lanes = self.lanes
        return env

    def lane(self, lane: int) -> Env:
        """The scalar environment of one lane."""
        assert self.lanes is not None
        return Env(self.values.bound(self.lanes.var, self.lanes.offset + lane))


class Parts:
    """An index for some SSA values of variables: ``terms`` are values with their factors, and
    ``unrolled`` variables of unrolled loops; and what was made of the values."""

    __slots__ = ("addresses", "constant", "terms", "total", "unrolled")

    def __init__(self) -> None:
        self.terms: list[tuple[Value, int]] = []
        self.unrolled: list[tuple[str, int]] = []
        self.constant = 0
        self.total: Value | None = None
        self.addresses: dict[str, Value] = {}  # by the name of the base


class Form:
    """An index prepared for the copies of a statement."""

    __slots__ = ("index", "parts", "strides")

    def __init__(self, index: IntExpr) -> None:
        self.index = index
        self.strides: dict[str, int | None] = {}  # by the variable of a vector loop
        self.parts: dict[int, Parts] = {}  # by the number of bindings

    def stride(self, var: str) -> int | None:
        """Returns how far the index moves with a variable, or None if that is not constant."""
        if var not in self.strides:
            self.strides[var] = stride_along(self.index, var)
        return self.strides[var]


class IndexWriter:
    """Writes indices into a function."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.w = writer
        self.ranges: dict[str, tuple[int, int]] = {}  # of the variables of loops
        self.forms: dict[int, Form] = {}  # by the identity of an index

    def form(self, index: IntExpr) -> Form:
        """The prepared form of an index."""
        if not isinstance(index, Dim):
            return Form(index)
        form = self.forms.get(id(index))
        if form is None:
            form = self.forms[id(index)] = Form(index)
        return form

    def index_value(self, expr: IntExpr, env: Env) -> tuple[Value | None, int]:
        """``expr`` (at lane 0) as (SSA value, constant); constants of unrolled loops are folded."""
        parts, constant = self.parts(self.form(expr), env)
        return (self.total(parts) if parts.terms else None), constant

    def parts(self, form: Form, env: Env) -> tuple[Parts, int]:
        """An index (at lane 0) as values with their factors, and a constant."""
        values = env.values
        parts = form.parts.get(values.loops) or self._parts(form, env)
        constant = parts.constant
        for name, factor in parts.unrolled:
            constant += cast(int, values[name]) * factor
        return parts, constant

    def _parts(self, form: Form, env: Env) -> Parts:
        parts, lasting = Parts(), True
        for mono, coefficient in terms_of(form.index):
            factors: list[Value] = []
            first = env.values[mono[0].name] if mono and isinstance(mono[0], Symbol) else None
            if len(mono) == 1 and isinstance(first, int):
                parts.unrolled.append((str(mono[0]), coefficient))
                continue
            for atom in mono:
                names = symbols(of_atom(atom))
                lasting &= not any(isinstance(env.values[name], int) for name in names)
                value = self._atom(atom, env)
                if isinstance(value, int):
                    coefficient *= value
                else:
                    factors.append(value)
            if not factors:
                parts.constant += coefficient
            elif coefficient:
                parts.terms.append((self.product(factors), coefficient))
        if lasting:
            form.parts[env.values.loops] = parts
        return parts

    def product(self, factors: Sequence[Value]) -> Value:
        """Returns the product of some values, those of outer loops multiplied first."""
        first, *others = sorted(factors, key=lambda factor: factor.depth)
        for factor in others:
            first = self.w.op("mul", first, factor)
        return first

    def total(self, parts: Parts) -> Value:
        """Returns the sum of the scaled values of an index, those of outer loops added first.

        A sum is emitted at the level of its deepest term, so it is visible wherever its terms are.
        """
        if parts.total is None:
            parts.total = self.sum(parts.terms)
        return parts.total

    def sum(self, terms: Sequence[tuple[Value, int]]) -> Value:
        total = self.w.int(0)
        for value, coefficient in sorted(terms, key=lambda term: term[0].depth):
            total = self.w.add(total, self.w.scale(value, coefficient))
        return total

    def _atom(self, atom: Symbol | FloorDiv | Mod | Min | Max, env: Env) -> int | Value:
        if isinstance(atom, Symbol):
            return env.values[atom.name]
        left, right = self.index(atom.left, env), self.index(atom.right, env)
        w = self.w
        if isinstance(atom, Min | Max):
            return w.intrinsic("smin" if isinstance(atom, Min) else "smax", left, right)
        if not left.name.startswith("%") and not right.name.startswith("%"):
            a, b = int(left.name), int(right.name)
            return a // b if isinstance(atom, FloorDiv) else a % b
        least = bounds(atom.right, self.ranges)
        if least is None or size_symbols(atom.left, atom.right):
            if least is None or least[0] < 1:  # of no iterations
                right = w.positive(right)
            inside = bounds(atom.left, self.ranges)
            if inside is not None and inside[0] >= 0:
                return w.op("udiv" if isinstance(atom, FloorDiv) else "urem", left, right)
        # Divisors are positive; the quotient rounds to minus infinity.
        quotient, rest = w.op("sdiv", left, right), w.op("srem", left, right)
        below = w.op("icmp slt", rest, w.int(0), type="i1")
        if isinstance(atom, FloorDiv):
            return w.select(below, w.op("sub", quotient, w.int(1)), quotient)
        return w.select(below, w.op("add", rest, right), rest)

    def index(self, expr: IntExpr, env: Env) -> Value:
        """The int64 value of an index expression at lane 0."""
        index = self.known(expr, env)
        return self.w.int(index) if isinstance(index, int) else index

    def known(self, expr: IntExpr, env: Env) -> int | Value:
        """The same; a number, if that is known."""
        value, constant = self.index_value(expr, env)
        if value is None:
            return constant
        return self.w.op("add", value, self.w.int(constant)) if constant else value

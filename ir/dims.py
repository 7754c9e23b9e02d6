"""Integer expressions: the sizes of tensors and the indices of loops.

::

    int_expr ::= INT                                    a Python int, always when it is constant
               | Dim                                    a polynomial over atoms, in normal form
    Dim      ::= coefficient * atom * atom ... + ... + constant
    atom     ::= Symbol                                 a size the caller chooses, a loop variable
               | FloorDiv(int_expr, int_expr)           rounds to minus infinity, as Python's //
               | Mod(int_expr, int_expr)                has the sign of the divisor, as Python's %
               | Min(int_expr, int_expr) | Max(int_expr, int_expr)

Two expressions that are equal as polynomials over their atoms are the *same* normal form, so ``==``
proves equality; it never guesses. Constants are plain ints: ``n - n`` is ``0``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from .dataclass import dataclass
from .errors import SymbolicSizeError


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that stands for an integer: a symbolic size or a loop variable.

    A size states the range of its values, both ends inclusive; that of a loop variable is known
    where the loop is.
    """

    name: str
    low: int | None = None
    high: int | None = None

    @property
    def range(self) -> tuple[int, int] | None:
        """The range of a size, None for a loop variable."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def expr(self) -> Dim:
        """The expression that is this symbol alone."""
        return of_atom(self)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class _Pair:
    left: IntExpr
    right: IntExpr


class FloorDiv(_Pair):
    def __str__(self) -> str:
        return f"{_atomic(self.left)} // {_atomic(self.right)}"


class Mod(_Pair):
    def __str__(self) -> str:
        return f"{_atomic(self.left)} % {_atomic(self.right)}"


class Min(_Pair):
    def __str__(self) -> str:
        return f"min({self.left}, {self.right})"


class Max(_Pair):
    def __str__(self) -> str:
        return f"max({self.left}, {self.right})"


Atom: TypeAlias = Symbol | FloorDiv | Mod | Min | Max
Monomial: TypeAlias = tuple[Atom, ...]  # sorted by text; () is the constant term


class Dim:
    """A non-constant integer polynomial in normal form, built by arithmetic on ``symbol(...)``."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms  # sorted by text of the monomial, no zero coefficient
        self._hash = hash(terms)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Dim) and self._hash == other._hash and self.terms == other.terms
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Dim], tuple[object]]:
        return Dim, (self.terms,)  # hashes of strings differ between processes

    def __add__(self, other: IntExpr) -> IntExpr:
        if isinstance(other, int):
            if not other:
                return self
            old, rest = 0, self.terms
            if not rest[0][0]:  # the constant term comes first
                old, rest = rest[0][1], rest[1:]
            return Dim((((), old + other), *rest) if old + other else rest)
        return _sum(((self, 1), (other, 1)))

    __radd__ = __add__

    def __sub__(self, other: IntExpr) -> IntExpr:
        return self + -other if isinstance(other, int) else _sum(((self, 1), (other, -1)))

    def __rsub__(self, other: IntExpr) -> IntExpr:
        return -self + other

    def __neg__(self) -> IntExpr:
        return self * -1

    def __mul__(self, other: IntExpr) -> IntExpr:
        if isinstance(other, int):
            if other in (0, 1):
                return self if other else 0
            return Dim(tuple((mono, coef * other) for mono, coef in self.terms))
        gathered: dict[Monomial, int] = {}
        for mono_a, coef_a in self.terms:
            for mono_b, coef_b in other.terms:
                mono = tuple(sorted(mono_a + mono_b, key=atom_text))
                gathered[mono] = gathered.get(mono, 0) + coef_a * coef_b
        return from_terms(gathered)

    __rmul__ = __mul__

    def __floordiv__(self, other: IntExpr) -> IntExpr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: IntExpr) -> IntExpr:
        return floordiv(other, self)

    def __mod__(self, other: IntExpr) -> IntExpr:
        return mod(self, other)

    def __rmod__(self, other: IntExpr) -> IntExpr:
        return mod(other, self)

    def __bool__(self) -> bool:
        raise SymbolicSizeError(f"the size {self} is symbolic, so its truth is not known here")

    def __lt__(self, other: IntExpr) -> bool:
        return _is_positive(other - self)

    def __le__(self, other: IntExpr) -> bool:
        return _is_positive(other - self + 1)

    def __gt__(self, other: IntExpr) -> bool:
        return _is_positive(self - other)

    def __ge__(self, other: IntExpr) -> bool:
        return _is_positive(self - other + 1)

    def __str__(self) -> str:
        text = ""
        constant_last = sorted(self.terms, key=lambda t: not t[0])
        for mono, coef in constant_last:
            factors = " * ".join(_factor(a) for a in mono)
            if not mono:
                part = str(abs(coef))
            elif abs(coef) == 1:
                part = factors
            else:
                part = f"{abs(coef)} * {factors}"
            sign = "-" if coef < 0 else "+"
            text = (("-" if coef < 0 else "") + part) if not text else f"{text} {sign} {part}"
        return text

    def __repr__(self) -> str:
        return f"Dim({self})"


IntExpr: TypeAlias = int | Dim


def _is_positive(expr: IntExpr) -> bool:
    """True or False if that is known for all sizes, else SymbolicSizeError."""
    inside = bounds(expr, {})
    if inside is None or inside[0] <= 0 < inside[1]:
        raise SymbolicSizeError(f"0 < {expr} is not known: sizes are symbolic")
    return inside[0] > 0


def _atomic(expr: IntExpr) -> str:
    text = str(expr)
    return text if re.fullmatch(r"\w[\w.]*", text) else f"({text})"


def _factor(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, FloorDiv | Mod) else str(atom)


def atom_text(atom: Atom) -> str:
    """Returns what an atom prints as, by which atoms are sorted."""
    return atom.name if isinstance(atom, Symbol) else _text_of_node(atom)


@lru_cache(maxsize=8192)
def _text_of_node(atom: FloorDiv | Mod | Min | Max) -> str:
    return str(atom)


def from_terms(gathered: Mapping[Monomial, int]) -> IntExpr:
    """Returns the sum of monomials, each a tuple of atoms sorted by text, times coefficients."""
    terms = [(mono, coef) for mono, coef in gathered.items() if coef]
    if len(terms) > 1:
        terms.sort(key=lambda term: [atom_text(atom) for atom in term[0]])
    elif not terms or not terms[0][0]:
        return terms[0][1] if terms else 0
    return Dim(tuple(terms))


def _sum(parts: Iterable[tuple[IntExpr, int]]) -> IntExpr:
    gathered: dict[Monomial, int] = {}
    for expr, scale in parts:
        for mono, coef in terms_of(expr):
            gathered[mono] = gathered.get(mono, 0) + coef * scale
    return from_terms(gathered)


def terms_of(expr: IntExpr) -> tuple[tuple[Monomial, int], ...]:
    """Returns the monomials of an expression with their coefficients, the constant first."""
    if isinstance(expr, Dim):
        return expr.terms
    return (((), int(expr)),) if expr else ()


def of_atom(atom: Atom) -> Dim:
    """Returns the expression that is one atom."""
    return Dim((((atom,), 1),))


def symbol(name: str) -> Dim:
    """Returns the expression that is one symbol.

    >>> n = symbol("n")
    >>> str(4 * n + 1 - n)
    '3 * n + 1'
    """
    return of_atom(Symbol(name))


LARGEST_SIZE = 2**31 - 1
"""Upper bound of a symbolic size for which none is stated."""

TYPICAL_SIZE = 128
"""Value that heuristics assume for a symbolic size, as far as its range permits."""


def size(name: str, low: int = 0, high: int = LARGEST_SIZE) -> Dim:
    """Returns the expression that is one symbolic size, from ``low`` to ``high`` inclusive.

    >>> bounds(2 * size("n", 1, 8), {})
    (2, 16)
    """
    return of_atom(Symbol(name, low, high))


def size_symbols(*exprs: IntExpr) -> dict[str, Symbol]:
    """Returns the symbolic sizes in some expressions by name, in order of appearance."""
    sizes: dict[str, Symbol] = {}
    for expr in exprs:
        for mono, _ in terms_of(expr):
            for atom in mono:
                if not isinstance(atom, Symbol):
                    for name, inner in size_symbols(atom.left, atom.right).items():
                        sizes.setdefault(name, inner)
                elif atom.low is not None:
                    sizes.setdefault(atom.name, atom)
    return sizes


def typical(expr: IntExpr) -> int:
    """Returns a likely value of an expression over sizes: for heuristics, never for correctness.

    >>> typical(2 * size("n", 1, 4096)), typical(size("n", 1, 8)), typical(7)
    (256, 8, 7)
    """
    values = dict.fromkeys(symbols(expr), 0)  # loops have whole tiles at first
    for name, atom in size_symbols(expr).items():
        values[name] = max(atom.low or 0, min(atom.high or 0, TYPICAL_SIZE))
    return evaluate(expr, values)


def as_int(expr: IntExpr) -> int:
    """Returns the value of a constant expression; raises SymbolicSizeError for a symbolic one."""
    if isinstance(expr, Dim):
        raise SymbolicSizeError(f"the size {expr} is symbolic; a constant is needed here")
    return int(expr)


def _exact_quotient(expr: IntExpr, divisor: int) -> tuple[IntExpr, IntExpr]:
    """Splits ``expr`` into (terms whose coefficient divides, divided) and the rest."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mono, coef in terms_of(expr):
        if mono and coef % divisor:
            rest[mono] = coef
        else:
            whole[mono], rest[mono] = divmod(coef, divisor)
    return from_terms(whole), from_terms(rest)


def floordiv(left: IntExpr, right: IntExpr) -> IntExpr:
    """``left // right``, rounding to minus infinity. A zero divisor raises ZeroDivisionError."""
    if not isinstance(right, Dim):
        if not isinstance(left, Dim):
            return left // right
        if right == 1:
            return left
        if right > 0:
            whole, rest = _exact_quotient(left, right)
            if not isinstance(rest, Dim):
                return whole + rest // right
            if whole != 0:
                return whole + of_atom(FloorDiv(rest, right))
    if left == right:
        return 1
    if not isinstance(left, Dim) and left == 0:
        return 0
    return of_atom(FloorDiv(left, right))


def mod(left: IntExpr, right: IntExpr) -> IntExpr:
    """``left % right`` with the sign of the divisor."""
    if not isinstance(right, Dim):
        if not isinstance(left, Dim):
            return left % right
        if right == 1:
            return 0
        if right > 0:
            _, rest = _exact_quotient(left, right)
            if not isinstance(rest, Dim):
                return rest % right
            left = rest
    if left == right or (not isinstance(left, Dim) and left == 0):
        return 0
    return of_atom(Mod(left, right))


def ceildiv(left: IntExpr, right: IntExpr) -> IntExpr:
    """``left / right`` rounded up, for a positive divisor."""
    return floordiv(left + right - 1, right)


def int_min(left: IntExpr, right: IntExpr) -> IntExpr:
    """Returns the lesser of two; stays an atom when which one it is depends on a symbol."""
    difference = left - right
    if not isinstance(difference, Dim):
        return left if difference <= 0 else right
    return of_atom(Min(*sorted((left, right), key=str)))


def int_max(left: IntExpr, right: IntExpr) -> IntExpr:
    """Returns the greater of two; stays an atom when which one it is depends on a symbol."""
    difference = left - right
    if not isinstance(difference, Dim):
        return left if difference >= 0 else right
    return of_atom(Max(*sorted((left, right), key=str)))


_MAKE: dict[type, Callable[[IntExpr, IntExpr], IntExpr]] = {
    FloorDiv: floordiv,
    Mod: mod,
    Min: int_min,
    Max: int_max,
}


def product(sizes: Iterable[IntExpr]) -> IntExpr:
    """Returns the product of sizes; of none, 1."""
    total: IntExpr = 1
    for size in sizes:
        total = total * size
    return total


def substitute(expr: IntExpr, values: Mapping[str, IntExpr]) -> IntExpr:
    """``expr`` with each symbol named in ``values`` replaced, in normal form again."""
    if not isinstance(expr, Dim):
        return expr
    gathered: dict[Monomial, int] = {}
    for mono, coef in expr.terms:
        factor: IntExpr = 1
        for atom in mono:
            factor = factor * _substitute_atom(atom, values)
        for part, scale in terms_of(factor):
            gathered[part] = gathered.get(part, 0) + coef * scale
    return from_terms(gathered)


def _substitute_atom(atom: Atom, values: Mapping[str, IntExpr]) -> IntExpr:
    if isinstance(atom, Symbol):
        return values[atom.name] if atom.name in values else of_atom(atom)
    left, right = substitute(atom.left, values), substitute(atom.right, values)
    return _MAKE[type(atom)](left, right)


def evaluate(expr: IntExpr, values: Mapping[str, int]) -> int:
    """The value of ``expr`` where every symbol has one; KeyError names a symbol that has none."""
    if not isinstance(expr, Dim):
        return expr
    total = 0
    for mono, value in expr.terms:
        for atom in mono:
            if isinstance(atom, Symbol):
                value *= values[atom.name]
            else:
                sides = evaluate(atom.left, values), evaluate(atom.right, values)
                value *= as_int(_MAKE[type(atom)](*sides))
        total += value
    return int(total)


def symbols(expr: IntExpr) -> frozenset[str]:
    """Returns the names of the symbols in ``expr``."""
    if not isinstance(expr, Dim):
        return frozenset()
    names: set[str] = set()
    for mono, _ in expr.terms:
        for atom in mono:
            if isinstance(atom, Symbol):
                names.add(atom.name)
            else:
                names |= symbols(atom.left) | symbols(atom.right)
    return frozenset(names)


def linear(expr: IntExpr) -> tuple[dict[str, int], int] | None:
    """``expr`` as (coefficient of each symbol, constant), or None if it is not linear in symbols.

    >>> linear(3 * symbol("i") + 2)
    ({'i': 3}, 2)
    """
    coefficients: dict[str, int] = {}
    constant = 0
    for mono, coef in terms_of(expr):
        if not mono:
            constant = coef
        elif len(mono) == 1 and isinstance(mono[0], Symbol):
            coefficients[mono[0].name] = coef
        else:
            return None
    return coefficients, constant


def bounds(expr: IntExpr, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Least and greatest value (both inclusive) where each symbol lies in its inclusive range, that
    of ``ranges`` or its own.

    None if a symbol has no range. The bounds hold; they need not be reached.
    """
    if not isinstance(expr, Dim):
        return expr, expr
    low = high = 0
    for mono, coef in expr.terms:
        lo = hi = 1
        for atom in mono:
            inside = _atom_bounds(atom, ranges)
            if inside is None:
                return None
            corners = [lo * inside[0], lo * inside[1], hi * inside[0], hi * inside[1]]
            lo, hi = min(corners), max(corners)
        low += coef * (lo if coef > 0 else hi)
        high += coef * (hi if coef > 0 else lo)
    return low, high


def resolve(expr: IntExpr, ranges: Mapping[str, tuple[int, int]]) -> IntExpr:
    """``expr`` with every division, remainder, min and max that the ranges decide worked out.

    >>> i, j = symbol("i"), symbol("j")
    >>> str(resolve(floordiv(i * 8 + j, 8), {"i": (0, 3), "j": (0, 7)}))
    'i'
    >>> str(resolve(floordiv(i * 8 + j, 16), {"i": (0, 3), "j": (0, 7)}))
    '(i // 2)'
    """
    if not isinstance(expr, Dim) or all(
        isinstance(atom, Symbol) for mono, _ in expr.terms for atom in mono
    ):
        return expr
    parts: list[tuple[IntExpr, int]] = []
    for mono, coef in expr.terms:
        factor: IntExpr = 1
        for atom in mono:
            factor = factor * _resolve_atom(atom, ranges)
        parts.append((factor, coef))
    return _sum(parts)


def _resolve_atom(atom: Atom, ranges: Mapping[str, tuple[int, int]]) -> IntExpr:
    if isinstance(atom, Symbol):
        return of_atom(atom)
    left, right = resolve(atom.left, ranges), resolve(atom.right, ranges)
    if isinstance(atom, FloorDiv | Mod):
        inside = bounds(left, ranges)
        if isinstance(right, int) and right > 0 and inside is not None:
            quotient = inside[0] // right
            if quotient == inside[1] // right:
                return quotient if isinstance(atom, FloorDiv) else left - quotient * right
            if isinstance(atom, FloorDiv) and isinstance(left, Dim):
                shorter = _without_rest(left, right, ranges)
                if shorter is not None:
                    return shorter
    else:
        difference = bounds(left - right, ranges)
        if difference is not None and (difference[1] <= 0 or difference[0] >= 0):
            smaller, greater = (left, right) if difference[1] <= 0 else (right, left)
            return smaller if isinstance(atom, Min) else greater
    return _MAKE[type(atom)](left, right)


def _without_rest(left: Dim, right: int, ranges: Mapping[str, tuple[int, int]]) -> IntExpr | None:
    """``(step * q + rest) // right`` as ``q // (right // step)``, if ``step`` divides ``right`` and
    the rest is known to be less than ``step``; None if there is no such step."""
    steps = {abs(coef) for mono, coef in left.terms if mono and right % coef == 0}
    for step in sorted(steps - {1, right}, reverse=True):
        whole = {mono: coef // step for mono, coef in left.terms if mono and coef % step == 0}
        rest = from_terms({mono: coef for mono, coef in left.terms if mono not in whole})
        inside = bounds(rest, ranges)
        if inside is not None and inside[0] >= 0 and inside[1] < step:
            return floordiv(from_terms(whole), right // step)
    return None


def _atom_bounds(atom: Atom, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    if isinstance(atom, Symbol):
        return ranges.get(atom.name) or atom.range
    left, right = bounds(atom.left, ranges), bounds(atom.right, ranges)
    if left is None or right is None:
        return None
    if isinstance(atom, Min):
        return min(left[0], right[0]), min(left[1], right[1])
    if isinstance(atom, Max):
        return max(left[0], right[0]), max(left[1], right[1])
    if right[0] <= 0:
        return None
    if isinstance(atom, FloorDiv):
        corners = [a // b for a in left for b in right]
        return min(corners), max(corners)
    if right[0] == right[1] and left[0] // right[0] == left[1] // right[0]:
        return left[0] % right[0], left[1] % right[0]
    return 0, right[1] - 1


RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The relations of numbers, by the symbol that writes each."""

NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The relation that holds where another does not."""

SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The relation that holds with the operands the other way round."""

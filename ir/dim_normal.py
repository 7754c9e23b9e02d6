"""A normal form of integer expressions that knows ranges: fewer kinds of atoms, more equalities.

::

    a % b            a - b * (a // b)
    min(a, b)        b + ramp(a - b)              where ramp(x) = min(x, 0)
    max(a, b)        a - ramp(a - b)
    (a // b) // c    a // (b * c)                 for c > 0, and (a // b + k) // c likewise
    (k * b + a) // b k + a // b                   for polynomials b as well
    (g * a) // (g * b)                  a // b
    (-a) // b        -((a + b - 1) // b)          for b > 0, if the first coefficient is negative
    (g * a + r) // (g * b)              a // b    for r in [0, g)
    ramp(g * x)      g * ramp(x)                  for g > 0
    ramp(-x)         ramp(x) - x                  if the first coefficient is negative

So of the atoms, symbols, quotients and ramps remain. It costs more than ``dims``' normal form, by
which sizes are stored and compared; ``dim_proofs`` uses it. Every rule holds wherever both sides
are defined: a divisor is taken not to be zero.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from . import dims
from .dims import Atom, Dim, FloorDiv, IntExpr, Min, Monomial, Symbol, from_terms, of_atom, terms_of

End: TypeAlias = int | float
"""An end of an interval: an integer, or an infinity."""

Facts: TypeAlias = Sequence[IntExpr]
"""Expressions that are at least 0."""

INFINITY = math.inf


def replace_atoms(expr: IntExpr, values: Mapping[Atom, IntExpr], facts: Facts = ()) -> IntExpr:
    """The normal form of ``expr`` with some atoms replaced, where ``facts`` are at least 0: over
    symbols, quotients and ramps.

    >>> from .dims import floordiv, mod, size
    >>> n = size("n")
    >>> str(replace_atoms(floordiv(n, 4) * 4 + mod(n, 4), {}))
    'n'
    """
    total: IntExpr = 0
    for mono, coef in terms_of(expr):
        factor: IntExpr = coef
        for atom in mono:
            factor = factor * _replaced(atom, values, facts)
        total = total + factor
    return total


def _replaced(atom: Atom, values: Mapping[Atom, IntExpr], facts: Facts) -> IntExpr:
    if atom in values:
        return values[atom]
    if isinstance(atom, Symbol):
        return atom.low if atom.low is not None and atom.low == atom.high else of_atom(atom)
    left = replace_atoms(atom.left, values, facts)
    right = replace_atoms(atom.right, values, facts)
    if isinstance(atom, FloorDiv):
        return quotient(left, right, facts)
    if isinstance(atom, dims.Mod):
        return left - right * quotient(left, right, facts)
    if isinstance(atom, dims.Max):
        return left - ramp(left - right, facts)
    return right + ramp(left - right, facts)


# -- Ramps ----------------------------------------------------------------------------------------


def ramp(x: IntExpr, facts: Facts) -> IntExpr:
    """``min(x, 0)``."""
    low, high = interval(x, facts)
    if high <= 0 or low >= 0:
        return x if high <= 0 else 0
    terms = terms_of(x)
    content = math.gcd(*(coef for _, coef in terms))
    common = tuple(a for a in _common([mono for mono, _ in terms]) if interval(of_atom(a))[0] >= 0)
    if content > 1 or common:
        factor = from_terms({common: content})
        return factor * ramp(_divided(x, common, content), facts)
    if _leading(x) < 0:
        return x + ramp(-x, facts)
    return of_atom(Min(x, 0))


# -- Quotients ------------------------------------------------------------------------------------


def quotient(a: IntExpr, b: IntExpr, facts: Facts) -> IntExpr:
    """``a // b``, where ``b`` is not zero; raises ZeroDivisionError for a constant zero."""
    if not isinstance(b, Dim):
        if b == 0:
            raise ZeroDivisionError
        if not isinstance(a, Dim):
            return a // b
        return _by_constant(a, b, facts) if b > 0 else _by_constant(-a, -b, facts)
    low, high = interval(b, facts)
    if low == high == 0:
        raise ZeroDivisionError
    common = _common([mono for mono, _ in (*terms_of(a), *terms_of(b))])
    content = math.gcd(*(coef for _, coef in (*terms_of(a), *terms_of(b))))
    if content > 1 or common:
        return quotient(_divided(a, common, content), _divided(b, common, content), facts)
    assert isinstance(b, Dim)
    if max(b.terms, key=_degree)[1] < 0:
        a, b = -a, -b
        assert isinstance(b, Dim)
        low, high = -high, -low
    whole, a = _polynomial_quotient(a, b)
    return whole + _proper(a, b, facts, positive=low >= 0)


def _by_constant(a: IntExpr, b: int, facts: Facts) -> IntExpr:
    whole, a = _nearest(a, b)
    terms = dict(terms_of(a))
    constant = terms.pop((), 0)
    common = math.gcd(b, *terms.values())
    if common > 1:
        shorter = _divided(a - constant, (), common) + constant // common
        return whole + quotient(shorter, b // common, facts)
    return whole + _proper(a, b, facts, positive=True)


def _nearest(a: IntExpr, b: int) -> tuple[IntExpr, IntExpr]:
    """``whole`` and ``rest`` with ``a == whole * b + rest``, by coefficients nearest to zero: so
    -n and 7 * n, over 8, become the same up to the sign. The constant is in 0 to b - 1."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mono, coef in terms_of(a):
        residue = coef % b
        if mono and 2 * residue > b:
            residue -= b
        whole[mono], rest[mono] = (coef - residue) // b, residue
    return from_terms(whole), from_terms(rest)


def _proper(a: IntExpr, b: IntExpr, facts: Facts, positive: bool) -> IntExpr:
    """``a // b`` where no multiple of ``b`` stands in ``a``."""
    if a == 0:
        return 0
    if positive:
        low, high = interval(a, facts)
        least = max(interval(b, facts)[0], 1)
        if not isinstance(b, Dim) and low // b == high // b and low > -INFINITY:
            return int(low // b)
        if low >= 0 and (high < least or interval(a - b, facts)[1] < 0):
            return 0
        if high < 0 and (-low <= least or interval(a + b, facts)[0] >= 0):
            return -1
        folded = _folded(a, b, facts)
        if folded is not None:
            return folded
        if _leading(a) < 0:
            whole, rest = _polynomial_quotient(-a + b - 1, b)
            if _leading(rest) > 0:
                return -whole - _proper(rest, b, facts, positive)
        shorter = _without_rest(a, b, facts)
        if shorter is not None:
            return shorter
    return of_atom(FloorDiv(a, b))


def _folded(a: IntExpr, b: IntExpr, facts: Facts) -> IntExpr | None:
    """``(s + u // v) // b`` as ``(s * v + u) // (v * b)``; of ``s - u // v`` changes sign first."""
    for sign in (1, -1):
        for mono, coef in terms_of(a):
            if len(mono) == 1 and isinstance(mono[0], FloorDiv) and coef == sign:
                inner = mono[0]
                rest = a - sign * of_atom(inner)
                parts = (rest, b, inner.left, inner.right)
                divisors_vary = isinstance(b, Dim) or isinstance(inner.right, Dim)
                if divisors_vary and not all(map(_is_polynomial, parts)):
                    continue  # the products would grow with each step
                if sign < 0:
                    return -quotient(-a + b - 1, b, facts)
                return quotient(rest * inner.right + inner.left, inner.right * b, facts)
    return None


def _is_polynomial(expr: IntExpr) -> bool:
    return all(isinstance(atom, Symbol) for mono, _ in terms_of(expr) for atom in mono)


def _without_rest(a: IntExpr, b: IntExpr, facts: Facts) -> IntExpr | None:
    """``(g * q + rest) // (g * d)`` as ``(q + k) // d``, where ``rest - k * g`` is in [0, g)."""
    mono_b = _common([mono for mono, _ in terms_of(b)])
    content = math.gcd(*(coef for _, coef in terms_of(b)))
    steps: set[tuple[Monomial, int]] = set()
    for mono, coef in terms_of(a):
        if mono:
            shared = _common([mono, mono_b])
            if all(interval(of_atom(atom))[0] >= 0 for atom in shared):
                steps.add((shared, math.gcd(coef, content)))
    for shared, scale in sorted(steps - {((), 1)}, key=lambda step: (-len(step[0]), -step[1])):
        whole = from_terms(
            {m: c for m, c in terms_of(a) if c % scale == 0 and _without(m, shared) is not None}
        )
        rest = a - whole
        step = from_terms({shared: scale})
        low, high = interval(rest, facts)
        shift = 0
        if not isinstance(step, Dim) and abs(low) < INFINITY and low // step == high // step:
            shift = int(low // step)
        elif not (low >= 0 and interval(rest - step, facts)[1] < 0):
            continue
        return quotient(_divided(whole, shared, scale) + shift, _divided(b, shared, scale), facts)
    return None


def _polynomial_quotient(a: IntExpr, b: IntExpr) -> tuple[IntExpr, IntExpr]:
    """Multivariate long division: ``whole`` and ``rest`` with ``a == whole * b + rest``, where no
    monomial of ``rest`` is a multiple of the greatest one of ``b`` with as large a coefficient."""
    if not isinstance(b, Dim):
        return _nearest(a, b)
    lead, scale = max(b.terms, key=_degree)
    whole: IntExpr = 0
    done: dict[Monomial, int] = {}
    while isinstance(a, Dim):
        mono, coef = max(a.terms, key=_degree)
        factor = _without(mono, lead)
        times = coef // scale
        if factor is None or times == 0:
            done[mono] = coef
            a = a - from_terms({mono: coef})
            continue
        step = from_terms({factor: times})
        whole, a = whole + step, a - step * b
        if mono in dict(terms_of(a)):  # the remainder of the coefficient
            left = dict(terms_of(a))[mono]
            done[mono] = left
            a = a - from_terms({mono: left})
    return whole, from_terms(done) + a


def _degree(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    return len(term[0]), [dims.atom_text(atom) for atom in term[0]]


def _leading(expr: IntExpr) -> int:
    """The coefficient that decides about the sign of a normal form: of the first monomial."""
    return next((coef for mono, coef in terms_of(expr) if mono), 1)


# -- Monomials ------------------------------------------------------------------------------------


def _common(monos: list[Monomial]) -> Monomial:
    """The atoms that every monomial has."""
    if not monos:
        return ()
    shared = Counter(monos[0])
    for mono in monos[1:]:
        shared &= Counter(mono)
    return tuple(atom for atom in dict.fromkeys(monos[0]) for _ in range(shared[atom]))


def _without(mono: Monomial, factor: Monomial) -> Monomial | None:
    """``mono / factor``, None if it does not divide."""
    rest = list(mono)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _divided(expr: IntExpr, factor: Monomial, content: int) -> IntExpr:
    quotients: dict[Monomial, int] = {}
    for mono, coef in terms_of(expr):
        rest = _without(mono, factor)
        assert rest is not None and coef % content == 0
        quotients[rest] = coef // content
    return from_terms(quotients)


# -- Intervals ------------------------------------------------------------------------------------


def interval(expr: IntExpr, facts: Facts = ()) -> tuple[End, End]:
    """Least and greatest value of a normal form where all ``facts`` are at least 0; an end that is
    not known is infinite."""
    low, high = _interval(expr)
    if isinstance(expr, Dim):
        for fact in facts:
            low = max(low, _interval(expr - fact)[0])
            high = min(high, _interval(expr + fact)[1])
    return low, high


def _interval(expr: IntExpr) -> tuple[End, End]:
    low: End = 0
    high: End = 0
    for mono, coef in terms_of(expr):
        lo: End = 1
        hi: End = 1
        for atom, power in Counter(mono).items():
            inside = _atom_interval(atom)
            for _ in range(power // 2):
                ends = [_times(end, end) for end in inside]
                least = 0 if inside[0] < 0 < inside[1] else min(ends)
                lo, hi = _product((lo, hi), (least, max(ends)))
            if power % 2:
                lo, hi = _product((lo, hi), inside)
        lo, hi = _product((lo, hi), (coef, coef))
        low, high = _plus(low, lo), _plus(high, hi)
    return low, high


def _atom_interval(atom: Atom) -> tuple[End, End]:
    if isinstance(atom, Symbol):
        return (
            -INFINITY if atom.low is None else atom.low,
            INFINITY if atom.high is None else atom.high,
        )
    if isinstance(atom, Min):
        low, high = interval(atom.left)
        return min(low, 0), min(high, 0)
    assert isinstance(atom, FloorDiv)
    low, high = interval(atom.left)
    least, most = interval(atom.right)
    if most <= 0:
        (low, high), (least, most) = (-high, -low), (-most, -least)
    if least < 0:  # a divisor of unknown sign makes nothing greater
        reach = max(abs(low), abs(high))
        return -reach, reach
    least = max(least, 1)
    return (
        _floor(low, most if low >= 0 else least),
        _floor(high, least if high >= 0 else most),
    )


def _floor(a: End, b: End) -> End:
    if abs(a) == INFINITY:
        return a
    if b == INFINITY:
        return 0 if a >= 0 else -1
    return a // b


def _product(a: tuple[End, End], b: tuple[End, End]) -> tuple[End, End]:
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _times(a: End, b: End) -> End:
    if not a or not b:
        return 0
    if abs(a) == INFINITY or abs(b) == INFINITY:
        return INFINITY if (a > 0) == (b > 0) else -INFINITY
    return a * b


def _plus(a: End, b: End) -> End:
    for end in (a, b):
        if abs(end) == INFINITY:
            return end  # an integer may be too great for a float
    return a + b

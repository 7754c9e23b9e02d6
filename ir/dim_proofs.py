"""Proofs about integer expressions: does a relation hold for all values of its symbols?

``prove`` brings both sides into the normal form of ``dim_normal``. What is not decided by it or by
intervals is refuted: the relation's contrary, with all that is known of the atoms, must lead to a
contradiction of linear inequalities over monomials. Products of two inequalities are inequalities
as well. Ramps, and the remainders of symbols by small constants, are decided case by case.

A statement holds if it does wherever both of its sides are defined: no divisor is zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations, combinations_with_replacement, product
from typing import TypeAlias

from . import dims
from .dim_normal import INFINITY, Facts, interval, replace_atoms
from .inequalities import ONE, contradict

Fact: TypeAlias = tuple[dims.IntExpr, str, dims.IntExpr]
"""``left relation right``; relations are ``==``, ``!=``, ``<``, ``<=``, ``>`` and ``>=``."""

Ranges: TypeAlias = Mapping[str, tuple[dims.IntExpr, dims.IntExpr]]

MOST_CASES = 128
"""Remainders, or combinations of them, that are tried one by one."""

MOST_RAMPS = 8
"""Nested decisions between the two sides of a minimum or a maximum."""

MOST_REFUTATIONS = 150
"""Systems of inequalities that one proof may try."""

SAMPLES = (0, 1, 2, 3, 5, 7, 8, 12, 15, 16, 17, 64, 99, 1000, -1, -2, -7, -64)
"""Values of symbols at which a relation is tried before a proof is sought."""

TRIALS = 40
"""Combinations of them."""


def prove(
    left: dims.IntExpr,
    relation: str,
    right: dims.IntExpr,
    ranges: Ranges | None = None,
    given: Iterable[Fact] = (),
) -> bool | None:
    """True if ``left relation right`` holds for all values of the symbols, False if it holds for
    none, None if neither is proved.

    ``ranges`` has the inclusive range of symbols that don't state their own, as loop variables; its
    ends may be expressions. ``given`` are facts that may be used.

    >>> from .dims import floordiv, mod, size, symbol
    >>> n, i = size("n"), symbol("i")
    >>> prove(floordiv(n + 15, 16) * 16, ">=", n)
    True
    >>> prove(8 * floordiv(n, 8) + i, "<", n, {"i": (0, mod(n, 8) - 1)})
    True
    >>> prove(n, "==", 4), prove(n, "<", 0)
    (None, False)
    """
    difference = left - right
    if not isinstance(difference, dims.Dim):
        return _compare(difference, relation)
    if not given and not ranges:
        inside = dims.bounds(difference, {})
        if inside is not None:
            decided = _from_interval(inside, relation)
            if decided is not None:
                return decided
    return _prove(difference, relation, tuple((ranges or {}).items()), tuple(given))


def _compare(difference: int, relation: str) -> bool:
    match relation:
        case "==":
            return difference == 0
        case "!=":
            return difference != 0
        case "<":
            return difference < 0
        case "<=":
            return difference <= 0
        case ">":
            return difference > 0
        case ">=":
            return difference >= 0
        case _:
            raise ValueError(f"unknown relation {relation!r}")


def _from_interval(inside: tuple[int, int], relation: str) -> bool | None:
    low, high = inside
    if relation in ("==", "!="):
        return (relation == "!=") if low > 0 or high < 0 else None
    ends = {_compare(low, relation), _compare(high, relation)}
    return ends.pop() if len(ends) == 1 else None


@lru_cache(maxsize=8192)
def _prove(
    difference: dims.Dim,
    relation: str,
    ranges: tuple[tuple[str, tuple[dims.IntExpr, dims.IntExpr]], ...],
    given: tuple[Fact, ...],
) -> bool | None:
    try:
        goal, facts = _from_zero(difference, dict(ranges), given)
    except ZeroDivisionError:
        return None  # it is nowhere defined
    # What is true at one place and wrong at another needs no proof to be sought.
    outcomes = {_compare(value, relation) for value in _samples(goal, facts)}
    for outcome in (True, False):
        if not outcomes <= {outcome}:
            continue
        if _proved(goal, relation if outcome else dims.NEGATED[relation], facts):
            return outcome
    ends = chain.from_iterable(dict(ranges).values())
    values = {} if given else _whole_products(difference, *ends)
    if not values:
        return None
    inside = {n: (replace_atoms(a, values), replace_atoms(b, values)) for n, (a, b) in ranges}
    return prove(replace_atoms(difference, values), relation, 0, inside)


def _whole_products(*exprs: dims.IntExpr) -> dict[dims.Atom, dims.IntExpr]:
    """Values that make one size of each product of sizes which occur in no other one: what holds
    for all its values holds for all of theirs."""
    users: dict[dims.Atom, set[dims.Monomial]] = {}
    nested = (a for a in _atoms(*exprs) if not isinstance(a, dims.Symbol))
    for expr in (*exprs, *(side for a in nested for side in (a.left, a.right))):
        for mono, _ in dims.terms_of(expr):
            for atom in mono:
                users.setdefault(atom, set()).add(mono)
    values: dict[dims.Atom, dims.IntExpr] = {}
    for mono in {mono for used in users.values() for mono in used}:
        low = interval(replace_atoms(dims.from_terms({mono: 1}), {}))[0]
        alone = len({*mono}) == len(mono) > 1 and all(users[atom] == {mono} for atom in mono)
        if alone and low >= 0:
            name = " * ".join(map(dims.atom_text, mono))
            values |= {**dict.fromkeys(mono, 1), mono[0]: dims.of_atom(dims.Symbol(name, int(low)))}
    return values


def _proved(goal: dims.IntExpr, relation: str, facts: Facts) -> bool:
    """True if it is proved that ``goal relation 0``, where all ``facts`` are at least 0."""
    match relation:
        case "==":
            return goal == 0 or (_holds(goal, facts) and _holds(-goal, facts))
        case "!=":
            terms = dict(dims.terms_of(goal))
            constant = terms.pop((), 0)
            if constant and (not terms or constant % math.gcd(*terms.values())):
                return True
            return _holds(goal - 1, facts) or _holds(-goal - 1, facts)
        case _:
            at_least_0 = {">=": goal, ">": goal - 1, "<=": -goal, "<": -goal - 1}
            return _holds(at_least_0[relation], facts)


def _holds(goal: dims.IntExpr, facts: Facts) -> bool:
    return _Search().holds(goal, facts)


# -- The statement --------------------------------------------------------------------------------


def _from_zero(
    difference: dims.IntExpr, ranges: Ranges, given: Iterable[Fact]
) -> tuple[dims.IntExpr, list[dims.IntExpr]]:
    """The difference, and facts (each at least 0), in normal form over symbols that begin at 0, so
    that every product of symbols with a range is at least 0."""
    symbols = _symbols(difference)
    for left, _, right in given:
        symbols |= _symbols(left, right)
    symbols |= _symbols(*(end for ends in ranges.values() for end in ends))
    # A size is the same whether its range is stated where it is used or not.
    values: dict[dims.Atom, dims.IntExpr] = {}
    for name, atom in symbols.items():
        if name not in ranges:
            values[atom] = values[dims.Symbol(name)] = _ranged(name, atom.low, atom.high)
    facts: list[dims.IntExpr] = []
    for name, ends in ranges.items():  # in the order of the loops: ends stand before their users
        first, last = (replace_atoms(end, values) for end in ends)
        low, high = interval(first)[0], interval(last)[1]
        value = _ranged(
            name,
            int(low) if low > -INFINITY else None,
            int(high) if high < INFINITY else None,
        )
        values[symbols.get(name, dims.Symbol(name))] = values[dims.Symbol(name)] = value
        facts += [value - first] if isinstance(first, dims.Dim) else []
        facts += [last - value] if isinstance(last, dims.Dim) else []
    for left, relation, right in given:
        x = replace_atoms(left - right, values)
        as_facts = {">=": [x], ">": [x - 1], "<=": [-x], "<": [-x - 1]}
        facts += {**as_facts, "==": [x, -x], "!=": []}[relation]
    goal = replace_atoms(difference, values, facts)
    # Only now, as `n * (n + 1)` has no factor that shows once n is 1 + n'.
    shifted: dict[dims.Atom, dims.IntExpr] = {
        a: _shifted(a) for a in _atoms(goal, *facts) if isinstance(a, dims.Symbol)
    }
    facts = [replace_atoms(fact, shifted) for fact in facts]
    return replace_atoms(goal, shifted, facts), facts


def _ranged(name: str, low: int | None, high: int | None) -> dims.IntExpr:
    return low if low is not None and low == high else dims.of_atom(dims.Symbol(name, low, high))


def _shifted(atom: dims.Symbol) -> dims.IntExpr:
    if atom.low is not None:
        high = None if atom.high is None else atom.high - atom.low
        return atom.low + dims.of_atom(dims.Symbol(atom.name, 0, high))
    return (
        dims.of_atom(atom)
        if atom.high is None
        else atom.high - dims.of_atom(dims.Symbol(atom.name, 0))
    )


def _symbols(*exprs: dims.IntExpr) -> dict[str, dims.Symbol]:
    """The symbols by name; of a size, that with the range."""
    symbols = [atom for atom in _atoms(*exprs) if isinstance(atom, dims.Symbol)]
    return {atom.name: atom for atom in sorted(symbols, key=lambda atom: atom.low is not None)}


def _atoms(*exprs: dims.IntExpr) -> dict[dims.Atom, None]:
    """All atoms of some expressions, those inside of an atom before it."""
    atoms: dict[dims.Atom, None] = {}
    for expr in exprs:
        for mono, _ in dims.terms_of(expr):
            for atom in mono:
                if atom not in atoms:
                    if not isinstance(atom, dims.Symbol):
                        atoms.update(_atoms(atom.left, atom.right))
                    atoms[atom] = None
    return atoms


def _samples(goal: dims.IntExpr, facts: Facts) -> Iterator[int]:
    """Values of ``goal`` at places where it is defined and all facts are true."""
    symbols = [atom for atom in _atoms(goal, *facts) if isinstance(atom, dims.Symbol)]
    choices: list[list[int]] = []
    for atom in symbols:
        high = INFINITY if atom.high is None else atom.high
        ends = [] if atom.high is None else [atom.high, atom.high - 1]
        values = [*SAMPLES, *ends]
        choices.append([v for v in values if atom.low is None or atom.low <= v <= high] or [0])
    for trial in range(TRIALS if symbols else 1):
        # Steps that are coprime to the numbers of choices give different pairs each time.
        place: dict[dims.Atom, int] = {
            atom: values[(trial * (2 * i + 1) + trial // len(values) * i) % len(values)]
            for i, (atom, values) in enumerate(zip(symbols, choices, strict=True))
        }
        try:
            if all(_value(fact, place) >= 0 for fact in facts):
                yield _value(goal, place)
        except ZeroDivisionError:
            continue


def _value(expr: dims.IntExpr, place: Mapping[dims.Atom, int]) -> int:
    """The value of a normal form."""
    total = 0
    for mono, coef in dims.terms_of(expr):
        for atom in mono:
            if isinstance(atom, dims.FloorDiv):
                coef *= _value(atom.left, place) // _value(atom.right, place)
            elif isinstance(atom, dims.Min):
                coef *= min(_value(atom.left, place), 0)
            else:
                coef *= place[atom]
        total += coef
    return total


# -- The proof ------------------------------------------------------------------------------------


class _Search:
    """A proof that is sought, case by case, with a limited number of refutations."""

    def __init__(self) -> None:
        self.left = MOST_REFUTATIONS

    def holds(
        self,
        goal: dims.IntExpr,
        facts: Facts,
        ramps: int = MOST_RAMPS,
        remainders: bool = True,
    ) -> bool:
        """True if it is proved that ``goal >= 0`` where all ``facts`` are at least 0."""
        self.left -= 1
        if self.left < 0:
            return False
        if interval(goal, facts)[0] >= 0 or _refuted([-goal - 1, *facts]):
            return True
        atoms = _atoms(goal, *facts)
        ramp = next((atom for atom in atoms if isinstance(atom, dims.Min)), None)
        if ramp is not None:
            x = ramp.left
            sides: tuple[tuple[dims.IntExpr, dims.IntExpr], ...] = ((x, -x), (0, x - 1))
            return ramps > 0 and all(
                self._holds_with({ramp: value}, goal, [*facts, side], ramps - 1, remainders)
                for value, side in sides
            )
        divisors = _divisors(atoms)
        if not remainders or not 1 < math.prod(divisors.values()) <= MOST_CASES:
            return False
        for rests in product(*(range(divisor) for divisor in divisors.values())):
            values: dict[dims.Atom, dims.IntExpr] = {}
            for (atom, divisor), rest in zip(divisors.items(), rests, strict=True):
                high = None if atom.high is None else (atom.high - rest) // divisor
                if high is not None and high < 0:
                    break  # a remainder that no value has
                values[atom] = divisor * dims.of_atom(dims.Symbol(atom.name, atom.low, high)) + rest
            else:
                if not self._holds_with(values, goal, facts, 0, False):
                    return False
        return True

    def _holds_with(
        self,
        values: dict[dims.Atom, dims.IntExpr],
        goal: dims.IntExpr,
        facts: Facts,
        ramps: int,
        remainders: bool,
    ) -> bool:
        try:
            facts = [replace_atoms(fact, values) for fact in facts]
            goal = replace_atoms(goal, values, facts)
        except ZeroDivisionError:
            return True  # it is not defined there
        return self.holds(goal, facts, ramps, remainders)


def _divisors(atoms: Iterable[dims.Atom]) -> dict[dims.Symbol, int]:
    """Returns, by symbol, the least common multiple of the constants by which it is divided."""
    divisors: dict[dims.Symbol, int] = {}
    for atom in atoms:
        if isinstance(atom, dims.FloorDiv) and isinstance(atom.right, int):
            for inner in _atoms(atom.left):
                if isinstance(inner, dims.Symbol):
                    divisors[inner] = math.lcm(divisors.get(inner, 1), atom.right)
    return divisors


def _refuted(exprs: Facts) -> bool:
    """True if it is proved that not all of ``exprs`` are at least 0."""
    # What is known of each atom, until it brings no further atoms.
    rows = [expr for expr in exprs if isinstance(expr, dims.Dim) or expr < 0]
    atoms: dict[dims.Atom, None] = {}
    done = 0
    while done < len(rows):
        new = [a for mono, _ in dims.terms_of(rows[done]) for a in mono if a not in atoms]
        done += 1
        for atom in dict.fromkeys(new):
            atoms[atom] = None
            rows += _known(atom)
    monomials = dict.fromkeys(mono for row in rows for mono, _ in dims.terms_of(row))
    if any(len(mono) > 1 for mono in monomials):
        rows += [*_products(exprs, rows, atoms, monomials), *_powers(rows, monomials)]
        monomials = dict.fromkeys(mono for row in rows for mono, _ in dims.terms_of(row))
    for mono in monomials:
        low, high = interval(dims.Dim(((mono, 1),))) if mono else (0, 0)
        expr = dims.Dim(((mono, 1),)) if mono else 0
        rows += [expr - int(low)] if mono and low > -INFINITY else []
        rows += [int(high) - expr] if mono and high < INFINITY else []
    return contradict({mono or ONE: coef for mono, coef in dims.terms_of(row)} for row in rows)


def _known(atom: dims.Atom) -> list[dims.IntExpr]:
    """Expressions over an atom that are at least 0."""
    value = dims.of_atom(atom)
    if isinstance(atom, dims.Min):
        return [-value, atom.left - value]
    if isinstance(atom, dims.FloorDiv):
        remainder = atom.left - atom.right * value
        low, high = interval(atom.right)
        if low >= 0:
            return [remainder, atom.right - 1 - remainder]
        if high <= 0:
            return [-remainder, remainder - atom.right - 1]
    return []


def _products(
    assumed: Sequence[dims.IntExpr],
    rows: Sequence[dims.IntExpr],
    atoms: Iterable[dims.Atom],
    monomials: Iterable[dims.Monomial],
) -> Iterator[dims.IntExpr]:
    """Products of two expressions that are at least 0, as far as they have known monomials; those
    of what is assumed with an atom in any case."""
    positive = [dims.of_atom(atom) for atom in atoms if interval(dims.of_atom(atom))[0] >= 0]
    for row in assumed:
        yield from (row * factor for factor in positive if isinstance(row, dims.Dim))
    for row, factor in combinations_with_replacement([*rows, *positive], 2):
        if isinstance(row, dims.Dim) and isinstance(factor, dims.Dim):
            result = row * factor
            if all(mono in monomials or not mono for mono, _ in dims.terms_of(result)):
                yield result


def _powers(
    rows: Sequence[dims.IntExpr], monomials: Iterable[dims.Monomial]
) -> Iterator[dims.IntExpr]:
    """Squares of integers, and of their differences, as far as they have known monomials; where
    ``a`` is at least 0, ``a * a * b - a * b`` is, if ``b`` is."""
    atoms = {atom for mono in monomials for atom in mono if mono.count(atom) > 1}
    values = {atom: dims.of_atom(atom) for atom in sorted(atoms, key=dims.atom_text)}
    for atom, x in values.items():
        yield from (x * x - x, x * x + x)
        for row in rows:  # a * x * x + b * x + c has its least value at -b / 2 * a
            terms = dict(dims.terms_of(row))
            least = -terms.get((atom,), 0) // (2 * terms.get((atom, atom), 0) or 1)
            yield (x - least) * (x - least - 1)
            yield (x - least) * (x - least)
        for mono in monomials:
            if mono.count(atom) > 1:
                rest = list(mono)
                rest.remove(atom)
                if all(interval(dims.of_atom(a))[0] >= 0 for a in rest):
                    yield dims.from_terms({mono: 1, tuple(rest): -1})
    for a, b in combinations(values.values(), 2):
        for difference in (a - b, a + b):
            square = difference * difference
            if all(mono in monomials for mono, _ in dims.terms_of(square)):
                yield square

"""``einsum``: Einstein summation, lowered to diagonals, sums and contractions of two.

The order in which three or more operands are contracted is NumPy's greedy one where all sizes are
known, else from left to right.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr, typical
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import ANY, joined_size, same_dtype, shorts
from ..graph.types import TensorType
from ..traits import Trait
from .declare import attr, composite, in_float64
from .sampling import floats, ints, sample, truths


def _parse(equation: Any, xs: Sequence[TensorType]) -> tuple[list[str], str]:
    """One letter per axis for each operand, and for the result; ``...`` becomes letters too."""

    def refuse(why: str) -> LoopwrightValueError:
        return LoopwrightValueError(f"{equation!r} for {shorts(xs)}: {why}")

    if not isinstance(equation, str):
        raise LoopwrightValueError(f"the equation is a string, not {equation!r}")
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise refuse(f"it has {len(terms)} operands, {len(xs)} are given")
    unused = [c for c in reversed(string.ascii_letters) if c not in equation]
    named = [term.replace("...", "") for term in terms]
    hidden = [x.rank - len(letters) for x, letters in zip(xs, named, strict=True)]
    dots = "".join(unused[: max([0, *hidden])])
    for n, (term, x) in enumerate(zip(terms, xs, strict=True)):
        if hidden[n] < 0 or (hidden[n] > 0 and "..." not in term):
            raise refuse(f"{term!r} does not name the {x.rank} axes of operand {n}")
        terms[n] = term.replace("...", dots[len(dots) - hidden[n] :] if hidden[n] else "")
    joined = "".join(terms)
    if not arrow:
        result = dots + "".join(c for c in sorted(set(joined) - set(dots)) if joined.count(c) == 1)
    result = result.replace("...", dots)
    for letter in (*joined, *result):
        if letter not in string.ascii_letters:
            raise refuse(f"{letter!r} is not a letter")
    if len(set(result)) != len(result) or not set(result) <= set(joined):
        raise refuse("the result names an axis twice, or one that no operand has")
    return terms, result


def _sizes(equation: str, terms: Sequence[str], xs: Sequence[TensorType]) -> dict[str, IntExpr]:
    sizes: dict[str, IntExpr] = {}
    for letters, x in zip(terms, xs, strict=True):
        for letter, size in zip(letters, x.shape, strict=True):

            def refuse(left: IntExpr, right: IntExpr, letter: str = letter) -> LoopwrightTypeError:
                return LoopwrightTypeError(
                    f"{equation!r}: sizes of {letter} differ, {left} and {right}, in {shorts(xs)}"
                )

            sizes[letter] = joined_size(sizes.get(letter, 1), size, refuse)
    return sizes


def _order(
    terms: Sequence[str], result: str, sizes: Mapping[str, IntExpr]
) -> list[tuple[int, ...]]:
    """Positions of the operands to join at each step; the joined one goes to the end."""
    if len(terms) > 2:
        unique = ["".join(dict.fromkeys(letters)) for letters in terms]
        shapes = [tuple(typical(sizes[c]) for c in letters) for letters in unique]
        operands = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
        path, _ = np.einsum_path(f"{','.join(unique)}->{result}", *operands, optimize="greedy")
        return [tuple(step) for step in path[1:]]
    steps = range(len(terms) - 1)
    return [(0, 1) if n == 0 else (0, len(terms) - n - 1) for n in steps]


def _diagonal(x: Value, letters: str) -> tuple[Value, str]:
    """Replaces two axes of one letter by their diagonal, as the last axis."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = F.diagonal(x, axis1=first, axis2=second)
            letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + letter
    return x, letters


def _sum_away(x: Value, letters: str, kept: Collection[str]) -> tuple[Value, str]:
    axes = tuple(n for n, letter in enumerate(letters) if letter not in kept)
    if not axes:
        return x, letters
    reduce = F.any if x.dtype.is_bool else F.sum
    rest = "".join(letter for letter in letters if letter in kept)
    return reduce(x, axis=axes), rest


def _permuted(x: Value, letters: str, order: str) -> Value:
    if letters == order:
        return x
    return F.transpose(x, axes=tuple(letters.index(letter) for letter in order))


def _join(
    left: tuple[Value, str], right: tuple[Value, str], result: str, kept: set[str]
) -> tuple[Value, str]:
    """Returns the product of two operands, summed over the letters that no later step needs."""
    x, x_letters = _sum_away(*left, kept | set(right[1]))
    y, y_letters = _sum_away(*right, kept | set(x_letters))
    letters = dict.fromkeys(x_letters + y_letters)
    out = "".join(c for c in result if c in letters)
    out += "".join(c for c in letters if c in kept and c not in result)
    if set(letters) == set(out):
        aligned = (_aligned(x, x_letters, out), _aligned(y, y_letters, out))
        return aligned[0] * aligned[1], out
    return F.contract(x, y, equation=f"{x_letters},{y_letters}->{out}"), out


def _aligned(x: Value, letters: str, out: str) -> Value:
    """Returns the operand with axes in the order of ``out``, and size 1 for letters it lacks."""
    present = "".join(letter for letter in out if letter in letters)
    x = _permuted(x, letters, present)
    front = out.index(present[0]) if present else len(out)
    for axis, letter in enumerate(out):
        if letter not in present and axis >= front:
            x = F.expand_dims(x, axis=axis - front)
    return x


def _einsum_rule(*xs: TensorType, equation: Any) -> TensorType:
    dtype = same_dtype(xs)
    terms, result = _parse(equation, xs)
    sizes = _sizes(equation, terms, xs)
    return TensorType(tuple(sizes[letter] for letter in result), dtype)


def _einsum_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(equation: str, *shapes: tuple[int, ...], dtype: str = "float32") -> Sample:
        draw = ints if "int" in dtype else floats
        return sample(*(draw(rng, s, dtype) for s in shapes), equation=equation)

    return [
        drawn("ij,jk->ik", (5, 7), (7, 3)),
        drawn("ij,jk", (3, 4), (4, 2), dtype="float64"),
        drawn("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
        drawn("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
        drawn("i,j->ij", (3,), (5,)),
        drawn("i,i->", (9,), (9,)),
        drawn("bij,bj->bi", (2, 3, 4), (2, 4)),
        drawn("ii->i", (4, 4)),
        drawn("ii", (5, 5)),
        drawn("ijk->kj", (2, 3, 4), dtype="int64"),
        drawn("ij->", (3, 5)),
        drawn("ij,ij->ij", (3, 5), (1, 5)),
        drawn("ij,kl->jk", (3, 2), (4, 5), dtype="float64"),
        drawn("ij,jk,kl->il", (2, 7), (7, 3), (3, 4)),
        drawn("i,ij,j,j->i", (3,), (3, 4), (4,), (4,), dtype="float64"),
        drawn("aab,bc->ac", (3, 3, 2), (2, 4)),
        drawn("i...,j...->ij...", (2, 3), (4, 3), dtype="int8"),
        drawn("ij,jk->ik", (0, 3), (3, 2)),
        drawn(" , ->", (), ()),
        sample(truths(rng, (3, 4)), truths(rng, (4, 2)), equation="ij,jk->ik"),
    ]


@composite(
    "einsum",
    Pattern.CONTRACTION,
    traits=Trait.MULTILINEAR,
    dtypes=ANY,
    rule=_einsum_rule,
    reference=in_float64(lambda *xs, equation: np.einsum(equation, *xs)),
    samples=_einsum_samples,
)
def _einsum(
    *operands: Value, equation: Any = attr("letters of the axes, such as ij,jk->ik")
) -> Value:
    """Einstein summation, with the meaning of ``np.einsum``.

    Operands of one dtype, which is the result's. The equation names the axes by letters; ``...``
    stands for axes that are broadcast, a letter that occurs twice in an operand takes its diagonal,
    letters that are not in the result are summed over. LoopwrightTypeError where sizes or dtypes
    differ, LoopwrightValueError for an equation that does not fit the operands.

        fn (
          %q: Tensor[(2, 8, 9, 64), float32],
          %k: Tensor[(2, 8, 9, 64), float32]
        ) -> Tensor[(2, 8, 9, 9), float32] {
          einsum(%q, %k, equation="bhqd,bhkd->bhqk")
        }
    """
    types = [x.type for x in operands]
    terms, result = _parse(equation, types)
    sizes = _sizes(equation, terms, types)
    parts = [_diagonal(x, letters) for x, letters in zip(operands, terms, strict=True)]
    for chosen in _order(terms, result, sizes):
        taken = [parts.pop(n) for n in sorted(chosen, reverse=True)][::-1]
        joined = taken[0]
        for n, other in enumerate(taken[1:], 2):
            later = [letters for _, letters in (*parts, *taken[n:])]
            joined = _join(joined, other, result, set(result).union(*later))
        parts.append(joined)
    ((x, letters),) = parts
    x, letters = _sum_away(x, letters, set(result))
    return _permuted(x, letters, result)

"""Products that are put together of contractions: ``einsum`` and ``nn.grouped_matmul``.

Einstein summation is lowered to diagonals, sums and contractions of two. The order in which three
or more operands are contracted is NumPy's greedy one where all sizes are known, else from left to
right.

Rows in groups are multiplied each with the matrix of its group, as mixtures of experts need it.
The rows are sorted by group, and ``ends`` says behind which row each group ends. A native loop goes
over tiles of a few rows of one group, reads a matrix where it lies, and multiplies: the work is
that of all rows, however they are distributed. A tile that reaches into the next group is
overwritten by that group's own.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import IntExpr, typical
from ..dtype import INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value, cut, exchanged, looped, scalar
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import ANY, joined_size, require_equal, same_dtype, shorts
from ..graph.types import TensorType
from ..traits import Trait
from .declare import attr, composite, in_float64
from .sampling import floats, ints, sample, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step, Transposition


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


_TILES = ((64, 17), (8, 2), (1, 1))
"""Rows of tiles, and how many have to be left for another tile of that size. Few rows are limited
by reading the matrices, which tiles of one and of eight rows do at about the same speed; many by
arithmetic, which registers hold in tiles of 64."""


def _tiles(rows: IntExpr, transposed: bool) -> Sequence[tuple[int, int]]:
    """Returns the rows of a tile and the least that are left for it, in descending order."""
    return [
        (size, least)
        for size, least in _TILES
        if (not isinstance(rows, int) or least <= max(rows, 1)) and not (transposed and size == 8)
    ]


def _grouped_rule(a: TensorType, b: TensorType, ends: TensorType, transposed: bool) -> TensorType:
    dtype = same_dtype((a, b))
    given = shorts((a, b, ends))
    if not dtype.is_float or not ends.dtype.is_integer:
        raise LoopwrightTypeError(f"{given}: matrices are floats, and ends of groups integers")
    if a.rank != 2 or b.rank not in (2, 3) or ends.rank != 1 or (transposed and b.rank == 2):
        raise LoopwrightTypeError(
            f"{given}: a is a matrix, b a matrix or a stack of them, ends are a vector"
        )
    inner, columns = b.shape[-2:] if not transposed else b.shape[:-3:-1]
    error = LoopwrightTypeError(f"{given}: inner sizes differ, {a.shape[1]} and {inner}")
    require_equal(a.shape[1], inner, error)
    if b.rank == 2:
        return TensorType((ends.shape[0], a.shape[0], columns), dtype)
    error = LoopwrightTypeError(f"{given}: {b.shape[0]} matrices for {ends.shape[0]} groups")
    require_equal(b.shape[0], ends.shape[0], error)
    return TensorType((a.shape[0], columns), dtype)


def _grouped_reference(a: Any, b: Any, ends: Any, transposed: bool) -> Any:
    stacked = b.ndim == 3
    b = np.swapaxes(b, 1, 2) if transposed else b
    shape = (len(a), b.shape[2]) if stacked else (len(ends), len(a), b.shape[1])
    result = np.zeros(shape, a.dtype)
    begin = 0
    for n, given in enumerate(ends.tolist()):
        end = max(begin, min(given, len(a) if stacked else len(b)))
        if stacked:
            result[begin:end] = a[begin:end] @ b[n]
        else:
            result[n] = a[:, begin:end] @ b[begin:end]
        begin = end
    return result


def _grouped_tangent(step: Step) -> Value | None:
    a, b, ends = (step.x(n) for n in range(3))
    da, db = step.t(0), step.t(1)
    terms = [step.again(da, b, ends)] if da is not None else []
    terms += [step.again(a, db, ends)] if db is not None else []
    return terms[0] if len(terms) == 1 else terms[0] + terms[1] if terms else None


def _grouped_transpose(step: Transposition) -> None:
    (a, b, ends), ct = (step.x(n) for n in range(3)), step.ct
    transposed = step.attrs["transposed"]
    if step.linear[0] and b.rank == 3:
        step.add(0, F.nn.grouped_matmul(ct, b, ends, transposed=not transposed))
    elif step.linear[0]:
        step.add(0, exchanged(F.nn.grouped_matmul(b, ct, ends, transposed=True)))
    else:
        factors = (exchanged(ct), a) if transposed else (exchanged(a), ct)
        step.add(1, F.nn.grouped_matmul(*factors, ends))


def _grouped_samples(rng: np.random.Generator) -> list[Sample]:
    return [
        sample(floats(rng, a), floats(rng, b), np.array(ends, dtype), transposed=transposed)
        for a, b, ends, dtype, transposed in (
            ((9, 5), (4, 5, 3), [2, 2, 7, 9], "int32", False),  # a group without rows
            ((9, 5), (3, 7, 5), [0, 4, 6], "int64", True),  # rows of no group
            ((70, 4), (2, 4, 6), [1, 70], "int64", False),
            ((5, 3), (2, 3, 4), [9, 3], "int32", False),  # beyond the rows, in front of the last
            ((4, 9), (9, 3), [0, 5, 8], "int32", False),
            ((2, 150), (150, 3), [100, 100, 150], "int64", False),
            ((0, 3), (2, 3, 4), [0, 0], "int64", False),
        )
    ]


@composite(
    "nn.grouped_matmul",
    Pattern.OPAQUE,
    dtypes=ANY,
    traits=Trait.WIDENS,
    rule=_grouped_rule,
    reference=in_float64(_grouped_reference),
    tangent=_grouped_tangent,
    transpose=_grouped_transpose,
    samples=_grouped_samples,
)
def _grouped_matmul(
    a: Value,
    b: Value,
    ends: Value,
    *,
    transposed: bool = attr("True if the matrices of b are (n, k)", False),
) -> Value:
    """Products of groups of rows, each with a matrix of its own, as mixtures of experts need them.

    ``a`` (rows, k) and ``b`` (groups, k, n) of one float dtype give (rows, n): rows of ``a`` up to
    ``ends[0]`` are multiplied by ``b[0]``, those up to ``ends[1]`` by ``b[1]`` and so on, and rows
    behind the last end are zeros. With ``b`` (rows, n), ``a`` (k, rows) gives (groups, k, n): the
    products of the columns and rows of each group, which are the derivative. ``ends`` are integers;
    an end in front of an earlier one is taken as that, and one beyond the rows as their number.
    LoopwrightTypeError where shapes or dtypes do not fit.

        fn (
          %a: Tensor[(6, 4), float32],
          %b: Tensor[(3, 4, 5), float32],
          %ends: Tensor[(3), int64]
        ) -> Tensor[(6, 5), float32] {
          nn.grouped_matmul(%a, %b, %ends)
        }
    """
    stacked, builder, wide = b.rank == 3, ends.builder, a.dtype.computed.name
    axis, rows = (0, a.shape[0]) if stacked else (1, a.shape[1])
    tiles = _tiles(rows, transposed)
    behind = tiles[0][0]  # so that the last tile fits
    a = F.nn.pad(a, pad_width=((0, behind), (0, 0)) if stacked else ((0, 0), (0, behind)))
    if stacked:
        start = a.full((rows + behind, b.shape[1 if transposed else 2]), 0)
    else:
        b = F.nn.pad(b, pad_width=((0, behind), (0, 0)))
        start = F.cast(a.full((*ends.shape, a.shape[0], b.shape[1]), 0), dtype=wide)

    def window(x: Value, at: Value, axis: int, size: int) -> Value:
        return F.cast(F.dynamic_slice(x, at, axes=(axis,), sizes=(size,), strides=(1,)), dtype=wide)

    def product(out: Value, at: Value, size: int, matrix: Value, equation: str) -> Value:
        part, matrix = window(a, at, axis, size), F.cast(matrix, dtype=wide)
        made = F.cast(F.contract(part, matrix, equation=equation), dtype=out.dtype.name)
        where = {"begin": (0, 0), "strides": (1, 1), "sizes": made.shape}
        return F.index_update(out, made, at, starts=(0,), **where)

    def sum_of(out: Value, n: Value, at: Value, end: Value, size: int) -> Value:
        inside = F.less(at.iota((size, 1), 0), end - at)
        part = F.where(F.reshape(inside, newshape=(1, size)), window(a, at, axis, size), 0)
        made = F.nn.matmul(part, F.where(inside, window(b, at, 0, size), 0))
        return F.index_update(out, made, n, axes=(0,), reduction="add")

    def tiled(out: Value, n: Value, first: Value, end: Value, count: Value, size: int) -> Value:
        """Computes the tiles of ``size`` rows of a group from ``first`` on."""
        matrix: Value | None = None

        def step(t: Value, carried: Sequence[Value]) -> Sequence[Value]:
            number, begin, last = (Value(t.builder, each.atom) for each in (n, first, end))
            at = begin + t * size
            if not stacked:
                return [sum_of(carried[0], number, at, last, size)]
            if matrix is not None:
                here = Value(t.builder, matrix.atom)
                return [product(carried[0], at, size, here, "mk,kn->mn")]
            equation = "mk,nk->mn" if transposed else "mk,kn->mn"
            return [product(carried[0], at, size, F.take(b, number, axis=0), equation)]

        def group_of_many(some: Value, carried: Sequence[Value]) -> Sequence[Value]:
            nonlocal matrix
            number = Value(some.builder, n.atom)
            matrix = exchanged(F.take(b, number, axis=0))
            return looped(Value(some.builder, count.atom), carried, step)

        if transposed and size > 1:  # rows of the matrix become columns once for all tiles
            return looped(F.minimum(count, 1), [out], group_of_many)[0]
        return looped(count, [out], step)[0]

    def group(n: Value, carried: Sequence[Value]) -> Sequence[Value]:
        out, first = carried
        end = F.maximum(first, F.minimum(F.cast(F.take(ends, n, axis=0), dtype="int64"), rows))
        for size, least in tiles:
            count = F.floor_divide(end - first + (size - least), size)
            out = tiled(out, n, first, end, count, size)
            first = F.minimum(first + count * size, end)
        return out, end

    numbers = [Value(builder, scalar(builder, each, INT64)) for each in (ends.shape[0], 0)]
    out, last = looped(numbers[0], [start, numbers[1]], group)
    if not stacked:
        return F.cast(out, dtype=a.dtype.name)
    inside = F.less(last.iota((rows, 1), 0), last)
    return F.where(inside, cut(out, 0, 0, rows), 0)

"""Matrix products: ``nn.matmul`` with NumPy's batching, ``nn.dense``, and the general contraction.

``contract`` is the primitive behind einsum: the sum of the product of two operands whose axes are
named by letters, ``out[letters] = sum over the others of x[letters] * y[letters]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import IntExpr, product
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.compose import F, Value, broadcast, exchanged, unbroadcast
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import ANY, broadcast_pair, joined_shape, require_equal, same_dtype
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, op
from ..loop.tensor import Tensor
from ..traits import Trait
from .declare import Reduce, attr, composite, in_float64, primitive
from .sampling import extremes, floats, ints, sample, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Transposition
    from ..graph.nodes import Atom
    from ..graph.vmap import Batch


def _matmul_rule(a: TensorType, b: TensorType) -> TensorType:
    dtype = same_dtype((a, b))
    if a.rank == 0 or b.rank == 0:
        raise LoopwrightTypeError(
            f"{a.short} and {b.short}, a scalar has no matrix product",
            hint="multiply: a * b",
        )
    inner_a, inner_b = a.shape[-1], b.shape[-2] if b.rank > 1 else b.shape[0]
    if inner_a != inner_b:
        fits = b.rank > 1 and inner_a == b.shape[-1]
        error = LoopwrightTypeError(
            f"inner sizes differ, {inner_a} and {inner_b}, in {a.short} @ {b.short}",
            hint="transpose the second operand: a @ b.T" if fits else None,
        )
        require_equal(inner_a, inner_b, error)
    batch = joined_shape(
        (a.shape[:-2], b.shape[:-2]),
        lambda left, right: LoopwrightTypeError(
            f"batches of {a.short} @ {b.short} do not broadcast, sizes {left} and {right} differ"
        ),
    )
    rows = a.shape[-2:-1] if a.rank > 1 else ()
    columns = b.shape[-1:] if b.rank > 1 else ()
    return TensorType((*batch, *rows, *columns), dtype)


def _transpose_matmul(step: Transposition) -> None:
    ct, n = step.ct, 0 if step.linear[0] else 1
    shape_a, shape_b = step.shape(0), step.shape(1)
    # A vector is a matrix of one row on the left, of one column on the right.
    if len(shape_a) == 1:
        ct = F.expand_dims(ct, axis=ct.rank - (len(shape_b) > 1))
        shape_a = (1, *shape_a)
    if len(shape_b) == 1:
        ct = F.expand_dims(ct, axis=ct.rank)
        shape_b = (*shape_b, 1)
    if n == 0:
        b = F.reshape(step.x(1), newshape=shape_b)
        made = F.nn.matmul(ct, exchanged(b))
    elif len(shape_b) == 2 < ct.rank:  # one product of all rows
        size, rows = shape_a[-1], product(ct.shape[:-1])
        a = broadcast(F.reshape(step.x(0), newshape=shape_a), (*ct.shape[:-1], size))
        a = F.reshape(a, newshape=(rows, size))
        made = F.nn.matmul(exchanged(a), F.reshape(ct, newshape=(rows, ct.shape[-1])))
    else:
        made = F.nn.matmul(exchanged(F.reshape(step.x(0), newshape=shape_a)), ct)
    made = unbroadcast(made, shape_b if n else shape_a)
    step.add(n, F.reshape(made, newshape=step.shape(n)))


def _multiply_rows(batch: Batch) -> Atom:
    """A stack of matrices times one matrix is one product, of a matrix with all their rows."""
    (a, b), (many_a, many_b) = batch.args, batch.batched
    row_a, row_b = batch.shape_of(0), batch.shape_of(1)
    rank_a, rank_b = len(row_a), len(row_b)
    if many_a is not many_b and 1 in (rank_a, rank_b):
        # The rows are a matrix, and the order of two vectors does not matter.
        if many_a and rank_b == 1:
            return batch.emit("nn.matmul", a, b)
        if many_b and rank_b == 1 and rank_a < 3:
            a = batch.emit("transpose", a, axes=(1, 0)) if rank_a == 2 else a
            return batch.emit("nn.matmul", b, a)
    if rank_b == 2 and many_a and not many_b:
        rows = batch.reshaped(a, (batch.count * product(row_a[:-1]), row_a[-1]))
        made = batch.emit("nn.matmul", rows, b)
    else:
        # A vector is a matrix of one row on the left, of one column on the right.
        count_a, count_b = ([batch.count] * many for many in batch.batched)
        a = batch.reshaped(a, (*count_a, 1, *row_a)) if rank_a == 1 else a
        b = batch.reshaped(b, (*count_b, *row_b, 1)) if rank_b == 1 else b
        pair, rank = replace(batch, args=(a, b)), max(rank_a, rank_b, 2)
        made = batch.emit("nn.matmul", pair.aligned(0, rank), pair.aligned(1, rank))
    return batch.reshaped(made, (batch.count, *batch.shape))


@primitive(
    "nn.matmul",
    Pattern.CONTRACTION,
    batch=_multiply_rows,
    traits=Trait.MULTILINEAR,
    transpose=_transpose_matmul,
    rule=_matmul_rule,
    reference=in_float64(np.matmul),
    samples=lambda rng: [
        sample(floats(rng, (8, 16)), floats(rng, (16, 32))),
        sample(floats(rng, (7, 13)), floats(rng, (13, 5))),
        sample(floats(rng, (33, 67), "float64"), floats(rng, (67, 19), "float64")),
        sample(floats(rng, (5,)), floats(rng, (5,))),
        sample(floats(rng, (5,)), floats(rng, (5, 9))),
        sample(floats(rng, (3, 5)), floats(rng, (5,))),
        sample(floats(rng, (2, 3, 4, 5)), floats(rng, (5,))),
        sample(floats(rng, (4,)), floats(rng, (2, 4, 3))),
        sample(floats(rng, (2, 3, 4)), floats(rng, (2, 4, 5))),
        sample(floats(rng, (3, 1, 2, 4)), floats(rng, (2, 4, 3))),
        sample(floats(rng, (2, 3)), floats(rng, (4, 3, 1))),
        sample(floats(rng, (1, 1)), floats(rng, (1, 1))),
        sample(floats(rng, (3, 0)), floats(rng, (0, 2))),
        sample(floats(rng, (0, 3)), floats(rng, (3, 2))),
        sample(ints(rng, (3, 9), "int8", -128, 127), ints(rng, (9, 4), "int8", -128, 127)),
        sample(ints(rng, (5, 3), "int32"), ints(rng, (3, 2), "int32")),
        sample(ints(rng, (2, 5, 3), "uint8", 0, 255), ints(rng, (3,), "uint8", 0, 255)),
        sample(extremes("int64")[None, :], extremes("int64")[:, None]),
        sample(truths(rng, (3, 4)), truths(rng, (4, 5))),
    ],
)
def _matmul(_out: TensorType, a: Tensor, b: Tensor) -> Reduce:
    """Matrix product with the meaning of ``np.matmul``.

    ``a`` of shape (..., m, k) and ``b`` of (..., k, n) give (..., m, n); the axes in front are
    broadcast. A 1-D ``a`` is a row and a 1-D ``b`` a column, whose axis is then left out of the
    result. Any dtype, equal for both, is the result's: integers wrap around, bools are or-ed.
    LoopwrightTypeError for scalars, different dtypes or inner sizes, or batches that do not
    broadcast.

        fn (%x: Tensor[(8, 64), float32], %w: Tensor[(64, 9), float32]) -> Tensor[(8, 9), float32] {
          nn.matmul(%x, %w)
        }
    """
    matrix_axes = (len(a.shape) > 1) + (len(b.shape) > 1)

    def matrix_of(x: Tensor, batch: Sequence[IndexLike]) -> list[IndexLike]:
        sizes = x.shape[:-2]
        return [
            0 if size == 1 else i
            for size, i in zip(sizes, batch[len(batch) - len(sizes) :], strict=True)
        ]

    def element(*indices: IndexLike) -> Expr:
        *outer, k = indices
        batch, inner = outer[: len(outer) - matrix_axes], outer[len(outer) - matrix_axes :]
        row = inner[:1] if len(a.shape) > 1 else []
        column = inner[-1:] if len(b.shape) > 1 else []
        left = a(*matrix_of(a, batch), *row, k)
        return op("multiply", left, b(*matrix_of(b, batch), k, *column))

    return Reduce("sum", (a.shape[-1],), element)


def _dense_rule(x: TensorType, w: TensorType) -> TensorType:
    dtype = same_dtype((x, w))
    error = LoopwrightTypeError(
        f"{x.short} and {w.short} do not fit (..., k) and (units, k)",
        hint="nn.matmul takes the second operand as (k, units)"
        if w.rank == 2 and x.rank and x.shape[-1] == w.shape[0]
        else None,
    )
    if x.rank < 1 or w.rank != 2:
        raise error
    require_equal(x.shape[-1], w.shape[1], error)
    return TensorType((*x.shape[:-1], w.shape[0]), dtype)


@composite(
    "nn.dense",
    Pattern.CONTRACTION,
    traits=Trait.MULTILINEAR,
    dtypes=ANY,
    rule=_dense_rule,
    reference=in_float64(lambda x, w: np.einsum("...k,uk->...u", x, w)),
    samples=lambda rng: [
        sample(floats(rng, (5, 7)), floats(rng, (3, 7))),
        sample(floats(rng, (2, 1, 4), "float64"), floats(rng, (9, 4), "float64")),
        sample(floats(rng, (4,)), floats(rng, (1, 4))),
        sample(floats(rng, (0, 4)), floats(rng, (2, 4))),
    ],
)
def _dense(x: Value, w: Value) -> Value:
    """A linear layer, ``x @ w.T``.

    ``x`` of shape (..., k) and ``w`` of (units, k), of one dtype, give (..., units).
    LoopwrightTypeError where the shapes or dtypes do not fit.

        fn (%x: Tensor[(8, 64), float32], %w: Tensor[(9, 64), float32]) -> Tensor[(8, 9), float32] {
          nn.dense(%x, %w)
        }
    """
    return F.nn.matmul(x, F.transpose(w, axes=(1, 0)))


def _letters(equation: str) -> tuple[str, str, str]:
    operands, _, result = equation.partition("->")
    left, _, right = operands.partition(",")
    return left, right, result


def _label_sizes(equation: str, a: Sequence[IntExpr], b: Sequence[IntExpr]) -> dict[str, IntExpr]:
    left, right, _ = _letters(equation)
    sizes = dict(zip(left, a, strict=True))
    for letter, size in zip(right, b, strict=True):
        joined = broadcast_pair(sizes.get(letter, 1), size)
        sizes[letter] = size if joined is None else joined
    return sizes


def _contract_rule(a: TensorType, b: TensorType, equation: str) -> TensorType:
    dtype = same_dtype((a, b))
    left, right, result = _letters(equation)
    for letters in (left, right, result):
        if len(set(letters)) != len(letters):
            raise LoopwrightValueError(f"{equation!r} names an axis twice")
    if len(left) != a.rank or len(right) != b.rank or not set(result) <= set(left + right):
        raise LoopwrightTypeError(f"{equation!r} does not fit {a.short} and {b.short}")
    sizes = dict(zip(left, a.shape, strict=True))
    for letter, size in zip(right, b.shape, strict=True):
        if broadcast_pair(sizes.get(letter, size), size) is None:
            error = LoopwrightTypeError(
                f"{equation!r}: sizes of {letter} differ, {sizes[letter]} and {size}, "
                f"in {a.short} and {b.short}"
            )
            require_equal(sizes[letter], size, error)
    sizes = _label_sizes(equation, a.shape, b.shape)
    return TensorType(tuple(sizes[letter] for letter in result), dtype)


def _transpose_contract(step: Transposition) -> None:
    """A contraction of the cotangent with the other operand."""
    left, right, result = _letters(step.attrs["equation"])
    n = 0 if step.linear[0] else 1
    mine, other = (left, right) if n == 0 else (right, left)
    others = step.x(1 - n)
    shape = step.shape(n)
    sizes = dict(zip(mine, shape, strict=True))
    # An axis that nothing but the operand has was summed over, or repeated if it has one element.
    kept = [c for c in mine if c in other + result]
    made = F.contract(step.ct, others, equation=f"{result},{other}->{''.join(kept)}")
    repeated = [k for k, c in enumerate(kept) if sizes[c] == 1 and made.shape[k] != 1]
    if repeated:
        made = F.sum(made, axis=tuple(repeated), keepdims=True)
    placed = tuple(made.shape[kept.index(c)] if c in kept else 1 for c in mine)
    step.add(n, broadcast(F.reshape(made, newshape=placed), shape))


def _contract_samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(equation: str, a: Any, b: Any) -> Sample:
        return sample(a, b, equation=equation)

    return [
        drawn("ik,jk->ij", floats(rng, (5, 7)), floats(rng, (3, 7))),
        drawn("bhqd,bhkd->bhqk", floats(rng, (2, 3, 4, 5)), floats(rng, (2, 3, 6, 5))),
        drawn("ijk,kjl->li", floats(rng, (2, 3, 4), "float64"), floats(rng, (4, 3, 5), "float64")),
        drawn("bi,bi->b", floats(rng, (4, 9)), floats(rng, (4, 9))),
        drawn("i,i->", floats(rng, (31,)), floats(rng, (31,))),
        drawn("ik,kj->ij", floats(rng, (3, 0)), floats(rng, (0, 2))),
        drawn("ik,kj->ij", floats(rng, (3, 4)), floats(rng, (1, 2))),
        drawn("ik,kj->ji", ints(rng, (3, 4), "int16"), ints(rng, (4, 2), "int16")),
    ]


@primitive(
    "contract",
    Pattern.CONTRACTION,
    batch="contracted",
    traits=Trait.MULTILINEAR,
    transpose=_transpose_contract,
    rule=_contract_rule,
    reference=in_float64(lambda x, y, equation: np.einsum(equation, x, y)),
    samples=_contract_samples,
)
def _contract(
    _out: TensorType,
    x: Tensor,
    y: Tensor,
    *,
    equation: Any = attr("letters of the axes, as in einsum with an explicit result"),
) -> Reduce:
    """The sum over named axes of the product of two operands.

    ``equation`` is ``"letters,letters->letters"``, a letter per axis, none twice in one operand;
    the letters that are not in the result are summed over. Sizes of one letter are equal or 1.
    Operands and result have one dtype. LoopwrightTypeError where ranks, sizes or dtypes do not fit,
    LoopwrightValueError for a letter named twice.

        fn (
          %q: Tensor[(2, 8, 9, 64), float32],
          %k: Tensor[(2, 8, 9, 64), float32]
        ) -> Tensor[(2, 8, 9, 9), float32] {
          contract(%q, %k, equation="bhqd,bhkd->bhqk")
        }
    """
    left, right, result = _letters(equation)
    sizes = _label_sizes(equation, x.shape, y.shape)
    over = [letter for letter in sizes if letter not in result]

    def element(*indices: IndexLike) -> Expr:
        at = dict(zip([*result, *over], indices, strict=True))

        def read(t: Tensor, letters: str) -> Expr:
            return t(*(0 if size == 1 else at[k] for k, size in zip(letters, t.shape, strict=True)))

        return op("multiply", read(x, left), read(y, right))

    return Reduce("sum", tuple(sizes[k] for k in over), element)

"""Products of matrices, as libraries compute them, in the first stage of a PrimFunc.

::

    t0[b, i, j] = sum(k) x0[b, i, k] * x1[b, k, j]        b: any number of axes, or none

It is recognised by the strides of its axes in the operands, whatever the operator was called: a
product with either operand transposed, a contraction of several axes that lie next to each other, a
1x1 convolution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from ..dataclass import dataclass
from ..dims import Dim, as_int, linear
from ..dtype import FLOAT32, FLOAT64
from .expr import Op, Read
from .prim import Buffer, PrimFunc, Stage

__all__ = ["Batch", "Factor", "MatrixProduct", "matrix_product"]


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix in a buffer: ``offset`` of its first element and distances, in elements."""

    buffer: str
    offset: int
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Batch:
    """An axis of products: the stride of each operand from one product to the next."""

    extent: int
    left: int
    right: int
    out: int


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """``out = left @ right``, for every index of ``batch``.

    The sizes are ``rows`` x ``terms`` by ``terms`` x ``columns``. The rows of ``out`` are
    contiguous, or it has one column.
    """

    stage: Stage
    rows: int
    columns: int
    terms: int
    left: Factor
    right: Factor
    out: Factor
    batch: tuple[Batch, ...] = ()

    @property
    def products(self) -> int:
        """Number of products."""
        return prod(axis.extent for axis in self.batch)


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis with its strides in the left operand, the right one and the result."""

    extent: int
    left: int
    right: int
    out: int


def matrix_product(prim: PrimFunc) -> MatrixProduct | None:
    """Returns the first stage as a product of parameters; None if it is not one.

    Both operands and the result are of one float type, and each has elements that follow each other
    along one of its two axes.
    """
    if not prim.stages:  # a procedure
        return None
    stage = prim.stages[0]
    factors = _factors(prim, stage)
    if factors is None:
        return None
    (left, left_strides, left_offset), (right, right_strides, right_offset) = factors
    out_strides = dict(zip([a.name for a in stage.axes], _row_major(stage.buffer), strict=True))
    axes = {
        a.name: _Axis(
            as_int(a.extent),
            left_strides.get(a.name, 0),
            right_strides.get(a.name, 0),
            out_strides.get(a.name, 0),
        )
        for a in (*stage.axes, *stage.reduce_axes)
    }
    if any(axis.extent < 1 for axis in axes.values()):
        return None
    summed = _joined([axes[a.name] for a in stage.reduce_axes])
    kept = [axes[a.name] for a in stage.axes]
    rows = _joined([a for a in kept if a.left and not a.right])
    columns = _joined([a for a in kept if a.right and not a.left])
    if len(summed) != 1 or not (summed[0].left and summed[0].right):
        return None
    if any(not a.left and not a.right for a in kept):
        return None
    row, more_rows = _main(rows)
    column, more_columns = _main(columns)
    batch = [*(a for a in kept if a.left and a.right), *more_rows, *more_columns]
    term = summed[0]
    product = MatrixProduct(
        stage,
        row.extent,
        column.extent,
        term.extent,
        Factor(left.name, left_offset, row.left, term.left),
        Factor(right.name, right_offset, term.right, column.right),
        Factor(stage.name, 0, row.out, column.out),
        tuple(Batch(a.extent, a.left, a.right, a.out) for a in batch),
    )
    # A lone row is a lone column of the transposed product.
    if product.rows == 1 < product.columns or (product.columns > 1 and product.out.columns != 1):
        product = _transposed(product)
    return product if _is_dense(product) else None


def _factors(
    prim: PrimFunc, stage: Stage
) -> tuple[tuple[Buffer, Mapping[str, int], int], tuple[Buffer, Mapping[str, int], int]] | None:
    """Returns both operands with their strides by axis and their offsets."""
    value, dtype = stage.expr, stage.buffer.dtype
    if stage.combiner != "sum" or dtype not in (FLOAT32, FLOAT64):
        return None
    if not isinstance(value, Op) or value.name != "multiply" or value.dtype != dtype:
        return None
    params = {p.name: p for p in prim.params}
    factors: list[tuple[Buffer, Mapping[str, int], int]] = []
    for arg in value.args:
        if not isinstance(arg, Read) or arg.buffer not in params or arg.dtype != dtype:
            return None
        walked = _walk(arg, params[arg.buffer])
        if walked is None:
            return None
        factors.append((params[arg.buffer], *walked))
    return factors[0], factors[1]


def _walk(node: Read, buffer: Buffer) -> tuple[Mapping[str, int], int] | None:
    """Returns a read's stride along each axis and its offset; None if a stride varies."""
    strides: dict[str, int] = {}
    offset = 0
    for place, step in zip(node.indices, _row_major(buffer), strict=True):
        plain = linear(place) if isinstance(place, int | Dim) else None
        if plain is None or any(c < 0 for c in plain[0].values()):
            return None
        for name, coefficient in plain[0].items():
            strides[name] = strides.get(name, 0) + coefficient * step
        offset += plain[1] * step
    return strides, offset


def _row_major(buffer: Buffer) -> list[int]:
    sizes = [as_int(n) for n in buffer.shape]
    return [prod(sizes[n + 1 :]) for n in range(len(sizes))]


def _joined(axes: Iterable[_Axis]) -> list[_Axis]:
    """Axes that are walked as one become one."""
    left = list(axes)
    for outer in left:
        for inner in left:
            steps = (inner.left, inner.right, inner.out)
            walked = tuple(step * inner.extent for step in steps)
            if outer is not inner and walked == (outer.left, outer.right, outer.out):
                one = _Axis(outer.extent * inner.extent, *steps)
                return _joined([one, *(a for a in left if a is not outer and a is not inner)])
    return left


def _main(axes: list[_Axis]) -> tuple[_Axis, list[_Axis]]:
    """Returns the axis of one matrix, and the axes over several matrices."""
    if not axes:
        return _Axis(1, 0, 0, 0), []
    main = max(axes, key=lambda a: (a.out == 1, a.extent))
    return main, [a for a in axes if a is not main]


def _transposed(product: MatrixProduct) -> MatrixProduct:
    """The same product with rows for columns: ``out.T = right.T @ left.T``."""

    def transposed(factor: Factor) -> Factor:
        return Factor(factor.buffer, factor.offset, factor.columns, factor.rows)

    return MatrixProduct(
        product.stage,
        product.columns,
        product.rows,
        product.terms,
        transposed(product.right),
        transposed(product.left),
        transposed(product.out),
        tuple(Batch(b.extent, b.right, b.left, b.out) for b in product.batch),
    )


def _is_dense(product: MatrixProduct) -> bool:
    """True if the rows or columns of each matrix are contiguous and do not overlap; vectors may be
    strided."""
    left = _fits(product.left, product.rows, product.terms)
    if product.columns == 1:
        return left
    right = _fits(product.right, product.terms, product.columns)
    in_rows = product.out.columns == 1 and (
        product.rows == 1 or product.out.rows >= product.columns
    )
    return left and right and in_rows


def _fits(factor: Factor, rows: int, columns: int) -> bool:
    in_rows = (columns == 1 or factor.columns == 1) and (rows == 1 or factor.rows >= columns)
    in_columns = (rows == 1 or factor.rows == 1) and (columns == 1 or factor.columns >= rows)
    return in_rows or in_columns

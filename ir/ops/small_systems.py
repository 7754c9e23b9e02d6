"""Systems of a few equations without a library: stacks run in lanes.

The operators take stacks of matrices, and have one row of the result for each number that they
compute, so that neighbours in memory belong to neighbours of the stack. What LAPACK refuses is said
by the last row: ``tracer/numpy/linalg.py`` then calls LAPACK, which raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..dims import Dim, IntExpr, as_int, product, symbol
from ..dtype import FLOAT64, DType
from ..errors import LoopwrightTypeError
from ..graph.compose import F, Value
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import require_shape
from ..graph.types import TensorType
from ..loop.expr import Expr, Read, cast, const, index, op, read, select
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Alloc, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.tensor import Tensor
from .declare import Body, primitive
from .sampling import floats, sample

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step

MOST_EQUATIONS = 16
"""Equations of a system up to which a stack of them in lanes takes less time than LAPACK."""

STRAIGHT = 4
"""Equations up to which every number has a register: a single system takes less time, too."""

Number: TypeAlias = Any  # an expression, or an array with one element for each of a stack


class Code:
    """Arithmetic that writes statements: every value is kept in a register of its own."""

    def __init__(self) -> None:
        self.statements: list[Stmt] = []
        self.kept: dict[DType, int] = {}

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        return lambda *args: self.keep(applied(name, *args))

    def keep(self, value: Expr) -> Expr:
        """Returns the register that holds a value from here on."""
        registers, place = _registers(value.dtype), self.kept.get(value.dtype, 0)
        self.kept[value.dtype] = place + 1
        self.statements.append(Store(registers, (place,), value))
        return read(registers, (place,), value.dtype)

    def body(self, rows: IntExpr, results: Sequence[Number]) -> Body:
        """The meaning of an operator on a stack of ``rows``, given the numbers of one of them."""

        def statements(out: str) -> list[Stmt]:
            registers = [
                Alloc(Buffer(_registers(dtype), (count,), dtype), Scope.REGISTERS)
                for dtype, count in self.kept.items()
            ]
            values = [v if isinstance(v, Expr) else const(v, FLOAT64) for v in results]
            stores = [Store(out, (n, symbol("r")), value) for n, value in enumerate(values)]
            return [Loop(LoopKind.FOR, "r", rows, (*registers, *self.statements, *stores))]

        return Body(statements)


def _registers(dtype: DType) -> str:
    return "tests" if dtype.is_bool else "values"


def applied(name: str, *args: Number) -> Expr:
    """Returns a function of expressions and float64 numbers, by NumPy's name."""
    given = [a if isinstance(a, Expr) else const(a, FLOAT64) for a in args]
    return select(*given) if name == "where" else op(name, *given)


Matrix: TypeAlias = "list[list[Number]]"


def _of_stack(x: Any, get: Callable[..., Number]) -> Matrix:
    """The entries of a stack of matrices, as rows of numbers."""
    return [[get(i, j) for j in range(as_int(x.shape[2]))] for i in range(as_int(x.shape[1]))]


def _solved(m: Any, a: Matrix, b: Matrix) -> list[Number]:
    """Solutions of a x = b, the determinant of a, and the least size of a pivot.

    Gaussian elimination with partial pivoting (G. Golub and C. Van Loan, Matrix Computations,
    algorithm 3.4.1). The row with the largest entry comes up by exchanges of two rows each.
    """
    size = len(a)
    sign, determinant, least = 1.0, 1.0, np.inf
    inverses: list[Number] = []
    for c in range(size):
        for r in range(c + 1, size):
            larger = m.greater(m.abs(a[r][c]), m.abs(a[c][c]))
            for rows, first in ((a, c), (b, 0)):
                for j in range(first, len(rows[c])):
                    one, other = rows[c][j], rows[r][j]
                    rows[c][j] = m.where(larger, other, one)
                    rows[r][j] = m.where(larger, one, other)
            sign = m.where(larger, m.negative(sign), sign)
        determinant = m.multiply(determinant, a[c][c])
        least = m.minimum(least, m.abs(a[c][c]))
        # The determinant of a singular matrix is 0, whatever its other pivots are.
        inverses.append(m.where(m.equal(a[c][c], 0.0), 0.0, m.divide(1.0, a[c][c])))
        for r in range(c + 1, size):
            factor = m.multiply(a[r][c], inverses[c])
            for rows, first in ((a, c + 1), (b, 0)):
                for j in range(first, len(rows[c])):
                    rows[r][j] = m.subtract(rows[r][j], m.multiply(factor, rows[c][j]))
    for i in reversed(range(size)):
        for j in range(len(b[i])):
            for k in range(i + 1, size):
                b[i][j] = m.subtract(b[i][j], m.multiply(a[i][k], b[k][j]))
            b[i][j] = m.multiply(b[i][j], inverses[i])
    return [*(x for row in b for x in row), m.multiply(sign, determinant), least]


def _eliminated(a: Tensor, b: Tensor) -> Body:
    """Returns the body that computes what ``_solved`` does, in loops, with systems in memory."""
    size, columns, f = as_int(a.shape[1]), as_int(b.shape[2]), applied
    i, j, q, r = (symbol(name) for name in "ijqr")
    best, chosen, held, moved, determinant, least = (
        read("values", (n,), FLOAT64) for n in range(6)
    )

    def at(row: IntExpr, column: IntExpr) -> Read:
        return read("system", (row, column, 0), FLOAT64)

    def step(c: int) -> list[Stmt]:
        pivot, row, first, rest, below = at(c, c), q + c + 1, j + c, j + c + 1, size - 1 - c
        number, here = cast(index(row), FLOAT64), at(row, first)
        larger, mine = f("greater", f("abs", at(row, c)), best), f("equal", chosen, number)
        product = f("multiply", determinant, pivot)
        cleared = f("subtract", at(row, rest), f("multiply", held, at(c, rest)))
        search = _put(chosen, number, larger), _put(best, f("abs", at(row, c)), larger)
        exchange = _put(moved, here, mine), _put(here, held, mine)
        same = f("equal", chosen, float(c))
        return [
            *(_put(best, f("abs", pivot)), _put(chosen, const(float(c), FLOAT64))),
            *_for(q, below, *search),
            *_for(
                j,
                size + columns - c,
                *(_put(held, at(c, first)), _put(moved, held)),
                *_for(q, below, *exchange),
                _put(at(c, first), moved),
            ),
            _put(least, f("minimum", least, f("abs", pivot))),
            _put(determinant, f("where", same, product, f("negative", product))),
            _put(pivot, f("where", f("equal", pivot, 0.0), 0.0, f("divide", 1.0, pivot))),
            *_for(
                q,
                below,
                _put(held, f("multiply", at(row, c), pivot)),
                *_for(j, size + columns - 1 - c, _put(at(row, rest), cleared)),
            ),
        ]

    def back(out: str, c: int) -> list[Stmt]:
        here, term = at(c, j + size), f("multiply", at(c, q + c + 1), at(q + c + 1, j + size))
        return _for(
            j,
            columns,
            *_for(q, size - 1 - c, _put(here, f("subtract", here, term))),
            _put(here, f("multiply", here, at(c, c))),
            Store(out, (j + c * columns, r), here),
        )

    def statements(out: str) -> list[Stmt]:
        return _for(
            r,
            a.shape[0],
            Alloc(Buffer("system", (size, size + columns, 1), FLOAT64), Scope.STACK),
            Alloc(Buffer("values", (6,), FLOAT64), Scope.REGISTERS),
            *(_put(determinant, const(1.0, FLOAT64)), _put(least, const(np.inf, FLOAT64))),
            *_for(i, size, *_for(j, size, _put(at(i, j), a(r, i, j)))),
            *_for(i, size, *_for(j, columns, _put(at(i, j + size), b(r, i, j)))),
            *(s for c in range(size) for s in step(c)),
            *(s for c in reversed(range(size)) for s in back(out, c)),
            Store(out, (size * columns, r), determinant),
            Store(out, (size * columns + 1, r), least),
        )

    return Body(statements)


def _put(target: Read, value: Expr, where: Expr | None = None) -> Stmt:
    """Stores a value where a condition holds."""
    value = value if where is None else select(where, value, target)
    return Store(target.buffer, target.plain_indices, value)


def _for(var: Dim, extent: IntExpr, *body: Stmt) -> list[Stmt]:
    return [Loop(LoopKind.FOR, str(var), extent, body)] if extent != 0 else []


def _factored(m: Any, a: Matrix) -> list[Number]:
    """The lower triangular factor of a, with zeros, and the least pivot (algorithm 4.2.2)."""
    size = len(a)
    factor: Matrix = [[0.0] * size for _ in a]
    least: Number = np.inf
    for j in range(size):
        rests = [a[i][j] for i in range(j, size)]
        for i in range(j, size):
            for k in range(j):
                product = m.multiply(factor[i][k], factor[j][k])
                rests[i - j] = m.subtract(rests[i - j], product)
        least = m.minimum(least, rests[0])
        factor[j][j] = m.sqrt(rests[0])
        inverse = m.divide(1.0, factor[j][j])
        for i in range(j + 1, size):
            factor[i][j] = m.multiply(rests[i - j], inverse)
    return [*(x for row in factor for x in row), least]


def _reference(
    compute: Callable[..., list[Number]],
) -> Callable[..., Any]:
    """Returns the same arithmetic on arrays of NumPy's."""

    def apply(*stacks: Any) -> Any:
        entries = [_of_stack(x, lambda i, j, x=x: x[:, i, j]) for x in stacks]
        rows = [np.broadcast_to(v, stacks[0].shape[0]) for v in compute(np, *entries)]
        return np.stack(rows)

    return apply


def _stack_of(x: TensorType) -> int:
    size = x.shape[1] if x.rank == 3 else 0
    square = x.rank == 3 and x.shape[1] == x.shape[2] and isinstance(size, int)
    if not (square and isinstance(size, int) and 1 <= size <= MOST_EQUATIONS):
        raise LoopwrightTypeError(
            f"a stack of square matrices of up to {MOST_EQUATIONS} rows, not {x.short}"
        )
    if x.dtype is not FLOAT64:
        raise LoopwrightTypeError(f"matrices are float64, not {x.dtype}")
    return size


def _solve_rule(a: TensorType, b: TensorType) -> TensorType:
    size = _stack_of(a)
    error = LoopwrightTypeError(f"right sides {b.short} of {a.short}")
    if b.rank != 3 or b.dtype is not FLOAT64:
        raise error
    require_shape(b.shape[:2], a.shape[:2], error)
    as_int(b.shape[2])
    return TensorType((size * b.shape[2] + 2, a.shape[0]), FLOAT64)


def _matrices(rng: np.random.Generator, count: int, size: int) -> Any:
    return floats(rng, (count, size, size), "float64") + 5 * np.eye(size)


def _in_rows(parts: Sequence[Value]) -> Value:
    """Returns entries of matrices and numbers of each of a stack, as the kernels write them."""
    count = parts[0].shape[0]
    return F.concatenate(
        *(F.transpose(F.reshape(p, newshape=(count, product(p.shape[1:])))) for p in parts), axis=0
    )


def _solve_tangent(step: Step) -> Value:
    """Changes of the solutions and determinants; the pivots only say what is regular."""
    from ..graph.derivatives.linear_algebra import library  # loaded when it is needed

    a, b, da = step.x(0), step.x(1), step.moved(0)
    count, size, columns = b.shape
    rows = F.strided_slice(step.r, begin=(0, 0), end=(size * columns, count), strides=(1, 1))
    solutions = F.reshape(F.transpose(rows), newshape=b.shape)
    changes = F.concatenate(step.moved(1) - F.nn.matmul(da, solutions), da, axis=2)
    (made,) = library("numpy.linalg.solve", a, changes)
    ones = (1, 1, 1)
    first = F.strided_slice(made, begin=(0, 0, 0), end=b.shape, strides=ones)
    quotient = F.strided_slice(made, begin=(0, 0, columns), end=made.shape, strides=ones)
    trace = F.sum(F.diagonal(quotient, axis1=1, axis2=2), axis=(1,), keepdims=True)
    determinants = F.strided_slice(
        step.r, begin=(size * columns, 0), end=(size * columns + 1, count), strides=(1, 1)
    )
    return _in_rows([first, F.transpose(determinants) * trace, trace.full(trace.shape, 0)])


def _cholesky_tangent(step: Step) -> Value:
    from ..graph.derivatives.linear_algebra import factor_tangent  # loaded when it is needed

    a = step.x(0)
    count, size, _ = a.shape
    rows = F.strided_slice(step.r, begin=(0, 0), end=(size * size, count), strides=(1, 1))
    factors = F.reshape(F.transpose(rows), newshape=a.shape)
    made = factor_tangent(factors, step.moved())
    return _in_rows([made, made.full((count, 1), 0)])


def _solve_samples(rng: np.random.Generator) -> Sequence[Sample]:
    return [
        sample(_matrices(rng, 5, 3), floats(rng, (5, 3, 1), "float64")),
        sample(floats(rng, (17, 4, 4), "float64"), floats(rng, (17, 4, 2), "float64")),
        sample(_matrices(rng, 1, 1), floats(rng, (1, 1, 3), "float64")),
        sample(_matrices(rng, 9, 2), np.zeros((9, 2, 0))),
        sample(floats(rng, (19, 7, 7), "float64"), floats(rng, (19, 7, 3), "float64")),
        sample(floats(rng, (9, 5, 5), "float64"), np.zeros((9, 5, 0))),
    ]


@primitive(
    "solve_small",
    Pattern.OPAQUE,
    batch="small_systems",
    tangent=_solve_tangent,
    rule=_solve_rule,
    reference=_reference(_solved),
    samples=_solve_samples,
)
def _solve_small(out: TensorType, a: Tensor, b: Tensor) -> Body:
    """Solutions of systems of up to 16 linear equations, determinants and least pivots.

    ``a`` (stack, n, n) and ``b`` (stack, n, k) are float64. The result (n * k + 2, stack) has the
    entries of the solutions, row by row, then the determinants of ``a``, then the least sizes of
    their pivots: 0 says that a matrix is singular. LoopwrightTypeError for other operands.

        fn (%a: Tensor[(5, 2, 2), float64]) -> Tensor[(6, 5), float64] {
          solve_small(%a, %a)
        }
    """
    if as_int(a.shape[1]) > STRAIGHT:
        return _eliminated(a, b)
    m, r = Code(), symbol("r")
    entries = [_of_stack(x, lambda i, j, x=x: x(r, i, j)) for x in (a, b)]
    return m.body(out.shape[1], _solved(m, *entries))


@primitive(
    "cholesky_small",
    Pattern.OPAQUE,
    batch="small_systems",
    tangent=_cholesky_tangent,
    rule=lambda a: TensorType((_stack_of(a) ** 2 + 1, a.shape[0]), FLOAT64),
    reference=_reference(_factored),
    samples=lambda rng: [
        sample((m := _matrices(rng, 7, 3)) @ np.swapaxes(m, 1, 2)),
        sample((m := _matrices(rng, 1, 4)) @ np.swapaxes(m, 1, 2)),
    ],
)
def _cholesky_small(out: TensorType, a: Tensor) -> Body:
    """Lower triangular factors of positive definite matrices of up to 16 rows, as straight code.

    ``a`` (stack, n, n) is float64, of which the lower triangle is read. The result
    (n * n + 1, stack) has the entries of the factors, row by row, then the least pivots: greater
    than 0 if the matrix is positive definite. LoopwrightTypeError for other operands.

        fn (%a: Tensor[(5, 2, 2), float64]) -> Tensor[(5, 5), float64] {
          cholesky_small(%a)
        }
    """
    m, r = Code(), symbol("r")
    return m.body(out.shape[1], _factored(m, _of_stack(a, lambda i, j: a(r, i, j))))

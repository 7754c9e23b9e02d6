"""Tensor expressions, by which an operator defines one element of its result.

An operator's ``compute`` is handed a ``Tensor`` per operand, which it calls with indices to read an
element, and answers with a ``Map``, a ``Reduction`` or ``Statements``. Nothing is stored until
fusion decides so: a map in front of a consumer is just a function that the consumer's indices are
put into, which is why transposes, slices and pads cost nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, floordiv, int_max, int_min, mod, symbol
from ..dtype import BOOL, INT64, DType
from .expr import Const, Expr, Index, IndexLike, cast, const, index, op, within
from .kinds import LoopKind
from .nest import Loop, Stmt, Store
from .prim import Buffer


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand: ``t(i, j)`` is the expression of its element (i, j)."""

    shape: tuple[IntExpr, ...]
    dtype: DType
    element: Callable[..., Expr]

    def __call__(self, *indices: IndexLike) -> Expr:
        return self.element(*indices)


@dataclass(frozen=True, slots=True)
class Map:
    """``out[i...] = element(i...)``, each output element on its own.

    ``element`` takes one IndexLike per output axis.
    """

    shape: tuple[IntExpr, ...]
    dtype: DType
    element: Callable[..., Expr]


@dataclass(frozen=True, slots=True)
class Reduction:
    """``out[i...] = combiner over k... of element(i..., k...)``.

    ``element`` takes one IndexLike per output axis, then one per entry of ``over`` (the extents of
    the reduced axes). ``combiner`` is a key of ``COMBINERS``; an empty one gives its identity.
    """

    shape: tuple[IntExpr, ...]
    dtype: DType
    over: tuple[IntExpr, ...]
    combiner: str
    element: Callable[..., Expr]


@dataclass(frozen=True, slots=True)
class Statements:
    """A result that statements write, if it is neither a map nor a reduction; see ``procedure``.

    ``body(out)`` gives the statements that write every element of the buffer of that name;
    they may use the ``workspace``, and read operands as the other kinds do. With ``begins_as``
    they write only where the result differs from that operand, of the same shape.
    """

    shape: tuple[IntExpr, ...]
    dtype: DType
    body: Callable[[str], tuple[Stmt, ...]]
    workspace: tuple[Buffer, ...] = ()
    begins_as: Tensor | None = None


def index_expr(value: IndexLike) -> Expr:
    """The index as an int64 scalar expression."""
    return index(value) if isinstance(value, int | Dim) else cast(value, INT64)


def index_add(left: IndexLike, right: IndexLike) -> IndexLike:
    """``left + right``: an int_expr if both are, else int64 arithmetic on values read from data.

    >>> from loopwright.ir.dims import symbol
    >>> str(index_add(symbol("i"), 1))
    'i + 1'
    """
    return _arithmetic("add", lambda a, b: a + b, left, right)


def index_sub(left: IndexLike, right: IndexLike) -> IndexLike:
    """``left - right``."""
    return _arithmetic("subtract", lambda a, b: a - b, left, right)


def index_mul(left: IndexLike, right: IndexLike) -> IndexLike:
    """``left * right``."""
    return _arithmetic("multiply", lambda a, b: a * b, left, right)


def index_div(left: IndexLike, right: IndexLike) -> IndexLike:
    """``left // right``, rounded to minus infinity."""
    return _arithmetic("floor_divide", floordiv, left, right)


def index_mod(left: IndexLike, right: IndexLike) -> IndexLike:
    """``left % right`` with the sign of the divisor."""
    return _arithmetic("floor_mod", mod, left, right)


def index_min(left: IndexLike, right: IndexLike) -> IndexLike:
    """The lesser of two indices."""
    return _arithmetic("minimum", int_min, left, right)


def index_max(left: IndexLike, right: IndexLike) -> IndexLike:
    """The greater of two indices."""
    return _arithmetic("maximum", int_max, left, right)


def index_less(left: IndexLike, right: IndexLike) -> Expr:
    """The condition ``left < right``, a constant where the difference is one."""
    a, b = _plain(left), _plain(right)
    if isinstance(a, int | Dim) and isinstance(b, int | Dim):
        difference = a - b
        if not isinstance(difference, Dim):
            return const(difference < 0, BOOL)
    return op("less", index_expr(a), index_expr(b))


def index_within(value: IndexLike, low: IndexLike, high: IndexLike) -> Expr:
    """The condition ``low <= value < high`` on indices of either kind."""
    a, b, c = _plain(value), _plain(low), _plain(high)
    if isinstance(a, int | Dim) and isinstance(b, int | Dim) and isinstance(c, int | Dim):
        return within(a, b, c)
    lower = op("less_equal", index_expr(b), index_expr(a))
    return op("logical_and", lower, op("less", index_expr(a), index_expr(c)))


def _plain(value: IndexLike) -> IndexLike:
    if isinstance(value, Index):
        return value.value
    return int(value.value) if isinstance(value, Const) else value


def _arithmetic(
    name: str,
    plain: Callable[[IntExpr, IntExpr], IntExpr],
    left: IndexLike,
    right: IndexLike,
) -> IndexLike:
    a, b = _plain(left), _plain(right)
    if isinstance(a, int | Dim) and isinstance(b, int | Dim):
        return plain(a, b)
    return op(name, index_expr(a), index_expr(b))


def loops(prefix: str, shape: Sequence[IntExpr], *body: Stmt) -> tuple[Stmt, ...]:
    """Returns ``body`` in loops ``prefix0``, ``prefix1``, ... over ``shape``, the last innermost.

    >>> print(loops("i", (2, 3), Store("y", (symbol("i0"),), symbol("i0")))[0].var)
    i0
    """
    for n in reversed(range(len(shape))):
        body = (Loop(LoopKind.FOR, f"{prefix}{n}", shape[n], body),)
    return body


def copied(out: str, x: Tensor) -> tuple[Stmt, ...]:
    """Returns statements that copy ``x``."""
    at = tuple(symbol(f"c{n}") for n in range(len(x.shape)))
    return loops("c", x.shape, Store(out, at, x(*at)))

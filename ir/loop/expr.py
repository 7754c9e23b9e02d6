"""Scalar expressions of the loop IR: what one element of a tensor is.

::

    Expr ::= Const(value, dtype)
           | Index(int_expr)                      the value of an index, an int64
           | Read(buffer, indices)                indices are int_exprs, or Exprs (a gather)
           | Op(name, Expr, ...)                  a row of the scalar table

and their text, which ``parser.py`` reads::

    text  ::= ("let" "%" N "=" infix ";")* infix
    expr  ::= NUMBER [":" dtype] | "True" | "False"      int64, or float32 with a point
            | "index" "(" int_expr ")"
            | buffer "[" (int_expr | expr), ... "]"
            | "(" infix ")" | name "(" infix, ... ")" | dtype "(" infix ")"
            | "%" N
    infix ::= expr [symbol expr]

Expressions are interned: two that are equal are the same object, so sharing survives every rewrite
and a walk with a memo costs what the DAG costs, not what the tree would. Make them with ``const``,
``index``, ``read``, ``op``, ``cast`` and ``select``, which infer the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from ..dims import Dim, FloorDiv, IntExpr, Max, Min, Mod, Symbol, substitute, symbol, symbols
from ..dtype import BOOL, FLOAT32, INT64, DType
from ..errors import InternalError
from .scalar import SCALAR_OPS


class Const:
    __slots__ = ("__weakref__", "dtype", "value")
    value: bool | int | float
    dtype: DType

    def __str__(self) -> str:
        return _literal(self.value, self.dtype)

    def __reduce__(self) -> tuple[Callable[..., Const], tuple[object, ...]]:
        return const, (self.value, self.dtype)  # unpickling interns, too


class Index:
    __slots__ = ("__weakref__", "value")
    value: IntExpr
    dtype: DType = INT64

    def __str__(self) -> str:
        return f"index({self.value})"

    def __reduce__(self) -> tuple[Callable[..., Const | Index], tuple[object, ...]]:
        return index, (self.value,)


class Read:
    __slots__ = ("__weakref__", "below", "buffer", "dtype", "indices")
    buffer: str
    indices: tuple[IndexLike, ...]
    dtype: DType
    below: tuple[Expr, ...]  # see ``walk``

    @property
    def plain_indices(self) -> tuple[IntExpr, ...]:
        """The indices without those read from data; if there are none, the tuple itself."""
        every: Any = self.indices
        plain = tuple([i for i in every if isinstance(i, int | Dim)])
        return every if len(plain) == len(every) else plain

    def __str__(self) -> str:
        return expr_text(self)

    def __reduce__(self) -> tuple[Callable[..., Read], tuple[object, ...]]:
        return read, (self.buffer, self.indices, self.dtype)


class Op:
    __slots__ = ("__weakref__", "args", "below", "dtype", "name")
    name: str
    args: tuple[Expr, ...]
    dtype: DType
    below: tuple[Expr, ...]  # see ``walk``

    def __str__(self) -> str:
        return expr_text(self)

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[object, ...]]:
        if self.name == "cast":
            return cast, (self.args[0], self.dtype)
        return op, (self.name, *self.args)


Expr: TypeAlias = Const | Index | Read | Op
IndexLike: TypeAlias = IntExpr | Expr

_INTERNED: WeakValueDictionary[Any, Any] = WeakValueDictionary()


def _intern(kind: type[Any], key: tuple[Any, ...], fields: dict[str, Any]) -> Any:
    full = (kind, *key)
    node = _INTERNED.get(full)
    if node is None:
        node = object.__new__(kind)
        for name, value in fields.items():
            setattr(node, name, value)
        _INTERNED[full] = node
    return node


def const(value: bool | int | float, dtype: DType) -> Const:
    """A literal; the value is converted to what ``dtype`` can hold."""
    value = float(dtype.numpy.type(value)) if dtype.is_half else dtype.numpy.type(value).item()
    return _intern(Const, (repr(value), dtype.name), {"value": value, "dtype": dtype})


def index(value: IntExpr) -> Const | Index:
    """The int64 value of an index expression."""
    if not isinstance(value, Dim):
        return const(int(value), INT64)
    return _intern(Index, (value,), {"value": value})


def index_value(expr: Expr) -> IntExpr | None:
    """The index that an Expr is the value of, None if it is none: what ``index`` was given."""
    if isinstance(expr, Index):
        return expr.value
    if isinstance(expr, Const) and expr.dtype == INT64:
        return int(expr.value)
    return None


def read(buffer: str, indices: Sequence[IndexLike], dtype: DType) -> Read:
    """The element of ``buffer`` at ``indices``. A plain index given as Expr becomes an int_expr."""
    plain = tuple(_plain_index(i) for i in indices)
    return _intern(
        Read, (buffer, plain, dtype.name), {"buffer": buffer, "indices": plain, "dtype": dtype}
    )


def _plain_index(i: IndexLike) -> IndexLike:
    if isinstance(i, Index):
        return i.value
    if isinstance(i, Const):
        return int(i.value)
    if isinstance(i, int | Dim):
        return i
    return i if i.dtype == INT64 else cast(i, INT64)


def op(name: str, *args: Expr) -> Expr:
    """Apply a scalar operator; operands must have the dtypes its row asks for (no promotion)."""
    row = SCALAR_OPS[name]
    if name == "cast" or len(args) != row.arity:
        raise InternalError(f"{name} applied to {len(args)} operands")
    dtype = row.result([a.dtype for a in args])
    return _intern(Op, (name, args, dtype.name), {"name": name, "args": args, "dtype": dtype})


def cast(value: Expr, dtype: DType) -> Expr:
    """Returns ``value`` converted as ``ndarray.astype`` does; itself if it has the dtype."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Const) and not (isinstance(value.value, float) and not dtype.is_float):
        return const(np.asarray(value.value, value.dtype.numpy).astype(dtype.numpy).item(), dtype)
    return _intern(
        Op, ("cast", (value,), dtype.name), {"name": "cast", "args": (value,), "dtype": dtype}
    )


def select(condition: Expr, then: Expr, orelse: Expr) -> Expr:
    """``then`` where ``condition`` holds. Reads in the branch not taken are never made."""
    if isinstance(condition, Const):
        return then if condition.value else orelse
    return then if then is orelse else op("where", condition, then, orelse)


def within(value: IntExpr, low: IntExpr, high: IntExpr) -> Expr:
    """The condition ``low <= value < high`` on an index."""

    def compare(a: IntExpr, b: IntExpr) -> Expr:
        difference = a - b
        if not isinstance(difference, Dim):
            return const(difference <= 0, BOOL)
        return op("less_equal", index(a), index(b))

    lower, upper = compare(low, value), compare(value, high - 1)
    if isinstance(lower, Const):
        return upper if lower.value else lower
    if isinstance(upper, Const):
        return lower if upper.value else upper
    return op("logical_and", lower, upper)


def walk(root: Expr) -> tuple[Expr, ...]:
    """Every expression below and including ``root`` once, operands before users.

    Many passes walk the same expressions, which never change: ``root.below`` keeps the answer,
    without ``root`` itself, so that no reference cycle keeps it alive.
    """
    if not children(root):
        return (root,)
    assert isinstance(root, Op | Read)
    try:
        return (*root.below, root)
    except AttributeError:
        pass  # the first walk of this expression
    below: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(child, False) for child in reversed(children(root))]
    while stack:
        node, ready = stack.pop()
        if ready:
            below.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            operands = children(node)
            if not operands:
                below.append(node)
                continue
            stack.append((node, True))
            for child in reversed(operands):
                stack.append((child, False))
    root.below = tuple(below)
    return (*below, root)


def expr_text(root: Expr) -> str:
    """The text of an expression; what is used more than once is named if it would get long.

    A literal is an int64 or a float32 (with a point) unless its dtype follows it. The text grows
    with the number of different expressions in ``root``, not with how often they are used.

    >>> from loopwright.ir.dtype import FLOAT32, INT32
    >>> x = read("x", (0,), FLOAT32)
    >>> expr_text(op("add", x, x))
    '(x[0] + x[0])'
    >>> expr_text(op("add", const(1.5, FLOAT32), cast(const(2, INT32), FLOAT32)))
    '(1.5 + 2.0)'
    """
    order = list(walk(root))
    uses: dict[int, int] = {}
    size: dict[int, int] = {}
    for node in order:
        size[id(node)] = 1 + sum(size[id(c)] for c in children(node))
        for child in children(node):
            uses[id(child)] = uses.get(id(child), 0) + 1
    long = size[id(root)] > LONG_EXPRESSION
    texts: dict[int, str] = {}
    lines: list[str] = []
    for node in order:
        text = _node_text(node, texts)
        if long and uses.get(id(node), 0) > 1 and children(node):
            lines.append(f"let %{len(lines)} = {text}")
            text = f"%{len(lines) - 1}"
        texts[id(node)] = text
    return "; ".join([*lines, texts[id(root)]])


LONG_EXPRESSION = 128  # operators and operands; in longer texts shared expressions are named


def statement_text(root: Expr) -> str:
    """``expr_text`` without the outermost parentheses: for the right-hand side of a statement."""
    text = expr_text(root)
    if isinstance(root, Op) and _infix(root) and text.startswith("("):
        return text[1:-1]
    return text


def _infix(node: Op) -> str:
    return SCALAR_OPS[node.name].symbol if len(node.args) == 2 else ""


def _node_text(node: Expr, texts: dict[int, str]) -> str:
    """The text of one node, given those of its operands."""
    if isinstance(node, Read):
        places = (str(i) if isinstance(i, int | Dim) else texts[id(i)] for i in node.indices)
        return f"{node.buffer}[{', '.join(places)}]"
    if not isinstance(node, Op):
        return str(node)
    args = [texts[id(a)] for a in node.args]
    if infix := _infix(node):
        return f"({args[0]} {infix} {args[1]})"
    args = [
        text[1:-1] if isinstance(arg, Op) and _infix(arg) and text.startswith("(") else text
        for arg, text in zip(node.args, args, strict=True)
    ]
    if node.name == "cast":
        return f"{node.dtype}({args[0]})"
    return f"{node.name}({', '.join(args)})"


def _literal(value: bool | int | float, dtype: DType) -> str:
    if dtype.is_bool:
        return str(value)
    text = str(dtype.numpy.type(value))  # the shortest text that parses to the same number
    return text if dtype in (INT64, FLOAT32) else f"{text}:{dtype}"


def children(node: Expr) -> tuple[Expr, ...]:
    """The expressions ``node`` is made of, in order; indices only where they come from data."""
    if isinstance(node, Op):
        return node.args
    if isinstance(node, Read):
        return tuple([i for i in node.indices if not isinstance(i, int | Dim)])
    return ()


def rewrite(root: Expr, leaf: Callable[[Expr, dict[int, Expr]], Expr | None]) -> Expr:
    """Rebuild ``root`` bottom-up; ``leaf(node, done)`` may give a replacement, or None."""
    done: dict[int, Expr] = {}
    for node in walk(root):
        new = leaf(node, done)
        if new is None:
            if isinstance(node, Op):
                args = tuple(done[id(a)] for a in node.args)
                if all(a is b for a, b in zip(args, node.args, strict=True)):
                    new = node
                elif node.name == "cast":
                    new = cast(args[0], node.dtype)
                elif node.name == "where":
                    new = select(*args)
                else:
                    new = op(node.name, *args)
            elif isinstance(node, Read):
                new = read(node.buffer, rebuilt_indices(node, done), node.dtype)
            else:
                new = node
        done[id(node)] = new
    return done[id(root)]


def rebuilt_indices(
    node: Read, done: Mapping[int, Expr], place: Callable[[IntExpr], IndexLike] = lambda i: i
) -> tuple[IndexLike, ...]:
    """Returns the indices of a Read inside ``rewrite``: ``place`` of the plain ones, and what the
    ones read from data became."""
    return tuple([place(i) if isinstance(i, int | Dim) else done[id(i)] for i in node.indices])


def substitute_indices(root: Expr, values: dict[str, IndexLike]) -> Expr:
    """``root`` with index symbols replaced by int_exprs, or by Exprs (indices read from data)."""
    from_data = {name: v for name, v in values.items() if not isinstance(v, int | Dim)}
    plain = {name: v for name, v in values.items() if isinstance(v, int | Dim)}

    def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
        if isinstance(node, Index):
            return _as_expr(substitute_index(node.value, plain, from_data))
        if isinstance(node, Read):
            indices = rebuilt_indices(node, done, lambda i: substitute_index(i, plain, from_data))
            return read(node.buffer, indices, node.dtype)
        return None

    return rewrite(root, leaf)


def substitute_index(
    value: IntExpr, plain: dict[str, IntExpr], from_data: dict[str, Expr]
) -> IndexLike:
    """``value`` with its symbols replaced; an Expr if one of them is replaced by data."""
    value = substitute(value, plain)
    if not from_data or symbols(value).isdisjoint(from_data):
        return value
    return _int_to_expr(value, from_data)


_ATOM_OPS: dict[type, str] = {
    FloorDiv: "floor_divide",
    Mod: "floor_mod",
    Min: "minimum",
    Max: "maximum",
}


def _int_to_expr(value: IntExpr, from_data: dict[str, Expr]) -> Expr:
    """Write an int_expr some of whose symbols are Exprs as int64 arithmetic."""
    if not isinstance(value, Dim) or symbols(value).isdisjoint(from_data):
        return index(value)
    total: Expr | None = None
    for monomial, coefficient in value.terms:
        term: Expr | None = const(coefficient, INT64) if coefficient != 1 or not monomial else None
        for atom in monomial:
            if isinstance(atom, Symbol):
                factor = from_data.get(atom.name) or index(symbol(atom.name))
            else:
                factor = op(
                    _ATOM_OPS[type(atom)],
                    _int_to_expr(atom.left, from_data),
                    _int_to_expr(atom.right, from_data),
                )
            term = factor if term is None else op("multiply", term, factor)
        assert term is not None
        total = term if total is None else op("add", total, term)
    assert total is not None
    return total


def _as_expr(value: IndexLike) -> Expr:
    return index(value) if isinstance(value, int | Dim) else value


def reads_of(root: Expr) -> list[Read]:
    """The reads in ``root``, in the order of ``walk``."""
    return [node for node in walk(root) if isinstance(node, Read)]


def buffers_of(root: Expr) -> set[str]:
    """The names of the buffers that ``root`` reads."""
    return {node.buffer for node in reads_of(root)}


def map_reads(root: Expr, replace: Callable[[Read], Expr | None]) -> Expr:
    """``root`` with every Read passed through ``replace`` (None keeps it)."""

    def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
        if not isinstance(node, Read):
            return None
        node = read(node.buffer, rebuilt_indices(node, done), node.dtype)
        return replace(node) or node

    return rewrite(root, leaf)


def is_below(value: Expr, extent: IntExpr) -> bool:
    """True if an expression is one of 0 to ``extent - 1`` by its last operators.

    >>> from loopwright.ir.dtype import INT64
    >>> from loopwright.ir.loop.expr import const, op, read
    >>> is_below(op("bitwise_and", read("x", (0,), INT64), const(255, INT64)), 256)
    True
    """
    if not isinstance(extent, int):
        return False
    if isinstance(value, Const):
        return 0 <= value.value < extent
    if isinstance(value, Op) and value.name == "cast" and value.args[0].dtype.is_integer:
        inner = value.args[0].dtype
        if inner.bits >= value.dtype.bits:
            return False
        wide = inner.is_signed or 1 << inner.bits > extent
        return not wide or is_below(value.args[0], extent)
    if isinstance(value, Op) and value.name == "bitwise_and":
        masks = [a.value for a in value.args if isinstance(a, Const)]
        return any(0 <= mask < extent for mask in masks)
    return False

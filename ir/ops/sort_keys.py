"""Keys of elements, and sorts of rows by comparing them in vectors.

Keys are unsigned integers of as many bits as an element, in the order of the elements.
Signed integers have their first bit flipped, floats theirs and, if negative, all others; nan is the
greatest, and -0 equals 0 ("Radix Tricks", M. Herf, 2001). The bits of keys are inverted for the
order from the greatest down, so nan comes first there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..dims import as_int, symbol
from ..dtype import DTYPES, INT64, DType
from ..loop.expr import Expr, cast, const, index, op, read, select
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Alloc, Loop, Sort, Stmt, Store
from ..loop.prim import Buffer
from ..loop.tensor import Tensor
from .declare import Body
from .small_systems import Code

STACK_ROW_BYTES = 1 << 16  # of a buffer on the stack; longer ones are in the workspace


def key_type(dtype: DType) -> DType:
    """Returns the dtype of an element's key."""
    return DTYPES["uint8" if dtype.is_bool else f"uint{dtype.bits}"]


def key(value: Expr, descending: bool = False, equal_zeros: bool = True) -> Expr:
    """Returns the key of an element; see the module.

    Without ``equal_zeros``, -0 is before 0, and ``element`` gives the element back (but any nan).
    """
    dtype, kind = value.dtype, key_type(value.dtype)
    first = const(1 << (kind.bits - 1), kind)
    ones = const((1 << kind.bits) - 1, kind)
    if dtype.is_float:
        number = op("add", value, const(0.0, dtype)) if equal_zeros else value  # -0 + 0 is 0
        bits = op("bits", number)
        negative = op("not_equal", op("bitwise_and", bits, first), const(0, kind))
        ordered = op("bitwise_xor", bits, select(negative, ones, first))
        made = select(op("isnan", value), ones, ordered)
    elif dtype.is_signed:
        made = op("bitwise_xor", cast(value, kind), first)
    else:
        made = cast(value, kind)
    return op("bitwise_xor", made, ones) if descending else made


def element(made: Expr, dtype: DType, descending: bool) -> Expr:
    """Returns the element of a key that was made without ``equal_zeros``."""
    kind = made.dtype
    first = const(1 << (kind.bits - 1), kind)
    ones = const((1 << kind.bits) - 1, kind)
    made = op("bitwise_xor", made, ones) if descending else made
    if dtype.is_float:
        positive = op("not_equal", op("bitwise_and", made, first), const(0, kind))
        return op("from_bits", op("bitwise_xor", made, select(positive, first, ones)))
    return cast(op("bitwise_xor", made, first) if dtype.is_signed else made, dtype)


def in_vectors(x: Tensor, descending: bool) -> Body:
    """Returns the body that sorts elements of 16 bits or more in vectors: integers in the result,
    others by their keys, which have 32 bits or more."""
    rows, size = x.shape
    if 0 in (rows, size):
        return Body(lambda _out: [])
    r, n, direct = symbol("r"), symbol("n"), x.dtype.is_integer and x.dtype.bits >= 32
    narrow = key_type(x.dtype)
    wide = DTYPES[f"uint{max(32, x.dtype.bits)}"]
    keys = Buffer("keys", (rows, size), wide)
    on_stack = isinstance(size, int) and size * wide.bytes <= STACK_ROW_BYTES

    def inverted(value: Expr) -> Expr:
        return op("bitwise_not", value) if descending else value

    def row(*stmts: Stmt) -> Sequence[Stmt]:
        return [Loop(LoopKind.FOR, "r", rows, stmts)]

    def each(stmt: Stmt) -> Stmt:
        return Loop(LoopKind.FOR, "n", size, (stmt,))

    def in_place(out: str) -> Sequence[Stmt]:
        given = Store(out, (r, n), inverted(x(r, n)))
        back = Store(out, (r, n), inverted(read(out, (r, n), x.dtype)))
        return row(each(given), Sort(out, (r, 0), size), *([each(back)] if descending else []))

    def by_keys(out: str) -> Sequence[Stmt]:
        here = 0 if on_stack else r
        made = cast(key(x(r, n), descending, equal_zeros=False), wide)
        back = element(cast(read("keys", (here, n), wide), narrow), x.dtype, descending)
        private = [Alloc(Buffer("keys", (1, size), wide), Scope.STACK)] if on_stack else []
        return row(
            *private,
            each(Store("keys", (here, n), made)),
            Sort("keys", (here, 0), size),
            each(Store(out, (r, n), back)),
        )

    if direct:
        return Body(in_place)
    return Body(by_keys, () if on_stack else (keys,))


def network(size: int) -> Iterator[tuple[int, int]]:
    """Yields the pairs of places, the lesser first, whose elements are put in order one pair after
    the other to sort ``size`` of them (K. Batcher, Sorting networks and their applications, 1968:
    sorted runs of odd and even places are merged).

    >>> list(network(3))
    [(0, 1), (0, 2), (1, 2)]
    """
    run = 1
    while run < size:
        step = run
        while step:
            for first in range(step % run, size - step, 2 * step):
                for low in range(first, min(first + step, size - step)):
                    if low // (2 * run) == (low + step) // (2 * run):
                        yield low, low + step
            step //= 2
        run *= 2


def by_network(x: Tensor, descending: bool, positions: bool) -> Body:
    """Returns the body that sorts each column of ``x`` by comparing pairs of its elements, the same
    for all columns, so that these run in lanes. Keys whose positions are sorted have them below."""
    code, size = Code(), as_int(x.shape[0])

    def with_place(made: Expr, n: int) -> Expr:
        return op("bitwise_or", op("left_shift", cast(made, INT64), const(8, INT64)), index(n))

    keys = [key(x(n, symbol("r")), descending, equal_zeros=positions) for n in range(size)]
    keys = [code.keep(with_place(k, n) if positions else k) for n, k in enumerate(keys)]
    for low, high in network(size):
        lesser, greater = (f(keys[low], keys[high]) for f in (code.minimum, code.maximum))
        keys[low], keys[high] = lesser, greater
    if positions:
        return code.body(x.shape[1], [op("bitwise_and", k, const(255, INT64)) for k in keys])
    return code.body(x.shape[1], [element(k, x.dtype, descending) for k in keys])

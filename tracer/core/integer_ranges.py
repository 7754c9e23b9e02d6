"""Integers of a traced function as expressions, and what is certain of them while it is traced.

``as_dim`` writes an integer as an expression over the values that it is computed from; the ranges
of those are known of counters of loops, remainders, limited values and elements of constant arrays.
``is_certain`` proves relations of such expressions, so that ``x[i * 4:i * 4 + 4]`` in a loop over
``n // 4`` needs no check that it lies inside of ``x``.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.dims import NEGATED, Dim, IntExpr, floordiv, int_max, int_min, mod, symbol, symbols
from ...ir.graph.nodes import Constant
from ...ir.graph.operator import OPERATORS, Pattern
from ...ir.loop.scalar import SCALAR_OPS
from ...ir.traits import Trait
from ..memory.regions import Emitter

if TYPE_CHECKING:
    from ...ir.dim_proofs import Fact


def as_dim(trace: Emitter, value: Any) -> IntExpr:
    """Returns an integer as an expression over the atoms that it is computed from, so that two can
    be compared: ``(i + 1) * 4 - i * 4`` is 4.

    Atoms are not the same in different runs, and so are not their names here.
    """
    if isinstance(value, int | Dim):
        return value
    if isinstance(value, Constant) and value.value.size == 1:
        return int(value.value.reshape(()))
    dims = trace.values.dims
    if value not in dims:
        dims[value] = _as_dim(trace, value)
    return dims[value]


def _as_dim(trace: Emitter, value: Any) -> IntExpr:
    dtype: Any = value.type.dtype
    definition: Any = trace.values.definitions.get(value)
    # Sums and products that wrap around are equal to these expressions once they are in range;
    # narrow integers may be in range and wrap, and unsigned ones that are cast.
    narrow = dtype.bits < (32 if dtype.is_signed else 64)
    if definition is None or not dtype.is_integer or narrow:
        return _named(trace, value)
    name, args, attrs = definition
    if name in ("full", "set_size"):
        return attrs["fill_value" if name == "full" else "size"]
    op = OPERATORS[name]
    each = op.pattern <= Pattern.BROADCAST or Trait.VIEW in op.traits
    if not each or any(not arg.type.dtype.is_integer for arg in args):
        return _named(trace, value)
    if dtype.bits < 64 and not op.traits & _WRAPS:
        return _named(trace, value)
    match name, [as_dim(trace, arg) for arg in args]:
        case "add", [one, other]:
            return one + other
        case "subtract", [one, other]:
            return one - other
        case "multiply", [one, other]:
            return one * other
        case "cast", [one]:
            return one
        case "reshape", [one] if value.type.size == 1:  # elements of others move
            return one
        case "minimum", [one, other]:
            return int_min(one, other)
        case "maximum", [one, other]:
            return int_max(one, other)
        case "clip", [one]:
            low, high = attrs["a_min"], attrs["a_max"]
            one = one if low is None else int_max(one, int(low))
            return one if high is None else int_min(one, int(high))
        case "floor_divide", [one, int(divisor)] if divisor > 0:
            return floordiv(one, divisor)
        case "floor_mod", [one, int(divisor)] if divisor > 0:
            return mod(one, divisor)
        case _:
            return _named(trace, value)


_WRAPS = Trait.LINEAR | Trait.MULTILINEAR | Trait.MOVES
"""Traits of operators on integers whose results are right but for multiples of 2 ** bits if their
operands are."""


def _named(trace: Emitter, value: Any) -> IntExpr:
    """A symbol for a value, the same for the same value, as ``x[0]`` is of another ``x[0]``; what
    is known of its range is noted."""
    values, name = trace.values, f"at{trace.values.number(value)}"
    if name not in values.ranges and (ends := _range(trace, value)) is not None:
        values.ranges[name] = ends
    return symbol(name)


def _definition(trace: Emitter, value: Any) -> tuple[str, Any, Mapping[str, Any]]:
    return trace.values.definitions.get(value) or ("", (), {})


def _range(trace: Emitter, value: Any) -> tuple[IntExpr, IntExpr] | None:
    """The least and the greatest value that an integer may have, as far as that is known."""
    if (extent := trace.values.extents.get(value)) is not None:
        return 0, as_dim(trace, extent) - 1
    name, args, attrs = _definition(trace, value)
    if name == "where":
        one, other = (as_dim(trace, arg) for arg in args[1:])
        if value.type.dtype.bits < 64:
            return int_min(one, other), int_max(one, other)
        return _chosen(trace, args[0], one, other)
    source: Any = value
    while name and Trait.PICKS in OPERATORS[name].traits:
        source = args[0]
        name, args, attrs = _definition(trace, source)
    match name:
        case "iota":
            return 0, attrs["shape"][attrs.get("axis", 0)] - 1
        case "arange" if attrs.get("start", 0) == 0 and attrs.get("step", 1) == 1:
            return 0, attrs["stop"] - 1
        case "argmax" | "argmin" | "nn.argsort" | "nn.top_k_indices" | "random_order":
            axis = attrs.get("axis")
            return 0, (args[0].type.size if axis is None else args[0].type.shape[axis]) - 1
        case "true_places":
            ends = [0, args[0].type.size - 1]  # as many as there are, or with others behind
            ends += [attrs.get("fill", 0)] if isinstance(attrs["size"], int) else []
            return functools.reduce(int_min, ends), functools.reduce(int_max, ends)
        case "floor_mod" if args[1].type.size == 1:
            divisor = as_dim(trace, args[1])
            return (0, divisor - 1) if _proved(trace, divisor, ">", 0) else None
        case "clip" if None not in (ends := [attrs["a_min"], attrs["a_max"]]):
            return int(min(ends)), int(ends[1])
        case "cast" if args[0].type.dtype.is_bool:
            return 0, 1
        case "bitwise_and" if isinstance(m := as_dim(trace, args[1]), int) and 0 <= m < 1 << 31:
            return 0, m
        case _:
            pass
    dtype = source.type.dtype
    if isinstance(source, Constant) and source.value.size and dtype.is_integer:
        return int(source.value.min()), int(source.value.max())
    if dtype.is_integer and not (dtype.is_signed and dtype.bits == 64):
        limits = np.iinfo(dtype.numpy)
        return int(limits.min), int(limits.max)
    return None


_BOTH = {True: ("logical_and", "bitwise_and"), False: ("logical_or", "bitwise_or")}


def facts(trace: Emitter, condition: Any, holds: bool = True) -> Iterator[Fact]:
    """Yields what is certain of integers where a condition holds, or where it does not."""
    name, args, _ = _definition(trace, condition)
    if name in _BOTH[holds] or name == "logical_not":
        for arg in args:
            yield from facts(trace, arg, holds != (name == "logical_not"))
    elif (
        (row := SCALAR_OPS.get(name)) is not None
        and row.compares
        and all(a.type.dtype.is_signed and a.type.dtype.bits == 64 for a in args)
    ):
        left, right = (as_dim(trace, arg) for arg in args)
        relation = row.symbol if holds else NEGATED[row.symbol]
        if relation not in ("==", "!="):
            yield left, relation, right


def _held(trace: Emitter, condition: Any, holds: bool, value: IntExpr) -> tuple[IntExpr, IntExpr]:
    """The ends of an integer where a condition holds, or does not: ``i`` where ``i < n``."""
    low = high = value
    for left, relation, right in facts(trace, condition, holds):
        less, apart = relation[0] == "<", len(relation) == 1
        for one, other, below in ((left, right, less), (right, left, not less)):
            if isinstance(behind := value - one, int) and below:
                high = int_min(high, other + behind - apart)
            elif isinstance(behind, int):
                low = int_max(low, other + behind + apart)
    return low, high


def _chosen(
    trace: Emitter, condition: Any, one: IntExpr, other: IntExpr
) -> tuple[IntExpr, IntExpr]:
    """The ends of what is ``one`` where a condition holds, and ``other`` where it does not."""
    (a, b), (c, d) = _held(trace, condition, True, one), _held(trace, condition, False, other)
    return int_min(a, c), int_max(b, d)


def note_choice(trace: Emitter, value: Any, condition: Any, one: IntExpr, other: IntExpr) -> None:
    """Notes the ends of a branch's integer that is ``one`` where a condition holds."""
    name = str(_named(trace, value))
    trace.values.ranges[name] = _chosen(trace, condition, one, other)


def is_certain(trace: Emitter, left: IntExpr, relation: str, right: IntExpr) -> bool:
    """True if a relation of expressions of ``as_dim`` is proved where the trace is; if not, it is
    noted that it is open."""
    values = trace.values
    if not (certain := _proved(trace, left, relation, right, values.facts)):
        values.open.append((left, relation, right))
    return certain


def _proved(
    trace: Emitter, left: IntExpr, relation: str, right: IntExpr, given: Sequence[Fact] = ()
) -> bool:
    from ...ir.dim_proofs import prove  # loaded when it is first needed

    ranges = trace.values.ranges
    needed: set[str] = set()
    chosen: list[Fact] = []
    work = [left, right]
    while work:
        for name in symbols(work.pop()) - needed:
            needed.add(name)
            work += ranges.get(name, ())
            for fact in given:
                if fact not in chosen and name in symbols(fact[0]) | symbols(fact[2]):
                    chosen.append(fact)
                    work += (fact[0], fact[2])
    inside = {name: ends for name, ends in ranges.items() if name in needed}
    return prove(left, relation, right, inside, chosen) is True


@contextmanager
def assuming(trace: Emitter, certain: Iterable[Fact] = ()) -> Generator[list[Fact], None, None]:
    """Takes facts for certain in the body, which may add others to the list."""
    values = trace.values
    outer, values.facts = values.facts, [*values.facts, *certain]
    try:
        yield values.facts
    finally:
        values.facts = outer


def invariants(
    trace: Emitter, carries: Sequence[tuple[IntExpr, IntExpr, IntExpr]], opened: Sequence[Fact]
) -> list[tuple[int, str, IntExpr]]:
    """Returns relations of the carries of a loop, by their numbers, to what carries begin as, that
    hold in every iteration; none if they prove nothing of what was ``opened`` in the body.

    Of each carry what it is, begins as and goes on as is given. Guesses are what holds at first;
    dropped is what an iteration does not keep (Flanagan and Leino, "Houdini", 2001).
    """
    given = trace.values.facts
    begins = {bound for _, b, _ in carries for bound in (b, *trace.values.ranges.get(str(b), ()))}
    ends = dict.fromkeys((r, bound) for bound in begins for r in (">=", "<="))
    ends |= dict.fromkeys((r, bound) for _, r, bound in opened if isinstance(bound, int))
    guesses = [
        (number, relation, bound)
        for number, (_, begin, _) in enumerate(carries)
        for relation, bound in ends
        if _proved(trace, begin, relation, bound, given)
    ]
    while True:
        certain = [*given, *((carries[n][0], relation, b) for n, relation, b in guesses)]
        kept = [g for g in guesses if _proved(trace, carries[g[0]][2], g[1], g[2], certain)]
        if len(kept) == len(guesses):
            break
        guesses = kept
    return guesses if any(_proved(trace, *each, certain) for each in opened) else []

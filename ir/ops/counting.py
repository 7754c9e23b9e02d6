"""Counts: how often each number occurs, where a mask is True, and sizes that data decides.

By ``set_size`` the value of an int64 scalar becomes a symbolic size. The types and attributes of
what follows, to the end of the block, may have the size in them: it is what ``match_cast`` is in
Relax. Its upper bound says how much memory there must be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..dim_proofs import prove
from ..dims import Dim, IntExpr, Symbol, bounds, size, symbol, typical
from ..dtype import INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import cast, const, index, read
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, At, If, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.tensor import Tensor
from ..traits import Trait
from .declare import Body, attr, primitive
from .sampling import ints, sample, truths

INTERLEAVED = 4  # counters of each number: equal neighbours wait for one another's store otherwise
PARTS = 8  # parts of a long array, which threads count by themselves
PART_SIZE = 1 << 14  # elements of a part from which it is worth a thread
COUNTER_BYTES = 1 << 15  # of the counters of a part; more counters are not interleaved


def _for(var: str, extent: IntExpr, *body: Stmt) -> Loop:
    return Loop(LoopKind.FOR, var, extent, body)


def _count_rule(x: TensorType, bins: Any) -> TensorType:
    if x.rank != 1 or not (x.dtype.is_integer or x.dtype.is_bool):
        raise LoopwrightTypeError(f"one axis of integers or bools is counted, not {x.short}")
    if isinstance(bins, Dim):
        raise UnsupportedError(
            f"{bins} numbers to count, a symbolic size", hint="a number of bins that is known"
        )
    if not isinstance(bins, int) or bins < 1:
        raise LoopwrightValueError(f"{bins} numbers to count; one or more are needed")
    return TensorType((bins,), INT64)


def _count_reference(x: Any, bins: int) -> Any:
    wide = x.astype(np.int64)
    inside = (wide >= 0) & (wide < bins)
    if x.dtype == np.uint64:
        inside &= x < bins
    return np.bincount(wide[inside], minlength=bins)


@primitive(
    "count",
    Pattern.OPAQUE,
    rule=_count_rule,
    reference=_count_reference,
    samples=lambda rng: [
        sample(ints(rng, (37,), "int64", -2, 9), bins=7),
        sample(ints(rng, (900,), "uint8"), bins=256),
        sample(truths(rng, (9,)), bins=2),
        sample(ints(rng, (0,), "int32"), bins=3),
        sample(ints(rng, (PARTS * PART_SIZE + 5,), "int8", 0, 9), bins=5),
    ],
)
def _count(_out: TensorType, x: Tensor, *, bins: int = attr("how many numbers to count")) -> Body:
    """The number of times that each number below ``bins`` occurs, int64; others are not counted.

    ``x`` of integers or bools on one axis. LoopwrightTypeError for another operand.

        fn (%x: Tensor[(37), int32]) -> Tensor[(9), int64] {
          count(%x, bins=9)
        }
    """
    size, usual = x.shape[0], typical(x.shape[0])
    parts = PARTS if usual >= PARTS * PART_SIZE and 4 * PARTS * bins <= usual else 1
    copies = INTERLEAVED if usual >= INTERLEAVED and INTERLEAVED * bins * 8 <= COUNTER_BYTES else 1
    each, rest = size // (parts * copies), size % (parts * copies)
    n, p, c, b, f = (symbol(name) for name in "npcbf")
    counters = Buffer("counters", (parts, copies, bins), INT64)

    def counted(part: Any, copy: Any, place: Any) -> Stmt:
        add = Accumulate("counters", (part, copy, f), "sum", const(1, INT64))
        return At.of("f", bins, cast(x(place), INT64), add)

    def statements(name: str) -> Sequence[Stmt]:
        clear = Store("counters", (p, c, b), const(0, INT64))
        steps = [_for("c", copies, _for("b", bins, clear))]
        if each != 0:
            neighbours = counted(p, c, (p * each + n) * copies + c)
            steps.append(_for("n", each, Loop(LoopKind.UNROLL, "c", copies, (neighbours,))))
        total = Accumulate(name, (b,), "sum", read("counters", (p, c, b), INT64))
        return [
            _for("p", parts, *steps),
            *([_for("r", rest, counted(0, 0, symbol("r") + (size - rest)))] if rest != 0 else []),
            _for("b", bins, Store(name, (b,), const(0, INT64))),
            _for("p", parts, _for("c", copies, _for("b", bins, total))),
        ]

    return Body(statements, (counters,))


def _places_rule(mask: TensorType, size: Any, **_: Any) -> TensorType:
    if mask.rank != 1 or not mask.dtype.is_bool:
        raise LoopwrightTypeError(f"one axis of bools has places, not {mask.short}")
    if isinstance(size, bool) or not isinstance(size, int | Dim) or prove(size, "<", 0):
        raise LoopwrightValueError(f"{size} places; the number is 0 or more")
    return TensorType((size,), INT64)


def _places_reference(mask: Any, size: int, fill: int) -> Any:
    places = np.flatnonzero(mask)[:size]
    return np.concatenate([places, np.full(size - places.size, fill)]).astype(np.int64)


@primitive(
    "true_places",
    Pattern.OPAQUE,
    rule=_places_rule,
    reference=_places_reference,
    samples=lambda rng: [
        sample(truths(rng, (37,)), size=9),
        sample(truths(rng, (7,)), size=9, fill=-1),
        sample(truths(rng, (0,)), size=2),
        sample(truths(rng, (5,)), size=0),
    ],
)
def _true_places(
    _out: TensorType,
    mask: Tensor,
    *,
    size: int = attr("number of places"),
    fill: int = attr("what stands behind the last place", 0),
) -> Body:
    """The places of the first True elements in their order, int64, then ``fill``.

    ``mask`` is bool and has one axis. LoopwrightTypeError for another operand.

        fn (%mask: Tensor[(37), bool]) -> Tensor[(9), int64] {
          true_places(%mask, size=9)
        }
    """
    n, q, z = symbol("n"), symbol("q"), symbol("z")
    next_place = read("next", (0,), INT64)

    def statements(name: str) -> Sequence[Stmt]:
        if size == 0:
            return []
        kept = (
            At.of("q", size, next_place, Store(name, (q,), index(n))),
            Accumulate("next", (0,), "sum", const(1, INT64)),
        )
        stmts: list[Stmt] = [_for("z", size, Store(name, (z,), const(fill, INT64)))]
        if mask.shape[0] != 0:
            stmts += [
                Alloc(Buffer("next", (1,), INT64), Scope.REGISTERS),
                Store("next", (0,), const(0, INT64)),
                _for("n", mask.shape[0], If(mask(n), kept)),
            ]
        return stmts

    return Body(statements)


def symbol_of(size: object) -> Symbol:
    """Returns the symbol that an attribute is; LoopwrightValueError for anything else."""
    if isinstance(size, Dim) and len(size.terms) == 1:
        ((atoms, coefficient),) = size.terms
        if coefficient == 1 and len(atoms) == 1 and isinstance(atoms[0], Symbol):
            return atoms[0]
    raise LoopwrightValueError(f"{size} is not a symbolic size")


def _infer_size(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    if len(types) != 1:
        raise LoopwrightTypeError(f"set_size: takes 1 operand, not {len(types)}")
    if types[0] != TensorType((), INT64):
        raise LoopwrightTypeError(f"a size is an int64 scalar, not {types[0]}")
    symbol, inside = symbol_of(attrs["size"]), bounds(attrs["most"], {})
    if symbol.low != 0 or symbol.high is None or inside is None or inside[1] > symbol.high:
        raise LoopwrightValueError(
            f"the range of {symbol} is not from 0 to {attrs['most']} or more"
        )
    return types[0]


def _size_reference(arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    value = int(arrays[0])
    if not 0 <= value <= (attrs["most"] if isinstance(attrs["most"], int) else value):
        raise LoopwrightValueError(f"a size is {value}, and at most {attrs['most']}")
    return arrays[0]


def _size_samples(_rng: np.random.Generator) -> Sequence[Sample]:
    return [Sample((np.array(3),), {"size": size("s", 0, 8), "most": 8})]


_SIZE_DOC = """A symbolic size gets the value of a scalar.

The operand is an int64 scalar from 0 to ``most``, and so is the result. LoopwrightTypeError for
another operand, LoopwrightValueError where the range of the size is another one.

    fn[s in 0..8](%count: Tensor[(), int64]) -> Tensor[(), int64] {
      set_size(%count, size=s, most=8)
    }
"""

register(
    Operator(
        name="set_size",
        doc=_SIZE_DOC,
        params=("count",),
        pattern=Pattern.OPAQUE,
        infer=_infer_size,
        reference=_size_reference,
        samples=_size_samples,
        attrs=(
            Attr("size", "the symbolic size", kind="Any"),
            Attr("most", "its upper bound, an expression over sizes", kind="Any"),
        ),
        traits=Trait.LIBRARY | Trait.SETS_SIZE,
    )
)

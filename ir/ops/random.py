"""Random numbers by counter: each element is a function of a key and of its position.

The generator turns a counter and a key into random words. An array takes 4 words of each of the
counters 0, 1, 2, ...; ``LANES`` counters beside each other make a block, in which one value of each
of them is contiguous, so that vectors are stored whole. An element depends on nothing but the key
and its position: not on the number of threads, not on the width of vectors, not on the length of
the array.

The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
as 1, 2, 3" (SC 2011). A key has four words, of which two are the generator's key and two the upper
half of its counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import pi
from typing import Any, NamedTuple

import numpy as np

from ..dims import IntExpr, int_min, symbol
from ..dtype import DTYPES, FLOAT64, INT32, INT64, UINT64, DType
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import dtype_attr, sizes_of
from ..graph.types import TensorType
from ..loop.expr import cast, const, index, op, read
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Alloc, At, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.scalar import SCALAR_OPS
from ..loop.tensor import Tensor
from .declare import Body, attr, primitive
from .sampling import sample

LANES = 16
"""Counters of a block. It is a part of what a key means: changing it changes every stream."""

MOST_VALUES = 1 << 32
"""Values of one array: their counters are below 2**32, and the next word tells streams apart."""

UINT32 = DTYPES["uint32"]
_LOW = (1 << 32) - 1


class Arithmetic(NamedTuple):
    """The arithmetic in which generators and distributions are written once, for expressions and
    for arrays of NumPy's: ``op(name, *operands)`` of the scalar table, casts and constants."""

    op: Callable[..., Any]
    cast: Callable[[Any, DType], Any]
    const: Callable[[Any, DType], Any]

    def number(self, x: Any, dtype: DType) -> Any:
        return self.const(x, dtype) if isinstance(x, int | float) else x

    def add(self, x: Any, y: Any, dtype: DType = UINT64) -> Any:
        return self.op("add", x, self.number(y, dtype))

    def multiply(self, x: Any, y: Any, dtype: DType = UINT64) -> Any:
        return self.op("multiply", x, self.number(y, dtype))

    def shifted(self, x: Any, count: int, dtype: DType = UINT64) -> Any:
        """``x >> count``; ``x << -count`` for a negative count."""
        name = "right_shift" if count > 0 else "left_shift"
        return self.op(name, x, self.const(abs(count), dtype))

    def low(self, x: Any) -> Any:
        """The low 32 bits of a uint64."""
        return self.op("bitwise_and", x, self.const(_LOW, UINT64))

    def wide(self, high: Any, low: Any) -> Any:
        """64 bits of two words."""
        return self.op("bitwise_or", self.shifted(high, -32), self.low(low))


EXPRESSIONS = Arithmetic(op, cast, const)
NUMPY = Arithmetic(
    lambda name, *args: SCALAR_OPS[name].numpy(*args),
    lambda x, dtype: x.astype(dtype.numpy),
    lambda x, dtype: dtype.numpy.type(x),
)

# -- generators -------------------------------------------------------------------------------


def philox(a: Arithmetic, counter: Sequence[Any], key: Sequence[Any]) -> tuple[Any, ...]:
    """Returns four words of Philox4x32-10 for a counter of four and a key of two.

    Words are uint32. They are computed in 64 bits, whose upper halves are arbitrary: a product of
    32-bit numbers reads the lower ones alone, and that is one instruction on every machine.
    """
    c0, c1, c2, c3 = (a.cast(c, UINT64) for c in counter)
    for step in range(10):
        k0 = a.cast(a.add(key[0], step * 0x9E3779B9 & _LOW, UINT32), UINT64)
        k1 = a.cast(a.add(key[1], step * 0xBB67AE85 & _LOW, UINT32), UINT64)
        p0 = a.multiply(a.low(c0), 0xD2511F53)
        p1 = a.multiply(a.low(c2), 0xCD9E8D57)
        c0 = a.op("bitwise_xor", a.op("bitwise_xor", a.shifted(p1, 32), c1), k0)
        c2 = a.op("bitwise_xor", a.op("bitwise_xor", a.shifted(p0, 32), c3), k1)
        c1, c3 = p1, p0
    return c0, c1, c2, c3


def words_of(a: Arithmetic, place: Any, stream: int, key: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the four words of a counter, in the lower halves of uint64."""
    return philox(a, (place, a.const(stream, UINT32), key[2], key[3]), key[:2])


# -- distributions ----------------------------------------------------------------------------


class Distribution(NamedTuple):
    """``values(arithmetic, words, dtype, *params)`` makes values of four words.

    ``params`` are the dtypes of parameters, None for that of the result; all are given, or none if
    they are not needed.
    ``counts`` are the numbers of values by bits of the result's dtype.
    """

    dtypes: tuple[str, ...]
    counts: Mapping[int, int]
    values: Callable[..., Sequence[Any]]
    params: tuple[DType | None, ...] = ()
    needs_params: bool = False


def _pairs(words: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(words[::2], words[1::2], strict=True)


def _bits(a: Arithmetic, words: Sequence[Any], dtype: DType) -> Sequence[Any]:
    if dtype.bits == 64:
        return [a.wide(x, y) for x, y in _pairs(words)]
    return [a.cast(word, dtype) for word in words]


def _fractions(a: Arithmetic, words: Sequence[Any], dtype: DType) -> Sequence[Any]:
    """Floats in [0, 1): multiples of 2**-24, or of 2**-53."""
    unused = dtype.bits - 1 - dtype.fraction_bits
    whole = UINT32 if dtype.bits == 32 else UINT64
    scale = 2.0 ** -(dtype.fraction_bits + 1)
    return [
        a.multiply(a.cast(a.shifted(bits, unused, whole), dtype), scale, dtype)
        for bits in _bits(a, words, whole)
    ]


def _positive_fractions(a: Arithmetic, words: Sequence[Any], dtype: DType) -> Sequence[Any]:
    """Floats in (0, 1], which are finer close to 0."""
    half = 2.0 ** -(33 if dtype.bits == 32 else 54)
    if dtype.bits == 32:
        numbers = [a.cast(a.cast(word, UINT32), dtype) for word in words]
    else:
        numbers = [a.cast(a.shifted(a.wide(x, y), 11), dtype) for x, y in _pairs(words)]
    return [a.add(a.multiply(n, 2 * half, dtype), half, dtype) for n in numbers]


def _uniform(
    a: Arithmetic, words: Sequence[Any], dtype: DType, low: Any = None, high: Any = None
) -> Sequence[Any]:
    fractions = _fractions(a, words, dtype)
    if low is None:
        return fractions
    width = a.op("subtract", high, low)
    return [a.add(a.multiply(f, width, dtype), low, dtype) for f in fractions]


def _normal(
    a: Arithmetic, words: Sequence[Any], dtype: DType, mean: Any = None, std: Any = None
) -> Sequence[Any]:
    """Box and Muller, "A note on the generation of random normal deviates" (1958)."""
    if dtype.bits == 32:
        angles = [a.cast(a.cast(a.cast(w, UINT32), INT32), dtype) for w in words[1::2]]
        unit, radii = 2 * pi / 2**32, _positive_fractions(a, words[::2], dtype)
    else:
        signed = a.cast(a.wide(words[2], words[3]), DTYPES["int64"])
        bits = a.op("right_shift", signed, a.const(11, DTYPES["int64"]))
        angles, unit = [a.cast(bits, dtype)], 2 * pi / 2**53
        radii = _positive_fractions(a, words[:2], dtype)
    values = []
    for fraction, angle in zip(radii, angles, strict=True):
        square = a.multiply(a.op("log", fraction), -2.0, dtype)
        radius, radians = a.op("sqrt", square), a.multiply(angle, unit, dtype)
        for name in ("cos", "sin"):
            value = a.multiply(a.op(name, radians), radius, dtype)
            if mean is not None:
                value = a.add(a.multiply(value, std, dtype), mean, dtype)
            values.append(value)
    return values


def _exponential(a: Arithmetic, words: Sequence[Any], dtype: DType) -> Sequence[Any]:
    return [a.op("negative", a.op("log", f)) for f in _positive_fractions(a, words, dtype)]


def _bernoulli(a: Arithmetic, words: Sequence[Any], _dtype: DType, p: Any) -> Sequence[Any]:
    """True where a word is less than ``p * 2**32``."""
    bound = a.multiply(p, 2.0**32, FLOAT64)
    return [a.op("less", a.cast(a.cast(w, UINT32), FLOAT64), bound) for w in words]


def _integers(
    a: Arithmetic, words: Sequence[Any], dtype: DType, low: Any, last: Any
) -> Sequence[Any]:
    """``low + floor(x * (last + 1))`` for 64-bit fractions x, where ``last`` is below 2**32."""
    values = []
    for high, lower in _pairs([a.low(w) for w in words]):
        carry = a.shifted(a.add(a.multiply(lower, a.low(last)), lower), 32)
        whole = a.add(a.add(a.multiply(high, a.low(last)), high), carry)
        values.append(a.op("add", a.cast(a.shifted(whole, 32), dtype), low))
    return values


def _wide_integers(
    a: Arithmetic, words: Sequence[Any], dtype: DType, low: Any, last: Any
) -> Sequence[Any]:
    """``low + floor(x * (last + 1))`` for 96-bit fractions x: a product in digits of 32 bits."""
    digits = [a.low(w) for w in reversed(words[:3])]
    factors = a.low(last), a.shifted(last, 32)
    carry, rows = None, []
    for digit in digits:
        total = a.add(a.multiply(digit, factors[0]), digit)
        total = total if carry is None else a.add(total, carry)
        rows.append(a.low(total))
        carry = a.shifted(total, 32)
    rows, carry, total = [*rows[1:], carry], None, None
    for digit, below in zip(digits, rows, strict=True):
        total = a.add(a.multiply(digit, factors[1]), below)
        total = total if carry is None else a.add(total, carry)
        carry = a.shifted(total, 32)
    return [a.op("add", a.cast(a.wide(carry, total), dtype), low)]


_FLOATS = ("float32", "float64")
_INTEGERS = tuple(d.name for d in DTYPES.values() if d.is_integer)
_HALVES: dict[int, int] = dict.fromkeys((8, 16, 32, 64), 2)

DISTRIBUTIONS: dict[str, Distribution] = {
    "bits": Distribution(("uint32", "uint64"), {32: 4, 64: 2}, _bits),
    "uniform": Distribution(_FLOATS, {32: 4, 64: 2}, _uniform, (None, None)),
    "normal": Distribution(_FLOATS, {32: 4, 64: 2}, _normal, (None, None)),
    "exponential": Distribution(_FLOATS, {32: 4, 64: 2}, _exponential),
    "bernoulli": Distribution(("bool",), {1: 4}, _bernoulli, (FLOAT64,), True),
    "integers": Distribution(_INTEGERS, _HALVES, _integers, (None, UINT64), True),
    "wide_integers": Distribution(
        ("int64", "uint64"), {64: 1}, _wide_integers, (None, UINT64), True
    ),
}

# -- the operator -----------------------------------------------------------------------------


def _rule(
    key: TensorType,
    start: TensorType,
    *params: TensorType,
    distribution: Any,
    generator: Any,
    size: Any,
    dtype: Any,
    **_: Any,
) -> TensorType:
    result, row = dtype_attr(dtype), DISTRIBUTIONS.get(distribution)
    if generator != "philox":
        raise LoopwrightValueError(f"there is no generator {generator!r}", hint="'philox'")
    if row is None:
        raise LoopwrightValueError(f"{distribution!r} is none of {', '.join(DISTRIBUTIONS)}")
    if key.short != "uint32[4]" or start.short != "uint32[]":
        raise LoopwrightTypeError(
            f"a key is uint32[4] and the first counter uint32, not {key.short} and {start.short}"
        )
    if result.name not in row.dtypes:
        raise LoopwrightTypeError(f"{distribution} of {result}", hint=f"dtype={row.dtypes[-1]!r}")
    wanted = [TensorType((), given or result) for given in row.params]
    if (params and [*params] != wanted) or (row.needs_params and not params):
        kinds = ", ".join(t.dtype.name for t in wanted) or "none"
        raise LoopwrightTypeError(f"the parameters of {distribution} are scalars: {kinds}")
    (length,) = sizes_of(size)
    if not isinstance(length, int) or length > MOST_VALUES:
        raise LoopwrightValueError(f"the size is an int of at most {MOST_VALUES}, not {length}")
    return TensorType((length,), result)


def _reference(
    key: Any,
    start: Any,
    *params: Any,
    distribution: str,
    size: int,
    dtype: str,
    stream: int,
    **_: Any,
) -> Any:
    result = DTYPES[dtype]
    row, length = DISTRIBUTIONS[distribution], size
    per_block = row.counts[result.bits] * LANES
    places = np.arange(-(-length // per_block) * LANES, dtype=np.uint32) + start[()]
    words = words_of(NUMPY, places, stream, [np.uint32(word) for word in key])
    values = row.values(NUMPY, words, result, *(p[()] for p in params))
    blocks = [np.reshape(v, (-1, LANES)) for v in np.broadcast_arrays(*values)]
    return np.stack(blocks, axis=1).reshape(-1)[:length].astype(result.numpy)


def _samples(rng: np.random.Generator) -> Sequence[Sample]:
    def drawn(distribution: str, dtype: str, size: int, *params: Any) -> Sample:
        key = rng.integers(0, 1 << 32, 4, np.uint32)
        start = np.asarray(rng.integers(0, 1 << 32, dtype=np.uint32))
        kinds = DISTRIBUTIONS[distribution].params[: len(params)]
        scalars = [
            np.asarray(p, (kind or DTYPES[dtype]).numpy)
            for p, kind in zip(params, kinds, strict=True)
        ]
        attrs = {"distribution": distribution, "generator": "philox", "size": size}
        return sample(key, start, *scalars, **attrs, dtype=dtype, stream=0)

    return [
        drawn("bits", "uint32", 200),
        drawn("bits", "uint64", 77),
        drawn("uniform", "float32", 131),
        drawn("uniform", "float64", 70, -2.0, 5.0),
        drawn("normal", "float32", 150),
        drawn("normal", "float64", 67, 3.0, 0.5),
        drawn("exponential", "float32", 40),
        drawn("bernoulli", "bool", 99, 0.3),
        drawn("integers", "int8", 100, -100, 200),
        drawn("integers", "int64", 70, -5, 2**32 - 1),
        drawn("integers", "uint32", 33, 7, 9),
        drawn("wide_integers", "int64", 30, -(2**63), 2**64 - 1),
        drawn("wide_integers", "uint64", 19, 3, 10**15),
        drawn("uniform", "float32", 0),
    ]


@primitive(
    "random",
    Pattern.OPAQUE,
    not_differentiable="how a draw changes with the parameters of its distribution is not kept",
    rule=_rule,
    reference=_reference,
    samples=_samples,
)
def _random(
    out: TensorType,
    key: Tensor,
    start: Tensor,
    *params: Tensor,
    distribution: str = attr("the name of a distribution"),
    _generator: str = attr("philox, the only one there is"),
    _size: Any = attr("number of values"),
    _dtype: str = attr("name of the result's dtype", "float32"),
    stream: int = attr("which of the independent streams of the key", 0),
) -> Body:
    """Independent random values of a distribution, a function of ``key``.

    ``key`` is uint32[4], of Philox4x32-10, ``start`` the uint32 number of the first counter;
    parameters of the distribution are scalars (uniform: low and high; normal: mean and standard
    deviation; integers: the lowest, and how many follow it; bernoulli: the probability of True).
    The result is 1-D. LoopwrightTypeError for a dtype the distribution does not have.

        fn (%key: Tensor[(4), uint32], %start: Tensor[(), uint32]) -> Tensor[(100), float32] {
          random(%key, %start, distribution="uniform", generator="philox", size=100)
        }
    """
    row, a = DISTRIBUTIONS[distribution], EXPRESSIONS
    per_counter = row.counts[out.dtype.bits]
    words = [key(n) for n in range(4)]

    def block(name: str, number: IntExpr, count: int, skipped: IntExpr = 0) -> list[Stmt]:
        """The first ``count`` values of a block, which is stored as if ``skipped`` blocks were not
        in front of it."""
        lane = symbol("r")
        place = a.add(cast(index((number + skipped) * LANES + lane), UINT32), start())
        drawn = words_of(a, place, stream, words)
        values = row.values(a, drawn, out.dtype, *(p() for p in params))
        begin = number * (per_counter * LANES)
        return [
            Loop(
                LoopKind.VECTORIZE,
                "r",
                min(LANES, count - n * LANES),
                (Store(name, (begin + n * LANES + lane,), value),),
            )
            for n, value in enumerate(values)
            if n * LANES < count
        ]

    def statements(name: str) -> Sequence[Stmt]:
        each = per_counter * LANES
        blocks, rest = out.shape[0] // each, out.shape[0] % each
        body: list[Stmt] = []
        if blocks != 0:
            whole = block(name, symbol("b"), each)
            body.append(Loop(LoopKind.FOR, "b", blocks, tuple(whole)))
        if isinstance(rest, int):
            return body + block(name, blocks, rest) if rest else body
        # As many values of another block as there are elements left.
        e, spare = symbol("e"), Buffer("spare", (each,), out.dtype)
        kept = Store(name, (blocks * each + e,), read(spare.name, (e,), out.dtype))
        stmts = (
            Alloc(spare, Scope.STACK),
            *block(spare.name, 0, each, blocks),
            Loop(LoopKind.FOR, "e", rest, (kept,)),
        )
        return [*body, Loop(LoopKind.FOR, "s", int_min(rest, 1), stmts)]

    return Body(statements)


def _order_rule(words: TensorType) -> TensorType:
    if words.rank != 1 or words.dtype is not UINT64:
        raise LoopwrightTypeError(f"needs uint64 words along one axis, not {words.short}")
    return TensorType(words.shape, INT64)


def _order_reference(words: Any) -> Any:
    order = np.empty(words.shape, np.int64)
    for n, word in enumerate(words.tolist()):
        place = word * (n + 1) >> 64
        order[n] = order[place]
        order[place] = n
    return order


@primitive(
    "random_order",
    Pattern.OPAQUE,
    rule=_order_rule,
    reference=_order_reference,
    samples=lambda rng: [
        sample(rng.integers(0, 1 << 64, size, np.uint64)) for size in (1, 2, 37, 100, 0)
    ],
)
def _random_order(out: TensorType, words: Tensor) -> Body:
    """The numbers below the size of ``words`` in an order that its random words choose.

    Each number takes a place among those before it, and what was there goes to the end (R.
    Durstenfeld, "Random permutation", 1964). ``words`` is uint64 of rank 1, the result int64 of its
    shape. LoopwrightTypeError for another operand.

        fn (%words: Tensor[(5), uint64]) -> Tensor[(5), int64] {
          random_order(%words)
        }
    """
    n, a = symbol("n"), EXPRESSIONS
    word = words(n)
    halves = a.shifted(word, 32), word
    number = cast(index(n), UINT64)
    (place,) = _integers(a, halves, INT64, const(0, INT64), number)

    def statements(name: str) -> Sequence[Stmt]:
        size = out.shape[0]
        new = Store(name, (n,), index(n))
        move = Store(name, (n,), read(name, (place,), INT64))
        put = At.of("p", size, place, Store(name, (symbol("p"),), index(n)))
        return [Loop(LoopKind.FOR, "n", size, (new, move, put))] if size != 0 else []

    return Body(statements)

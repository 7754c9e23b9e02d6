"""``recurrence``: the steps of an LSTM, a GRU or a plain recurrent layer, as one kernel.

Only the product of the last state with the recurrent weights has to be done step by step. What the
inputs contribute is one matrix product before (``lw.nn.lstm``), an operand here. One procedure runs
all steps, so neither code nor compile time grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import Dim, IntExpr, as_int, symbol
from ..dtype import INT64
from ..errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ..graph.builder import Builder
from ..graph.compose import F, Value, scalar
from ..graph.nodes import Var
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import require_shape
from ..graph.types import TensorType
from ..loop.expr import Expr, cast, const, index, op, read, select
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.tensor import Tensor
from .declare import Body, attr, primitive
from .sampling import floats, ints, sample

if TYPE_CHECKING:
    from ..graph.nodes import Atom

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
"""Gates of each cell: i, f, g, o of an LSTM and r, z, n of a GRU, as PyTorch orders them."""

_ACTIVATIONS_OF = {"lstm": 3, "gru": 2, "rnn": 1}
_BATCH_TILE = 4  # rows of a batch that share what they read of the weights

Unary = Callable[[Any], Any]


class _Arithmetic:
    """The operations of activations on expressions; ``F`` has those of the graph."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def apply(*args: Any) -> Expr:
            dtype = next(a.dtype for a in args if isinstance(a, Expr) and a.dtype.is_float)
            given = [a if isinstance(a, Expr) else const(a, dtype) for a in args]
            return select(*given) if name == "where" else op(name, *given)  # type: ignore[arg-type]

        return apply


def _affine(m: Any, x: Any, alpha: float, beta: float) -> Any:
    return m.add(m.multiply(x, alpha), beta)


ACTIVATIONS: dict[str, Callable[[Any, Any, float, float], Any]] = {
    "affine": _affine,
    "elu": lambda m, x, a, _b: m.where(
        m.greater_equal(x, 0.0), x, m.multiply(m.subtract(m.exp(m.minimum(x, 0.0)), 1.0), a)
    ),
    "hardsigmoid": lambda m, x, a, b: m.minimum(m.maximum(_affine(m, x, a, b), 0.0), 1.0),
    "leakyrelu": lambda m, x, a, _b: m.where(m.greater_equal(x, 0.0), x, m.multiply(x, a)),
    "relu": lambda m, x, _a, _b: m.maximum(x, 0.0),
    "scaledtanh": lambda m, x, a, b: m.multiply(m.tanh(m.multiply(x, b)), a),
    "sigmoid": lambda m, x, _a, _b: m.sigmoid(x),
    "softplus": lambda m, x, _a, _b: m.log1p(m.exp(x)),
    "softsign": lambda m, x, _a, _b: m.divide(x, m.add(m.abs(x), 1.0)),
    "tanh": lambda m, x, _a, _b: m.tanh(x),
    "thresholdedrelu": lambda m, x, a, _b: m.where(m.greater(x, a), x, m.multiply(x, 0.0)),
}
"""Activations by name, with two parameters that most of them ignore."""


def _functions(
    m: Any, activations: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Unary]:
    def bound(name: str, alpha: float, beta: float) -> Unary:
        return lambda x: ACTIVATIONS[name](m, x, alpha, beta)

    zeros = (0.0,) * len(activations)
    return [bound(*each) for each in zip(activations, alphas or zeros, betas or zeros, strict=True)]


def _operands(
    cell: str, peepholes: bool, lengths: bool, more: Sequence[Any]
) -> tuple[Any, Any, Any]:
    """Returns the first c state, the peepholes and the lengths; None for what is absent."""
    given = list(more)
    return (
        given.pop(0) if cell == "lstm" else None,
        given.pop(0) if peepholes else None,
        given.pop(0) if lengths else None,
    )


def _rule(*operands: TensorType, cell: str, peepholes: bool, lengths: bool, **attrs: Any) -> Any:
    if cell not in GATES:
        raise LoopwrightValueError(f"cell {cell!r} is none of {', '.join(GATES)}")
    count = 4 + (cell == "lstm") + bool(peepholes) + bool(lengths)
    if len(operands) != count:
        raise LoopwrightTypeError(f"a {cell} takes {count} operands here, not {len(operands)}")
    gates, r, bias, h, *more = operands
    c, peep, sizes = _operands(cell, peepholes, lengths, more)
    if gates.rank != 3 or h.rank != 2:
        raise LoopwrightTypeError(f"{gates.short} is not (steps, batch, gates)")
    steps, batch, width = gates.shape
    hidden = h.shape[1]
    if isinstance(hidden, Dim):
        raise UnsupportedError(f"a {cell} with a symbolic number of units, {h.short}")
    wanted: list[tuple[Any, tuple[IntExpr, ...]]] = [
        (gates, (steps, batch, GATES[cell] * hidden)),
        (r, (hidden, width)),
        (bias, (width,)),
        (h, (batch, hidden)),
        (c, (batch, hidden)),
        (peep, (3, hidden)),
        (sizes, (batch,)),
    ]
    for operand, shape in wanted:
        if operand is not None and operand.shape != shape:
            text = ", ".join(map(str, shape))
            error = LoopwrightTypeError(f"{operand.short} of a {cell} has the shape ({text})")
            require_shape(operand.shape, shape, error)
    floats_of = [t for t in (gates, r, bias, h, c, peep) if t is not None]
    if any(t.dtype != gates.dtype or not t.dtype.is_float for t in floats_of):
        raise LoopwrightTypeError(f"the operands of a {cell} are of one float dtype")
    for name in attrs["activations"]:
        if name not in ACTIVATIONS:
            raise LoopwrightValueError(f"activation {name!r} is none of {', '.join(ACTIVATIONS)}")
    count = _ACTIVATIONS_OF[cell]
    for label, counts in (("activations", (count,)), ("alphas", (0, count)), ("betas", (0, count))):
        if len(attrs[label]) not in counts:
            raise LoopwrightValueError(f"a {cell} has {count} {label}")
    return TensorType((steps + 1 + (cell == "lstm"), batch, hidden), gates.dtype)


class _Cell:
    """One step of a cell, on expressions or values of the graph (``m`` has their operations).

    ``x`` and ``y`` give the contributions of the inputs and of the last state to a gate.
    """

    def __init__(self, m: Any, clip: float, functions: Sequence[Unary], input_forget: bool) -> None:
        self.m, self.clip, self.functions, self.input_forget = m, clip, functions, input_forget

    def bounded(self, value: Any) -> Any:
        if not self.clip:
            return value
        return self.m.minimum(self.m.maximum(value, -self.clip), self.clip)

    def lstm(self, x: Unary, y: Unary, c: Any, peep: Any) -> tuple[Any, Any]:
        """Returns the new h and c."""
        m = self.m
        gate, candidate, squash = self.functions

        def sum_of(n: int, state: Any = None, which: int = 0) -> Any:
            total = m.add(x(n), y(n))
            if peep is not None and state is not None:
                total = m.add(total, m.multiply(peep(which), state))
            return self.bounded(total)

        i = gate(sum_of(0, c, 0))
        f = m.subtract(1.0, i) if self.input_forget else gate(sum_of(1, c, 1))
        new = m.add(m.multiply(f, c), m.multiply(i, candidate(sum_of(2))))
        return m.multiply(gate(sum_of(3, new, 2)), squash(new)), new

    def gru(self, x: Unary, y: Unary, h: Any, n: Any) -> Any:
        """Returns the new h; ``n`` is the sum of the candidate."""
        m = self.m
        gate, candidate = self.functions
        z = gate(self.bounded(m.add(x(1), y(1))))
        fresh = candidate(self.bounded(n))
        return m.add(m.multiply(m.subtract(1.0, z), fresh), m.multiply(z, h))


def _in_steps(b: Builder, operands: Sequence[Atom], attrs: Mapping[str, Any]) -> Atom:
    """Returns the states by a loop over the steps: what derivatives see, and the reference."""
    gates, r, bias, h, *more = (Value(b, atom) for atom in operands)
    cell, reverse = attrs["cell"], attrs["reverse"]
    c, peep, sizes = _operands(cell, attrs["peepholes"], attrs["lengths"], more)
    functions = _functions(F, *(attrs[name] for name in ("activations", "alphas", "betas")))
    step = _Cell(F, attrs["clip"], functions, attrs["input_forget"])
    steps, batch, _ = gates.shape
    size = as_int(h.shape[1])
    rows = gates.full((steps + 1 + (c is not None), batch, size), 0)
    states = [h, rows] if c is None else [h, rows, c]
    inside, index = Builder(), Var("t", TensorType((), INT64))
    params = [Var(f"s{n}", s.type) for n, s in enumerate(states)]
    state, written, *rest = (Value(inside, p) for p in params)
    t = Value(inside, index)
    now = steps - 1 - t if reverse else t
    mine = {v: Value(inside, v.atom) for v in (gates, r, bias, peep, sizes) if v is not None}
    row = (
        F.take(mine[gates], now, axis=0)
        if steps != 0
        else Value(inside, gates.atom).full((batch, gates.shape[2]), 0)
    )

    def number(n: IntExpr) -> Value:
        return Value(inside, scalar(inside, n, INT64))

    def part(x: Value, n: int) -> Value:
        begin, end = (0, n * size), (batch, (n + 1) * size)
        return F.strided_slice(x, begin=begin, end=end, strides=(1, 1))

    last = F.nn.matmul(state, mine[r]) + mine[bias]

    def x(n: int) -> Value:
        return part(row, n)

    def y(n: int) -> Value:
        return part(last, n)

    new_c: Value | None = None
    if cell == "lstm":
        weights = None
        if peep is not None:
            weights = lambda n: F.take(mine[peep], number(n), axis=0)  # noqa: E731
        new, new_c = step.lstm(x, y, rest[0], weights)
    elif cell == "gru":
        reset = functions[0](step.bounded(x(0) + y(0)))
        behind = reset * y(2)
        if not attrs["reset_after"]:
            behind = part(F.nn.matmul(reset * state, mine[r]) + mine[bias], 2)
        new = step.gru(x, y, state, x(2) + behind)
    else:
        new = functions[0](step.bounded(x(0) + y(0)))
    output = new
    if sizes is not None:
        runs = F.expand_dims(F.less(now, F.cast(mine[sizes], dtype="int64")), axis=1)
        output = F.where(runs, new, new.full((), 0))
        new = F.where(runs, new, state)
        new_c = None if new_c is None else F.where(runs, new_c, rest[0])
    ends = [new, F.index_update(written, output, now, axes=(0,))]
    ends += [] if new_c is None else [new_c]
    body = inside.block(inside.make_tuple([e.atom for e in ends]))
    begins = [s.atom for s in states]
    loop = b.for_loop(index, scalar(b, steps, INT64), params, begins, body)
    h, rows, *rest = (Value(b, b.get_item(loop, n)) for n in range(len(states)))
    for n, each in enumerate([h, *rest]):
        rows = F.index_update(rows, each, Value(b, scalar(b, steps + n, INT64)), axes=(0,))
    return rows.atom


def _samples(rng: np.random.Generator) -> list[Sample]:
    def drawn(cell: str, t: int, b: int, size: int, dtype: str = "float32", **attrs: Any) -> Sample:
        width = GATES[cell] * size
        shapes = [(t, b, width), (size, width), (width,), (b, size)]
        shapes += [(b, size)] * (cell == "lstm") + [(3, size)] * bool(attrs.get("peepholes"))
        arrays = [floats(rng, shape, dtype, -1, 1) for shape in shapes]
        if attrs.get("lengths"):
            arrays.append(ints(rng, (b,), "int32", 0, t))
        names = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}
        return sample(*arrays, **{"cell": cell, "activations": names[cell], **attrs})

    def one(cell: str, name: str, alpha: float, beta: float) -> Sample:
        return drawn(cell, 3, 1, 2, activations=(name,), alphas=(alpha,), betas=(beta,))

    return [
        drawn("lstm", 4, 1, 16),
        drawn("lstm", 3, 5, 7, "float64", peepholes=True, reverse=True),
        drawn("lstm", 5, 3, 4, lengths=True, clip=0.5, input_forget=True),
        drawn("gru", 4, 2, 5),
        drawn("gru", 3, 1, 33, reset_after=True, reverse=True, lengths=True),
        drawn("rnn", 4, 6, 3),
        drawn("lstm", 0, 2, 3),
        *(one("rnn", name, 0.3, 0.6) for name in ACTIVATIONS),
    ]


@primitive(
    "recurrence",
    Pattern.OPAQUE,
    batch="recurrent",
    unfold=_in_steps,
    rule=_rule,
    samples=_samples,
)
def _recurrence(
    _out: TensorType,
    gates: Tensor,
    r: Tensor,
    bias: Tensor,
    h: Tensor,
    *more: Tensor,
    cell: str = attr("lstm, gru or rnn"),
    reset_after: bool = attr("True if a GRU resets the product with its state", False),
    peepholes: bool = attr("True if an LSTM has peepholes", False),
    lengths: bool = attr("True if sequences have lengths of their own", False),
    reverse: bool = attr("True to begin with the last step", False),
    clip: float = attr("bound of what activations are applied to; 0: none", 0.0),
    input_forget: bool = attr("True if an LSTM forgets what it does not take in", False),
    activations: Any = attr("names of the activations of gates, candidate and result"),
    alphas: Any = attr("a first parameter of each activation; (): zeros", ()),
    betas: Any = attr("a second parameter of each activation; (): zeros", ()),
) -> Body:
    """States of a recurrent layer, step by step.

    ``gates`` (steps, batch, n * hidden) is what the inputs contribute to the n gates (i, f, g, o of
    an LSTM; r, z, n of a GRU), ``r`` (hidden, n * hidden) the recurrent weights, ``bias`` is added
    to their product, ``h`` and, of an LSTM, ``c`` (batch, hidden) are the first states; then come
    ``peepholes`` (3, hidden) for i, f, o, and ``lengths`` (batch), integers. Float32 or float64.
    The result (steps + 1, batch, hidden) holds h of each step, zeros behind the end of a sequence,
    and the last h; of an LSTM one row more, with the last c. (S. Hochreiter and J. Schmidhuber,
    1997; K. Cho and others, 2014.) LoopwrightTypeError where shapes or dtypes do not fit.

        fn (
          %gates: Tensor[(5, 1, 8), float32],
          %r: Tensor[(8, 8), float32],
          %bias: Tensor[(8), float32],
          %h: Tensor[(1, 8), float32]
        ) -> Tensor[(6, 1, 8), float32] {
          recurrence(%gates, %r, %bias, %h, cell="rnn", activations=["tanh"])
        }
    """
    steps, batch = gates.shape[:2]
    width, size, dtype = as_int(gates.shape[2]), as_int(h.shape[1]), gates.dtype
    c, peep, sizes = _operands(cell, peepholes, lengths, more)
    functions = _functions(_Arithmetic(), activations, alphas, betas)
    step = _Cell(_Arithmetic(), clip, functions, input_forget)
    states = [Buffer("h", (batch, size), dtype)]
    if cell == "lstm":
        states.append(Buffer("c", (batch, size), dtype))
    product = Buffer("product", (batch, width), dtype)
    masked = cell == "gru" and not reset_after
    scaled = Buffer("scaled", (batch, size), dtype)
    t, b, j, k = (symbol(name) for name in "tbjk")
    now = steps - 1 - t if reverse else t

    def products(source: str, columns: int, first: int = 0) -> list[Stmt]:
        """``product[b, first + j] = sum(k) source[b, k] * r[k, first + j] + bias``, where several
        rows of a batch share what they read of ``r``."""
        stmts: list[Stmt] = []
        # Whole tiles of a batch whose size is known; of another one, row by row.
        tiles: list[tuple[IntExpr, int]] = [(symbol("a"), 1)]
        if isinstance(batch, int):
            tiles = [
                (begin, min(_BATCH_TILE, batch - begin)) for begin in range(0, batch, _BATCH_TILE)
            ]
        for begin, rows in tiles:
            total = Buffer("total", (rows,), dtype)

            def each_row(*body: Stmt, rows: int = rows) -> Stmt:
                return Loop(LoopKind.UNROLL, "i", rows, body)

            i = symbol("i")
            at = (begin + i, first + j)
            term = op("multiply", read(source, (begin + i, k), dtype), r(k, first + j))
            body = (
                Alloc(total, Scope.REGISTERS),
                each_row(Store("total", (i,), bias(first + j))),
                Loop(LoopKind.FOR, "k", size, (each_row(Accumulate("total", (i,), "sum", term)),)),
                each_row(Store("product", at, read("total", (i,), dtype))),
            )
            stmts.append(Loop(LoopKind.FOR, "j", columns, body))
        return stmts if isinstance(batch, int) else [Loop(LoopKind.FOR, "a", batch, tuple(stmts))]

    def over_units(*body: Stmt) -> Stmt:
        return Loop(LoopKind.FOR, "b", batch, (Loop(LoopKind.FOR, "j", size, body),))

    def x(n: int) -> Expr:
        return gates(now, b, n * size + j)

    def y(n: int) -> Expr:
        return read("product", (b, n * size + j), dtype)

    def statements(name: str) -> list[Stmt]:
        if 0 in (batch, size):
            return []
        old = [read(state.name, (b, j), dtype) for state in states]
        if cell == "lstm":
            new = list(step.lstm(x, y, old[1], None if peep is None else lambda n: peep(n, j)))
        elif cell == "gru":
            reset = functions[0](step.bounded(op("add", x(0), y(0))))
            behind = y(2) if masked else op("multiply", reset, y(2))
            new = [step.gru(x, y, old[0], op("add", x(2), behind))]
        else:
            new = [functions[0](step.bounded(op("add", x(0), y(0))))]
        output = new[0]
        if sizes is not None:
            runs = op("less", index(now), cast(sizes(b), INT64))
            output = select(runs, new[0], const(0, dtype))
            new = [select(runs, a, o) for a, o in zip(new, old, strict=True)]
        # The states are replaced last: what is stored first is still made of the old ones.
        kept = [Buffer(f"new{n}", (1,), dtype) for n in range(len(new))]
        update: list[Stmt] = [Alloc(each, Scope.REGISTERS) for each in kept]
        update += [Store(e.name, (0,), value) for e, value in zip(kept, new, strict=True)]
        update.append(Store(name, (now, b, j), output))
        update += [
            Store(state.name, (b, j), read(each.name, (0,), dtype))
            for state, each in zip(states, kept, strict=True)
        ]
        body: list[Stmt] = products("h", 2 * size if masked else width)
        if masked:
            reset = functions[0](step.bounded(op("add", x(0), y(0))))
            body.append(over_units(Store("scaled", (b, j), op("multiply", reset, old[0]))))
            body += products("scaled", size, 2 * size)
        body.append(over_units(*update))
        first = [h, c] if c is not None else [h]
        begin = [
            over_units(Store(state.name, (b, j), value(b, j)))
            for state, value in zip(states, first, strict=True)
        ]
        end = [over_units(Store(name, (steps + n, b, j), old[n])) for n in range(len(states))]
        return (
            [*begin, Loop(LoopKind.FOR, "t", steps, tuple(body)), *end]
            if steps != 0
            else begin + end
        )

    workspace = (*states, product, *([scaled] if masked else []))
    return Body(statements, workspace)

"""The language of composites: ``F.exp(x)`` for any operator, and ``Value`` with Python's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr
from ..dtype import INT64, DType
from .builder import Builder
from .nodes import Atom, Constant, Var, tensor_type
from .operator import get
from .types import TensorType, TupleType


class Value:
    """A tensor of the graph under construction, with Python's operators.

    Numbers beside it become scalars of its dtype.
    """

    __slots__ = ("atom", "builder")

    def __init__(self, builder: Builder, atom: Atom) -> None:
        self.builder = builder
        self.atom = atom

    @property
    def type(self) -> TensorType:
        return tensor_type(self.atom)

    @property
    def fields(self) -> list[Value]:
        """The fields of a tuple, as a composite that gives several results returns it."""
        assert isinstance(self.atom.type, TupleType)
        count = len(self.atom.type.fields)
        return [Value(self.builder, self.builder.get_item(self.atom, n)) for n in range(count)]

    @property
    def shape(self) -> tuple[IntExpr, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def rank(self) -> int:
        return self.type.rank

    def __add__(self, other: Value | IntExpr | float) -> Value:
        return _apply("add", self, other)

    def __radd__(self, other: IntExpr | float) -> Value:
        return _apply("add", other, self)

    def __sub__(self, other: Value | IntExpr | float) -> Value:
        return _apply("subtract", self, other)

    def __rsub__(self, other: IntExpr | float) -> Value:
        return _apply("subtract", other, self)

    def __mul__(self, other: Value | IntExpr | float) -> Value:
        return _apply("multiply", self, other)

    def __rmul__(self, other: IntExpr | float) -> Value:
        return _apply("multiply", other, self)

    def __truediv__(self, other: Value | IntExpr | float) -> Value:
        return _apply("divide", self, other)

    def __rtruediv__(self, other: IntExpr | float) -> Value:
        return _apply("divide", other, self)

    def __neg__(self) -> Value:
        return _apply("negative", self)

    def __abs__(self) -> Value:
        return _apply("abs", self)

    def fold(self, function: Callable[[Any], Any]) -> Value | None:
        """Returns the constant ``function(array)`` if this is a constant array, else None."""
        if not isinstance(self.atom, Constant):
            return None
        array = function(self.atom.value)
        return Value(self.builder, Constant(array, self.atom.name, self.atom.span))

    def cast(self, dtype: str) -> Value:
        """Returns the elements in another dtype, those of a constant at once."""
        return self.fold(lambda array: array.astype(dtype)) or _apply("cast", self, dtype=dtype)

    def iota(self, shape: Sequence[IntExpr], axis: int, dtype: str = "int64") -> Value:
        """Returns a value in the same graph: each element is its own index along ``axis``."""
        atom = call(self.builder, "iota", shape=tuple(shape), axis=axis, dtype=dtype)
        return Value(self.builder, atom)

    def full(self, shape: Sequence[IntExpr], number: float) -> Value:
        """Returns a value in the same graph, of the same dtype, filled with a number."""
        attrs = {"shape": tuple(shape), "fill_value": number, "dtype": self.dtype.name}
        return Value(self.builder, call(self.builder, "full", **attrs))


class _Operators:
    """Every operator as a function: ``F.exp(x)``, ``F.nn.pad(x, pad_width=...)``.

    One of the operands must be a ``Value``.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name == "nn":
            return _Operators("nn.")
        return partial(_apply, self._prefix + name)


F = _Operators("")


def _apply(name: str, *args: Value | IntExpr | float, **attrs: Any) -> Value:
    last = next(a for a in reversed(args) if isinstance(a, Value))
    b = last.builder
    atoms = (a.atom if isinstance(a, Value) else scalar(b, a, last.dtype) for a in args)
    return Value(b, call(b, name, *atoms, **attrs))


def broadcast(x: Value, shape: Sequence[IntExpr]) -> Value:
    """Returns ``x`` in a shape that it broadcasts to."""
    return x if x.shape == tuple(shape) else F.broadcast_to(x, shape=tuple(shape))


def unbroadcast(x: Value, shape: Sequence[IntExpr]) -> Value:
    """Returns the sums over the axes along which an array of ``shape`` was repeated to be as large
    as ``x``."""
    front = x.rank - len(shape)
    repeated = [n for n in range(front) if x.shape[n] != 1]
    repeated += [front + n for n, size in enumerate(shape) if size == 1 and x.shape[front + n] != 1]
    if repeated:
        x = F.sum(x, axis=tuple(repeated), keepdims=True)
    return x if x.shape == tuple(shape) else F.reshape(x, newshape=tuple(shape))


def exchanged(x: Value) -> Value:
    """Returns matrices with rows and columns exchanged."""
    return F.transpose(x, axes=(*range(x.rank - 2), x.rank - 1, x.rank - 2))


def cut(x: Value, axis: int, begin: IntExpr, end: IntExpr, step: int = 1) -> Value:
    """Returns a slice of one axis; ``x`` if that is all of it."""
    if (begin, end, step) == (0, x.shape[axis], 1):
        return x
    begins: list[IntExpr] = [0] * x.rank
    ends, steps = list(x.shape), [1] * x.rank
    begins[axis], ends[axis], steps[axis] = begin, end, step
    return F.strided_slice(x, begin=tuple(begins), end=tuple(ends), strides=tuple(steps))


def limited(at: Value, last: IntExpr, size: IntExpr) -> Value:
    """Returns indices as int64, counted from the front of ``size`` elements, from 0 to ``last``."""
    at = F.cast(at, dtype="int64")
    return F.minimum(F.maximum(F.where(F.less(at, 0), at + size, at), 0), last)


def at_indices(x: Value, at: Sequence[Value]) -> Value:
    """Returns ``x[at[0], at[1], ...]`` for indices of one shape, as NumPy gives it."""
    parts = [F.expand_dims(each, axis=each.rank) for each in at]
    indices = F.concatenate(*parts, axis=parts[0].rank - 1) if len(parts) > 1 else parts[0]
    return F.nn.gather_nd(x, indices)


def taken_along(x: Value, at: Value, axis: int) -> Value:
    """Returns the elements of ``x`` at indices of the same shape along an axis."""
    return at_indices(x, [at if n == axis else at.iota(at.shape, n) for n in range(x.rank)])


def looped(
    count: Value, carried: Sequence[Value], step: Callable[[Value, list[Value]], Sequence[Value]]
) -> list[Value]:
    """Returns what ``carried`` is after ``carried = step(index, carried)`` for each index below an
    int64 scalar."""
    index, inside = Var("i", TensorType((), INT64)), Builder()
    params = [Var(f"c{n}", each.type) for n, each in enumerate(carried)]
    ends = step(Value(inside, index), [Value(inside, p) for p in params])
    body = inside.block(inside.make_tuple([each.atom for each in ends]))
    begins = [each.atom for each in carried]
    return Value(
        count.builder, count.builder.for_loop(index, count.atom, params, begins, body)
    ).fields


def is_zero(atom: Atom | None) -> bool:
    """True for a constant of zeros, and for None."""
    return atom is None or (isinstance(atom, Constant) and not atom.value.any())


def call(b: Builder, name: str, *args: Atom, **attrs: Any) -> Atom:
    """Emits the operator ``name``."""
    return b.emit(get(name), args, attrs)


def scalar(b: Builder, value: IntExpr | float, dtype: DType) -> Atom:
    """Returns a scalar constant; for a symbolic size, a scalar computed from the size."""
    if isinstance(value, Dim):
        return call(b, "full", shape=(), fill_value=value, dtype=dtype.name)
    return Constant(np.asarray(value, dtype.numpy))

"""The meaning of a PrimFunc, computed with NumPy a whole stage at a time.

Every stage is evaluated over its index grid: an axis is an open grid of its own (``np.ogrid``),
so an expression costs only the axes it mentions, and a reduction is NumPy's over the trailing
axes. Large grids are walked in blocks, and a large sum of products is a matrix product. This is
an oracle: clarity first, but fast enough for tests.

A read outside its buffer is an error only where its value is used: a guard such as
``where(within(i, 0, n), x[i], 0)`` may read anything in the branch that is not taken.

In a sum of products where neither factor needs the whole grid, the axes that both factors and the
result have are a batch, those of the sum that both have are contracted, the others are rows and
columns: NumPy's BLAS does that thousands of times faster than the grid's elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product as cartesian
from math import prod
from typing import Any

import numpy as np

from ..dims import Dim, FloorDiv, IntExpr, Max, Min, Mod, Symbol, evaluate, linear, symbols
from ..dtype import Array, DType, dtype_of
from ..errors import InternalError, LoopwrightValueError
from .expr import Const, Expr, Index, IndexLike, Op, Read, walk
from .interpret import interpret
from .prim import Axis, PrimFunc, Stage
from .procedure import Procedure, plain_nest
from .rounding import Rounding
from .scalar import COMBINERS, SCALAR_OPS


def sum_of_products(left: Array, right: Array, extents: Sequence[int], rank: int) -> Array:
    """The sum of ``left * right`` over the axes from ``rank`` on, in the factors' dtype.

    The factors have one axis per entry of ``extents``, of that size or of size 1 where they do not
    depend on it. The result has the shape ``extents[:rank]``.

    >>> x, w = np.ones((2, 1, 5)), np.ones((1, 3, 5))
    >>> sum_of_products(x, w, (2, 3, 5), 2)
    array([[5., 5., 5.],
           [5., 5., 5.]])
    """
    summed = range(rank, len(extents))
    a = _sum_alone(left, [d for d in summed if right.shape[d] == 1])
    b = _sum_alone(right, [d for d in summed if left.shape[d] == 1])
    in_neither = [extents[d] for d in summed if left.shape[d] == right.shape[d] == 1]
    has_a = [d for d in range(len(extents)) if a.shape[d] != 1]
    has_b = [d for d in range(len(extents)) if b.shape[d] != 1]
    batch = [d for d in has_a if d in has_b and d < rank]
    inner = [d for d in has_a if d in has_b and d >= rank]
    rows = [d for d in has_a if d not in has_b]
    columns = [d for d in has_b if d not in has_a]
    matrix_a = _grouped(a, (batch, rows, inner), extents)
    matrix_b = _grouped(b, (batch, inner, columns), extents)
    product = np.matmul(matrix_a, matrix_b) * matrix_a.dtype.type(prod(in_neither))
    order = [*batch, *rows, *columns]
    spread = product.reshape([extents[d] for d in order]).transpose(np.argsort(order))
    shape = [extents[d] if d in order else 1 for d in range(rank)]
    return np.broadcast_to(spread.reshape(shape), tuple(extents[:rank]))


def _sum_alone(factor: Array, axes: list[int]) -> Array:
    """The factor summed over axes that the other one does not have."""
    return factor.sum(axis=tuple(axes), keepdims=True, dtype=factor.dtype) if axes else factor


def _grouped(factor: Array, groups: Sequence[list[int]], extents: Sequence[int]) -> Array:
    """The factor as a stack of matrices, each of whose axes is a group of its own axes."""
    order = [d for group in groups for d in group]
    rest = [d for d in range(factor.ndim) if d not in order]
    sizes = [prod(extents[d] for d in group) for group in groups]
    return np.ascontiguousarray(factor.transpose([*order, *rest])).reshape(sizes)


_BLOCK_ELEMENTS = 1 << 22  # keeps the temporaries of a block within tens of megabytes
_POINT_ELEMENTS = 1 << 17  # of a block of single elements: temporaries that fit the L2 cache
_FACTOR_ELEMENTS = 1 << 25  # the largest factor of a sum of products that is made whole
_ATOMS = {FloorDiv: np.floor_divide, Mod: np.mod, Min: np.minimum, Max: np.maximum}


def evaluate_prim(
    prim: PrimFunc, inputs: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """The outputs of ``prim`` by name, for one array per parameter. ``sizes`` are the values of
    symbolic sizes that do not follow from the shapes of the arrays.

    Sums accumulate in the dtype of their stage. Raises LoopwrightValueError if an array does not
    have its parameter's shape and dtype (floats may have fewer bits), InternalError if an element
    outside a buffer is used.
    """
    inputs = {name: np.asarray(array) for name, array in inputs.items()}
    sizes = bind_sizes(prim, inputs, sizes)
    buffers: dict[str, Array] = {p.name: inputs[p.name] for p in prim.params}
    if isinstance(prim, Procedure):
        begins = dict(prim.begins)
        for b in prim.results:
            made = np.empty([evaluate(s, sizes) for s in b.shape], b.dtype.numpy)
            if b.name in begins:
                made[...] = buffers[begins[b.name]]
            buffers[b.name] = made
        interpret(plain_nest(prim), buffers, sizes)
    for stage in prim.stages:
        buffers[stage.name] = evaluate_stage(stage, buffers, sizes)
    return {name: buffers[name] for name in prim.outputs}


def evaluate_stage(
    stage: Stage, buffers: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> Array:
    """The buffer of one stage; ``sizes`` are the values of symbolic sizes."""
    sizes = sizes or {}
    dtype = stage.buffer.dtype.numpy
    axes = (*stage.axes, *stage.reduce_axes)
    rank = len(stage.axes)
    extents = [evaluate(a.extent, sizes) for a in axes]
    result = np.empty(extents[:rank], dtype)
    reduced = tuple(range(rank, len(axes)))
    combiner = COMBINERS[stage.combiner] if stage.combiner is not None else None
    if combiner is not None:
        result.fill(combiner.identity(stage.buffer.dtype))
    if prod(extents) > _BLOCK_ELEMENTS:
        product = _sum_of_products(stage, buffers, sizes, extents)
        if product is not None:
            return product
    for block in blocks(extents):
        env = open_grid(axes, block, sizes)
        shape = tuple(stop - start for start, stop in block)
        value = np.broadcast_to(_values(stage, buffers, env, None), shape)
        part = tuple(slice(start, stop) for start, stop in block[:rank])
        if combiner is None:
            result[part] = value
        else:
            with np.errstate(all="ignore"):
                total = combiner.numpy.reduce(value, axis=reduced, dtype=dtype)
                result[part] = combiner.numpy(result[part], total).astype(dtype)
    return result


def open_grid(
    axes: Sequence[Axis], block: Sequence[tuple[int, int]], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """The values of every index of a block, each along an axis of its own."""
    env: dict[str, Any] = dict(sizes)
    for position, (axis, (start, stop)) in enumerate(zip(axes, block, strict=True)):
        line = [1] * len(axes)
        line[position] = stop - start
        env[axis.name] = np.arange(start, stop, dtype=np.int64).reshape(line)
    return env


def _sum_of_products(
    stage: Stage, buffers: Mapping[str, Any], sizes: Mapping[str, int], extents: Sequence[int]
) -> Array | None:
    """A stage that sums products of two small factors; None if it is not of that kind."""
    expr = stage.expr
    if stage.combiner != "sum" or not isinstance(expr, Op) or expr.name != "multiply":
        return None
    axes = (*stage.axes, *stage.reduce_axes)
    for factor in expr.args:
        names = index_symbols(factor)
        grid = prod(n for axis, n in zip(axes, extents, strict=True) if axis.name in names)
        if grid > _FACTOR_ELEMENTS:
            return None
    env = open_grid(axes, [(0, extent) for extent in extents], sizes)
    factors: list[Array] = []
    for factor in expr.args:
        value, bad = _evaluated(factor, buffers, env)
        if bad is not None and np.any(bad):
            return None
        value = np.asarray(value, dtype=stage.buffer.dtype.numpy)
        factors.append(value.reshape([1] * (len(axes) - value.ndim) + list(value.shape)))
    with np.errstate(all="ignore"):
        return np.array(sum_of_products(factors[0], factors[1], extents, len(stage.axes)))


def index_symbols(expr: Expr) -> set[str]:
    """The names of all indices that an expression depends on."""
    names: set[str] = set()
    for node in walk(expr):
        if isinstance(node, Index):
            names |= symbols(node.value)
        elif isinstance(node, Read):
            for i in node.indices:
                names |= symbols(i) if isinstance(i, int | Dim) else set()
    return names


def evaluate_points(
    prim: PrimFunc,
    inputs: Mapping[str, Array],
    output: str,
    points: Array,
    rounding: Rounding | None = None,
) -> Array:
    """Some elements of an output: what ``evaluate_prim`` would have at ``points`` int64[n, rank].

    Only what those elements depend on is computed, so a few hundred elements of a product of large
    matrices cost milliseconds. Inputs may be whatever has a shape and a dtype and gives elements at
    arrays of indices. What rounds is moved by ``rounding``, unless the PrimFunc is a procedure.
    Raises as ``evaluate_prim`` does.
    """
    if isinstance(prim, Procedure):
        return evaluate_prim(prim, inputs)[output][tuple(np.asarray(points, np.int64).T)]
    sizes = bind_sizes(prim, inputs)
    buffers: dict[str, Any] = {p.name: inputs[p.name] for p in prim.params}
    for stage in prim.stages:
        buffers[stage.name] = _LazyStage(stage, buffers, sizes, rounding and rounding.at(stage))
    return buffers[output][tuple(np.asarray(points, np.int64).T)]


class _LazyStage:
    """Stands for the buffer of a stage; elements are computed when they are read."""

    def __init__(
        self, stage: Stage, buffers: dict[str, Any], sizes: dict[str, int], rounds: Rounding | None
    ) -> None:
        self.stage, self.rounding = stage, rounds
        self.dtype = stage.buffer.dtype.numpy
        self.shape = tuple(evaluate(s, sizes) for s in stage.buffer.shape)
        self.size = prod(self.shape)
        self._buffers, self._sizes = buffers, sizes
        self._over = [evaluate(a.extent, sizes) for a in stage.reduce_axes]
        self._known: dict[bytes, Array] = {}  # elements by their places: stages share rows

    def __getitem__(self, indices: tuple[Array, ...]) -> Array:
        shape = np.broadcast_shapes(*(i.shape for i in indices))
        if not indices or self.size == 0:
            return self._elements([], 1)[0] if not indices else np.zeros(shape, self.dtype)
        flat = np.ravel_multi_index([np.broadcast_to(i, shape) for i in indices], self.shape)
        wanted, place = np.unique(flat, return_inverse=True)
        key = wanted.tobytes()
        if key not in self._known:
            step = max(1, _POINT_ELEMENTS // max(1, prod(self._over)))
            parts = [
                self._elements(list(np.unravel_index(piece, self.shape)), len(piece))
                for piece in np.split(wanted, range(step, len(wanted), step))
            ]
            self._known[key] = np.concatenate(parts)
        return self._known[key][place.reshape(shape)]

    def _elements(self, indices: list[Array], count: int) -> Array:
        """The elements at ``count`` places, one index array per axis."""
        stage, rank = self.stage, len(self._over)
        env: dict[str, Any] = dict(self._sizes)
        for axis, values in zip(stage.axes, indices, strict=True):
            env[axis.name] = values.reshape(-1, *[1] * rank)
        if stage.combiner is None:
            return np.broadcast_to(_values(stage, self._buffers, env, self.rounding), (count,))
        combiner = COMBINERS[stage.combiner]
        over = tuple(range(1, rank + 1))
        total = np.full(count, combiner.identity(stage.buffer.dtype), self.dtype)
        squares = np.zeros(count)
        for block in blocks(self._over, max(1, _POINT_ELEMENTS // max(1, count))):
            for position, (axis, (begin, end)) in enumerate(
                zip(stage.reduce_axes, block, strict=True)
            ):
                line = [1] * (rank + 1)
                line[position + 1] = end - begin
                env[axis.name] = np.arange(begin, end, dtype=np.int64).reshape(line)
            grid = (count, *(end - begin for begin, end in block))
            values = np.broadcast_to(_values(stage, self._buffers, env, self.rounding), grid)
            with np.errstate(all="ignore"):
                if self.rounding is not None:
                    squares += np.square(values, dtype=np.float64).sum(over)
                part = combiner.numpy.reduce(values, axis=over, dtype=self.dtype)
                total = combiner.numpy(total, part).astype(self.dtype)
        if self.rounding is None:
            return total
        return self.rounding.total(stage, total, squares, prod(self._over), indices)


def bind_sizes(
    prim: PrimFunc, inputs: Mapping[str, Array], given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The values of symbolic sizes, those of ``given`` and those that shapes of inputs tell."""
    sizes = dict(given or {})
    for param in prim.params:
        array = inputs[param.name]
        fits = array.ndim == len(param.shape) and _is_of(array.dtype, param.dtype)
        for size, actual in zip(param.shape, array.shape, strict=False):
            parts = linear(size)
            if parts is not None and len(parts[0]) == 1:
                ((name, factor),) = parts[0].items()
                sizes.setdefault(name, (actual - parts[1]) // factor)
        if not fits or any(
            evaluate(s, sizes) != n for s, n in zip(param.shape, array.shape, strict=True)
        ):
            raise LoopwrightValueError(
                f"{prim.name}: {param} was given an array of {array.dtype}{list(array.shape)}"
            )
    return sizes


def _is_of(dtype: np.dtype[Any], wanted: DType) -> bool:
    """True if elements of a dtype are taken: floats of fewer bits are cast where they are read."""
    return dtype == wanted.numpy or (
        wanted.is_float and dtype_of(dtype).is_float and dtype.itemsize < wanted.bytes
    )


def blocks(
    extents: Sequence[int], most: int = _BLOCK_ELEMENTS
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Ranges per axis that cover the grid, of at most so many elements; outer axes are cut first,
    inner ones stay whole."""
    steps = list(extents)
    for axis, extent in enumerate(extents):
        inner = prod(steps[axis + 1 :])
        if extent * inner <= most:
            break
        steps[axis] = max(1, most // max(1, inner))
    cuts = [
        [(start, min(start + step, extent)) for start in range(0, extent, max(1, step))]
        for extent, step in zip(extents, steps, strict=True)
    ]
    yield from cartesian(*cuts)


def _values(
    stage: Stage, buffers: Mapping[str, Array], env: Mapping[str, Any], rounds: Rounding | None
) -> Array:
    """The stage's expression over one block."""
    value, bad = _evaluated(stage.expr, buffers, env, rounds)
    if bad is not None and np.any(bad):
        raise InternalError(f"stage {stage.name} uses an element outside its buffer: {stage}")
    return np.asarray(value, dtype=stage.buffer.dtype.numpy)


def _evaluated(
    expr: Expr, buffers: Mapping[str, Any], env: Mapping[str, Any], rounds: Rounding | None = None
) -> tuple[Any, Any]:
    """The value of an expression, and which elements of it read outside a buffer (or None)."""
    done: dict[int, tuple[Any, Any]] = {}
    with np.errstate(all="ignore"):
        for number, node in enumerate(walk(expr)):
            value, bad = _node_value(node, buffers, env, done)
            if rounds is not None and isinstance(node, Op):
                value = rounds.operation(node, value, number, env.values())
            done[id(node)] = value, bad
    return done[id(expr)]


def _node_value(
    node: Expr,
    buffers: Mapping[str, Array],
    env: Mapping[str, Any],
    done: Mapping[int, tuple[Any, Any]],
) -> tuple[Any, Any]:
    if isinstance(node, Const):
        return np.asarray(node.value, node.dtype.numpy), None
    if isinstance(node, Index):
        return np.asarray(index_values(node.value, env), np.int64), None
    if isinstance(node, Read):
        return _read_value(node, buffers[node.buffer], env, done)
    return _op_value(node, [done[id(a)] for a in node.args])


def _op_value(node: Op, args: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    values = [value for value, _ in args]
    marks = [bad for _, bad in args]
    dtype = node.dtype.numpy
    if node.name == "cast":
        return values[0].astype(dtype), marks[0]
    value = np.asarray(SCALAR_OPS[node.name].numpy(*values)).astype(dtype, copy=False)
    if node.name == "where" and any(bad is not None for bad in marks):
        taken, other = (False if bad is None else bad for bad in marks[1:])
        chosen = np.where(values[0], taken, other)
        return value, chosen if marks[0] is None else chosen | marks[0]
    return value, _either(marks)


def _read_value(
    node: Read, buffer: Array, env: Mapping[str, Any], done: Mapping[int, tuple[Any, Any]]
) -> tuple[Any, Any]:
    marks: list[Any] = []
    indices: list[Any] = []
    for i, size in zip(node.indices, buffer.shape, strict=True):
        value = _index_like(i, env, done, marks)
        if value.min(initial=0) < 0 or value.max(initial=-1) >= size:
            marks.append((value < 0) | (value >= size))
            value = np.clip(value, 0, max(0, size - 1))
        indices.append(value)
    if buffer.size == 0:
        shape = np.broadcast_shapes(*(np.shape(i) for i in indices))
        return np.zeros(shape, buffer.dtype), np.ones(shape, bool)
    value = np.asarray(buffer[tuple(indices)])
    return value.astype(node.dtype.numpy, copy=False), _either(marks)


def _index_like(
    i: IndexLike, env: Mapping[str, Any], done: Mapping[int, tuple[Any, Any]], marks: list[Any]
) -> Any:
    if isinstance(i, int | Dim):
        return np.asarray(index_values(i, env), np.int64)
    value, bad = done[id(i)]
    marks.append(bad)
    return np.asarray(value, np.int64)


def _either(marks: Sequence[Any]) -> Any:
    mask = None
    for bad in marks:
        if bad is not None:
            mask = bad if mask is None else mask | bad
    return mask


def index_values(expr: IntExpr, env: Mapping[str, Any]) -> Any:
    """An index expression whose symbols are integers or arrays of them."""
    if not isinstance(expr, Dim):
        return expr
    total: Any = None
    for monomial, coefficient in expr.terms:
        term: Any = coefficient if coefficient != 1 or not monomial else None
        for atom in monomial:
            if isinstance(atom, Symbol):
                factor = env[atom.name]
            else:
                left, right = index_values(atom.left, env), index_values(atom.right, env)
                factor = _ATOMS[type(atom)](left, right)
            term = factor if term is None else term * factor
        total = term if total is None else total + term
    return 0 if total is None else total

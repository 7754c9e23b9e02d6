"""Derivatives of functions in a trace: what ``lw.grad`` and its kin do there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.dim_proofs import prove
from ...ir.dims import IntExpr, product
from ...ir.errors import LoopwrightTypeError
from ...ir.graph.builder import Builder
from ...ir.graph.derivatives.forward import Tangents, or_zeros
from ...ir.graph.derivatives.functions import DerivedFunctions
from ...ir.graph.derivatives.linearise import linearise
from ...ir.graph.nodes import Atom, Binding
from ..control.leaves import Fixed, LeafType, check_structure, flattened, leaf_type
from ..control.traced import new_proxy, ours, running
from ..core.emitting import emit, lift
from ..core.proxy import Proxy
from ..core.pytree import paths, unflatten
from . import block as blocks
from .block import TracedBlock, atom_like, called, emitted, emitting, no_floats, smooth
from .vmap import vmap


class Linearised:
    """A function at a point: ``result`` there, ``aux`` beside it, and its derivative."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        argnums: Sequence[int],
        has_aux: bool = False,
    ) -> None:
        self.name, self.trace = name, running()
        self.derived = DerivedFunctions(self.trace.functions, self.trace.function_name)
        points = [args[n] for n in argnums]
        leaves, self.structure = flattened(points)
        labels = [p for n, a in zip(argnums, points) for p in paths(flattened(a)[1], str(n))]
        self.types: list[LeafType] = []
        for leaf, label in zip(leaves, labels, strict=True):
            type_ = leaf_type(leaf)
            if isinstance(type_, Fixed) or not type_.dtype.is_inexact:
                raise no_floats(name, f"argument {label}", type_)
            self.types.append(type_)
        split = TracedCall(function, args, argnums)
        traced, atoms = blocks.traced_block(name, split, points, lambda _path, _type: True)
        trace = self.trace
        emitted(trace, [Binding(p, a) for p, a in zip(traced.params, atoms, strict=True)])
        builder = emitting(trace)
        with ours(trace):
            values = self.derive(traced, builder)
        emitted(trace, builder.bindings)
        self._take(traced, values, has_aux)

    def derive(self, traced: TracedBlock, builder: Builder) -> list[Atom]:
        """Emits the values of the block, and notes the derivative."""
        values, self.linear = linearise(traced.block, traced.params, builder, self.derived)
        return values

    def _take(self, traced: TracedBlock, values: list[Atom], has_aux: bool) -> None:
        trace, count = self.trace, len(traced.types)
        if len(values) > count:
            trace.assign(trace.memory.failure, values[count])
        self.result = traced.tree(values[:count], trace)
        self.aux = None
        if has_aux:
            if type(self.result) is not tuple or len(self.result) != 2:
                raise LoopwrightTypeError(
                    f"{self.name}: with has_aux the function returns (result, aux), a pair",
                    hint="return loss, predictions",
                )
            self.result, self.aux = self.result
        leaves, self.result_structure = flattened(self.result)
        kinds = [leaf_type(leaf) for leaf in leaves]
        self.result_types = [k for k in kinds if isinstance(k, LeafType)]
        self.fixed = [k for k in kinds if isinstance(k, Fixed)]
        self.unused = len(values) - len(self.result_types)

    def cotangents(self, tree: Any) -> list[Atom | None]:
        """Returns the cotangents of the result, which has their structure."""
        leaves, structure = flattened(tree)
        check_structure(self.name, "the cotangent", structure, "the result", self.result_structure)
        leaves = [v for v in leaves if isinstance(leaf_type(v), LeafType)]
        return [
            self.like(value, kind, "the cotangent") if kind.dtype.is_inexact else None
            for value, kind in zip(leaves, self.result_types, strict=True)
        ]

    def like(self, value: Any, kind: LeafType, what: str) -> Atom:
        """Returns a value as an atom of a type. LoopwrightTypeError for one of another shape."""
        type_ = leaf_type(value)
        if isinstance(type_, Fixed) or type_.shape != kind.shape:
            raise LoopwrightTypeError(f"{self.name}: {what} is {type_} for a value of {kind}")
        return atom_like(self.trace, value, kind)

    def pull(self, cotangents: Sequence[Atom | None]) -> Any:
        """Returns the cotangents of the arguments, each with the structure of its argument."""
        builder = emitting(self.trace)
        given = [*cotangents, *[None] * self.unused]
        atoms = self.linear.pull(given, builder)
        ends = [or_zeros(a, t.tensor, builder) for a, t in zip(atoms, self.types, strict=True)]
        emitted(self.trace, builder.bindings)
        return unflatten(self.structure, self._proxies(ends, self.types))

    def push(self, tangents: Any) -> Any:
        """Returns the tangent of the result, for tangents with the arguments' structure."""
        leaves, structure = flattened(tangents)
        check_structure(self.name, "the tangents", structure, "the arguments", self.structure)
        atoms = [self.like(v, t, "a tangent") for v, t in zip(leaves, self.types, strict=True)]
        builder = emitting(self.trace)
        ends = self.linear.push(atoms, builder)
        emitted(self.trace, builder.bindings)
        return self.tree_of(ends)

    def tree_of(self, tangents: Sequence[Atom | None]) -> Any:
        """Returns tangents of the result, zeros for None, in its structure."""
        builder = emitting(self.trace)
        filled = [or_zeros(a, t.tensor, builder) for a, t in zip(tangents, self.result_types)]
        emitted(self.trace, builder.bindings)
        rest = iter(self._proxies(filled, self.result_types))
        kinds = [leaf_type(leaf) for leaf in flattened(self.result)[0]]
        return unflatten(
            self.result_structure, [k.value if isinstance(k, Fixed) else next(rest) for k in kinds]
        )

    def _proxies(self, atoms: Sequence[Atom], types: Sequence[LeafType]) -> list[Any]:
        return [new_proxy(self.trace, a, t) for a, t in zip(atoms, types, strict=True)]

    def scalar(self) -> LeafType:
        """Returns the type of the result. LoopwrightTypeError unless that is one float."""
        types = self.result_types
        if len(types) != 1 or types[0].shape or not types[0].dtype.is_float or self.fixed:
            made = ", ".join(map(str, [*types, *self.fixed])) or "nothing"
            raise LoopwrightTypeError(
                f"{self.name} needs a function that returns one float, and this returns {made}",
                hint="its .sum() or .mean(), or lw.jacobian, or has_aux=True for (loss, the rest)",
            )
        return types[0]


class TracedCall:
    """A function of some of its arguments, while the others stay."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], argnums: Sequence[int]
    ) -> None:
        self.function, self.args, self.argnums = function, args, argnums

    def __call__(self, *points: Any) -> Any:
        args = list(self.args)
        for n, point in zip(self.argnums, points, strict=True):
            args[n] = point
        return called(self.function, *args)


def numbers_of(name: str, argnums: Any, args: tuple[Any, ...]) -> list[int]:
    """Returns ``argnums`` as numbers of arguments. LoopwrightTypeError for one that is missing."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise LoopwrightTypeError(f"{name}: argnums={n} of {len(args)} positional arguments")
    return [n % len(args) for n in numbers]


def value_and_grad(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], argnums: Any, has_aux: bool
) -> tuple[Any, Any, Any]:
    """Returns the value of a function, ``aux``, and its gradient in the arguments ``argnums``."""
    at = Linearised(name, function, args, numbers_of(name, argnums, args), has_aux)
    with ours(at.trace):
        gradients = at.pull([lift(1.0, at.scalar().dtype).atom])
    return at.result, at.aux, gradients[0] if isinstance(argnums, int) else tuple(gradients)


def jvp(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Returns the value of a function and its tangent, in forward mode."""
    return _Forward(function, tuple(primals), tuple(tangents)).results


class _Forward(Linearised):
    """A function whose tangents are computed beside its values."""

    def __init__(
        self, function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]
    ) -> None:
        self.tangents = tangents
        super().__init__("jvp", function, primals, range(len(primals)))

    def derive(self, traced: TracedBlock, builder: Builder) -> list[Atom]:
        """Emits values and tangents."""
        leaves, structure = flattened(list(self.tangents))
        check_structure("jvp", "the tangents", structure, "the primals", self.structure)
        given = [self.like(v, t, "a tangent") for v, t in zip(leaves, self.types, strict=True)]
        inputs = dict(zip(traced.params, given, strict=True))
        moving = Tangents(builder, inputs, self.derived)
        values, self.moved = moving.outcome(traced.block)
        return values

    @property
    def results(self) -> tuple[Any, Any]:
        """The value and the tangent."""
        return self.result, self.tree_of(self.moved)


def stop_gradient(tree: Any) -> Any:
    """Returns a tree whose floats are constants for derivatives."""
    trace = running()
    leaves, structure = flattened(tree)
    with ours(trace):
        stopped = [
            new_proxy(trace, trace.emit("stop_gradient", (lift(v).atom,), {}), t)
            if isinstance(t := leaf_type(v), LeafType) and t.dtype.is_inexact
            else v
            for v in leaves
        ]
    return unflatten(structure, stopped)


def copied_after(tree: Any, other: Any) -> Any:
    """Returns a tree of values that are computed with anew, when a leaf of ``other`` is there."""
    (leaves, structure), (after, _) = flattened(tree), flattened(other)
    last = lift(after[0])
    copies = [emit("copy_after", lift(v), last) if smooth(v) else v for v in leaves]
    return unflatten(structure, copies)


def jacobian(name: str, function: Callable[..., Any], args: tuple[Any, ...], argnums: Any) -> Any:
    """Returns the derivatives of all results by all elements of the arguments ``argnums``."""
    at = Linearised(name, function, args, numbers_of(name, argnums, args))
    with ours(at.trace):
        if at.fixed or not all(t.dtype.is_float for t in at.result_types):
            kinds = ", ".join(map(str, [*at.result_types, *at.fixed]))
            raise LoopwrightTypeError(f"{name} of a function that returns {kinds}, not floats")
        inputs, outputs = (sum_of(types) for types in (at.types, at.result_types))
        by_rows = prove(outputs, "<=", inputs) is True
        matrices = _by_rows(at) if by_rows else _by_columns(at)
    trees: list[Any] = []
    for row in matrices:
        points = unflatten(at.structure, row)
        trees.append(points[0] if isinstance(argnums, int) else tuple(points))
    return unflatten(at.result_structure, trees)


def sum_of(types: Sequence[LeafType]) -> IntExpr:
    """Returns the number of elements of all."""
    total: IntExpr = 0
    for each in types:
        total = total + product(each.shape)
    return total


def _basis(type_: LeafType) -> Proxy:
    """Returns an array of that type for each of its elements, in which that is 1, the rest 0."""
    count = product(type_.shape)
    eye = emit("cast", emit("equal", _iota(count, 0), _iota(count, 1)), dtype=str(type_.dtype))
    return emit("reshape", eye, newshape=(count, *type_.shape))


def _iota(count: IntExpr, axis: int) -> Proxy:
    return emit("iota", shape=(count, count), axis=axis, dtype="int64")


def _by_rows(at: Linearised) -> list[list[Any]]:
    """Returns for each result the derivatives by each leaf: cotangents of one element each."""
    rows: list[list[Any]] = []
    for n, out in enumerate(at.result_types):
        basis = _basis(out)

        def pulled(row: Proxy, n: int = n, out: LeafType = out) -> list[Any]:
            given: list[Atom | None] = [None] * len(at.result_types)
            given[n] = at.like(row, out, "a cotangent")
            return flattened(at.pull(given))[0]

        made = vmap(pulled, (basis,), {}, 0, 0)
        rows.append(
            [
                emit("reshape", each, newshape=(*out.shape, *t.shape))
                for each, t in zip(made, at.types, strict=True)
            ]
        )
    return rows


def _by_columns(at: Linearised) -> list[list[Any]]:
    """Returns the same, of tangents of one element each."""
    columns: list[list[Any]] = []
    for n, type_ in enumerate(at.types):
        basis = _basis(type_)

        def pushed(column: Proxy, n: int = n) -> list[Any]:
            given = [
                column if k == n else emit("full", shape=t.shape, fill_value=0, dtype=str(t.dtype))
                for k, t in enumerate(at.types)
            ]
            return flattened(at.push(unflatten(at.structure, given)))[0]

        made = vmap(pushed, (basis,), {}, 0, 0)
        columns.append(
            [
                emit(
                    "reshape",
                    emit("transpose", each, axes=(*range(1, len(out.shape) + 1), 0)),
                    newshape=(*out.shape, *type_.shape),
                )
                for each, out in zip(made, at.result_types, strict=True)
            ]
        )
    return [[column[n] for column in columns] for n in range(len(at.result_types))]

"""A Python function traced into a block of the graph, to be transformed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightTypeError, UnsupportedError
from ...ir.graph.builder import Builder
from ...ir.graph.nodes import Atom, Binding, Block, Var
from ..capture.runtime import callee
from ..control.leaves import Fixed, LeafType, flattened, leaf_type
from ..control.traced import new_proxy, running
from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.pytree import Leaf, Structure, paths, unflatten
from ..core.side_effects import watched
from ..core.trace import Trace
from ..data.family import Family
from ..data.region import region_of


@dataclass(slots=True, eq=False)
class TracedBlock:
    """``block`` computes the results of a function, and then the number of checks that failed.

    ``params`` are the variables for those leaves of the arguments that the block takes; it sees all
    else around it. ``leaves`` of the result that are None are the block's results, in order.
    """

    block: Block
    params: list[Var]
    structure: Structure
    leaves: list[Fixed | None]
    types: list[LeafType]

    def tree(self, atoms: Sequence[Atom], trace: Trace) -> Any:
        """Returns the function's result, of atoms in its stead."""
        pairs = iter(zip(atoms, self.types, strict=True))
        leaves = [
            leaf.value if leaf is not None else new_proxy(trace, *next(pairs))
            for leaf in self.leaves
        ]
        return unflatten(self.structure, leaves)


def traced_block(
    name: str, function: Callable[..., Any], args: Any, taken: Callable[[str, LeafType], bool]
) -> tuple[TracedBlock, list[Atom]]:
    """Runs ``function(*args)`` in a block. Returns that, and the atoms of the leaves that it takes:
    those of which ``taken`` says so, by path and type.

    Raises UnsupportedError if the function writes to an array from outside.
    """
    trace = running()
    leaves, structure = flattened(args)
    given: list[Atom] = []
    types: list[LeafType | None] = []
    for path, leaf in zip(paths(structure, ""), leaves, strict=True):
        type_ = leaf_type(leaf)
        is_taken = isinstance(type_, LeafType) and taken(path, type_)
        types.append(type_ if isinstance(type_, LeafType) and is_taken else None)
        if is_taken:
            given.append(trace.visible(lift(leaf).atom))
    with trace.block() as scope, region_of(trace).apart():
        params = [scope.param(f"x{n}", t.tensor) for n, t in enumerate(filter(None, types))]
        rest = iter(params)
        arrays = [
            leaf if t is None else new_proxy(trace, next(rest), t)
            for leaf, t in zip(leaves, types, strict=True)
        ]
        values, made = flattened(watched(trace, function, *unflatten(structure, arrays)))
        written = [
            a
            for a, p in zip([a for a, t in zip(arrays, types) if t], params)
            if a.storage.atom is not p
        ]
        kinds = [leaf_type(value) for value in values]
        atoms = [
            trace.visible(lift(value).atom)
            for value, kind in zip(values, kinds, strict=True)
            if isinstance(kind, LeafType)
        ]
        failure = trace.memory.failure
        if failure in scope.entries:
            atoms.append(trace.visible(failure.atom))
    _refuse_values(name, made)
    if written or any(s is not failure for s in scope.entries):
        raise UnsupportedError(
            f"{name} of a function that writes to an array which is not its own",
            hint="x = x.copy() in front of the write",
        )
    with trace.reopened(scope):
        block = scope.builder.block(scope.builder.make_tuple(atoms))
    tensors = [k for k in kinds if isinstance(k, LeafType)]
    fixed = [k if isinstance(k, Fixed) else None for k in kinds]
    traced = TracedBlock(block, params, made, fixed, tensors)
    return traced, given


def _refuse_values(name: str, result: Structure) -> None:
    """Raises UnsupportedError for a result that has values of data types in it."""
    if isinstance(result, Leaf):
        return
    if isinstance(result.aux, Family):
        raise UnsupportedError(
            f"{name} of a function that returns a {result.aux}", hint="the arrays of its fields"
        )
    for child in result.children:
        _refuse_values(name, child)


def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns ``function(*args)``, with its control flow captured where the trace needs that."""
    function = callee(function) if "capturing" in running().asked else function
    return function(*args, **kwargs)


def emitted(trace: Trace, bindings: Iterable[Binding]) -> None:
    """Adds bindings that were made elsewhere to the innermost scope."""
    for binding in bindings:
        trace.builder.bindings.append(binding)
        trace.scope.adopt(binding.var)


def emitting(trace: Trace) -> Builder:
    """Returns a builder for such bindings, at the user's present line."""
    return Builder(span=trace.span or trace.here())


def smooth(value: Any) -> bool:
    """True for a leaf that has a derivative: of floats or complex numbers."""
    kind = leaf_type(value)
    return isinstance(kind, LeafType) and kind.dtype.is_inexact


def no_floats(name: str, path: str, type_: LeafType | Fixed) -> LoopwrightTypeError:
    """Returns the error for an argument that has no derivative."""
    return LoopwrightTypeError(
        f"{name}: {path} is {type_}, and only floats have derivatives",
        hint="a float (2.0, x.astype(np.float32)), or argnums= of the others",
    )


def atom_like(trace: Trace, value: Any, type_: LeafType) -> Atom:
    """Returns a value as an atom of the type of another one."""
    proxy: Proxy = lift(value, type_.dtype)
    return trace.visible(proxy.atom)

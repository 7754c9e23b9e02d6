"""Functions with a derivative of the user's: ``lw.custom_jvp`` and ``lw.custom_vjp``.

In a trace, the results of such a function go through an operator of its own, which also takes the
function's arguments. It is the identity, except that its tangent is the user's rule. In reverse
mode that is a call that nothing computes and whose transpose is the user's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from ...ir.errors import LoopwrightTypeError
from ...ir.graph.builder import Builder
from ...ir.graph.compose import Value
from ...ir.graph.derivatives.forward import or_zeros
from ...ir.graph.derivatives.rules import Step, Transposition, has_tangent
from ...ir.graph.nodes import Atom, Var
from ...ir.graph.operator import Operator, Pattern
from ...ir.graph.types import TupleType, Type
from ..control.leaves import Fixed, LeafType, check_structure, flattened, leaf_type
from ..control.traced import atom_of, new_proxy, running
from ..core.emitting import lift
from ..core.pytree import unflatten
from ..core.trace import Trace
from .block import called

Emit = Callable[[Builder, Sequence[Atom]], Any]


def operator(
    name: str,
    infer: Callable[[tuple[Type, ...]], Type],
    decompose: Emit,
    tangent: Callable[[Any], Any] | None = None,
    transpose: Callable[[Any], None] | None = None,
) -> Operator:
    """Returns an operator of one call, which is in no table."""
    return Operator(
        name=name,
        doc="An operator of one call.",
        params=("*operands",),
        pattern=Pattern.OPAQUE,
        infer=lambda types, _attrs: infer(types),
        reference=lambda arrays, _attrs: tuple(arrays),
        samples=lambda _rng: (),
        decompose=lambda b, atoms, _attrs: decompose(b, atoms),
        tangent=tangent,
        transpose=transpose,
    )


@contextmanager
def emitting_into(
    trace: Trace, builder: Builder, atoms: Sequence[Atom]
) -> Generator[None, None, None]:
    """Lets the body's operations on ``atoms``, of ended scopes too, go into a builder."""
    scope, outer = trace.scope, trace.scope.builder
    for atom in atoms:
        if isinstance(atom, Var):
            scope.adopt(atom)
    scope.builder = builder
    try:
        yield
    finally:
        scope.builder = outer


class Tree:
    """A tree of values: its atoms, and what is made of other atoms in their stead."""

    def __init__(self, tree: Any) -> None:
        self.trace = running()
        self.leaves, self.structure = flattened(tree)
        self.kinds = [leaf_type(leaf) for leaf in self.leaves]
        self.types = [k for k in self.kinds if isinstance(k, LeafType)]
        pairs = [(v, k) for v, k in zip(self.leaves, self.kinds) if isinstance(k, LeafType)]
        self.atoms = [atom_of(self.trace, value, kind) for value, kind in pairs]

    def of(self, atoms: Sequence[Atom]) -> Any:
        """Returns the tree with other atoms."""
        pairs = iter(zip(atoms, self.types, strict=True))
        leaves = [
            k.value if isinstance(k, Fixed) else new_proxy(self.trace, *next(pairs))
            for k in self.kinds
        ]
        return unflatten(self.structure, leaves)

    def atoms_like(self, what: str, tree: Any) -> list[Atom]:
        """Returns the atoms of a tree that has to have this structure and these shapes."""
        leaves, structure = flattened(tree)
        check_structure("a custom derivative", what, structure, "its like", self.structure)
        atoms: list[Atom] = []
        for value, kind in zip(leaves, self.kinds, strict=True):
            if isinstance(kind, LeafType):
                proxy = lift(value, kind.dtype)
                if proxy.type.shape != kind.shape:
                    raise LoopwrightTypeError(
                        f"a custom derivative gives {what} {proxy.type.short} for a value of {kind}"
                    )
                atoms.append(self.trace.visible(proxy.atom))
        return atoms


def call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    jvp: Callable[..., Any] | None,
    forward: Callable[..., Any] | None,
    backward: Callable[..., Any] | None,
) -> Any:
    """Returns ``function(*args)``, whose derivative is ``jvp`` or both of the others."""
    trace = running()
    given, result = Tree(args), Tree(called(function, *args))
    count = len(result.atoms)

    def tangent(step: Step) -> list[Value | None]:
        builder = step.builder
        atoms, moved = step.call.args[count:], step.tangents[count:]
        filled = [or_zeros(t, a.type, builder) for t, a in zip(moved, atoms, strict=True)]
        with emitting_into(trace, builder, [*atoms, *filled]):
            if jvp is not None and not (step.reverse and forward is not None):
                _, change = called(jvp, given.of(atoms), given.of(filled))
                tangents = result.atoms_like("a tangent", change)
            else:
                assert forward is not None and backward is not None
                rule = functools.partial(_pulled, given, result, backward)
                tangents = _linear_call(
                    builder, called(forward, *given.of(atoms)), filled, rule, result
                )
        return [Value(builder, t) if has_tangent(t.type) else None for t in tangents]

    kept = operator(
        "custom",
        lambda types: TupleType(types[:count]),
        lambda b, atoms: b.make_tuple(atoms[:count]),
        tangent,
    )
    whole = trace.builder.emit(kept, [*result.atoms, *given.atoms], span=trace.here())
    return result.of([trace.builder.get_item(whole, n) for n in range(count)])


def _linear_call(
    builder: Builder,
    outcome: Any,
    tangents: Sequence[Atom],
    rule: Callable[..., list[Atom]],
    result: Tree,
) -> list[Atom]:
    """Emits the call that takes tangents of arguments to those of results, and has a transpose."""
    if type(outcome) is not tuple or len(outcome) != 2:
        raise LoopwrightTypeError(
            "the first function of defvjp returns (result, residuals), a pair",
            hint="return y, (x, y)",
        )
    residuals = Tree(outcome[1])
    count = len(tangents)

    def transpose(step: Transposition) -> None:
        cotangents = [
            or_zeros(c, t.tensor, step.builder)
            for c, t in zip(step.fields, result.types, strict=True)
        ]
        with emitting_into(residuals.trace, step.builder, [*step.args[count:], *cotangents]):
            made = rule(residuals.of(step.args[count:]), cotangents)
        for n, atom in enumerate(made):
            if has_tangent(step.args[n].type):
                step.add(n, Value(step.builder, atom))

    def refuse(_builder: Builder, _atoms: Sequence[Atom]) -> Any:
        raise LoopwrightTypeError(
            "a function with lw.custom_vjp has no forward mode", hint="@lw.custom_jvp, or lw.vjp"
        )

    types = TupleType(tuple(t.tensor for t in result.types))
    linear = operator("custom_vjp", lambda _types: types, refuse, None, transpose)
    whole = builder.emit(linear, [*tangents, *residuals.atoms])
    return [builder.get_item(whole, n) for n in range(len(result.types))]


def _pulled(
    given: Tree, result: Tree, backward: Callable[..., Any], residuals: Any, atoms: Sequence[Atom]
) -> list[Atom]:
    """Returns the cotangents of the arguments that the user's function gives; None is 0."""
    made = called(backward, residuals, result.of(atoms))
    if type(made) is not tuple:
        made = (made,)
    leaves: list[Any] = []
    for argument, cotangent in zip(given.of(given.atoms), made, strict=True):
        parts = flattened(argument)[0]
        zero = [0.0 * p if isinstance(leaf_type(p), LeafType) else p for p in parts]
        leaves += zero if cotangent is None else flattened(cotangent)[0]
    return given.atoms_like("a cotangent", unflatten(given.structure, leaves))

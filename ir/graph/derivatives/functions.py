"""Derivatives of functions that call themselves: functions too, made when a call asks for them.

``@f_jvp(%x, %x.t)`` gives the results of ``@f(%x)`` and then their tangents. It is linear in
``%x.t``, and the transpose of a call of it is one of ``@f_vjp(%x, %ct)``, with a cotangent for each
result that is a float. What ``@f`` calls by name they call by the derivatives of it, so that a
function that calls itself has derivatives that call themselves. Nothing is kept between the two:
``@f_vjp`` computes again what it needs, in each call for all calls inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import LoopwrightTypeError
from ..builder import Builder
from ..nodes import Atom, Function, GlobalVar, Var
from ..types import FuncType, TupleType, Type, fields_of
from ..walk import with_sizes
from .forward import Tangents, or_zeros, tangent_var
from .linearise import linearise
from .rules import has_tangent


class DerivedFunctions:
    """Derivatives of ``functions`` by name, which join these when a call asks for them.
    ``new_name`` makes of a name one that no function has."""

    def __init__(self, functions: dict[str, Any], new_name: Callable[[str], str]) -> None:
        self.functions, self.new_name = functions, new_name
        self._forward: dict[tuple[str, tuple[bool, ...]], GlobalVar] = {}
        self._backward: dict[GlobalVar, GlobalVar] = {}
        self._sources: dict[GlobalVar, tuple[str, tuple[bool, ...]]] = {}  # of those in _forward

    def forward(self, callee: GlobalVar | Var, moving: tuple[bool, ...]) -> GlobalVar:
        """Returns a function that has the results of ``callee``, and then tangents of its floats.
        It takes what ``callee`` takes, and then the tangents of the parameters that are ``moving``.

        Raises LoopwrightTypeError for a kernel, or a function that is not traced to its end.
        """
        key = callee.name, moving
        if key not in self._forward:
            function = self._copy(callee.name)
            inputs = {
                p: tangent_var(p) for p, moves in zip(function.params, moving, strict=True) if moves
            }
            results = fields_of(function.body.result.type)
            everything = [*function.params, *inputs.values()]
            types = [*results, *filter(has_tangent, results)]
            name = self._forward[key] = self._declared(f"{callee.name}_jvp", everything, types)
            self._sources[name] = key
            tangents = Tangents(Builder(), inputs, derived=self)
            values, moved = tangents.outcome(function.body)
            values += (
                or_zeros(t, r, tangents.builder)
                for t, r in zip(moved, results, strict=True)
                if has_tangent(r)
            )
            self._define(name, everything, values, tangents.builder)
        return self._forward[key]

    def backward(self, forward: GlobalVar) -> GlobalVar:
        """Returns a function with the cotangents of what ``forward`` takes the tangents of. Its
        parameters are those of the function at hand, and cotangents of the floats it gives."""
        if forward not in self._backward:
            source, moving = self._sources[forward]
            function = self._copy(source)
            results = fields_of(function.body.result.type)
            given = {n: Var(f"ct{n}", t) for n, t in enumerate(results) if has_tangent(t)}
            inputs = [p for p, moves in zip(function.params, moving, strict=True) if moves]
            everything = [*function.params, *given.values()]
            types = [p.type for p in inputs]
            name = self._backward[forward] = self._declared(f"{source}_vjp", everything, types)
            builder = Builder()
            _, linear = linearise(function.body, inputs, builder, self)
            atoms = linear.pull([given.get(n) for n in range(len(results))], builder)
            ends = [or_zeros(a, t, builder) for a, t in zip(atoms, types, strict=True)]
            self._define(name, everything, ends, builder)
        return self._backward[forward]

    def _copy(self, name: str) -> Function:
        function = self.functions.get(name)
        if not isinstance(function, Function):
            kind = "not traced to its end" if function is None else "a kernel of its own"
            raise LoopwrightTypeError(
                f"{name} has no derivative here: it is {kind}",
                hint="a loop, or @lw.custom_vjp on a function around it",
            )
        return with_sizes(function, {})

    def _declared(self, name: str, params: Sequence[Var], results: Sequence[Type]) -> GlobalVar:
        """Returns a function without a body, which comes later, as it may call itself."""
        type = FuncType(tuple(p.type for p in params), TupleType(tuple(results)))
        return GlobalVar(self.new_name(name), type)

    def _define(
        self, name: GlobalVar, params: Sequence[Var], results: Sequence[Atom], builder: Builder
    ) -> None:
        block = builder.block(builder.make_tuple(results))
        self.functions[name.name] = Function(tuple(params), block)

"""Derivatives of whole functions: what the two modes are on the page.

Both take a function of tensors without calls of other functions, and say with respect to which of
its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.derivatives.forward import Tangents, or_zeros, tangent_var
from loopwright.ir.graph.derivatives.functions import DerivedFunctions
from loopwright.ir.graph.derivatives.linearise import linearise
from loopwright.ir.graph.derivatives.rules import has_tangent
from loopwright.ir.graph.nodes import Atom, Function, Var


def forward(function: Function, moving: Sequence[Var]) -> Function:
    """Returns the function of the parameters, then the tangents of those that are ``moving``; its
    results are those of ``function``, then the tangents of those that are floats."""
    inputs = [tangent_var(v) for v in moving]
    tangents = Tangents(
        Builder(), dict(zip(moving, inputs, strict=True)), DerivedFunctions({}, str)
    )
    values, moved = tangents.outcome(function.body)
    builder = tangents.builder
    ends = [
        or_zeros(t, v.type, builder)
        for v, t in zip(values, moved, strict=True)
        if has_tangent(v.type)
    ]
    return _function(function, [*function.params, *inputs], [*values, *ends], builder)


def backward(function: Function, moving: Sequence[Var]) -> Function:
    """Returns the function of the parameters, then cotangents of those results that are floats; its
    results are those of ``function``, then the cotangents of the parameters ``moving``."""
    builder = Builder()
    values, linear = linearise(function.body, moving, builder, DerivedFunctions({}, str))
    inputs: list[Var] = []
    cotangents: list[Atom | None] = []
    for value in values:
        smooth = has_tangent(value.type)
        inputs += [Var(f"ct{len(inputs)}", value.type)] if smooth else []
        cotangents.append(inputs[-1] if smooth else None)
    given = linear.pull(cotangents, builder)
    ends = [or_zeros(c, v.type, builder) for v, c in zip(moving, given, strict=True)]
    return _function(function, [*function.params, *inputs], [*values, *ends], builder)


def _function(
    function: Function, params: Sequence[Var], results: Sequence[Atom], builder: Builder
) -> Function:
    body = builder.block(builder.make_tuple(results))
    return Function(tuple(params), body, function.attrs, function.span, function.requirements)

"""Compute what is written twice only once.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = exp(%x);
      %1 = exp(%x);
      add(%0, %1)
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = exp(%x);
      add(%0, %0)
    }

Inside a branch, values from before it are reused; what a branch computes is not known outside.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..builder import Builder
from ..nodes import Atom, Call, Constant, Expr, Function, GlobalVar, If, Module, TupleGetItem, Var
from ..printer import value_text
from ..walk import operands
from .rewrite import map_functions, rewrite_function

__all__ = ["atom_key", "eliminate_common_subexpressions"]

_COMPARED_BYTES = 4096
"""Constants up to this size are compared by content; bigger ones by being the same array."""


def eliminate_common_subexpressions(module: Module) -> Module:
    """Replace each binding by an earlier one of the same operator, operands and attributes."""
    return map_functions(module, _once)


def _once(function: Function) -> Function:
    scopes: list[dict[Hashable, Var]] = [{}]

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if isinstance(value, Function | If):
            return None
        if isinstance(value, Var | Constant | GlobalVar):
            return value
        key = _key(value)
        for scope in scopes:
            if key in scope:
                return scope[key]
        scopes[-1][key] = var
        return None

    return rewrite_function(
        function, step, enter=lambda: scopes.append({}), leave=lambda: (scopes.pop(), None)[1]
    )


def _key(value: Expr) -> Hashable:
    parts: list[Hashable] = [type(value), *map(atom_key, operands(value))]
    if isinstance(value, Call):
        parts.append(value.op if isinstance(value.op, GlobalVar | Var) else value.op.name)
        # Text tells 1 from 1.0 and True, which compare equal.
        parts += [f"{name}={value_text(attr)}" for name, attr in value.attrs.items()]
    elif isinstance(value, TupleGetItem):
        parts.append(value.index)
    return tuple(parts)


def atom_key(atom: Atom) -> Hashable:
    """Equal for atoms that are certainly the same value."""
    if isinstance(atom, Constant):
        array = atom.value
        if array.nbytes > _COMPARED_BYTES:
            return id(array)
        return (array.dtype.name, array.shape, array.tobytes())
    return atom.name if isinstance(atom, GlobalVar) else atom

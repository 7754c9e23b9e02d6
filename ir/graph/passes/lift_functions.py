"""Lambda lifting: make functions inside of others functions of the module.

Before::

    def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %f = fn (%a: Tensor[(4), float32]) -> Tensor[(4), float32] {
        multiply(%a, %y)
      };
      %0 = %f(%x);
      %f(%0)
    }

After::

    def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = @f(%x, %y);
      @f(%0, %y)
    }

    def @f(%a: Tensor[(4), float32], %y: Tensor[(4), float32]) -> Tensor[(4), float32] {
      multiply(%a, %y)
    }

A function that is only called gets the variables that it uses from outside as further parameters
(T. Johnsson, "Lambda lifting: transforming programs to recursive equations", 1985). One that is a
value as well stays where it is: ``defunctionalise.py`` has those.
"""

from __future__ import annotations

from dataclasses import replace

from .. import nodes
from ..builder import Builder
from ..nodes import Atom, Expr, Function, GlobalVar, Var
from ..types import FuncType, type_variables
from ..walk import (
    all_bindings,
    captured_variables,
    copy_block,
    free_sizes,
    nested_blocks,
    operands,
)
from .eliminate_dead_code import rewrite_without_dead_code

_Functions = dict[str, "Function | nodes.PrimFunc"]


def lift_functions(module: nodes.Module) -> nodes.Module:
    """Moves functions that are only called out of the functions that they are in."""
    functions: _Functions = dict(module.functions)
    work = [*functions]
    for name in work:  # which grows: there may be functions inside of lifted ones
        function = functions[name]
        if isinstance(function, Function):
            functions[name] = _lift(function, functions)
            work += [n for n in functions if n not in work]
    same = all(module.functions.get(n) is f for n, f in functions.items())
    return module if same else module.with_functions(functions)


def _lift(function: Function, functions: _Functions) -> Function:
    """Returns a function without those inside that are only called, which join ``functions``."""
    inside = {b.var: b.value for b in all_bindings(function) if isinstance(b.value, Function)}
    values: set[Atom] = {function.body.result}
    for binding in all_bindings(function) if inside else ():
        value = binding.value
        values.update(value.args if isinstance(value, nodes.Call) else operands(value))
        values.update(block.result for block in nested_blocks(value))
    lifted: dict[Atom, tuple[GlobalVar, tuple[Var, ...]]] = {}
    for var, local in inside.items():
        captured = captured_variables(local)
        kinds = [*(c.type for c in captured), local.type]
        is_open = bool(free_sizes(local)) or any(map(type_variables, kinds))
        if var not in values and not is_open and not any(c in inside for c in captured):
            lifted[var] = _outer(var, local, captured, functions), captured

    results: dict[Var, Var] = {}  # of calls: what captured them gets the new ones

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, nodes.Call) or not isinstance(value.op, Var):
            return None
        if value.op not in lifted:
            return None
        callee, captured = lifted[value.op]
        args = (*value.args, *(results.get(v, v) for v in captured))
        results[var] = builder.emit(callee, args, value.attrs, span=value.span)
        return results[var]

    return rewrite_without_dead_code(function, step) if lifted else function


def _outer(
    var: Var, local: Function, captured: tuple[Var, ...], functions: _Functions
) -> GlobalVar:
    """Adds a function of the module for one inside of a function."""
    name = base = "function" if var.name.isdigit() else var.name
    number = 0
    while name in functions:
        number += 1
        name = f"{base}_{number}"
    params = tuple(Var(p.name, p.type, p.span) for p in (*local.params, *captured))
    instead: dict[Var, Atom] = dict(zip((*local.params, *captured), params, strict=True))
    functions[name] = replace(local, params=params, body=copy_block(local.body, instead))
    return GlobalVar(name, FuncType(tuple(p.type for p in params), local.body.result.type))

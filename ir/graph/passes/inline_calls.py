"""Put small functions in the place of their calls.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = @square(%x);
      @square(%0)
    }

    def @square(%y: Tensor[(4), float32]) -> Tensor[(4), float32] {
      multiply(%y, %y)
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = multiply(%x, %x);
      multiply(%0, %0)
    }

Functions that can reach themselves stay, and so do groups made by fusion. A function that is bound
to a variable is put in the place of that variable's calls in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..builder import Builder
from ..call_graph import call_graph, callees_first, recursive_components
from ..nodes import Atom, Call, Expr, Function, GlobalVar, Module, Var
from ..types import bind_sizes
from ..walk import all_bindings, copy_block, count_bindings, global_variables, rewrite_function
from .eliminate_dead_code import eliminate_dead_code

MOST_BINDINGS = 1000
"""Bindings of a function that is copied to each of its calls. Called once, it may be longer."""


def inline_calls(module: Module) -> Module:
    """Inlines calls of functions of the module, the innermost first."""
    calls = call_graph(module)
    if not any(calls.values()) and not _has_local_functions(module):
        return module
    times = Counter[str]()
    for name in calls:
        function = module.functions[name]
        assert isinstance(function, Function)
        times.update(global_variables(function))
    recursive = recursive_components(calls)
    bodies: dict[str, Function] = {}
    result = module
    for name in callees_first(calls, recursive):
        function = module.functions[name]
        assert isinstance(function, Function)
        inlined = inline_into(function, bodies)
        while (changed := inline_into(inlined, bodies)) is not inlined:
            inlined = changed  # a function handed over as an argument can be called now
        result = result.with_function(name, inlined)
        small = times[name] == 1 or count_bindings(inlined) <= MOST_BINDINGS
        if small and name not in recursive and name != "main":
            bodies[name] = inlined
    return module if result is module else eliminate_dead_code(result)


def _has_local_functions(module: Module) -> bool:
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    return any(isinstance(b.value, Function) for f in functions for b in all_bindings(f))


def inline_into(function: Function, bodies: Mapping[str, Function]) -> Function:
    """``function`` with the calls of functions in ``bodies`` replaced by their bodies."""
    local: dict[Var, Function] = {}

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if isinstance(value, Function):
            local[var] = value
        if not isinstance(value, Call):
            return None
        if isinstance(value.op, GlobalVar):
            body = bodies.get(value.op.name)
        else:
            body = local.get(value.op) if isinstance(value.op, Var) else None
        return emit_body(body, value.args, builder) if body is not None else None

    return rewrite_function(function, step)


def emit_body(function: Function, args: tuple[Atom, ...], builder: Builder) -> Atom:
    """Emits the body of ``function`` on ``args``, with variables of its own."""
    instead: dict[Var, Atom] = dict(zip(function.params, args, strict=True))
    sizes = bind_sizes([p.type for p in function.params], [a.type for a in args])
    block = copy_block(function.body, instead, sizes)
    builder.bindings.extend(block.bindings)
    return block.result

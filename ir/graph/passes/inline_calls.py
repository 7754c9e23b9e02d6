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
from collections.abc import Collection, Mapping

from ..builder import Builder
from ..nodes import Atom, Call, Expr, Function, GlobalVar, Module, Var
from ..walk import copy_block, count_bindings, global_variables, rewrite_function
from .eliminate_dead_code import eliminate_dead_code

__all__ = ["inline_calls"]

MOST_BINDINGS = 1000
"""Bindings of a function that is copied to each of its calls. Called once, it may be longer."""


def inline_calls(module: Module) -> Module:
    """Inlines calls of functions of the module, the innermost first."""
    opened = {n: f for n, f in module.functions.items() if _is_open(f)}
    uses = {n: global_variables(f) for n, f in opened.items() if isinstance(f, Function)}
    calls = {n: [c for c in callees if c in opened] for n, callees in uses.items()}
    times = Counter[str]()
    for callees in uses.values():
        times.update(callees)
    recursive = _recursive(calls)
    bodies: dict[str, Function] = {}
    result = module
    for name in _callees_first(calls, recursive):
        function = module.functions[name]
        assert isinstance(function, Function)
        inlined = _inline(function, bodies)
        while (changed := _inline(inlined, bodies)) is not inlined:
            inlined = changed  # a function handed over as an argument can be called now
        result = result.with_function(name, inlined)
        small = times[name] == 1 or count_bindings(inlined) <= MOST_BINDINGS
        if small and name not in recursive and name != "main":
            bodies[name] = inlined
    return module if result is module else eliminate_dead_code(result)


def _callees_first(calls: Mapping[str, Collection[str]], recursive: Collection[str]) -> list[str]:
    """Every function after those it calls, where recursive ones count as called by nobody."""
    waiting = {name: {c for c in callees if c not in recursive} for name, callees in calls.items()}
    callers: dict[str, list[str]] = {name: [] for name in calls}
    for name, callees in waiting.items():
        for callee in callees:
            callers[callee].append(name)
    ready = [name for name, callees in waiting.items() if not callees]
    order: list[str] = []
    while ready:
        name = ready.pop()
        order.append(name)
        for caller in callers[name]:
            waiting[caller].discard(name)
            if not waiting[caller]:
                ready.append(caller)
    return order


def _recursive(calls: Mapping[str, Collection[str]]) -> set[str]:
    """Returns the functions that can reach themselves."""
    callees: set[str] = set()
    for name in calls:
        seen: set[str] = set()
        work = list(calls[name])
        while work:
            callee = work.pop()
            if callee not in seen:
                seen.add(callee)
                work += calls[callee]
        if name in seen:
            callees.add(name)
    return callees


def _is_open(function: object) -> bool:
    return isinstance(function, Function) and not function.attrs.get("primitive")


def _inline(function: Function, bodies: Mapping[str, Function]) -> Function:
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
        return _copy(body, value.args, builder) if body is not None else None

    return rewrite_function(function, step)


def _copy(function: Function, args: tuple[Atom, ...], builder: Builder) -> Atom:
    """Emits the body of ``function`` on ``args``, with variables of its own."""
    instead: dict[Var, Atom] = dict(zip(function.params, args, strict=True))
    block = copy_block(function.body, instead)
    builder.bindings.extend(block.bindings)
    return block.result

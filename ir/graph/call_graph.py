"""The call graph: the functions of a module that each function calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .nodes import Function, Module
from .walk import global_variables


def call_graph(module: Module) -> dict[str, list[str]]:
    """Returns the functions that each function of ``module`` refers to; kernels and the groups
    that are made into kernels are neither callers nor callees."""
    opened = [
        name
        for name, function in module.functions.items()
        if isinstance(function, Function) and not function.attrs.get("primitive")
    ]
    calls: dict[str, list[str]] = {}
    for name in opened:
        function = module.functions[name]
        assert isinstance(function, Function)
        calls[name] = [callee for callee in global_variables(function) if callee in opened]
    return calls


def recursive_components(calls: Mapping[str, Collection[str]]) -> dict[str, frozenset[str]]:
    """Returns the functions on the cycles of each function that can reach itself."""
    reached = {name: _reached(name, calls) for name in calls}
    return {
        name: frozenset(other for other in others if name in reached[other])
        for name, others in reached.items()
        if name in others
    }


def _reached(name: str, calls: Mapping[str, Collection[str]]) -> set[str]:
    seen: set[str] = set()
    work = list(calls[name])
    while work:
        callee = work.pop()
        if callee not in seen:
            seen.add(callee)
            work += calls[callee]
    return seen


def callees_first(
    calls: Mapping[str, Collection[str]], recursive: Collection[str] = ()
) -> list[str]:
    """Returns every function after those it calls, where ``recursive`` ones count as called by
    nobody. Functions on a cycle without one of these are left out."""
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

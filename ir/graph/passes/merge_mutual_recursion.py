"""Make one function of several that call each other in a cycle.

Before::

    def @main(%n: int64) -> bool {
      @even(%n)
    }

    def @even(%n: int64) -> bool {
      %0 = equal(%n, 0i64);
      if (%0) {
        True
      } else {
        @odd(subtract(%n, 1i64))
      }
    }

    def @odd(%n: int64) -> bool {
      %0 = equal(%n, 0i64);
      if (%0) {
        False
      } else {
        @even(subtract(%n, 1i64))
      }
    }

After::

    def @main(%n: int64) -> bool {
      @even(%n)
    }

    def @even(%n: int64) -> bool {
      %0 = equal(%n, 0i64);
      if (%0) {
        True
      } else {
        %1 = subtract(%n, 1i64);
        %2 = equal(%1, 0i64);
        if (%2) {
          False
        } else {
          @even(subtract(%1, 1i64))
        }
      }
    }

A function through which all cycles lead stays, and the others are inlined. It calls itself only,
which other passes understand: ``tail_calls_to_loops`` makes a loop of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...pass_context import optional
from ..call_graph import call_graph, callees_first, recursive_components
from ..nodes import Function, Module
from ..walk import count_bindings
from .eliminate_dead_code import eliminate_dead_code
from .inline_calls import MOST_BINDINGS, inline_into


@optional(level=1)
def merge_mutual_recursion(module: Module) -> Module:
    """Inlines all but one of the functions on a cycle where what remains calls only itself."""
    calls = call_graph(module)
    components = {c for c in recursive_components(calls).values() if len(c) > 1}
    if not components:
        return module
    result = module
    for component in sorted(components, key=min):
        inside = {name: [c for c in calls[name] if c in component] for name in component}
        kept = _cut(inside, calls)
        if kept is not None:
            result = _merged(result, inside, kept)
    return module if result is module else eliminate_dead_code(result)


def _cut(inside: Mapping[str, Collection[str]], calls: Mapping[str, Collection[str]]) -> str | None:
    """Returns a function without which nothing of a component calls itself: if possible one that
    others call, which then call what was merged and no copy of it."""
    outside = {c for name, callees in calls.items() if name not in inside for c in callees}
    for name in sorted(inside, key=lambda name: (name not in outside, name)):
        rest = {n: [c for c in callees if c != name] for n, callees in inside.items() if n != name}
        if not recursive_components(rest):
            return name
    return None


def _merged(module: Module, inside: Mapping[str, Collection[str]], kept: str) -> Module:
    """``module`` with the functions of a component inlined into the one that is ``kept``."""
    bodies: dict[str, Function] = {}
    result = module
    order = callees_first(inside, {kept})
    for name in [*(n for n in order if n != kept), kept]:
        function = module.functions[name]
        assert isinstance(function, Function)
        function = inline_into(function, bodies)
        if count_bindings(function) > MOST_BINDINGS:
            return module
        result = result.with_function(name, function)
        if name != kept:
            bodies[name] = function
    return result

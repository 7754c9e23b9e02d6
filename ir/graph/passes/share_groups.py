"""Let groups that differ in the values of scalars alone share one function, which takes them.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = @scale(%x);
      %1 = @scale_1(%0);
      %2 = @scale_2(%1);
      @scale_3(%2)
    }

    def @scale(%x: Tensor[(4), float32], primitive=True, pattern=0) -> Tensor[(4), float32] {
      multiply(%x, 1.5f)
    }

    def @scale_1(%x: Tensor[(4), float32], primitive=True, pattern=0) -> Tensor[(4), float32] {
      multiply(%x, 2.5f)
    }

    def @scale_2(%x: Tensor[(4), float32], primitive=True, pattern=0) -> Tensor[(4), float32] {
      multiply(%x, 3.5f)
    }

    def @scale_3(%x: Tensor[(4), float32], primitive=True, pattern=0) -> Tensor[(4), float32] {
      multiply(%x, 4.5f)
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = @scale(%x, 1.5f);
      %1 = @scale(%0, 2.5f);
      %2 = @scale(%1, 3.5f);
      @scale(%2, 4.5f)
    }

    def @scale(
      %x: Tensor[(4), float32],
      %p1: float32,
      primitive=True, pattern=0
    ) -> Tensor[(4), float32] {
      multiply(%x, %p1)
    }

The steps of a loop that Python unrolled are such groups if each has a coefficient of its own. A
kernel takes 10 to 30 ms to schedule and compile, and reads a scalar once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from ...pass_context import optional
from ..builder import Builder
from ..nodes import Atom, Call, Constant, Expr, Function, GlobalVar, Module, Var
from ..operator import Pattern
from ..structural import canonical_text
from ..walk import map_functions, map_operands, rewrite_function

FEWEST_ALIKE = 4
"""Number of groups that are worth a shared function: a scalar in the code can be better known."""
MOST_SCALARS = 64
"""Number of scalars that a shared function may take: each is an operand of the kernel."""


@optional(level=2)
def share_groups(module: Module) -> Module:
    """At least ``FEWEST_ALIKE`` groups that differ in floating scalars become one function."""
    groups = {
        name: function
        for name, function in module.functions.items()
        if isinstance(function, Function) and function.attrs.get("primitive")
    }
    instead: dict[str, tuple[GlobalVar, tuple[Constant, ...]]] = {}
    functions = dict(module.functions)
    for names in _alike(groups):
        shared = _shared([groups[name] for name in names])
        if shared is not None:
            function, scalars = shared
            functions[names[0]] = function
            target = GlobalVar(names[0], function.type)
            instead.update((name, (target, row)) for name, row in zip(names, scalars))
    if not instead:
        return module
    for name in instead.keys() - {target.name for target, _ in instead.values()}:
        del functions[name]

    def step(_: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
            return None
        if value.op.name not in instead:
            return None
        target, scalars = instead[value.op.name]
        call = Call(target, (*value.args, *scalars), value.attrs, value.span)
        return builder.bind(call, target.type.result)

    return map_functions(module.with_functions(functions), lambda f: rewrite_function(f, step))


def _alike(groups: Mapping[str, Function]) -> Iterator[list[str]]:
    """Yields the names of groups that are equal but for their scalars, where they are many."""
    by_operators: dict[object, list[str]] = defaultdict(list)
    for name, group in groups.items():
        values = (b.value for b in group.body.bindings)
        by_operators[tuple(v.op.name if isinstance(v, Call) else "" for v in values)].append(name)
    for candidates in by_operators.values():
        if len(candidates) < FEWEST_ALIKE:
            continue
        by_text: dict[str, list[str]] = defaultdict(list)
        for name in candidates:
            plain = _with_scalars(groups[name], lambda scalar: Constant(np.ones_like(scalar.value)))
            by_text[canonical_text(plain)].append(name)
        yield from (names for names in by_text.values() if len(names) >= FEWEST_ALIKE)


def _shared(groups: Sequence[Function]) -> tuple[Function, list[tuple[Constant, ...]]] | None:
    """Returns the function of groups that are alike, and what a call passes in the place of each:
    a row of scalars. None if there are too many of them."""
    columns = [*zip(*map(_scalars, groups))]
    # Scalars that are the same in every group, of one dtype, are one parameter.
    keys = [(column[0].value.dtype, *(s.value.item() for s in column)) for column in columns]
    differing = {key: column for key, column in zip(keys, columns) if len({*key[1:]}) > 1}
    if len(differing) > MOST_SCALARS:
        return None
    params = groups[0].params
    names = (f"p{n}" for n in range(len(params), len(params) + len(differing)))
    new = {key: Var(name, column[0].type) for name, (key, column) in zip(names, differing.items())}
    inside = iter([new.get(key) or column[0] for key, column in zip(keys, columns)])
    function = _with_scalars(groups[0], lambda _: next(inside))
    return replace(function, params=(*params, *new.values())), [*zip(*differing.values())]


def _scalars(group: Function) -> list[Constant]:
    """Returns the scalars in which a group may differ from those it is alike, in their order."""
    scalars: list[Constant] = []
    _with_scalars(group, lambda scalar: scalars.append(scalar) or scalar)
    return scalars


def _with_scalars(group: Function, change: Callable[[Constant], Atom]) -> Function:
    """Returns a group with other atoms for its scalars, which ``change`` sees in their order."""

    def value(old: Expr) -> Expr:
        if not isinstance(old, Call) or old.operator.pattern != Pattern.BROADCAST:
            return old
        return map_operands(old, lambda a: change(a) if _is_scalar(a) else a)

    bindings = tuple(replace(b, value=value(b.value)) for b in group.body.bindings)
    return group.with_body(replace(group.body, bindings=bindings))


def _is_scalar(atom: Atom) -> TypeGuard[Constant]:
    """True for a floating constant of no axes that is neither 0, infinite nor NaN."""
    if not isinstance(atom, Constant) or atom.value.ndim or atom.value.dtype.kind != "f":
        return False
    return math.isfinite(atom.value.item()) and atom.value.item() != 0

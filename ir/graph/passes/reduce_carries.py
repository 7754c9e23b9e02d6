"""Carry only values that change, and each of them once.

Before::

    def @main(%x: Tensor[(4), float32], %w: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = for (%i < 8i64; %a = %x, %b = %w, %c = %x) {
        %1 = multiply(%a, %b);
        %2 = multiply(%c, %b);
        (%1, %b, %2)
      };
      %3 = %0.0;
      %4 = %0.2;
      add(%3, %4)
    }

After::

    def @main(%x: Tensor[(4), float32], %w: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = for (%i < 8i64; %a = %x) {
        %1 = multiply(%a, %w);
        (%1,)
      };
      %3 = %0.0;
      add(%3, %3)
    }

A value that goes on as what it was, or as what it began as, is its initial value. Two that begin
alike are the same if they go on alike, which is assumed of all that begin alike and then refuted,
as in Hopcroft's minimisation of automata.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from ...pass_context import optional
from .. import nodes
from ..builder import Builder
from ..loops import next_values, with_carries
from ..structural import atom_key, detail
from ..walk import map_functions, nested_blocks, operands
from .eliminate_dead_code import rewrite_without_dead_code


@optional(level=1)
def reduce_carries(module: nodes.Module) -> nodes.Module:
    """Replaces carried values that never change, or are others' equals."""
    return map_functions(module, _reduce, (nodes.While, nodes.For))


def _reduce(function: nodes.Function) -> nodes.Function:
    tuples: dict[nodes.Atom, tuple[nodes.Atom, ...]] = {}

    def step(var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
        if isinstance(value, nodes.Tuple):
            tuples[var] = value.fields
        if isinstance(value, nodes.TupleGetItem):
            fields = tuples.get(value.value)
            return fields[value.index] if fields is not None else None
        if not isinstance(value, nodes.While | nodes.For):
            return None
        instead = _replaced(value)
        if not instead:
            return None
        fields = with_carries(value, instead, builder)
        new = builder.make_tuple(fields)
        tuples[new] = tuple(fields)
        return new

    return rewrite_without_dead_code(function, step)


def _replaced(loop: nodes.While | nodes.For) -> dict[nodes.Var, nodes.Atom]:
    """Returns the atoms that carried values are: their initial values, or others of them."""
    following = next_values(loop.body)
    if following is None:
        return {}
    instead: dict[nodes.Var, nodes.Atom] = {}
    changed = True
    while changed:
        changed = False
        for param, begin, end in zip(loop.params, loop.initial, following, strict=True):
            if param in instead:
                continue
            now = instead.get(end, end) if isinstance(end, nodes.Var) else end
            if now is param or atom_key(now) == atom_key(begin):
                instead[param], changed = begin, True
    left = [n for n, p in enumerate(loop.params) if p not in instead]
    begins = [atom_key(loop.initial[n]) for n in left]
    if len(set(begins)) == len(begins):
        return instead
    classes = {loop.params[n]: (loop.params[n].type, key) for n, key in zip(left, begins)}
    for param, first in _equal_params(loop, following, classes).items():
        if param is not first:
            instead[param] = first
    return instead


def _equal_params(
    loop: nodes.While | nodes.For,
    following: Sequence[nodes.Atom],
    classes: Mapping[nodes.Var, Hashable],
) -> dict[nodes.Var, nodes.Var]:
    """Returns the first of each class of params that stay equal, for each of its members."""
    nexts = dict(zip(loop.params, following, strict=True))
    while True:
        first: dict[Hashable, nodes.Var] = {}
        leaders = {p: first.setdefault(key, p) for p, key in classes.items()}
        if len(first) == len(classes):
            return leaders
        numbers = _value_numbers(loop.body, leaders)
        refined = {
            p: (leaders[p], numbers.get(end, atom_key(end)))
            for p, end in nexts.items()
            if p in leaders
        }
        if len(set(refined.values())) == len(first):
            return leaders
        classes = refined


def _value_numbers(
    body: nodes.Block, leaders: Mapping[nodes.Var, nodes.Var]
) -> dict[nodes.Atom, Hashable]:
    """Returns, for each variable of the top of ``body``, what is equal for equal values."""
    numbers: dict[nodes.Atom, Hashable] = {p: ("param", leader) for p, leader in leaders.items()}
    seen: dict[Hashable, int] = {}
    for binding in body.bindings:
        value = binding.value
        if nested_blocks(value):
            continue
        op = value.op if isinstance(value, nodes.Call) else None
        atoms = tuple(numbers.get(a, atom_key(a)) for a in operands(value))
        key = (type(value), detail(value), op if op is None else id(op), atoms)
        numbers[binding.var] = ("value", seen.setdefault(key, len(seen)))
    return numbers

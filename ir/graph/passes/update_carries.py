"""Write small slices of arrays that a loop carries, or carried, or that were updated, in place.

Before::

    def @main(%x: Tensor[(64), float32]) -> Tensor[(64), float32] {
      %0 = for (%i < 9i64; %y = %x) {
        %1 = strided_slice(%y, begin=[1], end=[3], strides=[1]);
        %2 = strided_set(%y, %1, begin=[7], strides=[1]);
        (%2,)
      };
      %0.0
    }

After::

    def @main(%x: Tensor[(64), float32]) -> Tensor[(64), float32] {
      %0 = for (%i < 9i64; %y = %x) {
        %1 = strided_slice(%y, begin=[1], end=[3], strides=[1]);
        %2 = index_update(%y, %1, begin=[7], strides=[1], sizes=[2]);
        (%2,)
      };
      %0.0
    }

``strided_set`` computes all elements of its result, and fuses with what computes ``%y`` or reads
it; ``index_update`` writes those that change, where the array lies. What a loop has left of an
array is written in place, too: it seldom has another reader.
"""

from __future__ import annotations

from ...pass_context import optional
from ..builder import Builder
from ..nodes import Atom, Call, Expr, For, Function, Module, TupleGetItem, Var, While, tensor_type
from ..operator import get
from ..walk import all_bindings, map_functions, rewrite_function

SMALL = 4
"""A slice is small if so many of it do not exceed the array."""


@optional(level=1)
def update_carries(module: Module) -> Module:
    """Writes small slices of arrays that loops carry, or carried, in place."""
    return map_functions(module, _updated)


def _updated(function: Function) -> Function:
    carried: set[Atom] = set()
    loops: set[Var] = set()
    for binding in all_bindings(function):
        value = binding.value
        if isinstance(value, While | For):
            carried.update(value.params)
            loops.add(binding.var)
        is_field = isinstance(value, TupleGetItem) and value.value in loops
        if is_field or (isinstance(value, Call) and value.op is get("index_update")):
            carried.add(binding.var)
    if not carried:
        return function

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call) or getattr(value.op, "name", "") not in _WRITES:
            return None
        base, part = value.args[:2]
        if base not in carried:
            return None
        carried.add(var)
        if value.op is not get("strided_set") or not _is_small(part, base):
            return None
        attrs = {**value.attrs, "sizes": tensor_type(part).shape}
        updated = builder.emit(get("index_update"), (base, part), attrs)
        carried.add(updated)
        return updated

    return rewrite_function(function, step)


_WRITES = ("strided_set", "index_update")


def _is_small(part: Atom, base: Atom) -> bool:
    size, whole = tensor_type(part).size, tensor_type(base).size
    return isinstance(size, int) and isinstance(whole, int) and SMALL * size <= whole

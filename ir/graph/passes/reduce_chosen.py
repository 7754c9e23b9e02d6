"""Reduce the elements that a mask chooses where they are, without gathering them first.

Before::

    def @main[s0.data in 0..8](
      %x: Tensor[(8), float32],
      %mask: Tensor[(8), bool]
    ) -> Tensor[(), float32] {
      %c = cast(%mask, dtype="int64");
      %n = sum(%c, axis=[0]);
      %0 = set_size(%n, size=s0.data, most=8);
      %1 = true_places(%mask, size=s0.data);
      %2 = take(%x, %1, axis=0);
      sum(%2, axis=[0])
    }

After::

    def @main[s0.data in 0..8](
      %x: Tensor[(8), float32],
      %mask: Tensor[(8), bool]
    ) -> Tensor[(), float32] {
      %c = cast(%mask, dtype="int64");
      %n = sum(%c, axis=[0]);
      %0 = set_size(%n, size=s0.data, most=8);
      %1 = true_places(%mask, size=s0.data);
      %2 = take(%x, %1, axis=0);
      %3 = where(%mask, %x, 0f32);
      sum(%3, axis=[0])
    }

(What nobody reads any more goes with the dead code.)
Elementwise operators may stand between: ``((x[m] - a) ** 2).mean()`` is one pass over the memory
of ``x`` and ``m``.
"""

from __future__ import annotations

import numpy as np

from ...dims import IntExpr
from ...loop.scalar import COMBINERS
from ...pass_context import optional
from ..builder import Builder
from ..limits import DEFAULT_LIMITS
from ..nodes import Atom, Call, Constant, Module, Var, tensor_type
from ..operator import Pattern, get
from ..patterns import is_op, match, wildcard
from ..type_rules import normalise_axes
from ..walk import Calls, CallStep, map_functions, rewrite_blocks


@optional(level=2)
def reduce_chosen(module: Module) -> Module:
    """Reduces what masks choose without gathering it."""
    return map_functions(module, lambda function: rewrite_blocks(function, _new_step))


_MASK = wildcard("mask").optional(lambda mask: is_op("reshape")(mask))
_COUNT = is_op("sum")(is_op("cast")(_MASK)).has_shape(())
_PLACES = is_op("true_places")(wildcard("mask")).has_attr({"size": wildcard("size")})
_CHOSEN = is_op("take")(wildcard("rows"), _PLACES.named("places")).has_attr({"axis": 0})


def _new_step(calls: Calls) -> CallStep:
    setters: dict[IntExpr, Atom] = {}  # what sets the sizes that data decide

    def step(_var: Var, call: Call, builder: Builder) -> Atom | None:
        if call.op is get("set_size"):
            setters[call.attrs["size"]] = call.args[0]
        combiner = COMBINERS.get(call.operator.name)
        if call.operator.pattern != Pattern.REDUCTION or combiner is None:
            return None
        kind = tensor_type(call.args[0])
        if 0 not in normalise_axes(call.attrs.get("axis"), kind.rank, kind):
            return None
        places = _places(call.args[0], calls, DEFAULT_LIMITS.costly)
        if places is None:
            return None
        mask, size = calls[places].args[0], calls[places].attrs["size"]
        base = (match(_MASK, mask, calls) or {"mask": mask})["mask"]
        if size not in setters or match(_COUNT, setters[size], calls, mask=base) is None:
            return None  # there are places that no element is taken from
        whole = _whole(call.args[0], calls, builder)
        kind = tensor_type(whole)
        if kind.rank > 1:
            shape = (kind.shape[0], *(1 for _ in kind.shape[1:]))
            mask = builder.emit(get("reshape"), (mask,), {"newshape": shape})
        neutral = Constant(np.asarray(combiner.identity(kind.dtype), kind.dtype.numpy))
        chosen = builder.emit(get("where"), (mask, whole, neutral))
        return builder.emit(call.op, (chosen,), call.attrs)

    return step


def _places(atom: Atom, calls: Calls, costly: float) -> Atom | None:
    """Returns the places at which ``atom`` has the elements of whole arrays; None if it is not made
    of chosen rows alone, or computing it for all rows would be ``costly``."""
    call = calls.get(atom)
    if call is None:
        return None
    if (chosen := match(_CHOSEN, atom, calls)) is not None:
        rows, places, mask = (tensor_type(chosen[name]) for name in ("rows", "places", "mask"))
        is_whole = mask.shape == rows.shape[:1] and chosen["size"] == places.shape[0]
        return chosen["places"] if is_whole else None
    is_map = call.operator.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST)
    left = costly - call.operator.cost
    if not is_map or left < 0:
        return None
    each = {_places(a, calls, left) for a in call.args if tensor_type(a).rank}
    return each.pop() if len(each) == 1 else None


def _whole(atom: Atom, calls: Calls, builder: Builder) -> Atom:
    """Returns the elements of ``atom`` for all rows."""
    if not tensor_type(atom).rank:
        return atom
    call = calls[atom]
    if call.op is get("take"):
        return call.args[0]
    return builder.emit(call.op, [_whole(a, calls, builder) for a in call.args], call.attrs)

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
from ..nodes import Atom, Call, Constant, Expr, Module, Var, tensor_type
from ..operator import Operator, Pattern, get
from ..type_rules import normalise_axes
from ..walk import Step, map_functions, rewrite_blocks


@optional(level=2)
def reduce_chosen(module: Module) -> Module:
    """Reduces what masks choose without gathering it."""
    return map_functions(module, lambda function: rewrite_blocks(function, _new_step))


def _new_step() -> Step:
    calls: dict[Atom, Call] = {}
    setters: dict[IntExpr, Atom] = {}  # what sets the sizes that data decide

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call) or not isinstance(value.op, Operator):
            return None
        calls[var] = value
        if value.op is get("set_size"):
            setters[value.attrs["size"]] = value.args[0]
        combiner = COMBINERS.get(value.op.name)
        if value.op.pattern != Pattern.REDUCTION or combiner is None:
            return None
        kind = tensor_type(value.args[0])
        if 0 not in normalise_axes(value.attrs.get("axis"), kind.rank, kind):
            return None
        places = _places(value.args[0], calls, DEFAULT_LIMITS.costly)
        if places is None or not _are_all(places, calls, setters):
            return None
        whole = _whole(value.args[0], calls, builder)
        kind = tensor_type(whole)
        mask = calls[places].args[0]
        if kind.rank > 1:
            shape = (kind.shape[0], *(1 for _ in kind.shape[1:]))
            mask = builder.emit(get("reshape"), (mask,), {"newshape": shape})
        neutral = Constant(np.asarray(combiner.identity(kind.dtype), kind.dtype.numpy))
        chosen = builder.emit(get("where"), (mask, whole, neutral))
        return builder.emit(value.op, (chosen,), value.attrs)

    return step


def _are_all(places: Atom, calls: dict[Atom, Call], setters: dict[IntExpr, Atom]) -> bool:
    """True if places of a mask are as many as hold in it."""
    mask, size = calls[places].args[0], calls[places].attrs["size"]
    count = calls.get(setters[size]) if size in setters else None
    if count is None or count.op is not get("sum") or tensor_type(setters[size]).rank:
        return False
    number = calls.get(count.args[0])
    if number is None or number.op is not get("cast"):
        return False
    return _unshaped(number.args[0], calls) is _unshaped(mask, calls)


def _unshaped(mask: Atom, calls: dict[Atom, Call]) -> Atom:
    call = calls.get(mask)
    return call.args[0] if call is not None and call.op is get("reshape") else mask


def _places(atom: Atom, calls: dict[Atom, Call], costly: float) -> Atom | None:
    """Returns the places at which ``atom`` has the elements of whole arrays; None if it is not made
    of chosen rows alone, or computing it for all rows would be ``costly``."""
    call = calls.get(atom)
    if call is None:
        return None
    if call.op is get("take"):
        return _of_mask(call, calls)
    is_map = call.operator.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST)
    left = costly - call.operator.cost
    if not is_map or left < 0:
        return None
    each = {_places(a, calls, left) for a in call.args if tensor_type(a).rank}
    return each.pop() if len(each) == 1 else None


def _of_mask(take: Call, calls: dict[Atom, Call]) -> Atom | None:
    rows, places = take.args
    chosen = calls.get(places)
    if take.attrs.get("axis") != 0 or chosen is None or chosen.op is not get("true_places"):
        return None
    mask = tensor_type(chosen.args[0])
    is_whole = mask.shape == tensor_type(rows).shape[:1]
    return places if is_whole and chosen.attrs["size"] == tensor_type(places).shape[0] else None


def _whole(atom: Atom, calls: dict[Atom, Call], builder: Builder) -> Atom:
    """Returns the elements of ``atom`` for all rows."""
    if not tensor_type(atom).rank:
        return atom
    call = calls[atom]
    if call.op is get("take"):
        return call.args[0]
    return builder.emit(call.op, [_whole(a, calls, builder) for a in call.args], call.attrs)

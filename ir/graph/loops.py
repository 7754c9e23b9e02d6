"""Parts of loops and branches, for the passes that change them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .builder import Builder
from .nodes import Atom, Block, Constant, For, Tuple, Var, While
from .operator import OPERATORS
from .types import TensorType, Type
from .walk import copy_block


def next_values(body: Block) -> tuple[Atom, ...] | None:
    """Returns the fields of a block's result, which a loop's body hands to the next iteration; None
    if the block does not make that tuple itself."""
    for binding in reversed(body.bindings):
        if binding.var is body.result and isinstance(binding.value, Tuple):
            return binding.value.fields
    return None


def int64(value: int) -> Constant:
    """Returns a number of the type that loops count in."""
    return Constant(np.array(value, np.int64))


def filled(kind: Type, number: int, builder: Builder) -> Atom:
    """Emits a tensor of which all elements are ``number``; a scalar is a constant."""
    assert isinstance(kind, TensorType)
    if not kind.shape:
        return Constant(np.array(number, kind.dtype.numpy))
    attrs = {"shape": kind.shape, "fill_value": number, "dtype": kind.dtype.name}
    return builder.emit(OPERATORS["full"], (), attrs)


def with_carries(loop: While | For, instead: Mapping[Var, Atom], builder: Builder) -> list[Atom]:
    """Emits ``loop`` without the carried values of ``instead``, which gives for each what it is: an
    atom from outside, or another carried value. Returns the last values of all."""
    params = [Var(p.name, p.type, p.span) for p in loop.params if p not in instead]
    initial = [a for p, a in zip(loop.params, loop.initial, strict=True) if p not in instead]
    kept = [p for p in loop.params if p not in instead]
    new: dict[Var, Atom] = dict(zip(kept, params))
    for param, atom in instead.items():
        new[param] = new.get(atom, atom) if isinstance(atom, Var) else atom
    following = next_values(loop.body)
    assert following is not None
    inside = Builder()
    ends = [end for p, end in zip(loop.params, following, strict=True) if p not in instead]
    inside.bindings += [b for b in loop.body.bindings if b.var is not loop.body.result]
    body = inside.block(inside.make_tuple(ends))
    if isinstance(loop, While):
        condition = copy_block(loop.condition, dict(new))
        value = builder.while_loop(
            params, initial, condition, copy_block(body, new), span=loop.span
        )
    else:
        index = Var(loop.index.name, loop.index.type, loop.index.span)
        body = copy_block(body, {**new, loop.index: index})
        value = builder.for_loop(index, loop.extent, params, initial, body, span=loop.span)
    last: dict[Var, Atom] = {p: builder.get_item(value, n) for n, p in enumerate(kept)}
    for param, atom in instead.items():
        last[param] = last.get(atom, atom) if isinstance(atom, Var) else atom
    return [last[p] for p in loop.params]

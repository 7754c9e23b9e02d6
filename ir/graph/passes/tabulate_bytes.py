"""Look a byte up where it is computed of one other byte and of constants.

Before::

    def @main(%x: Tensor[(4, 300), uint8]) -> Tensor[(4, 300), uint8] {
      %0 = nn.dequantize(%x, 0.5f, 3u8);
      %1 = nn.silu(%0);
      nn.quantize(%1, 0.25f, 7u8)
    }

After::

    def @main(%x: Tensor[(4, 300), uint8]) -> Tensor[(4, 300), uint8] {
      take(meta[table], %x, axis=0)
    }

Constants::

    x = (np.arange(256, dtype=np.float32) - 3) * np.float32(0.5)
    with np.errstate(over="ignore"):
        y = x / (1 + np.exp(-x)) / np.float32(0.25)
    table = np.clip(np.rint(y) + 7, 0, 255).astype(np.uint8)

Quantised networks are full of such chains. Each operator is evaluated on all bytes there are, so
that the table holds what the chain would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...dataclass import dataclass
from ...dtype import INT8, UINT8, Array
from ...loop.limited_index import BYTE_VALUES
from ...pass_context import optional
from ..builder import Builder
from ..compose import F, Value
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Call, Constant, Module, Var, tensor_type
from ..operator import Pattern
from ..walk import Calls, CallStep, map_functions
from .eliminate_dead_code import rewrite_live_blocks
from .fold_constants import frozen
from .sink_dequantising import moves

BYTES = (INT8, UINT8)


@optional(level=2)
def tabulate_bytes(module: Module, limits: GraphLimits = DEFAULT_LIMITS) -> Module:
    """Maps of one byte to another become reads of a table, where these are fast."""
    if not limits.permutes_bytes:
        return module
    return map_functions(module, lambda function: rewrite_live_blocks(function, _new_step))


@dataclass(frozen=True, slots=True)
class _Map:
    """A variable that depends on a byte of ``root``, seen through ``views``, alone: its ``values``
    for all bytes, in the order of their bits, or a number if there is no root. It ``rounds`` if it
    is computed with floats."""

    root: Var | None
    values: Array
    rounds: bool = False
    views: tuple[Call, ...] = ()

    def table(self, builder: Builder) -> Atom:
        """Emits the map of bytes as reads of a table."""
        assert self.root is not None
        atom: Atom = self.root
        for view in self.views:
            atom = builder.emit(view.operator, (atom,), view.attrs)
        table, x = Value(builder, Constant(frozen(self.values))), Value(builder, atom)
        return F.take(table, x if x.dtype is UINT8 else x.cast(UINT8.name), axis=0).atom


def _new_step(_calls: Calls) -> CallStep:
    maps: dict[Atom, _Map] = {}

    def map_of(atom: Atom) -> _Map | None:
        if isinstance(atom, Constant):
            return _Map(None, atom.value.reshape(())) if atom.value.size == 1 else None
        if atom in maps or not isinstance(atom, Var) or tensor_type(atom).dtype not in BYTES:
            return maps.get(atom)
        every = np.arange(BYTE_VALUES).astype(np.uint8).view(tensor_type(atom).dtype.numpy)
        return _Map(atom, every)

    def step(var: Var, call: Call, builder: Builder) -> Atom | None:
        made = _applied(call, var, [map_of(a) for a in call.args])
        if made is None:
            return None
        maps[var] = made
        is_map = made.root is not None and not moves(call, var) and made.rounds
        if not is_map or tensor_type(var).dtype not in BYTES:
            return None
        atom = made.table(builder)
        maps[atom] = made
        return atom

    return step


def _applied(call: Call, var: Var, operands: Sequence[_Map | None]) -> _Map | None:
    """Returns the map that an elementwise operator, or a view, makes of others; None for anything
    else."""
    op, given = call.operator, [o for o in operands if o is not None]
    sources = {o.root: o for o in given if o.root is not None}
    source = next(iter(sources.values()), None)
    if len(sources) > 1 or len(given) < len(operands) or not given:
        return None
    if moves(call, var):
        return source and replace(source, views=(*source.views, call))
    along = "axis" in call.attrs and op.name not in ("nn.quantize", "nn.dequantize")
    if along or op.pattern not in (Pattern.ELEMENTWISE, Pattern.BROADCAST):
        return None
    if source is None and tensor_type(var).shape:
        return None  # a number that is repeated, perhaps as often as a symbolic size says
    views = [o.views for o in given if o.root is not None]
    shapes = [tensor_type(a).shape for a, o in zip(call.args, given) if o.root is not None]
    if any(v != views[0] for v in views) or any(s != tensor_type(var).shape for s in shapes):
        return None
    with np.errstate(all="ignore"):
        values = np.asarray(op.reference([o.values for o in given], call.attrs))
    if values.shape != ((BYTE_VALUES,) if source else ()):
        return None
    rounds = values.dtype.kind == "f" or any(o.rounds for o in given)
    return _Map(source and source.root, values, rounds, views[0] if views else ())

"""Keep weights as codes where they come with scales of groups.

Before::

    def @main(%x: Tensor[(1, 64), float32]) -> Tensor[(1, 9), float32] {
      %0 = cast(meta[codes], dtype="float32");
      %1 = multiply(%0, meta[scales]);
      nn.matmul(%x, %1)
    }

After::

    def @main(%x: Tensor[(1, 64), float32]) -> Tensor[(1, 9), float32] {
      nn.matmul_nbits(%x, meta[packed], meta[of_groups], meta[zeros])
    }

Constants::

    rows, columns = np.indices((64, 9))
    codes = ((rows + columns) % 16 - 8).astype(np.int8)
    of_groups = (1 + np.arange(18, dtype=np.float32)).reshape(2, 9)
    scales = of_groups.repeat(32, 0)
    pairs = (codes + 8).astype(np.uint8).reshape(2, 2, 16, 9)
    packed = (pairs[:, 0] | pairs[:, 1] << 4).reshape(32, 9)
    zeros = np.full((2, 9), 8, np.uint8)

So do exporters write weights of few bits: integers less zero points, times scales, each repeated
along the reduced axis. Codes are packed in the order that their product reads. Scales of whole
columns are ``fold_scales``'s.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from ...dtype import FLOAT32, Array
from ...pass_context import optional
from ..builder import Builder
from ..nodes import Atom, Call, Constant, Module, Var
from ..operator import OPERATORS
from ..patterns import is_op, match, wildcard
from ..types import TensorType, Type
from ..walk import Calls, CallStep, map_functions
from ..weights import groups_of
from .eliminate_dead_code import rewrite_live_blocks
from .fold_constants import frozen

SHORTEST_GROUP = 8
"""Rows of the shortest groups: scales of shorter ones are no less than their codes."""


@optional(level=2)
def contract_codes(module: Module) -> Module:
    """Products with constant codes, less zero points, times scales of groups, are those of
    ``nn.matmul_nbits``."""
    return map_functions(module, lambda function: rewrite_live_blocks(function, _new_step))


_WEIGHTS = is_op("multiply")(wildcard("codes"), wildcard("scales")).named("weights")
_PRODUCT = is_op("nn.matmul", "nn.dense")(
    wildcard("x"), _WEIGHTS | is_op("transpose")(_WEIGHTS).named("transposed")
)
_DIFFERENCE = is_op("subtract")(wildcard("codes"), wildcard("zeros"))


def _new_step(calls: Calls) -> CallStep:
    made_of_constants: set[Atom] = set()
    arrays_of: dict[Var, Array | None] = {}

    def narrowest(atom: Atom) -> Atom:
        """Returns what is cast to an atom, by casts to 32 bits or more, which keep codes."""
        while _is_wide(atom.type) and (cast := calls.get(atom)) and cast.operator.name == "cast":
            atom = cast.args[0]
        return atom

    def value_of(atom: Atom) -> Array | None:
        """Returns what an atom is made of constants."""
        if isinstance(atom, Constant):
            return atom.value
        if not isinstance(atom, Var) or atom not in made_of_constants:
            return None
        if atom not in arrays_of:
            call = calls[atom]
            given = [g for g in map(value_of, call.args) if g is not None]
            whole = len(given) == len(call.args)
            made = call.operator.reference(given, call.attrs) if whole else None
            arrays_of[atom] = made if isinstance(made, np.ndarray) else None
        return arrays_of[atom]

    def step(var: Var, call: Call, builder: Builder) -> Atom | None:
        if call.args and all(isinstance(a, Constant) or a in made_of_constants for a in call.args):
            made_of_constants.add(var)
        for captures in _PRODUCT.matches(var, calls, {}):
            x, codes = captures["x"], captures["codes"]
            if not _fits(x.type, captures["weights"].type) or isinstance(x, Constant):
                continue
            less = match(_DIFFERENCE, narrowest(codes), calls) or {"codes": codes}
            integers = narrowest(less["codes"])
            if not isinstance(integers, Constant) or integers.value.dtype.kind not in "iu":
                continue
            factor = value_of(captures["scales"])
            points = value_of(less["zeros"]) if "zeros" in less else np.zeros(())
            if factor is None or points is None:
                continue
            arrays = np.broadcast_arrays(integers.value, factor, points)
            transposed = ("transposed" in captures) != (call.operator.name == "nn.dense")
            packed = _packed(*(a.T if transposed else a for a in arrays))
            if packed is not None:
                w, of_groups, zero, bits = packed
                arrays = [frozen(np.ascontiguousarray(a)) for a in (w, of_groups, zero)]
                operands = [Constant(a, integers.name) for a in arrays]
                return builder.emit(OPERATORS["nn.matmul_nbits"], (x, *operands), {"bits": bits})
        return None

    return step


def _is_wide(kind: Type) -> bool:
    return isinstance(kind, TensorType) and kind.dtype.bytes >= 4


def _fits(x: Type, weights: Type) -> bool:
    if not isinstance(x, TensorType) or not isinstance(weights, TensorType):
        return False
    return x.dtype == FLOAT32 and x.rank > 1 and weights.rank == 2


def _packed(codes: Array, scales: Array, zeros: Array) -> tuple[Array, Array, Array, int] | None:
    """Returns packed codes, scales, zero points and bits; None if there are no groups, or what is
    in them has no such form."""
    depth = len(codes)
    moves = [np.any(a[1:] != a[:-1], axis=1) for a in (scales, zeros)]
    size = gcd(depth, *(int(at) + 1 for at in np.flatnonzero(moves[0] | moves[1])))
    if size == depth or size < SHORTEST_GROUP or not np.isfinite(scales).all():
        return None
    least, greatest = int(codes.min()), int(codes.max())
    few = greatest - min(least, -8 if least < 0 else 0) < 16
    bits = 4 if few else 8
    low = 0 if least >= 0 else -(1 << bits - 1)
    points = zeros[::size] - low
    whole = np.array_equal(points, np.rint(points)) and 0 <= points.min() <= points.max() <= 255
    if not whole or least < low or greatest >= low + (1 << bits):
        return None
    w = groups_of((codes.astype(np.int64) - low).astype(np.uint8), bits, size)
    return w, scales[::size], points.astype(np.uint8), bits

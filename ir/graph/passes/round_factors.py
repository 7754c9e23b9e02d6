"""Round the factors of products to bfloat16, where ``precision="bf16"`` asks for it.

Before::

    def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(8, 3), float32]) -> Tensor[(4, 3), float32] {
      nn.matmul(%x, %w)
    }

After::

    def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(8, 3), float32]) -> Tensor[(4, 3), float32] {
      %0 = cast(%x, dtype="bfloat16");
      %1 = cast(%0, dtype="float32");
      %2 = cast(%w, dtype="bfloat16");
      %3 = cast(%2, dtype="float32");
      nn.matmul(%1, %3)
    }

Meant are products with weights, or of two matrices, and convolutions without groups. Products of
stacks of matrices, such as attention's, stay as they are. A factor is off by at most 2**-8 of
itself; products and sums are those of float32. Weights take half of the memory, and machines with
an instruction for pairs of such products (``DOTS`` in ``ir/loop/intrinsics.py``) compute twice as
many in the same time: an odd number of channels gets one of zeros, so that all are in pairs.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping

import numpy as np

from ...dims import IntExpr
from ...dtype import FLOAT32, dtype_of
from ...traits import Trait
from ..builder import Builder
from ..nodes import Atom, Call, Constant, Expr, Function, Module, Var, tensor_type
from ..operator import OPERATORS, Operator, Pattern
from ..walk import Step, called_by, map_functions, rewrite_function

FEW_TERMS = 8
"""Terms along one axis of a sum, below which a product stays in float32."""


def round_factors(module: Module, enabled: bool = True, flush: bool = False) -> Module:
    """Rounds the operands of products of float32, and widens them where they are read.

    With ``flush`` subnormal numbers become zero before, as which products in pairs take them: the
    instruction that rounds does both.
    """
    if not enabled:
        return module
    return map_functions(module, lambda function: _rounded(function, flush))


def _rounded(function: Function, flush: bool) -> Function:
    """A function whose factors are rounded; what is rounded within a block is not seen outside."""
    rounded: ChainMap[Atom, Atom] = ChainMap()

    def enter() -> None:
        rounded.maps.insert(0, {})

    step = _new_step(rounded, flush)
    return rewrite_function(function, step, enter=enter, leave=lambda: rounded.maps.__delitem__(0))


def rounding_text(lowered: Module) -> str:
    """Says how many of the products that a module of groups calls are of factors in bfloat16."""
    rounded, products = 0, 0
    for name, _ in called_by(lowered):
        group = lowered.functions[name]
        if not isinstance(group, Function) or not group.attrs.get("primitive"):
            continue
        halves: set[Atom] = set()
        for binding in group.body.bindings:
            call = binding.value
            if not isinstance(call, Call) or not isinstance(call.op, Operator):
                continue
            if call.op.name == "cast" and tensor_type(call.args[0]).dtype.name == "bfloat16":
                halves.add(binding.var)
            if call.op.pattern == Pattern.CONTRACTION and Trait.MULTILINEAR in call.op.traits:
                products += 1
                rounded += halves.issuperset(call.args)
    return f"{rounded} of {products} products are of factors in bfloat16"


def _new_step(rounded: MutableMapping[Atom, Atom], flush: bool) -> Step:
    """Returns a step that enters into ``rounded`` what is read in the place of a value."""
    halves: set[Atom] = set()

    def factor(atom: Atom, builder: Builder) -> Atom:
        if atom not in rounded:
            if isinstance(atom, Constant):
                value = atom.value.astype(dtype_of("bfloat16").numpy)
                value.flags.writeable = False
                narrow: Atom = Constant(value, atom.name, atom.span)
            else:
                whole = builder.emit(OPERATORS["flush"], (atom,)) if flush else atom
                narrow = _cast(builder, whole, "bfloat16")
            rounded[atom] = _cast(builder, narrow, FLOAT32.name)
            halves.add(rounded[atom])
        return rounded[atom]

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call) or not isinstance(value.op, Operator):
            return None
        if value.op.name == "cast" and tensor_type(value.args[0]).dtype.name == "bfloat16":
            halves.add(var)
        if not _is_product(value) or halves.issuperset(value.args):
            return None
        args = list(value.args)
        if "kernel_layout" in value.attrs:
            args = [_even(builder, a, axis) for a, axis in zip(args, _channels(value))]
        args = [a if a in halves else factor(a, builder) for a in args]
        return builder.emit(value.op, args, value.attrs)

    return step


def _is_product(call: Call) -> bool:
    """True for a product of float32 that is one of weights, or of two matrices."""
    op = call.op
    if not isinstance(op, Operator) or Trait.MULTILINEAR not in op.traits or len(call.args) != 2:
        return False
    kinds = [tensor_type(a) for a in call.args]
    if any(kind.dtype != FLOAT32 for kind in kinds):
        return False
    size: IntExpr
    if op.name in ("nn.matmul", "nn.dense"):
        size = kinds[0].shape[-1]
        stacks = [k.rank > 2 and not isinstance(a, Constant) for k, a in zip(kinds, call.args)]
        is_meant = not all(stacks) and min(k.rank for k in kinds) == 2
    elif "kernel_layout" in call.attrs:
        size = kinds[0].shape[_channels(call)[0]]
        is_meant = call.attrs["groups"] == 1
        if isinstance(size, int) and size > 2:
            return is_meant
    else:
        return False
    return is_meant and not (isinstance(size, int) and size < FEW_TERMS)


def _channels(call: Call) -> tuple[int, int]:
    """Returns the axes of the channels of a convolution's image and weights."""
    return call.attrs["data_layout"].index("C"), call.attrs["kernel_layout"].index("I")


def _even(builder: Builder, factor: Atom, axis: int) -> Atom:
    """Returns the factor of a convolution with a channel of zeros behind an odd number of them."""
    kind = tensor_type(factor)
    if not isinstance(kind.shape[axis], int) or kind.shape[axis] % 2 == 0:
        return factor
    width = tuple((0, int(n == axis)) for n in range(kind.rank))
    if isinstance(factor, Constant):
        return Constant(np.pad(factor.value, width), factor.name, factor.span)
    return builder.emit(OPERATORS["nn.pad"], (factor,), {"pad_width": width})


def _cast(builder: Builder, x: Atom, dtype: str) -> Atom:
    return builder.emit(OPERATORS["cast"], (x,), {"dtype": dtype})

"""The parts of a kernel that a program calls it by: operands, their layouts, and memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..ir.dims import IntExpr, Symbol
from ..ir.dtype import Array, DType
from ..ir.graph import nodes
from ..ir.graph.nodes import Call as GraphCall
from ..ir.graph.operator import Operator
from ..ir.loop.prim import Buffer
from ..ir.traits import Trait

FREE = Trait.VIEW | Trait.BYTES
"""Traits of operators whose result is the operand's memory."""

Empty: TypeAlias = "Callable[[tuple[int, ...], np.dtype[Any]], Array]"


class PackInterface(Protocol):
    """The layout of a constant that is packed for a kernel."""

    @property
    def layout(self) -> Hashable: ...

    @property
    def packed_shape(self) -> tuple[int, ...]: ...

    @property
    def packed_dtype(self) -> DType: ...

    def array(self, values: Array, empty: Empty = ...) -> Array: ...


class OperandInterface(Protocol):
    """An operand of a kernel: its memory, how a packed one is made, and the position of the
    parameter whose value a result begins with."""

    @property
    def buffer(self) -> Buffer: ...

    @property
    def role(self) -> str: ...

    @property
    def pack(self) -> PackInterface | None: ...

    @property
    def begins_as(self) -> tuple[int, str] | None: ...


class KernelInterface(Protocol):
    """The part of a kernel that the program depends on."""

    @property
    def operands(self) -> Sequence[OperandInterface]: ...

    @property
    def workspace_bytes(self) -> IntExpr: ...

    @property
    def sizes(self) -> tuple[Symbol, ...]: ...


def is_view(function: object) -> bool:
    """True if a group only gives its one operand another shape, or reads its bytes as another
    dtype: no kernel is needed for it."""
    if not isinstance(function, nodes.Function) or len(function.params) != 1:
        return False
    value: nodes.Atom = function.params[0]
    for binding in function.body.bindings:
        call = binding.value
        if not isinstance(call, GraphCall) or len(call.args) != 1 or call.args[0] is not value:
            return False
        if not isinstance(call.op, Operator) or not call.op.traits & FREE:
            return False
        value = binding.var
    return function.body.result is value

"""What decompositions are written with: call an operator by name, make a scalar."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dims import Dim, IntExpr
from ..dtype import DType
from ..errors import InternalError
from ..graph.builder import Builder
from ..graph.nodes import Atom, Constant
from ..graph.operator import get
from ..graph.types import TensorType

__all__ = ["call", "scalar", "tensor_type"]


def call(b: Builder, name: str, *args: Atom, **attrs: Any) -> Atom:
    """Emit the operator ``name``."""
    return b.emit(get(name), args, attrs)


def scalar(b: Builder, value: IntExpr | float, dtype: DType) -> Atom:
    """A scalar constant; a symbolic size becomes a scalar computed from the size."""
    if isinstance(value, Dim):
        return call(b, "full", shape=(), fill_value=value, dtype=dtype.name)
    return Constant(np.asarray(value, dtype.numpy))


def tensor_type(atom: Atom) -> TensorType:
    """The type of an operand that is a tensor; InternalError if it is not one."""
    if not isinstance(atom.type, TensorType):
        raise InternalError(f"a tensor is expected here, not {atom.type}")
    return atom.type

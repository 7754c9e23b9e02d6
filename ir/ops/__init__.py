"""The operators: one definition each, in one place.

``registry`` says what an operator is; the other files define them: ``elementwise`` (rows of a
table), ``reduce``, ``matmul``, ``shape``, ``create``. ``to_tensor`` turns a primitive operator into
a PrimFunc, ``testing`` evaluates any operator by its definition.
"""

from . import create, elementwise, index, joining, matmul, pad, reduce, shape
from .registry import Attr, Operator, Pattern, Sample, all_operators, get, register

__all__ = [
    "create",
    "elementwise",
    "index",
    "joining",
    "matmul",
    "pad",
    "reduce",
    "shape",
    "Attr",
    "Operator",
    "Pattern",
    "Sample",
    "all_operators",
    "get",
    "register",
]

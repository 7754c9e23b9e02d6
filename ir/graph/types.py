"""Types of the graph IR.

::

    type       ::= TensorType | TupleType | FuncType
    TensorType ::= "Tensor[(" size, ... ")," dtype "]"        a size is an int or an int_expr
    TupleType  ::= "(" type, ... ")"
    FuncType   ::= "fn (" type, ... ") -> " type
"""

from __future__ import annotations

from typing import TypeAlias

from ..dataclass import dataclass
from ..dims import IntExpr, product
from ..dtype import DType

__all__ = ["FuncType", "TensorType", "TupleType", "Type"]


@dataclass(frozen=True, slots=True)
class TensorType:
    shape: tuple[IntExpr, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> IntExpr:
        """Number of elements."""
        return product(self.shape)

    @property
    def short(self) -> str:
        """The spelling of specs and messages: ``float32[64, 784]``."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return f"Tensor[({', '.join(map(str, self.shape))}), {self.dtype}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    fields: tuple[Type, ...]

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.fields))
        return f"({inner},)" if len(self.fields) == 1 else f"({inner})"


@dataclass(frozen=True, slots=True)
class FuncType:
    params: tuple[Type, ...]
    result: Type

    def __str__(self) -> str:
        return f"fn ({', '.join(map(str, self.params))}) -> {self.result}"


Type: TypeAlias = TensorType | TupleType | FuncType

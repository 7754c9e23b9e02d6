"""Types of the graph IR.

::

    type       ::= TensorType | TupleType | FuncType
    TensorType ::= "Tensor[(" size, ... ")," dtype "]"        a size is an int or an int_expr
    TupleType  ::= "(" type, ... ")"
    FuncType   ::= "fn (" type, ... ") -> " type

The signature of a function is over sizes of its own. A call instantiates it: the operands' types
say what its sizes are, and the result has its type with these in their place (the forward deduction
of R. Lai and others, "Relax: composable abstractions for end-to-end dynamic machine learning",
2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, Symbol, product, size_symbols, substitute
from ..dtype import DType


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


def fields_of(type: Type) -> tuple[Type, ...]:
    """Returns the types of a tuple's fields; any other type is the only one."""
    return type.fields if isinstance(type, TupleType) else (type,)


def sizes_in(type: Type) -> Iterator[IntExpr]:
    """Yields the sizes in a type, from left to right."""
    if isinstance(type, TensorType):
        yield from type.shape
    elif isinstance(type, TupleType):
        for field in type.fields:
            yield from sizes_in(field)
    else:
        for part in (*type.params, type.result):
            yield from sizes_in(part)


def substitute_type(type: Type, values: Mapping[str, IntExpr]) -> Type:
    """Returns a type with other sizes for those named in ``values``; the same object if all its
    sizes are constant."""
    if not any(isinstance(size, Dim) for size in sizes_in(type)):
        return type
    if isinstance(type, TensorType):
        return TensorType(tuple(substitute(size, values) for size in type.shape), type.dtype)
    if isinstance(type, TupleType):
        return TupleType(tuple(substitute_type(f, values) for f in type.fields))
    params = tuple(substitute_type(p, values) for p in type.params)
    return FuncType(params, substitute_type(type.result, values))


def sizes_in_attr(value: Any) -> Iterator[Dim]:
    """Yields the symbolic sizes in an attribute's value."""
    if isinstance(value, tuple):
        for part in value:
            yield from sizes_in_attr(part)
    elif isinstance(value, Dim):
        yield value


def substitute_attr(value: Any, values: Mapping[str, IntExpr]) -> Any:
    """Returns an attribute's value with other sizes for those named in ``values``."""
    if isinstance(value, tuple):
        return tuple(substitute_attr(v, values) for v in value)
    return substitute(value, values) if isinstance(value, Dim) else value


def bind_sizes(params: Sequence[Type], given: Sequence[Type]) -> dict[str, IntExpr] | None:
    """Returns what the sizes of parameters are for operands of the types ``given``; None if these
    do not fit.

    >>> from loopwright.ir.dims import size
    >>> from loopwright.ir.dtype import FLOAT32
    >>> n, m = size("n"), size("m")
    >>> param = TensorType((n, 2 * n), FLOAT32)
    >>> str(bind_sizes([param], [TensorType((m + 1, 2 * m + 2), FLOAT32)])["n"])
    'm + 1'
    """
    values: dict[str, IntExpr] = {}
    for param, operand in zip(params, given):
        for size, actual in zip(sizes_in(param), sizes_in(operand)):
            name = _name(size)
            if name is not None:
                values.setdefault(name, actual)
    fits = len(params) == len(given) and all(
        substitute_type(param, values) == operand for param, operand in zip(params, given)
    )
    return values if fits else None


def instantiate(signature: FuncType, given: Sequence[Type]) -> Type | None:
    """Returns the type of a call's result; None if operands of these types do not fit."""
    if tuple(given) == signature.params:
        return signature.result
    values = bind_sizes(signature.params, given)
    if values is None:
        return None
    unbound = size_symbols(*sizes_in(signature.result)).keys() - values.keys()
    return None if unbound else substitute_type(signature.result, values)


def _name(size: IntExpr) -> str | None:
    """Returns the name of a size that is a symbol alone."""
    if not isinstance(size, Dim) or len(size.terms) != 1 or size.terms[0][1] != 1:
        return None
    atoms = size.terms[0][0]
    alone = len(atoms) == 1 and isinstance(atoms[0], Symbol)
    return atoms[0].name if alone and isinstance(atoms[0], Symbol) else None

"""Types of the graph IR.

::

    type       ::= TensorType | TupleType | FuncType | DataType | RefType | TypeVar
    TensorType ::= "Tensor[(" size, ... ")," dtype "]"        a size is an int or an int_expr
    TupleType  ::= "(" type, ... ")"
    FuncType   ::= "fn " ["[" name, ... "]"] "(" type, ... ") -> " type
    DataType   ::= name ["[" type, ... "]"]
    RefType    ::= "ref(" type ")"
    TypeVar    ::= name                                       a type parameter of what is around it

The signature of a function is over sizes and type parameters of its own. A call instantiates it:
the operands' types say what these are, and the result has its type with them in their place (the
forward deduction of R. Lai and others, "Relax: composable abstractions for end-to-end dynamic
machine learning", 2023). ``inference.py`` finds types that a text leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, Symbol, linear, product, size_symbols, substitute
from ..dtype import DType
from ..span import Span


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
    """``type_params`` are names that stand for any types: those of each call."""

    params: tuple[Type, ...]
    result: Type
    type_params: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f"[{', '.join(self.type_params)}]" if self.type_params else ""
        return f"fn {names}({', '.join(map(str, self.params))}) -> {self.result}"


@dataclass(frozen=True, slots=True)
class DataType:
    """An algebraic data type of the module, by name, on types for its parameters."""

    name: str
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.args))}]" if self.args else self.name


@dataclass(frozen=True, slots=True)
class RefType:
    """A variable that is read and written, with values of one type."""

    content: Type

    def __str__(self) -> str:
        return f"ref({self.content})"


@dataclass(frozen=True, slots=True)
class TypeVar:
    """A type parameter of the function or data type around it."""

    name: str

    def __str__(self) -> str:
        return self.name


class Hole:
    """A type that is not known yet, of what stands at ``span`` in the text that is read;
    ``inference.py`` finds its ``solution``. ``is_any``: all types would do."""

    __slots__ = ("is_any", "solution", "span")

    def __init__(self, span: Span, is_any: bool = False) -> None:
        self.span, self.is_any = span, is_any
        self.solution: Type | None = None

    def __str__(self) -> str:
        return "?" if self.solution is None else str(self.solution)


Type: TypeAlias = TensorType | TupleType | FuncType | DataType | RefType | TypeVar | Hole


def fields_of(type: Type) -> tuple[Type, ...]:
    """Returns the types of a tuple's fields; any other type is the only one."""
    return type.fields if isinstance(type, TupleType) else (type,)


def parts_of(type: Type) -> tuple[Type, ...]:
    """Returns the types that a type is made of, from left to right."""
    if isinstance(type, TupleType):
        return type.fields
    if isinstance(type, FuncType):
        return (*type.params, type.result)
    if isinstance(type, DataType):
        return type.args
    return (type.content,) if isinstance(type, RefType) else ()


def map_parts(type: Type, change: Callable[[Type], Type]) -> Type:
    """Returns a type made of what ``change`` gives for its parts; the same object if it has
    none."""
    if isinstance(type, TupleType):
        return TupleType(tuple(map(change, type.fields)))
    if isinstance(type, FuncType):
        return FuncType(tuple(map(change, type.params)), change(type.result), type.type_params)
    if isinstance(type, DataType):
        return DataType(type.name, tuple(map(change, type.args)))
    return RefType(change(type.content)) if isinstance(type, RefType) else type


def sizes_in(type: Type) -> Iterator[IntExpr]:
    """Yields the sizes in a type, from left to right."""
    if isinstance(type, TensorType):
        yield from type.shape
    else:
        for part in parts_of(type):
            yield from sizes_in(part)


def substitute_type(
    type: Type, values: Mapping[str, IntExpr], types: Mapping[str, Type] | None = None
) -> Type:
    """Returns a type with other sizes for those named in ``values``, and ``types`` for type
    parameters; the same object if it has neither."""
    if isinstance(type, TensorType):
        if not any(isinstance(size, Dim) for size in type.shape):
            return type
        return TensorType(tuple(substitute(size, values) for size in type.shape), type.dtype)
    if isinstance(type, TypeVar):
        return (types or {}).get(type.name, type)
    if isinstance(type, FuncType) and types and type.type_params:
        types = {n: t for n, t in types.items() if n not in type.type_params}
    new = map_parts(type, lambda part: substitute_type(part, values, types))
    return type if new == type else new


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


def bind_types(
    params: Sequence[Type], given: Sequence[Type]
) -> tuple[dict[str, IntExpr], dict[str, Type]] | None:
    """Returns what the sizes and the type parameters in ``params`` are for operands of the types
    ``given``; None if these do not fit."""
    sizes: dict[str, IntExpr] = {}
    types: dict[str, Type] = {}
    for param, operand in zip(params, given):
        _bind(param, operand, sizes, types)
    fits = len(params) == len(given) and all(
        substitute_type(param, sizes, types) == operand for param, operand in zip(params, given)
    )
    return (sizes, types) if fits else None


def _bind(param: Type, operand: Type, sizes: dict[str, IntExpr], types: dict[str, Type]) -> None:
    """Enters what stands where ``param`` has the name of a size or of a type alone."""
    if isinstance(param, TypeVar):
        types.setdefault(param.name, operand)
    elif isinstance(param, TensorType):
        if isinstance(operand, TensorType):
            for size, actual in zip(param.shape, operand.shape):
                solved = _solved(size, actual)
                if solved is not None:
                    sizes.setdefault(*solved)
    elif type(param) is type(operand):
        for part, other in zip(parts_of(param), parts_of(operand)):
            _bind(part, other, sizes, types)


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
    bound = bind_types(params, given)
    return None if bound is None else bound[0]


def instantiate(
    signature: FuncType, given: Sequence[Type], result: Type | None = None
) -> Type | None:
    """Returns the type of a call's result; None if operands of these types do not fit. Type
    parameters that no operand has are those of ``result``.

    >>> from loopwright.ir.dtype import FLOAT32
    >>> head = FuncType((DataType("List", (TypeVar("A"),)),), TypeVar("A"), ("A",))
    >>> str(instantiate(head, [DataType("List", (TensorType((2,), FLOAT32),))]))
    'Tensor[(2), float32]'
    """
    if tuple(given) == signature.params and not signature.type_params:
        return signature.result
    bound = bind_types(signature.params, given)
    if bound is None:
        return None
    sizes, types = bound
    unbound = size_symbols(*sizes_in(signature.result)).keys() - sizes.keys()
    if result is not None and signature.type_params:
        _bind(substitute_type(signature.result, sizes, types), result, {}, types)
    return None if unbound else substitute_type(signature.result, sizes, types)


def is_instance(type: Type, signature: Type) -> bool:
    """True if a function of type ``signature``, over type parameters, is one of ``type``."""
    if not isinstance(type, FuncType) or not isinstance(signature, FuncType):
        return False
    names = signature.type_params and not type.type_params
    return bool(names) and bind_types(parts_of(signature), parts_of(type)) is not None


def type_variables(type: Type) -> set[str]:
    """Returns the type parameters that a type is over, without those of its own."""
    if isinstance(type, TypeVar):
        return {type.name}
    inside = {name for part in parts_of(type) for name in type_variables(part)}
    return inside.difference(type.type_params) if isinstance(type, FuncType) else inside


def _name(size: IntExpr) -> str | None:
    """Returns the name of a size that is a symbol alone."""
    if not isinstance(size, Dim) or len(size.terms) != 1 or size.terms[0][1] != 1:
        return None
    atoms = size.terms[0][0]
    alone = len(atoms) == 1 and isinstance(atoms[0], Symbol)
    return atoms[0].name if alone and isinstance(atoms[0], Symbol) else None


def _solved(size: IntExpr, actual: IntExpr) -> tuple[str, IntExpr] | None:
    """Returns the symbol in a size such as ``2 * n + 1``, and the number that it is there."""
    name = _name(size)
    if name is not None:
        return name, actual
    plain = linear(size) if isinstance(size, Dim) and isinstance(actual, int) else None
    if plain is None or len(plain[0]) != 1 or not isinstance(actual, int):
        return None
    ((name, factor),) = plain[0].items()
    return name, (actual - plain[1]) // factor

"""Nodes of the graph IR: Relay's language in A-normal form.

::

    Module   ::= (DataDef | GlobalVar "=" (Function | PrimFunc [Schedule]))*
    DataDef  ::= "type" name "[" name, ... "]" "{" Constructor, ... "}"
    Function ::= "fn (" Var, ... ")" Block
    Block    ::= Binding* Atom                        a flat list, then the value of the block
    Binding  ::= Var "=" Expr
    Expr     ::= Call | Tuple | TupleGetItem | If | While | For | Function | Match | Ref | Atom
    Call     ::= (Operator | GlobalVar | Var | Constructor) "(" Atom, ... ")" attrs
    If       ::= "if (" Atom ")" Block "else" Block
    While    ::= "while (" Carry ")" Block "do" Block              condition, body
    For      ::= "for (" Var "<" Atom [";" Carry] ")" Block
    Carry    ::= Var "=" Atom, ...
    Match    ::= "match (" Atom ")" "{" (Pattern "=>" Block ",")* "}"
    Pattern  ::= "_" | Var | Constructor "(" Pattern, ... ")" | "(" Pattern, ... ")"
    Ref      ::= "ref(" Atom ")" | "ref_read(" Atom ")" | "ref_write(" Atom "," Atom ")"
    Atom     ::= Var | Constant | GlobalVar | Constructor

Identity is meaning here: two ``Var`` objects are two variables, whatever their names. Nodes are
never changed after they are made; every Expr that a Binding holds has its type in ``binding.var``.

A nested block sees the variables around it. A loop carries values from one iteration to the next:
its body ends with the tuple of their next values, and its own value is the tuple of the last ones.
The first pattern of a Match that fits decides. References are the only effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..dataclass import dataclass
from ..dims import IntExpr, Symbol, size_symbols
from ..dtype import dtype_of
from ..loop.prim import PrimFunc
from ..span import Span
from .operator import Operator
from .requirements import Requirement
from .types import FuncType, TensorType, Type, sizes_in, sizes_in_attr

if TYPE_CHECKING:
    from ..schedule.schedule import Schedule


@singledispatch
def text_of(node: object) -> str:
    """The node in the text syntax, as ``str`` gives it; ``printer.py`` says how for each kind."""
    return repr(node)


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """A variable; ``name`` has no ``%``."""

    name: str
    type: Type
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An array known at compile time. ``name`` is how a big one prints: ``meta[name]``.

    ``value`` is never written to.
    """

    value: np.ndarray[Any, Any]
    name: str = ""
    span: Span | None = None

    @property
    def type(self) -> TensorType:
        return TensorType(tuple(self.value.shape), dtype_of(self.value.dtype))


@dataclass(frozen=True, slots=True, eq=False)
class GlobalVar:
    """A function of the module by name; ``name`` has no ``@``."""

    name: str
    type: FuncType
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Constructor(GlobalVar):
    """A constructor of a data type: the function that makes values of it. ``tag`` is its number
    among the constructors of ``data``."""

    data: str = ""
    tag: int = 0

    @property
    def arity(self) -> int:
        """The number of its fields."""
        return len(self.type.params)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """An operator or function applied. ``attrs`` hold hashable values (ints, strings, tuples)."""

    op: Operator | GlobalVar | Var
    args: tuple[Atom, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None

    @property
    def operator(self) -> Operator:
        """The operator, of a call that applies one."""
        assert not isinstance(self.op, GlobalVar | Var)
        return self.op


@dataclass(frozen=True, slots=True, eq=False)
class Tuple:
    fields: tuple[Atom, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TupleGetItem:
    value: Atom
    index: int
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class If:
    condition: Atom
    then: Block
    orelse: Block
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """``body`` runs as long as ``condition``, a bool scalar, holds; both see the carried
    ``params``, which begin as ``initial``, of the same types. The body's result is a tuple of as
    many fields, also if it is one or none."""

    params: tuple[Var, ...]
    initial: tuple[Atom, ...]
    condition: Block
    body: Block
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """``body`` runs for each ``index``, an int64 scalar, from 0 up to ``extent``, an int64 scalar
    that may be known or not; never if that is negative. ``params`` are carried as by ``While``."""

    index: Var
    extent: Atom
    params: tuple[Var, ...]
    initial: tuple[Atom, ...]
    body: Block
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Wildcard:
    """A pattern that fits every value."""


@dataclass(frozen=True, slots=True, eq=False)
class ConstructorPattern:
    """Fits the values of a constructor whose fields fit; None stands for a tuple's."""

    constructor: Constructor | None
    fields: tuple[Pattern, ...] = ()


Pattern: TypeAlias = "Wildcard | Var | ConstructorPattern"


def pattern_variables(pattern: Pattern) -> Iterator[Var]:
    """Yields the variables that a pattern binds, from left to right."""
    if isinstance(pattern, Var):
        yield pattern
    elif isinstance(pattern, ConstructorPattern):
        for field_pattern in pattern.fields:
            yield from pattern_variables(field_pattern)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    pattern: Pattern
    block: Block


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The block of the first case whose pattern fits ``value``. One that is ``complete`` has a case
    for every value; any other fails where none fits."""

    value: Atom
    cases: tuple[Case, ...]
    complete: bool = True
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ref:
    """An operation on a reference: ``kind`` is ``ref``, which makes one of a value, ``ref_read``
    or ``ref_write``, whose value is the empty tuple."""

    kind: str
    args: tuple[Atom, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    bindings: tuple[Binding, ...]
    result: Atom

    def __str__(self) -> str:
        return text_of(self)


def _sizes_of(block: Block) -> Iterator[IntExpr]:
    """Yields the sizes in types and attributes of a block, at any depth."""
    for binding in block.bindings:
        value = binding.value
        if isinstance(value, Call):
            yield from (s for attr in value.attrs.values() for s in sizes_in_attr(attr))
        elif isinstance(value, If):
            yield from (s for inner in (value.then, value.orelse) for s in _sizes_of(inner))
        elif isinstance(value, While):
            yield from (s for inner in (value.condition, value.body) for s in _sizes_of(inner))
        elif isinstance(value, For | Function):
            yield from _sizes_of(value.body)
        elif isinstance(value, Match):
            yield from (s for case in value.cases for s in _sizes_of(case.block))
        yield from sizes_in(binding.var.type)
    yield from sizes_in(block.result.type)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """``attrs`` say what passes need to know, such as ``{"primitive": True}`` of a fused group.
    ``requirements`` are relations of sizes that hold in every call. ``type_params`` are names that
    its types have for any type: those of each call."""

    params: tuple[Var, ...]
    body: Block
    attrs: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None
    requirements: tuple[Requirement, ...] = ()
    type_params: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, Symbol]:
        """The symbolic sizes in it by name, in order of appearance: in the types of parameters,
        in requirements, then in types and attributes of the body."""
        required = [side for r in self.requirements for side in (r.left, r.right)]
        params = [size for p in self.params for size in sizes_in(p.type)]
        return size_symbols(*params, *required, *_sizes_of(self.body))

    @property
    def type(self) -> FuncType:
        params = tuple(p.type for p in self.params)
        return FuncType(params, self.body.result.type, self.type_params)

    def with_body(self, body: Block) -> Function:
        """Returns the function with another body; the same object if ``body`` is its own."""
        if body is self.body:
            return self
        return replace(self, body=body)

    def __str__(self) -> str:
        return text_of(self)


Atom: TypeAlias = Var | Constant | GlobalVar


def tensor_type(atom: Atom) -> TensorType:
    """Returns the type of an atom that is a tensor."""
    assert isinstance(atom.type, TensorType)
    return atom.type


Expr: TypeAlias = Call | Tuple | TupleGetItem | If | While | For | Function | Match | Ref | Atom


@dataclass(frozen=True, slots=True, eq=False)
class DataDef:
    """An algebraic data type: its type parameters and its constructors, which are one of another
    program if there are none (``extern type``)."""

    name: str
    type_params: tuple[str, ...]
    constructors: tuple[Constructor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """Functions by name. A graph function calls a PrimFunc by its GlobalVar, as in Relax.

    ``schedules`` are those that PrimFuncs were written with, by name; their steps use the names of
    the PrimFunc's own axes and buffers. ``types`` are its algebraic data types.

    >>> module = lw.parse("def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) }")
    >>> list(module.functions)
    ['main']
    """

    functions: Mapping[str, Function | PrimFunc] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    types: Mapping[str, DataDef] = field(default_factory=dict)

    def __str__(self) -> str:
        return text_of(self)

    def with_function(self, name: str, function: Function | PrimFunc) -> Module:
        """This module with ``name`` replaced or added; the same object if nothing changes."""
        if self.functions.get(name) is function:
            return self
        return self.with_functions({**self.functions, name: function})

    def with_functions(self, functions: Mapping[str, Function | PrimFunc]) -> Module:
        """Returns a module of other functions, with the schedules of this one."""
        return replace(self, functions=functions)

    @property
    def main(self) -> Function:
        main = self.functions["main"]
        assert isinstance(main, Function)
        return main

"""The one place where calls are made: ``emit`` runs the type rule and appends a binding."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dtype import BOOL, INT64
from ..errors import InternalError, LoopwrightError, LoopwrightTypeError, LoopwrightValueError
from ..span import Span
from . import nodes
from .limits import DEFAULT_LIMITS, GraphLimits
from .nodes import Atom, Binding, Block, Call, Expr, For, Function, GlobalVar, If, Tuple, Var, While
from .operator import Operator
from .requirements import Requirement, locate
from .types import FuncType, RefType, TensorType, TupleType, Type, instantiate

BOOL_SCALAR = TensorType((), BOOL)
"""The type of a condition."""

MOST_AXES = 64
"""NumPy's arrays have no more."""

ADDRESSABLE_BYTES = 1 << 47
"""Bytes that a process can address on x86-64."""


class Builder:
    """Collects the bindings of one block.

    ``span`` is where a binding comes from whose maker says nothing else; a pass sets it to the
    span of the binding that it replaces, so that what comes of a line still names that line.
    ``limits`` are for decompositions whose best form depends on the machine.

    >>> from loopwright.ir.ops import get
    >>> from loopwright.ir.dtype import FLOAT32
    >>> b = Builder()
    >>> x = b.param("x", TensorType((4,), FLOAT32))
    >>> y = b.emit(get("exp"), (x,))
    >>> str(y.type)
    'Tensor[(4), float32]'
    """

    def __init__(
        self,
        *,
        prefix: str = "",
        span: Span | None = None,
        limits: GraphLimits = DEFAULT_LIMITS,
    ) -> None:
        self.span = span
        self.limits = limits
        self.params: list[Var] = []
        self.bindings: list[Binding] = []
        self._prefix = prefix

    def param(self, name: str, type: Type, span: Span | None = None) -> Var:
        """Returns a new parameter of the function being built."""
        _check_size(type)
        var = Var(name, type, span)
        self.params.append(var)
        return var

    def emit(
        self,
        op: Operator | GlobalVar | Var,
        args: Sequence[Atom],
        attrs: Mapping[str, Any] | None = None,
        *,
        span: Span | None = None,
        name: str | None = None,
    ) -> Var:
        """Applies ``op`` and binds the result to a new variable.

        Operators fill in the defaults of ``attrs`` and check them. Raises LoopwrightTypeError or
        LoopwrightValueError with ``span`` attached when the operands do not fit.
        """
        operands = tuple(args)
        span = span or self.span
        try:
            types = tuple(a.type for a in operands)
            if isinstance(op, GlobalVar | Var):
                complete = dict(attrs or {})
                result = self.call_type(op.name, op.type, types)
            else:
                complete = op.complete_attrs(attrs or {})
                result = self.operator_type(op, types, complete)
                locate(span, f"{op.name}: ")
            _check_size(result)
        except LoopwrightError as error:
            if error.span is None:
                error.span = span
            raise
        return self.bind(Call(op, operands, complete, span), result, name=name)

    def make_tuple(self, fields: Sequence[Atom], *, span: Span | None = None) -> Var:
        span = span or self.span
        return self.bind(Tuple(tuple(fields), span), TupleType(tuple(f.type for f in fields)))

    def get_item(self, value: Atom, index: int, *, span: Span | None = None) -> Var:
        try:
            type = self.field_type(value.type, index)
        except LoopwrightTypeError as error:
            error.span = span
            raise
        return self.bind(nodes.TupleGetItem(value, index, span or self.span), type)

    def cond(self, condition: Atom, then: Block, orelse: Block, *, span: Span | None = None) -> Var:
        self._check_condition(condition.type, span)
        if not self.agree(then.result.type, orelse.result.type):
            types = self.known(then.result.type), self.known(orelse.result.type)
            raise LoopwrightTypeError(f"the branches differ: {types[0]} and {types[1]}", span=span)
        return self.bind(If(condition, then, orelse, span), self.known(then.result.type))

    def _check_condition(self, type: Type, span: Span | None) -> None:
        if not self.agree(type, BOOL_SCALAR):
            given = self.known(type)
            raise LoopwrightTypeError(f"a condition is a bool scalar, this is {given}", span=span)

    def match(
        self,
        value: Atom,
        cases: Sequence[nodes.Case],
        complete: bool = True,
        *,
        span: Span | None = None,
    ) -> Var:
        """Binds the result of the first case that fits. LoopwrightTypeError if cases give values of
        different types."""
        first = cases[0].block.result.type
        for case in cases[1:]:
            if not self.agree(first, case.block.result.type):
                types = self.known(first), self.known(case.block.result.type)
                raise LoopwrightTypeError(f"the cases differ: {types[0]} and {types[1]}", span=span)
        return self.bind(nodes.Match(value, tuple(cases), complete, span), self.known(first))

    def reference(self, kind: str, args: Sequence[Atom], *, span: Span | None = None) -> Var:
        """Binds an operation on a reference; see ``Ref``."""
        made = nodes.Ref(kind, tuple(args), span)
        return self.bind(made, self.reference_type(kind, [a.type for a in args]))

    # -- what types are, which a builder that infers them answers otherwise ------------------------

    def agree(self, one: Type, other: Type) -> bool:
        """True if two types are the same."""
        return one == other

    def known(self, type: Type) -> Type:
        """Returns what is known of a type."""
        return type

    def operator_type(
        self, op: Operator, types: tuple[Type, ...], attrs: Mapping[str, Any]
    ) -> Type:
        """Returns the type of an operator's result."""
        return op.infer(types, attrs)

    def field_type(self, type: Type, index: int) -> Type:
        """Returns the type of a tuple's field; LoopwrightTypeError if there is none."""
        if not isinstance(type, TupleType) or not 0 <= index < len(type.fields):
            raise LoopwrightTypeError(f"field {index} of {type} does not exist")
        return type.fields[index]

    def reference_type(self, kind: str, types: Sequence[Type]) -> Type:
        """Returns the type of an operation on a reference; LoopwrightTypeError for what is none, or
        holds values of another type."""
        if kind == "ref":
            return RefType(types[0])
        content = self._content(types[0])
        if kind == "ref_read":
            return content
        if not self.agree(content, types[1]):
            types = [self.known(content), self.known(types[1])]
            raise LoopwrightTypeError(f"a reference to {types[0]} is written a {types[1]}")
        return TupleType(())

    def _content(self, type: Type) -> Type:
        if not isinstance(type, RefType):
            raise LoopwrightTypeError(f"{type} is not a reference")
        return type.content

    def call_type(self, name: str, signature: Type, given: tuple[Type, ...]) -> Type:
        """Returns the type of a call's result; LoopwrightTypeError for operands that do not fit."""
        if not isinstance(signature, FuncType):
            raise InternalError(f"{name} is called but has type {signature}")
        result = instantiate(signature, given)
        if result is None:
            raise LoopwrightTypeError(
                f"{name} takes ({', '.join(map(str, signature.params))}), "
                f"not ({', '.join(map(str, given))})"
            )
        return result

    def while_loop(
        self,
        params: Sequence[Var],
        initial: Sequence[Atom],
        condition: Block,
        body: Block,
        *,
        span: Span | None = None,
    ) -> Var:
        """Binds a loop that runs as long as ``condition`` holds. LoopwrightTypeError if carried
        values change their types."""
        self._check_condition(condition.result.type, span)
        type = carry_type(params, initial, body, span, self.agree)
        return self.bind(While(tuple(params), tuple(initial), condition, body, span), type)

    def for_loop(
        self,
        index: Var,
        extent: Atom,
        params: Sequence[Var],
        initial: Sequence[Atom],
        body: Block,
        *,
        span: Span | None = None,
    ) -> Var:
        """Binds a loop over ``index``. LoopwrightTypeError if carried values change their types, or
        ``extent`` is not an int64 scalar."""
        for atom in (index, extent):
            if not self.agree(atom.type, TensorType((), INT64)):
                raise LoopwrightTypeError(f"a loop counts in int64, not {atom.type}", span=span)
        type = carry_type(params, initial, body, span, self.agree)
        return self.bind(For(index, extent, tuple(params), tuple(initial), body, span), type)

    def bind(self, value: Expr, type: Type, *, name: str | None = None) -> Var:
        """Binds a value whose type is already known (passes use it to copy bindings)."""
        span = getattr(value, "span", None) or self.span
        var = Var(name or f"{self._prefix}{len(self.bindings)}", type, span)
        self.bindings.append(Binding(var, value))
        return var

    def block(self, result: Atom) -> Block:
        return Block(tuple(self.bindings), result)

    def function(
        self,
        result: Atom,
        *,
        attrs: Mapping[str, Any] | None = None,
        span: Span | None = None,
        requirements: Sequence[Requirement] = (),
    ) -> Function:
        """Returns the function of what was built, with a result."""
        body = self.block(result)
        params, kept = tuple(self.params), tuple(requirements)
        return Function(params, body, dict(attrs or {}), span, kept)


def carry_type(
    params: Sequence[Var],
    initial: Sequence[Atom],
    body: Block,
    span: Span | None = None,
    agree: Callable[[Type, Type], bool] = operator.eq,
) -> TupleType:
    """Returns the type of the loop that carries ``params``. LoopwrightTypeError if what is carried
    begins or goes on as another type."""
    carried = TupleType(tuple(p.type for p in params))
    given = TupleType(tuple(a.type for a in initial))
    for what, type in (("begin as", given), ("become", body.result.type)):
        if not agree(type, carried):
            raise LoopwrightTypeError(
                f"a loop carries {carried}, and these {what} {type}", span=span
            )
    return carried


def _check_size(type: Type) -> None:
    """Raises LoopwrightValueError for an array that no process can hold."""
    if isinstance(type, TupleType):
        for field in type.fields:
            _check_size(field)
    if not isinstance(type, TensorType):
        return
    size = type.dtype.bytes
    for extent in type.shape:
        if not isinstance(extent, int):
            return
        size *= extent
    if len(type.shape) > MOST_AXES:
        raise LoopwrightValueError(f"an array of rank {len(type.shape)}; {MOST_AXES} are possible")
    if size > ADDRESSABLE_BYTES:
        raise LoopwrightValueError(
            f"an array {type.short} has {size} bytes: no process can hold it"
        )

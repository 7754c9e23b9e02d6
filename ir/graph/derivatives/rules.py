"""Rules of operators: the tangent of a call, and the transpose of one that is linear.

A declaration says it by ``tangent=`` and ``transpose=``. Without them the tangent is derived: from
the traits and ``linear``, the operands in which the operator is linear together; from the slopes of
a scalar row; of a composite from the operators that it consists of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...dataclass import dataclass
from ...dims import IntExpr
from ...errors import LoopwrightTypeError
from ...traits import Trait
from ..builder import Builder
from ..compose import F, Value, broadcast
from ..loops import filled
from ..nodes import Atom, Call, GlobalVar, Var, tensor_type
from ..operator import Operator
from ..types import TensorType, Type

Slopes = tuple[Any, ...]
"""A slope for each operand (see ``ScalarOp.slopes``)."""


def has_tangent(type: Type) -> bool:
    """True if values of that type change smoothly: floats and complex numbers."""
    return isinstance(type, TensorType) and type.dtype.is_inexact


def zeros(type: Type, builder: Builder) -> Value:
    """Returns zeros of a tensor type."""
    return Value(builder, filled(type, 0, builder))


@dataclass(frozen=True, slots=True)
class Step:
    """A call whose tangent is asked for: its operands, its ``result``, and the tangents of the
    operands, which are None where they are 0. ``reverse``: it is to be transposed."""

    call: Call
    result: Var
    tangents: Sequence[Atom | None]
    builder: Builder
    reverse: bool = False

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.call.attrs

    @property
    def r(self) -> Value:
        """The result."""
        return Value(self.builder, self.result)

    @property
    def results(self) -> list[Value]:
        """The fields of a result that is a tuple."""
        return self.r.fields

    def x(self, n: int) -> Value:
        """Returns an operand."""
        return Value(self.builder, self.call.args[n])

    def t(self, n: int = 0) -> Value | None:
        """Returns the tangent of an operand."""
        tangent = self.tangents[n]
        return None if tangent is None else Value(self.builder, tangent)

    def moved(self, n: int = 0) -> Value:
        """Returns the tangent of an operand, zeros if it is None."""
        return self.t(n) or zeros(self.call.args[n].type, self.builder)

    def refused(self) -> LoopwrightTypeError:
        """Returns the error for a call that has no derivative."""
        return no_derivative(self.call.operator)

    def again(self, *args: Value, **attrs: Any) -> Value:
        """Applies the operator to other operands, with other values of some attributes."""
        atoms = [a.atom for a in args]
        return Value(
            self.builder, self.builder.emit(self.call.operator, atoms, {**self.attrs, **attrs})
        )

    def by_slopes(self, slopes: Slopes) -> Value | None:
        """Returns the tangent of an elementwise operator: the sum of those of the operands, each
        times its slope. A function is called with those of ``F``, ``r``, ``x`` and ``y`` that it
        has as parameters."""
        total: Value | None = None
        values: dict[str, Any] = {"F": F, "r": self.r}
        values |= {"xyz"[n]: self.x(n) for n in range(len(self.call.args))}
        for n, slope in enumerate(slopes):
            tangent = self.t(n)
            if tangent is None or slope is None:
                continue
            if callable(slope):
                slope: Any = slope
                names = slope.__code__.co_varnames[: slope.__code__.co_argcount]
                term = tangent * slope(*(values[name] for name in names))
            else:
                term = -tangent if slope == -1 else tangent
            if term.dtype.is_complex and not self.r.dtype.is_complex:
                term = F.real(term)
            total = term if total is None else total + term
        return None if total is None else broadcast(total, self.r.shape)


def linear_operands(op: Operator, count: int) -> Sequence[int] | None:
    """Returns the operands in which an operator is linear together; None if there are none."""
    if op.linear is not None:
        return range(count)[op.linear]
    if Trait.LINEAR in op.traits:
        return range(count)
    return range(1) if Trait.PICKS in op.traits and op.params else None


def tangent_of(step: Step) -> Value | None:
    """Emits the tangent of a primitive's result. LoopwrightTypeError if there is no rule."""
    op, args = step.call.operator, step.call.args
    if op.tangent is not None:
        return op.tangent(step)
    if Trait.MULTILINEAR in op.traits:
        total: Value | None = None
        for n in range(len(args)):
            if (tangent := step.t(n)) is not None:
                term = step.again(*(tangent if k == n else step.x(k) for k in range(len(args))))
                total = term if total is None else total + term
        return total
    operands = linear_operands(op, len(args))
    if operands is None:
        raise no_derivative(op)
    if all(step.tangents[n] is None for n in operands):
        return None
    filled_in = [step.moved(n) if n in operands else step.x(n) for n in range(len(args))]
    return step.again(*filled_in)


def no_derivative(op: Operator) -> LoopwrightTypeError:
    """Returns the error for an operator without a rule."""
    return LoopwrightTypeError(
        f"{op.name} has no derivative: {op.not_differentiable or 'there is no rule for it'}",
        hint="lw.stop_gradient(...) of its operand, or @lw.custom_vjp on a function around it",
    )


class Derived(Protocol):
    """Derivatives of functions that are called (see ``functions.py``)."""

    def forward(self, callee: GlobalVar | Var, moving: tuple[bool, ...]) -> GlobalVar: ...
    def backward(self, forward: GlobalVar) -> GlobalVar: ...


@dataclass(frozen=True, slots=True)
class Transposition:
    """A call that is linear in the operands ``linear``, and the cotangent ``ct`` of its result, or
    of the ``fields`` of its result."""

    call: Call
    args: Sequence[Atom]
    linear: Sequence[bool]
    ct: Value
    totals: dict[Var, Atom]
    builder: Builder
    fields: Sequence[Atom | None] = ()

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.call.attrs

    def x(self, n: int) -> Value:
        """Returns an operand; of one that is linear, only the type counts."""
        return Value(self.builder, self.args[n])

    def shape(self, n: int = 0) -> tuple[IntExpr, ...]:
        return tensor_type(self.args[n]).shape

    def zeros(self, n: int = 0) -> Value:
        """Returns zeros of an operand's type."""
        return zeros(self.args[n].type, self.builder)

    def total(self, n: int = 0) -> Value | None:
        """Returns the cotangent of an operand from its other users so far."""
        operand = self.args[n]
        total = self.totals.get(operand) if isinstance(operand, Var) else None
        return None if total is None else Value(self.builder, total)

    def add(self, n: int, value: Value) -> None:
        """Adds to the cotangent of an operand, if that is linear."""
        if self.linear[n]:
            total = self.total(n)
            self.replace(n, value if total is None else total + value)

    def replace(self, n: int, value: Value) -> None:
        """Gives an operand a cotangent that contains the one so far."""
        operand = self.args[n]
        if self.linear[n]:
            assert isinstance(operand, Var)
            self.totals[operand] = value.atom

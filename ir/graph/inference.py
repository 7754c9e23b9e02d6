"""Types that a text leaves out, found by unification.

A type that is not known is a ``Hole``; two types that must be the same are unified (J. A. Robinson,
"A machine-oriented logic based on the resolution principle", 1965). What an operator, a field of a
tuple or a call over sizes gives is a relation: it waits until the types that it starts from are
known, and relations are tried until none of them tells anything new (the type relations of
J. Roesch and others, "Relay: a high-level compiler for deep learning", 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..dataclass import dataclass
from ..dims import Dim
from ..errors import LoopwrightError, LoopwrightTypeError
from ..scanner import Scanner
from ..span import Span
from . import nodes
from .builder import Builder
from .nodes import Atom, Block, Function, Var
from .operator import Operator
from .types import (
    FuncType,
    Hole,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    instantiate,
    map_parts,
    parts_of,
    sizes_in,
    substitute_type,
)
from .walk import map_operands, nested_blocks, nested_params, with_nested_blocks


@dataclass(slots=True)
class _Relation:
    """``solve`` enters what follows from the types in ``waits_for``, and ``result`` is the type
    that it gives, once the first are known."""

    waits_for: tuple[Type, ...]
    is_open: Callable[[Type], bool]
    result: Type
    solve: Callable[[tuple[Type, ...]], Type]
    what: str
    span: Span
    is_operator: bool  # whose operands are tensors


class Inference:
    """The unknown types of the text that ``scan`` reads."""

    def __init__(self, scan: Scanner) -> None:
        self.scan = scan
        self.is_used = False
        self._waiting: list[_Relation] = []

    def hole(self, is_any: bool = False) -> Hole:
        """Returns a type that is not known; ``is_any``: it may stay so, and is ``()`` then."""
        self.is_used = True
        return Hole(self.scan.span(self.scan.position), is_any)

    def known(self, type: Type) -> Type:
        """Returns a type with what is known of its holes."""
        while isinstance(type, Hole) and type.solution is not None:
            type = type.solution
        return map_parts(type, self.known) if parts_of(type) and self.is_used else type

    def unify(self, one: Type, other: Type) -> bool:
        """Makes two types the same; False if they cannot be."""
        one, other = self.known(one), self.known(other)
        if isinstance(one, FuncType) and isinstance(other, FuncType):
            one, other = self._instances(one, other)
        if one == other:
            return True
        if isinstance(other, Hole) and not (isinstance(one, Hole) and other.is_any):
            one, other = other, one
        if isinstance(one, Hole):
            if any(hole is one for hole in _holes_in(other)):
                return False  # a type that contains itself
            one.solution = other
            return True
        parts, others = parts_of(one), parts_of(other)
        alike = type(one) is type(other) and len(parts) == len(others) and bool(parts)
        alike = alike and getattr(one, "name", None) == getattr(other, "name", None)
        return alike and all(map(self.unify, parts, others))

    def _instances(self, one: FuncType, other: FuncType) -> tuple[Type, Type]:
        """Function types with the type parameters of one of them as the other needs them."""
        if one.type_params and not other.type_params:
            return self.instance(one), other
        if other.type_params and not one.type_params:
            return one, self.instance(other)
        names = map(TypeVar, one.type_params)
        renamed = map_parts(other, _renaming(dict(zip(other.type_params, names))))
        if len(one.type_params) == len(other.type_params) and isinstance(renamed, FuncType):
            return replace(one, type_params=()), replace(renamed, type_params=())
        return one, other

    def instance(self, signature: FuncType) -> FuncType:
        """Returns a signature with unknown types for its type parameters."""
        if not signature.type_params:
            return signature
        types: dict[str, Type] = {name: self.hole(is_any=True) for name in signature.type_params}
        inside = map_parts(replace(signature, type_params=()), _renaming(types))
        assert isinstance(inside, FuncType)
        return inside

    def relate(
        self,
        waits_for: Sequence[Type],
        solve: Callable[[tuple[Type, ...]], Type],
        what: str,
        is_open: Callable[[Type], bool] | None = None,
        is_operator: bool = False,
    ) -> Type:
        """Returns the type that ``solve`` gives for the types ``waits_for`` as soon as they are
        known, no one of them ``is_open``; a hole until then."""
        types, is_open = tuple(map(self.known, waits_for)), is_open or has_holes
        if not any(map(is_open, types)):
            return solve(types)
        result, span = self.hole(), self.scan.span()
        self._waiting.append(_Relation(types, is_open, result, solve, what, span, is_operator))
        return result

    def progress(self) -> None:
        """Solves the relations whose types are known, and those that become known by it."""
        count = len(self._waiting) + 1
        while len(self._waiting) < count:
            count = len(self._waiting)
            waiting, self._waiting = self._waiting, []
            for relation in waiting:
                types = tuple(map(self.known, relation.waits_for))
                if any(map(relation.is_open, types)):
                    self._waiting.append(relation)
                    continue
                try:
                    result = relation.solve(types)
                    if not self.unify(relation.result, result):
                        given = self.known(relation.result)
                        raise LoopwrightTypeError(f"{relation.what} is {result}, and not {given}")
                except LoopwrightError as error:
                    error.span = relation.span
                    error.notes = self.scan.marked(relation.span)
                    raise

    def finish(self) -> None:
        """Raises LoopwrightTypeError if a relation's types are still not known."""
        self.progress()
        for relation in self._waiting:
            for kind in () if relation.is_operator else relation.waits_for:
                self.settle(kind)
        self.progress()
        for relation in self._waiting:
            raise LoopwrightTypeError(
                f"the type of {relation.what} cannot be inferred",
                span=relation.span,
                notes=self.scan.marked(relation.span),
                hint="types of parameters, such as %x: Tensor[(4), float32]",
            )

    def settle(self, type: Type) -> None:
        """Makes types of which any would do ``()``."""
        for hole in _holes_in(self.known(type)):
            if hole.is_any:
                hole.solution = TupleType(())

    def resolve(self, function: Function) -> Function:
        """Returns a function with the types that were found. LoopwrightTypeError if one was not."""
        resolved = _Resolved(self).nested(function)
        assert isinstance(resolved, Function)
        return resolved


def _renaming(types: Mapping[str, Type]) -> Callable[[Type], Type]:
    return lambda part: substitute_type(part, {}, types)


def _holes_in(type: Type) -> Iterator[Hole]:
    if isinstance(type, Hole):
        yield type
    for part in parts_of(type):
        yield from _holes_in(part)


def has_holes(type: Type) -> bool:
    """True unless all of a type is known."""
    return next(_holes_in(type), None) is not None


def is_hole(type: Type) -> bool:
    """True if nothing of a type is known."""
    return isinstance(type, Hole)


class InferringBuilder(Builder):
    """A builder for operands whose types need not be known yet."""

    def __init__(self, inference: Inference) -> None:
        super().__init__()
        self.inference = inference

    def agree(self, one: Type, other: Type) -> bool:
        return self.inference.unify(one, other)

    def known(self, type: Type) -> Type:
        return self.inference.known(type)

    def operator_type(
        self, op: Operator, types: tuple[Type, ...], attrs: Mapping[str, Any]
    ) -> Type:
        if not self.inference.is_used:
            return op.infer(types, attrs)
        return self.inference.relate(
            types, lambda types: op.infer(types, attrs), op.name, is_operator=True
        )

    def field_type(self, type: Type, index: int) -> Type:
        field = super().field_type

        def solve(types: tuple[Type, ...]) -> Type:
            return field(types[0], index)

        return self.inference.relate((type,), solve, f".{index}", is_hole)

    def _content(self, type: Type) -> Type:
        content = self.inference.hole()
        return content if self.agree(type, RefType(content)) else super()._content(type)

    def call_type(self, name: str, signature: Type, given: tuple[Type, ...]) -> Type:
        inference = self.inference
        signature = inference.known(signature)
        given = tuple(map(inference.known, given))
        if isinstance(signature, Hole):
            result = inference.hole()
            if not inference.unify(signature, FuncType(given, result)):
                raise LoopwrightTypeError(f"{name} is an operand of itself, so that it has no type")
            return result
        if not isinstance(signature, FuncType):
            raise LoopwrightTypeError(f"{name} is called, and its type is {signature}")
        if len(signature.params) != len(given):
            return super().call_type(name, signature, given)
        is_sized = any(isinstance(size, Dim) for size in sizes_in(signature))
        if (is_sized or signature.type_params) and has_holes(signature.result):
            # What the result is over is known with the result only.
            waiting = signature

            def solve(types: tuple[Type, ...]) -> Type:
                return self.call_type(name, replace(waiting, result=types[0]), given)

            return inference.relate((signature.result,), solve, f"the result of {name}")
        plain = inference.instance(signature)
        if is_sized:
            return self._sized_call(name, plain, given)
        if not all(map(inference.unify, plain.params, given)):
            partly = FuncType(tuple(map(inference.known, plain.params)), plain.result)
            return super().call_type(name, partly, tuple(map(inference.known, given)))
        return inference.known(plain.result)

    def _sized_call(self, name: str, signature: FuncType, given: tuple[Type, ...]) -> Type:
        """The result of a call over sizes, which are those of the operands."""
        if instantiate(signature, given) == signature.result:
            return signature.result
        for param, operand in zip(signature.params, given):
            if not any(isinstance(size, Dim) for size in sizes_in(param)):
                self.inference.unify(param, operand)

        def solve(types: tuple[Type, ...]) -> Type:
            plain = self.known(signature)
            assert isinstance(plain, FuncType)
            for param, operand in zip(plain.params, types):
                _fill(self.inference, param, operand)
            return Builder.call_type(self, name, self.known(plain), types)

        return self.inference.relate(given, solve, f"a call of {name}")


def _fill(inference: Inference, param: Type, operand: Type) -> None:
    """Unifies the unknown types in a parameter with what an operand has in their place."""
    if isinstance(param, Hole):
        inference.unify(param, operand)
    elif type(param) is type(operand) and not isinstance(param, TensorType):
        for part, other in zip(parts_of(param), parts_of(operand)):
            _fill(inference, part, other)


class _Resolved:
    """Copies blocks, with variables of the types that were found."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.instead: dict[Var, Var] = {}

    def type(self, type: Type, name: str) -> Type:
        self.inference.settle(type)
        resolved = self.inference.known(type)
        for hole in _holes_in(resolved):
            raise LoopwrightTypeError(
                f"the type of {name} cannot be inferred: it is {resolved}",
                span=hole.span,
                notes=self.inference.scan.marked(hole.span),
                hint=f"{name}: Tensor[(4), float32], or what its type is",
            )
        return resolved

    def var(self, var: Var) -> Var:
        type = self.type(var.type, f"%{var.name}")
        new = self.instead[var] = var if type == var.type else replace(var, type=type)
        return new

    def atom(self, atom: Atom) -> Atom:
        if isinstance(atom, Var):
            return self.instead.get(atom, atom)
        if isinstance(atom, nodes.GlobalVar):
            type = self.type(atom.type, f"@{atom.name}")
            assert isinstance(type, FuncType)
            return atom if type == atom.type else replace(atom, type=type)
        return atom

    def nested(self, value: nodes.Expr) -> nodes.Expr:
        params = [self.var(p) for p in nested_params(value)]
        return with_nested_blocks(value, [self.block(b) for b in nested_blocks(value)], params)

    def block(self, block: Block) -> Block:
        bindings: list[nodes.Binding] = []
        for binding in block.bindings:
            value = self.nested(map_operands(binding.value, self.atom))
            bindings.append(nodes.Binding(self.var(binding.var), value))
        return Block(tuple(bindings), self.atom(block.result))

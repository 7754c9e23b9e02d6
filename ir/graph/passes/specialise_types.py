"""Copy functions over type parameters for each choice of types that they are used with.

Before::

    def @main(%x: Tensor[(4), float32], %n: int64) -> (Tensor[(4), float32], int64) {
      %0 = @same(%x);
      %1 = @same(%n);
      (%0, %1)
    }

    def @same[A](%x: A) -> A {
      %x
    }

After::

    def @main(%x: Tensor[(4), float32], %n: int64) -> (Tensor[(4), float32], int64) {
      %0 = @same(%x);
      %1 = @same_1(%n);
      (%0, %1)
    }

    def @same(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %x
    }

    def @same_1(%x: int64) -> int64 {
      %x
    }

Functions inside of others are copied to where they are used. A function that calls itself with ever
larger types has no end of copies (polymorphic recursion), which is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...errors import LoopwrightTypeError
from .. import nodes
from ..nodes import Atom, Binding, Block, Function, GlobalVar, Var
from ..types import FuncType, Type, bind_types, parts_of, substitute_type
from ..walk import all_bindings, map_operands, nested_blocks, nested_params, with_nested_blocks

MOST_COPIES_NESTED = 8
"""Copies of a function that need one another; more are taken for copies without end."""

Types = Mapping[str, Type]


def specialise_types(module: nodes.Module) -> nodes.Module:
    """Returns a module without type parameters of functions. LoopwrightTypeError for a function
    that needs copies without end."""
    graph = {n: f for n, f in module.functions.items() if isinstance(f, Function)}
    if not any(map(_is_generic, graph.values())):
        return module
    copies = _Copies(graph, set(module.functions))
    functions = {n: f for n, f in module.functions.items() if n not in graph}
    for name, function in graph.items():
        if not function.type_params:
            functions[name] = _Copy(copies, {}).function(function)
    while copies.waiting:
        name, function, types, copies.path = copies.waiting.pop(0)
        functions[name] = _Copy(copies, types).function(replace(function, type_params=()))
    return module.with_functions(functions)


def _is_generic(function: Function) -> bool:
    inside = (b.value for b in all_bindings(function))
    return bool(function.type_params) or any(
        isinstance(value, Function) and value.type_params for value in inside
    )


class _Copies:
    """The copies that are made, and those that are still to be."""

    def __init__(self, functions: Mapping[str, Function], names: set[str]) -> None:
        self.functions = functions
        self.taken = {n for n in names if n not in functions or not functions[n].type_params}
        self.waiting: list[tuple[str, Function, Types, tuple[str, ...]]] = []
        self.path: tuple[str, ...] = ()  # the functions whose copies need the present one
        self._names: dict[str, dict[tuple[Type, ...], str]] = {}

    def named(self, name: str, types: Types) -> str:
        """Returns the name of the copy of a function for these types."""
        function = self.functions[name]
        names = self._names.setdefault(name, {})
        key = tuple(types[n] for n in function.type_params)
        if key not in names:
            if self.path.count(name) >= MOST_COPIES_NESTED:
                raise LoopwrightTypeError(
                    f"@{name} calls itself with ever other types, so that there is no end of them",
                    hint="calls of itself with its own types",
                )
            number, names[key] = len(names) - 1, name
            while names[key] in self.taken:
                number += 1
                names[key] = f"{name}_{number}"
            self.taken.add(names[key])
            self.waiting.append((names[key], function, types, (*self.path, name)))
        return names[key]


class _Copy:
    """Copies one function for ``types``."""

    def __init__(self, copies: _Copies, types: Types) -> None:
        self.copies, self.types = copies, types
        self.instead: dict[Var, Var] = {}
        self.generic: dict[Var, Function] = {}

    def type(self, type: Type) -> Type:
        return substitute_type(type, {}, self.types)

    def var(self, var: Var) -> Var:
        new = self.instead[var] = Var(var.name, self.type(var.type), var.span)
        return new

    def function(self, function: Function) -> Function:
        params = tuple(map(self.var, function.params))
        return replace(function, params=params, body=self.block(function.body))

    def block(self, block: Block) -> Block:
        made: list[Binding] = []
        for binding in block.bindings:
            var, value = binding.var, binding.value
            if isinstance(value, Function) and value.type_params:
                self.generic[var] = value
                continue
            if isinstance(value, Var) and value in self.generic:
                made.append(Binding(self.var(var), self.local(value, self.type(var.type))))
                continue
            if isinstance(value, nodes.Call) and value.op in self.generic:
                assert isinstance(value.op, Var)
                kinds = tuple(self.type(a.type) for a in value.args)
                copied = self.local(value.op, FuncType(kinds, self.type(var.type)))
                callee = Var(value.op.name, copied.type, var.span)
                made.append(Binding(callee, copied))
                args = tuple(map(self.atom, value.args))
                made.append(Binding(self.var(var), replace(value, op=callee, args=args)))
                continue
            if isinstance(value, nodes.Call) and isinstance(value.op, GlobalVar):
                kinds = tuple(self.type(a.type) for a in value.args)
                callee = self.callee(value.op, (*kinds, self.type(var.type)))
                args = tuple(map(self.atom, value.args))
                made.append(Binding(self.var(var), replace(value, op=callee, args=args)))
                continue
            value = map_operands(value, self.atom)
            params = [self.var(p) for p in nested_params(value)]
            blocks = [self.block(b) for b in nested_blocks(value)]
            made.append(Binding(self.var(var), with_nested_blocks(value, blocks, params)))
        return Block(tuple(made), self.atom(block.result))

    def local(self, var: Var, kind: Type) -> Function:
        """Returns a copy of a function inside of this one, for uses of a type."""
        function = self.generic[var]
        signature = FuncType(tuple(p.type for p in function.params), function.body.result.type)
        bound = bind_types([self.type(signature)], [kind])
        assert bound is not None
        inside = _Copy(self.copies, {**self.types, **bound[1]})
        inside.instead, inside.generic = dict(self.instead), dict(self.generic)
        return inside.function(replace(function, type_params=()))

    def callee(self, target: GlobalVar, kinds: Sequence[Type]) -> GlobalVar:
        """Returns the function that stands for one of the module's where its operands and result
        are of these ``kinds``."""
        signature = target.type
        function = self.copies.functions.get(target.name)
        if isinstance(target, nodes.Constructor) or function is None or not function.type_params:
            return target
        bound = bind_types(parts_of(signature), kinds)
        assert bound is not None
        name = self.copies.named(target.name, bound[1])
        kind = substitute_type(replace(signature, type_params=()), {}, bound[1])
        assert isinstance(kind, FuncType)
        return replace(target, name=name, type=kind)

    def atom(self, atom: Atom) -> Atom:
        if isinstance(atom, Var):
            return self.instead.get(atom, atom)
        if not isinstance(atom, GlobalVar):
            return atom
        kind = self.type(atom.type)
        assert isinstance(kind, FuncType)
        if isinstance(atom, nodes.Constructor):
            return replace(atom, type=kind)
        function = self.copies.functions.get(atom.name)
        if function is None or not function.type_params:
            return atom
        generic = replace(atom, type=function.type)
        return self.callee(generic, parts_of(kind))

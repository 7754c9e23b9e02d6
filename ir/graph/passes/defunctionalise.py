"""Make functions that are values data: what stands for one is its number and what it captured.

Before::

    def @main(%x: Tensor[(4), float32], %n: int64) -> Tensor[(4), float32] {
      %f = @scaled_by(%n);
      %f(%x)
    }

    def @scaled_by(%n: int64) -> fn (Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = cast(%n, dtype="float32");
      fn (%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
        multiply(%x, %0)
      }
    }

After::

    type Function {
      Scaled_by(float32),
    }

    def @main(%x: Tensor[(4), float32], %n: int64) -> Tensor[(4), float32] {
      %f = @scaled_by(%n);
      @apply(%f, %x)
    }

    def @scaled_by(%n: int64) -> Function {
      %0 = cast(%n, dtype="float32");
      Scaled_by(%0)
    }

    def @apply(%function: Function, %x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      match (%function) {
        Scaled_by(%0) => {
          multiply(%x, %0)
        },
      }
    }

J. C. Reynolds, "Definitional interpreters for higher-order programming languages", 1972. There is a
data type and an ``@apply`` for each type of functions. Functions over type parameters have to be
specialised before (``specialise_types.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from ...dataclass import dataclass
from ...errors import UnsupportedError
from .. import nodes
from ..builder import Builder
from ..nodes import Atom, Binding, Block, Case, Constructor, Function, GlobalVar, Var
from ..types import DataType, FuncType, Type, map_parts, parts_of, type_variables
from ..walk import (
    all_bindings,
    captured_variables,
    map_operands,
    nested_blocks,
    nested_params,
    with_nested_blocks,
)


def defunctionalise(module: nodes.Module) -> nodes.Module:
    """Returns a module in which no value is a function."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    if not any(map(_has_function_values, functions)):
        return module
    return _Pass(module).run()


def _has_function_values(function: Function) -> bool:
    kinds = [p.type for p in function.params]
    kinds += [b.var.type for b in all_bindings(function)]
    return any(map(holds_functions, kinds))


def holds_functions(type: Type) -> bool:
    """True for the type of functions, and of values that have some among their parts."""
    return isinstance(type, FuncType) or any(map(holds_functions, parts_of(type)))


def _functions_in(signature: FuncType) -> Iterator[Type]:
    """Yields the types of the functions in the fields of a constructor."""
    work = [*signature.params]
    for type in work:  # which grows
        if isinstance(type, FuncType):
            yield type
        work += parts_of(type)


@dataclass(slots=True, eq=False)
class _Kind:
    """The functions of one type: the data type that stands for it, what applies its values, and the
    cases of that, one for each function that becomes a value."""

    data: DataType
    signature: FuncType
    apply: GlobalVar
    params: tuple[Var, ...]
    constructors: list[Constructor] = field(default_factory=list[Constructor])
    cases: list[Case] = field(default_factory=list[Case])


class _Pass:
    def __init__(self, module: nodes.Module) -> None:
        self.module = module
        self.kinds: dict[FuncType, _Kind] = {}
        self.instead: dict[Var, Var] = {}
        self.globals: dict[str, tuple[_Kind, Constructor]] = {}
        self.taken = set(module.functions) | set(module.types)
        self.taken |= {c.name for d in module.types.values() for c in d.constructors}

    def run(self) -> nodes.Module:
        types = dict(self.module.types)
        functions = {
            name: self.function(f, name) if isinstance(f, Function) else f
            for name, f in self.module.functions.items()
        }
        for name, data in types.items():
            made = [replace(c, type=self.signature(c.type)) for c in data.constructors]
            kinds = [f for c in data.constructors for f in _functions_in(c.type)]
            if any(map(type_variables, kinds)):
                raise UnsupportedError(
                    f"the type {name} holds functions over its type parameters",
                    hint=f"a type like {name} for each of the types it is used with",
                )
            types[name] = replace(data, constructors=tuple(made))
        for kind in self.kinds.values():  # all of which are known by now
            name = kind.data.name
            types[name] = nodes.DataDef(name, (), tuple(kind.constructors))
            functions[kind.apply.name] = _apply(kind)
        return replace(self.module, functions=functions, types=types)

    def name(self, base: str) -> str:
        """Returns a name that nothing else has."""
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    # -- types -------------------------------------------------------------------------------------

    def type(self, type: Type) -> Type:
        """Returns a type with data types for those of functions."""
        if isinstance(type, FuncType):
            return self.kind(type).data
        return map_parts(type, self.type) if holds_functions(type) else type

    def signature(self, type: FuncType) -> FuncType:
        changed = map_parts(type, self.type)
        assert isinstance(changed, FuncType)
        return changed

    def kind(self, type: FuncType) -> _Kind:
        if type not in self.kinds:
            data = DataType(self.name("Function"))
            name = self.name("apply")
            kind = self.kinds[type] = _Kind(data, type, GlobalVar(name, type), ())
            kind.signature = signature = self.signature(type)
            params = (data, *signature.params)
            kind.apply = GlobalVar(name, FuncType(params, signature.result))
            kind.params = tuple(
                Var("function" if not n else f"x{n}", p) for n, p in enumerate(params)
            )
        return self.kinds[type]

    # -- programs ----------------------------------------------------------------------------------

    def var(self, var: Var) -> Var:
        new = self.instead[var] = Var(var.name, self.type(var.type), var.span)
        return new

    def function(self, function: Function, name: str) -> Function:
        params = tuple(map(self.var, function.params))
        return replace(function, params=params, body=self.block(function.body, name))

    def block(self, block: Block, name: str) -> Block:
        """Returns a block of the function ``name`` without functions."""
        builder = Builder()
        for binding in block.bindings:
            var, value = binding.var, binding.value
            builder.span = var.span
            if isinstance(value, Function):
                has_name = var.name and not var.name.isdigit()
                made = self.made(value, var.name if has_name else name)
                builder.bindings.append(Binding(self.var(var), made))
                continue
            if isinstance(value, nodes.Call) and isinstance(value.op, Var):
                assert isinstance(value.op.type, FuncType)
                apply = self.kind(value.op.type).apply
                args = [self.atom(a, builder) for a in (value.op, *value.args)]
                value = nodes.Call(apply, tuple(args), value.attrs, value.span)
            elif isinstance(value, nodes.Call) and isinstance(value.op, GlobalVar):
                callee = replace(value.op, type=self.signature(value.op.type))
                args = [self.atom(a, builder) for a in value.args]
                value = replace(value, op=callee, args=tuple(args))
            else:
                value = map_operands(value, lambda a: self.atom(a, builder))
            params = [self.var(p) for p in nested_params(value)]
            blocks = [self.block(b, name) for b in nested_blocks(value)]
            value = with_nested_blocks(self.patterns(value), blocks, params)
            builder.bindings.append(Binding(self.var(var), value))
        return builder.block(self.atom(block.result, builder))

    def patterns(self, value: nodes.Expr) -> nodes.Expr:
        """Returns a match with patterns of the constructors that there are then."""
        if not isinstance(value, nodes.Match):
            return value
        cases = [replace(case, pattern=self.pattern(case.pattern)) for case in value.cases]
        return replace(value, cases=tuple(cases))

    def pattern(self, pattern: nodes.Pattern) -> nodes.Pattern:
        if not isinstance(pattern, nodes.ConstructorPattern):
            return pattern
        made = pattern.constructor
        made = made and replace(made, type=self.signature(made.type))
        return replace(pattern, constructor=made, fields=tuple(map(self.pattern, pattern.fields)))

    def atom(self, atom: Atom, builder: Builder) -> Atom:
        """Returns what stands for an atom, for which a function of the module becomes a value."""
        if isinstance(atom, Var):
            return self.instead.get(atom, atom)
        if not isinstance(atom, GlobalVar):
            return atom
        kind = self.kind(atom.type)
        key = f"{atom.name} {atom.type}"
        if key not in self.globals:
            constructor = self.add(kind, atom.name, ())
            inside = Builder()
            callee = replace(atom, type=kind.signature)
            call = nodes.Call(callee, kind.params[1:])
            result = inside.bind(call, kind.signature.result)
            pattern = nodes.ConstructorPattern(constructor, ())
            kind.cases.append(Case(pattern, inside.block(result)))
            self.globals[key] = kind, constructor
        return builder.bind(nodes.Call(self.globals[key][1], ()), kind.data)

    def made(self, function: Function, name: str) -> nodes.Expr:
        """Returns the value of a function: its constructor on the variables that it captures."""
        kind = self.kind(function.type)
        captured = captured_variables(function)
        around = [self.instead.get(v, v) for v in captured]
        fields = [Var(v.name, v.type) for v in around]
        constructor = self.add(kind, name, tuple(v.type for v in fields))
        before = dict(self.instead)
        self.instead.update(zip(captured, fields))
        self.instead.update(zip(function.params, kind.params[1:]))
        pattern = nodes.ConstructorPattern(constructor, tuple(fields))
        kind.cases.append(Case(pattern, self.block(function.body, name)))
        self.instead = before
        return nodes.Call(constructor, tuple(around))

    def add(self, kind: _Kind, name: str, fields: tuple[Type, ...]) -> Constructor:
        """Adds a constructor to the data type of a kind of functions."""
        name = self.name(name[:1].upper() + name[1:])
        signature = FuncType(fields, kind.data)
        made = Constructor(name, signature, data=kind.data.name, tag=len(kind.constructors))
        kind.constructors.append(made)
        return made


def _apply(kind: _Kind) -> Function:
    """The function that applies the values of a kind."""
    builder = Builder()
    result = builder.match(kind.params[0], kind.cases)
    return Function(kind.params, builder.block(result))

"""Walks over expressions and blocks, and the loop by which passes rebuild a function.

Every pass visits the operands of a binding first, then the binding, then the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from operator import is_
from typing import Any, TypeAlias, TypeGuard

from ..dims import IntExpr, Symbol, size_symbols
from ..errors import RAISE_FAILED, InternalError
from ..traits import Trait
from . import nodes
from .builder import Builder
from .nodes import (
    Atom,
    Binding,
    Block,
    Call,
    Case,
    Constructor,
    ConstructorPattern,
    Expr,
    For,
    Function,
    GlobalVar,
    If,
    Match,
    Pattern,
    Ref,
    Tuple,
    Var,
    While,
    pattern_variables,
)
from .operator import Operator
from .types import bind_sizes, sizes_in, sizes_in_attr, substitute_attr, substitute_type


def operands(value: Expr) -> tuple[Atom, ...]:
    """Returns the atoms ``value`` uses itself, without those that only its nested blocks use."""
    if isinstance(value, Call):
        return (value.op, *value.args) if isinstance(value.op, GlobalVar | Var) else value.args
    if isinstance(value, Tuple):
        return value.fields
    if isinstance(value, nodes.TupleGetItem):
        return (value.value,)
    if isinstance(value, If):
        return (value.condition,)
    if isinstance(value, While):
        return value.initial
    if isinstance(value, For):
        return (value.extent, *value.initial)
    if isinstance(value, Function):
        return ()
    if isinstance(value, Match):
        return (value.value,)
    return value.args if isinstance(value, Ref) else (value,)


def nested_blocks(value: Expr) -> tuple[Block, ...]:
    """Returns the blocks inside ``value``, in the order in which they run."""
    if isinstance(value, Call):  # as nearly all values are
        return ()
    if isinstance(value, If):
        return value.then, value.orelse
    if isinstance(value, While):
        return value.condition, value.body
    if isinstance(value, Match):
        return tuple(case.block for case in value.cases)
    return (value.body,) if isinstance(value, For | Function) else ()


def nested_params(value: Expr) -> tuple[Var, ...]:
    """Returns the variables that ``value`` itself binds for the blocks inside of it."""
    if isinstance(value, For):
        return value.index, *value.params
    if isinstance(value, Match):
        return tuple(v for case in value.cases for v in pattern_variables(case.pattern))
    return value.params if isinstance(value, While | Function) else ()


def with_nested_blocks(
    value: Expr, blocks: Sequence[Block], params: Sequence[Var] | None = None
) -> Expr:
    """``value`` with other blocks inside (and other ``params`` for them); the same object if none
    changed."""
    if not blocks:
        return value
    old = nested_params(value)
    new = old if params is None else tuple(params)
    pairs = [*zip(blocks, nested_blocks(value), strict=True), *zip(new, old, strict=True)]
    if all(a is b for a, b in pairs):
        return value
    if isinstance(value, If):
        return If(value.condition, blocks[0], blocks[1], value.span)
    if isinstance(value, While):
        return While(new, value.initial, blocks[0], blocks[1], value.span)
    if isinstance(value, For):
        return For(new[0], value.extent, new[1:], value.initial, blocks[0], value.span)
    if isinstance(value, Match):
        variables = iter(new)
        patterns = [_with_variables(case.pattern, variables) for case in value.cases]
        return replace(value, cases=tuple(map(Case, patterns, blocks)))
    assert isinstance(value, Function)
    return replace(value, params=new, body=blocks[0])


def _with_variables(pattern: Pattern, variables: Iterator[Var]) -> Pattern:
    if isinstance(pattern, Var):
        return next(variables)
    if isinstance(pattern, ConstructorPattern):
        fields = tuple(_with_variables(f, variables) for f in pattern.fields)
        return replace(pattern, fields=fields)
    return pattern


def map_operands(value: Expr, change: Callable[[Atom], Atom]) -> Expr:
    """``value`` with each of its own operands replaced; the same object if none changed."""
    old = operands(value)
    new = tuple(map(change, old))
    if all(map(is_, new, old)):
        return value
    if isinstance(value, Call):
        if isinstance(value.op, GlobalVar | Var):
            callee = new[0]
            assert isinstance(callee, GlobalVar | Var)
            return Call(callee, new[1:], value.attrs, value.span)
        return Call(value.op, new, value.attrs, value.span)
    if isinstance(value, Tuple):
        return Tuple(new, value.span)
    if isinstance(value, nodes.TupleGetItem):
        return nodes.TupleGetItem(new[0], value.index, value.span)
    if isinstance(value, If):
        return If(new[0], value.then, value.orelse, value.span)
    if isinstance(value, While):
        return replace(value, initial=new)
    if isinstance(value, For):
        return replace(value, extent=new[0], initial=new[1:])
    if isinstance(value, Match):
        return replace(value, value=new[0])
    return Ref(value.kind, new, value.span) if isinstance(value, Ref) else new[0]


def copy_block(
    block: Block, instead: dict[Var, Atom], sizes: Mapping[str, IntExpr] | None = None
) -> Block:
    """Returns ``block`` with variables of its own, with the atoms that ``instead`` gives for some
    of those it uses, and over other ``sizes``; ``instead`` then has the copies, too."""

    def atom(a: Atom) -> Atom:
        return instead.get(a, a) if isinstance(a, Var) else a

    def copy(var: Var) -> Var:
        return Var(var.name, substitute_type(var.type, sizes) if sizes else var.type, var.span)

    bindings: list[Binding] = []
    for binding in block.bindings:
        value = map_operands(binding.value, atom)
        if has_trait(value, Trait.SETS_SIZE):
            (old,) = size_symbols(value.attrs["size"]).values()
            sizes = {**(sizes or {}), old.name: replace(old, name=_unused(old.name)).expr}
        if sizes and isinstance(value, Call):
            attrs = {k: substitute_attr(v, sizes) for k, v in value.attrs.items()}
            value = replace(value, attrs=attrs)
        params = nested_params(value)
        copies = tuple(map(copy, params))
        instead.update(zip(params, copies))
        blocks = [copy_block(b, instead, sizes) for b in nested_blocks(value)]
        value = with_nested_blocks(value, blocks, copies)
        if isinstance(value, Var | nodes.Constant | GlobalVar):
            instead[binding.var] = value
            continue
        var = instead[binding.var] = copy(binding.var)
        bindings.append(Binding(var, value))
    return Block(tuple(bindings), atom(block.result))


def has_trait(value: Expr, trait: Trait) -> TypeGuard[Call]:
    """True for the call of an operator for which ``trait`` holds."""
    if not isinstance(value, Call) or not isinstance(value.op, Operator):
        return False
    return trait in value.op.traits


_numbers = count(1)


def _unused(name: str) -> str:
    """Returns a name for a copy of a size: each copy of a block sets its own."""
    return f"{name.partition('.copy')[0]}.copy{next(_numbers)}"


def with_sizes(function: Function, values: Mapping[str, IntExpr]) -> Function:
    """Returns a copy of a function, with variables of its own, over other sizes."""
    params = tuple(replace(p, type=substitute_type(p.type, values)) for p in function.params)
    instead: dict[Var, Atom] = dict(zip(function.params, params, strict=True))
    body = copy_block(function.body, instead, values)
    needed = tuple(r.substitute(values) for r in function.requirements)
    return replace(function, params=params, body=body, requirements=needed)


def free_sizes(function: Function) -> list[Symbol]:
    """Returns the sizes of a group that the types of its parameters don't determine: a call has
    their values as the attribute ``sizes``."""
    given = tuple(p.type for p in function.params)
    bound = bind_sizes(given, given) or {}
    return [size for name, size in function.sizes.items() if name not in bound]


def sizes_of_call(
    function: Function, args: Sequence[Atom], attrs: Mapping[str, Any]
) -> tuple[IntExpr, ...]:
    """Returns what the ``sizes`` of a function are in a call of it, in their order."""
    values = bind_sizes([p.type for p in function.params], [a.type for a in args]) or {}
    if "sizes" in attrs:
        values |= {s.name: v for s, v in zip(free_sizes(function), attrs["sizes"], strict=True)}
    return tuple(values.get(s.name, s.expr) for s in function.sizes.values())


def all_bindings(scope: Function | Block) -> Iterator[Binding]:
    """Returns the bindings at any depth; those of nested blocks follow the one they are in."""
    block = scope.body if isinstance(scope, Function) else scope
    work = [iter(block.bindings)]
    while work:
        binding = next(work[-1], None)
        if binding is None:
            work.pop()
            continue
        yield binding
        blocks = nested_blocks(binding.value)
        if blocks:
            work.append(iter([b for block in blocks for b in block.bindings]))


def _walk(scope: Function | Block) -> Iterator[tuple[tuple[Var, ...], tuple[Atom, ...]]]:
    """(variables bound, atoms used) of every binding and block at any depth."""
    work: list[Function | Block] = [scope]
    while work:
        node = work.pop()
        if isinstance(node, Function):
            yield node.params, ()
            node = node.body
        yield (), (node.result,)
        for binding in node.bindings:
            value = binding.value
            yield (binding.var,), operands(value)
            if isinstance(value, Function):
                work.append(value)
            elif blocks := nested_blocks(value):
                yield nested_params(value), ()
                work += blocks


def sizes_used(var: Var, value: Expr) -> dict[str, Symbol]:
    """Returns the symbolic sizes in the type of a binding and in its attributes, by name."""
    attrs = value.attrs.values() if isinstance(value, Call) else ()
    return size_symbols(*sizes_in(var.type), *(s for attr in attrs for s in sizes_in_attr(attr)))


def setters(scope: Function | Block) -> dict[str, Var]:
    """Returns the variables that give sizes their values (``set_size``), by the sizes' names."""
    return {name: binding.var for binding in all_bindings(scope) for name in set_by(binding.value)}


def set_by(value: Expr) -> Iterable[str]:
    """Returns the names of the sizes that a binding's value sets: one or none."""
    return size_symbols(value.attrs["size"]) if has_trait(value, Trait.SETS_SIZE) else ()


def may_fail(value: Expr) -> TypeGuard[Call]:
    """True for what raises the errors of checks, unless they find nothing."""
    if not isinstance(value, Call) or value.attrs.get("function") != RAISE_FAILED:
        return False
    failure = value.args[0]
    return not isinstance(failure, nodes.Constant) or bool(failure.value.any())


def free_variables(scope: Function | Block) -> set[Var]:
    """Returns the variables that ``scope`` uses and does not bind."""
    return set(captured_variables(scope))


def captured_variables(scope: Function | Block) -> tuple[Var, ...]:
    """Returns the variables that ``scope`` uses and does not bind, in an order that depends on
    nothing else."""
    used: dict[Var, None] = {}
    bound: set[Var] = set()
    for binds, uses in _walk(scope):
        bound.update(binds)
        used.update((a, None) for a in uses if isinstance(a, Var))
    return tuple(var for var in used if var not in bound)


def all_uses(value: Expr) -> set[Var]:
    """Returns the variables from outside of ``value`` that it or the blocks inside of it use."""
    uses = {a for a in operands(value) if isinstance(a, Var)}
    for block in nested_blocks(value):
        uses |= free_variables(block)
    return uses.difference(nested_params(value))


def global_variables(scope: Function | Block) -> Counter[str]:
    """Returns the global functions that ``scope`` refers to, and how often."""
    names = (a for _, uses in _walk(scope) for a in uses if isinstance(a, GlobalVar))
    return Counter(a.name for a in names if not isinstance(a, Constructor))


def use_counts(scope: Function | Block) -> Counter[Var]:
    """Counts the uses of each variable, at any depth."""
    return Counter(a for _, uses in _walk(scope) for a in uses if isinstance(a, Var))


def called_by(module: nodes.Module, name: str = "main") -> Iterator[tuple[str, Call]]:
    """Returns the calls of the module's kernels and functions in the function ``name``, and in the
    functions it reaches, at any depth: each with the name of what is called."""
    reached, work = {name}, [name]
    while work:
        function = module.functions[work.pop()]
        if not isinstance(function, Function) or function.attrs.get("primitive"):
            continue
        for binding in all_bindings(function):
            call = binding.value
            if isinstance(call, Call) and isinstance(call.op, GlobalVar):
                yield call.op.name, call
                if call.op.name not in reached:
                    reached.add(call.op.name)
                    work.append(call.op.name)


def count_bindings(scope: Function | Block) -> int:
    """Bindings at any depth."""
    return sum(len(binds) for binds, uses in _walk(scope) if uses)


Step: TypeAlias = Callable[[Var, Expr, Builder], Atom | None]
CallStep: TypeAlias = Callable[[Var, Call, Builder], Atom | None]
Calls: TypeAlias = dict[Atom, Call]


def map_functions(
    module: nodes.Module,
    change: Callable[[Function], Function],
    holding: tuple[type[Expr], ...] = (),
) -> nodes.Module:
    """``module`` with ``change`` applied to its functions, only to those with expressions of the
    kinds ``holding`` if there are any; the same object if none changed."""
    for name, function in module.functions.items():
        if isinstance(function, Function) and (not holding or _holds(function, holding)):
            module = module.with_function(name, change(function))
    return module


def _holds(function: Function, kinds: tuple[type[Expr], ...]) -> bool:
    return any(isinstance(b.value, kinds) for b in all_bindings(function))


def rewrite_function(
    function: Function,
    step: Step,
    *,
    enter: Callable[[], None] | None = None,
    leave: Callable[[], None] | None = None,
) -> Function:
    """Rebuilds ``function`` binding by binding; the same object comes back if nothing changed.

    ``step(var, value, builder)`` sees every binding once, its operands replaced already. It gives
    None to keep the binding, or the atom to use instead of ``var``, for which it may have emitted
    bindings into ``builder``. ``enter`` and ``leave`` are called around nested blocks.
    """
    return _Rewriter(step, enter or _nothing, leave or _nothing).function(function)


def rewrite_blocks(function: Function, new_step: Callable[[Calls], CallStep]) -> Function:
    """``rewrite_function`` for calls of operators, with a step of its own for each block, made with
    the block's calls so far, to which those that it emits belong.

    For passes that move computations to their users: what is known of values from outside of a
    block is not used in it, since what is computed before a loop must not move into it.
    """
    blocks: list[tuple[Calls, CallStep]] = []

    def enter() -> None:
        calls: Calls = {}
        blocks.append((calls, new_step(calls)))

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call) or not isinstance(value.op, Operator):
            return None
        calls, change = blocks[-1]
        calls[var] = value
        before = len(builder.bindings)
        new = change(var, value, builder)
        for binding in builder.bindings[before:]:
            if isinstance(binding.value, Call):
                calls.setdefault(binding.var, binding.value)
        return new

    enter()
    return rewrite_function(function, step, enter=enter, leave=lambda: blocks.__delitem__(-1))


def _nothing() -> None:
    pass


class _Rewriter:
    def __init__(self, step: Step, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self.step, self.enter, self.leave = step, enter, leave
        self.instead: dict[Var, Atom] = {}

    def function(self, function: Function) -> Function:
        return function.with_body(self.block(function.body))

    def nested(self, value: Expr) -> Expr:
        """``value`` with the blocks inside it rewritten."""
        blocks: list[Block] = []
        for block in nested_blocks(value):
            self.enter()
            blocks.append(self.block(block))
            self.leave()
        return with_nested_blocks(value, blocks)

    def atom(self, atom: Atom) -> Atom:
        return self.instead.get(atom, atom) if isinstance(atom, Var) else atom

    def block(self, block: Block) -> Block:
        builder = Builder()
        changed = False
        for binding in block.bindings:
            var, old = binding.var, binding.value
            value = self.nested(map_operands(old, self.atom) if self.instead else old)
            builder.span = var.span or getattr(value, "span", None)
            before = len(builder.bindings)
            replacement = self.step(var, value, builder)
            if replacement is None:
                if len(builder.bindings) != before:
                    raise InternalError(f"a pass kept %{var.name} but emitted bindings for it")
                builder.bindings.append(binding if value is old else Binding(var, value))
                changed = changed or value is not old
                continue
            if replacement.type != var.type:
                raise InternalError(
                    f"a pass replaced %{var.name}: {var.type} by a {replacement.type}",
                    span=var.span,
                )
            changed = True
            self.instead[var] = replacement
        result = self.atom(block.result)
        if not changed and result is block.result:
            return block
        return builder.block(result)

"""Remove values that nobody uses, loops and branches without users, and functions nobody calls.

Before::

    def @main(%x: Tensor[(4), float32], %n: int64) -> Tensor[(4), float32] {
      %0 = exp(%x);
      %1 = negative(%0);
      %2 = for (%i < %n; %a = %x, %b = %x) {
        %3 = sqrt(%a);
        %4 = add(%b, %a);
        (%3, %4)
      };
      %2.0
    }

    def @unused(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %x
    }

After::

    def @main(%x: Tensor[(4), float32], %n: int64) -> Tensor[(4), float32] {
      %2 = for (%i < %n; %a = %x) {
        %3 = sqrt(%a);
        (%3,)
      };
      %2.0
    }

A value without users has no effect, but for what raises the errors of checks
(``ir/library/checks.py``), and what writes a reference or may: calls that get one, or a function
that may have captured one. A loop carries what is used after it,
and what the next values of that are computed from: ``%b`` feeds nothing but itself. A branch gives
only the fields of its tuple that are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from .. import nodes, walk
from ..builder import Builder
from ..operator import Operator
from ..types import FuncType, RefType, TupleType, Type, parts_of


def eliminate_dead_code(module: nodes.Module) -> nodes.Module:
    """Keeps what the results need. Functions go only if there is a ``main`` to say what is used."""
    module = walk.map_functions(module, without_dead_code)
    if "main" not in module.functions:
        return module
    reached = {"main"}
    work = ["main"]
    while work:
        function = module.functions.get(work.pop())
        if isinstance(function, nodes.Function):
            new = walk.global_variables(function).keys() - reached
            reached |= new
            work += new
    if reached >= module.functions.keys():
        return module
    return module.with_functions({n: f for n, f in module.functions.items() if n in reached})


def without_dead_code(function: nodes.Function) -> nodes.Function:
    """``function`` with only the bindings its result needs."""
    return function.with_body(_Remover(_Liveness(function)).block(function.body))


def rewrite_without_dead_code(function: nodes.Function, step: walk.Step) -> nodes.Function:
    """Returns ``walk.rewrite_function``'s result, without what nothing needs any more."""
    result = walk.rewrite_function(function, step)
    return function if result is function else without_dead_code(result)


def rewrite_live_blocks(
    function: nodes.Function, new_step: Callable[[walk.Calls], walk.CallStep]
) -> nodes.Function:
    """Returns ``walk.rewrite_blocks``'s result, without what nothing needs any more."""
    result = walk.rewrite_blocks(function, new_step)
    return function if result is function else without_dead_code(result)


def replace_by_fields(
    function: nodes.Function,
    emit_fields: Callable[[nodes.Expr, Builder], Sequence[nodes.Atom] | None],
) -> nodes.Function:
    """Replaces the values (loops, mostly) of which ``emit_fields`` gives the fields."""
    fields_of: dict[nodes.Atom, Sequence[nodes.Atom]] = {}

    def step(_var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
        if isinstance(value, nodes.TupleGetItem) and value.value in fields_of:
            return fields_of[value.value][value.index]
        fields = emit_fields(value, builder)
        if fields is None:
            return None
        result = builder.make_tuple(fields)
        fields_of[result] = fields
        return result

    return rewrite_without_dead_code(function, step)


class _Liveness:
    """Variables that the result of a function depends on: those used as a ``whole``, and ``fields``
    of the others (results of loops and branches, and other names of them)."""

    def __init__(self, function: nodes.Function) -> None:
        self.values: dict[nodes.Var, nodes.Expr] = {}
        self.whole: set[nodes.Var] = set()
        self.fields: dict[nodes.Var, set[int]] = {}
        self._carried: dict[nodes.Var, tuple[nodes.Var, int]] = {}  # to its loop and place
        self._work: list[tuple[nodes.Var, int | None]] = []
        self._setters = walk.setters(function)
        for binding in walk.all_bindings(function):
            value = self.values[binding.var] = binding.value
            if isinstance(value, nodes.While | nodes.For):
                self._carried.update((p, (binding.var, n)) for n, p in enumerate(value.params))
        self._use((function.body.result,))
        self._use(b.var for b in function.body.bindings if walk.may_fail(b.value))
        kinds = [*(p.type for p in function.params), *(var.type for var in self.values)]
        if any(map(_may_hold_reference, kinds)):
            self._use(_with_effects(function.body))
        while self._work:
            self._mark(*self._work.pop())

    def is_live(self, var: nodes.Var) -> bool:
        return var in self.whole or var in self.fields

    def used_fields(self, var: nodes.Var) -> list[int] | None:
        """Returns the fields of a tuple that are used, in order; None for all."""
        if var in self.whole or not isinstance(var.type, TupleType):
            return None
        fields = sorted(self.fields[var])
        return fields if len(fields) < len(var.type.fields) else None

    def _use(self, atoms: Iterable[nodes.Atom]) -> None:
        self._work += [(a, None) for a in atoms if isinstance(a, nodes.Var)]

    def _mark(self, var: nodes.Var, part: int | None) -> None:
        """Enters a use of ``var``, or of one of its fields, and what that depends on."""
        if var in self.whole or part in self.fields.get(var, ()):
            return
        if var in self._carried:
            self.whole.add(var)
            self._work.append(self._carried[var])
            return
        value = self.values.get(var)
        is_new = not self.is_live(var)
        if is_new and self._setters and value is not None:
            self._use(self._setters[n] for n in walk.sizes_used(var, value) if n in self._setters)
        if part is None or not isinstance(value, nodes.Var | nodes.If | nodes.While | nodes.For):
            self.whole.add(var)
        else:
            self.fields.setdefault(var, set()).add(part)
        if isinstance(value, nodes.TupleGetItem):
            if isinstance(value.value, nodes.Var):
                self._work.append((value.value, value.index))
        elif isinstance(value, nodes.Var):
            self._work.append((value, part))
        elif isinstance(value, nodes.While | nodes.For):
            self._mark_loop(value, part, is_new)
        elif value is not None:
            self._use(walk.operands(value))
            for block in walk.nested_blocks(value):
                self._use_result(block, part)

    def _mark_loop(self, loop: nodes.While | nodes.For, part: int | None, is_new: bool) -> None:
        if is_new:
            self._use((loop.condition.result if isinstance(loop, nodes.While) else loop.extent,))
        for place in range(len(loop.params)) if part is None else (part,):
            self._use((loop.initial[place],))
            self._use_result(loop.body, place)

    def _use_result(self, block: nodes.Block, part: int | None) -> None:
        result = block.result
        value = self.values.get(result) if isinstance(result, nodes.Var) else None
        if part is not None and isinstance(value, nodes.Tuple):
            self._use((value.fields[part],))
        elif isinstance(result, nodes.Var):
            self._work.append((result, part))


def _may_hold_reference(type: Type) -> bool:
    return isinstance(type, RefType | FuncType) or any(map(_may_hold_reference, parts_of(type)))


def _with_effects(block: nodes.Block) -> Iterator[nodes.Var]:
    """Yields the variables of bindings that may write references, or have some inside that may."""
    for binding in block.bindings:
        value = binding.value
        inside = [var for b in walk.nested_blocks(value) for var in _with_effects(b)]
        if isinstance(value, nodes.Call):
            used = (a.type for a in walk.operands(value) if not isinstance(a, nodes.GlobalVar))
            writes = not isinstance(value.op, Operator) and any(map(_may_hold_reference, used))
        else:
            writes = isinstance(value, nodes.Ref) and value.kind == "ref_write"
        if writes or (inside and not isinstance(value, nodes.Function)):
            yield binding.var
        yield from inside


class _Remover:
    """Rebuilds blocks. ``smaller`` has the variables that lost fields, with what stands for them
    and the places where their fields are now."""

    def __init__(self, liveness: _Liveness) -> None:
        self.liveness = liveness
        self.smaller: dict[nodes.Var, tuple[nodes.Var, list[int]]] = {}

    def block(self, block: nodes.Block, fields: Sequence[int] | None = None) -> nodes.Block:
        """``block`` without dead bindings, and with only these fields of its result."""
        builder = Builder()
        kept, result = builder.bindings, block.result
        made = self.liveness.values.get(result) if isinstance(result, nodes.Var) else None
        if fields is None and isinstance(made, nodes.Tuple) and result not in self.liveness.whole:
            is_outer = all(binding.var is not result for binding in block.bindings)
            fields = range(len(made.fields)) if is_outer else None  # the outer one goes
        for binding in block.bindings:
            if self.liveness.is_live(binding.var):
                self._binding(binding, builder)
            elif binding.var is block.result and fields is None:
                kept.append(binding)  # a tuple whose fields are all used, one by one
        if fields is not None:
            return builder.block(self._result(block.result, fields, builder))
        if len(kept) == len(block.bindings) and all(a is b for a, b in zip(kept, block.bindings)):
            return block
        return nodes.Block(tuple(kept), block.result)

    def _binding(self, binding: nodes.Binding, builder: Builder) -> None:
        var, value = binding.var, binding.value
        if isinstance(value, nodes.TupleGetItem) and value.value in self.smaller:
            value = self._field(value.value, value.index, value)
        elif isinstance(value, nodes.Var) and value in self.smaller:
            self.smaller[var] = self.smaller[value]
            return
        elif isinstance(value, nodes.If | nodes.While | nodes.For):
            fields = self.liveness.used_fields(var)
            value = self._nested(value, fields)
            if fields is not None:
                assert isinstance(var.type, TupleType)
                type = TupleType(tuple(var.type.fields[n] for n in fields))
                old, var = var, nodes.Var(var.name, type, var.span)
                self.smaller[old] = var, fields
        elif blocks := walk.nested_blocks(value):
            value = walk.with_nested_blocks(value, [self.block(b) for b in blocks])
        same = value is binding.value and var is binding.var
        builder.bindings.append(binding if same else nodes.Binding(var, value))

    def _nested(
        self, value: nodes.If | nodes.While | nodes.For, fields: Sequence[int] | None
    ) -> nodes.Expr:
        """A branch or a loop with only these fields of its result; None for all."""
        if isinstance(value, nodes.If):
            return walk.with_nested_blocks(
                value, [self.block(value.then, fields), self.block(value.orelse, fields)]
            )
        blocks = [self.block(b) for b in walk.nested_blocks(value)[:-1]]
        value_of_all = walk.with_nested_blocks(value, [*blocks, self.block(value.body, fields)])
        if fields is None:
            return value_of_all
        assert isinstance(value_of_all, nodes.While | nodes.For)
        return replace(
            value_of_all,
            params=tuple(value.params[n] for n in fields),
            initial=tuple(value.initial[n] for n in fields),
        )

    def _result(self, result: nodes.Atom, fields: Sequence[int], builder: Builder) -> nodes.Atom:
        """Emits the tuple of these fields of a block's result."""
        assert isinstance(result, nodes.Var)
        value = self.liveness.values.get(result)
        if isinstance(value, nodes.Tuple):
            return builder.make_tuple([value.fields[n] for n in fields], span=value.span)
        items: list[nodes.Atom] = []
        for n in fields:
            item = self._field(result, n, nodes.TupleGetItem(result, n))
            items.append(builder.get_item(item.value, item.index))
        return builder.make_tuple(items)

    def _field(self, value: nodes.Atom, index: int, item: nodes.TupleGetItem) -> nodes.TupleGetItem:
        """``item``, the field ``index`` of ``value``, read from what stands for ``value`` now."""
        if not isinstance(value, nodes.Var) or value not in self.smaller:
            return item
        var, fields = self.smaller[value]
        return nodes.TupleGetItem(var, fields.index(index), item.span)

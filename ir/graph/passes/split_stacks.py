"""Compute with the rows of small stacks one by one, where a program picks them again.

Before::

    def @main(%x: Tensor[(2, 8), float32]) -> Tensor[(2, 8), float32] {
      %0 = for (%i < 9i64; %s = %x) {
        %1 = strided_slice(%s, begin=[0, 0], end=[1, 8], strides=[1, 1]);
        %2 = reshape(%1, newshape=[8]);
        %3 = strided_slice(%s, begin=[1, 0], end=[2, 8], strides=[1, 1]);
        %4 = reshape(%3, newshape=[8]);
        %5 = sin(%2);
        %6 = stack(%4, %5);
        %7 = add(%s, %6);
        (%7,)
      };
      %0.0
    }

After::

    def @main(%x: Tensor[(2, 8), float32]) -> Tensor[(2, 8), float32] {
      %0 = strided_slice(%x, begin=[0, 0], end=[1, 8], strides=[1, 1]);
      %1 = reshape(%0, newshape=[8]);
      %2 = strided_slice(%x, begin=[1, 0], end=[2, 8], strides=[1, 1]);
      %3 = reshape(%2, newshape=[8]);
      %4 = for (%i < 9i64; %s_0 = %1, %s_1 = %3) {
        %5 = sin(%s_0);
        %6 = add(%s_0, %s_1);
        %7 = add(%s_1, %5);
        (%6, %7)
      };
      %8 = %4.0;
      %9 = %4.1;
      stack(%8, %9)
    }

Solvers of differential equations are written so: ``x, v = state``, ``np.stack([v, -x])``, ``state +
dt * slope``. A kernel that computes all rows of a sum cannot compute those of the next slope, which
need other rows; row by row, a step is one kernel, and the state of a single system is scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dims import Dim, as_int
from ...pass_context import optional
from ..builder import Builder
from ..loops import next_values
from ..nodes import Atom, Block, Call, Expr, For, Function, Module, Var, While
from ..operator import OPERATORS, Operator, Pattern, get
from ..types import TensorType
from ..walk import all_bindings, all_uses, copy_block, map_functions, rewrite_function
from .eliminate_dead_code import replace_by_fields, without_dead_code

ROWS_OF_A_STACK = 8
"""Rows of a stack that are computed one by one: each is code of its own."""


@optional(level=2)
def split_stacks(module: Module) -> Module:
    """Replaces elementwise operators on stacks by one for each row, and carried stacks by rows."""
    return map_functions(module, _split)


def _split(function: Function) -> Function:
    wanted = _wanted(function)
    if not wanted:
        return function
    rows: dict[Atom, Sequence[Atom]] = {}
    slices: dict[tuple[Builder, Atom], Sequence[Atom]] = {}
    picked: dict[Atom, Atom] = {}

    def rows_of(atom: Atom, shape: tuple[int, ...], builder: Builder) -> Sequence[Atom]:
        """Returns what each row of the result of an elementwise operator reads of an operand."""
        seen, count = _shape(atom), shape[0]
        if len(seen) < len(shape):
            return [atom] * count
        if seen[0] == 1:
            return [builder.emit(get("reshape"), (atom,), {"newshape": seen[1:]})] * count
        if atom in rows:
            return rows[atom]
        # Those that another block picks are not known in this one.
        made = slices.get((builder, atom)) or [_row(atom, n, builder) for n in range(count)]
        slices[builder, atom] = made
        return made

    def by_row(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call):
            return None
        if _is_stack(value):
            rows[var] = value.args
        if value.args and _is_reshape_to(value, picked.get(value.args[0])):
            return picked[value.args[0]]
        number = _picked_row(value)
        if number is not None and value.args[0] in rows:
            row = rows[value.args[0]][number]
            made = builder.emit(get("reshape"), (row,), {"newshape": _shape(var)})
            picked[made] = row
            return made
        if var not in wanted or not _is_map(value):
            return None
        operands = [rows_of(a, _shape(var), builder) for a in value.args]
        results = [
            builder.emit(value.operator, row, value.attrs) for row in zip(*operands, strict=True)
        ]
        stacked = builder.emit(get("stack"), results, {"axis": 0})
        rows[stacked] = results
        return stacked

    function = without_dead_code(rewrite_function(function, by_row))

    def last_values(value: Expr, builder: Builder) -> Sequence[Atom] | None:
        return _split_carries(value, builder) if isinstance(value, While | For) else None

    return replace_by_fields(function, last_values)


def _wanted(function: Function) -> set[Var]:
    """Returns the elementwise operators on stacks of which some row is picked, in this iteration or
    in the next one of a loop that carries the result."""
    stacked: set[Atom] = set()
    candidates: list[tuple[Var, Call]] = []
    picked: set[Atom] = set()
    carried: dict[Atom, Var] = {}
    for binding in all_bindings(function):
        value = binding.value
        if isinstance(value, While | For) and (ends := next_values(value.body)) is not None:
            carried.update(zip(ends, value.params, strict=True))
        if not isinstance(value, Call):
            continue
        if _is_stack(value) and len(value.args) <= ROWS_OF_A_STACK:
            stacked.add(binding.var)
        elif _picked_row(value) is not None:
            picked.add(value.args[0])
        elif _is_map(value) and _is_small_stack(binding.var):
            shape = _shape(binding.var)
            if any(a in stacked and _shape(a) == shape for a in value.args):
                stacked.add(binding.var)
                candidates.append((binding.var, value))
    wanted: set[Var] = set()
    for var, value in reversed(candidates):
        if var in picked or carried.get(var) in picked:
            wanted.add(var)
            picked.update(a for a in value.args if a in stacked and _shape(a) == _shape(var))
    return wanted


def _is_stack(call: Call) -> bool:
    return call.op is OPERATORS["stack"] and call.attrs["axis"] == 0


def _is_map(call: Call) -> bool:
    op = call.op
    if not isinstance(op, Operator) or op.name == "broadcast_to":
        return False
    return op.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST)


def _is_small_stack(atom: Atom) -> bool:
    shape = _shape(atom)
    return (
        bool(shape)
        and not any(isinstance(s, Dim) for s in shape)
        and 1 < as_int(shape[0]) <= ROWS_OF_A_STACK
    )


def _picked_row(call: Call) -> int | None:
    """Returns which row of its operand a slice is, None if it is not a whole one."""
    if call.op is not OPERATORS["strided_slice"] or not _is_small_stack(call.args[0]):
        return None
    shape, begin = _shape(call.args[0]), call.attrs["begin"]
    whole = (1, *shape[1:]) == _slice_shape(call) and not any(begin[1:])
    row = begin[0]
    return row if whole and isinstance(row, int) and 0 <= row < shape[0] else None


def _is_reshape_to(value: Expr, row: Atom | None) -> bool:
    """True if a call gives the type of ``row`` to the slice of which it is the only row."""
    if row is None or not isinstance(value, Call) or value.op is not OPERATORS["reshape"]:
        return False
    return tuple(value.attrs["newshape"]) == _shape(row)


def _slice_shape(call: Call) -> tuple[int, ...]:
    bounds = zip(call.attrs["begin"], call.attrs["end"], call.attrs["strides"], strict=True)
    return tuple(e - b if s == 1 else -1 for b, e, s in bounds)


def _shape(atom: Atom) -> tuple[int, ...]:
    kind = atom.type
    return kind.shape if isinstance(kind, TensorType) else ()  # type: ignore[return-value]


def _row(atom: Atom, number: int, builder: Builder) -> Atom:
    shape = _shape(atom)
    begin, end = (number, *[0] * (len(shape) - 1)), (number + 1, *shape[1:])
    attrs = {"begin": begin, "end": end, "strides": (1,) * len(shape)}
    part = builder.emit(get("strided_slice"), (atom,), attrs)
    return builder.emit(get("reshape"), (part,), {"newshape": shape[1:]})


def _split_carries(loop: While | For, builder: Builder) -> list[Atom] | None:
    """Emits ``loop`` with the rows of carried stacks, of which it only picks rows, in their place.
    Returns the last values of all that it carried, None if there are no such stacks."""
    ends = next_values(loop.body)
    if ends is None:
        return None
    calls = {b.var: b.value for b in loop.body.bindings if isinstance(b.value, Call)}
    blocks = (loop.condition, loop.body) if isinstance(loop, While) else (loop.body,)
    rows: dict[Var, tuple[Atom, ...]] = {}
    for param, end in zip(loop.params, ends, strict=True):
        last = calls.get(end) if isinstance(end, Var) else None
        if last is None or not _is_stack(last) or not _is_small_stack(param):
            continue
        if all(_only_picks(param, block) for block in blocks):
            rows[param] = last.args
    if not rows:
        return None
    params: dict[Var, tuple[Var, ...]] = {}
    initial: list[Atom] = []
    nexts: list[Atom] = []
    for param, begin, end in zip(loop.params, loop.initial, ends, strict=True):
        if param not in rows:
            params[param] = (Var(param.name, param.type, param.span),)
            initial.append(begin)
            nexts.append(end)
            continue
        count = len(rows[param])
        kinds = [row.type for row in rows[param]]
        names = [f"{param.name}_{number}" if param.name else "" for number in range(count)]
        params[param] = tuple(Var(n, k, param.span) for n, k in zip(names, kinds))
        initial += [_row(begin, number, builder) for number in range(count)]
        nexts += rows[param]
    flat = [p for group in params.values() for p in group]
    instead = {p: group[0] for p, group in params.items() if p not in rows}
    inside = Builder()
    inside.bindings += [b for b in loop.body.bindings if b.var is not loop.body.result]
    body = _with_rows(inside.block(inside.make_tuple(nexts)), params, rows)
    if isinstance(loop, While):
        condition = copy_block(_with_rows(loop.condition, params, rows), {**instead})
        made = builder.while_loop(
            flat, initial, condition, copy_block(body, {**instead}), span=loop.span
        )
    else:
        index = Var(loop.index.name, loop.index.type, loop.index.span)
        body = copy_block(body, {**instead, loop.index: index})
        made = builder.for_loop(index, loop.extent, flat, initial, body, span=loop.span)
    last_of = {p: builder.get_item(made, number) for number, p in enumerate(flat)}
    fields: list[Atom] = []
    for param, group in params.items():
        items = [last_of[p] for p in group]
        stacked = param in rows
        fields.append(builder.emit(get("stack"), items, {"axis": 0}) if stacked else items[0])
    return fields


def _only_picks(param: Var, block: Block) -> bool:
    """True if a block only picks rows of ``param``, and not in blocks of its own."""
    if block.result is param:
        return False
    for binding in block.bindings:
        value = binding.value
        if param not in all_uses(value):
            continue
        if not isinstance(value, Call) or _picked_row(value) is None:
            return False
    return True


def _with_rows(
    block: Block, params: dict[Var, tuple[Var, ...]], rows: dict[Var, tuple[Atom, ...]]
) -> Block:
    """Returns a block in which picked rows of carried stacks are values of the loop."""
    builder = Builder()
    instead: dict[Var, Atom] = {}
    picked: dict[Atom, Var] = {}
    for binding in block.bindings:
        value = binding.value
        first = value.args[0] if isinstance(value, Call) and value.args else None
        if isinstance(value, Call) and isinstance(first, Var) and first in rows:
            number = _picked_row(value)
            assert number is not None
            row = picked[binding.var] = params[first][number]
            shape = {"newshape": _shape(binding.var)}
            instead[binding.var] = builder.emit(get("reshape"), (row,), shape, span=value.span)
        elif first in picked and _is_reshape_to(value, picked[first]):
            instead[binding.var] = picked[first]
        else:
            builder.bindings.append(binding)
    made = builder.block(block.result)
    return copy_block(made, instead) if instead else made

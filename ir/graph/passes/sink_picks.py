"""Take a row of an array in the branches that read a few elements of it.

Before::

    def @main(%x: Tensor[(64, 64), float32], %i: Tensor[(), int64], %j: Tensor[(), int64])
        -> Tensor[(), float32] {
      %0 = take(%x, %i, axis=0);
      %1 = take(%0, %j, axis=0);
      %2 = less(%1, 0f);
      if (%2) {
        %3 = take(%0, %i, axis=0);
        exp(%3)
      } else {
        %1
      }
    }

After::

    def @main(%x: Tensor[(64, 64), float32], %i: Tensor[(), int64], %j: Tensor[(), int64])
        -> Tensor[(), float32] {
      %0 = take(%x, %i, axis=0);
      %1 = take(%0, %j, axis=0);
      %2 = less(%1, 0f);
      if (%2) {
        %3 = take(%x, %i, axis=0);
        %4 = take(%3, %i, axis=0);
        exp(%4)
      } else {
        %1
      }
    }

``x[i, j]`` takes a row and then an element of it. A kernel does both at once, but a row with users
in several blocks, which share no kernel, would be stored whole. A row is not taken in a loop that
it stands before, nor where its array was changed meanwhile, which would have to be copied.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from ...dataclass import dataclass
from ...pass_context import optional
from .. import walk
from ..builder import Builder
from ..nodes import Atom, Binding, Block, Call, Expr, Function, If, Module, Var, tensor_type
from ..operator import Operator
from ..types import TensorType

FEWER = 8
"""Least ratio of a row's elements to those that are read of it."""


@optional(level=1)
def sink_picks(module: Module) -> Module:
    """Takes rows of arrays in the branches that read a few elements of them."""
    return walk.map_functions(module, _sunk, holding=(If,))


def _sunk(function: Function) -> Function:
    reads: Counter[Atom] = Counter()
    for binding in walk.all_bindings(function):
        if _is_small_pick(binding.var, binding.value):
            assert isinstance(binding.value, Call)
            reads[binding.value.args[0]] += 1
    uses = walk.use_counts(function)
    rows = {var for var, count in uses.items() if reads[var] == count}
    if not rows:
        return function
    return function.with_body(_sink(function.body, rows, {})[0])


Taken = dict[Var, Call]
"""Rows that are at hand with what takes each, whose arrays have not changed since."""


def _sink(block: Block, rows: set[Var], outer: Taken) -> tuple[Block, Taken]:
    """Returns the block with rows of ``outer`` taken anew where it reads elements of them, and what
    is left of ``outer`` after it."""
    state = _State(outer, dict(outer))
    changed = False
    for binding in block.bindings:
        var, old = binding.var, binding.value
        value = old
        if isinstance(old, If):
            ends = [_sink(branch, rows, dict(state.taken)) for branch in walk.nested_blocks(old)]
            value = walk.with_nested_blocks(old, [branch for branch, _ in ends])
            state.taken = {r: c for r, c in state.taken.items() if all(r in e for _, e in ends)}
        elif walk.nested_blocks(old):
            value = walk.with_nested_blocks(
                old, [_sink(b, rows, {})[0] for b in walk.nested_blocks(old)]
            )
            state.changes(walk.all_uses(old))
        elif _is_small_pick(var, old):
            value = walk.map_operands(old, state.local)
        elif not _is_pick(old):
            state.changes(walk.all_uses(old))
        if var in rows and _is_pick(old):
            assert isinstance(old, Call)
            state.taken[var] = old
        changed = changed or value is not old
        state.builder.bindings.append(binding if value is old else Binding(var, value))
    if isinstance(block.result, Var):
        state.changes({block.result})
    left = {row: call for row, call in state.taken.items() if row in outer}
    return (state.builder.block(block.result) if changed else block), left


@dataclass(slots=True)
class _State:
    """Rows at hand within a block, and the bindings of its new form."""

    outer: Taken
    taken: Taken
    builder: Builder = field(default_factory=Builder)
    copies: dict[Atom, Atom] = field(default_factory=dict)

    def local(self, atom: Atom) -> Atom:
        """Returns a row of ``outer`` taken in this block, any other atom as it is."""
        if not isinstance(atom, Var) or atom not in self.outer or atom not in self.taken:
            return atom
        if atom not in self.copies:
            call = self.taken[atom]
            self.builder.span = atom.span
            args = (self.local(call.args[0]), *call.args[1:])
            self.copies[atom] = self.builder.emit(call.operator, args, call.attrs)
        return self.copies[atom]

    def changes(self, arrays: set[Var]) -> None:
        """Forgets the rows of arrays that may be written to, where they lie, from here on."""
        for row, call in list(self.taken.items()):
            source = call.args[0]
            if source in arrays or row in arrays:
                self.taken.pop(row, None)
                self.changes({row})


def _is_pick(value: Expr) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Operator):
        return False
    if value.op.name == "take":
        index = value.args[1].type
        return isinstance(index, TensorType) and index.size == 1
    return value.op.name == "strided_slice"


def _is_small_pick(var: Var, value: Expr) -> bool:
    """True for a read of a few elements of an array."""
    if not _is_pick(value):
        return False
    assert isinstance(value, Call)
    whole, part = tensor_type(value.args[0]), tensor_type(var)
    if not isinstance(whole.size, int) or not isinstance(part.size, int):
        return False
    return part.size * FEWER <= whole.size

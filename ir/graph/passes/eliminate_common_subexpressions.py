"""Compute what is written twice only once.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = exp(%x);
      %1 = exp(%x);
      add(%0, %1)
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = exp(%x);
      add(%0, %0)
    }

A reduction that keeps its axes with size 1 and one that does not are the same numbers, and so is
what is computed from them element by element: ``x.mean(0)`` and the mean inside ``x.std(0)`` are
one sum and one division. The later value is then a reshape of the earlier one, which is free.

Inside a branch or a loop, values from before it are reused; what is computed there is not known
outside.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...pass_context import optional
from ...traits import Trait
from .. import nodes
from ..builder import Builder
from ..operator import Pattern, get
from ..printer import value_text
from ..structural import atom_key
from ..types import TensorType
from ..walk import has_trait, map_functions, nested_blocks, operands, rewrite_function


@optional(level=1)
def eliminate_common_subexpressions(module: nodes.Module) -> nodes.Module:
    """Replaces each binding by an earlier one of the same operator, operands and attributes."""
    return map_functions(module, _once)


def _once(function: nodes.Function) -> nodes.Function:
    table = _Table(_only_picked(function))
    return rewrite_function(function, table.step, enter=table.enter, leave=table.leave)


def _only_picked(function: nodes.Function) -> frozenset[nodes.Atom]:
    """Returns the rows that are taken where a scalar says, and of which nothing but elements are
    taken: ``x[i, j]`` and ``x[k, j]`` are two elements, where a shared ``x[:, j]`` is a column."""
    rows: set[nodes.Atom] = set()
    others: set[nodes.Atom] = set()
    blocks = [function.body]
    for block in blocks:
        others.add(block.result)
        for binding in block.bindings:
            blocks += nested_blocks(binding.value)
            picked = _picked(binding.value)
            if picked is not None and nodes.tensor_type(binding.var).rank:
                rows.add(binding.var)
            others.update(a for a in operands(binding.value) if a is not picked)
    return frozenset(rows - others)


def _picked(value: nodes.Expr) -> nodes.Atom | None:
    """Returns what ``value`` takes a part of, at a scalar; None for other values."""
    if not isinstance(value, nodes.Call) or value.op is not get("take"):
        return None
    return value.args[0] if nodes.tensor_type(value.args[1]).rank == 0 else None


class _Table:
    """The values that were computed, by what they are; ``scopes`` are the blocks one is in.

    ``views`` are reshapes made here, which only add or drop axes of size 1, by what they show, and
    ``reduced`` the values of reductions and what is computed from nothing else. What is ``picked``
    is never shared; the values picked from it are told apart by how it is computed, which is in
    ``made``.
    """

    def __init__(self, picked: frozenset[nodes.Atom]) -> None:
        self.picked = picked
        self.made: dict[nodes.Atom, Hashable] = {}
        self.scopes: list[dict[Hashable, nodes.Var]] = [{}]
        self.views: dict[nodes.Var, nodes.Atom] = {}
        self.reduced: set[nodes.Var] = set()

    def enter(self) -> None:
        self.scopes.append({})

    def leave(self) -> None:
        self.scopes.pop()

    def step(self, var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
        if nested_blocks(value) or has_trait(value, Trait.UNSET):
            return None
        if isinstance(value, nodes.Var | nodes.Constant | nodes.GlobalVar):
            return value
        key = _key(value, [self.made.get(a, a) for a in operands(value)])
        if var in self.picked:
            self.made[var] = key
            return None
        same = self._find(key)
        if same is not None:
            return same
        self.scopes[-1][key] = var
        loose = self._loose_key(value)
        if loose is None:
            return None
        self.reduced.add(var)
        alike = self._find(loose)
        if alike is None:
            self.scopes[-1][loose] = var
            return None
        assert isinstance(var.type, TensorType)
        if var.type == alike.type:
            return alike
        view = builder.emit(get("reshape"), [alike], {"newshape": var.type.shape}, span=value.span)
        self.views[view] = alike
        self.reduced.add(view)
        self.scopes[-1][key] = view
        return view

    def _find(self, key: Hashable) -> nodes.Var | None:
        return next((scope[key] for scope in self.scopes if key in scope), None)

    def _loose_key(self, value: nodes.Expr) -> Hashable | None:
        """Returns the key of a value that ignores axes of size 1; None where they may matter."""
        if not isinstance(value, nodes.Call) or isinstance(value.op, nodes.GlobalVar | nodes.Var):
            return None
        if "keepdims" in value.attrs and value.op.pattern == Pattern.REDUCTION:
            return ("but for ones", _key(value, value.args, without="keepdims"))
        wide = [a for a in value.args if not isinstance(a, nodes.Constant) or a.value.ndim]
        if not wide or not self.reduced.issuperset(a for a in wide if isinstance(a, nodes.Var)):
            return None
        # Tables of elementwise operators have no attributes but the dtype of a cast.
        plain = value.op.pattern <= Pattern.BROADCAST and set(value.attrs) <= {"dtype"}
        shapes = {a.type.shape for a in wide if isinstance(a.type, TensorType)}
        if not plain or len(shapes) != 1 or any(isinstance(a, nodes.Constant) for a in wide):
            return None
        operands = [self.views.get(a, a) if isinstance(a, nodes.Var) else a for a in value.args]
        return ("but for ones", _key(value, operands))


def _key(value: nodes.Expr, atoms: Sequence[Hashable], without: str = "") -> Hashable:
    parts: list[Hashable] = [type(value)]
    parts += [atom_key(a) if isinstance(a, nodes.Atom) else a for a in atoms]
    if isinstance(value, nodes.Call):
        parts.append(
            value.op if isinstance(value.op, nodes.GlobalVar | nodes.Var) else value.op.name
        )
        # Text tells 1 from 1.0 and True, which compare equal.
        parts += [
            f"{name}={value_text(attr)}" for name, attr in value.attrs.items() if name != without
        ]
    elif isinstance(value, nodes.TupleGetItem):
        parts.append(value.index)
    return tuple(parts)

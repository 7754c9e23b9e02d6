"""Compute now what depends on constants only.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = multiply(2f, 3f);
      add(%x, %0)
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      add(%x, 6f)
    }

An ``if`` whose condition is known becomes the branch taken.

Tensors made of nothing (``iota``, ``arange``, ``full``) and cheap maps of them stay: a kernel makes
their elements in registers. What is computed from them is folded where reading it costs less: if it
is small, takes many instructions, or is not a map. After fusion the pass runs again, and folds each
group that reads nothing but constants, since a kernel would compute it in each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ...dataclass import dataclass
from ...derived import derived, interned
from ...dims import Dim
from ...dtype import Array, widens_many
from ...pass_context import optional
from ...traits import Trait
from .. import nodes
from ..builder import Builder
from ..evaluate import evaluate
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..operator import OPERATORS, Operator, Pattern
from ..types import TensorType, TupleType, Type
from ..walk import nested_blocks, rewrite_function

GROWTH_LIMIT = 64 * 1024
"""Bytes by which one folded call may be bigger than its operands.

Transposing a weight costs no memory and saves work in every call of the program. But
``zeros((10000, 10000))`` is better computed where it is used than carried along as 400 MB."""

MOST_FOLDED = 1 << 26
"""Bytes of a result that is folded because computing it in each call takes longer."""

DEEPEST = 64
"""Cheap operators on top of each other that are kept unfolded."""

_MAPS = (Pattern.ELEMENTWISE, Pattern.BROADCAST, Pattern.INJECTIVE)


@optional(level=1)
def fold_constants(module: nodes.Module, limits: GraphLimits = DEFAULT_LIMITS) -> nodes.Module:
    """Replaces calls on constants by their value, by the operators' own ``reference``."""
    for name, function in module.functions.items():
        # The body of a group is one kernel already, and its constants are its parameters.
        if isinstance(function, nodes.Function) and not function.attrs.get("primitive"):
            module = module.with_function(name, _Folder(module, limits.costly).function(function))
    return module


@dataclass(frozen=True, slots=True)
class _Made:
    """A value that is known, and was not folded. ``cost``: instructions for one element."""

    call: nodes.Call
    cost: float
    depth: int


class _Folder:
    """Facts about the variables of one function, collected on the way."""

    def __init__(self, module: nodes.Module, costly: float) -> None:
        self.module = module
        self.costly = costly
        self.tuples: dict[nodes.Var, tuple[nodes.Atom, ...]] = {}
        self.made: dict[nodes.Var, _Made] = {}
        self.copied: set[nodes.Atom] = set()

    def function(self, function: nodes.Function) -> nodes.Function:
        self.copied = _results(function.body) | _initial_values(function.body)
        return rewrite_function(function, self.step)

    def step(self, var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
        if isinstance(value, nodes.Call):
            fields = self.call(var, value, builder)
            if isinstance(fields, tuple):
                new = builder.make_tuple(fields)
                self.tuples[new] = fields
                return new
            return fields
        if isinstance(value, nodes.Tuple):
            self.tuples[var] = value.fields
        if isinstance(value, nodes.TupleGetItem) and isinstance(value.value, nodes.Var):
            fields = self.tuples.get(value.value)
            return fields[value.index] if fields is not None else None
        if isinstance(value, nodes.If) and isinstance(value.condition, nodes.Constant):
            return _splice(value.then if bool(value.condition.value) else value.orelse, builder)
        return None

    def call(
        self, var: nodes.Var, call: nodes.Call, builder: Builder
    ) -> nodes.Atom | tuple[nodes.Constant, ...] | None:
        """Returns the value of a call that depends on constants only, if it is to be folded."""
        op, kind = call.op, var.type
        if isinstance(op, nodes.GlobalVar):
            return self.group(var, op, call)
        constant = all(isinstance(a, nodes.Constant) or a in self.made for a in call.args)
        if isinstance(op, nodes.Var) or not constant or any(map(_is_symbolic, call.attrs.values())):
            return None
        if op.traits & (Trait.LIBRARY | Trait.UNSET):  # a library may raise, which its call has to
            return None
        made = [self.made[a] for a in call.args if isinstance(a, nodes.Var)]
        filled = self._filled(op, call, kind, builder) if made else None
        if filled is not None:
            return filled
        cost = sum((m.cost for m in made), _cost(op))
        if not self._is_worth(op, call, kind, cost):
            depth = 1 + max((m.depth for m in made), default=0)
            if op.pattern in _MAPS and depth <= DEEPEST and 0 <= _bytes(kind) <= MOST_FOLDED:
                self.made[var] = _Made(call, cost, depth)
            return None
        arrays = [a.value for a in call.args if isinstance(a, nodes.Constant)]
        if len(arrays) < len(call.args) or not isinstance(kind, TensorType):
            return _constants(self._value(call), call)
        # Builds with other choices or schedules share what they fold alike.
        how = (op.name, repr(call.attrs))
        value = derived(arrays, how, lambda: interned(frozen(self._value(call))))
        return _constants(value, call)

    def group(
        self, var: nodes.Var, op: nodes.GlobalVar, call: nodes.Call
    ) -> nodes.Atom | tuple[nodes.Constant, ...] | None:
        """Returns the value of a group that reads nothing but constants.

        A big one that takes few instructions is left where it is a result of the whole program or
        where a loop's carry begins: what would be saved is spent on copying the constant.
        """
        function = self.module.functions.get(op.name)
        if not isinstance(function, nodes.Function) or not function.attrs.get("primitive"):
            return None
        arrays = [a.value for a in call.args if isinstance(a, nodes.Constant)]
        size = _bytes(var.type)
        if len(arrays) != len(call.args) or not 0 <= size <= MOST_FOLDED or function.sizes:
            return None
        inner = [b.value for b in function.body.bindings if isinstance(b.value, nodes.Call)]
        if any(_is_symbolic(value) for each in inner for value in each.attrs.values()):
            return None
        ops = [each.op for each in inner]
        if any(isinstance(op, Operator) and Trait.UNSET in op.traits for op in ops):
            return None
        cost = sum(_cost(op) for op in ops if isinstance(op, Operator))
        if var in self.copied and size > GROWTH_LIMIT and cost < self.costly:
            return None
        with np.errstate(all="ignore"):
            return _constants(evaluate(function, *arrays), call)

    def _is_worth(self, op: Operator, call: nodes.Call, kind: Type, cost: float) -> bool:
        arrays = [a.value for a in call.args if isinstance(a, nodes.Constant)]
        if not isinstance(kind, TensorType):
            return len(arrays) == len(call.args)
        size = _bytes(kind)
        if size < 0 or (op.name == "cast" and arrays and widens_many(arrays[0], kind.dtype)):
            return False
        if len(arrays) == len(call.args) or cost:
            # What is made of nothing takes no memory: an array of the values has to be read.
            limit = GROWTH_LIMIT if call.args else kind.dtype.bytes
            if size <= limit + sum(a.nbytes for a in arrays):
                return True
        return size <= MOST_FOLDED and (cost >= self.costly or op.pattern not in _MAPS)

    def _filled(
        self, op: Operator, call: nodes.Call, kind: Type, builder: Builder
    ) -> nodes.Atom | None:
        """A map of arrays that hold one value each is one, too: no array is needed for it."""
        numbers = [self._number(a) for a in call.args]
        if not isinstance(kind, TensorType) or any(n is None for n in numbers):
            return None
        if Trait.PICKS in op.traits:
            value: Any = numbers[0]
        elif op.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST):
            with np.errstate(all="ignore"):
                value = op.reference([n for n in numbers if n is not None], call.attrs)
        else:
            return None
        attrs = {"shape": kind.shape, "fill_value": value.item(), "dtype": kind.dtype.name}
        new = builder.emit(OPERATORS["full"], (), attrs)
        made = builder.bindings[-1].value
        assert isinstance(new, nodes.Var) and isinstance(made, nodes.Call)
        self.made[new] = _Made(made, 0.0, 1)
        return new

    def _number(self, atom: nodes.Atom) -> Array | None:
        """Returns the one value that ``atom`` holds everywhere, as far as it is easily seen."""
        if isinstance(atom, nodes.Constant):
            return atom.value.reshape(()) if atom.value.size == 1 else None
        assert isinstance(atom, nodes.Var)
        call = self.made[atom].call
        if call.operator.name != "full":
            return None
        return np.full((), call.attrs["fill_value"], call.attrs["dtype"])

    def _value(self, call: nodes.Call) -> Any:
        """Returns the value of a call on constants and on what was left unfolded."""
        arrays = [
            a.value
            if isinstance(a, nodes.Constant)
            else self._value(self.made[cast("nodes.Var", a)].call)
            for a in call.args
        ]
        with np.errstate(all="ignore"):
            return call.operator.reference(arrays, call.attrs)


def _results(block: nodes.Block) -> set[nodes.Atom]:
    """Returns the atoms that leave ``block``, with the fields of a tuple."""
    used: set[nodes.Atom] = {block.result}
    for binding in reversed(block.bindings):
        if binding.var in used:
            if isinstance(binding.value, nodes.Tuple):
                used.update(binding.value.fields)
            elif isinstance(binding.value, nodes.TupleGetItem):
                used.add(binding.value.value)
    return used


def _initial_values(body: nodes.Block) -> set[nodes.Atom]:
    """Returns the values from which loops begin in the blocks that compute them."""
    initial: set[nodes.Atom] = set()
    blocks = [body]
    while blocks:
        block = blocks.pop()
        here = {binding.var for binding in block.bindings}
        for binding in block.bindings:
            if isinstance(binding.value, nodes.For | nodes.While):
                initial.update(a for a in binding.value.initial if a in here)
            blocks += nested_blocks(binding.value)
    return initial


def _cost(op: Operator) -> float:
    """Instructions for one element; what only rearranges elements takes none in its reader."""
    free = not op.params or op.pattern == Pattern.INJECTIVE or Trait.PICKS in op.traits
    return 0.0 if free else op.cost


def _bytes(kind: Type) -> int:
    """Returns the bytes of a value; -1 if they are not known."""
    if isinstance(kind, TupleType):
        sizes = [_bytes(field) for field in kind.fields]
        return -1 if -1 in sizes else sum(sizes)
    if not isinstance(kind, TensorType) or not isinstance(kind.size, int):
        return -1
    return kind.size * kind.dtype.bytes


def _is_symbolic(value: object) -> bool:
    """True if an attribute holds a size that is not known yet."""
    if isinstance(value, tuple):
        return any(map(_is_symbolic, cast("tuple[object, ...]", value)))
    return isinstance(value, Dim)


def _constants(result: Any, call: nodes.Call) -> nodes.Constant | tuple[nodes.Constant, ...]:
    name = next((a.name for a in call.args if isinstance(a, nodes.Constant) and a.name), "")
    if isinstance(result, tuple | list):
        fields = cast("Sequence[Array]", result)
        return tuple(nodes.Constant(frozen(r), name, call.span) for r in fields)
    return nodes.Constant(frozen(result), name, call.span)


def frozen(value: Any) -> Array:
    """Returns an array that nobody writes to, a copy unless it is one."""
    if isinstance(value, np.ndarray) and value.flags.owndata and not value.flags.writeable:
        return value
    array = np.array(value)  # a view would keep the operand alive, and be writable through it
    array.flags.writeable = False
    return array


def _splice(block: nodes.Block, builder: Builder) -> nodes.Atom:
    """Emits the bindings of ``block`` into ``builder``; returns its result."""
    builder.bindings.extend(block.bindings)
    return block.result

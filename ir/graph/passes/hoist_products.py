"""Multiply the rows that a loop takes one by one all at once, before the loop.

Before::

    def @main(
      %x: Tensor[(64, 2, 8), float32],
      %w: Tensor[(8, 4), float32],
      %s: Tensor[(2, 4), float32]
    ) -> Tensor[(2, 4), float32] {
      %0 = for (%i < 64i64; %c = %s) {
        %1 = take(%x, %i, axis=0);
        %2 = nn.matmul(%1, %w);
        %3 = add(%2, %c);
        %4 = tanh(%3);
        (%4,)
      };
      %0.0
    }

After::

    def @main(
      %x: Tensor[(64, 2, 8), float32],
      %w: Tensor[(8, 4), float32],
      %s: Tensor[(2, 4), float32]
    ) -> Tensor[(2, 4), float32] {
      %0 = reshape(%x, newshape=[128, 8]);
      %1 = nn.matmul(%0, %w);
      %2 = reshape(%1, newshape=[64, 2, 4]);
      %3 = for (%i < 64i64; %c = %s) {
        %4 = take(%x, %i, axis=0);
        %5 = take(%2, %i, axis=0);
        %6 = add(%5, %c);
        %7 = tanh(%6);
        (%7,)
      };
      %3.0
    }

The inputs of a recurrent network meet their weights this way. One product of many rows reads the
weights once, where a product in each iteration reads them each time and has few rows to share what
it read. It is the input projection of every LSTM library (Appleyard et al., "Optimizing Performance
of Recurrent Neural Networks on GPUs", 2016, section 3.2), for any loop: whichever row an iteration
takes, its product is that row of the product.

A vector that a matrix is multiplied with from the left, ``w @ x[i]``, is a row as well. (What
nobody reads any more goes with the dead code.)
"""

from __future__ import annotations

from math import prod

from ...dims import as_int
from ...pass_context import optional
from ..builder import Builder
from ..choices import Choices, call_text
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Binding, Block, Call, Constant, Expr, For, Function, Module, Var
from ..operator import get
from ..types import TensorType
from ..vmap import Batch, batched_call
from ..walk import map_functions, rewrite_function, with_nested_blocks

BEFORE, INSIDE = "before the loop", "inside"


@optional(level=2)
def hoist_products(
    module: Module, choices: Choices | None = None, limits: GraphLimits = DEFAULT_LIMITS
) -> Module:
    """Moves products of the rows that loops take out of the loops, where ``choices`` do not say
    otherwise."""
    return map_functions(module, lambda function: _hoist(function, choices, limits), (For,))


def _hoist(function: Function, choices: Choices | None, limits: GraphLimits) -> Function:
    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, For) or not isinstance(value.extent, Constant):
            return None
        body = _Loop(value, int(value.extent.value), builder, choices, limits).body()
        if body is None:
            return None
        return builder.bind(with_nested_blocks(value, [body]), var.type)

    return rewrite_function(function, step)


class _Loop:
    """A loop whose products move into ``builder``, which makes the block around it."""

    def __init__(
        self,
        loop: For,
        extent: int,
        builder: Builder,
        choices: Choices | None,
        limits: GraphLimits,
    ) -> None:
        self.loop, self.extent, self.builder = loop, extent, builder
        self.choices, self.limits = choices, limits
        self.inside = {loop.index, *loop.params, *(b.var for b in loop.body.bindings)}
        self.takes: dict[Atom, Call] = {}
        for binding in loop.body.bindings:
            if isinstance(binding.value, Call) and self.is_row(binding.value):
                self.takes[binding.var] = binding.value

    def is_row(self, value: Call) -> bool:
        """True for one row of an array that the loop does not change, of about as many rows as the
        loop has iterations."""
        if value.op is not get("take"):
            return False
        source, index = value.args
        kind = source.type
        return (
            value.attrs["axis"] == 0
            and source not in self.inside
            and isinstance(kind, TensorType)
            and all(isinstance(s, int) for s in kind.shape)
            and as_int(kind.shape[0]) <= self.extent
            and isinstance(index.type, TensorType)
            and index.type.shape == ()
        )

    def body(self) -> Block | None:
        """Returns the body without products of rows; None if there are none."""
        body = self.loop.body
        bindings = [self.changed(binding) for binding in body.bindings]
        if all(a is b for a, b in zip(bindings, body.bindings)):
            return None
        return Block(tuple(bindings), body.result)

    def changed(self, binding: Binding) -> Binding:
        call = binding.value
        if not isinstance(call, Call) or call.op is not get("nn.matmul"):
            return binding
        left, right = call.args
        row, weights = (left, right) if left in self.takes else (right, left)
        if row not in self.takes or weights in self.inside:
            return binding
        take, from_left = self.takes[row], weights is left
        shape = _shape(take.args[0])
        if len(_shape(weights)) != 2 or (from_left and len(shape) != 2):
            return binding
        result = (*shape[:-1], _shape(weights)[0 if from_left else 1])
        if not self.wanted(call, prod(shape[1:-1]), weights, result):
            return binding
        args = [take.args[0] if a is row else a for a in call.args]
        stacked = [a is row for a in call.args]
        rows = batched_call(Batch(call, args, stacked, shape[0], result[1:], self.builder))
        assert rows is not None  # matrices have a product of many rows
        return Binding(binding.var, Call(take.op, (rows, take.args[1]), take.attrs, call.span))

    def wanted(self, call: Call, rows: int, weights: Atom, result: tuple[int, ...]) -> bool:
        kind = call.args[0].type
        assert isinstance(kind, TensorType)
        if prod(result) * kind.dtype.bytes > self.limits.hoisted_bytes:
            return False
        cached = 2 * prod(_shape(weights)) * kind.dtype.bytes <= self.limits.cache_bytes
        few = self.limits.few_cached_rows if cached else self.limits.few_rows
        options = (BEFORE, INSIDE) if rows < few else (INSIDE, BEFORE)
        if self.choices is None:
            return options[0] == BEFORE
        text = f"for {self.extent} {call_text(call)}"
        return self.choices.take("loop", text, options) == BEFORE


def _shape(atom: Atom) -> tuple[int, ...]:
    assert isinstance(atom.type, TensorType)
    return tuple(s for s in atom.type.shape if isinstance(s, int))

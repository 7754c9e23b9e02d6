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

A vector that a matrix is multiplied with from the left, ``w @ x[i]``, is a row as well, and so is
a column of a matrix. Of the product of a row and a slice of the weights, ``x[i] @ w[:, i:]``, the
slice is taken of the product's row, if slices are large enough in the mean. (What nobody reads any
more goes with the dead code.)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ...dims import as_int
from ...pass_context import optional
from .. import nodes
from ..accesses import Accesses
from ..builder import Builder
from ..choices import Choices, call_text
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Binding, Block, Call, Constant, For, Function, Module, Var, tensor_type
from ..operator import get
from ..types import TensorType
from ..vmap import Batch, batched_call
from ..walk import map_functions, rewrite_function, setters, with_nested_blocks

BEFORE, INSIDE = "before the loop", "inside"


@optional(level=2)
def hoist_products(
    module: Module, choices: Choices | None = None, limits: GraphLimits = DEFAULT_LIMITS
) -> Module:
    """Moves products of the rows that loops take out of the loops, where ``choices`` do not say
    otherwise."""
    return map_functions(module, lambda function: _hoist(function, choices, limits), (For,))


def _hoist(function: Function, choices: Choices | None, limits: GraphLimits) -> Function:
    def step(var: Var, value: nodes.Expr, builder: Builder) -> Atom | None:
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
        self.made = {b.var: b.value for b in loop.body.bindings if isinstance(b.value, Call)}
        self.takes = {var: value for var, value in self.made.items() if self.is_row(value)}

    def is_row(self, value: Call) -> bool:
        """True for one row of an array that the loop does not change, or a column of a matrix, of
        about as many as the loop has iterations."""
        if value.op is not get("take"):
            return False
        source, index = value.args
        kind, axis = source.type, value.attrs["axis"]
        return (
            isinstance(kind, TensorType)
            and (axis == 0 or (axis == 1 and kind.rank == 2))
            and source not in self.inside
            and all(isinstance(s, int) for s in kind.shape)
            and as_int(kind.shape[axis]) <= self.extent + 1
            and isinstance(index.type, TensorType)
            and index.type.shape == ()
        )

    def slice_of(self, weights: Atom, axis: int) -> tuple[Call, Mapping[str, Any]] | None:
        """Returns what takes a large part of a matrix that the loop does not change, along an axis,
        and its attributes for the last axis alone; None if ``weights`` are something else."""
        value = self.made.get(weights) if isinstance(weights, Var) else None
        if value is None or value.op not in (get("strided_slice"), get("dynamic_slice")):
            return None
        if value.args[0] in self.inside or tensor_type(weights).rank != 2:
            return None
        size, whole = tensor_type(weights).shape[axis], tensor_type(value.args[0]).shape
        attrs: Mapping[str, Any] = value.attrs
        if value.op is get("strided_slice"):
            same = tuple(size if n == axis else s for n, s in enumerate(whole))
            if any(attrs["begin"]) or tuple(attrs["end"]) != same or {*attrs["strides"]} != {1}:
                return None
            attrs = {"begin": (0,), "end": (size,), "strides": (1,)}
        elif tuple(attrs["axes"]) == (axis,):
            attrs = {**attrs, "axes": (0,)}
        else:
            return None
        setter = setters(self.loop.body).get(str(size))
        if setter is not None and setter in self.made:
            accesses = Accesses(self.loop, self.loop.body, self.extent, {})
            step, first = accesses.place(self.made[setter].args[0]) or (0, 0)
            size = first + step * (self.extent - 1) // 2
        large = isinstance(size, int) and size >= self.limits.sliced_share * as_int(whole[axis])
        return (value, attrs) if large else None

    def body(self) -> Block | None:
        """Returns the body without products of rows; None if there are none."""
        body = self.loop.body
        bindings = [new for binding in body.bindings for new in self.changed(binding)]
        if all(a is b for a, b in zip(bindings, body.bindings)):
            return None
        return Block(tuple(bindings), body.result)

    def changed(self, binding: Binding) -> list[Binding]:
        call = binding.value
        if not isinstance(call, Call) or call.op is not get("nn.matmul"):
            return [binding]
        left, right = call.args
        row, weights = (left, right) if left in self.takes else (right, left)
        if row not in self.takes:
            return [binding]
        take, from_left = self.takes[row], weights is left
        sliced = self.slice_of(weights, 0 if from_left else 1)
        weights = weights if sliced is None else sliced[0].args[0]
        shape = _shape(take.args[0])[:: -1 if take.attrs["axis"] else 1]
        vectors = from_left or sliced is not None
        if weights in self.inside or len(_shape(weights)) != 2 or (vectors and len(shape) != 2):
            return [binding]
        result = (*shape[:-1], _shape(weights)[0 if from_left else 1])
        if not self.wanted(call, prod(shape[1:-1]), weights, result):
            return [binding]
        source = take.args[0]
        if take.attrs["axis"]:
            source = self.builder.emit(get("transpose"), (source,), {"axes": (1, 0)})
        args, stacked = [source, weights], [True, False]
        if from_left:
            args, stacked = args[::-1], stacked[::-1]
        rows = batched_call(Batch(call, args, stacked, shape[0], result[1:], self.builder))
        assert rows is not None  # matrices have a product of many rows
        first = Call(take.op, (rows, take.args[1]), {**take.attrs, "axis": 0}, call.span)
        if sliced is None:
            return [Binding(binding.var, first)]
        whole = Var("row", TensorType(result[1:], tensor_type(rows).dtype), call.span)
        part = Call(sliced[0].op, (whole, *sliced[0].args[1:]), sliced[1], call.span)
        return [Binding(whole, first), Binding(binding.var, part)]

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

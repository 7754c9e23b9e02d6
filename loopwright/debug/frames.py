"""The values of a lowered graph's blocks while its program is run, iteration by iteration.

A frame has the values of one block that runs once: what it is given, and what kernels wrote. All
other bindings (tuples, fields, views, branches and loops without kernels) are evaluated when
something asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np

from ..codegen.kernel import Kernel
from ..codegen.kernel_interface import is_view
from ..ir.dims import as_int
from ..ir.dtype import Array
from ..ir.errors import InternalError
from ..ir.graph.nodes import (
    Atom,
    Binding,
    Block,
    Call,
    Constant,
    Expr,
    For,
    Function,
    GlobalVar,
    If,
    Module,
    Tuple,
    TupleGetItem,
    Var,
    While,
)
from ..ir.graph.operator import Operator
from ..ir.graph.types import TensorType
from ..ir.graph.walk import nested_blocks
from ..ir.loop.nest import Operand
from ..ir.loop.prim import PrimFunc
from ..ir.span import Span
from ..ir.traits import Trait
from .wide import Value, flat


class Graph:
    """The lowered module: which of its bindings a program has instructions for."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def kernel_of(self, binding: Binding) -> str | None:
        """Returns the kernel, or the library function, that a binding calls, if any."""
        call = binding.value
        if is_library_call(call):
            return library_name(call.attrs["function"])
        if not isinstance(call, Call) or not isinstance(call.op, GlobalVar):
            return None
        callee = self.module.functions.get(call.op.name)
        is_group = isinstance(callee, PrimFunc) or callee is None or callee.attrs.get("primitive")
        return call.op.name if is_group and not is_view(callee) else None

    def function_of(self, value: Expr) -> Function | None:
        """Returns the function, not a group, that an expression calls, if any."""
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
            return None
        callee = self.module.functions.get(value.op.name)
        plain = isinstance(callee, Function) and not callee.attrs.get("primitive")
        return callee if plain and isinstance(callee, Function) else None

    def kernels_in(self, value: Expr) -> set[str]:
        """Returns the kernels that are called inside of an expression, or by functions that it
        calls."""
        callee = self.function_of(value)
        work = [*nested_blocks(value), *([] if callee is None else [callee.body])]
        kernels: set[str] = set()
        seen: set[int] = set()
        while work:
            block = work.pop()
            if id(block) in seen:
                continue
            seen.add(id(block))
            for binding in block.bindings:
                name, callee = self.kernel_of(binding), self.function_of(binding.value)
                kernels |= set() if name is None else {name}
                work += [*nested_blocks(binding.value), *([] if callee is None else [callee.body])]
        return kernels


class Frame:
    """The values of a block while it is run once; ``outer`` is that of the block around it."""

    def __init__(
        self, graph: Graph, block: Block, values: dict[Var, Value], outer: Frame | None = None
    ) -> None:
        self.graph, self.block, self.values, self.outer = graph, block, values, outer
        self._bindings = {b.var: b for b in block.bindings}
        self._calls = [b for b in block.bindings if graph.kernel_of(b) is not None]
        self._nested = [
            b
            for b in block.bindings
            if nested_blocks(b.value) or graph.function_of(b.value) is not None
        ]

    def result(self) -> Value:
        return self.value(self.block.result)

    def next_nested(self, kind: str, kernels: set[str], span: Span | None) -> Binding:
        """Returns the binding that a branch, loop or invocation of the program belongs to: the next
        of its kind that calls the same kernels, of the same line if there is one."""
        fitting = [
            b
            for b in self._nested
            if _KINDS[kind] is type(b.value) and self.graph.kernels_in(b.value) == kernels
        ]
        if not fitting:
            raise InternalError(f"the program has a {kind} that the graph has not")
        same_line = [b for b in fitting if span is not None and b.var.span == span]
        binding = (same_line or fitting)[0]
        self._nested.remove(binding)
        return binding

    def next_library_call(self, name: str, operands: Sequence[Array]) -> Binding:
        """Returns the binding that a call of a library belongs to: the one of that name whose
        operands are in memory."""
        ready = [b for b in self._calls if self.graph.kernel_of(b) == name and self._is_ready(b)]
        for binding in ready:
            assert isinstance(binding.value, Call)
            inputs = [a for atom in binding.value.args for a in flat(self.value(atom))]
            if all(map(_same, inputs, operands)) or len(ready) == 1:
                self._calls.remove(binding)
                return binding
        raise InternalError(f"the program calls {name} on what the graph has not")

    def next_call(
        self, name: str, kernel: Kernel, operands: Sequence[Array]
    ) -> tuple[Binding, list[Array], list[int]]:
        """Returns the binding that a call belongs to: of the bindings that call the group, the one
        whose operands are in the call's memory; with its operands, and the positions of those that
        are not."""
        best: tuple[Binding, list[Array], list[int]] | None = None
        places = parameter_places(kernel.operands)
        for binding in self._calls:
            if self.graph.kernel_of(binding) != name or not self._is_ready(binding):
                continue
            assert isinstance(binding.value, Call)
            inputs = [a for atom in binding.value.args for a in flat(self.value(atom))]
            spoilt: list[int] = []
            for n, (wanted, place) in enumerate(zip(inputs, places, strict=True)):
                pack = kernel.operands[place].pack
                if not _same(pack.array(wanted) if pack else wanted, operands[place]):
                    spoilt.append(n)
            if best is None or len(spoilt) < len(best[2]):
                best = (binding, inputs, spoilt)
        if best is None:
            raise InternalError(f"the program calls @{name} before its operands are there")
        self._calls.remove(best[0])
        return best

    def _is_ready(self, binding: Binding) -> bool:
        assert isinstance(binding.value, Call)
        try:
            for atom in binding.value.args:
                self.value(atom)
        except KeyError:
            return False
        return True

    def value(self, atom: Atom) -> Value:
        """Returns the value of an atom. Raises KeyError if a kernel that it depends on has not
        run."""
        if isinstance(atom, Constant):
            return atom.value
        assert isinstance(atom, Var)
        if atom in self.values:
            return self.values[atom]
        if atom not in self._bindings:
            if self.outer is None:
                raise KeyError(atom.name)
            return self.outer.value(atom)
        binding = self._bindings[atom]
        expr = binding.value
        if isinstance(expr, Tuple):
            return tuple(self.value(f) for f in expr.fields)
        if isinstance(expr, TupleGetItem):
            fields = self.value(expr.value)
            assert isinstance(fields, tuple)
            return fields[expr.index]
        if isinstance(expr, Var | Constant):
            return self.value(expr)
        if self.graph.kernel_of(binding) is not None or self.graph.kernels_in(expr):
            raise KeyError(atom.name)
        if isinstance(expr, Call) and self.graph.function_of(expr) is None:
            (source,) = flat(self.value(expr.args[0]))  # a view
            return taken_from(atom.type, iter([source]))
        # A branch, loop or function without kernels: it only chooses among values.
        inside = Inside(self, expr)
        inside.evaluate()
        self.values[atom] = inside.result()
        return self.values[atom]


def is_library_call(value: Expr) -> TypeGuard[Call]:
    return (
        isinstance(value, Call)
        and isinstance(value.op, Operator)
        and Trait.LIBRARY in value.op.traits
    )


def library_name(function: str) -> str:
    """Returns the name of a library function among those of kernels."""
    return f"library {function}"


_KINDS: dict[str, type] = {"If": If, "While": While, "For": For, "Invoke": Call}


class Inside:
    """Frames for the blocks of a branch, loop or function, one after the other. ``carry`` is the
    frame of the block that ran last; its result is carried on."""

    def __init__(self, frame: Frame, value: Expr | None) -> None:
        self.frame, self.value = frame, value
        self.carry: Frame | None = None

    def result(self) -> Value:
        if self.carry is not None:
            return self.carry.result()
        assert isinstance(self.value, While | For)
        return tuple(self.frame.value(a) for a in self.value.initial)

    def block(self, number: int, index: Array | None = None) -> Frame:
        """Returns the frame of a loop's next condition or body."""
        if self.value is None:
            return self.frame
        carried = self.result()
        assert isinstance(self.value, While | For)
        assert isinstance(carried, tuple)
        values: dict[Var, Value] = dict(zip(self.value.params, carried, strict=True))
        if isinstance(self.value, For) and index is not None:
            values[self.value.index] = index
        block = nested_blocks(self.value)[number]
        return Frame(self.frame.graph, block, values, self.frame)

    def condition(self) -> bool:
        """Returns the condition of a branch."""
        assert isinstance(self.value, If)
        (taken,) = flat(self.frame.value(self.value.condition))
        return bool(taken)

    def branch(self, taken: bool) -> Frame:
        if self.value is None:
            return self.frame
        block = nested_blocks(self.value)[0 if taken else 1]
        return Frame(self.frame.graph, block, {}, self.frame)

    def function(self) -> Frame:
        if self.value is None:
            return self.frame
        assert isinstance(self.value, Call)
        callee = self.frame.graph.function_of(self.value)
        assert callee is not None
        values = dict(zip(callee.params, map(self.frame.value, self.value.args), strict=True))
        return Frame(self.frame.graph, callee.body, values)

    def evaluate(self) -> None:
        """Runs what needs no kernel."""
        value = self.value
        if isinstance(value, If):
            self.carry = self.branch(self.condition())
        elif isinstance(value, For):
            (count,) = flat(self.frame.value(value.extent))
            for number in range(int(count)):
                self.carry = self.block(0, np.asarray(number, np.int64))
        elif isinstance(value, While):
            while bool(flat(self.block(0).result())[0]):
                self.carry = self.block(1)
        else:
            self.carry = self.function()


def taken_from(kind: Any, arrays: Iterator[Array]) -> Value:
    """Returns a value of a type from arrays in order, each in the shape that the type says."""
    if isinstance(kind, TensorType):
        elements = next(arrays).reshape(-1).view(kind.dtype.numpy)  # of complex numbers, or parts
        return elements.reshape([as_int(s) for s in kind.shape])
    return tuple(taken_from(field, arrays) for field in kind.fields)


def _same(wanted: Array, given: Array) -> bool:
    a, b = np.ascontiguousarray(wanted).reshape(-1), given.reshape(-1)
    return a.nbytes == b.nbytes and np.array_equal(a.view(np.uint8), b.view(np.uint8))


def parameter_places(operands: Sequence[Operand]) -> list[int]:
    """Returns, for each parameter of a kernel, the position of the operand that holds its value
    when the kernel is called: that of a result, if one begins as it."""
    begun = {o.begins_as[0]: n for n, o in enumerate(operands) if o.begins_as is not None}
    rest = [n for n, o in enumerate(operands) if not o.role.writes]
    given = iter(rest)
    return [begun[p] if p in begun else next(given) for p in range(len(rest) + len(begun))]

"""Minimises a program that shows a failure, as long as it shows it.

::

    one result of several        the others go
    branches, loops, functions   become one of their branches, one iteration, their body
    a value in the middle        becomes the result; what came after it goes
    operations                   become parameters, many at a time, then fewer
    constants                    become parameters
    iterations                   1, 2, then halves
    sizes                        2, then halves

This is delta debugging (A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing
input", IEEE Trans. Softw. Eng. 28, 2002) over lists of bindings, those inside of branches and loops
as well. Every program it asks about is made by ``Builder.emit``: what the type rules refuse is not
one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import LoopwrightError
from ..ir.graph.builder import Builder
from ..ir.graph.nodes import (
    Atom,
    Binding,
    Block,
    Call,
    Constant,
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
from ..ir.graph.types import TensorType
from ..ir.graph.walk import free_variables, global_variables, nested_blocks, operands
from ..ir.loop.prim import PrimFunc

Fails = Callable[[Module], bool]
LEAST_SIZE = 3
"""Sizes up to which a smaller one gains nothing. Numbers in attributes up to this are not sizes
(but axes, for instance) and are kept."""


def minimised(module: Module, fails: Fails, seconds: float) -> Module:
    """Returns the smallest module for which ``fails`` holds that ``seconds`` suffice to find.

    What is taken for failing is the caller's to say; it may not raise.
    """
    until = time.monotonic() + seconds
    best = module
    for smaller in (
        _one_result,
        _opened,
        _earlier_result,
        _cut_out,
        _as_parameters,
        _fewer_iterations,
        _smaller_sizes,
    ):
        going = True
        while going:
            going = False
            for change in smaller(best):
                if time.monotonic() > until:
                    return best
                made = _changed(best, change)
                if made is not None and fails(made):
                    best, going = made, True
                    break
    return best


def anonymous(module: Module) -> Module:
    """Returns the program without names of the user's variables and functions and without spans;
    captured arrays get random values."""
    copy = _Copy(module, _Change(random=True))
    copy.names = {
        name: f"f{n}" for n, name in enumerate(n for n in module.functions if n != "main")
    }
    functions: dict[str, Function | PrimFunc] = {}
    try:
        for name, function in module.functions.items():
            new = copy.names.get(name, name)
            is_graph = isinstance(function, Function)
            functions[new] = copy.function(function) if is_graph else replace(function, name=new)
    except (LoopwrightError, ValueError, KeyError):
        return module
    schedules = {copy.names.get(n, n): s for n, s in module.schedules.items()}
    return Module(functions, schedules)


def random_values(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Returns seeded random values of a dtype: floats and parts of complex numbers in [-1, 1),
    integers in [0, 8)."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "c":
        parts = rng.random((2, *shape)) * 2 - 1
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if dtype.kind == "f":
        return (rng.random(shape) * 2 - 1).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 8, shape).astype(dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """A change of ``main``. ``result`` replaces its result; ``cut`` are variables and constants
    that become parameters; ``opened`` is a binding whose nested block of that number takes its
    place, up to the value ``inner``; ``extent`` is a loop and its new number of iterations;
    ``sizes`` are the old and the new size; with ``random``, constants get random values."""

    result: Atom | None = None
    cut: frozenset[Any] = frozenset()
    opened: tuple[Var | None, int] = (None, 0)
    inner: Var | None = None
    extent: tuple[Var | None, int] = (None, 0)
    sizes: tuple[int, int] | None = None
    random: bool = False


def _bindings(block: Block) -> Iterator[Binding]:
    """Yields the bindings of a block and of those inside of it."""
    for binding in block.bindings:
        yield binding
        for nested in nested_blocks(binding.value):
            yield from _bindings(nested)


def _one_result(module: Module) -> Iterator[_Change]:
    body = module.main.body
    for binding in body.bindings:
        if binding.var is body.result and isinstance(binding.value, Tuple):
            for field in binding.value.fields:
                yield _Change(result=field)


def _earlier_result(module: Module) -> Iterator[_Change]:
    """Yields changes to an earlier result, in coarse steps first."""
    body = module.main.body
    values = [b.var for b in body.bindings if b.var is not body.result]
    order: list[int] = []
    step = len(values)
    while step > 1:
        step = (step + 1) // 2
        order += range(step - 1, len(values), step)
    for n in dict.fromkeys((*order, *range(len(values)))):
        if isinstance(values[n].type, TensorType):
            yield _Change(result=values[n])


def _opened(module: Module) -> Iterator[_Change]:
    """Yields changes of what has blocks inside to one of them, and to a value in the middle of one,
    which becomes the result."""
    for binding in _bindings(module.main.body):
        value, var = binding.value, binding.var
        callee = _inlined(module, value) if isinstance(value, Call) else None
        blocks = (callee.body,) if callee is not None else nested_blocks(value)
        for n, block in enumerate(blocks):
            yield _Change(opened=(var, n))
            for inner in reversed(block.bindings):
                if isinstance(inner.var.type, TensorType):
                    yield _Change(result=var, opened=(var, n), inner=inner.var)


def _inlined(module: Module, call: Call) -> Function | None:
    """Returns the function that a call can be replaced by: one that does not come back to
    itself."""
    if not isinstance(call.op, GlobalVar):
        return None
    callee = module.functions[call.op.name]
    if not isinstance(callee, Function) or call.op.name in _reached(module, callee):
        return None
    return callee


def _reached(module: Module, function: Function) -> set[str]:
    """Returns the functions that calls from ``function`` lead to."""
    reached: set[str] = set()
    work = [function]
    while work:
        for name in global_variables(work.pop()).keys() - reached:
            reached.add(name)
            callee = module.functions[name]
            work += [callee] if isinstance(callee, Function) else []
    return reached


def _cut_out(module: Module) -> Iterator[_Change]:
    """Yields changes that cut out parts of the bindings: halves first, single ones last."""
    body = module.main.body
    values = [b.var for b in _bindings(body) if b.var is not body.result]
    size = len(values)
    while size:
        for start in range(0, len(values), size):
            part = [v for v in values[start : start + size] if isinstance(v.type, TensorType)]
            if part:
                yield _Change(cut=frozenset(part))
        size //= 2


def _as_parameters(module: Module) -> Iterator[_Change]:
    constants = {
        a
        for b in _bindings(module.main.body)
        for a in operands(b.value)
        if isinstance(a, Constant) and a.value.ndim
    }
    if len(constants) > 1:
        yield _Change(cut=frozenset(constants))
    for constant in sorted(constants, key=lambda c: c.name):
        yield _Change(cut=frozenset([constant]))


def _fewer_iterations(module: Module) -> Iterator[_Change]:
    for binding in _bindings(module.main.body):
        value = binding.value
        if isinstance(value, For) and isinstance(value.extent, Constant):
            count = int(value.extent.value)
            for new in dict.fromkeys((1, 2, count // 4, count // 2, count - 1)):
                if 0 < new < count:
                    yield _Change(extent=(binding.var, new))


def _smaller_sizes(module: Module) -> Iterator[_Change]:
    bindings = [*_bindings(module.main.body)]
    atoms = [*module.main.params, *(a for b in bindings for a in operands(b.value))]
    sizes = {
        s
        for a in atoms
        if isinstance(a.type, TensorType)
        for s in a.type.shape
        if isinstance(s, int) and s > LEAST_SIZE
    }
    for size in sorted(sizes, reverse=True):
        for new in dict.fromkeys((2, size // 4, size // 2, size - 1)):
            if 1 < new < size:
                yield _Change(sizes=(size, new))


def _changed(module: Module, change: _Change) -> Module | None:
    """Returns the changed module without unused bindings and functions; None if the change is not
    possible."""
    main = module.main
    result = change.result if change.result is not None else main.body.result
    copy = _Copy(module, change)
    try:
        final = copy.into(copy.main, Block(main.body.bindings, result))
        if not copy.main.bindings and not copy.main.params:
            return None
        function = copy.main.function(final)
    except (LoopwrightError, ValueError, IndexError, ZeroDivisionError, KeyError):
        return None
    reached = _reached(module, function)
    others = {n: f for n, f in module.functions.items() if n in reached}
    made = Module({"main": function, **others}, module.schedules)
    # What was opened may leave fields of its result without use.
    return made if change.opened[0] is None else _changed(made, _Change())


class _Copy:
    """Copies blocks with a change. ``names`` are new ones of functions, ``fields`` those of the
    tuples that were made."""

    def __init__(self, module: Module, change: _Change) -> None:
        self.module, self.change = module, change
        self.main = Builder()
        self.params = set(module.main.params)
        self.made: dict[Any, Atom] = {}
        self.names: Mapping[str, str] = {}
        self.fields: dict[Atom, list[Atom]] = {}

    def function(self, function: Function) -> Function:
        """Copies a function with all its parameters."""
        self.main, self.params = Builder(), set(function.params)
        for param in function.params:
            self.atom(param)
        result = self.into(self.main, function.body)
        return self.main.function(result, attrs=function.attrs)

    def atom(self, old: Atom) -> Atom:
        """Returns the new atom. What is cut out, and main's parameters, are made when met."""
        change, made = self.change, self.made
        if old in made:
            return made[old]
        if old in change.cut or (isinstance(old, Var) and old in self.params):
            kind = _resized_type(old.type, change)
            made[old] = self.main.param(f"x{len(self.main.params)}", kind)
        elif isinstance(old, Constant):
            made[old] = _constant(old, change, len(made))
        else:
            raise KeyError(str(old))
        return made[old]

    def into(self, builder: Builder, block: Block) -> Atom:
        """Copies what a block needs into ``builder``, and returns its result."""
        for binding in _needed(block, self.change.cut):
            self.made[binding.var] = self.emit(builder, binding)
        return self.atom(block.result)

    def nested(self, block: Block) -> Block:
        builder = Builder()
        return builder.block(self.into(builder, block))

    def variables(self, old: Sequence[Var]) -> list[Var]:
        """Returns new variables for what a nested block binds."""
        first = len(self.made)
        new = [Var(f"v{first + n}", _resized_type(v.type, self.change)) for n, v in enumerate(old)]
        self.made.update(zip(old, new))
        return new

    def emit(self, builder: Builder, binding: Binding) -> Atom:
        value, change = binding.value, self.change
        if change.opened[0] is binding.var:
            return self.open(builder, binding)
        if isinstance(value, Call):
            op = value.op
            if isinstance(op, Var):
                raise ValueError("a function value stays as it is")
            if isinstance(op, GlobalVar):
                op = GlobalVar(self.names.get(op.name, op.name), op.type)
            args = [self.atom(a) for a in value.args]
            return builder.emit(op, args, _resized_attrs(value.attrs, change))
        if isinstance(value, Tuple):
            fields = [self.atom(f) for f in value.fields]
            made = builder.make_tuple(fields)
            self.fields[made] = fields
            return made
        if isinstance(value, TupleGetItem):
            source = self.atom(value.value)
            if source in self.fields:  # of an opened loop, for instance
                return self.fields[source][value.index]
            return builder.get_item(source, value.index)
        if isinstance(value, If):
            condition = self.atom(value.condition)
            return builder.cond(condition, self.nested(value.then), self.nested(value.orelse))
        if isinstance(value, While):
            initial = [self.atom(a) for a in value.initial]
            params = self.variables(value.params)
            condition, body = self.nested(value.condition), self.nested(value.body)
            return builder.while_loop(params, initial, condition, body)
        if isinstance(value, For):
            extent, *initial = (self.atom(a) for a in operands(value))
            if change.extent[0] is binding.var:
                extent = Constant(np.asarray(change.extent[1], np.int64))
            index, *params = self.variables((value.index, *value.params))
            return builder.for_loop(index, extent, params, initial, self.nested(value.body))
        if isinstance(value, Var | Constant):
            return self.atom(value)
        raise ValueError(f"{type(value).__name__} stays as it is")

    def open(self, builder: Builder, binding: Binding) -> Atom:
        """Copies a nested block in the place of what it is in; a loop's first iteration."""
        value = binding.value
        callee = _inlined(self.module, value) if isinstance(value, Call) else None
        if callee is not None:
            assert isinstance(value, Call)
            self.made.update(zip(callee.params, map(self.atom, value.args), strict=True))
        elif isinstance(value, While | For):
            self.made.update(zip(value.params, map(self.atom, value.initial), strict=True))
        if isinstance(value, For):
            self.made[value.index] = Constant(np.zeros((), np.int64))
        blocks = (callee.body,) if callee is not None else nested_blocks(value)
        block = blocks[self.change.opened[1]]
        return self.into(builder, Block(block.bindings, self.change.inner or block.result))


def _needed(block: Block, cut: frozenset[Any]) -> list[Binding]:
    """Returns the bindings of a block that its result depends on, if ``cut`` does not."""
    wanted: set[Any] = {block.result} - cut
    kept: list[Binding] = []
    for binding in reversed(block.bindings):
        if binding.var in wanted:
            kept.append(binding)
            used = {*operands(binding.value)}
            used.update(v for b in nested_blocks(binding.value) for v in free_variables(b))
            wanted |= used - cut
    return kept[::-1]


def _constant(old: Constant, change: _Change, number: int) -> Constant:
    shape = tuple(_resized(s, change) for s in old.value.shape)
    if old.value.ndim == 0 or (shape == old.value.shape and not change.random):
        return Constant(old.value, old.name)
    digits = old.name.removeprefix("c")
    seed = int(digits) if digits.isdigit() and not change.random else number
    return Constant(random_values(shape, old.value.dtype, seed), f"c{seed}")


def _resized(value: Any, change: _Change) -> Any:
    if isinstance(value, tuple):
        return tuple(_resized(v, change) for v in value)
    if change.sizes is None or isinstance(value, bool) or value != change.sizes[0]:
        return value
    return change.sizes[1]


def _resized_type(kind: Any, change: _Change) -> Any:
    if not isinstance(kind, TensorType):
        raise ValueError("a parameter may not be a tuple here")
    return TensorType(tuple(_resized(s, change) for s in kind.shape), kind.dtype)


def _resized_attrs(attrs: Mapping[str, Any], change: _Change) -> dict[str, Any]:
    return {key: _resized(value, change) for key, value in attrs.items()}

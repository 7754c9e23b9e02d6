"""A module whose ``main`` only calls groups becomes a program: values become memory.

It is in ``codegen`` because it imports both the graph and the program IR, which are independent.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..ir.derived import derived, interned
from ..ir.dims import IntExpr, Symbol, product, size_symbols, substitute
from ..ir.dtype import UINT8, Array, dtype_of
from ..ir.errors import InternalError, UnsupportedError
from ..ir.graph import nodes
from ..ir.graph.nodes import Call as GraphCall
from ..ir.graph.operator import Operator
from ..ir.graph.types import TensorType, TupleType, Type, sizes_in
from ..ir.graph.walk import sizes_of_call
from ..ir.program import nodes as operations
from ..ir.program import nodes as program_nodes
from ..ir.program.analysis import scopes, spans
from ..ir.program.lifetimes import place_lifetimes
from ..ir.program.nodes import Access, Alias, Alloc, Call, Copy, Instr, Operand, Program, Region
from ..ir.size_table import Shape, SizeCheck, solve
from ..ir.traits import Trait
from ..ir.window import Window
from .kernel_interface import FREE, KernelInterface, OperandInterface, PackInterface, is_view
from .parallel_map import parallel_map
from .runtime.buffers import HugePages

LARGE_BYTES = 1 << 18
"""Bytes of a constant from which on it takes longer to lay it out than to ask a thread for it."""


Names: TypeAlias = "str | tuple[Names, ...]"  # the region of a value, or of each field of a tuple

NewValue: TypeAlias = tuple[int, int, Window | None]
"""The number of a result, of the parameter whose new value it is, and of which part of that."""


def program_from_module(
    module: nodes.Module,
    kernels: Mapping[str, KernelInterface] | None = None,
    updates: Sequence[NewValue] = (),
) -> Program:
    """The program of ``module.main``, which may hold calls of groups, tuples and projections only.

    Every value gets memory of its own and every result is copied to its output; the passes of
    ``ir.program`` make it better. Groups that are views become aliases. ``kernels`` says which
    operands are wanted packed, and what workspace is needed; a group without an entry takes its
    parameters and results as they are. Parameters and results that are tuples are flattened.
    ``updates`` says which results are new values of parameters.

    Sizes of kernels and functions are bound to those of the values they are applied to. Raises
    UnsupportedError for functions as values.
    """
    return _Conversion(module, kernels or {}).program(updates)


class _Conversion:
    def __init__(self, module: nodes.Module, kernels: Mapping[str, KernelInterface]) -> None:
        self.module = module
        self.kernels = kernels
        self.taken: set[str] = set()
        self.values: dict[nodes.Var, Names] = {}
        self.regions: dict[str, Region] = {}
        self.constants: dict[str, tuple[Array, PackInterface | None]] = {}
        self.constant_names: dict[Hashable, str] = {}
        self.sources: dict[str, str] = {}  # of aliases
        self.called: dict[str, nodes.Function] = {}  # functions that stay functions
        self.body: list[Instr] = []

    def program(self, updates: Sequence[NewValue]) -> Program:
        main = self.function("main", self.module.main)
        functions: list[Program] = []
        while len(functions) < len(self.called):
            functions.append(self.function(*[*self.called.items()][len(functions)]))
        regions = tuple(program_nodes.Constant(self.regions[name]) for name in self.constants)
        written = tuple(
            operations.Update(main.inputs[p].name, main.outputs[r].name, w) for r, p, w in updates
        )
        program = replace(main, constants=regions, updates=written, functions=tuple(functions))
        program = place_lifetimes(program)
        # Values last: a constant that is used only in packed form is never copied itself.
        used = {name for scope in scopes(program) for name in spans(scope)}
        regions = tuple(c.region for c in program.constants if c.region.name in used)
        values = _all_laid_out([self.constants[region.name] for region in regions])
        constants = tuple(map(program_nodes.Constant, regions, values))
        return replace(program, constants=constants)

    def declare(self, name: str, type: Type, into: list[Region]) -> Names:
        if isinstance(type, TupleType):
            return tuple(
                self.declare(f"{name}.{i}", field, into) for i, field in enumerate(type.fields)
            )
        region = self.region(name, type)
        into.append(region)
        return region.name

    def region(self, name: str, type: Type) -> Region:
        if not isinstance(type, TensorType):
            raise UnsupportedError(f"%{name} is a function; compiled code handles arrays only")
        region = Region(self.unique(name), type.shape, type.dtype)
        self.regions[region.name] = region
        return region

    def unique(self, name: str) -> str:
        base = re.sub(r"[^\w.]", "_", name, flags=re.ASCII) or "v"
        name, count = base, 1
        while name in self.taken:
            name, count = f"{base}.{count}", count + 1
        self.taken.add(name)
        return name

    def value(self, atom: nodes.Atom) -> Names:
        if isinstance(atom, nodes.Constant):
            return self.constant(atom.value, atom.name or "const")
        if isinstance(atom, nodes.GlobalVar):
            raise UnsupportedError(f"@{atom.name} is used as a value", span=atom.span)
        return self.values[atom]

    def constant(self, value: Array, name: str, pack: PackInterface | None = None) -> str:
        key = (id(value), None if pack is None else pack.layout)
        region = self.constant_names.get(key)
        if region is None:
            shape = tuple(value.shape) if pack is None else pack.packed_shape
            dtype = dtype_of(value.dtype) if pack is None else pack.packed_dtype
            type = TensorType(shape, dtype)
            region = self.constant_names[key] = self.region(name, type).name
            self.constants[region] = value, pack
        return region

    def block(self, block: nodes.Block) -> Names:
        """Converts the bindings of a block; returns its result."""
        for binding in block.bindings:
            self.values[binding.var] = self.convert(binding)
        return self.value(block.result)

    def nested(self, block: nodes.Block, into: Names) -> tuple[Instr, ...]:
        """Returns the instructions of a nested block, whose result they copy to ``into``."""
        around, self.body = self.body, []
        self.assign(_flat(self.block(block)), _flat(into))
        body, self.body = tuple(self.body), around
        return body

    def assign(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Copies regions to others at the same time: a source may be a target, too."""
        pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if self.root(s) != t]
        overwritten = {t for _, t in pairs}
        read: dict[str, str] = {}
        for source, _ in pairs:
            if self.root(source) in overwritten and source not in read:
                region = self.regions[source]
                saved = self.allocated(f"{source}.old", TensorType(region.shape, region.dtype))
                self.body.append(Copy(source, _name(saved)))
                read[source] = _name(saved)
        self.body.extend(Copy(read.get(s, s), t) for s, t in pairs)

    def convert(self, binding: nodes.Binding) -> Names:
        value = binding.value
        if isinstance(value, nodes.Tuple):
            return tuple(self.value(f) for f in value.fields)
        if isinstance(value, nodes.TupleGetItem):
            fields = self.value(value.value)
            if isinstance(fields, str):
                raise InternalError(f"field {value.index} of %{fields}, which is not a tuple")
            return fields[value.index]
        if isinstance(value, GraphCall):
            return self.call(binding.var, value)
        if isinstance(value, nodes.Var | nodes.Constant | nodes.GlobalVar):
            return self.value(value)
        if isinstance(value, nodes.If):
            return self.branch(binding.var, value)
        if isinstance(value, nodes.While):
            return self.while_loop(binding.var, value)
        if isinstance(value, nodes.For):
            return self.for_loop(binding.var, value)
        raise UnsupportedError("a function value cannot be compiled yet", span=value.span)

    def branch(self, var: nodes.Var, branch: nodes.If) -> Names:
        condition = _name(self.value(branch.condition))
        results = self.allocated(var.name, var.type)
        then, orelse = self.nested(branch.then, results), self.nested(branch.orelse, results)
        self.body.append(program_nodes.If(condition, then, orelse, branch.span))
        return results

    def while_loop(self, var: nodes.Var, loop: nodes.While) -> Names:
        carried = self.carried(loop.params, loop.initial)
        condition = loop.condition
        if any(binding.var is condition.result for binding in condition.bindings):
            # What the head declares is gone at the test.
            test = self.allocated(f"{var.name}.goes_on", condition.result.type)
            head = self.nested(condition, test)
        else:
            test, head = self.value(condition.result), ()
        body = self.nested(loop.body, carried)
        self.body.append(program_nodes.While(head, _name(test), body, loop.span))
        return carried

    def for_loop(self, _var: nodes.Var, loop: nodes.For) -> Names:
        extent: int | str
        if isinstance(loop.extent, nodes.Constant):
            extent = max(0, int(loop.extent.value))
        else:
            extent = _name(self.value(loop.extent))
        carried = self.carried(loop.params, loop.initial)
        index = self.region(loop.index.name, loop.index.type)
        self.values[loop.index] = index.name
        body = self.nested(loop.body, carried)
        self.body.append(program_nodes.For(index, extent, body, loop.span))
        return carried

    def carried(
        self, params: Sequence[nodes.Var], initial: Sequence[nodes.Atom]
    ) -> tuple[Names, ...]:
        """Returns the regions of what a loop carries, which hold the initial values."""
        # All of them are read before any region is written: none is a target yet.
        sources = [self.value(atom) for atom in initial]
        carried = tuple(self.allocated(p.name, p.type) for p in params)
        for param, source, target in zip(params, sources, carried, strict=True):
            self.assign(_flat(source), _flat(target))
            self.values[param] = target
        return carried

    def allocated(self, name: str, type: Type) -> Names:
        """Declares the memory of a value here."""
        made: list[Region] = []
        names = self.declare(name, type, made)
        self.body.extend(map(Alloc, made))
        return names

    def root(self, name: str) -> str:
        """Returns the region whose bytes an alias names."""
        while name in self.sources:
            name = self.sources[name]
        return name

    def call(self, var: nodes.Var, call: GraphCall) -> Names:
        args = [name for a in call.args for name in _flat(self.value(a))]
        name = getattr(call.op, "name", "")
        if isinstance(call.op, Operator) and call.op.traits & FREE:
            return self.alias(var, args[0])
        if isinstance(call.op, Operator) and Trait.SETS_SIZE in call.op.traits:
            (count,) = args
            symbol = next(iter(size_symbols(call.attrs["size"]).values()))
            self.body.append(operations.SetSize(symbol, count, call.attrs["most"], call.span))
            return count
        if isinstance(call.op, Operator) and Trait.LIBRARY in call.op.traits:
            return self.library(var, call, args)
        if not isinstance(call.op, nodes.GlobalVar):
            raise InternalError(f"{name} stands in @main outside of any group")
        if is_view(self.module.functions.get(name)):
            return self.alias(var, args[0])
        callee = self.module.functions.get(name)
        if isinstance(callee, nodes.Function) and not callee.attrs.get("primitive"):
            return self.invoke(var, call, callee)
        kernel = self.kernels.get(name)
        made: list[Region] = []
        results = self.declare(var.name, var.type, made)
        self.body.extend(Alloc(region) for region in made)
        access = dict.fromkeys(made, Access.OUT)
        if kernel is not None:
            written = [k for k in kernel.operands if k.role in ("out", "inout")]
            begun: set[int] = set()
            for region, k in zip(made, written):
                if k.begins_as is not None:
                    begun.add(k.begins_as[0])
                    self.body.append(Copy(args[k.begins_as[0]], region.name))
                    access[region] = Access.INOUT
            read = [arg for n, arg in enumerate(args) if n not in begun]
            args = [self.operand(name, arg, k) for arg, k in zip(read, kernel.operands)]
        sizes: dict[str, IntExpr] = {}
        if kernel is not None and kernel.sizes:
            shapes = [self.regions[n].shape for n in (*args, *(region.name for region in made))]
            params = [k.buffer.shape for k in kernel.operands]
            sizes = _bound(name, kernel.sizes, params, shapes, self.inherited(call, kernel.sizes))
        workspace = None
        if kernel is not None and kernel.workspace_bytes != 0:
            size = TensorType((substitute(kernel.workspace_bytes, sizes),), UINT8)
            space = self.region(f"{var.name}.workspace", size)
            self.body.append(Alloc(space))
            workspace = space.name
        operands = (
            *(Operand(Access.IN, arg) for arg in args),
            *(Operand(access[region], region.name) for region in made),
        )
        self.body.append(Call(name, operands, workspace, call.span, sizes=tuple(sizes.values())))
        return results

    def inherited(self, call: GraphCall, sizes: Sequence[Symbol]) -> dict[str, IntExpr]:
        """Returns those sizes of a kernel that may be in none of its operands."""
        group = self.module.functions.get(getattr(call.op, "name", ""))
        if not isinstance(group, nodes.Function) or len(group.sizes) != len(sizes):
            return {}
        values = sizes_of_call(group, call.args, call.attrs)
        return {size.name: value for size, value in zip(sizes, values, strict=True)}

    def library(self, var: nodes.Var, call: GraphCall, args: Sequence[str]) -> Names:
        """The call of a library function."""
        results = self.allocated(var.name, var.type)
        operands = (
            *(Operand(Access.IN, name) for name in args),
            *(Operand(Access.OUT, name) for name in _flat(results)),
        )
        function, options = call.attrs["function"], call.attrs["options"]
        self.body.append(operations.Library(function, operands, options, call.span))
        return results

    def invoke(self, var: nodes.Var, call: GraphCall, callee: nodes.Function) -> Names:
        """The call of a function that stays one; it is converted later."""
        name = getattr(call.op, "name", "")
        self.called.setdefault(name, callee)
        read = [Operand(Access.IN, n) for a in call.args for n in _flat(self.value(a))]
        results = self.allocated(var.name, var.type)
        written = [Operand(Access.OUT, n) for n in _flat(results)]
        values = sizes_of_call(callee, call.args, call.attrs)
        given = zip(callee.sizes.values(), values, strict=True)
        sizes = tuple(value for size, value in given if size in _sizes_of(callee))
        self.body.append(
            program_nodes.Invoke(name, (*read, *written), None, call.span, sizes=sizes)
        )
        return results

    def function(self, name: str, function: nodes.Function) -> Program:
        """A function of the program; it sees constants, and no other values."""
        self.body, inputs, outputs = [], list[Region](), list[Region]()
        for param in function.params:
            self.values[param] = self.declare(param.name, param.type, inputs)
        result = self.block(function.body)
        targets = self.declare("out", function.body.result.type, outputs)
        self.body.extend(map(Copy, _flat(result), _flat(targets)))
        checks = tuple(
            SizeCheck(r.left, r.relation, r.right, r.message, r.span) for r in function.requirements
        )
        return Program(
            name,
            tuple(inputs),
            tuple(outputs),
            (),
            tuple(self.body),
            sizes=_sizes_of(function),
            checks=checks,
        )

    def alias(self, var: nodes.Var, source: str) -> str:
        region = self.region(var.name, var.type)
        self.sources[region.name] = source
        self.body.append(Alias(region, source))
        return region.name

    def operand(self, kernel: str, name: str, operand: OperandInterface) -> str:
        """The region to hand to the kernel: ``name`` itself, or its packed copy."""
        if operand.pack is None:
            return name
        value, _ = self.constants.get(name, (None, None))
        if value is None:
            raise InternalError(
                f"@{kernel} wants {operand.buffer.name} packed beforehand, but %{name} is not "
                "a constant"
            )
        return self.constant(value, f"{name}.packed", operand.pack)


def _sizes_of(function: nodes.Function) -> tuple[Symbol, ...]:
    """The symbolic sizes of a function's parameters; data decides others."""
    sizes = size_symbols(*(size for p in function.params for size in sizes_in(p.type)))
    return tuple(sizes.values())


def _bound(
    callee: str,
    sizes: Sequence[Symbol],
    params: Sequence[Shape],
    args: Sequence[Shape],
    inherited: Mapping[str, IntExpr] | None = None,
) -> dict[str, IntExpr]:
    """Returns the values of a callee's sizes, from the shapes of its parameters and of what they
    are given, which have as many elements; ``inherited`` are those of the caller."""
    equations: list[tuple[IntExpr, IntExpr]] = []
    for param, arg in zip(params, args, strict=True):
        if len(param) == len(arg):
            equations += zip(param, arg, strict=True)
        equations.append((product(param), product(arg)))
    values = {**(inherited or {}), **solve([size.name for size in sizes], equations)}
    missing = [size.name for size in sizes if size.name not in values]
    if missing:
        raise InternalError(f"@{callee}: its operands do not determine the size {missing[0]}")
    return {size.name: values[size.name] for size in sizes}


def _all_laid_out(constants: Sequence[tuple[Array, PackInterface | None]]) -> list[Array]:
    """Returns constants as native code reads them: dense, aligned, and packed if a kernel requires
    it. Those that take time are laid out by several threads, the largest first.

    Programs built from the same constant share the result.
    """
    memory = HugePages(sum(value.nbytes for value, _ in constants))

    def laid_out(n: int) -> Array:
        value, pack = constants[n]
        if pack is None:
            return derived([value], "dense", lambda: interned(_dense(value, memory)))
        return derived([value], pack.layout, lambda: interned(pack.array(value, memory.array)))

    values: dict[int, Array] = {}
    order = sorted(range(len(constants)), key=lambda n: -constants[n][0].nbytes)
    large = [n for n in order if constants[n][0].nbytes >= LARGE_BYTES]
    values.update(zip(large, parallel_map(laid_out, large), strict=True))
    return [values[n] if n in values else laid_out(n) for n in range(len(constants))]


def _dense(value: Array, memory: HugePages) -> Array:
    # A copy even of what is dense: a program must not see what its owner writes there later.
    made = memory.array(value.shape, value.dtype)
    made[...] = value
    return made


def _name(names: Names) -> str:
    if isinstance(names, str):
        return names
    raise InternalError(f"a tuple of {len(names)} fields stands for an array")


def _flat(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else [n for field in names for n in _flat(field)]

"""Running a graph module kernel by kernel: what the compiled code of each fused group gives."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.kernel import Kernel, compile_kernel, prepare_operands
from loopwright.codegen.kernel_interface import is_view
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.runtime import pool
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dims import as_int
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.fusion.to_prim import group_to_prim
from loopwright.ir.graph.limits import DEFAULT_LIMITS, GraphLimits
from loopwright.ir.graph.nodes import (
    Block,
    Call,
    Constant,
    For,
    Function,
    GlobalVar,
    Module,
    Tuple,
    TupleGetItem,
)
from loopwright.ir.graph.operator import OPERATORS, Operator
from loopwright.ir.graph.passes.choose_algorithms import Preferences
from loopwright.ir.graph.pipeline import default_pipeline
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.ops import all_operators
from loopwright.ir.schedule.steps import Schedule
from loopwright.ir.tolerance import tolerance
from loopwright.ir.traits import Trait
from operators import array_type, reduction_length, samples_of

Array = np.ndarray[Any, Any]
Chooser = Callable[[PrimFunc], Schedule]


HOST_FLAGS = Target.host().level.cpu_flags
RUNNABLE = [n for n, level in ISA_LEVELS.items() if level.cpu_flags <= HOST_FLAGS][::-1]
"""The ISA levels whose code this machine can run, the newest first."""


def on_two_levels(cases: Sequence[Any], newest: str, older: Sequence[str]) -> list[tuple[Any, str]]:
    """Each case with the newest ISA level, and with one of the older ones, round robin."""
    return [
        (case, isa)
        for n, case in enumerate(cases)
        for isa in (newest, *older[n % max(1, len(older)) :][:1])
    ]


def guarded(array: Array) -> Array:
    """A copy of an array with canaries behind it, to be looked at by ``check_guard``."""
    raw = np.full(array.nbytes + 256, 0xA5, np.uint8)
    inner = raw[128 : 128 + array.nbytes].view(array.dtype).reshape(array.shape)
    inner[...] = array
    return inner


def check_guard(array: Array) -> None:
    raw = array
    while raw.base is not None:
        raw = raw.base
    assert (raw[:128] == 0xA5).all() and (raw[128 + array.nbytes :] == 0xA5).all()


def run_kernel(kernel: Kernel, target: Target, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a kernel compiled for ``target``; writes past a buffer fail the test."""
    loaded = load_object(compile_object(kernel.text, target), pool.symbols())
    operands = [guarded(a) for a in prepare_operands(kernel, inputs)]
    for operand, array in zip(kernel.operands, operands):
        if operand.role == "out":
            array.reshape(-1).view(np.uint8)[...] = 1  # garbage that is also a valid bool
    workspace = np.full(as_int(kernel.workspace_bytes) + 64, 1, np.uint8)
    start = (workspace.ctypes.data + 63) // 64 * 64
    handed = [*(a.ctypes.data for a in operands), start, *kernel.size_values]
    block = (ctypes.c_int64 * len(handed))(*handed)
    call = loaded.function(f"{kernel.name}.packed", ctypes.c_void_p)
    call(ctypes.addressof(block))
    for array in operands:
        check_guard(array)
    return [a for o, a in zip(kernel.operands, operands) if o.role.writes]


def interpret_kernel(kernel: Kernel, inputs: Mapping[str, Array]) -> list[Array]:
    """The same by the loop interpreter."""
    operands = prepare_operands(kernel, inputs)
    interpret(kernel.nest, {o.buffer.name: a for o, a in zip(kernel.operands, operands)})
    return [a for o, a in zip(kernel.operands, operands) if o.role.writes]


def operator_module(op: Operator, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> Module:
    """A module whose main applies one operator."""
    builder = Builder()
    params = [builder.param(f"x{n}", array_type(a)) for n, a in enumerate(arrays)]
    return Module({"main": builder.function(builder.emit(op, params, attrs))})


def lower(module: Module, limits: GraphLimits = DEFAULT_LIMITS) -> Module:
    for one in default_pipeline(Preferences(limits=limits)):
        module = one(module)
    return module


class Prepared(NamedTuple):
    """A sample's operands, its lowered module, the reference's result, and the terms summed."""

    args: Sequence[Any]
    module: Module
    wanted: Any
    length: int

    @property
    def terms(self) -> int:
        """Terms of all sums of the result, or its elements; at least those of the operands."""
        parts = self.wanted if isinstance(self.wanted, tuple | list) else [self.wanted]
        sums = max(1, self.length) * sum(np.size(part) for part in parts)
        return max(sums, *(a.size for a in self.args), 0)


@cache
def prepared(name: str) -> list[Prepared]:
    """The samples of an operator; the same for every target."""
    op = all_operators()[name]
    samples: list[Prepared] = []
    for sample in samples_of(op):
        attrs = op.complete_attrs(sample.attrs)
        with np.errstate(all="ignore"):
            wanted = op.reference(sample.args, attrs)
        length = reduction_length(op, [array_type(a) for a in sample.args], attrs)
        module = lower(operator_module(op, sample.args, sample.attrs))
        samples.append(Prepared(sample.args, module, wanted, length))
    return samples


def run_module(
    module: Module,
    arrays: Sequence[Array],
    target: Target,
    run: Callable[[Kernel, Target, Mapping[str, Array]], list[Array]] = run_kernel,
    choose: Chooser | None = None,
) -> Any:
    """The value of a lowered module's main, each group by ``run``."""
    main = module.main
    kernels: dict[str, Kernel] = {}

    def called(expr: Call, value: Callable[[Any], Any]) -> Any:
        if isinstance(expr.op, Operator):
            assert Trait.LIBRARY in expr.op.traits
            return expr.op.reference([value(a) for a in expr.args], expr.attrs)
        assert isinstance(expr.op, GlobalVar), expr
        group = module.functions[expr.op.name]
        assert isinstance(group, Function)
        if is_view(group) and group.body.result.type.dtype != group.params[0].type.dtype:
            # The compiler makes an alias of it.
            return evaluate(group, *map(value, expr.args))
        constant = [n for n, a in enumerate(expr.args) if isinstance(a, Constant)]
        prim = group_to_prim(expr.op.name, group, constant)
        if expr.op.name not in kernels:
            schedule = choose(prim) if choose else default_schedule(prim, target)[0]
            kernels[expr.op.name] = compile_kernel(prim, schedule, target)
        inputs = {p.name: value(a) for p, a in zip(prim.params, expr.args)}
        found = run(kernels[expr.op.name], target, inputs)
        result = group.type.result
        if isinstance(result, type(group.params)) or hasattr(result, "fields"):
            return tuple(f.reshape(t.shape) for f, t in zip(found, result.fields))
        return found[0].reshape(result.shape)

    def ran(block: Block, env: dict[Any, Any]) -> Any:
        def value(atom: Any) -> Any:
            return atom.value if isinstance(atom, Constant) else env[id(atom)]

        for binding in block.bindings:
            expr = binding.value
            if isinstance(expr, Tuple):
                made: Any = tuple(value(f) for f in expr.fields)
            elif isinstance(expr, TupleGetItem):
                made = value(expr.value)[expr.index]
            elif isinstance(expr, For):
                made = tuple(map(value, expr.initial))
                for index in range(int(value(expr.extent))):
                    inside = {id(p): each for p, each in zip(expr.params, made)}
                    made = ran(expr.body, {**env, **inside, id(expr.index): np.int64(index)})
            else:
                assert isinstance(expr, Call)
                made = called(expr, value)
            env[id(binding.var)] = made
        return value(block.result)

    return ran(main.body, {id(p): a for p, a in zip(main.params, arrays)})


def check_variants(prim: PrimFunc, target: Target, terms: int, **attrs: Any) -> ScheduleSpace:
    """Compares the default code of every variant of a convolution of one image and weights, with
    these attributes of ``nn.conv2d``, with float64, and finds its schedule again in the space."""
    rng = np.random.default_rng(3)
    arrays = {
        p.name: rng.standard_normal([as_int(s) for s in p.shape]).astype(np.float32)
        for p in prim.params
    }
    operator = OPERATORS["nn.conv2d"]
    x, w = (a.astype(np.float64) for a in arrays.values())
    given = {a.name: a.default for a in operator.attrs} | attrs
    exact = operator.reference([x[None], w], given)[0]
    rtol, atol = tolerance(FLOAT32, terms, scale=8.0)
    space = ScheduleSpace(prim, target)
    for variant in space.variants:
        schedule = variant.schedule(variant.defaults[0])
        (found,) = run_kernel(compile_kernel(prim, schedule, target), target, arrays)
        np.testing.assert_allclose(found, exact, rtol=rtol, atol=atol)
        row = space.row_of(schedule)
        assert row is not None and space.schedule(row) == schedule
    return space

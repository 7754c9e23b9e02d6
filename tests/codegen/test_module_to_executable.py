"""From a module of operators to native code: what stands behind the tracer, joined."""

import numpy as np
import pytest
from loopwright.codegen.in_place_rule import in_place_rule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.kernel_interface import is_view
from loopwright.codegen.program import compile_program
from loopwright.codegen.program_from_graph import program_from_module
from loopwright.codegen.target import Target
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.fusion.to_prim import group_to_prim
from loopwright.ir.graph.nodes import Call, Constant, Module
from loopwright.ir.graph.pipeline import default_pipeline
from loopwright.ir.graph.types import TensorType
from loopwright.ir.ops import get
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.verify import verify
from loopwright.ir.schedule.steps import Schedule, pack


def _compiled(module, pack_name=None):
    for graph_pass in default_pipeline():
        module = graph_pass(module)
    prims, kernels = {}, {}
    for binding in module.main.body.bindings:
        call = binding.value
        group = module.functions.get(call.op.name) if isinstance(call, Call) else None
        if group is None or is_view(group):
            continue
        name = call.op.name
        known = {i for i, a in enumerate(call.args) if isinstance(a, Constant)}
        prims[name] = group_to_prim(name, group, known)
        wanted = [p for p in prims[name].params if p.constant and p.shape == pack_name]
        schedule = Schedule(tuple(pack(p.name, "j", 16) for p in wanted))
        kernels[name] = compile_kernel(prims[name], schedule, Target.host())
    program = optimise(program_from_module(module, kernels), in_place_rule(prims))
    verify(program)
    return compile_program(program, kernels, Target.host())


def _module(build, *shapes):
    b = Builder()
    params = [b.param(f"x{n}", TensorType(s, FLOAT32)) for n, s in enumerate(shapes)]
    return Module({"main": b.function(build(b, *params))})


def test_a_network_with_packed_weights(rng):
    w, v = (rng.standard_normal(s).astype(np.float32) for s in ((20, 33), (33, 5)))

    def build(b, x):
        h = b.emit(get("nn.matmul"), (x, Constant(w, "w")))
        h = b.emit(get("nn.relu"), (h,))
        y = b.emit(get("nn.matmul"), (h, Constant(v, "v")))
        flat = b.emit(get("reshape"), (y,), {"newshape": (35,)})
        return b.make_tuple((b.emit(get("nn.softmax"), (y,)), flat, y))

    x = rng.standard_normal((7, 20)).astype(np.float32)
    compiled = _compiled(_module(build, (7, 20)), pack_name=(20, 33))
    assert "w.packed: float32[3, 20, 16]" in str(compiled.program)
    y = np.maximum(x @ w, 0) @ v
    soft = np.exp(y - y.max(-1, keepdims=True))
    soft /= soft.sum(-1, keepdims=True)
    for got, wanted in zip(compiled.executable([x]), (soft, y.ravel(), y), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_weight_that_is_stored_with_more_axes_is_packed(rng):
    w = rng.standard_normal((1, 20, 33)).astype(np.float32)

    def build(b, x):
        return b.emit(get("nn.matmul"), (x, Constant(w, "w")))

    x = rng.standard_normal((1, 7, 20)).astype(np.float32)
    compiled = _compiled(_module(build, (1, 7, 20)), pack_name=(20, 33))
    assert "w.packed" in str(compiled.program)
    np.testing.assert_allclose(compiled.executable([x])[0], x @ w, rtol=1e-4, atol=1e-5)


def test_a_residual_is_added_in_place(rng):
    w = rng.standard_normal((8, 8)).astype(np.float32)

    def build(b, x):
        h = b.emit(get("nn.softmax"), (x,))
        y = b.emit(get("nn.matmul"), (h, Constant(w, "w")))
        y = b.emit(get("add"), (y, h))
        return b.emit(get("sum"), (y,), {"axis": (0,)})

    x = rng.standard_normal((16, 8)).astype(np.float32)
    compiled = _compiled(_module(build, (16, 8)))
    h = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(compiled.executable([x])[0], (h @ w + h).sum(0), rtol=1e-4)


@pytest.mark.parametrize("size", [0, 1, 17])
def test_sizes_that_are_special(size):
    def build(b, x, y):
        z = b.emit(get("multiply"), (x, y))
        return b.make_tuple((z, b.emit(get("sum"), (z,), {"axis": None})))

    compiled = _compiled(_module(build, (size,), (size,)))
    x = np.arange(size, dtype=np.float32)
    z, total = compiled.executable([x, x])
    np.testing.assert_array_equal(z, x * x)
    np.testing.assert_allclose(total, (x * x).sum())

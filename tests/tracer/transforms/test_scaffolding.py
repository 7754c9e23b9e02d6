"""Gradients of fifteen programs are free of what differentiating leaves behind: zeros that are
added, factors of one, sums over axes of one element, transposes and reshapes that do nothing."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.graph.nodes import Call, Constant, Function, Module
from loopwright.ir.graph.operator import Operator
from loopwright.ir.graph.pipeline import default_pipeline
from loopwright.ir.graph.walk import all_bindings
from loopwright.ir.pass_context import pass_name

X = np.random.default_rng(0).uniform(0.5, 1.5, (6, 4))
W = np.random.default_rng(1).uniform(0.5, 1.5, (4, 4))

PROGRAMS = {
    "square": lambda x: (x * x).sum(),
    "tanh": lambda x: np.tanh(x).sum(),
    "mean": lambda x: (x - x.mean()).var(),
    "layer": lambda x: np.maximum(x @ W + 1, 0).sum(),
    "layers": lambda x: (np.tanh(np.tanh(x @ W) @ W) ** 2).mean(),
    "bias": lambda x: ((x + x[0]) * x[:, :1]).sum(),
    "transposes": lambda x: (x.T.reshape(2, 2, 6).transpose(2, 0, 1) ** 3).sum(),
    "slices": lambda x: (x[1:] * x[:-1]).sum() + x[::2].prod(),
    "softmax": lambda x: (lw.nn.softmax(x, axis=1) ** 2).sum(),
    "log_softmax": lambda x: -lw.nn.log_softmax(x, axis=1)[:, 0].mean(),
    "layer_norm": lambda x: (lw.nn.layer_norm(x, np.ones(4), np.ones(4)) ** 3).sum(),
    "attention": lambda x: (lw.nn.softmax(x @ x.T / 2, axis=1) @ x).sum(),
    "gathered": lambda x: (x[np.array([0, 2, 2])] ** 2).sum(),
    "choice": lambda x: np.where(x > 1, x, 2 * x).sum(),
    "concatenated": lambda x: (np.concatenate([x, x * 2], axis=1) ** 2).sum(),
}


def is_filled(atom, number: float) -> bool:
    return isinstance(atom, Constant) and atom.value.size > 0 and bool((atom.value == number).all())


def scaffolding(call: Call, definitions) -> str:
    """What is wrong with a call; an empty string if nothing is."""
    name, args = call.operator.name, call.args
    types = [a.type for a in args]
    made = definitions.get(args[0]) if args else None
    inner = made.operator.name if isinstance(made, Call) and isinstance(made.op, Operator) else ""
    if name in ("add", "subtract") and any(is_filled(a, 0) for a in args[name == "subtract" :]):
        return "a zero is added"
    if name == "multiply" and any(is_filled(a, 1) for a in args):
        return "a factor of one"
    shape = call.attrs.get("newshape", call.attrs.get("shape"))
    if name in ("reshape", "broadcast_to") and types[0].shape == tuple(shape):
        return f"a {name} to the same shape"
    if name == "sum" and all(types[0].shape[n] == 1 for n in call.attrs["axis"] or (-1,)):
        return "a sum over one element"
    if name == inner and name in ("transpose", "reshape", "negative"):
        return f"a {name} of a {name}"
    return "a copy" if name == "stop_gradient" else ""


def optimised(function, *args) -> Module:
    """The graph as it is when operators are about to be fused."""
    module = lw.compile(function).trace(*args).module
    for step in default_pipeline():
        if pass_name(step) == "fuse_operators":
            return module
        module = step(module)
    raise AssertionError("nothing is fused")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gradient_has_no_scaffolding(name: str) -> None:
    module = optimised(lw.grad(PROGRAMS[name]), X)
    left: list[str] = []
    for function in module.functions.values():
        if isinstance(function, Function):
            calls = {b.var: b.value for b in all_bindings(function)}
            left += [
                f"{what}: {value}"
                for value in calls.values()
                if isinstance(value, Call) and isinstance(value.op, Operator)
                if (what := scaffolding(value, calls))
            ]
    assert not left, "\n".join([*left, str(module)])


def test_a_gradient_in_full() -> None:
    text = str(optimised(lw.grad(lambda x: np.tanh(x).sum()), X[0]).main)
    assert [line.split("/*")[0].strip() for line in text.splitlines()[1:-1]] == [
        "%0 = tanh(%x);",
        "%1 = multiply(%0, %0);",
        "subtract(1f64, %1)",
    ]

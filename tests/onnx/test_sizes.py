"""Models whose inputs have symbolic sizes: what they compute of shapes stays exact."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_models import model, value

make = helper.make_node
N = lw.Dim("n", min=1, max=64)
M = lw.Dim("m", min=1, max=64)


def ints(**constants: Any) -> dict[str, Any]:
    return {name: np.array(value, np.int64) for name, value in constants.items()}


MODELS = {
    "reshape": (
        [
            make("Shape", ["x"], ["s"]),
            make("Gather", ["s", "zero"], ["n"], axis=0),
            make("Unsqueeze", ["n", "axis"], ["n1"]),
            make("Concat", ["n1", "heads"], ["to"], axis=0),
            make("Reshape", ["x", "to"], ["h"]),
            make("Transpose", ["h"], ["y"], perm=[1, 0, 2]),
        ],
        ints(zero=0, axis=[0], heads=[2, -1]),
    ),
    "two heads to a batch, back": (
        [
            make("Shape", ["x"], ["s"]),
            make("Slice", ["s", "zero", "one"], ["n"]),
            make("Mul", ["n", "two"], ["rows"]),
            make("Concat", ["rows", "two"], ["to"], axis=0),
            make("Reshape", ["x", "to"], ["z"]),
            make("Shape", ["z"], ["s2"]),
            make("Gather", ["s2", "zero"], ["rows2"], axis=0),
            make("Div", ["rows2", "two"], ["n2"]),
            make("Concat", ["n2", "rest"], ["back"], axis=0),
            make("Reshape", ["z", "back"], ["y"]),
        ],
        ints(zero=[0], one=[1], two=[2], rest=[-1]),
    ),
    "mask": (
        [
            make("Shape", ["x"], ["s"]),
            make("Gather", ["s", "zero"], ["n"], axis=0),
            make("Range", ["zero", "n", "one"], ["places"]),
            make("Unsqueeze", ["places", "axis"], ["column"]),
            make("Less", ["column", "three"], ["less"]),
            make("Expand", ["less", "s"], ["mask"]),
            make("Where", ["mask", "x", "nothing"], ["y"]),
        ],
        {**ints(zero=0, one=1, axis=[1], three=3), "nothing": np.float32(0)},
    ),
    "sizes as numbers": (
        [
            make("Shape", ["x"], ["s"]),
            make("Cast", ["s"], ["f"], to=1),
            make("ReduceProd", ["s"], ["count"], keepdims=0),
            make("Cast", ["count"], ["g"], to=1),
            make("Div", ["x", "g"], ["a"]),
            make("Sqrt", ["f"], ["root"]),
            make("ReduceSum", ["root"], ["total"], keepdims=0),
            make("Add", ["a", "total"], ["y"]),
        ],
        {},
    ),
    "table of places": (
        [
            make("Shape", ["x"], ["s"], start=0, end=1),
            make("Slice", ["table", "zero", "s", "zero"], ["part"]),
            make("ConstantOfShape", ["s"], ["zeros"]),
            make("Unsqueeze", ["zeros", "one"], ["column"]),
            make("Add", ["x", "part"], ["a"]),
            make("Add", ["a", "column"], ["y"]),
        ],
        {"table": np.arange(256, dtype=np.float32).reshape(64, 4), **ints(zero=[0], one=[1])},
    ),
    "default of a dimension": (
        [
            make("Shape", ["x"], ["s"]),
            make("Equal", ["s", "minus"], ["open"]),
            make("Where", ["open", "ones", "s"], ["to"]),
            make("Tile", ["x", "twice"], ["t"]),
            make("Expand", ["one", "to"], ["e"]),
            make("Split", ["t"], ["t0", "t1"], axis=0),
            make("Slice", ["t1", "start", "end", "axes"], ["u"]),
            make("Add", ["e", "u"], ["y"]),
        ],
        {
            **ints(minus=-1, ones=[1, 1], twice=[2, 1], start=[0], end=[2**63 - 1], axes=[1]),
            "one": np.ones((1, 1), np.float32),
        },
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_arithmetic_of_shapes_stays_exact(name: str) -> None:
    nodes, constants = MODELS[name]
    proto = model(nodes, [value("x", ["n", 4])], ["y"], constants)
    f = lw.from_onnx(proto, shapes={"x": (N, 4)})
    peer = ReferenceEvaluator(proto)
    for n in (1, 5, 64):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        (wanted,) = peer.run(None, {"x": x})
        np.testing.assert_allclose(f(x), wanted, rtol=1e-5, atol=1e-6)


def test_attention_over_a_past() -> None:
    """Keys of a past and new ones, and the causal mask behind the past."""
    nodes = [
        make("Concat", ["past", "x"], ["keys"], axis=0),
        make("Shape", ["past"], ["ps"], start=0, end=1),
        make("Shape", ["keys"], ["ks"], start=0, end=1),
        make("Squeeze", ["ps"], ["p"]),
        make("Squeeze", ["ks"], ["k"]),
        make("Range", ["p", "k", "one"], ["rows"]),
        make("Range", ["zero", "k", "one"], ["columns"]),
        make("Unsqueeze", ["rows", "axis"], ["rows1"]),
        make("LessOrEqual", ["columns", "rows1"], ["mask"]),
        make("Transpose", ["keys"], ["kt"]),
        make("MatMul", ["x", "kt"], ["scores"]),
        make("Where", ["mask", "scores", "low"], ["masked"]),
        make("Softmax", ["masked"], ["weights"]),
        make("MatMul", ["weights", "keys"], ["y"]),
    ]
    constants = {**ints(one=1, zero=0, axis=[1]), "low": np.float32(-1e9)}
    inputs = [value("x", ["n", 8]), value("past", ["m", 8])]
    proto = model(nodes, inputs, ["y", "keys"], constants)
    f = lw.from_onnx(proto, shapes={"x": (N, 8), "past": (M, 8)})
    peer = ReferenceEvaluator(proto)
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (1, 37), (5, 3), (64, 64)):
        x, past = (rng.standard_normal((s, 8)).astype(np.float32) for s in (n, m))
        for result, wanted in zip(f(x, past), peer.run(None, {"x": x, "past": past}), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_images_of_any_size() -> None:
    nodes = [
        make("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        make("Relu", ["c"], ["r"]),
        make("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        make("GlobalAveragePool", ["p"], ["g"]),
        make("Flatten", ["g"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    proto = model(nodes, [value("x", ["n", 3, "h", "w0"])], ["y"], {"w": w})
    sizes = (lw.Dim("n", min=1), 3, lw.Dim("h", min=4), lw.Dim("w", min=4))
    f = lw.from_onnx(proto, shapes={"x": sizes})
    peer = ReferenceEvaluator(proto)
    for n, h, wide in ((1, 4, 4), (2, 17, 30), (3, 8, 5)):
        x = rng.standard_normal((n, 3, h, wide)).astype(np.float32)
        (wanted,) = peer.run(None, {"x": x})
        np.testing.assert_allclose(f(x), wanted, rtol=1e-4, atol=1e-5)


def test_a_comparison_that_the_range_leaves_open_becomes_a_requirement() -> None:
    nodes = [
        make("Shape", ["x"], ["s"], start=0, end=1),
        make("Sub", ["s", "three"], ["less"]),
        make("ConstantOfShape", ["less"], ["zeros"]),
        make("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        make("Add", ["x", "sum"], ["y"]),
    ]
    proto = model(nodes, [value("x", ["n", 2])], ["y"], ints(three=[3]))
    f = lw.from_onnx(proto, shapes={"x": (N, 2)})
    x = np.ones((5, 2), np.float32)
    np.testing.assert_array_equal(f(x), x)
    with pytest.raises(lw.LoopwrightError, match=r"n"):
        f(x[:2])

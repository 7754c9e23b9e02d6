"""NonZero, Compress, Unique and NonMaxSuppression of inputs: data decides the results' sizes."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import model, value

RNG = np.random.default_rng(0)
make = helper.make_node


def check(proto: ModelProto, feeds: dict[str, Any], **shapes: Any) -> lw.CompiledModule:
    """Compares the results with those of the reference, for several draws of the same shapes."""
    compiled = lw.from_onnx(proto, shapes={n: x.shape for n, x in feeds.items()} | shapes)
    reference = ReferenceEvaluator(proto)
    for _ in range(3):
        results = compiled.run(feeds)
        for name, want in zip(results, reference.run(None, feeds), strict=True):
            got = results[name]
            assert (got.shape, got.dtype) == (want.shape, want.dtype), name
            np.testing.assert_array_equal(got, want)
        feeds = {n: RNG.permuted(x) for n, x in feeds.items()}
    return compiled


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4)])
def test_places_of_what_is_not_zero(shape: tuple[int, ...]) -> None:
    proto = model([make("NonZero", ["x"], ["y"])], [value("x", None)], ["y"])
    check(proto, {"x": RNG.integers(0, 2, shape).astype(np.float32)})
    for fill in (0, 1):  # none of them, and all
        check(proto, {"x": np.full(shape, fill, np.float32)})


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_what_a_condition_chooses(axis: int | None) -> None:
    attributes = {} if axis is None else {"axis": axis}
    node = make("Compress", ["x", "c"], ["y"], **attributes)
    proto = model([node], [value("x", None), value("c", None, bool)], ["y"])
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    for condition in ([True, False, True], [False, True], [False, False, False]):
        check(proto, {"x": x, "c": np.array(condition)})


@pytest.mark.parametrize("ordered", [0, 1])
def test_distinct_elements(ordered: int) -> None:
    node = make("Unique", ["x"], ["y", "first", "inverse", "count"], sorted=ordered)
    proto = model([node], [value("x", None)], ["y", "first", "inverse", "count"])
    check(proto, {"x": RNG.integers(0, 4, 12).astype(np.float32)})
    if ordered:  # the reference fails at others
        check(proto, {"x": RNG.integers(0, 3, (2, 5)).astype(np.float32)})


def test_distinct_rows_are_known() -> None:
    node = make("Unique", ["x"], ["y"], axis=0)
    proto = model([node], [value("x", [3, 2])], ["y"])
    with pytest.raises(lw.UnsupportedError, match=r"input X has to be known .* input 'x'"):
        lw.from_onnx(proto)
    x = np.float32([[1, 2], [0, 1], [1, 2]])
    made = lw.from_onnx(proto, constants={"x": x}).run({})
    np.testing.assert_array_equal(made["y"], [[0, 1], [1, 2]])


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("limit", [0, 3, 100])
def test_boxes_that_overlap_no_better_one(centred: int, limit: int) -> None:
    names = ["boxes", "scores", "limit", "overlap", "least"]
    node = make("NonMaxSuppression", names, ["y"], center_point_box=centred)
    constants = {
        "limit": np.array([limit], np.int64),
        "overlap": np.float32([0.3]),
        "least": np.float32([0.2]),
    }
    proto = model([node], [value("boxes", None), value("scores", None)], ["y"], constants)
    corners = RNG.random((2, 9, 2)).astype(np.float32)
    sides = RNG.random((2, 9, 2)).astype(np.float32)
    boxes = np.concatenate([corners, sides if centred else corners + sides], -1)
    scores = RNG.permutation(2 * 3 * 9).reshape(2, 3, 9).astype(np.float32) / 54
    compiled = lw.from_onnx(proto, shapes={"boxes": boxes.shape, "scores": scores.shape})
    reference = ReferenceEvaluator(proto)
    for _ in range(3):
        feeds = {"boxes": boxes, "scores": scores}
        (want,) = reference.run(None, feeds)
        np.testing.assert_array_equal(compiled.run(feeds)["y"], np.reshape(want, (-1, 3)))
        scores = RNG.permuted(scores)


def test_what_is_computed_of_them_has_their_sizes() -> None:
    nodes = [
        make("NonZero", ["x"], ["at"]),
        make("Transpose", ["at"], ["rows"]),
        make("GatherND", ["x", "rows"], ["chosen"]),
        make("Mul", ["chosen", "chosen"], ["squares"]),
        make("ReduceSum", ["squares"], ["total"], keepdims=0),
    ]
    proto = model(nodes, [value("x", None)], ["total", "squares", "rows"])
    x = RNG.integers(-2, 3, (4, 5)).astype(np.float32)
    compiled = check(proto, {"x": x})
    again = lw.build(str(compiled.module), name="again")  # the text says all of it
    for got, want in zip(again(x), compiled(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_sizes_of_inputs_may_be_symbolic_besides() -> None:
    proto = model([make("NonZero", ["x"], ["y"])], [value("x", ["n", 3])], ["y"])
    compiled = lw.from_onnx(proto, shapes={"x": (lw.Dim("n", min=1, max=64), 3)})
    for rows in (1, 5, 20):
        x = RNG.integers(0, 2, (rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], np.stack(np.nonzero(x)))

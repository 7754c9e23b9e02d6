"""Sequences and optionals as inputs and outputs of models: lists of arrays, and None."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx_models import model, value

make = helper.make_node
A, B = np.float32([1, 2]), np.float32([3, 4, 5])
FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
SEQUENCE = helper.make_sequence_type_proto(FLOATS)


def _input(name: str, kind: Any) -> Any:
    return helper.make_value_info(name, kind)


def _appended() -> ModelProto:
    nodes = [make("SequenceInsert", ["xs", "y"], ["all"]), make("SequenceLength", ["all"], ["n"])]
    return model(nodes, [_input("xs", SEQUENCE), value("y", None)], ["all", "n"])


def test_a_sequence_is_a_list_of_arrays() -> None:
    f = lw.from_onnx(_appended(), shapes={"xs": [(2,), (3,)], "y": (1,)})
    assert (f.inputs, f.outputs) == (("xs", "y"), ("all", "n"))
    assert [[str(each) for each in f.specs[0]], str(f.specs[1])] == [
        ["float32[2]", "float32[3]"],
        "float32[1]",
    ]
    results = f.run({"xs": [A, B], "y": A[:1]})
    assert isinstance(results["all"], list) and results["n"] == 3
    for got, want in zip(results["all"], [A, B, A[:1]], strict=True):
        np.testing.assert_array_equal(got, want)
    again = lw.build(str(f.module))
    np.testing.assert_array_equal(again([A, B], A[:1])[0][1], B)


def test_a_sequence_alone_is_the_result() -> None:
    node = make("SplitToSequence", ["x"], ["parts"], axis=0)
    f = lw.from_onnx(model([node], [value("x", [3])], ["parts"]))
    assert [each.tolist() for each in f(B)] == [[3], [4], [5]]
    assert [each.tolist() for each in f.run({"x": B})["parts"]] == [[3], [4], [5]]


def test_an_empty_sequence_and_one_of_constants() -> None:
    f = lw.from_onnx(_appended(), shapes={"xs": [], "y": (2,)})
    assert [each.tolist() for each in f.run({"xs": [], "y": A})["all"]] == [[1, 2]]
    f = lw.from_onnx(_appended(), shapes={"y": (2,)}, constants={"xs": [A, B]})
    assert [each.tolist() for each in f.run({"y": A})["all"]] == [[1, 2], [3, 4, 5], [1, 2]]


def test_how_many_elements_a_sequence_has_is_asked_for() -> None:
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        lw.from_onnx(_appended(), shapes={"y": (2,)})
    assert caught.value.notes == ("xs : sequence of f32[...]",)
    assert "shapes={'xs': [(...), ...]}" in str(caught.value)


def test_shapes_that_are_none() -> None:
    with pytest.raises(lw.LoopwrightValueError, match="the sizes of input 'xs' are 2"):
        lw.from_onnx(_appended(), shapes={"xs": (2, 3), "y": (2,)})


def test_calls_with_other_lists_are_refused() -> None:
    f = lw.from_onnx(_appended(), shapes={"xs": [(2,), (3,)], "y": (1,)})
    for other in ([A], [B, A], [A, B, B]):
        with pytest.raises(lw.LoopwrightTypeError, match="compiled for"):
            f.run({"xs": other, "y": A[:1]})


def _present(kind: Any) -> ModelProto:
    nodes = [make("OptionalHasElement", ["x"], ["there"])]
    return model(nodes, [_input("x", helper.make_optional_type_proto(kind))], ["there"], opset=18)


def test_an_optional_is_there_unless_it_is_none() -> None:
    assert lw.from_onnx(_present(FLOATS), shapes={"x": (2,)}).run({"x": A})["there"]
    assert lw.from_onnx(_present(SEQUENCE), shapes={"x": [(2,)]}).run({"x": [A]})["there"]
    for kind in (FLOATS, SEQUENCE):
        assert not lw.from_onnx(_present(kind), constants={"x": None}).run({})["there"]


def test_saved_and_kept_models_have_lists(tmp_path: Any) -> None:
    f = lw.from_onnx(_appended(), shapes={"xs": [(2,), (3,)], "y": (1,)})
    f.lower().save(tmp_path / "f.lw")
    results = lw.load(tmp_path / "f.lw")([A, B], A[:1])
    assert [each.tolist() for each in results[0]] == [[1, 2], [3, 4, 5], [1]]

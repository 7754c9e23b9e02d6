"""Functions, inner graphs, known values: what the backend tests of ``onnx`` do not reach."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, helper, numpy_helper
from onnx_models import model, value

X = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
make = helper.make_node


def test_shape_arithmetic_leaves_nothing_in_the_graph() -> None:
    nodes = [
        make("Shape", ["x"], ["s"]),
        make("Gather", ["s", "zero"], ["rows"]),
        make("Concat", ["rows", "rest"], ["to"], axis=0),
        make("Reshape", ["x", "to"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([3, -1])}
    f = lw.from_onnx(model(nodes, [value("x", [2, 6])], ["y"], constants))
    assert [b.value.op.name for b in f.module.main.body.bindings] == ["reshape"]
    np.testing.assert_array_equal(f(X), X.reshape(2, 3, 2))


def test_a_function_of_the_model_with_attributes() -> None:
    scale = make("LeakyRelu", ["a"], ["b"])
    scale.attribute.add(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function(
        "own", "Scale", ["a"], ["b"], [scale], opsets,
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )  # fmt: skip
    nodes = [
        make("Scale", ["x"], ["y"], domain="own"),
        make("Scale", ["x"], ["z"], domain="own", slope=0.25),
    ]
    proto = model(nodes, [value("x", [2, 6])], ["y", "z"])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(function)
    y, z = lw.from_onnx(proto)(X)
    np.testing.assert_allclose(y, np.where(X > 0, X, X / 2))
    np.testing.assert_allclose(z, np.where(X > 0, X, X / 4))


def test_a_loop_sees_the_values_around_it() -> None:
    body = helper.make_graph(
        [make("Add", ["h", "x"], ["h2"]), make("Identity", ["going"], ["going2"])],
        "body",
        [value("step", [], np.int64), value("going", [], bool), value("h", [2, 6])],
        [helper.make_empty_tensor_value_info(n) for n in ("going2", "h2", "h2")],
    )
    node = make("Loop", ["three", "", "x"], ["y", "all"], body=body)
    f = lw.from_onnx(model([node], [value("x", [2, 6])], ["y", "all"], {"three": np.array(3)}))
    y, every = f(X)
    np.testing.assert_allclose(y, 4 * X, rtol=1e-6)
    np.testing.assert_allclose(every, np.stack([2 * X, 3 * X, 4 * X]), rtol=1e-6)


def _if() -> ModelProto:
    branches = {
        name: helper.make_graph([make(op, ["x"], [name])], name, [], [
            helper.make_empty_tensor_value_info(name)])
        for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }  # fmt: skip
    proto = model(
        [make("If", ["c"], ["y"], name="choice", **branches)],
        [value("x", [2, 6]), value("c", [], bool)],
        ["y"],
    )
    return proto


def test_a_branch_is_taken_when_its_condition_is_known() -> None:
    np.testing.assert_array_equal(lw.from_onnx(_if(), constants={"c": True})(X), np.maximum(X, 0))
    np.testing.assert_array_equal(lw.from_onnx(_if(), constants={"c": False})(X), -X)
    f = lw.from_onnx(_if())
    np.testing.assert_array_equal(f(X, np.bool_(True)), np.maximum(X, 0))
    np.testing.assert_array_equal(f(X, np.bool_(False)), -X)


def test_a_shape_that_depends_on_an_input_is_an_error_that_names_it() -> None:
    proto = model(
        [make("Reshape", ["x", "s"], ["y"], name="choice")],
        [value("x", [2, 6]), value("s", [2], np.int64)],
        ["y"],
    )
    with pytest.raises(lw.UnsupportedError) as caught:
        lw.from_onnx(proto)
    assert caught.value.message == (
        "Reshape 'choice': its input shape has to be known when the model is compiled, and depends "
        "on the model's input 's'"
    )
    assert "constants={'s': ...}" in str(caught.value)


def test_constants_are_not_inputs_any_more() -> None:
    proto = model(
        [make("Reshape", ["x", "s"], ["y"])], [value("x", [2, 6]), value("s", [2], np.int64)], ["y"]
    )
    f = lw.from_onnx(proto, constants={"s": [3, 4]})
    assert f.inputs == ("x",)
    assert f(X).shape == (3, 4)
    with pytest.raises(lw.LoopwrightValueError, match="has no input 'n'"):
        lw.from_onnx(proto, constants={"n": [3, 4]})


def test_outputs_that_need_no_input() -> None:
    table = numpy_helper.from_array(X, "table")
    nodes = [make("Constant", [], ["t"], value=table), make("Identity", ["x"], ["same"])]
    t, same = lw.from_onnx(model(nodes, [value("x", [2, 6])], ["t", "same"]))(2 * X)
    np.testing.assert_array_equal(t, X)
    np.testing.assert_array_equal(same, 2 * X)


def test_opset_and_attribute_decide_about_the_row() -> None:
    by_attribute = model([make("ReduceSum", ["x"], ["y"], axes=[1], keepdims=0)],
                         [value("x", [2, 6])], ["y"], opset=11)  # fmt: skip
    by_input = model([make("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
                     [value("x", [2, 6])], ["y"], {"axes": np.array([1])}, opset=13)  # fmt: skip
    for proto in (by_attribute, by_input):
        np.testing.assert_allclose(lw.from_onnx(proto)(X), X.sum(1), rtol=1e-5)
    by_attribute.opset_import[0].version = 13
    with pytest.raises(lw.UnsupportedError) as caught:
        lw.from_onnx(by_attribute)
    assert caught.value.notes == ("attribute axes of ReduceSum: y",)


@pytest.mark.parametrize(
    ("op", "opset", "attributes", "expected"),
    [
        ("Squeeze", 11, {"axes": [0]}, X),
        ("Squeeze", 11, {}, X),
        ("Unsqueeze", 11, {"axes": [0, 2]}, X[None, None, None]),
        ("Split", 11, {"axis": 2, "split": [2, 4]}, X[None, :, :2]),
        ("Split", 11, {"axis": 2}, X[None]),
        ("Slice", 9, {"starts": [1, 2], "ends": [3, 100], "axes": [1, 2]}, X[None, 1:, 2:]),
        ("Slice", 9, {"starts": [0, 1], "ends": [1, 9]}, X[None, 1:]),
        ("Pad", 10, {"pads": [0, 0, 1, 0, 0, 2], "value": 2.5},
         np.pad(X[None], [(0, 0), (0, 0), (1, 2)], constant_values=2.5)),
        ("TopK", 9, {"k": 2}, -np.sort(-X[None])[..., :2]),
        ("ReduceMax", 11, {"keepdims": 0}, X.max()),
        ("Upsample", 7, {"scales": [1.0, 2.0, 1.0]}, X[None].repeat(2, 1)),
    ],
)  # fmt: skip
def test_inputs_were_attributes_in_earlier_opsets(op, opset, attributes, expected) -> None:
    proto = model([make(op, ["x"], ["y"], **attributes)], [value("x", [1, 2, 6])], ["y"])
    proto.opset_import[0].version = opset
    np.testing.assert_allclose(lw.from_onnx(proto)(X[None]), expected, rtol=1e-6)


def test_parts_may_be_long() -> None:
    """Each part has to be an array that can be made; their sizes are not those of one array."""
    sizes = np.array([768, 768, 768])
    names = ["a", "b", "c"]
    nodes = [make("Split", ["x", "sizes"], names, axis=1), make("Sum", names, ["y"])]
    f = lw.from_onnx(model(nodes, [value("x", [1, 2304])], ["y"], {"sizes": sizes}))
    assert f.module.main.params[0].type.shape == (1, 2304)

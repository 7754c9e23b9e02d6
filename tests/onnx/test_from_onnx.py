"""``lw.from_onnx``: what it takes, what it gives, and what it says of models that do not fit."""

from __future__ import annotations

import subprocess
import sys

import loopwright as lw
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx_models import model, value

W = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)


def _layer(rows: int | str = 2, weight: np.ndarray = W) -> ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x/in 1", "W/0"], ["h"], name="/l1/MatMul"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    return model(nodes, [value("x/in 1", [rows, 8])], ["h", "y"], {"W/0": weight})


def test_a_path_bytes_or_a_model_with_names_of_any_kind(tmp_path) -> None:
    path = tmp_path / "layer.onnx"
    path.write_bytes(_layer().SerializeToString())
    for source in (path, str(path), path.read_bytes(), _layer()):
        f = lw.from_onnx(source)
        assert (f.inputs, f.outputs) == (("x/in 1",), ("h", "y"))
        results = f.run({"x/in 1": X})
        np.testing.assert_allclose(results["h"], X @ W, rtol=1e-5)
        np.testing.assert_allclose(results["y"], np.maximum(X @ W, 0), rtol=1e-5, atol=1e-6)


def test_big_tensors_say_where_their_data_is() -> None:
    """Some tools write the default of ``data_location``, behind the data."""
    w = np.random.default_rng(0).standard_normal((8, 3000)).astype(np.float32)
    layer = _layer(weight=w)
    layer.graph.initializer[0].data_location = TensorProto.DEFAULT
    f = lw.from_onnx(layer.SerializeToString())
    np.testing.assert_allclose(f(X)[0], X @ w, rtol=1e-5, atol=1e-5)


def test_each_line_of_a_dump_names_its_node(tmp_path) -> None:
    path = tmp_path / "dumped.onnx"
    path.write_bytes(_layer().SerializeToString())
    text = lw.from_onnx(path).as_text()
    assert "dumped.onnx:1  /l1/MatMul: h = MatMul(x/in 1, W/0)" in text


def test_open_sizes_are_asked_for() -> None:
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        lw.from_onnx(_layer("batch"))
    assert caught.value.notes == ("x/in 1 : f32[batch, 8]",)
    assert "--arg 'x/in 1=f32[1,8]'" in str(caught.value)
    assert lw.from_onnx(_layer("batch"), shapes={"x/in 1": (2, 8)})(X)[0].shape == (2, 4)


def test_names_of_sizes_make_one_model_for_all() -> None:
    f = lw.from_onnx(_layer("batch"), shapes={"x/in 1": ("batch", 8)})
    for rows in (2, 0, 1, 9):
        x = np.ones((rows, 8), np.float32)
        np.testing.assert_allclose(f(x)[0], x @ W, rtol=1e-5)
    assert f.cache_info().currsize == 1
    with pytest.raises(lw.LoopwrightTypeError, match="but this code was compiled for"):
        f(np.ones((2, 9), np.float32))
    with pytest.raises(lw.LoopwrightValueError, match="not ints or names"):
        lw.from_onnx(_layer("batch"), shapes={"x/in 1": (2.5, 8)})


def test_an_error_names_the_node_and_its_operands() -> None:
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        lw.from_onnx(_layer(weight=W.T))
    assert caught.value.message.startswith("MatMul '/l1/MatMul': nn.matmul: inner sizes differ")
    assert caught.value.notes == ("x/in 1 : float32[2, 8]", "W/0    : float32[4, 8]")


def test_all_that_is_not_supported_is_one_error() -> None:
    proto = _layer()
    proto.graph.node[0].attribute.append(helper.make_attribute("speed", 1))
    proto.graph.node[1].op_type = "Rely"
    with pytest.raises(lw.UnsupportedError) as caught:
        lw.from_onnx(proto)
    assert caught.value.notes == (
        "attribute speed of MatMul: /l1/MatMul",
        "operator Rely of opset 17: y",
    )


def test_without_the_package_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "import loopwright as lw\n"
        "try: lw.from_onnx('model.onnx')\n"
        "except lw.UnsupportedError as error: print(error.hint)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "pip install loopwright[onnx]", run.stderr


@pytest.mark.parametrize("step", [-2, -1, 1])
@pytest.mark.parametrize("start", [-5, -3, -1, 0, 2, 5])
def test_a_slice_begins_at_the_first_or_last_element_if_it_is_out_of_range(start, step) -> None:
    """For negative steps the standard clamps the start to 0, where Python's is before it."""
    ends = -9 if step < 0 else 9
    constants = {k: np.array([v]) for k, v in (("s", start), ("e", ends), ("a", 0), ("t", step))}
    node = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    f = lw.from_onnx(model([node], [value("x", [3])], ["y"], constants))
    x = np.float32([1, 2, 3])
    first = start + 3 if start < 0 else start
    first = min(max(first, 0), 2 if step < 0 else 3)
    places = range(first, -1 if step < 0 else 3, step)
    np.testing.assert_array_equal(f(x), x[list(places)])


@pytest.mark.parametrize("operator", ["MatMul", "Gemm", "Celu", "Selu", "HardSigmoid", "HardSwish"])
def test_bfloat16_stays_bfloat16(operator: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = ["a", "b"] if operator in ("MatMul", "Gemm") else ["a"]
    kind = TensorProto.BFLOAT16
    given = [helper.make_tensor_value_info(name, kind, [4, 4]) for name in names]
    result = helper.make_tensor_value_info("y", kind, [4, 4])
    graph = helper.make_graph([helper.make_node(operator, names, ["y"])], "g", given, [result])
    opset = [helper.make_opsetid("", 22)]
    f = lw.from_onnx(helper.make_model(graph, opset_imports=opset, ir_version=10))
    assert f(*[np.ones((4, 4), ml_dtypes.bfloat16)] * len(names)).dtype == ml_dtypes.bfloat16

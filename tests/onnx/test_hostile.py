"""Files that are damaged or lie: one clear error each, no crash, no giant allocation."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.frontends.onnx import convert
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_models import model, value

W = np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((2, 200)).astype(np.float32)


def _layer() -> ModelProto:
    """A layer whose weight is large enough to be left in the file."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="mul"),
        helper.make_node("Constant", [], ["b"], value=numpy_helper.from_array(W[:1], "bias")),
        helper.make_node("Add", ["h", "b"], ["y"], name="add"),
    ]
    return model(nodes, [value("x", [2, 200])], ["y"], {"w": W})


def _external(folder: Path, **entries: Any) -> Path:
    """The layer with its weight in ``weights.bin``, or where ``entries`` say."""
    proto = _layer()
    (folder / "weights.bin").write_bytes(W.tobytes())
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": "weights.bin", **entries}.items():
        tensor.external_data.add(key=key, value=str(text))
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_weights_in_the_file_are_read_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "layer.onnx"
    path.write_bytes(_layer().SerializeToString())
    for source in (path, path.read_bytes()):
        np.testing.assert_allclose(lw.from_onnx(source)(X), X @ W + W[:1], rtol=1e-4, atol=1e-4)
    module, *_ = convert(path)
    (weight,) = (
        c.value for b in module.main.body.bindings for c in b.value.args if c.type.shape == W.shape
    )
    assert not weight.flags.owndata
    assert not weight.flags.writeable


def test_external_data_is_mapped(tmp_path: Path) -> None:
    f = lw.from_onnx(_external(tmp_path, offset=0, length=W.nbytes))
    np.testing.assert_allclose(f(X), X @ W + W[:1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../weights.bin"}, "outside of the model's folder"),
        ({"location": "/etc/passwd"}, "outside of the model's folder"),
        ({"location": "link"}, "outside of the model's folder"),
        ({"location": "sub/../../x"}, "outside of the model's folder"),
        ({"location": "nothing.bin"}, "is not there"),
        ({"location": "."}, "is not there"),
        ({"location": ""}, "names no file"),
        ({"location": "", "offset": 0, "length": W.nbytes}, "names no file"),
        ({"offset": 4}, "ends 4 bytes behind the end of weights.bin"),
        ({"offset": -4}, "is at '-4'"),
        ({"offset": "9" * 30}, "is at"),
        ({"length": 4}, "has 160000 bytes, and its external data 4"),
    ],
)
def test_external_data_stays_in_its_folder(
    tmp_path: Path, entries: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(W.tobytes())
    os.symlink(tmp_path / "weights.bin", folder / "link")
    with pytest.raises(lw.LoopwrightValueError, match=message):
        lw.from_onnx(_external(folder, **entries))


def test_a_model_in_memory_has_no_folder(tmp_path: Path) -> None:
    with pytest.raises(lw.LoopwrightValueError, match="has no folder"):
        lw.from_onnx(ModelProto.FromString(_external(tmp_path).read_bytes()))


def test_every_truncation_is_an_error() -> None:
    data = _layer().SerializeToString()
    for size in [*range(0, 200, 3), *range(200, len(data), 5003), len(data) - 1]:
        with pytest.raises((lw.LoopwrightValueError, lw.UnsupportedError)):
            convert(data[:size])


def test_flipped_bytes_are_an_error_or_another_model() -> None:
    proto = _layer()
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(W[:, :3], "w"))
    proto.graph.node[1].attribute[0].t.CopyFrom(numpy_helper.from_array(W[:1, :3], "bias"))
    data = proto.SerializeToString()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        changed = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            # Where the weights are, another number is just another number.
            changed[int(place) if rng.random() < 0.1 else int(place) % 400] = rng.integers(256)
        try:
            convert(bytes(changed))
        except lw.LoopwrightError:
            refused += 1
    assert 50 < refused < 300


def _odd(**change: Any) -> ModelProto:
    proto = _layer()
    for name, text in change.items():
        setattr(proto.graph.node[0], name, text)
    return proto


def test_nodes_in_a_circle() -> None:
    proto = _layer()
    proto.graph.node[0].input[0] = "y"
    with pytest.raises(lw.LoopwrightValueError, match="'y', which no node before it computes"):
        lw.from_onnx(proto)


def test_a_function_that_calls_itself() -> None:
    proto = _layer()
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.graph.node[0].domain, proto.graph.node[0].op_type = "own", "f"
    inner = helper.make_node("f", ["a", "b"], ["c"], domain="own")
    proto.functions.append(
        helper.make_function("own", "f", ["a", "b"], ["c"], [inner], proto.opset_import)
    )
    with pytest.raises(lw.LoopwrightValueError, match="without end"):
        lw.from_onnx(proto)


@pytest.mark.parametrize("dims", [[1 << 40, 1 << 40], [-1, 4], [1 << 62], [200, 201]])
def test_absurd_sizes_of_a_tensor(dims: list[int]) -> None:
    proto = _layer()
    proto.graph.initializer[0].dims[:] = dims
    with pytest.raises(lw.LoopwrightValueError):
        lw.from_onnx(proto)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("ConstantOfShape", [np.array([1 << 20, 1 << 20])]),
        ("ConstantOfShape", [np.array([-4])]),
        ("Expand", [np.ones((1, 1), np.float32), np.array([1 << 20, 1 << 20])]),
        ("Tile", [np.ones(4, np.float32), np.array([1 << 40])]),
        ("Range", [np.array(0), np.array(1 << 50), np.array(1)]),
        ("Range", [np.array(0), np.array(5), np.array(0)]),
        ("Pad", [np.ones(4, np.float32), np.array([1 << 40, 0])]),
        ("OneHot", [np.zeros(4, np.int64), np.array([1 << 40]), np.zeros(2, np.float32)]),
        ("Reshape", [np.ones(4, np.float32), np.array([3, -1])]),
        ("Reshape", [np.ones(4, np.float32), np.array([0, 0, 0])]),
        ("Squeeze", [np.ones(4, np.float32), np.array([0])]),
        ("Unsqueeze", [np.ones(4, np.float32), np.array([7])]),
        ("Split", [np.ones(4, np.float32), np.array([1, 2])]),
        ("Slice", [np.ones(4, np.float32), np.array([0]), np.array([2, 3])]),
        ("MatMul", [np.ones(4, np.float32), np.ones(5, np.float32)]),
    ],
)
def test_what_a_node_cannot_do_is_one_error(op: str, inputs: list[np.ndarray]) -> None:
    names = [f"i{n}" for n in range(len(inputs))]
    proto = model(
        [helper.make_node(op, names, ["y"], name="node/1")], [], ["y"], dict(zip(names, inputs))
    )
    tracemalloc.start()
    with pytest.raises(lw.LoopwrightError, match=f"{op} 'node/1': "):
        lw.from_onnx(proto)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_attributes_of_another_kind_are_an_error() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis="last")
    with pytest.raises(lw.LoopwrightError, match="Softmax"):
        lw.from_onnx(model([node], [value("x", [2, 3])], ["y"]))


def test_something_else_than_a_model() -> None:
    with pytest.raises(lw.LoopwrightTypeError, match="a path, bytes or an onnx"):
        lw.from_onnx(5)  # type: ignore[arg-type]
    with pytest.raises(lw.LoopwrightValueError):
        lw.from_onnx(b"")
    with pytest.raises(lw.LoopwrightValueError):
        lw.from_onnx(b"\x80" * 1000)

"""Malicious ONNX models by hand: what makes each in a folder, and a part of the error it has to
be."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper
from onnx_models import model, value

__all__ = ["CASES", "NAMES"]

SECRET = b"not for models " * 8

Case = Callable[[Path], "ModelProto | bytes | Path"]
CASES: dict[str, tuple[Case, str]] = {}
"""Cases by hand: what makes the model in a folder, and a part of the error; empty if it works."""


def case(part: str) -> Callable[[Case], Case]:
    """Enters a case into the table."""

    def enter(make: Case) -> Case:
        CASES[make.__name__] = make, part
        return make

    return enter


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, name=f"the_{kind}", **attributes)


X = value("x", [4])


@case("not an ONNX model")
def text_in_place_of_a_model(folder: Path) -> bytes:
    return b"hello, this is no model at all" * 10


@case("no graph")
def nothing(folder: Path) -> bytes:
    return b""


@case("no graph")
def no_outputs(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [X], [])


@case("circle")
def nodes_in_a_circle(folder: Path) -> ModelProto:
    return model([_node("Add", ["x", "b"], ["a"]), _node("Relu", ["a"], ["b"])], [X], ["b"])


@case("circle")
def a_node_that_reads_itself(folder: Path) -> ModelProto:
    return model([_node("Add", ["x", "y"], ["y"])], [X], ["y"])


@case("out of order")
def nodes_out_of_order(folder: Path) -> ModelProto:
    return model([_node("Relu", ["a"], ["y"]), _node("Abs", ["x"], ["a"])], [X], ["y"])


@case("'nowhere'")
def an_undefined_input(folder: Path) -> ModelProto:
    return model([_node("Add", ["x", "nowhere"], ["y"])], [X], ["y"])


@case("'nowhere'")
def an_undefined_output(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [X], ["nowhere"])


@case("twice")
def two_nodes_with_one_output(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"]), _node("Abs", ["x"], ["y"])], [X], ["y"])


@case("twice")
def two_inputs_of_one_name(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [X, X], ["y"])


@case("twice")
def two_initializers_of_one_name(folder: Path) -> ModelProto:
    made = model([_node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(4, np.float32)})
    made.graph.initializer.add().CopyFrom(made.graph.initializer[0])
    return made


@case("")
def names_with_slashes_lines_and_quotes(folder: Path) -> ModelProto:
    name = "../../etc/passwd\n\r\x1b[31m\"'%s{}\\ é"
    weights = {name: np.ones(4, np.float32)}
    return model([_node("Add", ["x", name], [name + "1"])], [X], [name + "1"], weights)


@case("")
def names_of_a_megabyte(folder: Path) -> ModelProto:
    name = "n" * (1 << 20)
    return model([_node("Relu", ["x"], [name])], [X], [name])


@case("sizes")
def negative_sizes_of_an_input(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [value("x", [-5, 4])], ["y"])


@case("bytes")
def an_input_of_2_to_the_60(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [value("x", [1 << 60])], ["y"])


@case("bytes")
def an_input_whose_size_overflows(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [value("x", [1 << 62, 1 << 62])], ["y"])


@case("rank")
def an_input_of_rank_1000(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [value("x", [1] * 1000)], ["y"])


@case("bytes of data")
def data_that_is_too_short(folder: Path) -> ModelProto:
    made = model([_node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(4, np.float32)})
    made.graph.initializer[0].raw_data = b"abc"
    return made


@case("'w'")
def a_tensor_of_2_to_the_60(folder: Path) -> ModelProto:
    made = model([_node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(4, np.float32)})
    made.graph.initializer[0].dims[:] = [1 << 60]
    return made


@case("'w'")
def a_tensor_of_negative_size(folder: Path) -> ModelProto:
    made = model([_node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(4, np.float32)})
    made.graph.initializer[0].dims[:] = [-1, -4]
    return made


@case("'w'")
def a_tensor_of_rank_1000(folder: Path) -> ModelProto:
    made = model([_node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(1, np.float32)})
    made.graph.initializer[0].dims[:] = [1] * 1000
    return made


@case("12345")
def a_tensor_of_an_unknown_type(folder: Path) -> ModelProto:
    made = model([_node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(4, np.float32)})
    made.graph.initializer[0].data_type = 12345
    return made


def _external(folder: Path, location: str, **entries: str) -> Path:
    inside = folder / "model"
    inside.mkdir()
    (folder / "secret.bin").write_bytes(SECRET)
    (inside / "weights.bin").write_bytes(np.ones(4, np.float32).tobytes())
    os.symlink(folder / "secret.bin", inside / "link.bin")
    os.symlink(folder, inside / "up")
    made = model([_node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(4, np.float32)})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=text)
    path = inside / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


@case("")
def external_data_in_its_folder(folder: Path) -> Path:
    return _external(folder, "weights.bin")


@case("outside")
def external_data_above(folder: Path) -> Path:
    return _external(folder, "../secret.bin")


@case("outside")
def external_data_above_by_detours(folder: Path) -> Path:
    return _external(folder, "x/../../secret.bin")


@case("outside")
def external_data_at_an_absolute_path(folder: Path) -> Path:
    return _external(folder, str(folder / "secret.bin"))


@case("outside")
def external_data_behind_a_link(folder: Path) -> Path:
    return _external(folder, "link.bin")


@case("outside")
def external_data_behind_a_link_to_a_folder(folder: Path) -> Path:
    return _external(folder, "up/secret.bin")


@case("not there")
def external_data_that_is_a_folder(folder: Path) -> Path:
    return _external(folder, ".")


@case("not there")
def external_data_that_is_a_device(folder: Path) -> Path:
    path = _external(folder, "pipe")
    os.mkfifo(path.parent / "pipe")
    return path


@case("behind the end")
def external_data_behind_the_end(folder: Path) -> Path:
    return _external(folder, "weights.bin", offset="8")


@case("'w'")
def external_data_at_a_negative_offset(folder: Path) -> Path:
    return _external(folder, "weights.bin", offset="-8")


@case("'w'")
def external_data_of_a_negative_length(folder: Path) -> Path:
    return _external(folder, "weights.bin", length="-16")


@case("names no file")
def external_data_without_a_name(folder: Path) -> Path:
    """The model itself has enough bytes for the tensor, and must not be read in its stead."""
    return _external(folder, "", offset="8", length="16")


@case("names no file")
def external_data_with_a_zero_byte(folder: Path) -> Path:
    return _external(folder, "weights\0.bin")


@case("data")
def external_data_with_a_name_of_a_megabyte(folder: Path) -> Path:
    return _external(folder, "w" * (1 << 20))


@case("has no folder")
def external_data_of_a_model_in_memory(folder: Path) -> bytes:
    return _external(folder, "weights.bin").read_bytes()


def _nested(depth: int) -> ModelProto:
    """``If`` inside ``If``; the bytes are written by hand, since building copies every level."""
    inner = helper.make_graph([_node("Relu", ["x"], ["y"])], "g", [], [value("y", [4])])
    for _ in range(depth):
        node = _node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
        inner = helper.make_graph([node], "g", [], [value("y", [4])])
    condition = numpy_helper.from_array(np.array(True), "c")
    graph = helper.make_graph(list(inner.node), "g", [X], [value("y", [4])], [condition])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@case("")
def branches_six_deep(folder: Path) -> ModelProto:
    return _nested(6)


@case("")
def branches_sixteen_deep(folder: Path) -> ModelProto:
    """65,536 leaves: only the branches that are taken may be walked."""
    return _nested(14)


@case("ONNX model")
def graphs_inside_each_other_10000_deep(folder: Path) -> bytes:
    graph = helper.make_graph([_node("Relu", ["x"], ["y"])], "g", [], [value("y", [4])])
    data = graph.SerializeToString()
    for _ in range(10_000):  # GraphProto.node = 1, NodeProto.attribute = 5, AttributeProto.g = 6
        for field in (6, 5, 1):
            data = bytes([field << 3 | 2]) + _varint(len(data)) + data
    return bytes([7 << 3 | 2]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


@case("the_Transpose")
def a_huge_list_of_attributes(folder: Path) -> ModelProto:
    return model([_node("Transpose", ["x"], ["y"], perm=[0] * 100_000)], [X], ["y"])


@case("the_Relu")
def ten_thousand_attributes(folder: Path) -> ModelProto:
    node = _node("Relu", ["x"], ["y"])
    for n in range(10_000):
        node.attribute.append(helper.make_attribute(f"a{n}", n))
    return model([node], [X], ["y"])


@case("the_LeakyRelu")
def an_attribute_of_another_type(folder: Path) -> ModelProto:
    return model([_node("LeakyRelu", ["x"], ["y"], alpha="much")], [X], ["y"])


@case("alpha")
def an_attribute_without_a_type(folder: Path) -> ModelProto:
    node = _node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    node.attribute[0].type = AttributeProto.UNDEFINED
    return model([node], [X], ["y"])


def _function(name: str, calls: Sequence[str]) -> Any:
    nodes = [helper.make_node(each, ["a"], [f"b{n}"], domain="own") for n, each in enumerate(calls)]
    last = _node("Sum", [f"b{n}" for n in range(len(calls))] or ["a"], ["b"])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], [*nodes, last], imports)


def _with_functions(functions: Sequence[Any]) -> ModelProto:
    made = model([helper.make_node(functions[0].name, ["x"], ["y"], domain="own")], [X], ["y"])
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.functions.extend(functions)
    return made


@case("without end")
def a_function_that_calls_itself(folder: Path) -> ModelProto:
    return _with_functions([_function("F", ["F"])])


@case("without end")
def functions_that_call_each_other(folder: Path) -> ModelProto:
    return _with_functions([_function("F", ["G"]), _function("G", ["F"])])


@case("nodes")
def functions_that_double_forty_times(folder: Path) -> ModelProto:
    """2**40 nodes from a file of a few kilobytes."""
    names = [f"F{n}" for n in range(40)]
    return _with_functions(
        [_function(n, [m, m]) for n, m in pairwise(names)] + [_function(names[-1], [])]
    )


@case("the_ConstantOfShape")
def a_constant_of_16_gigabytes(folder: Path) -> ModelProto:
    nodes = [_node("ConstantOfShape", ["s"], ["c"]), _node("ReduceSum", ["c"], ["y"])]
    return model(nodes, [X], ["y"], {"s": np.array([1 << 32], np.int64)})


@case("the_Range")
def a_range_of_64_gigabytes(folder: Path) -> ModelProto:
    constants = {n: np.array(v, np.int64) for n, v in (("a", 0), ("b", 1 << 33), ("c", 1))}
    return model([_node("Range", ["a", "b", "c"], ["y"])], [X], ["y"], constants)


@case("the_Tile")
def a_tile_of_constants_of_16_gigabytes(folder: Path) -> ModelProto:
    constants = {"t": np.ones(4, np.float32), "r": np.array([1 << 30], np.int64)}
    return model([_node("Tile", ["t", "r"], ["y"])], [X], ["y"], constants)


@case("the_Expand")
def an_expansion_of_2_to_the_50(folder: Path) -> ModelProto:
    return model(
        [_node("Expand", ["x", "s"], ["y"])], [X], ["y"], {"s": np.array([1 << 48, 4], np.int64)}
    )


@case("the_Pad")
def a_pad_of_2_to_the_60(folder: Path) -> ModelProto:
    return model(
        [_node("Pad", ["x", "p"], ["y"])], [X], ["y"], {"p": np.array([0, 1 << 60], np.int64)}
    )


@case("iterations")
def a_loop_of_2_to_the_60(folder: Path) -> ModelProto:
    body = helper.make_graph(
        [_node("Identity", ["k"], ["k1"]), _node("Relu", ["s"], ["s1"])],
        "body",
        [value("i", [], np.int64), value("k", [], np.bool_), value("s", [4])],
        [value("k1", [], np.bool_), value("s1", [4])],
    )
    constants = {"n": np.array(1 << 60), "c": np.array(True)}
    return model([_node("Loop", ["n", "c", "x"], ["y"], body=body)], [X], ["y"], constants)


@case("opset")
def an_opset_of_the_far_future(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [X], ["y"], opset=1 << 40)


@case("opset")
def a_negative_opset(folder: Path) -> ModelProto:
    return model([_node("Relu", ["x"], ["y"])], [X], ["y"], opset=-3)


@case("")
def a_thousand_outputs(folder: Path) -> ModelProto:
    nodes = [_node("Relu", ["x"], [f"y{n}"]) for n in range(1000)]
    return model(nodes, [X], [f"y{n}" for n in range(1000)])


@case("")
def ten_thousand_nodes_in_a_row(folder: Path) -> ModelProto:
    names = ["x", *(f"y{n}" for n in range(10_000))]
    nodes = [_node("Identity", [a], [b]) for a, b in pairwise(names)]
    return model(nodes, [X], [names[-1]])


NAMES = tuple(CASES)

"""Rows of random ONNX models: operators that have no row of their own, as the standard's own test
cases write them; control flow and sequences."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
import random_onnx_networks  # noqa: F401  its rows
import random_onnx_nodes  # noqa: F401  its rows
from onnx import TensorProto, helper
from onnx_backend import cases, data_of, model_of
from random_onnx import ROWS, Drawing, Tensor, Unfit, opset_of, row, single

__all__ = ["WITH_ROWS", "enter_cases"]

WITH_ROWS = frozenset(ROWS)
"""Operators that have rows elsewhere."""


JUDGED_WRONGLY = ("test_maxunpool_export_with_output_shape",)
"""Cases in which ONNX Runtime is wrong: it takes indices of a small result for the larger one's."""


@functools.cache
def _cases() -> dict[str, list[Any]]:
    """Returns the test cases of one node each, by operator."""
    found: dict[str, list[Any]] = {}
    for case in cases(("node",)):
        graph = model_of(case).graph
        if len(graph.node) == 1 and not graph.initializer and case.name not in JUDGED_WRONGLY:
            found.setdefault(graph.node[0].op_type, []).append(case)
    return found


def enter_cases(names: set[str]) -> None:
    """Enters rows for the operators among ``names`` that have none."""
    for name in sorted(names & _cases().keys() - ROWS.keys()):
        row(name)(_case)


def _case(d: Drawing, name: str) -> None:
    """A node of a test case: on its inputs, on others, or on values of their dtype and shape."""
    case = d.pick(_cases()[name])
    model = model_of(case)
    node = model.graph.node[0]
    opsets = {each.domain: each.version for each in model.opset_import}
    domain = "" if node.domain == "ai.onnx" else node.domain
    now = opset_of(domain, d.opset)
    try:
        versions = {
            onnx.defs.get_schema(name, n, domain).since_version for n in (now, opsets[domain])
        }
    except onnx.defs.SchemaError:
        raise Unfit from None
    if len(versions) > 1:
        raise Unfit
    arrays = {
        i.name: np.asarray(x) if isinstance(x, np.generic) else x
        for i, x in zip(model.graph.input, next(data_of(case, model))[0])
    }
    inputs: list[Tensor | None] = []
    for each in node.input:
        array = arrays.get(each)
        if (each and not isinstance(array, np.ndarray)) or (
            each and array.dtype.kind not in "fiub"
        ):
            raise Unfit
        inputs.append(_input(d, array) if each else None)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    d.emit(name, inputs, len(node.output), domain, **attributes)


def _input(d: Drawing, array: Any) -> Tensor:
    same = [t for t in d.tensors.values() if t.dtype == array.dtype and t.shape == array.shape]
    if same and d.chance(50):
        return d.pick(same)
    if array.dtype.kind == "f" and array.size > 1 and d.chance(60):
        return d.fresh(array.shape, array.dtype)
    if array.dtype.kind in "iu" or d.chance(50):  # code may depend on them
        return d.known(array)
    return d.given(array)


# -- control flow and sequences ---------------------------------------------------------------


def _graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


def _info(name: str, shape: Any, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


STEPS = ("Add", "Mul", "Sub", "Max", "Min")


@row("If")
def _if(d: Drawing, name: str) -> None:
    x = single(d)
    y = d.partner(x)
    shape = np.broadcast_shapes(x.shape, y.shape)
    n = len(d.nodes)
    graphs = [
        _graph([helper.make_node(d.pick(STEPS), [x.name, y.name], [f"b{n}_{k}"])], [], [
            _info(f"b{n}_{k}", shape)])
        for k in range(2)
    ]  # fmt: skip
    condition = d.some("b", 0, 0) if d.chance(50) else d.fresh([], "bool")
    d.emit(name, [condition], captured=[x, y], then_branch=graphs[0], else_branch=graphs[1])


@row("Loop")
def _loop(d: Drawing, name: str) -> None:
    x, n = single(d), len(d.nodes)
    y = d.known(d.elements(x.shape, "float32") * 0.5)
    nodes = [
        helper.make_node(d.pick(STEPS), ["s", y.name], [f"t{n}"]),
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Identity", [f"t{n}"], ["o"]),
    ]
    inputs = [_info("i", [], TensorProto.INT64), _info("c", [], TensorProto.BOOL)]
    outputs = [_info("d", [], TensorProto.BOOL), _info(f"t{n}", x.shape), _info("o", x.shape)]
    body = _graph(nodes, [*inputs, _info("s", x.shape)], outputs)
    counts = d.known(d.between(0, 4), np.int64), d.known(True)
    d.emit(name, [*counts, x], 2, captured=[y], body=body)


@row("Scan")
def _scan(d: Drawing, name: str) -> None:
    x, n = single(d, 1), len(d.nodes)
    if d.opset < 9:
        raise Unfit
    state = d.fresh(x.shape[1:], "float32")
    nodes = [
        helper.make_node(d.pick(STEPS), ["s", "e"], [f"t{n}"]),
        helper.make_node(d.pick(("Relu", "Tanh", "Neg")), [f"t{n}"], ["o"]),
    ]
    shape = x.shape[1:]
    body = _graph(nodes, [_info("s", shape), _info("e", shape)], [
        _info(f"t{n}", shape), _info("o", shape)])  # fmt: skip
    back = [d.between(0, 1)]
    d.emit(name, [state, x], 2, body=body, num_scan_inputs=1, scan_input_directions=back)


@row("SequenceConstruct", "SequenceAt", "SequenceErase", "SequenceInsert", "SequenceEmpty",
     "SequenceLength", "ConcatFromSequence", "SplitToSequence")  # fmt: skip
def _sequence(d: Drawing, name: str) -> None:
    """A sequence of a value and its partners, changed and read."""
    x, n = single(d, 1), len(d.nodes)
    if d.opset < 11:
        raise Unfit
    many = [x, *(d.fresh(x.shape, "float32") for _ in range(d.between(0, 2)))]
    at = d.known(d.between(0, len(many) - 1), np.int64)
    names = [f"q{n}_{k}" for k in range(4)]
    nodes = [helper.make_node("SequenceConstruct", [t.name for t in many], [names[0]])]
    if name == "SequenceEmpty":
        nodes = [helper.make_node("SequenceEmpty", [], [names[1]], dtype=1)]
        nodes.append(helper.make_node("SequenceInsert", [names[1], x.name], [names[0]]))
        at, many = d.known(0, np.int64), [x]
    elif name == "SplitToSequence":
        nodes = [helper.make_node(name, [x.name], [names[0]], axis=0, keepdims=d.between(0, 1))]
        at = d.known(d.between(0, x.shape[0] - 1), np.int64)
    last, inside = names[0], [*many, at]
    if name == "SequenceInsert":
        nodes.append(helper.make_node(name, [last, x.name, at.name], [names[1]]))
        last = names[1]
    elif name == "SequenceErase":
        nodes.append(helper.make_node("SequenceInsert", [last, x.name], [names[1]]))
        nodes.append(helper.make_node(name, [names[1], at.name], [names[2]]))
        last = names[2]
    result = f"v{len(d.tensors)}"
    if name == "SequenceLength":
        nodes.append(helper.make_node(name, [last], [result]))
    elif name == "ConcatFromSequence":
        new, axis = d.between(0, 1), d.between(0, x.rank - 1)
        nodes.append(helper.make_node(name, [last], [result], axis=axis, new_axis=new))
    else:
        nodes.append(helper.make_node("SequenceAt", [last, at.name], [result]))
    d.emit_nodes(nodes, inside, [result])


@row("Optional", "OptionalGetElement", "OptionalHasElement")
def _optional(d: Drawing, name: str) -> None:
    """An optional value that is there, read; or asked whether it is."""
    x, n, result = single(d), len(d.nodes), f"v{len(d.tensors)}"
    if d.opset < 18:
        raise Unfit
    reads = "OptionalHasElement" if name == "OptionalHasElement" else "OptionalGetElement"
    nodes = [helper.make_node("Optional", [x.name], [f"o{n}"])] if d.chance(60) else []
    nodes.append(helper.make_node(reads, [f"o{n}" if nodes else x.name], [result]))
    d.emit_nodes(nodes, [x], [result])


@row("Compress", "Unique")
def _of_other_sizes(d: Drawing, name: str) -> None:
    """Results whose sizes are those of the elements."""
    x = d.some("fi", 1, 3, fits=lambda t: t.value.size > 0)
    if d.opset < 11:
        raise Unfit
    axis = d.pick((None, d.axis(x.rank)))
    if name == "Unique":
        # The evaluator sorts along an axis whatever it is asked for.
        order = d.pick((None, 0, 1)) if axis is None else None
        d.emit(name, [x], d.between(1, 4), axis=axis, sorted=order)
        return
    length = x.value.size if axis is None else x.shape[axis]
    chosen = d.rng.random(d.between(1, length)) < 0.5
    d.emit(name, [x, d.known(chosen) if d.chance(50) else d.fresh(chosen.shape, bool)], axis=axis)


@row("Scatter")
def _scatter(d: Drawing, name: str) -> None:
    x = d.some("f", 1, fits=lambda t: t.value.size > 0)
    if d.opset not in (9, 10):
        raise Unfit
    axis = d.between(0, x.rank - 1)
    order = np.argsort(d.rng.random(x.shape), axis)  # each place once
    d.emit(name, [x, d.known(order), d.fresh(x.shape, x.dtype)], axis=axis)


@row("Upsample")
def _upsample(d: Drawing, name: str) -> None:
    if d.opset != 9:
        raise Unfit
    x = d.fresh([1, d.between(1, 3), d.between(1, 4), d.between(1, 4)], "float32")
    scales = d.known([1, 1, d.pick((1, 2, 3)), d.pick((1, 2, 1.5))], np.float32)
    d.emit(name, [x, scales], mode="nearest")


@row("GlobalLpPool")
def _global_lp(d: Drawing, name: str) -> None:
    d.emit(name, [d.fresh([1, 2, d.between(1, 5), d.between(1, 5)], "float32")], p=d.pick((1, 2)))


@row("MaxRoiPool")
def _max_roi_pool(d: Drawing, name: str) -> None:
    x = d.fresh([d.between(1, 2), d.between(1, 3), d.between(2, 8), d.between(2, 8)], "float32")
    count = d.between(1, 3)
    corners = d.rng.integers(0, 9, [count, 4])
    batch = d.rng.integers(0, x.shape[0], [count, 1])
    ends = np.maximum(corners[:, :2], corners[:, 2:])
    rois = d.known(np.concatenate([batch, corners[:, :2], ends], 1), np.float32)
    pooled = [d.between(1, 3), d.between(1, 3)]
    d.emit(name, [x, rois], pooled_shape=pooled, spatial_scale=d.pick((None, 0.5)))

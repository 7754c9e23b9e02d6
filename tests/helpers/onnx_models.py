"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper


def value(name: str, shape: Sequence[int | str] | None, dtype: Any = np.float32) -> ValueInfoProto:
    """An input or output of a model."""
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
    opset: int = 17,
) -> ModelProto:
    """A model of ``nodes``, whose outputs have no types."""
    graph = helper.make_graph(
        nodes,
        "graph",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def trees(
    rng: np.random.Generator,
    x: np.ndarray[Any, Any],
    count: int,
    leaves: int,
    targets: int,
    modes: Sequence[str] = MODES,
    prefix: str = "target",
) -> dict[str, Any]:
    """Random trees, as attributes of ``ai.onnx.ml``, some of whose tests are of values that the
    features ``x`` have."""
    names = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
    nodes: dict[str, list[Any]] = {f"nodes_{n}": [] for n in names}
    nodes["nodes_missing_value_tracks_true"] = []
    ends: dict[str, list[Any]] = {f"{prefix}_{n}": [] for n in ("treeids", "nodeids", "ids")}
    ends[f"{prefix}_weights"] = []
    for tree in range(count):
        kinds, children = ["LEAF"], [(0, 0)]
        while kinds.count("LEAF") < leaves:
            at = int(rng.choice([n for n, kind in enumerate(kinds) if kind == "LEAF"]))
            kinds[at] = str(rng.choice(modes))
            children[at] = len(kinds), len(kinds) + 1
            kinds += ["LEAF", "LEAF"]
            children += [(0, 0), (0, 0)]
        for number, (kind, (yes, no)) in enumerate(zip(kinds, children)):
            feature = int(rng.integers(x.shape[1]))
            tracks = kind not in ("LEAF", "BRANCH_EQ") and rng.random() < 0.3
            row = (tree, number, kind, feature, float(rng.choice(x[:, feature])), yes, no)
            for name, each in zip(names, row, strict=True):
                nodes[f"nodes_{name}"].append(each)
            nodes["nodes_missing_value_tracks_true"].append(int(tracks))
            for target in range(targets) if kind == "LEAF" else ():
                row = tree, number, target
                for name, each in zip(("treeids", "nodeids", "ids"), row, strict=True):
                    ends[f"{prefix}_{name}"].append(each)
                ends[f"{prefix}_weights"].append(float(np.float32(rng.standard_normal())))
    return nodes | ends

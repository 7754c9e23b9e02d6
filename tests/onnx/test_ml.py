"""Operators of ``ai.onnx.ml`` against the evaluator of the standard, and against NumPy."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import MODES, model, trees, value

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 5)).astype(np.float32)


def _model(op: str, x: np.ndarray, outputs: int = 1, opset: int = 3, **attributes: Any) -> Any:
    names = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attributes)
    proto = model([node], [value("x", x.shape, x.dtype)], names)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", opset))
    return proto


def _check(proto: ModelProto, x: np.ndarray) -> None:
    expected = ReferenceEvaluator(proto).run(None, {"x": x})
    results = lw.from_onnx(proto).run({"x": x})
    for wanted, result in zip(expected, results.values(), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def _floats(*shape: int) -> list[float]:
    return RNG.standard_normal(shape).astype(np.float32).reshape(-1).tolist()


LABELS = {"classlabels_ints": [3, 5, 9]}
CASES: list[tuple[str, np.ndarray, int, dict[str, Any]]] = [
    ("Binarizer", X, 1, {"threshold": 0.25}),
    ("Scaler", X, 1, {"offset": _floats(5), "scale": _floats(5)}),
    ("Normalizer", X, 1, {"norm": "L1"}),
    ("Imputer", np.where(X > 1, np.float32(np.nan), X), 1,
     {"imputed_value_floats": _floats(5), "replaced_value_float": float("nan")}),
    ("LabelEncoder", np.arange(6), 1, {"keys_int64s": [1, 4, 2], "values_floats": _floats(3),
                                       "default_float": 0.5}),
    ("OneHotEncoder", np.arange(6), 1, {"cats_int64s": [1, 4, 2], "zeros": 1}),
    ("LinearRegressor", X, 1, {"coefficients": _floats(2, 5), "intercepts": _floats(2),
                               "targets": 2, "post_transform": "NONE"}),
    ("LinearClassifier", X, 2, {"coefficients": _floats(3, 5), "intercepts": _floats(3),
                                "post_transform": "SOFTMAX", **LABELS}),
    *(("SVMRegressor", X, 1, {"coefficients": _floats(7), "support_vectors": _floats(7, 5),
                              "n_supports": 7, "rho": [0.5], "kernel_type": kind,
                              "kernel_params": [0.25, 0.5, 3.0], "post_transform": "NONE"})
      for kind in ("LINEAR", "RBF", "POLY", "SIGMOID")),
    ("SVMClassifier", X, 2, {"coefficients": _floats(2, 7), "support_vectors": _floats(7, 5),
                             "vectors_per_class": [3, 2, 2], "rho": _floats(3),
                             "kernel_type": "RBF", "kernel_params": [0.25, 0.5, 3.0], **LABELS}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_operator(case: tuple[str, np.ndarray, int, dict[str, Any]]) -> None:
    op, x, outputs, attributes = case
    _check(_model(op, x, outputs, **attributes), x)


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF"])
def test_probabilities_of_a_support_vector_machine_are_coupled_as_libsvm_does(kernel: str) -> None:
    """The standard's evaluator is of no use here: it multiplies rows where elements are meant.

    In LIBSVM's terms: p ends where all of Q p are within 0.005 / classes of p Q p."""
    given = {
        "support_vectors": _floats(7, 5), "vectors_per_class": [3, 2, 2], "rho": [0.5, -0.25, 1.0],
        "coefficients": _floats(2, 7), "kernel_type": kernel, "kernel_params": [0.25, 0.0, 3.0],
        **LABELS,
    }  # fmt: skip
    chances = {"prob_a": [-1.0, -2.0, -0.5], "prob_b": [0.5, 0.0, 1.0]}
    scores = lw.from_onnx(_model("SVMClassifier", X, 2, **given)).run({"x": X})["y1"]
    p = lw.from_onnx(_model("SVMClassifier", X, 2, **given, **chances)).run({"x": X})["y1"]
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
    for row, score in zip(p, scores, strict=True):
        r = np.zeros((3, 3))
        r[np.triu_indices(3, 1)] = 1 / (1 + np.exp(score * chances["prob_a"] + chances["prob_b"]))
        r[1, 0], r[2, 0], r[2, 1] = 1 - r[0, 1], 1 - r[0, 2], 1 - r[1, 2]
        q = np.diag((r**2).sum(0)) - r * r.T
        assert np.abs(q @ row - row @ q @ row).max() < 0.0051 / 3


def test_a_support_vector_machine_whose_numbers_do_not_fit_is_refused() -> None:
    given = {"coefficients": [1.0] * 14, "support_vectors": [1.0] * 35, "rho": [0.0] * 3, **LABELS}
    for wrong in (
        {"rho": [0.0]},
        {"prob_a": [1.0] * 3},
        {"coefficients": [1.0] * 13},
        {"support_vectors": [1.0] * 34},
        {"vectors_per_class": [3, 2, -2]},
    ):
        attributes = {**given, "vectors_per_class": [3, 2, 2], **wrong}
        with pytest.raises(lw.LoopwrightError, match="do not fit"):
            lw.from_onnx(_model("SVMClassifier", X, 2, **attributes)).run({"x": X})


def test_l2_norm() -> None:
    expected = X / np.sqrt((X**2).sum(1, keepdims=True))
    result = lw.from_onnx(_model("Normalizer", X, norm="L2")).run({"x": X})["y0"]
    np.testing.assert_allclose(result, expected, rtol=1e-6)


TESTS: dict[str, Any] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


def _sums(attributes: dict[str, Any], x: np.ndarray, targets: int) -> np.ndarray:
    """What the standard says of the sum of the leaves that each row reaches."""
    nodes = {
        key: n
        for n, key in enumerate(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"]))
    }
    result = np.zeros((len(x), targets))
    ends = ("treeids", "nodeids", "ids", "weights")
    for row, features in enumerate(x):
        reached = set()
        for tree in set(attributes["nodes_treeids"]):
            at = nodes[tree, 0]
            while (mode := attributes["nodes_modes"][at]) != "LEAF":
                feature = features[attributes["nodes_featureids"][at]]
                holds = TESTS[mode](feature, x.dtype.type(attributes["nodes_values"][at]))
                tracks = attributes["nodes_missing_value_tracks_true"][at]
                side = "true" if holds or (tracks and np.isnan(feature)) else "false"
                at = nodes[tree, attributes[f"nodes_{side}nodeids"][at]]
            reached.add((tree, attributes["nodes_nodeids"][at]))
        for tree, node, target, weight in zip(*(attributes[f"target_{e}"] for e in ends)):
            result[row, target] += weight if (tree, node) in reached else 0
    return result


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("leaves", [1, 2, 20, 90])
def test_trees_lead_to_the_leaves_of_the_standard(leaves: int, rows: int) -> None:
    x = np.where(RNG.random(X.shape) < 0.1, np.float32(np.nan), X)[:rows]
    attributes = trees(RNG, X, 5, leaves, 2)
    proto = _model("TreeEnsembleRegressor", x, n_targets=2, **attributes, post_transform="NONE",
                   aggregate_function="SUM")  # fmt: skip
    result = lw.from_onnx(proto).run({"x": x})["y0"]
    np.testing.assert_allclose(result, _sums(attributes, x, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_weights_are_combined(function: str) -> None:
    attributes = trees(RNG, X, 4, 50, 1, MODES[:1])
    proto = _model("TreeEnsembleRegressor", X, n_targets=1, **attributes, base_values=[0.5],
                   aggregate_function=function, post_transform="NONE")  # fmt: skip
    _check(proto, X)


@pytest.mark.parametrize("step", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classes(step: str) -> None:
    attributes = trees(RNG, X, 6, 10, 3, MODES[:2], "class")
    _check(_model("TreeEnsembleClassifier", X, 2, **attributes, classlabels_int64s=[2, 4, 8],
                  post_transform=step), X)  # fmt: skip


def test_features_in_double_precision_are_compared_in_it() -> None:
    attributes = trees(RNG, X, 3, 8, 1, MODES[:1])
    split = np.array(attributes["nodes_values"]) + 1e-12
    attributes["nodes_values"] = split.tolist()
    x = np.repeat(split[:, None], 5, 1) + RNG.choice([-1e-13, 0, 1e-13], (len(split), 5))
    expected = _sums(attributes, x, 1)
    weights, _ = attributes.pop("target_weights"), attributes.pop("nodes_values")
    tensors = {"nodes_values_as_tensor": split, "target_weights_as_tensor": np.array(weights)}
    made = {n: helper.make_tensor(n, 11, t.shape, t) for n, t in tensors.items()}
    proto = _model("TreeEnsembleRegressor", x, n_targets=1, **attributes, **made,
                   post_transform="NONE", aggregate_function="SUM")  # fmt: skip
    np.testing.assert_allclose(lw.from_onnx(proto).run({"x": x})["y0"], expected, rtol=1e-5)


def test_any_number_of_rows() -> None:
    attributes = trees(RNG, X, 3, 40, 1)
    proto = _model("TreeEnsembleRegressor", X, n_targets=1, **attributes,
                   aggregate_function="SUM", post_transform="NONE")  # fmt: skip
    proto.graph.input[0].CopyFrom(value("x", ["n", 5]))
    compiled = lw.from_onnx(proto, shapes={"x": ("n", 5)})
    for rows in (1, 3, 40):
        expected, result = _sums(attributes, X[:rows], 1), compiled.run({"x": X[:rows]})["y0"]
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_labels_that_are_strings_are_refused() -> None:
    proto = _model("LinearClassifier", X, 2, coefficients=_floats(2, 5), intercepts=[0.0, 0.0],
                   classlabels_strings=["no", "yes"], post_transform="LOGISTIC")  # fmt: skip
    with pytest.raises(lw.UnsupportedError, match="labels are strings"):
        lw.from_onnx(proto)


def test_a_circle_of_nodes_is_refused() -> None:
    attributes = trees(RNG, X, 1, 3, 1, MODES[:1])
    last = attributes["nodes_modes"].index("LEAF")
    attributes["nodes_modes"][last] = "BRANCH_LEQ"  # its children are the root
    with pytest.raises(lw.LoopwrightError, match="no trees"):
        lw.from_onnx(_model("TreeEnsembleRegressor", X, n_targets=1, **attributes))

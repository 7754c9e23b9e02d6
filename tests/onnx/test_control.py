"""If, Loop and Scan that depend on the model's inputs, or are long, are branches and loops."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx_models import model, value

X = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
make = helper.make_node


def _graph(nodes: list[Any], inputs: list[Any], outputs: list[str]) -> Any:
    infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
    return helper.make_graph(nodes, "body", inputs, infos)


def check(proto: ModelProto, args: tuple[Any, ...], *wanted: Any) -> str:
    """Compares results with those that are wanted; returns the graph."""
    f = lw.from_onnx(proto)
    results = f(*args)
    given = results if isinstance(results, tuple | list) else [results]
    for one, other in zip(given, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return str(f.module)


@pytest.mark.parametrize("chosen", [True, False])
def test_a_branch_that_depends_on_an_input(chosen) -> None:
    branches = {
        "then_branch": _graph([make("Relu", ["x"], ["y"])], [], ["y"]),
        "else_branch": _graph([make("Neg", ["x"], ["y"])], [], ["y"]),
    }
    nodes = [make("If", ["c"], ["z"], **branches)]
    proto = model(nodes, [value("x", [2, 6]), value("c", [], bool)], ["z"])
    assert "if (" in check(proto, (X, np.bool_(chosen)), np.maximum(X, 0) if chosen else -X)


def test_a_loop_whose_count_is_an_input() -> None:
    body = _graph(
        [make("Add", ["h", "x"], ["h2"]), make("Identity", ["going"], ["going2"])],
        [value("step", [], np.int64), value("going", [], bool), value("h", [2, 6])],
        ["going2", "h2"],
    )
    proto = model(
        [make("Loop", ["n", "", "x"], ["y"], body=body)],
        [value("x", [2, 6]), value("n", [], np.int64)],
        ["y"],
    )
    for count in (0, 1, 5):
        check(proto, (X, np.int64(count)), (count + 1) * X)


def test_rows_of_no_iterations_have_the_shapes_of_one() -> None:
    nodes = [make("Mul", ["s", "e"], ["s2"]), make("Transpose", ["s2"], ["row"])]
    body = _graph(nodes, [value("s", [2, 6]), value("e", [6])], ["s2", "row"])
    scan = make("Scan", ["x", "none"], ["y", "rows"], body=body, num_scan_inputs=1,
                scan_output_axes=[1])  # fmt: skip
    proto = model([scan], [value("x", [2, 6]), value("none", [0, 6])], ["y", "rows"])
    check(proto, (X, np.zeros((0, 6), np.float32)), X, np.zeros((6, 0, 2)))
    nodes = [make("Identity", ["x"], ["e"]), *nodes, make("Identity", ["going"], ["going2"])]
    inputs = [value("step", [], np.int64), value("going", [], bool), value("s", [2, 6])]
    body = _graph(nodes, inputs, ["going2", "s2", "row"])
    proto = model(
        [make("Loop", ["n", "", "x"], ["y", "rows"], body=body)],
        [value("x", [2, 6])], ["y", "rows"], {"n": np.array(0)},
    )  # fmt: skip
    check(proto, (X,), X, np.zeros((0, 6, 2)))


def test_a_loop_that_a_value_ends() -> None:
    body = _graph(
        [
            make("Add", ["h", "h"], ["h2"]),
            make("ReduceMax", ["h2"], ["most"], keepdims=0),
            make("Less", ["most", "limit"], ["going2"]),
        ],
        [value("step", [], np.int64), value("going", [], bool), value("h", [2, 6])],
        ["going2", "h2"],
    )
    proto = model(
        [make("Loop", ["ten", "yes", "x"], ["y"], body=body)],
        [value("x", [2, 6])],
        ["y"],
        {"ten": np.array(10), "yes": np.array(True), "limit": np.array(20, np.float32)},
    )
    wanted = np.abs(X)
    for _ in range(10):
        wanted = wanted * 2
        if wanted.max() >= 20:
            break
    assert "while (" in check(proto, (np.abs(X),), wanted)


def test_a_long_loop_stays_a_loop_and_stacks_its_outputs() -> None:
    body = _graph(
        [
            make("Cast", ["step"], ["s"], to=1),
            make("Add", ["h", "s"], ["h2"]),
            make("Identity", ["going"], ["going2"]),
            make("ReduceSum", ["h2"], ["row"], keepdims=0),
        ],
        [value("step", [], np.int64), value("going", [], bool), value("h", [2, 6])],
        ["going2", "h2", "row"],
    )
    proto = model(
        [make("Loop", ["many", "", "x"], ["y", "all"], body=body)],
        [value("x", [2, 6])],
        ["y", "all"],
        {"many": np.array(300)},
    )
    every = [X + n * (n + 1) / 2 for n in range(300)]
    wanted = every[-1], np.array([each.sum() for each in every])
    assert "for (" in check(proto, (X,), *wanted)


def test_a_long_scan_stays_a_loop() -> None:
    body = _graph(
        [make("Add", ["s", "r"], ["s2"]), make("Mul", ["s", "r"], ["out"])],
        [value("s", [3]), value("r", [3])],
        ["s2", "out"],
    )
    node = make(
        "Scan", ["s0", "rows"], ["last", "all"], body=body, num_scan_inputs=1,
        scan_input_directions=[1], scan_input_axes=[1], scan_output_axes=[1],
    )  # fmt: skip
    proto = model([node], [value("s0", [3]), value("rows", [3, 100])], ["last", "all"])
    rows = np.random.default_rng(1).standard_normal((3, 100)).astype(np.float32)
    sums = np.cumsum(rows[:, ::-1], axis=1)
    before = np.concatenate([np.zeros((3, 1), np.float32), sums[:, :-1]], axis=1)
    wanted = sums[:, -1], before * rows[:, ::-1]
    assert "for (" in check(proto, (np.zeros(3, np.float32), rows), *wanted)


def test_what_has_no_fixed_shape_is_not_supported() -> None:
    body = _graph(
        [make("Add", ["h", "x"], ["h2"]), make("Identity", ["going"], ["going2"])],
        [value("step", [], np.int64), value("going", [], bool), value("h", [2, 6])],
        ["going2", "h2", "h2"],
    )
    proto = model(
        [make("Loop", ["n", "", "x"], ["y", "all"], body=body)],
        [value("x", [2, 6]), value("n", [], np.int64)],
        ["y", "all"],
    )
    with pytest.raises(
        lw.UnsupportedError, match=r"input M has to be known .* input 'n'"
    ) as caught:
        lw.from_onnx(proto)
    assert caught.value.hint is not None and "constants={'n': ...}" in caught.value.hint
    rows = lw.from_onnx(proto, constants={"n": np.array(3)}).run({"x": X})["all"]
    np.testing.assert_allclose(rows, [2 * X, 3 * X, 4 * X], rtol=1e-6)

"""Sums of products as matrix products, against the sum over the whole grid."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.graph.types import TensorType
from loopwright.ir.loop import evaluate as module
from loopwright.ir.loop.evaluate import evaluate_prim, sum_of_products
from loopwright.ir.ops import get
from operators import operator_prim


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab2-")), max_size=6), st.data())
def test_any_axes(axes, data):
    rank = data.draw(st.integers(0, len(axes)))
    extents = [size for size, _ in axes]
    rng = np.random.default_rng(0)

    def factor(name):
        shape = [size if owner in (name, "2") else 1 for size, owner in axes]
        return rng.integers(-4, 5, shape)

    a, b = factor("a"), factor("b")
    whole = np.broadcast_to(a * b, extents).sum(axis=tuple(range(rank, len(axes))))
    np.testing.assert_array_equal(sum_of_products(a, b, extents, rank), whole)


def test_the_evaluator_takes_either_way(monkeypatch):
    rng = np.random.default_rng(2)
    shapes_of = {
        "nn.matmul": ([(3, 1, 7, 9), (2, 9, 5)], {}),
        "conv2d_valid": ([(2, 7, 8, 6), (3, 2, 3, 4)], {"groups": 2, "strides": (2, 1)}),
        "contract": ([(4, 3, 5), (4, 6, 5)], {"equation": "bqd,bkd->bkq"}),
    }
    for name, (shapes, attrs) in shapes_of.items():
        arrays = [rng.integers(-4, 5, s).astype("float32") for s in shapes]
        prim = operator_prim(get(name), [TensorType(s, FLOAT32) for s in shapes], attrs)
        inputs = {f"x{n}": a for n, a in enumerate(arrays)}
        plain = evaluate_prim(prim, inputs)["out"]
        monkeypatch.setattr(module, "_BLOCK_ELEMENTS", 10)
        monkeypatch.setattr(module, "_FACTOR_ELEMENTS", 0)
        blocks = evaluate_prim(prim, inputs)["out"]
        monkeypatch.setattr(module, "_FACTOR_ELEMENTS", 10**6)
        product = evaluate_prim(prim, inputs)["out"]
        monkeypatch.undo()
        np.testing.assert_array_equal(blocks, plain)
        np.testing.assert_array_equal(product, plain)

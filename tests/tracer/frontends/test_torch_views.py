"""Views that ``torch.compile`` hands out, and operators that random programs saw go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from loopwright.doors.torch_model import backend  # noqa: E402
from loopwright.ir.graph.operator import OPERATORS  # noqa: E402
from loopwright.tracer.frontends.torch.tensors import array_of, tensor_of  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("fresh_dynamo"),
]


def _compiled(function: Callable[..., Any], dynamic: bool = False) -> Any:
    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)


def test_views_of_symbolic_sizes_lie_where_those_of_pytorch_do() -> None:
    def views(a: Any) -> tuple[Any, ...]:
        half, b = a.shape[1] // 2, a + 1
        return a.chunk(2)[-1], a[:, :half], a.T.chunk(2)[0], b, b[:, half:], b.chunk(2)[1]

    compiled = _compiled(views, dynamic=True)
    for shape in ((4, 6), (6, 10)):
        x = torch.randn(shape)
        for ours, theirs in zip(compiled(x), views(x), strict=True):
            assert torch.equal(ours, theirs)
            assert (ours.stride(), ours.storage_offset()) == (
                theirs.stride(),
                theirs.storage_offset(),
            )


@pytest.mark.parametrize("dynamic", [False, True])
def test_who_writes_to_a_result_writes_to_its_views(dynamic: bool) -> None:
    def views(a: Any) -> tuple[Any, ...]:
        b, c = a + 1, a * 2
        return b, b[0], c[1:], c.T

    x = torch.randn(4, 6)
    results = _compiled(views, dynamic)(x), views(x)
    for b, _, c, _ in results:
        b.mul_(2), c.mul_(3)
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


def test_a_size_that_may_be_negative() -> None:
    def counted(x: Any) -> Any:
        return torch.bincount(x).flip(0) + x.max().item() * 2

    x = torch.tensor([1, 3, 3])
    compiled = torch.compile(counted, backend=backend, dynamic=True)
    assert torch.equal(compiled(x), counted(x))


def test_integer_products_cut_their_factors() -> None:
    tensors = [torch.randint(-9, 9, s) for s in ((5, 4), (2, 5, 3), (2, 3, 4))]

    def summed(*xs: Any) -> Any:
        return torch.addbmm(*xs, beta=0.2, alpha=1.6)

    assert torch.equal(_compiled(summed)(*tensors), summed(*tensors))


@pytest.mark.parametrize("name", ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"])
def test_smooth_resizing_by_corners(name: str) -> None:
    x = torch.randn(1, 2, 6, 9)

    def resized(x: Any) -> list[Any]:
        sizes = [3, 4], [8, 12], [1, 5]
        return [getattr(torch.ops.aten, name)(x, size, True, None, None) for size in sizes]

    for ours, theirs in zip(_compiled(resized)(x), resized(x), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_last_element_of_a_shorter_window_counts_once() -> None:
    x = torch.tensor([[[1, 2, np.inf, 4, 5, 6, 7, 8]]])
    assert _compiled(lambda x: F.adaptive_avg_pool1d(x, 3))(x)[0, 0].tolist() == [np.inf] * 2 + [7]


def test_bags_of_bfloat16() -> None:
    table = torch.randn(10, 5, dtype=torch.bfloat16)
    places, starts = torch.tensor([1, 4, 4, 0, 2]), torch.tensor([0, 2, 3])

    def bags(table: Any) -> Any:
        return F.embedding_bag(places, table, starts, mode="sum")

    assert torch.allclose(_compiled(bags)(table).float(), bags(table).float(), atol=2e-2)


def test_the_interpreter_adds_up_products_of_bfloat16_wide() -> None:
    x, w = (torch.randn(1, 3, 6, 6).bfloat16(), torch.randn(3, 3, 3, 3).bfloat16())
    attrs = {"strides": 1, "padding": (0,) * 4, "output_padding": 0, "dilation": 1}
    ours, exact = (
        OPERATORS["nn.conv2d_transpose"].reference(
            arrays, {**attrs, "groups": 1, "data_layout": "NCHW"}
        )
        for arrays in ([array_of(t) for t in (x, w)], [t.double().numpy() for t in (x, w)])
    )
    assert torch.equal(tensor_of(ours), torch.from_numpy(exact).bfloat16())

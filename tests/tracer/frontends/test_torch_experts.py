"""Mixtures of experts: products of groups of rows, beside eager PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import loopwright as lw  # noqa: E402
from loopwright.doors.torch_model import backend  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of dynamo about its own parts
    pytest.mark.usefixtures("fresh_dynamo"),
]


def _products(input: Any, weight: Any, offs: Any) -> Any:
    output = torch.zeros(input.shape[0], weight.shape[2], dtype=input.dtype)
    for n, (begin, end) in enumerate(itertools.pairwise([0, *offs.tolist()])):
        output[begin:end] = input[begin:end] @ weight[n]
    return output


def _gradients(input: Any, weight: Any, offs: Any, grad_output: Any) -> Any:
    rows, weights = torch.zeros_like(input), torch.zeros_like(weight)
    for n, (begin, end) in enumerate(itertools.pairwise([0, *offs.tolist()])):
        rows[begin:end] = grad_output[begin:end] @ weight[n].T
        weights[n] = input[begin:end].T @ grad_output[begin:end]
    return rows, weights


def _named(name: str, function: Any, schema: str, fake: Any) -> Any:
    """Returns an operator of PyTorch as the library transformers declares it, with its name."""
    full = f"transformers::{name}"
    torch.library.custom_op(full, function, mutates_args=(), schema=schema)
    torch.library.register_fake(full, fake)
    return getattr(torch.ops.transformers, name)


@pytest.fixture(scope="module")
def grouped() -> Any:
    backward = _named(
        "grouped_mm_fallback_backward",
        _gradients,
        "(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)",
        lambda input, weight, _offs, _grad: (torch.empty_like(input), torch.empty_like(weight)),
    )
    forward = _named(
        "grouped_mm_fallback",
        _products,
        "(Tensor input, Tensor weight, Tensor offs) -> Tensor",
        lambda input, weight, _: input.new_empty(input.shape[0], weight.shape[2]),
    )

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def derive(ctx: Any, grad: Any) -> Any:
        return (*backward(*ctx.saved_tensors, grad), None)

    torch.library.register_autograd("transformers::grouped_mm_fallback", derive, setup_context=keep)
    return forward


def _compiled(function: Any) -> Any:
    return torch.compile(function, backend=backend, options={"fallback": False})


OFFSETS = ([3, 3, 40, 90], [0, 0, 0, 0], [1, 2, 3, 4], [90, 90, 90, 90], [0, 64, 81, 89])


@pytest.mark.parametrize("transposed", [False, True])
def test_experts_of_transformers(grouped: Any, transposed: bool) -> None:
    x = torch.randn(90, 24)
    w = torch.randn((4, 40, 24) if transposed else (4, 24, 40))
    compiled = _compiled(lambda x, w, offs: grouped(x, w.mT if transposed else w, offs) * 2)
    for dtype, ends in itertools.product((torch.int32, torch.int64), OFFSETS):
        offs = torch.tensor(ends, dtype=dtype)
        expected = 2 * _products(x, w.mT if transposed else w, offs)
        torch.testing.assert_close(compiled(x, w, offs), expected, rtol=1e-4, atol=1e-4)


def test_experts_learn(grouped: Any) -> None:
    x, w = torch.randn(90, 24, requires_grad=True), torch.randn(4, 40, 24, requires_grad=True)
    compiled = _compiled(lambda x, w, offs: grouped(x, w.mT, offs).sin())
    for ends in OFFSETS:
        offs = torch.tensor(ends)
        expected = torch.autograd.grad(grouped(x, w.mT, offs).sin().sum(), (x, w))
        found = torch.autograd.grad(compiled(x, w, offs).sum(), (x, w))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ranks", ["2d 3d", "2d 2d", "3d 2d", "3d 3d"])
def test_grouped_products(ranks: str) -> None:
    shapes = {
        "2d 3d": ((40, 16), (3, 16, 32)),
        "2d 2d": ((16, 40), (40, 32)),
        "3d 2d": ((3, 16, 32), (32, 40)),
        "3d 3d": ((3, 8, 16), (3, 16, 32)),
    }[ranks]
    a, b = (torch.randn(shape, dtype=torch.bfloat16) for shape in shapes)
    offs = None if ranks == "3d 3d" else torch.tensor([8, 24, 40], dtype=torch.int32)
    compiled = _compiled(lambda a, b, offs: torch._grouped_mm(a, b, offs=offs))
    expected = torch._grouped_mm(a, b, offs=offs)
    torch.testing.assert_close(compiled(a, b, offs), expected, rtol=2e-2, atol=2e-2)


def test_any_number_of_rows(grouped: Any) -> None:
    w = torch.randn(4, 24, 40)
    compiled = torch.compile(
        lambda x, w, offs: grouped(x, w, offs),
        backend=backend,
        options={"fallback": False},
        dynamic=True,
    )
    for rows in (5, 17, 90):
        x, offs = torch.randn(rows, 24), torch.tensor([0, rows // 2, rows - 1, rows])
        torch.testing.assert_close(
            compiled(x, w, offs), _products(x, w, offs), rtol=1e-4, atol=1e-4
        )


def test_an_exported_mixture(grouped: Any) -> None:
    class Mixture(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.Parameter(torch.randn(4, 24, 40))

        def forward(self, x: Any) -> Any:
            weights, experts = x[:, :4].softmax(1).topk(2)
            order = experts.flatten().argsort()
            counts = torch.nn.functional.one_hot(experts.flatten(), 4).sum(0)
            y = grouped(x[order // 2], self.up, counts.cumsum(0).int())
            return (y[order.argsort()].reshape(-1, 2, 40) * weights[..., None]).sum(1)

    model, x = Mixture(), torch.randn(30, 24)
    with torch.no_grad():
        found = lw.from_torch(torch.export.export(model, (x,)))(x)
        torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-4)

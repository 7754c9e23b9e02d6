"""Operators of PyTorch that come in several uses, each use beside eager PyTorch."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # registers operators that have rows

import loopwright as lw  # noqa: E402
from loopwright.doors.torch_model import backend  # noqa: E402
from loopwright.tracer.frontends.torch.importer import ROWS  # noqa: E402
from loopwright.tracer.frontends.torch.table import Row, arguments  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of dynamo about its own parts
    pytest.mark.usefixtures("fresh_dynamo"),
]


def check(function: Callable[..., Any], *args: Any, tolerance: float = 1e-5) -> None:
    compiled = torch.compile(function, backend=backend, options={"fallback": False})
    torch.testing.assert_close(
        compiled(*args), function(*args), rtol=tolerance, atol=tolerance, equal_nan=True
    )


X = torch.linspace(-3, 3, 42).sin().reshape(6, 7)
TIES = (torch.arange(42).reshape(6, 7) * 5) % 4
HOLES = torch.where(TIES == 1, torch.nan, X)

ORDER: dict[str, tuple[Any, ...]] = {
    "topk": (lambda x: (x.topk(3), x.topk(2, 0, largest=False), x[0, 0].topk(1)), X),
    "sort": (lambda x: (x.sort(1), x.sort(0, descending=True), x[0, 0].sort(), x.msort()), X),
    "stable": (
        lambda i: [
            torch.sort(i, dim=d, stable=True, descending=down)
            for d in (0, 1)
            for down in (False, True)
        ],
        TIES,
    ),
    "nan": (lambda x: (x.sort(1)[0], x.sort(0, descending=True)[0], x.topk(3)[0]), HOLES),
    "kthvalue": (lambda x: (x.kthvalue(3), x.kthvalue(2, 0, keepdim=True)), X),
    "median": (lambda x: (x.median(), x.median(1), x.median(0, True), x[:, :4].median(1)), X),
    "median with nan": (lambda x: (x.median(), x.median(1)[0], x.median(0)[0]), HOLES),
    "median of ints": (lambda i: (i.median(), i.median(1)[0]), TIES),
    "searchsorted": (
        lambda x, s: (
            torch.searchsorted(s, x),
            torch.searchsorted(s, x.round(), right=True, out_int32=True),
            torch.bucketize(x.round(), s),
        ),
        X,
        torch.arange(-3.0, 3.0),
    ),
}


@pytest.mark.parametrize("name", ORDER)
def test_order(name: str) -> None:
    check(*ORDER[name])


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 4), (6, 7)])
def test_adaptive_max_pool(size: tuple[int, int]) -> None:
    def pooled(x: Any) -> Any:
        return F.adaptive_max_pool2d(x, size, return_indices=True)

    check(pooled, torch.randn(2, 3, 6, 7))
    check(pooled, torch.randn(3, 6, 7))

    def gradient(x: Any) -> Any:
        leaf = x.clone().requires_grad_()
        f = torch.compile(pooled, backend=backend, options={"fallback": False})
        return torch.autograd.grad((f(leaf)[0] * 3).sum(), leaf)[0]

    x = torch.randn(2, 3, 6, 7)
    leaf = x.clone().requires_grad_()
    expected = torch.autograd.grad((pooled(leaf)[0] * 3).sum(), leaf)[0]
    torch.testing.assert_close(gradient(x), expected)


GRADIENTS: dict[str, tuple[Any, ...]] = {
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1, 1, True), (2, 3, 8, 9)),
    "max pool side by side": (lambda x: F.max_pool2d(x, (2, 3)), (2, 3, 8, 9)),
    "max pool of one image": (lambda x: F.max_pool3d(x, 2, dilation=2), (3, 5, 6, 7)),
    "avg pool": (lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), (2, 3, 8, 9)),
    "avg pool over": (lambda x: F.avg_pool2d(x, 3, divisor_override=2), (3, 8, 9)),
    "avg pool of less than a window": (lambda x: F.avg_pool2d(x, 9, 9, 1, True), (2, 3, 5, 6)),
    "avg pool 3d": (lambda x: F.avg_pool3d(x, 2, padding=1), (2, 3, 4, 5, 6)),
    "adaptive avg pool": (lambda x: F.adaptive_avg_pool2d(x, (3, 1)), (2, 3, 8, 9)),
    "conv": (lambda x, w: F.conv2d(x, w, None, 2, 1, 2, 2), (2, 4, 9, 8), (6, 2, 3, 2)),
    "conv of one padding": (
        lambda x, w: torch.ops.aten.convolution(x, w, None, (2,), (1,), (1,), False, (0,), 2),
        (2, 4, 9, 8),
        (6, 2, 3, 2),
    ),
    "conv of one image": (lambda x, w: F.conv1d(x, w), (4, 9), (6, 4, 3)),
    "conv transposed": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2),
        *((2, 4, 5, 6), (4, 3, 3, 3), (6,)),
    ),
    "conv transposed, and more behind it": (
        lambda x, w: F.conv_transpose1d(x, w, None, 1, 0, 2, 1, 3),
        *((2, 4, 5), (4, 3, 3)),
    ),
    "weight norm": (
        lambda v, g, h: torch._weight_norm(v, g, 0) * torch._weight_norm(v, h, 2),
        *((6, 4, 3), (6, 1, 1), (1, 1, 3)),
    ),
    "embedding": (lambda w: F.embedding(TIES, w, padding_idx=2), (4, 5)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    function, *shapes = GRADIENTS[name]
    torch.manual_seed(0)
    args = [torch.randn(shape) for shape in shapes]

    def gradient(f: Any) -> Any:
        leaves = [a.clone().requires_grad_() for a in args]
        return torch.autograd.grad((f(*leaves) ** 2).sum(), leaves)

    f = torch.compile(function, backend=backend, options={"fallback": False})
    torch.testing.assert_close(gradient(f), gradient(function), rtol=1e-4, atol=1e-4)


def test_gradients_of_transposed_convolutions_are_rounded_once() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(1, 8, 9).bfloat16(), torch.randn(8, 8, 3).bfloat16()
    f = torch.compile(lambda x, w: F.conv_transpose1d(x, w, stride=2), backend=backend)
    cotangent = torch.randn(1, 8, 19).bfloat16()
    (given,) = torch.autograd.grad(f(leaf := x.clone().requires_grad_(), w), leaf, cotangent)
    exact = F.conv1d(cotangent.double(), w.double(), stride=2)
    torch.testing.assert_close(given.double(), exact, rtol=2**-8, atol=0)


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_grouped_query_attention(heads: int) -> None:
    """Several heads share keys and values, forward and backward."""
    parts = [torch.randn(2, h, 6, 16, requires_grad=True) for h in (8, heads, heads)]

    def attend(q: Any, k: Any, v: Any, m: Any) -> Any:
        plain = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        causal = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return plain + causal + F.scaled_dot_product_attention(q, k, v, m, enable_gqa=True)

    f = torch.compile(attend, backend=backend, options={"fallback": False})
    mask, weight = torch.randn(6, 6), torch.randn(2, 8, 6, 16)
    results = []
    for function in (f, attend):
        result = function(*parts, mask)
        results.append((result, *torch.autograd.grad((result * weight).sum(), parts)))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_without_gradients(activation: str, norm_first: bool) -> None:
    """PyTorch runs them as one operator then."""
    options = {"batch_first": True, "norm_first": norm_first, "activation": activation}
    layer = nn.TransformerEncoderLayer(32, 4, 64, **options).eval()
    x, causal = torch.randn(2, 5, 32), nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.tensor([[False] * 3 + [True] * 2, [False] * 5])
    with torch.no_grad():
        check(lambda x: (layer(x), layer(x, src_mask=causal), layer(x, causal, padding)), x)
        check(lambda x: layer(x, src_key_padding_mask=padding), x)


def test_multi_head_attention_without_gradients() -> None:
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x, causal = torch.randn(2, 5, 32), nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.tensor([[False] * 3 + [True] * 2, [False] * 5])

    def uses(x: Any) -> Any:
        return (
            layer(x, x, x),
            layer(x, x, x, attn_mask=causal),
            layer(x, x, x, key_padding_mask=padding, average_attn_weights=False),
            layer(x, x, x, need_weights=False),
        )

    with torch.no_grad():
        check(uses, x)


def test_half_precision() -> None:
    parts = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.Flatten(), nn.Linear(288, 6))
    net = nn.Sequential(*parts, nn.LayerNorm(6), nn.Softmax(-1)).half().eval()
    with torch.no_grad():
        check(net, torch.randn(2, 3, 8, 8).half(), tolerance=2e-3)


def test_a_use_that_a_row_refuses_runs_in_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the error is: PyTorch has typed the program, so it is right."""

    def search(s: Any, x: Any) -> Any:
        return torch.searchsorted(s, x) * 2

    s, x = X.sort(1)[0], X + 0.1
    with caplog.at_level(logging.WARNING, logger="loopwright"):
        result = torch.compile(search, backend=backend)(s, x)
    torch.testing.assert_close(result, search(s, x))
    assert "PyTorch runs a graph without Loopwright" in caplog.text


def test_a_converter_has_parameters_of_its_schema() -> None:
    """So that what it has no parameter for is seen, and refused unless it does not matter."""
    wrong: list[str] = []
    for row in ROWS.values():
        home, packet, overload = ["aten", *row.name.split(".")][-3:]
        if home != "aten" and not hasattr(getattr(torch.ops, home), packet):
            continue  # its package is not installed
        found = getattr(getattr(getattr(torch.ops, home), packet), overload)
        schema = {a.name for a in found._schema.arguments}
        parameters = list(inspect.signature(row.function).parameters.values())
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            continue
        for each in parameters[row.draws or row.memory :]:
            if each.name not in schema and each.default is each.empty:
                wrong.append(f"{row.name}: {each.name}")
    assert not wrong


def test_an_argument_that_no_row_looks_at_is_refused() -> None:
    row = Row("relu.default", lambda self: self)
    target = torch.ops.aten.leaky_relu.default
    assert arguments(row, target, (1, 0.01), {})[1] == {"self": 1}, "the default"
    with pytest.raises(lw.UnsupportedError, match=r"with negative_slope=0\.5 is not"):
        arguments(row, target, (1, 0.5), {})


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "mean"])
def test_dtype_is_that_of_the_computation(name: str) -> None:
    x = torch.full((100_000,), 1.0, dtype=torch.float16)
    whole = name in ("sum", "prod", "mean")
    arguments = () if whole else (0,)

    def reduced(x: torch.Tensor) -> torch.Tensor:
        return getattr(torch, name)(x, *arguments, dtype=torch.float32)

    check(reduced, x)


def test_as_strided_reads_the_storage() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    uses = [
        lambda x: x.t().as_strided((3, 2), (2, 1)) * 1,
        lambda x: x[1:, ::2].as_strided((3, 3), (6, 2)) * 1,
        lambda x: x[:, 3].as_strided((2, 2), (7, 5), 4) * 1,
        lambda x: (x + 1).t().as_strided((3, 5), (1, 2), 3) * 1,
        lambda x: x[:, None].expand(4, 2, 6).as_strided((2, 2), (6, 1)) * 1,
    ]
    for use in uses:
        for placed in (x, x.t().contiguous().t()):
            torch._dynamo.reset()
            check(use, placed, tolerance=0)

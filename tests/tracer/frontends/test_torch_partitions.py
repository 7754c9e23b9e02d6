"""Graphs with what is not supported, compiled in parts around it, against PyTorch."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from foreign_torch import FOREIGN, by_memory, noisy  # noqa: E402
from loopwright.doors import torch_model  # noqa: E402
from loopwright.doors.kept_models import KeptCode  # noqa: E402
from loopwright.doors.torch_model import backend  # noqa: E402
from loopwright.ir.errors import UnsupportedError  # noqa: E402
from loopwright.tracer.frontends.torch.decompositions import decompositions  # noqa: E402
from loopwright.tracer.frontends.torch.table import ROWS, Row  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._functorch.aot_autograd import make_boxed_func  # noqa: E402
from torch_training import assert_trained_alike  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of dynamo about its own parts
    pytest.mark.usefixtures("fresh_dynamo"),
]

scaled = FOREIGN["scaled"]


def _compile(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=backend, fullgraph=True, options=options)


def _graphs_by_torch(model: Any) -> Any:
    """The graphs that the backend gets, run by PyTorch."""
    run = lambda graph, inputs: make_boxed_func(graph.forward)  # noqa: E731
    return torch.compile(
        model, backend=aot_autograd(fw_compiler=run, decompositions=decompositions())
    )


Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Lines:
    """What the log says from now on."""
    from loopwright.tracer.frontends.torch import dynamo

    monkeypatch.setattr(dynamo, "_logged", set())
    caplog.set_level(logging.WARNING, logger="loopwright")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "loopwright"]


def _same(function: Callable[..., Any], *args: Any) -> None:
    torch.testing.assert_close(_compile(function)(*args), function(*args))


def test_parts_are_compiled_around_an_operator(lines: Lines) -> None:
    w = torch.rand(4, 4) / 4

    def f(x: Any) -> Any:
        y = torch.tanh(x @ w) + 1
        return (scaled(y) * y).exp() @ w, y.t()

    x = torch.randn(3, 4)
    _same(f, x)
    (line,) = lines()
    assert line.startswith(
        "PyTorch runs 1 of 7 operators, and Loopwright the others; parts: 2, tensors exchanged: 2:"
        " the inference graph needs what is not supported: foreign.scaled.default (node "
    )
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"foreign\.scaled"):
        _compile(f, fallback=False)(x)


def test_an_operator_that_depends_on_memory_sees_what_pytorch_would_give_it() -> None:
    """Compiled parts hand over permuted axes as they are; where there are gaps or an offset PyTorch
    runs what makes them."""

    def f(x: Any) -> Any:
        y = x.exp() * 2
        views = (y, y.permute(2, 0, 1), y[:, 1:], y[1:], y[..., ::2], y.expand(2, *y.shape))
        split = y.split(2, 1)
        computed = [y.permute(2, 1, 0).sin() * 3, y.to(memory_format=torch.contiguous_format)]
        return [by_memory(v) + v.cos() for v in (*views, *split, *computed)], by_memory(x) * y

    for x in (
        torch.rand(3, 4, 6),
        torch.rand(6, 4, 3).permute(2, 1, 0),
        torch.rand(3, 4, 12)[..., ::2],
    ):
        torch.testing.assert_close(_compile(f)(x), _graphs_by_torch(f)(x))
        torch._dynamo.reset()


def test_images_whose_channels_are_last_stay_so() -> None:
    conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)

    def f(x: Any) -> Any:
        return by_memory(conv(x).relu() * 2).relu() + 1

    for dynamic in (False, True):
        torch._dynamo.reset()
        ours = torch.compile(f, backend=backend, dynamic=dynamic)
        with torch.no_grad():
            for n in (5, 7):
                x = torch.rand(n, 3, 8, 8).to(memory_format=torch.channels_last)
                torch.testing.assert_close(ours(x), f(x))
                assert ours(x).stride() == f(x).stride()


def test_random_numbers_are_drawn_in_the_order_of_the_graph() -> None:
    def f(x: Any) -> Any:
        a = nn.functional.dropout(x, 0.5).sin()  # in a compiled part
        b = noisy(x)  # by PyTorch, and reads an input only
        c = torch.rand_like(x) * a + 1
        return a, b, c.exp() * noisy(c), noisy(b) + torch.randn(3)

    x = torch.rand(3)
    g = _compile(f)
    for seed in range(3):
        torch.manual_seed(seed)
        ours = g(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(ours, f(x))


def test_foreign_dtypes_stay_in_pytorch() -> None:
    def f(x: Any) -> Any:
        y = torch.fft.fft(x.sin() * 2)
        z = torch.view_as_real(y * torch.polar(x.exp(), x + 1))
        return z.cos() @ torch.ones(2, 3), (x * 3).to(torch.float8_e5m2), y

    x = torch.rand(3, 4)
    ours, theirs = _compile(f)(x), f(x)
    torch.testing.assert_close(ours[::2], theirs[::2])
    assert torch.equal(ours[1].view(torch.uint8), theirs[1].view(torch.uint8))


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.linear = nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        y = FOREIGN["reversed_axes"](self.norm(self.conv(x)).relu())
        y = FOREIGN["with_gaps"](self.conv(y[:, :3]).relu() * y)
        y = nn.functional.dropout(y.mean((2, 3)), 0.25, self.training)
        return FOREIGN["scaled"](self.linear(y)).softmax(-1)


@pytest.mark.parametrize("batches", [(2, 2), (2, 3, 5)])
def test_training_gives_the_gradients_of_torch(batches: Sequence[int]) -> None:
    """The second size makes sizes symbolic. Saved images lie otherwise than PyTorch's backward
    operators expect, and are copied for them."""
    assert_trained_alike(_Net(), _compile, 6, batches)


def test_weights_are_constants_of_parts_and_updates_are_seen() -> None:
    ours = _Net().eval()
    theirs = copy.deepcopy(ours)
    f = _compile(ours)
    x = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        for factor in (1, 0.5, 2):
            for model in (ours, theirs):
                model.linear.weight.mul_(factor)
            torch.testing.assert_close(f(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_sizes_and_numbers_that_data_decides_stay_in_pytorch() -> None:
    def f(x: Any) -> Any:
        y = torch.tanh(x * 2) + 1
        places = (y > 1.2).nonzero()[:, 0]
        n = (y.sum() * 10).long().item()
        torch._check(n >= 0)
        z = (y[places] * 3).sum() + n
        return (y * z).exp() / z, torch.zeros(n), places

    with torch._dynamo.config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    ):
        g = _compile(f)
        for _ in range(3):
            x = torch.rand(6)
            torch.testing.assert_close(g(x), f(x))


def test_an_operator_may_write_into_a_view_of_what_a_part_computes() -> None:
    @torch.library.custom_op("foreign::raise_", mutates_args=("x",))
    def raise_(x: torch.Tensor, by: torch.Tensor) -> None:
        x.add_(by.sum())

    def f(x: Any, y: Any) -> Any:
        a = (x * 2).sin()
        raise_(a[1:], y)  # a view of a part's result
        raise_(x[:, 0], y)  # and of an input, which the next part reads
        b = a.exp() + x
        y += b.sum()
        return b * 2, x.t()

    ours, theirs = [[torch.linspace(0, 1, 6).view(2, 3), torch.ones(2)] for _ in range(2)]
    torch.testing.assert_close(_compile(f)(*ours), f(*theirs))
    torch.testing.assert_close(ours, theirs)


def test_all_parts_get_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, dict[str, Any]]] = []

    def make(module: Any, name: str, **options: Any) -> Any:
        made.append((name, options))
        return KeptCode(module, name, **options)

    monkeypatch.setattr(torch_model, "KeptCode", make)
    x = torch.rand(3).requires_grad_()
    f = _compile(lambda x: scaled(x.sin() + 1).exp() * 2, threads=1)
    f(x).sum().backward()
    names = [f"{part}_graph" for part in ("forward_part_0", "forward_part_1", "backward_part_0")]
    assert made == [(name, {"threads": 1}) for name in names]


def test_a_branch_with_such_an_operator_runs_in_pytorch_as_a_whole() -> None:
    def f(x: Any) -> Any:
        y = torch.tanh(x) * 2
        z = torch.cond(y.sum() > 0, lambda v: scaled(v) + 1, lambda v: v - 1, (y,))
        return (z * y).exp() + 1

    for sign in (1, -1):
        _same(f, torch.rand(3) * sign)


def test_composite_custom_operators_are_traced_through_their_body(lines: Lines) -> None:
    library = torch.library.Library("foreign_composite", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x.sin() * 2, "CompositeImplicitAutograd")
    _same(lambda x: torch.ops.foreign_composite.twice(x) + 1, torch.rand(3))
    assert not lines()


def test_what_a_row_refuses_while_it_is_traced_is_divided_too(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two operators in a graph: the second is met in the part behind the first."""

    def refuses(x: Any) -> Any:
        raise UnsupportedError(f"{x.ndim} axes are not supported")

    for name in ("scaled", "with_gaps"):
        name = f"foreign.{name}.default"
        monkeypatch.setitem(ROWS, name, Row(name, refuses))

    def f(x: Any) -> Any:
        y = torch.tanh(x * 2)
        z = (scaled(scaled(y).sin()) * y).exp() + y
        return FOREIGN["with_gaps"](z * 2 + 1) * z + y

    x = torch.rand(4, 4)
    for dynamic in (False, True):
        torch._dynamo.reset()
        g = torch.compile(f, backend=backend, dynamic=dynamic)
        for n in (3, 4):
            x = torch.rand(n, 4)
            torch.testing.assert_close(g(x), f(x))
    first, second = lines()
    assert first.startswith("PyTorch runs 3 of 13 operators")
    assert "foreign.scaled.default (node scaled" in first and "2 axes are not supported" in first
    assert second.startswith("PyTorch runs 1 of 8 operators")
    torch._dynamo.reset()
    with pytest.raises(Exception, match="not supported"):
        _compile(f, fallback=False)(x)

"""``torch.compile(model, backend="loopwright")`` against PyTorch: results, gradients, buffers."""

from __future__ import annotations

import copy
import logging
import math
import tomllib
from typing import Any

import pytest
import repo_sources as sources

torch = pytest.importorskip("torch")

from loopwright.doors.torch_model import backend  # noqa: E402
from loopwright.face.module import CompiledModule  # noqa: E402
from loopwright.tracer.frontends.torch import dynamo  # noqa: E402
from torch import nn  # noqa: E402
from torch_training import assert_trained_alike  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of dynamo about its own parts
    pytest.mark.usefixtures("fresh_dynamo"),
]


def _net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 6),
        nn.LayerNorm(6),
        nn.Dropout(0.25),
    )


def _compile(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=backend, fullgraph=True, options=options)


def test_the_entry_point_is_declared() -> None:
    project = tomllib.loads((sources.ROOT / "pyproject.toml").read_text())["project"]
    named = project["entry-points"]["torch_dynamo_backends"]["loopwright"]
    assert named == f"{backend.__module__}:{backend.__qualname__}"


def test_training_gives_the_gradients_and_buffers_of_torch() -> None:
    """Several batch sizes: the second shape makes dynamo's sizes symbolic. The same seed gives the
    same dropout."""
    assert_trained_alike(_net(), _compile, 8, (3, 3, 5, 4))


class _Decoder(nn.Module):
    """Attention of one new row over the rows so far, which are carried from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.drop = nn.Linear(16, 48), nn.Dropout(0.25)

    def forward(self, x: Any, keys: Any, values: Any) -> Any:
        q, k, v = self.mix(self.drop(x)).view(1, 1, 3, 2, 8).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        y = nn.functional.scaled_dot_product_attention(q, keys, values)
        return y * keys.shape[2], keys, values


def _counted(model: Any, makes: list[str], **options: Any) -> Any:
    """Compiles a model; the names of its graphs are appended to ``makes`` as they are made."""

    def make(module: Any, name: str) -> Any:
        makes.append(name)
        return CompiledModule(module, name)

    return torch.compile(
        model,
        fullgraph=True,
        backend=lambda graph, inputs: dynamo.backend(graph, inputs, make, False),
        **options,
    )


def test_one_compile_is_for_all_lengths() -> None:
    """Dynamo hands over a graph for the first length and one for all others, in which the lengths
    of keys and values have names of their own."""
    model, makes = _Decoder().eval(), list[str]()
    f = _counted(model, makes)
    ours = theirs = (torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8))
    with torch.no_grad():
        for _ in range(7):
            x = torch.randn(1, 1, 16)
            y, *ours = f(x, *ours)
            wanted, *theirs = model(x, *theirs)
            torch.testing.assert_close([y, *ours], [wanted, *theirs], rtol=1e-4, atol=1e-5)
    assert makes == ["inference_graph"] * 2


def test_training_compiles_once_for_all_lengths() -> None:
    """Sizes are results of the forward graph, and random numbers have them."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.drop = nn.Linear(6, 8), nn.Dropout(0.25)

        def forward(self, x: Any) -> Any:
            h = self.drop(torch.relu(self.layer(x)))
            return (h @ h.transpose(1, 2)).softmax(-1) * x.shape[1], 3 * x.shape[1]

    ours, makes = Net(), list[str]()
    theirs, f = copy.deepcopy(ours), _counted(ours, makes)
    for length in (5, 7, 4, 9):
        x, results = torch.randn(2, length, 6), list[Any]()
        for model in (f, theirs):
            torch.manual_seed(length)
            y, number = model(x)
            y.square().sum().backward()
            results.append((y.detach(), number))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
    assert makes == ["forward_graph", "backward_graph"] * 2


def test_numbers_and_squares_are_symbolic_sizes() -> None:
    """An integer that no tensor has as a size, negative ones too, and a size that is a product."""

    def rows(x: Any, n: int) -> Any:
        return x[:, :n] * n + torch.arange(n + 9).sum()

    images, makes = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(1)), list[str]()
    f, x = _counted(rows, makes), torch.randn(2, 12)
    for n in (3, 5, 6, 7, -2):
        torch.testing.assert_close(f(x, n), rows(x, n))
    assert len(makes) == 3
    g = _counted(images, makes, dynamic=True)
    with torch.no_grad():
        for shape in ((2, 1, 8, 8), (3, 1, 9, 9), (2, 1, 12, 7)):
            x = torch.randn(shape)
            torch.testing.assert_close(g(x), images(x), rtol=1e-4, atol=1e-5)


def test_effects_stay_in_order_where_sizes_are_symbolic() -> None:
    """Tokens that tie effects together are traced as tensors, and None in a call."""

    def inverse(x: Any, a: Any) -> Any:
        return x * 2, torch.linalg.inv(a)

    makes = list[str]()
    f, a = _counted(inverse, makes), torch.tensor([[2.0, 1.0], [0.0, 4.0]])
    for n in (3, 5, 7):
        torch.testing.assert_close(f(torch.ones(n), a), inverse(torch.ones(n), a))
    assert len(makes) == 2
    with pytest.raises(RuntimeError, match="LAPACK fails"):
        f(torch.ones(9), torch.zeros(2, 2))


def test_a_scan_has_gradients() -> None:
    """Its steps keep ``w`` and ``w + 1`` for those of the gradient, which has them once."""
    from torch._higher_order_ops.scan import scan

    def f(w: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = torch.tanh(h @ (w + 1) @ w + row)
            return h, h.clone()

        return scan(step, x[0] * 0, x)[0].sum()

    gradients: list[Any] = []
    for g in (_compile(f, fallback=False), f):
        shapes = ((3, 3), (4, 2, 3))
        w, x = (torch.linspace(-1, 1, math.prod(s)).view(s).requires_grad_() for s in shapes)
        g(w, x).backward()
        gradients.append((w.grad, x.grad))
    torch.testing.assert_close(*gradients)


def test_updates_of_weights_are_seen() -> None:
    """By an optimizer, by loading, by assigning data and by other tensors."""
    ours = _net().eval()
    theirs = copy.deepcopy(ours)
    f = _compile(ours)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():

        def same() -> None:
            torch.testing.assert_close(f(x), theirs(x), rtol=1e-4, atol=1e-5)

        same()
        for model in (ours, theirs):
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            torch.optim.SGD(model.parameters(), 0.1).step()
        same()
        state = {name: tensor * 0.5 for name, tensor in theirs.state_dict().items()}
        for model in (ours, theirs):
            model.load_state_dict(state)
        same()
        for model in (ours, theirs):
            model[5].weight.data = torch.full((6, 32), 0.25)
        same()
        for model in (ours, theirs):
            model[5].bias = nn.Parameter(torch.arange(6.0))
        same()
        for model in (ours, theirs):
            model.train()
            model[7].p = 0.0
        same()
        torch.testing.assert_close(ours[1].running_mean, theirs[1].running_mean)
        for model in (ours, theirs):
            model.eval()
        same()


def test_structures_views_and_numbers() -> None:
    def f(x: Any, pair: Any, *, flag: bool, scale: float) -> dict[str, Any]:
        view = x.t()
        y = pair["a"] * scale if flag else pair["b"]
        return {
            "view": view,
            "rows": x[1:],
            "scalar": (x.sum() + y.sum(), None, 7),
            "index": x.argmax(1),
            "same": x,
            "flag": y > 0,
            "int": torch.arange(3) // 2 + x.shape[0],
        }

    x = torch.randn(3, 4)
    pair = {"a": torch.tensor([1, -2]), "b": torch.tensor(2.5)}
    g = _compile(f)
    for flag, scale in ((True, 2.0), (False, 2.0), (True, 3.5)):
        expected = f(x, pair, flag=flag, scale=scale)
        result = g(x, pair, flag=flag, scale=scale)
        assert result["view"].data_ptr() == x.data_ptr()
        assert result["same"] is x
        torch.testing.assert_close(result, expected)


def test_inputs_that_are_written_and_aliased() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        y[:, 0] = x.sum()
        return x * 2, y.view(-1)

    ours, theirs = [[torch.ones(2, 3), torch.ones(2, 3)] for _ in range(2)]
    torch.testing.assert_close(_compile(f)(*ours), f(*theirs))
    torch.testing.assert_close(ours, theirs)


def test_gradients_flow_only_where_they_are_asked_for() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return (x * y.detach()).sum(), (y * z).sum()

    def leaves() -> list[Any]:
        torch.manual_seed(1)
        return [torch.randn(4, requires_grad=n < 2) for n in range(3)]

    ours, theirs = leaves(), leaves()
    results = _compile(f)(*ours), f(*theirs)
    assert results[0][0].requires_grad and results[0][1].requires_grad
    for a, b in results:
        (a * 2 + b).backward()
    torch.testing.assert_close(ours[0].grad, theirs[0].grad)
    torch.testing.assert_close(ours[1].grad, theirs[1].grad)
    assert ours[2].grad is None


def test_what_is_not_supported_runs_in_torch_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def f(x: Any) -> Any:
        return torch.histogramdd(x, [2, 2, 2]).hist.sum() + x.to(torch.float8_e5m2).float()

    x = torch.eye(3) * 2
    with caplog.at_level(logging.WARNING, logger="loopwright"):
        for _ in range(2):
            torch.testing.assert_close(_compile(f)(x), f(x))
            torch._dynamo.reset()
    lines = [r.getMessage() for r in caplog.records if r.name == "loopwright"]
    assert len(lines) == 1 and "_histogramdd_from_bin_cts" in lines[0] and "float8_e5m2" in lines[0]
    with pytest.raises(Exception, match="_histogramdd_from_bin_cts"):
        _compile(f, fallback=False)(x)

"""``lw.from_torch``: modules of PyTorch called as they are, against PyTorch in float64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch.export about its own parts

from foreign_torch import FOREIGN  # noqa: E402
from torch import nn  # noqa: E402


class Net(nn.Module):
    """Convolution, normalisation, pooling and a product; keywords and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)
        self.register_buffer("shift", torch.arange(5.0))

    def forward(self, x: Any, *, scale: Any = None) -> dict[str, Any]:
        y = torch.relu(self.norm(self.conv(x)))
        y = self.head(nn.functional.max_pool2d(y, 3, 2, 1).mean((2, 3))) + self.shift
        return {"y": y if scale is None else y * scale, "nothing": None, "three": 3}


def _net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def test_tensors_give_tensors_and_arrays_give_arrays() -> None:
    net, x, scale = _net(), torch.randn(2, 3, 12, 12), torch.tensor(2.0)
    f = lw.from_torch(net, (x,), {"scale": scale})
    expected = net.double()(x.double(), scale=scale.double())["y"].detach()
    result = f(x, scale=scale)
    assert list(result) == ["y", "nothing", "three"]
    assert result["nothing"] is None and result["three"] == 3
    assert isinstance(result["y"], torch.Tensor)
    np.testing.assert_allclose(result["y"], expected, rtol=1e-4, atol=1e-5)
    arrays = f(x.numpy(), scale=np.float32(2))
    assert isinstance(arrays["y"], np.ndarray)
    np.testing.assert_array_equal(arrays["y"], result["y"])


def test_weights_are_the_tensors_memory() -> None:
    wide = nn.Linear(64, 512)
    f = lw.from_torch(wide, (torch.zeros(2, 64),))
    constants = [
        a
        for b in f.module.main.body.bindings
        for a in getattr(b.value, "args", ())
        if type(a).__name__ == "Constant"
    ]
    assert len(constants) == 2
    for constant in constants:
        assert any(np.shares_memory(constant.value, p.detach().numpy()) for p in wide.parameters())


def test_all_that_is_missing_is_one_error() -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.histogramdd(x, [2, 2, 2]).hist, x.to(torch.float8_e5m2)

    with pytest.raises(lw.UnsupportedError) as caught:
        lw.from_torch(Odd(), (torch.eye(3),))
    assert "_histogramdd_from_bin_cts" in str(caught.value)
    assert "float8_e5m2" in str(caught.value)
    assert "test_from_torch.py:" in str(caught.value)


def test_a_module_that_writes_its_buffers_is_refused() -> None:
    with pytest.raises(lw.UnsupportedError, match="writes running_mean"):
        lw.from_torch(nn.BatchNorm1d(3), (torch.zeros(4, 3),))


def test_arguments_of_another_structure_are_refused() -> None:
    f = lw.from_torch(nn.ReLU(), (torch.zeros(3),))
    with pytest.raises(lw.LoopwrightTypeError, match="another structure"):
        f(torch.zeros(3), torch.zeros(3))
    with pytest.raises(lw.LoopwrightTypeError):
        f(torch.zeros(4))


def test_it_is_tuned_and_shown_as_a_compiled_function(tmp_path: Path) -> None:
    net, x, scale = _net(), torch.randn(2, 3, 12, 12), torch.tensor(2.0)
    f = lw.from_torch(net, (x,), {"scale": scale}, threads=1)
    before = f(x, scale=scale)["y"]
    log = tmp_path / "log.jsonl"
    f.tune(x, scale=scale, trials=2, log=log)
    assert log.stat().st_size
    np.testing.assert_allclose(f(x, scale=scale)["y"], before, rtol=1e-5, atol=1e-6)
    assert "matmul" in f.as_text("kernels")
    assert f.lower(x, scale=scale).as_text("graph") == f.as_text("graph")


@dataclass
class Pair:
    first: Any
    second: Any


def test_dataclasses_and_channels_last() -> None:
    torch.export.register_dataclass(Pair, serialized_type_name="loopwright.test.Pair")

    class Both(nn.Module):
        def forward(self, x: Any) -> Pair:
            return Pair(x * 2, x.permute(0, 2, 3, 1).contiguous())

    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    pair = lw.from_torch(Both(), (x,))(x)
    assert isinstance(pair, Pair)
    assert pair.first.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(pair.first, x * 2)
    torch.testing.assert_close(pair.second, x.permute(0, 2, 3, 1))


class Mixed(nn.Module):
    """An operator that only PyTorch can run, between two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x: Any, *, scale: Any) -> dict[str, Any]:
        y = FOREIGN["with_gaps"](self.first(x).tanh() * scale)
        return {"y": self.second(y * y + self.shift).exp(), "x": x.t(), "three": 3}


def test_with_fallback_pytorch_runs_what_is_missing() -> None:
    torch.manual_seed(0)
    net, x, scale = Mixed(), torch.randn(3, 4), torch.tensor(2.0)
    with pytest.raises(lw.UnsupportedError, match=r"foreign\.with_gaps"):
        lw.from_torch(net, (x,), {"scale": scale})
    f = lw.from_torch(net, (x,), {"scale": scale}, fallback=True, threads=1)
    expected = net(x, scale=scale)
    result = f(x, scale=scale)
    assert not result["y"].requires_grad
    torch.testing.assert_close(result, expected)
    arrays = f(x.numpy(), scale=np.float32(2))
    assert isinstance(arrays["y"], np.ndarray)
    np.testing.assert_array_equal(arrays["y"], result["y"])
    assert len(f.parts) == 2 and f.parts[1].lower().built.kernels
    with pytest.raises(lw.LoopwrightTypeError, match="shape"):
        f(torch.randn(5, 4), scale=scale)
    with pytest.raises(lw.LoopwrightTypeError, match="float64"):
        f(x.double(), scale=scale)
    with pytest.raises(lw.LoopwrightTypeError, match="another structure"):
        f(x)


def test_a_module_in_parts_has_the_sizes_it_was_exported_for() -> None:
    net, scale = Mixed(), torch.tensor(2.0)
    rows = {"x": {0: torch.export.Dim("rows", min=2, max=9)}, "scale": None}
    program = torch.export.export(net, (torch.randn(3, 4),), {"scale": scale}, dynamic_shapes=rows)
    f = lw.from_torch(program, fallback=True)
    for n in (3, 9):
        x = torch.randn(n, 4)
        torch.testing.assert_close(f(x, scale=scale), net(x, scale=scale))
    with pytest.raises(lw.LoopwrightTypeError, match="shape"):
        f(torch.randn(10, 4), scale=scale)


def test_a_branch_on_values_is_an_error_with_its_line_and_a_way_out() -> None:
    class Signs(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x - 2

    with pytest.raises(lw.UnsupportedError, match="Signs branches on the values") as caught:
        lw.from_torch(Signs(), (torch.ones(3),))
    assert "in forward: return x * 2 if x.sum() > 0 else x - 2" in str(caught.value)
    assert "torch.cond" in str(caught.value)

"""PyTorch's models whose code a process before has kept: they are imported, and not compiled."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import loopwright as lw
import pytest
from loopwright.doors import kept_models
from loopwright.driver import pipeline

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of dynamo about its own parts


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every program is kept, in a folder of the test."""
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_SIZE", "8")
    monkeypatch.setattr(kept_models, "WORTHWHILE_SECONDS", 0.0)


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).eval()


X = torch.linspace(-1, 1, 144).view(2, 2, 6, 6)


def check(f: Any, model: nn.Module, x: Any = X) -> None:
    """Calls ``f``, whose program is written afterwards if it is to be kept."""
    with torch.no_grad():
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)
    for thread in threading.enumerate():
        if thread.name == "loopwright-keep":
            thread.join()


def is_kept(f: Any) -> bool:
    return f.cache_info().reasons == (kept_models.REASON,)


def test_the_code_of_a_process_before_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    check(lw.from_torch(net(), (X,)), net())
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "build", None)
        f = lw.from_torch(net(), (X,))
        check(f, net())
    assert is_kept(f)
    assert "conv2d" in f.as_text("graph") and f.memory(X).weights
    check(f, net())
    f.tune(X, trials=2)
    assert not is_kept(f)
    check(f, net())


def test_other_weights_attributes_and_options_are_other_programs() -> None:
    check(lw.from_torch(net(), (X,)), net())
    strided = net()
    strided[0].padding, strided[0].stride = (3, 3), (3, 3)
    for model, options in ((net(1), {}), (strided, {}), (net(), {"threads": 2})):
        f = lw.from_torch(model, (X,), **options)
        check(f, model)
        assert not is_kept(f)
        again = lw.from_torch(model, (X,), **options)
        check(again, model)
        assert is_kept(again)


def test_sizes_are_symbolic_in_a_kept_program() -> None:
    sizes = ({0: torch.export.Dim("n", min=2, max=64)},)
    program = torch.export.export(net(), (X,), dynamic_shapes=sizes, strict=False)
    check(lw.from_torch(program), net())
    f = lw.from_torch(program)
    for n in (3, 2, 9):
        check(f, net(), X[:1].expand(n, -1, -1, -1) * n)
    assert is_kept(f)
    with pytest.raises(lw.LoopwrightError):
        f(X[:1].expand(65, -1, -1, -1))


@pytest.mark.usefixtures("fresh_dynamo")
def test_graphs_of_torch_compile_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    check(torch.compile(net(), backend="loopwright"), net())
    torch._dynamo.reset()
    monkeypatch.setattr(pipeline, "build", None)
    check(torch.compile(net(), backend="loopwright"), net())

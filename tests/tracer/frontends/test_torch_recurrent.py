"""Recurrent layers of PyTorch: every kind, in one kernel for all of its steps."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch.export about the layers' weights

_TWICE = {"num_layers": 2, "bidirectional": True}


@pytest.mark.parametrize(
    ("layer", "options"),
    [
        (nn.LSTM, {}),
        (nn.LSTM, {"batch_first": True, "bias": False, "dropout": 0.3, "num_layers": 2}),
        (nn.LSTM, {"proj_size": 3, **_TWICE}),
        (nn.GRU, _TWICE),
        (nn.GRU, {"batch_first": True, "bias": False}),
        (nn.RNN, {**_TWICE, "bias": False}),
        (nn.RNN, {"nonlinearity": "relu", "batch_first": True}),
    ],
)
def test_a_layer_is_that_of_torch(layer: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = layer(5, 6, **options).eval()
    x = torch.randn(4, 7, 5)
    batch = x.shape[0 if model.batch_first else 1]
    count = model.num_layers * (2 if model.bidirectional else 1)
    states = [torch.randn(count, batch, size) for size in (model.proj_size or 6, 6)]
    first = tuple(states) if layer is nn.LSTM else states[0]
    for args in ((x,), (x, first)):
        compiled = lw.from_torch(model, args)
        with torch.no_grad():
            wanted = model(*args)
        torch.testing.assert_close(compiled(*args), wanted, rtol=1e-4, atol=1e-5)
        assert str(compiled.module).count("recurrence(") == count


def test_the_batch_is_symbolic() -> None:
    """The length is not: torch.export makes a number of it."""
    torch.manual_seed(0)
    model = nn.LSTM(3, 4, bidirectional=True).eval()
    sizes = ({1: torch.export.Dim("n", min=2, max=64)},)
    x = torch.randn(9, 5, 3)
    f = lw.from_torch(torch.export.export(model, (x,), dynamic_shapes=sizes, strict=False))
    for n in (2, 5, 40):
        x = torch.randn(9, n, 3)
        with torch.no_grad():
            torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)


def test_dropout_between_layers_is_refused() -> None:
    with pytest.raises(lw.UnsupportedError, match=r"dropout between recurrent layers"):
        lw.from_torch(nn.GRU(3, 4, num_layers=2, dropout=0.5).train(), (torch.zeros(2, 1, 3),))

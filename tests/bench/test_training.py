"""The table of training steps, its bars, and the models, which all namespaces can run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.training.__main__ import Row, main, summary, table
from bench.training.models import made
from bench.training.peers import PEERS


def _row(backend: float = 1.0, loss: float = 2.0) -> Row:
    parts = {"step": 4e-3, "gradient": 3e-3, "forward": 1e-3}
    seconds = {"ours": parts, "eager": {n: 2 * s for n, s in parts.items()}}
    seconds["backend"] = {n: backend * s for n, s in parts.items()}
    row = Row("mlp", 1, seconds, losses={"ours": [4.0, 2.0], "eager": [4.0, loss]})
    row.memory = row.ready = dict.fromkeys(seconds, 100.0)
    return row


def test_a_line_for_each_peer_and_a_figure_for_each_bar() -> None:
    assert "| mlp | ours | 4 | 0.50 | 3 | 1 | 3.00 | 100 | 100.0 |" in table([_row()])
    text, met = summary([_row()])
    assert met and "ours: geometric mean 0.500x" in text and "1.000x the gradient" in text


@pytest.mark.parametrize("row", [_row(backend=1.2), _row(loss=2.001)])
def test_a_missed_bar_is_said(row: Row) -> None:
    text, met = summary([row])
    assert not met and text.count("MISSED") == 1


def test_a_peer_of_ours_that_fails_misses_the_bar() -> None:
    row = _row()
    row.failed["backend"] = "UnsupportedError: no such operator"
    text, met = summary([row])
    assert not met and "mlp: backend: UnsupportedError" in text


def test_an_unknown_model_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--models", "alexnet"]) == 2
    assert "no model alexnet" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mlp", "lstm", "transformer"])
def test_torch_and_we_train_alike(name: str) -> None:
    pytest.importorskip("torch")
    losses: list[Any] = []
    for peer in ("ours", "eager"):
        step = PEERS[peer].make(made(name), 1)["step"]
        losses.append([float(step()) for _ in range(3)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][2] < losses[0][0]

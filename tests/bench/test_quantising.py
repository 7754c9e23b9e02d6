"""What decides whether a quantised network is near, and that digits lose nothing that counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import quantising
from bench.quantising import main, measured, table


def test_figures_are_those_of_rows() -> None:
    mean, least, same, off = measured(np.eye(2), np.array([[1.0, 1.0], [0.0, 3.0]]))
    assert (mean, least, same) == pytest.approx(((0.5**0.5 + 1) / 2, 0.5**0.5, 1.0))
    assert off == pytest.approx((5 / 2) ** 0.5)
    assert "| ours | 0.50000 | 0.25000 | 75.0% | 12.00% |" in table(
        {"ours": (0.5, 0.25, 0.75, 0.12)}
    )


def test_a_peer_that_is_nearer_misses_the_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(quantising, "FOLDER", tmp_path)
    rng = np.random.default_rng(0)
    exact = rng.standard_normal((64, 10))
    for peer, noise in (("float", 0), ("ours", 0.01), ("nncf", 0.5)):
        np.save(tmp_path / f"net.{peer}.npy", exact + noise * rng.standard_normal(exact.shape))
    assert main(["net.onnx", "--peers"]) == 0
    np.save(tmp_path / "net.onnxruntime.npy", exact)
    np.save(tmp_path / "net.ours.npy", exact + rng.standard_normal(exact.shape))
    assert main(["net.onnx", "--peers"]) == 1
    assert capsys.readouterr().out.count("| nncf |") == 2


def test_digits_lose_at_most_three_tenths_of_a_point(capsys: Any) -> None:
    assert main(["digits"]) == 0
    assert "% in int8" in capsys.readouterr().out

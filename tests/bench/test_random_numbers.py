"""``bench.random_numbers`` runs, and judges by the slowest of its rows."""

from __future__ import annotations

import pytest

from bench.random_numbers import main


def test_a_table_of_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--ops", "uniform,bernoulli", "--sizes", "100", "--no-torch"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["uniform", "float32[100]"],
        ["uniform", "float64[100]"],
        ["bernoulli", "bool[100]"],
    ]
    assert lines[-1].startswith("geometric mean")

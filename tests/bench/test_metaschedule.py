from __future__ import annotations

import importlib.util
import math

import pytest

from bench.metaschedule import Beside, Found, main, read_answers, time_to
from bench.row import geomean


def test_the_clock_stops_at_the_best_candidate_not_at_the_end() -> None:
    lines = [
        '{"at": 20.5, "best": 3e-4}\n',
        '{"at": 41.0, "best": 2e-4}\n',
        '{"seconds": 90.0, "wrong": 0.1}\n',
        '{"call": 2e-4}\n',
    ]
    assert read_answers(lines) == Found(41.0, 90.0, 0.1)
    assert read_answers(lines[2:]) == Found(90.0, 90.0, 0.1)
    with pytest.raises(RuntimeError, match="ended without a result"):
        read_answers(lines[:2])


def test_our_time_is_that_of_the_first_as_fast() -> None:
    path = [(0.5, 4e-4), (1.5, 2e-4), (3.0, 1e-4)]
    assert time_to(2.5e-4, path, 10.0) == (1.5, True)
    assert time_to(5e-4, path, 10.0) == (0.5, True)
    assert time_to(0.5e-4, path, 10.0) == (10.0, False)


def test_ratios_are_of_wall_clock() -> None:
    one = Beside("matmul", 2e-4, 1e-4, 40.0, 0.5, True)
    assert one.ratio == 80.0 and "80x" in str(one) and "not reach" not in str(one)
    slow = Beside("conv", 1e-4, 2e-4, 40.0, 10.0, False)
    assert slow.ratio == 4.0 and "did not reach" in str(slow)
    assert math.isclose(geomean([one.ratio, slow.ratio]), math.sqrt(320.0))


def test_a_kind_that_is_not_held_out_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--tasks", "sorting"])
    assert "no held-out kernel of the kind 'sorting'" in capsys.readouterr().err


def test_a_python_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--python", "tvm/bin/no-python"])
    assert "no Python 'tvm/bin/no-python'" in capsys.readouterr().err


def test_a_python_without_tvm_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llvmlite")
    if importlib.util.find_spec("tvm") is not None:
        pytest.skip("TVM is installed here")
    assert main(["--tasks", "softmax"]) == 1
    assert (
        "softmax: MetaSchedule's process ended without a result: ModuleNotFoundError: No module"
        " named 'tvm'" in capsys.readouterr().out
    )

"""The simulation of three stars: compiled it takes the steps that it takes as Python."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest

from examples import three_body


def test_compiled_steps_are_those_of_python() -> None:
    state = np.stack([three_body.START, np.zeros((3, 2))])
    end, taken, tried, track = lw.compile(three_body.simulate)(state, 2.0, 1e-8)
    by_python = three_body.simulate(state, 2.0, 1e-8)
    assert (taken, tried) == by_python[1:3]
    assert tried > taken > 50  # some steps were too long
    # The orbits are chaotic, and each step may be off by 1e-8: roundings grow, but not beyond that.
    np.testing.assert_allclose(end, by_python[0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(track[:taken], by_python[3][:taken], rtol=0, atol=1e-7)
    assert not track[taken:].any()
    assert three_body.energy(end) == pytest.approx(three_body.energy(state), rel=1e-6)


def test_the_paths_are_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    three_body.main(["--until", "1"])
    said = capsys.readouterr().out
    assert {"3", "4", "5"} <= set(said.split("steps")[0])
    assert "energy at the start -12.816666667" in said

"""What cannot be compiled is refused at the user's line, with a way out, as no fault of ours."""

from __future__ import annotations

import loopwright as lw
import pytest

f = lw.compile(lambda x: x @ x.T + 1)


def test_a_symbolic_size_is_not_tuned() -> None:
    with pytest.raises(lw.UnsupportedError) as caught:
        f.tune(lw.f32["n", 4], budget="1s")
    error = caught.value
    assert error.message.startswith("argument x is float32[")
    assert "code is made for sizes that are known, not for" in error.message
    assert error.hint is not None and "lw.f32[64, 784]" in error.hint


def test_the_way_out_is_one() -> None:
    assert f.lower(lw.f32[64, 784]).as_text("kernels")
    assert "float32" in str(f.trace(lw.f32["n", 4]))


def test_a_repro_is_not_asked_for() -> None:
    with pytest.raises(lw.LoopwrightError) as caught:
        f.tune(lw.f32["n", 4], budget="1s")
    assert "report" not in str(caught.value) and "fault" not in str(caught.value)

"""What cannot be compiled is refused at the user's line, with a way out, as no fault of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import pytest

f = lw.compile(lambda x: x @ x.T + 1)


@pytest.mark.parametrize(
    "compiling",
    [
        lambda: f.lower(lw.f32["n", 4]),
        lambda: f.lower(x=lw.f32["n", 4]).compile(),
        lambda: f.tune(lw.f32["n", 4], budget="1s"),
        lambda: f.lower(lw.f32["2*n + 1", 4]),
    ],
)
def test_a_symbolic_size_is_unsupported(compiling: Callable[[], Any]) -> None:
    with pytest.raises(lw.UnsupportedError) as caught:
        compiling()
    error = caught.value
    assert error.message.startswith("argument x is float32[")
    assert "code is made for sizes that are known, not for" in error.message
    assert error.span is not None and error.span.file.endswith("test_unsupported.py")
    assert error.hint is not None and "lw.f32[64, 784]" in error.hint


def test_the_way_out_is_one() -> None:
    assert f.lower(lw.f32[64, 784]).as_text("kernels")
    assert "float32" in str(f.trace(lw.f32["n", 4]))


def test_a_repro_is_not_asked_for() -> None:
    with pytest.raises(lw.LoopwrightError) as caught:
        f.lower(lw.f32["n", 4])
    assert "report" not in str(caught.value) and "fault" not in str(caught.value)

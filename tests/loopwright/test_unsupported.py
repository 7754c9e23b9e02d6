"""What cannot be compiled is refused at the user's line, with a way out, as no fault of ours."""

from __future__ import annotations

import loopwright as lw

f = lw.compile(lambda x: x @ x.T + 1)


def test_the_way_out_is_one() -> None:
    assert f.lower(lw.f32[64, 784]).as_text("kernels")
    assert "float32" in str(f.trace(lw.f32["n", 4]))

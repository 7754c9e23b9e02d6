"""``and``: what its second operand reads is read where the first one holds, and only there."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.codegen.kernel import Kernel, compile_kernel
from loopwright.codegen.one_kernel import run_kernel
from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.steps import Schedule

HOST = Target.host()
ELEMENT = "x[minimum(maximum(where((i[] - 1) < 0, (i[] - 1) + 9, i[] - 1), 0), 8)]"


def kernel(condition: str) -> Kernel:
    head = "prim @f(x: float64[9], i: int64[], v: float64[]) -> y: bool[]"
    return compile_kernel(parse_prim(f"{head} {{ y[] = {condition} }}"), Schedule(), HOST)


@pytest.mark.parametrize(
    "condition",
    [
        f"(i[] > 0) and ({ELEMENT} > v[])",
        f"((i[] > 0) and ({ELEMENT} > v[])) and ({ELEMENT} < 4.5:float64)",
        f"(({ELEMENT} > 1.5:float64) and (v[] < 5.0:float64)) or ((i[] < 7) and ({ELEMENT} > v[]))",
    ],
)
def test_elements_behind_a_test(condition: str) -> None:
    compiled = kernel(condition)
    x = np.arange(9.0)[::-1].copy()
    for i in range(-12, 13):
        for v in (-1.0, 2.5, 7.5):
            at = np.clip(i - 1 + 9 if i < 1 else i - 1, 0, 8)
            text = condition.replace(ELEMENT, "e").replace("[]", "").replace(":float64", "")
            expected = eval(text, {"i": i, "v": v, "e": x[at]})
            args = {"x": x, "i": np.int64(i).reshape(()), "v": np.float64(v).reshape(())}
            (got,) = run_kernel(compiled, args, HOST, 1)
            assert bool(got) == expected


def test_the_place_is_limited_behind_the_test() -> None:
    text = kernel(f"(i[] > 0) and ({ELEMENT} > v[])").code.text
    before, _, behind = text.partition("\nif")
    assert "icmp sgt i64" in before
    assert "load double, ptr %v" not in before
    assert "call i64 @lw_limited" in behind.partition("\njoin")[0]
    plain = kernel("(i[] > 0) and (x[3] > v[])").code.text
    assert "\nif" not in plain

"""Loops keep their addresses by additions: LLVM's strength reduction finds nothing to do."""

from __future__ import annotations

import re

from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.steps import Schedule, cache_write, reorder, split, vectorize

PRODUCT = """prim @product(x: float32[12, 40], w: float32[40, 32]) -> out: float32[12, 32] {
  out[i, j] = sum(k: 40) x[i, k] * w[k, j]
}"""


def test_the_innermost_loop_adds_where_it_would_multiply() -> None:
    schedule = Schedule.of(
        split("j", (2, 16)),
        reorder("j.0", "i", "k", "j.1"),
        cache_write("out", "registers", "i"),
        vectorize("j.1"),
    )
    kernel = compile_kernel(parse_prim(PRODUCT), schedule, Target(isa="x86-64-v4"))
    loops = re.split(r"\n(?=loop\d+:)", kernel.text)
    (body,) = [loop for loop in loops if "@llvm.fma.v16f32(" in loop and "phi" in loop]
    body = body.partition("\ndone")[0]
    assert " mul " not in body
    assert re.search(r"add i64 %\w+, 128\n", body), "a row of w is 128 bytes"
    assert "getelementptr i32, ptr" in body, "elements of x lie 4 bytes apart: a scaled index"
    assert "@llvm.expect.i64" in body, "the counter hides from scalar evolution"

"""Windows over padded images, with the turns at the borders written out, against NumPy in float64.

Vectors run along the width: taps outside are skipped or masked, strided taps are picked from whole
vectors.
"""

from __future__ import annotations

import numpy as np
from compiled import interpret_kernel, run_kernel
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_write,
    compute_inline,
    parallel,
    peel,
    reorder,
    split,
    unroll,
    vectorize,
)
from loopwright.ir.tolerance import tolerance

HOST = Target.host()
TERM = 8.0  # the size of a product of two of the random numbers
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def windows(size: int, taps: int, stride: int, pad: int, dilation: int, combiner: str) -> PrimFunc:
    """Depthwise convolution or pooling of 2 channels of size x size."""
    padded = size + 2 * pad
    out = (padded - (taps - 1) * dilation - 1) // stride + 1
    weight = " * w[c, k, r]" if combiner == "sum" else ""
    outside = "0.0" if combiner == "sum" else "-inf"

    def inside(name: str) -> str:
        return f"(({pad} <= index({name})) and (index({name}) <= {size + pad - 1}))"

    return parse_prim(f"""
prim @f(x: float32[2, {size}, {size}], w: float32[2, {taps}, {taps}]) \
-> out: float32[2, {out}, {out}] {{
  t[m, n, o]: float32[2, {padded}, {padded}] = where({inside("n")} and {inside("o")}, \
x[m, n - {pad}, o - {pad}], {outside})
  out[c, i, j] = {combiner}(k: {taps}, r: {taps}) \
t[c, {stride} * i + {dilation} * k, {stride} * j + {dilation} * r]{weight}
}}""")


def expected(
    x: np.ndarray, w: np.ndarray, stride: int, pad: int, dilation: int, combiner: str
) -> np.ndarray:
    outside = 0.0 if combiner == "sum" else -np.inf
    widths = ((0, 0), (pad, pad), (pad, pad))
    padded = np.pad(x.astype(np.float64), widths, constant_values=outside)
    taps = w.shape[1]
    out = (padded.shape[1] - (taps - 1) * dilation - 1) // stride + 1
    parts = []
    for k in range(taps):
        for r in range(taps):
            rows = padded[:, k * dilation :: stride][:, :out]
            part = rows[:, :, r * dilation :: stride][:, :, :out]
            parts.append(part * w[:, k, r, None, None] if combiner == "sum" else part)
    return np.sum(parts, axis=0) if combiner == "sum" else np.max(parts, axis=0)


@settings(max_examples=40, deadline=None)
@given(
    isa=st.sampled_from(LEVELS),
    size=st.integers(1, 40),
    taps=st.integers(2, 4),
    stride=st.integers(1, 4),
    pad=st.integers(1, 3),
    dilation=st.integers(1, 2),
    combiner=st.sampled_from(("sum", "max")),
    rows=st.integers(1, 4),
    width=st.integers(2, 37),
    peeled=st.tuples(*[st.integers(0, 2)] * 4),
    threads=st.booleans(),
)
def test_windows_with_peeled_borders(
    isa, size, taps, stride, pad, dilation, combiner, rows, width, peeled, threads
):
    size = max(size, (taps - 1) * dilation + 1 - 2 * pad)
    prim = windows(size, taps, stride, pad, dilation, combiner)
    out = int(prim.output_buffers[0].shape[1])
    schedule = Schedule.of(
        compute_inline("t"),
        split("i", (-(-out // rows), rows)),
        split("j", (-(-out // width), width)),
        reorder("c", "i.0", "j.0", "r", "k", "i.1", "j.1"),
        cache_write("out", "registers", "j.0"),
        *(unroll(loop) for loop in ("k", "r", "i.1")),
        vectorize("j.1"),
        peel("i.0", *peeled[:2]),
        peel("j.0", *peeled[2:]),
        *([parallel("i.0" if width % 2 else "c")] if threads else []),
    )
    target = HOST.with_isa(isa)
    try:
        kernel = compile_kernel(prim, schedule, target)
    except ScheduleError as error:
        assert "the kernel has more than" in error.message
        reject()  # with four lanes a vector, a hundred taps make more code than is compiled
    verify_nest(kernel.nest)
    rng = np.random.default_rng(size)
    x = rng.standard_normal((2, size, size), dtype=np.float32)
    w = rng.standard_normal((2, taps, taps), dtype=np.float32)
    wanted = expected(x, w, stride, pad, dilation, combiner)
    (found,) = run_kernel(kernel, target, {"x": x, "w": w})
    rtol, atol = tolerance(FLOAT32, taps * taps, scale=TERM)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
    if size < 8:
        (meant,) = interpret_kernel(kernel, {"x": x, "w": w})
        np.testing.assert_allclose(meant, wanted, rtol=rtol, atol=atol)

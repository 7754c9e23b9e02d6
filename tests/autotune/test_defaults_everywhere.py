"""Every kernel has a default on every machine, and none is refused by the schedule primitives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.selection.default_cases import default_cases
from loopwright.autotune.space.space import default_variant
from loopwright.autotune.space.variant import Variant
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from rule_workloads import WORKLOADS, prim_of

KIB, MIB = 1 << 10, 1 << 20
TARGETS = st.builds(
    Target,
    st.sampled_from(sorted(ISA_LEVELS)),
    st.just("some"),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([16 * KIB, 32 * KIB, 48 * KIB, 128 * KIB]),
    st.sampled_from([256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB]),
    st.sampled_from([2 * MIB, 8 * MIB, 32 * MIB, 256 * MIB]),
)
CHANNELS = st.sampled_from([3, 16, 24, 48, 64, 96, 160, 256, 320, 512, 768])


def convolution(side: int, inputs: int, outputs: int, kernel: int, stride: int) -> PrimFunc:
    """A padded convolution of an image with its channels last, and a bias."""
    padded, far = side + kernel - 1, kernel // 2
    out = (padded - kernel) // stride + 1
    walk = f"{stride}*i + k, {stride}*j + r" if stride > 1 else "i + k, j + r"
    return parse_prim(
        f"prim @convolution(x: float32[{side}, {side}, {inputs}], "
        f"w: float32[{kernel}, {kernel}, {inputs}, {outputs}] const, "
        f"b: float32[{outputs}] const) -> out: float32[{out}, {out}, {outputs}] {{\n"
        f"  t[m, n, o]: float32[{padded}, {padded}, {inputs}] = where("
        f"((0 <= index(m - {far})) and (index(m - {far}) <= {side - 1})) and "
        f"((0 <= index(n - {far})) and (index(n - {far}) <= {side - 1})), "
        f"x[m - {far}, n - {far}, o], 0.0)\n"
        f"  s[i, j, l]: float32[{out}, {out}, {outputs}] = "
        f"sum(k: {kernel}, r: {kernel}, c: {inputs}) t[{walk}, c] * w[k, r, c, l]\n"
        "  out[i, j, l] = s[i, j, l] + b[l]\n}"
    )


def product(rows: int, depth: int, columns: int, constant: bool) -> PrimFunc:
    return parse_prim(
        f"prim @product(x: float32[{rows}, {depth}], w: float32[{depth}, {columns}]"
        f"{' const' if constant else ''}) -> out: float32[{rows}, {columns}] {{\n"
        f"  out[i, j] = sum(k: {depth}) x[i, k] * w[k, j]\n}}"
    )


def chosen(prim: PrimFunc, target: Target) -> Variant:
    _, variant = default_variant(prim, target)
    assert variant is not None, "would run as plain loops"
    assert variant.offers is None, "the first default is refused"
    return variant


@settings(max_examples=100)
@given(
    TARGETS,
    st.sampled_from([7, 14, 28, 30]),
    CHANNELS,
    CHANNELS,
    st.sampled_from([3, 5]),
    st.sampled_from([1, 2]),
)
def test_convolutions(
    target: Target, side: int, inputs: int, outputs: int, kernel: int, stride: int
) -> None:
    chosen(convolution(side, inputs, outputs, kernel, stride), target)


@settings(max_examples=100)
@given(
    TARGETS,
    st.sampled_from([1, 2, 7, 49, 128, 1000]),
    st.sampled_from([5, 96, 768, 1000, 4096]),
    st.sampled_from([1, 10, 96, 1000, 3072]),
    st.booleans(),
)
def test_products(target: Target, rows: int, depth: int, columns: int, constant: bool) -> None:
    chosen(product(rows, depth, columns, constant), target)


@settings(max_examples=8)
@given(TARGETS)
@pytest.mark.parametrize("kind, sizes", WORKLOADS)
def test_every_rule(kind: str, sizes: tuple[int, int, int], target: Target) -> None:
    chosen(prim_of(kind, *sizes), target)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_product_over_any_number_of_rows(threads: int) -> None:
    """Panels of an operand of any length are of no bounded size: the default makes none."""
    prim = parse_prim(
        "prim @product(x: float32[n, 300], y: float32[n, 900]) -> out: float32[300, 900] "
        "for n in 0..2147483647 {\n  out[i, j] = sum(k: n) x[k, i] * y[k, j]\n}"
    )
    _, sketch = default_cases(prim, Target.host().with_threads(threads))
    assert sketch != "plain"

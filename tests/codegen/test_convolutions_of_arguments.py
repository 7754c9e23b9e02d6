"""Convolutions whose kernels are arguments, and their cotangents, as training computes them."""

from __future__ import annotations

import itertools

import loopwright as lw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dtype import dtype_of
from loopwright.ir.loop.work import stage_points
from loopwright.ir.tolerance import tolerance

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


def reference(x, w, ct, strides, dilation, padding, groups):
    """The convolution of NCHW images, and the cotangents of both operands, summed tap by tap."""
    x, w, ct = (a.astype(np.float64) for a in (x, w, ct))
    padded = np.pad(x, ((0, 0), (0, 0), padding[::2], padding[1::2]))
    height, width = ct.shape[2:]
    y, dx, dw = np.zeros_like(ct), np.zeros_like(padded), np.zeros_like(w)
    ins, outs = w.shape[1], w.shape[0] // groups
    for g, k, r in itertools.product(range(groups), range(w.shape[2]), range(w.shape[3])):
        i, o = slice(g * ins, (g + 1) * ins), slice(g * outs, (g + 1) * outs)
        top, left = k * dilation[0], r * dilation[1]
        rows = slice(top, top + (height - 1) * strides[0] + 1, strides[0])
        columns = slice(left, left + (width - 1) * strides[1] + 1, strides[1])
        part = padded[:, i, rows, columns]
        y[:, o] += np.einsum("nchw,oc->nohw", part, w[o, :, k, r])
        dx[:, i, rows, columns] += np.einsum("nohw,oc->nchw", ct[:, o], w[o, :, k, r])
        dw[o, :, k, r] = np.einsum("nohw,nchw->oc", ct[:, o], part)
    inside = dx[:, :, padding[0] :, padding[1] :][:, :, : x.shape[2], : x.shape[3]]
    return y, inside, dw


def check(x, w, strides, dilation, padding, groups, isa, rng, threads=1):
    counts = [
        (n + a + b - (k - 1) * d - 1) // s + 1
        for n, a, b, k, d, s in zip(
            x.shape[2:], padding[:2], padding[2:], w.shape[2:], dilation, strides, strict=True
        )
    ]
    ct = rng.standard_normal((len(x), len(w), *counts)).astype(x.dtype)
    attrs = {"strides": strides, "dilation": dilation, "padding": padding, "groups": groups}

    def both(x, w, ct):
        y, pull = lw.vjp(lambda x, w: lw.nn.conv2d(x, w, **attrs), x, w)
        return y, *pull(ct)

    made = lw.compile(both, threads=threads, target=HOST.with_isa(isa))(x, w, ct)
    exact = reference(x, w, ct, strides, dilation, padding, groups)
    taps = w[0].size, w[0].size * len(w), ct[:, 0].size
    for got, wanted, terms in zip(made, exact, taps, strict=True):
        rtol, atol = tolerance(dtype_of(x.dtype), terms, scale=8.0)
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


@settings(max_examples=25, deadline=None)
@given(
    isa=st.sampled_from(LEVELS),
    dtype=st.sampled_from(("float32", "float64")),
    images=st.sampled_from((1, 2, 3, 8, 16, 17)),
    channels=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    groups=st.sampled_from((1, 1, 1, 2, 3)),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kernel=PAIRS,
    strides=PAIRS,
    dilation=PAIRS,
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape(
    isa, dtype, images, channels, groups, size, kernel, strides, dilation, padding, seed
):
    rng = np.random.default_rng(seed)
    least = [
        (k - 1) * d + 1 - a - b
        for k, d, a, b in zip(kernel, dilation, padding[:2], padding[2:], strict=True)
    ]
    size = tuple(max(n, m) for n, m in zip(size, least, strict=True))
    inputs, outputs = channels
    x = rng.standard_normal((images, inputs * groups, *size)).astype(dtype)
    w = rng.standard_normal((outputs * groups, inputs, *kernel)).astype(dtype)
    check(x, w, strides, dilation, padding, groups, isa, rng)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("images, size, stride", [(16, 2, 1), (16, 4, 2), (5, 4, 1), (1, 7, 1)])
def test_few_pixels_and_many_channels(images, size, stride, threads, isa):
    rng = np.random.default_rng(size)
    x = rng.standard_normal((images, 128, size, size)).astype(np.float32)
    w = rng.standard_normal((136, 128, 3, 3)).astype(np.float32)
    check(x, w, (stride, stride), (1, 1), (1, 1, 1, 1), 1, isa, rng, threads)


def test_few_pixels_lie_along_vectors_and_weights_are_read_in_order():
    def convolved(x, w):
        return lw.nn.conv2d(x.transpose(0, 3, 1, 2), w, padding=1).transpose(0, 2, 3, 1)

    f = lw.compile(convolved, threads=1, target=HOST.with_isa(LEVELS[-1]))
    text = f.lower(lw.f32[16, 2, 2, 256], lw.f32[512, 256, 3, 3]).as_text("loops")
    assert "workspace t0: float32[4, 4, 256, 16]" in text
    assert text.index("for s.1") < text.index("for k in 3")


def test_the_cotangent_of_padding_is_not_computed():
    f = lw.compile(lambda w, ct: lw.vjp(lambda x: lw.nn.conv2d(x, w, padding=1), ct)[1](ct)[0])
    (prim,) = f.lower(lw.f32[8, 8, 3, 3], lw.f32[2, 8, 4, 4]).built.parts.prims.values()
    assert [s.buffer.shape for s in prim.stages] == [(2, 6, 6, 8), (2, 8, 4, 4)]


@pytest.mark.parametrize("size, stride", [(16, 1), (32, 2)])
def test_no_operand_is_gathered_where_channels_come_first(size, stride):
    """Of a lone convolution of images with channels first, and of its cotangents."""
    attrs = {"strides": stride, "padding": 1}

    def both(x, w, ct):
        y, pull = lw.vjp(lambda x, w: lw.nn.conv2d(x, w, **attrs), x, w)
        return y, *pull(ct)

    target = HOST.with_isa(LEVELS[-1])
    lowered = lw.compile(both, threads=1, target=target).lower(
        lw.f32[16, 64, size, size], lw.f32[64, 64, 3, 3], lw.f32[16, 64, 16, 16]
    )
    for prim in lowered.built.parts.prims.values():
        if not any(s.combiner for s in prim.stages):
            continue
        (variant, *_), name = ScheduleSpace(prim, target, 1).variants, prim.name
        work = sum(stage_points(s) for s in prim.stages if s.combiner)
        assert variant.cycles < 3 * work / target.lanes(4), name

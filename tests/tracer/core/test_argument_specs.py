"""Specs: how they are written, read and printed."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.dtype import DTYPES
from loopwright.tracer.core.argument_specs import SPEC_DTYPES, parse_spec


@pytest.mark.parametrize(
    ("spec", "text", "shape"),
    [
        (lw.f32[64, 784], "float32[64, 784]", (64, 784)),
        (lw.i64[3], "int64[3]", (3,)),
        (lw.f64[()], "float64[]", ()),
        (lw.bool_[0, 1], "bool[0, 1]", (0, 1)),
        (lw.u8["n"], "uint8[n]", (lw.Dim("n"),)),
        (lw.f32["4*n + 1", 2], "float32[4 * n + 1, 2]", (4 * lw.Dim("n") + 1, 2)),
        (lw.f32[np.int64(3)], "float32[3]", (3,)),
        (lw.f32[lw.Dim("n") * 2], "float32[2 * n]", (2 * lw.Dim("n"),)),
    ],
)
def test_spec(spec: lw.Spec, text: str, shape: tuple[object, ...]) -> None:
    assert str(spec) == text
    assert spec.shape == shape
    assert parse_spec(text) == spec
    assert eval(repr(spec), dict(SPEC_DTYPES)) == spec


def test_there_is_one_for_every_dtype() -> None:
    late = {row for row in DTYPES.values() if row.numpy.isbuiltin != 1}  # once they were named
    assert {s.of for s in SPEC_DTYPES.values()} == set(DTYPES.values()) - late
    assert all(getattr(lw, name) is spec for name, spec in SPEC_DTYPES.items())


def test_a_bare_dtype_is_a_scalar_and_a_dtype() -> None:
    f = lw.compile(lambda x, s: x * s)
    assert str(f.trace(lw.f32[2], lw.f32).request) == "x: float32[2], s: float32[]"
    assert np.zeros(2, lw.f32).dtype == np.float32
    assert np.zeros(2).astype(lw.i8).dtype == np.int8


def test_anything_with_shape_and_dtype_is_a_spec_for_trace() -> None:
    class Like:
        shape = (2, 3)
        dtype = np.dtype("float32")

    assert str(lw.compile(lambda x: x).trace(Like()).request) == "x: float32[2, 3]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f31[2]", "spec 'f31[2]': 'f31' is not a dtype"),
        ("f32[2", "spec 'f32[2': the closing ] is missing"),
        ("f32[2,,3]", "size ''"),
        ("f32[a b]", "size 'a b'"),
    ],
)
def test_texts_that_are_no_specs(text: str, message: str) -> None:
    with pytest.raises(lw.LoopwrightError) as caught:
        parse_spec(text)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("size", [-1, 2.5, True, None])
def test_sizes_that_are_none(size: object) -> None:
    with pytest.raises(lw.LoopwrightError, match="a size"):
        lw.f32[size]  # type: ignore[index]

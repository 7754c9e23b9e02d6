"""Dtypes of ml_dtypes shorter than NumPy's are stored as it stores them, and convert as it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from compiled import RUNNABLE
from loopwright.codegen.target import Target
from loopwright.tracer.core.argument_specs import parse_spec

ml_dtypes = pytest.importorskip("ml_dtypes")
RNG = np.random.default_rng(0)
BITS = {
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), 8),
    "float8_e8m0fnu": 8,
    **dict.fromkeys(("float4_e2m1fn", "int4", "uint4"), 4),
    **dict.fromkeys(("int2", "uint2"), 2),
}
FLOATS = [name for name in BITS if "float" in name]
INTEGERS = [name for name in BITS if "int" in name]


def codes(name: str) -> Any:
    """All elements of a dtype."""
    return np.arange(1 << BITS[name], dtype=np.uint8).view(getattr(ml_dtypes, name))


def borders(name: str, dtype: Any) -> Any:
    """All numbers of a dtype, the middle of each two, and the numbers beside; random bits."""
    values = codes(name).astype(np.float64)
    finite = np.unique(np.abs(values[np.isfinite(values)]))
    largest = finite[-1] * np.array([1.1, 1.25, 1.5, 2, 4, 1e9, np.inf])
    middles = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, finite[1:2] / 2, largest])
    near = middles.astype(dtype)
    beside = [np.nextafter(near, np.array(way, dtype)) for way in (np.inf, -np.inf)]
    words = RNG.integers(0, 1 << 63, 20_000).view(dtype)
    made = np.concatenate([near, *beside, words])
    return np.concatenate([made, -made]) if name != "float8_e8m0fnu" else made


def same(got: Any, want: Any) -> None:
    """The same bits, of any nan."""
    assert got.dtype == want.dtype
    number = ~np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), ~number)
    bits = f"u{want.itemsize}"
    np.testing.assert_array_equal(got[number].view(bits), want[number].view(bits))


@pytest.mark.parametrize("isa", [RUNNABLE[-1], RUNNABLE[0]])
@pytest.mark.parametrize("name", FLOATS)
def test_floats_convert_as_those_of_ml_dtypes(name: str, isa: str) -> None:
    narrow = getattr(ml_dtypes, name)

    def widened(x: Any) -> Any:
        return x.astype(np.float32), x.astype(np.float16), x.astype(np.float64)

    def narrowed(x: Any) -> Any:
        return x.astype(narrow)

    with np.errstate(all="ignore"):
        made = lw.compile(widened, target=Target(isa=isa))(codes(name))
        for got, want in zip(made, widened(codes(name)), strict=True):
            same(got, want)
        for dtype in (np.float32, np.float16, np.float64):
            x = borders(name, dtype)
            if dtype == np.float64:  # which ml_dtypes rounds twice
                x = x.astype(np.float32).astype(dtype)
            x = x[~np.isnan(x)] if name == "float4_e2m1fn" else x  # which has no nan
            same(lw.compile(narrowed, target=Target(isa=isa))(x), narrowed(x))


def test_a_float64_is_rounded_once() -> None:
    x = np.array([1 + 2.0**-4 + 2.0**-40])  # float32 would have a tie there
    made = lw.compile(lambda x: x.astype(ml_dtypes.float8_e4m3fn))(x)
    assert float(made[0]) == 1.125


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_the_low_bits_of_bytes(name: str) -> None:
    narrow = getattr(ml_dtypes, name)

    def widened(x: Any) -> Any:
        return x.astype(np.float32), x.astype(np.int8), x.astype(np.int64), x.astype(bool)

    for got, want in zip(lw.compile(widened)(codes(name)), widened(codes(name)), strict=True):
        np.testing.assert_array_equal(got, want)
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.float32, bool):
        x = np.arange(-40, 100).astype(dtype)
        got = lw.compile(lambda x: x.astype(narrow))(x)
        assert got.dtype == narrow
        np.testing.assert_array_equal(got.view(np.uint8), x.astype(narrow).view(np.uint8))


@pytest.mark.parametrize("name", [n for n in BITS if n != "float8_e8m0fnu"])
def test_elements_are_moved_and_computed_with(name: str) -> None:
    """Each operator rounds, or wraps around, as that of ml_dtypes."""

    def f(x: Any, y: Any) -> Any:
        rows = np.concatenate([x, y]).reshape(2, -1).T[::-1]
        return rows, x + y, x * y, np.where(x > y, x, y)

    x = codes(name)
    x = x if name in INTEGERS else x[np.isfinite(x.astype(np.float32))]
    y = RNG.permutation(x)
    with np.errstate(all="ignore"):
        for got, want in zip(lw.compile(f)(x, y), f(x, y), strict=True):
            same(got, want)


@pytest.mark.parametrize("name", BITS)
def test_texts_specs_and_saved_programs_have_them(name: str, tmp_path: Path) -> None:
    x = codes(name)
    f = lw.compile(lambda x: np.where(x.astype(np.float32) > 1, x, x[0]).astype(np.float32) + 1)
    spec = parse_spec(f"{name}[{len(x)}]")
    text = str(lw.parse(str(f.trace(spec).module)))  # spans go
    assert str(lw.parse(text)) == text and str(spec) == f"{name}[{len(x)}]"
    f.lower(spec).save(tmp_path / "f.lw")
    np.testing.assert_array_equal(lw.load(tmp_path / "f.lw")(x), f(x))


def test_quantising_to_less_than_a_byte_is_refused() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(lw.LoopwrightTypeError, match="to 8 or 16 bits, not to int4"):
        lw.compile(lambda x: lw.nn.quantize(x, np.float32(1), np.zeros((), ml_dtypes.int4)))(x)

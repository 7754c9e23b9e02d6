"""Functions by tables in registers: the tables, the errors, and how little there is to do."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from loopwright.codegen.elementary import BINARY, function, log_table
from loopwright.codegen.elementary.erf import ERF
from loopwright.codegen.elementary.exp import power_of_root
from loopwright.codegen.elementary.hyperbolic import TANH
from loopwright.codegen.elementary.root import ROOTS32, ROOTS64, root_columns
from loopwright.codegen.target import Target

from tools.elementary.sweep import bit_patterns, compile_function, worst_of

HOST = Target.host()
V4 = Target(isa="x86-64-v4")
needs_avx512 = pytest.mark.skipif(not HOST.has_masks, reason="needs AVX-512")

# The instructions between the operand and the result where no lane is special, at most.
LENGTHS = {
    ("power", "float32"): 62,
    ("power", "float64"): 74,
    ("log", "float32"): 35,
    ("log", "float64"): 40,
    ("log2", "float64"): 45,
    ("log10", "float64"): 45,
    ("log1p", "float64"): 55,
    ("cbrt", "float32"): 30,
    ("cbrt", "float64"): 37,
}


@pytest.mark.parametrize(("name", "dtype"), LENGTHS)
def test_common_path_is_short_and_without_division(name: str, dtype: str) -> None:
    lanes = V4.lanes(np.dtype(dtype).itemsize)
    text = function(name, dtype, lanes, V4).text
    common = text.partition("  br ")[0]
    assert "fdiv" not in common
    calculations = [line for line in common.splitlines() if "bitcast" not in line]
    assert len(calculations) <= LENGTHS[name, dtype]


@pytest.mark.parametrize(("dtype", "most"), [("float32", 42), ("float64", 51)])
def test_tangents_are_not_divided(dtype: str, most: int) -> None:
    lanes = V4.lanes(np.dtype(dtype).itemsize)
    text = function("tan", dtype, lanes, V4).text
    first, _, others = text.partition("  br ")
    last = others.partition("\ndone")[2]
    assert "fdiv" not in first + last
    free = ("bitcast", "fneg")
    calculations = [x for x in (first + last).splitlines() if not any(f in x for f in free)]
    assert len(calculations) <= most


def test_logarithms_of_the_table_are_right_to_120_places() -> None:
    numbers = [(c.inverse, -c.log) for kind in ("float", "double") for c in log_table.columns(kind)]
    numbers += [(Fraction(n), log_table.UNITS[str(n)]) for n in (2, 10)]
    with mpmath.workprec(200):
        for number, value in numbers:
            exact = mpmath.log(mpmath.mpf(number.numerator) / number.denominator)
            shown = mpmath.mpf(value.numerator) / value.denominator
            assert abs(shown - exact) < mpmath.mpf(2) ** -120


def ends(kind: str) -> list[tuple[Fraction, Fraction]]:
    """Between which numbers m is, by column."""
    if kind == "float":
        upper = [Fraction(32 + i, 32) for i in range(17)]
        lower = [Fraction(48 + i, 64) for i in range(17)]
        return [*pairwise(upper), *pairwise(lower)]
    positions = [Fraction(i) - Fraction(19, 2) for i in range(17)]
    points = [1 + p / (16 if p > 0 else 32) for p in positions]
    return [*pairwise(points)]


@pytest.mark.parametrize(("kind", "bits"), [("float", 24), ("double", 53)])
def test_reductions_by_the_table_are_exact(kind: str, bits: int) -> None:
    """m c - 1 has no more bits than fit, and is no greater than the logarithm it is added to."""
    for column, (low, high) in zip(log_table.columns(kind), ends(kind), strict=True):
        # One place more below 1 than above it.
        places = {bits if low < 1 else bits - 1, bits if high <= 1 else bits - 1}
        greatest = max(abs(column.inverse * m - 1) for m in (low, high))
        assert greatest < Fraction(342, 10000)
        assert column.log == 0 or abs(column.log) > greatest
        for place in places - ({bits - 1} if column.log != 0 and low < 1 else set()):
            least = Fraction(1, 1 << place) * Fraction(1, column.inverse.denominator)
            assert column.inverse == 1 or greatest <= least * (1 << bits)


def test_powers_of_the_sixteenth_root_of_two() -> None:
    with mpmath.workprec(200):
        for i in range(16):
            shown = mpmath.mpf(power_of_root(i).numerator) / power_of_root(i).denominator
            assert abs(shown - mpmath.mpf(2) ** (mpmath.mpf(i) / 16)) < mpmath.mpf(2) ** -120


@pytest.mark.parametrize(
    ("kind", "roots", "places", "exact"),
    [("float", ROOTS32, 12, 27), ("double", ROOTS64, 16, 58)],
)
def test_cubes_of_the_roots_are_nearly_exact(
    kind: str, roots: tuple[int, ...], places: int, exact: int
) -> None:
    for root in roots:
        cube = Fraction(root, 1 << places) ** 3
        inverse = np.float32(1 / cube) if kind == "float" else float(1 / cube)
        assert abs(Fraction(float(inverse)) * cube - 1) < Fraction(1, 1 << exact)
    inverses, columns = root_columns(kind)
    assert len(inverses) == len(columns) == (32 if kind == "float" else 16)


BOUNDS32 = {
    "tan": 1.15,
    "cbrt": 0.6,
    "log": 0.6,
    "log1p": 0.7,
    "asinh": 1.5,
    "acosh": 1.5,
    "sinh": 0.8,
    "cosh": 0.95,
    "atanh": 1.5,
}


@needs_avx512
@pytest.mark.parametrize("name", BOUNDS32)
def test_error_in_float32(name: str) -> None:
    (sweep,) = bit_patterns(20011)
    worst = worst_of(compile_function(name, "float32", HOST), name, sweep)
    assert worst.error <= BOUNDS32[name], str(worst)


BOUNDS64 = {
    "power": 0.85,
    "cbrt": 0.75,
    "log": 0.55,
    "log2": 0.55,
    "log10": 0.55,
    "log1p": 0.7,
    "sinh": 0.85,
    "cosh": 0.95,
}


@needs_avx512
@pytest.mark.parametrize("name", BOUNDS64)
def test_error_in_float64(name: str) -> None:
    rng = np.random.default_rng(13)
    size = 400
    x = np.concatenate(
        [
            rng.uniform(0.9, 1.1, size),
            rng.uniform(0.5, 2, size),
            np.exp(rng.uniform(-600, 600, size)),
        ]
    )
    operands = [x]
    if name in BINARY:
        operands.append(rng.uniform(-700, 700, x.size) / np.log(x))
    worst = worst_of(compile_function(name, "float64", HOST), name, *operands)
    assert worst.error <= BOUNDS64[name], str(worst)


@needs_avx512
def test_power_in_float32_of_what_is_close_to_one() -> None:
    """The logarithm's error counts most where the exponent is great: it was 4.2 ulp at the first
    point, where f was 1/16 and its cube not exact enough."""
    rng = np.random.default_rng(5)
    x = np.concatenate([[1.0616449117660522], rng.uniform(1.0, 1.07, 100_000)]).astype(np.float32)
    y = np.concatenate([[-1444.39599609375], rng.uniform(-87, 87, 100_000) / np.log(x[1:])])
    worst = worst_of(compile_function("power", "float32", HOST), "power", x, y.astype(np.float32))
    assert worst.error <= 0.65, str(worst)


@pytest.mark.parametrize(("pieces", "exact"), [(TANH, mpmath.tanh), (ERF, mpmath.erf)])
def test_pieces_begin_where_the_function_is_a_float_to_29_bits(pieces: Any, exact: Any) -> None:
    points, values, *slopes = pieces.rows
    assert len(points) == pieces.count
    assert len(slopes) == pieces.degree
    for point, value in zip(points, values, strict=True):
        assert point == np.float32(point)
        assert point == pieces.top or abs(np.float32(value) - exact(point)) <= 2.0**-29

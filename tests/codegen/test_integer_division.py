"""Integers divided by constants: as NumPy divides them, and without a division."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.elementary.emitter import Emitter
from loopwright.codegen.emit.integer_division import divide_integers
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.llvm.writer import FunctionWriter, Value
from loopwright.codegen.one_kernel import run_kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dtype import dtype_of
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.steps import Schedule

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
DTYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DIVISIONS: dict[str, Callable[..., Any]] = {
    "floor_divide": lambda a, b: a // b,
    "floor_mod": lambda a, b: a % b,
    "truncate_mod": lambda a, b: np.fmod(a, b),
}


def constants(dtype: str, rng: np.random.Generator) -> list[int]:
    """Small numbers, powers of two and their neighbours, the ends of the range, any others."""
    info = np.iinfo(dtype)
    edges = [1, 7, 8, info.max, info.max - 1]
    edges += [(1 << int(k)) + int(d) for k, d in rng.integers((2, -1), (info.bits - 2, 2), (2, 2))]
    others = rng.integers(1, info.max, 4, dtype) >> rng.integers(0, info.bits - 2, 4).astype(dtype)
    return sorted({*edges, *(int(c) for c in others if c)})


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_numpy(dtype: str, isa: str, rng: np.random.Generator) -> None:
    info = np.iinfo(dtype)
    divisors = constants(dtype, rng)
    near = np.array([d * m + o for d in divisors for m in (-3, -1, 1, 2, 5) for o in (-1, 0, 1)])
    near = near[(near >= info.min) & (near <= info.max)].astype(dtype)
    any_size = rng.integers(info.min, info.max, 500, dtype, endpoint=True)
    any_size = any_size >> rng.integers(0, info.bits, 500).astype(dtype)
    edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2], dtype)
    a = np.concatenate([near, any_size, edges])
    typed = [np.array(d, dtype) for d in divisors]

    def all_of_them(a: Any) -> list[Any]:
        return [f(a, d) for f in DIVISIONS.values() for d in typed]

    found = lw.compile(all_of_them, target=HOST.with_isa(isa))(a)
    for got, expected in zip(found, all_of_them(a), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_are_multiplied(dtype: str, name: str) -> None:
    w = FunctionWriter("f", "")
    kind, lanes = f"i{np.iinfo(dtype).bits}", 8
    a = Value("%a", kind, lanes)
    e, x = Emitter.of(w, HOST, a)
    divide_integers(e, name, x, e.constant(7), dtype_of(dtype))
    text = w.text()
    assert "fdiv" not in text
    assert "select" not in text
    if kind == "i64":
        assert "div" not in text
    elif "div" in text:
        assert f"udiv <8 x {kind}>" in text
        assert "splat" in text.partition("udiv")[2].splitlines()[0]


def test_divisors_that_trap_wait_behind_a_jump() -> None:
    w = FunctionWriter("f", "")
    (e, a), (_, b) = (Emitter.of(w, HOST, Value(name, "i64")) for name in ("%a", "%b"))
    divide_integers(e, "floor_mod", a, b, dtype_of("int64"))
    (guard,) = [line for line in w.text().splitlines() if "select" in line and "i64 1," in line]
    assert '!"branch_weights", i32 1, i32 1000000' in guard


def test_zero_gives_zero() -> None:
    for dtype in DTYPES:
        a = np.arange(100).astype(dtype)
        for function in DIVISIONS.values():
            found = lw.compile(lambda a, f=function, d=dtype: f(a, np.array(0, d)))(a)
            np.testing.assert_array_equal(found, np.zeros_like(a))


@pytest.mark.parametrize("sign", ["//", "%"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scalars_equal_numpy(dtype: str, sign: str, rng: np.random.Generator) -> None:
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max]
    edges += [-1, -2, -7] if info.min else []
    others = rng.integers(info.min, info.max, 20, dtype) >> rng.integers(0, 8, 20).astype(dtype)
    values = np.array([*edges, *others], dtype)
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    text = f"prim @f(a: {dtype}[{a.size}], b: {dtype}[{a.size}]) -> y: {dtype}[{a.size}] {{"
    prim = parse_prim(f"{text} y[i] = a[i] {sign} b[i] }}")
    (found,) = run_kernel(compile_kernel(prim, Schedule(), HOST), {"a": a, "b": b}, HOST, 1)
    with np.errstate(all="ignore"):
        expected = DIVISIONS["floor_divide" if sign == "//" else "floor_mod"](a, b)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("divisor", [1, 3, 7, 64, 65, 100, 127])
@pytest.mark.parametrize("dtype", DTYPES)
def test_remainders_of_scalars_by_constants(
    dtype: str, divisor: int, rng: np.random.Generator
) -> None:
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, 0, 1, divisor - 1, divisor, info.max - 1, info.max]
    edges += [-1, -divisor, 1 - divisor] if info.min else []
    a = np.array([*edges, *rng.integers(info.min, info.max, 50, dtype)], dtype)
    text = f"prim @f(a: {dtype}[{a.size}]) -> y: {dtype}[{a.size}] {{"
    again = f"((a[i] % {divisor}:{dtype}) * a[i]) % {divisor}:{dtype}"
    prim = parse_prim(f"{text} y[i] = {again} }}")
    (found,) = run_kernel(compile_kernel(prim, Schedule(), HOST), {"a": a}, HOST, 1)
    number = np.array(divisor, dtype)
    np.testing.assert_array_equal(found, (a % number * a) % number)
    last = edges[-1]
    chosen = lw.compile(lambda a: np.fmod(a[len(edges) - 1], number))(a)
    assert chosen == np.fmod(np.array(last, dtype), number)

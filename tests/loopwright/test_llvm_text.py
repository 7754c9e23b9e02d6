"""The interpreter of LLVM text: what it refuses, and what a compile that is verified says."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.emit.memory import Memory
from loopwright.codegen.lower.lowering import LOWERINGS
from loopwright.codegen.lower.scope import rewrite
from loopwright.debug.machine.kernels import run_text
from loopwright.debug.machine.meanings import fma
from loopwright.debug.machine.memory import Fault
from loopwright.debug.machine.parser import parse_llvm
from loopwright.debug.machine.run import Machine
from loopwright.ir.errors import InternalError
from loopwright.ir.loop.nest import Vectors

HEAD = "define i64 @f(ptr %a, i64 %n) {\n"


def run(body: str, n: int = 0, size: int = 4) -> object:
    """Runs a body on four int64 and a number."""
    machine = Machine(parse_llvm(f"{HEAD}{body}\n}}"))
    address = machine.memory.add(np.arange(size, dtype=np.int64), "a", 8)
    return machine.call("f", address, n)


@pytest.mark.parametrize(
    "body, text",
    [
        (
            "%p = getelementptr i64, ptr %a, i64 4\n%x = load i64, ptr %p, align 8\nret i64 %x",
            "reads",
        ),
        (
            "%p = getelementptr i8, ptr %a, i64 -8\nstore i64 1, ptr %p, align 8\nret i64 0",
            "writes",
        ),
        ("%x = load <2 x i64>, ptr %a, align 16\nret i64 0", "multiple of 16"),
        ("%x = sdiv i64 1, %n\nret i64 %x", "division by zero"),
        ("%v = insertelement <2 x i64> poison, i64 %n, i64 2\nret i64 0", "lane 2"),
        ("br label %on\non:\nbr label %on", "does not end"),
        ("%x = load i64, ptr null, align 8\nret i64 %x", "where nothing is"),
    ],
)
def test_what_no_kernel_may_do(monkeypatch, body, text):
    monkeypatch.setattr("loopwright.debug.machine.run.ENDLESS", 1000)
    with pytest.raises(Fault, match=text):
        run(body)


def test_words_that_codegen_does_not_write_are_refused():
    with pytest.raises(InternalError, match="has no meaning"):
        run("%x = call i64 @llvm.bitreverse.i64(i64 %n)\nret i64 %x")


def test_integers_wrap_and_shift_as_the_machine_does():
    largest = 2**63 - 1
    assert run("%x = add i64 %n, 1\nret i64 %x", largest) == -(2**63)
    assert run("%x = lshr i64 %n, 60\nret i64 %x", -1) == 15
    assert run("%x = ashr i64 %n, 60\nret i64 %x", -(2**62)) == -4
    assert run("%x = sdiv i64 %n, 2\nret i64 %x", -7) == -3
    assert run("%x = srem i64 %n, 2\nret i64 %x", -7) == -1
    assert run("%t = trunc i64 %n to i8\n%x = zext i8 %t to i64\nret i64 %x", 511) == 255


def test_a_multiply_add_is_rounded_once():
    a, b = np.random.default_rng(0).standard_normal((2, 1000))
    product = a * b
    for x, y, p, e in zip(a, b, product, fma(a, b, -product), strict=True):
        assert Fraction(x) * Fraction(y) - Fraction(p) == Fraction(e)


def program(x, y):
    return np.exp(x @ y).sum(axis=0) + np.tanh(x)[:3].mean()


def test_a_compile_that_is_verified_runs_its_text(monkeypatch):
    names: list[str] = []

    def noted(kernel, inputs):
        names.append(kernel.name)
        return run_text(kernel, inputs)

    monkeypatch.setenv("LOOPWRIGHT_VERIFY", "2")
    monkeypatch.setattr("loopwright.debug.machine.kernels.run_text", noted)
    x = np.random.default_rng(1).random((7, 9), np.float32)
    np.testing.assert_allclose(lw.compile(program)(x, x.T), program(x, x.T), rtol=1e-5)
    assert len(names) >= 2


def test_a_wrong_text_is_named(monkeypatch):
    store = Memory.store

    def one_lane_less(self, place, address, value, active, stream=False, mask=None):
        return store(self, place, address, value, max(1, active - 1), stream, mask)

    monkeypatch.setenv("LOOPWRIGHT_VERIFY", "2")
    monkeypatch.setattr(Memory, "store", one_lane_less)
    x = np.random.default_rng(1).random((5, 16), np.float32)
    with pytest.raises(InternalError, match="its LLVM text is wrong"):
        lw.compile(lambda x: x * 3.25 + 0.125)(x)


def test_symbolic_sizes_are_tried_small(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_VERIFY", "2")
    f = lw.compile(lambda x: np.cumsum(x * 2)[::-1])
    f.lower(lw.f32["n"]).compile()
    np.testing.assert_allclose(f(np.arange(5, dtype=np.float32)), np.cumsum(np.arange(5) * 2)[::-1])


def test_a_wrong_pass_to_vectors_is_named(monkeypatch):
    """As every compile is verified in tests, at LOOPWRIGHT_VERIFY=1: the last lanes are lost, and
    then the same with sizes that are not constants."""

    def split(nest, machine):
        return rewrite(nest, lambda s, *_: (replace(s, extent=s.extent - 1),) if lanes(s) else None)

    def lanes(stmt):
        return isinstance(stmt, Vectors) and stmt.kind == "vectorize"

    behind = 1 + [each.__name__ for each in LOWERINGS].index("split_vectors")
    wrong = (*LOWERINGS[:behind], split, *LOWERINGS[behind:])
    monkeypatch.setattr("loopwright.debug.machine.kernels.LOWERINGS", wrong)
    x = np.random.default_rng(1).random((5, 16), np.float32)
    with pytest.raises(InternalError, match="split changes the results of its nest"):
        lw.compile(lambda x: x * 3.25 + 0.125)(x)
    with pytest.raises(InternalError, match="split"):
        lw.compile(lambda x: x * 3.25 + 0.125).lower(lw.f32["n"]).compile()


def test_vectors_are_a_level_that_is_shown():
    text = lw.compile(lambda x: np.exp(x).sum(axis=1)).lower(lw.f32[4, 40]).as_text("vector")
    assert re.search(r"vectorize \S+ in \d+ by \[", text) and re.search(r"reduce \S+ in", text)
    assert re.search(r"registers \S+: float32\[.*\] by \d+ of \d", text)

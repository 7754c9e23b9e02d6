"""Bytes looked up in a table of 256: alone, behind a contraction, and at every level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.target import ISA_LEVELS, PERMUTES, Target

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
TARGETS = [HOST.with_isa(level) for level in LEVELS]
if HOST.features:
    TARGETS.append(Target("x86-64-v4"))  # without the instruction that only some of them have
TABLE = np.random.default_rng(3).permutation(256).astype(np.uint8)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "alone": lambda x: TABLE[x],
    "signed": lambda x: TABLE.view(np.int8)[x],
    "moved": lambda x: TABLE[x.T],
    "twice": lambda x: TABLE[TABLE[x]] ^ TABLE[x],
    "wide": lambda x: TABLE[x].astype(np.float32) * 2,
    "of_one": lambda x: TABLE[x[0, 0]],
    "behind": lambda x: TABLE[
        np.minimum(x.astype(np.int32) @ x.T.astype(np.int32), 255).astype(np.uint8)
    ],
    "longer": lambda x: np.concatenate([TABLE, TABLE])[x],
    "shorter": lambda x: TABLE[:100][np.minimum(x, 99)],
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.isa} {len(t.features)}")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bytes_are_those_of_the_table(name: str, target: Target, rng: np.random.Generator) -> None:
    function = FUNCTIONS[name]
    for shape in ((3, 1), (5, 37), (16, 256)):
        x = rng.integers(0, 256, shape, np.uint8)
        x.ravel()[:256] = np.arange(256, dtype=np.uint8)[: x.size]
        np.testing.assert_array_equal(lw.compile(function, target=target)(x), function(x))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.isa} {len(t.features)}")
def test_of_any_number(target: Target, rng: np.random.Generator) -> None:
    f = lw.compile(lambda x: TABLE[x] + 1, target=target).lower(lw.u8["n"]).compile()
    for size in (1, 63, 64, 65, 1000):
        x = rng.integers(0, 256, size, np.uint8)
        np.testing.assert_array_equal(f(x), TABLE[x] + 1)


def test_registers_hold_the_table() -> None:
    for row in PERMUTES:
        target = Target(row.isa, features=frozenset({row.feature} - {""}))
        lowered = lw.compile(FUNCTIONS["alone"], target=target).lower(lw.u8[8, 256])
        assert f"@{row.function}(" in lowered.as_text("llvm")
        assert "registers x0.held: uint8[256]" in lowered.as_text("vector")

"""The texts themselves: any number of lanes, no calls into a mathematical library, small."""

from __future__ import annotations

import re

import numpy as np
import pytest
from loopwright.codegen.elementary import BINARY, FUNCTIONS, function
from loopwright.codegen.llvm.engine import disassemble
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.errors import UnsupportedError

from tools.elementary.sweep import compile_function, loop_text

HOST = Target.host()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("lanes", [1, 2])
def test_lanes_do_not_matter(name: str, lanes: int) -> None:
    rng = np.random.default_rng(2)
    operands = [rng.uniform(0, 1, 64).astype(np.float32) for _ in range(1 + (name in BINARY))]
    operands[0][:3] = [1e30, 0.0, 1.0]
    native = compile_function(name, "float32", HOST)(*operands)
    other = compile_function(name, "float32", HOST, lanes=lanes)(*operands)
    np.testing.assert_array_equal(other, native)


@pytest.mark.parametrize("isa", ISA_LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_is_called(dtype: str, isa: str) -> None:
    target = HOST.with_isa(isa)
    lanes = target.lanes(np.dtype(dtype).itemsize)
    for name in FUNCTIONS:
        f = function(name, dtype, lanes, target)
        code = disassemble(loop_text(f, dtype, lanes, 2 if name in BINARY else 1), target)
        assert not re.search(r"^\s*call", code, re.MULTILINE), name


def test_common_functions_are_short() -> None:
    for name in ("exp", "log", "tanh", "erf", "sigmoid"):
        common, _, _ = function(name, "float32", 16, HOST).text.partition("  br ")
        assert common.count("\n") < 45, name


def test_weights_keep_their_constants_in_registers() -> None:
    """With 16 registers, of which all but those of one vector may hold constants."""
    target = HOST.with_isa("x86-64-v3")
    weights = function("exp_weight", "float32", 8, target)
    code = disassemble(loop_text(weights, "float32", 8, 1), target)
    _, loop = re.split(r"^\.LBB\w+:", code, flags=re.MULTILINE)
    loop, _, _ = loop.partition("\tvzeroupper")
    assert "vbroadcastss" not in loop
    assert len(re.findall(r"\tv\w+", loop)) <= 16  # 13, a move, and the store


def test_the_text_is_the_same_each_time() -> None:
    first = function("sin", "float32", 16, HOST)
    function.cache_clear()
    assert function("sin", "float32", 16, HOST) == first
    assert first.symbol == "lw.sin.float32.x16"


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(KeyError):
        function("gamma", "float32", 16, HOST)
    with pytest.raises(UnsupportedError, match="no machine code for exp of int32"):
        function("exp", "int32", 16, HOST)

"""Kernels and programs as C: the text, and, where there is a compiler, what it does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import compiled
import loopwright as lw
import numpy as np
import pytest
from c_kernels import COMPILER, NAMES, CKernels, prepared
from loopwright.codegen.c_source.nests import function_text
from loopwright.codegen.target import Target
from loopwright.ir.errors import LoopwrightValueError, UnsupportedError
from loopwright.ir.loop.nest import Nest
from loopwright.ir.loop.parser import parse_nest
from operators import Evaluated, assert_agree

EVERY = 10  # of the operators; tests/fuzz/c_source_run.py takes all
NEST = """\
prim @product(x: float32[8, 64], w: float32[64, 16], n: int64[8]) -> out: float32[8, 16] {
  for i.0 in 2:
    registers acc: float32[4, 16]
    unroll i.1 in 4:
      vectorize j in 16:
        acc[i.1, j] = 0.0
    for k in 64:
      unroll i.1 in 4:
        vectorize j in 16:
          acc[i.1, j] += x[4 * i.0 + i.1, k] * w[k, j]
    unroll i.1 in 4:
      vectorize j in 16:
        out[4 * i.0 + i.1, j] = where(index(j) < n[4 * i.0 + i.1], exp(acc[i.1, j]), 0.0)
}
"""


def nest() -> Nest:
    return parse_nest(NEST)


def test_a_nest_is_as_many_lines_of_c() -> None:
    text, needed = function_text(nest(), "product")
    assert not needed
    assert (
        text
        == """\
static void product(
    const float x[8][64],
    const float w[64][16],
    const int64_t n[8],
    float out[8][16],
    void *workspace) {
  for (int64_t i_0 = 0; i_0 < 2; i_0++) {
    _Alignas(64) float acc[4][16];
    LW_UNROLL for (int64_t i_1 = 0; i_1 < 4; i_1++) {
      LW_VECTORIZE for (int64_t j = 0; j < 16; j++) {
        acc[i_1][j] = 0.0f;
      }
    }
    for (int64_t k = 0; k < 64; k++) {
      LW_UNROLL for (int64_t i_1 = 0; i_1 < 4; i_1++) {
        LW_VECTORIZE for (int64_t j = 0; j < 16; j++) {
          acc[i_1][j] += x[4 * i_0 + i_1][k] * w[k][j];
        }
      }
    }
    LW_UNROLL for (int64_t i_1 = 0; i_1 < 4; i_1++) {
      LW_VECTORIZE for (int64_t j = 0; j < 16; j++) {
        out[4 * i_0 + i_1][j] = (j < n[4 * i_0 + i_1]) ? expf(acc[i_1][j]) : 0.0f;
      }
    }
  }
}"""
    )


def test_registers_are_vectors() -> None:
    text, needed = function_text(nest(), "product", Target("x86-64-v3"))
    assert needed["float32x4"] == "LW_VECTOR(float, float32x4, 4)"
    assert "float32x4 acc[4][4];" in text


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("vectors", [None, Target("x86-64-v3")], ids=["loops", "vectors"])
def test_operators_agree_with_the_reference(vectors: Target | None, tmp_path: Path) -> None:
    kernels, target = CKernels(vectors), vectors or Target()
    names = NAMES[:: EVERY if vectors is None else 3 * EVERY]
    samples = [(name, *prepared(name, 1)[0]) for name in names]
    for _, args, module, _, _ in samples:
        compiled.run_module(module, args, target, kernels.collect, None)
    kernels.compile(tmp_path)
    for _, args, module, wanted, length in samples:
        found = compiled.run_module(module, args, target, kernels.run, None)
        assert_agree(Evaluated(found, length), wanted, args)


@lw.function
def halved(n: int, x: object) -> object:
    return lw.cond(n > 0, lambda: halved(n - 1, x * 0.5), lambda: x)


def settled(x, w, i):
    y = x @ w
    steps = 0
    while np.abs(y).max() > 0.01:
        y = np.tanh(y) * np.float32(0.7)
        steps += 1
    return halved(3, np.sort(y)), steps, x[i]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_programs_run_as_the_function_does(tmp_path: Path) -> None:
    lowered = lw.compile(settled).lower(lw.f32["n", 12], lw.f32[12, 12], lw.i64[3])
    (folder,) = lowered.export_c(tmp_path, targets=["x86-64-v3"], name="settle")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-march=x86-64-v3"]
    files = ["settle_example.c", "settle.c", "-o", "example", "-lm"]
    subprocess.run([COMPILER or "cc", *flags, *files], cwd=folder, check=True)
    done = subprocess.run([folder / "example", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_c_has_not_is_refused(tmp_path: Path) -> None:
    inverse = lw.compile(lambda x: np.linalg.inv(x)).lower(lw.f64[9, 9])
    with pytest.raises(UnsupportedError, match="library"):
        inverse.export_c(tmp_path)
    with pytest.raises(LoopwrightValueError, match="fopenmp"):
        lw.compile(lambda x: x + 1).lower(lw.f32[4]).export_c(tmp_path, threads="pool")

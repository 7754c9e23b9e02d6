"""``precision="bf16"``: what is computed, how far it is off, and by which instructions."""

from __future__ import annotations

import re
from dataclasses import replace

import loopwright as lw
import numpy as np
import pytest
from loopwright.cli import main
from loopwright.codegen.target import Target
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.tolerance import tolerance

ml_dtypes = pytest.importorskip("ml_dtypes")

HOST = Target.host()
PAIRS = Target("x86-64-v4", features=frozenset({"avx512bf16"}))
TARGETS = [HOST, replace(HOST, features=frozenset()), HOST.with_isa("x86-64")]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def windows(x: np.ndarray, side: int, stride: int, padding: int) -> np.ndarray:
    """``[n, y, x, c, i, j]`` of an image ``[n, c, y, x]``."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    views = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(2, 3))
    return views[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.isa}{'+' * bool(t.features)}")
@pytest.mark.parametrize("sizes", [(37, 133, 70), (1, 256, 300), (128, 64, 64), (5, 9, 3)])
def test_products_are_those_of_rounded_factors(sizes, target):
    m, k, n = sizes
    x, w, b = normal(m, k), normal(k, n), normal(n)
    f = lw.compile(lambda x: np.maximum(x @ w + b, 0), precision="bf16", target=target)
    sizes_of_sums = np.abs(rounded(x)) @ np.abs(rounded(w)) + np.abs(b)
    bound = tolerance(FLOAT32, k).rtol
    expected = np.maximum(rounded(x) @ rounded(w) + b, 0)
    assert (np.abs(f(x) - expected) <= bound * sizes_of_sums).all()
    # The bound that docs/dtypes.md states: 2**-8 of each factor.
    off = np.abs(f(x) - np.maximum(x.astype(np.float64) @ w + b, 0))
    exact = np.abs(x).astype(np.float64) @ np.abs(w) + np.abs(b)
    assert (off <= (2**-7 + 2**-16 + 2 * bound) * exact).all()
    assert off.max() > 2**-14


@pytest.mark.parametrize("target", TARGETS[:2], ids=["host", "plain"])
@pytest.mark.parametrize("side, stride, padding", [(1, 1, 0), (3, 1, 1), (3, 2, 1), (1, 2, 0)])
def test_convolutions_are_those_of_rounded_factors(side, stride, padding, target):
    x, w, v = normal(1, 8, 13, 11), normal(40, 8, 3, 3), normal(24, 40, side, side)

    def both(x):
        y = lw.nn.relu(lw.nn.conv2d(x, w, padding=1))
        return lw.nn.conv2d(y, v, strides=stride, padding=padding)

    result = lw.compile(both, precision="bf16", target=target)(x)
    first = np.einsum("nyxcij,ocij->noyx", windows(rounded(x), 3, 1, 1), rounded(w))
    y = np.maximum(first, 0)
    expected = np.einsum("nyxcij,ocij->noyx", windows(y, side, stride, padding), rounded(v))
    sizes = np.einsum("nyxcij,ocij->noyx", windows(y, side, stride, padding), np.abs(rounded(v)))
    # The second convolution rounds what the first one gives.
    assert (np.abs(result - expected) <= (2**-8 + 1e-5) * sizes).all()


def test_kernels_use_the_instruction_and_store_what_only_products_read_in_halves():
    w, v = normal(64, 96), normal(96, 64)
    f = lw.compile(lambda x: np.tanh(x @ w) @ v, precision="bf16", target=PAIRS)
    lowered = f.lower(lw.f32[40, 64])
    prims = lowered.built.parts.prims.values()
    assert lowered.as_text("loops").count("in 2 by bf16:") >= 2
    assert "vdpbf16ps" in lowered.as_text("asm")
    weights = [p for prim in prims for p in prim.params if p.constant]
    assert [str(p.dtype) for p in weights] == ["bfloat16"] * 2
    stored = [str(b.dtype) for prim in prims for b in prim.output_buffers]
    assert sorted(stored) == ["bfloat16", "bfloat16", "float32"]


def test_attention_and_other_dtypes_stay_as_they_are():
    def attention(q, k, v):
        return lw.nn.softmax(q @ k.swapaxes(-1, -2)) @ v

    args = [normal(2, 20, 16) for _ in range(3)]
    same = [lw.compile(attention, precision=p)(*args) for p in ("bf16", "standard")]
    np.testing.assert_array_equal(*same)
    a, b = normal(20, 30).astype(np.float64), normal(30, 20).astype(np.float64)
    f = lw.compile(lambda x, y: x @ y, precision="bf16")
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-12)


def test_arrays_of_bfloat16_are_multiplied_by_the_instruction_as_they_are():
    x, w = (normal(*s).astype(ml_dtypes.bfloat16) for s in [(33, 48), (48, 40)])
    f = lw.compile(lambda x, w: x @ w)
    result = f(x, w)
    assert result.dtype == (x @ w).dtype == np.float32
    exact = x.astype(np.float64) @ w.astype(np.float64)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-5)
    on_pairs = lw.compile(lambda x, w: x @ w, target=PAIRS).lower(x, w)
    assert "in 2 by bf16:" in on_pairs.as_text("loops")
    assert "cast" not in on_pairs.built.kernels


def test_symbolic_sizes_are_multiplied_too():
    w = normal(64, 96)
    f = lw.compile(lambda x: x @ w, precision="bf16", dynamic={"x": lw.f32["n", 64]})
    for rows in 1, 3, 40, 129:
        x = normal(rows, 64)
        np.testing.assert_allclose(f(x), rounded(x) @ rounded(w), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not HOST.dot("bf16"), reason="no products of bfloat16 here")
def test_it_is_said_how_many_products_and_how_far_results_are_off(capfd, monkeypatch):
    w, v = normal(64, 96), normal(2, 96, 8)
    f = lw.compile(lambda x: (x @ w) @ v @ v.swapaxes(-1, -2), precision="bf16", threads=1)
    x = normal(40, 64)
    explained = f.lower(x).explain(x, seconds=0.01)
    number = re.fullmatch(
        r"(\d) of 3 products are of factors in bfloat16: off by (\S+) of the largest .*",
        explained.rounded,
    )
    right = (x @ w) @ v @ v.swapaxes(-1, -2)
    assert number is not None and number[1] == "2"
    off = np.abs(f(x) - right).max() / np.abs(right).max()
    assert 0.8 * off < float(number[2]) < 1.25 * off
    assert f"bf16       {explained.rounded}" in str(explained)
    plain = lw.compile(lambda x: x @ w)
    assert plain.lower(x).explain(x, seconds=0.01).rounded == ""
    monkeypatch.setenv("LOOPWRIGHT_DEBUG", "1")
    lw.compile(lambda x: x @ w, precision="bf16")(x)
    assert "1 of 1 products are of factors in bfloat16" in capfd.readouterr().err


def test_the_command_line_takes_it_for_one_command(tmp_path, capsys):
    (tmp_path / "net.py").write_text(
        "import numpy as np\nW = np.ones((64, 96), np.float32)\n"
        "def f(x):\n    return x @ W\nexample_inputs = (np.ones((4, 64), np.float32),)\n"
    )
    command = ["show", f"{tmp_path / 'net.py'}:f", "--level", "kernels"]
    assert main([*command, "--precision", "bf16"]) == 0
    assert "bfloat16" in capsys.readouterr().out
    assert main(command) == 0
    assert "bfloat16" not in capsys.readouterr().out
    assert main([*command, "--precision", "bf8"]) == 2
    assert "strict, standard, bf16, reproducible or a number" in capsys.readouterr().err


def test_the_setting_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_PRECISION", "bf16")
    w = normal(64, 96)
    text = lw.compile(lambda x: x @ w).lower(lw.f32[40, 64]).as_text("kernels")
    assert "bfloat16" in text

"""``bench.limits``: what bounds a kernel, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from loopwright.codegen.machine import estimated_machine
from loopwright.codegen.target import Target

from bench.limits.__main__ import limit_of, main
from bench.limits.kernels import KERNELS, Kernel

V4 = Target(isa="x86-64-v4", cpu="AMD EPYC")


def _made() -> tuple[None, tuple[()]]:
    raise AssertionError("a limit needs no kernel")


def test_the_longest_of_the_limits_bounds() -> None:
    machine = estimated_machine(V4)  # 3 GHz; the multiplications of this core are half of its peak
    few = Kernel("k", _made, moved=1024, flops=3.2e6)
    assert limit_of(few, V4, machine) == (pytest.approx(1e5 / 6e9), "arithmetic")
    gates = replace(few, elements=16_000_000, cost="tanh")
    assert limit_of(gates, V4, machine)[0] == pytest.approx((1e5 + 12e6) / 6e9)
    assert limit_of(replace(few, moved=1e9), V4, machine)[1] == "dram"
    assert limit_of(replace(few, lookups=10**6, steps=3), V4, machine) == (
        pytest.approx(3 * 1e6 / 0.8 / 6e9),
        "look-ups",
    )


def test_names_differ_and_functions_are_made() -> None:
    assert len({k.label for k in KERNELS}) == len(KERNELS) >= 20
    (kernel,) = [k for k in KERNELS if k.name == "take_4096x4_16384_float32"]
    _, (table, index) = kernel.make()
    assert table.shape == (4096, 4)
    assert 0 <= index.min() <= index.max() < 4096
    assert index.dtype == np.int32


def test_a_kernel_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "times.json"
    label = "map_65536_tanh x86-64-v3"
    options = [label, "--rounds", "2", "--seconds", "0.001"]
    assert main([*options, "--out", str(out)]) in (0, 1)
    assert json.loads(out.read_text())[label] > 0
    main([*options, "--against", str(out)])
    alone, compared = [
        line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("map_")
    ]
    assert alone[-1] == "arithmetic"
    assert float(compared[-1]) > 0

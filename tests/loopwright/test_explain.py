"""Explanations: of a program with fixed schedules, times and machine; and their picture."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from loopwright.autotune.selection.select import Chosen
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.machine import MachineModel
from loopwright.codegen.roofline import LEVELS, Roof, Traffic, Work
from loopwright.codegen.runtime import pool
from loopwright.codegen.target import Target
from loopwright.codegen.timed_program import Times, timed_program
from loopwright.driver.built import Built, Parts
from loopwright.inspect import profile as profile_module
from loopwright.inspect.explain import Explained, Explanation, explain, explanation_text
from loopwright.inspect.roofline_svg import roofline_svg
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.program.parser import parse_program
from loopwright.ir.schedule.steps import Schedule, cache_write, reorder, split, vectorize

TARGET = Target(isa="x86-64", cpu="described", cores=1, l1=1 << 14, l2=1 << 17, l3=1 << 21)
RATES = dict(zip(LEVELS, (4e11, 2e11, 4e10, 2e10)))
MACHINE = MachineModel("x86-64", "described", 2, 1e11, 2e11, 5e10, 1e11, RATES, RATES, RATES, RATES)

PRIMS = {
    "product": """
prim @product(a: float32[128, 256], b: float32[256, 64]) -> out: float32[128, 64] {
  out[i, j] = sum(k: 256) a[i, k] * b[k, j]
}""",
    "doubled": """
prim @doubled(x: float32[128, 64]) -> out: float32[128, 64] {
  out[i, j] = x[i, j] * 2.0
}""",
}
PROGRAM = """
program @main(@in %a: float32[128, 256], @in %b: float32[256, 64], @out %y: float32[128, 64])
    arena 65536 bytes {
  %t = alloc float32[128, 64]                             at 0
  %u = alloc float32[128, 64]                             at 32768
  call @product(@in %a, @in %b, @out %t)
  call @doubled(@in %t, @out %u)
  call @doubled(@in %u, @out %y)
  free %t
  free %u
}
"""


@pytest.fixture
def built() -> Built:
    schedules = {
        "product": Schedule.of(
            split("j", (16, 4)),
            cache_write("out", "registers", "j.0"),
            reorder("k", "j.1"),
            vectorize("j.1"),
        ),
        "doubled": Schedule.of(split("j", (16, 4)), vectorize("j.1")),
    }
    prims = {name: parse_prim(text) for name, text in PRIMS.items()}
    kernels = {n: compile_kernel(prims[n], schedules[n], TARGET, f"lw_{n}") for n in prims}
    chosen = {n: Chosen(schedules[n], "rules", "tile.j()") for n in prims}
    parts = Parts(prims, kernels, parse_program(PROGRAM), TARGET, 1, ())
    return Built(list, chosen=chosen, parts=parts)


def _arrays() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(np.float32) for s in ((128, 256), (256, 64))]


def test_the_text(built: Built, monkeypatch: pytest.MonkeyPatch, golden: Any) -> None:
    times = Times(np.ones(3, np.int64), np.array([2e-4, 1.2e-5, 8e-6])), 5e-6
    monkeypatch.setattr(profile_module, "_measure", lambda *_: times)
    golden(explanation_text("net.py:f", explain(built, [], MACHINE)) + "\n", "explain.txt")


def test_times_are_measured_where_the_kernels_stand(built: Built) -> None:
    parts = built.parts
    assert parts is not None
    timed = timed_program(parts.program, parts.kernels, Target.host(), 1)
    a, b = _arrays()
    np.testing.assert_allclose(timed.executable([a, b])[0], 4 * (a @ b), rtol=1e-4, atol=1e-4)
    assert [call.kernel for call in timed.calls] == ["product", "doubled", "doubled"]
    times = timed.run([a, b])
    assert times.counts.tolist() == [1, 1, 1] and timed.loops == ()
    took = times.seconds
    assert took[0] > took[1] > 0 and took[0] > took[2] > 0


def test_what_was_measured_is_held_against_the_roof(built: Built) -> None:
    found = explain(built, _arrays(), MACHINE, seconds=0.02)
    assert [(k.name, k.calls) for k in found.kernels] == [("product", 1), ("doubled", 2)]
    product = found.kernels[0]
    assert product.work.flops == 2 * 128 * 256 * 64
    assert 0 < product.seconds < found.seconds < 1
    assert product.share == product.limit / product.seconds


def _work(flops: float, **moved: float) -> Work:
    return Work(flops, {n: Traffic(read=moved.get(n, 0.0)) for n in LEVELS})


@pytest.mark.parametrize(
    ("work", "bound", "seconds"),
    [
        (_work(1e9, l1=1e6), "compute", 1e-2),
        (_work(1e5, l1=4e6, l2=1e6), "l1", 1e-5),
        (_work(1e6, l1=4e6, l2=4e6, l3=4e6), "l3", 1e-4),
        (_work(1e6, l1=4e6, l2=4e6, l3=4e6, dram=4e6), "dram", 2e-4),
    ],
)
def test_the_lowest_roof_bounds(work: Work, bound: str, seconds: float) -> None:
    assert Roof(MACHINE).bound(work) == (bound, pytest.approx(seconds))
    assert Roof(MACHINE, 2).peak() == 2e11
    assert Roof(MACHINE).peak(8) == 5e10


# -- the picture ------------------------------------------------------------------------------


def _explanation(count: int, seed: int = 0) -> Explanation:
    rng = np.random.default_rng(seed)
    kernels: list[Explained] = []
    for n in range(count):
        moved = 10 ** rng.uniform(4, 8)
        work = _work(10 ** rng.uniform(3, 10), **{LEVELS[n % 4]: moved, "l1": moved * 4})
        roof = Roof(MACHINE, 1 + n % 2)
        seconds = roof.bound(work)[1] / rng.uniform(0.02, 1.0)
        kernels.append(
            Explained(f"a<{n}>&b", 1, seconds, work, roof, "by the rules", "tile", {}, "")
        )
    return Explanation(tuple(kernels), 1e-6, MACHINE, 2)


@pytest.mark.parametrize("count", [0, 1, 2, 9, 40])
def test_the_picture_is_well_formed(count: int) -> None:
    found = _explanation(count)
    text = roofline_svg("net.py:<f> & more", found)
    root = ElementTree.fromstring(text)
    width, height = (float(v) for v in root.attrib["viewBox"].split()[2:])
    points = [e for e in root.iter() if e.tag.endswith("circle") and "point" in e.attrib["class"]]
    assert len(points) == count
    for point in points:
        assert 0 < float(point.attrib["cx"]) < width and 0 < float(point.attrib["cy"]) < height
    assert not re.search(r"href|url\(|<script|nan|inf\b", text), "it stands by itself"
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("seed", range(5))
def test_numbers_in_the_picture_do_not_overlap(seed: int) -> None:
    root = ElementTree.fromstring(roofline_svg("f", _explanation(25, seed)))
    plot = [
        (float(e.attrib["x"]), float(e.attrib["y"]), e.text or "")
        for e in root.iter()
        if e.tag.endswith("text") and e.attrib.get("class") == "number middle"
    ]
    assert len(plot) == 25, "every point has its number"
    for (x, y, text), (x2, y2, text2) in itertools.combinations(plot, 2):
        apart = abs(x - x2) >= 3 * (len(text) + len(text2)) or abs(y - y2) >= 11
        assert apart, f"{text} and {text2}"


def test_pool_is_unchanged_by_explaining(built: Built) -> None:
    before = pool.get_threads()
    explain(built, _arrays(), MACHINE, seconds=0.01)
    assert pool.get_threads() == before

"""Workload texts and hashes are frozen: a log must stay readable for ever.

A hash that changes here orphans every record of that workload. If the canonical text must ever
change, old logs need a way to be read first.
"""

import pickle
from dataclasses import replace

import pytest
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import ParseError
from loopwright.ir.loop.expr import op, read
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from loopwright.ir.loop.simplify_prim import canonical_names, canonical_prim, rename
from loopwright.ir.loop.workload import parse_workload, workload_hash, workload_text

FROZEN = {
    "matmul": """
prim @matmul(x: float32[64, 512], w: float32[512, 384]) -> y: float32[64, 384] {
  y[a, b] = sum(c: 512) x[a, c] * w[c, b]
}""",
    "constant_weights": """
prim @matmul(x: float32[64, 512], w: float32[512, 384] const) -> y: float32[64, 384] {
  y[a, b] = sum(c: 512) x[a, c] * w[c, b]
}""",
    "double": """
prim @matmul(x: float64[64, 512], w: float64[512, 384]) -> y: float64[64, 384] {
  y[a, b] = sum(c: 512) x[a, c] * w[c, b]
}""",
    "epilogue": """
prim @layer(x: float32[64, 512], w: float32[512, 384] const, b: float32[384] const)
    -> y: float32[64, 384] {
  t[i, j]: float32[64, 384] = sum(k: 512) x[i, k] * w[k, j]
  y[i, j] = maximum(t[i, j] + b[j], 0.0)
}""",
    "softmax": """
prim @softmax(x: float32[4096, 1024]) -> y: float32[4096, 1024] {
  m[i]: float32[4096] = max(k: 1024) x[i, k]
  e[i, j]: float32[4096, 1024] = exp(x[i, j] - m[i])
  s[i]: float32[4096] = sum(r: 1024) e[i, r]
  y[i, j] = e[i, j] / s[i]
}""",
    "convolution": """
prim @conv(x: float32[56, 56, 64], w: float32[3, 3, 64, 64] const) -> y: float32[56, 56, 64] {
  p[i, j, c]: float32[58, 58, 64] = where(((0 <= index(i - 1)) and (index(i - 1) <= 55))
      and ((0 <= index(j - 1)) and (index(j - 1) <= 55)), x[i - 1, j - 1, c], 0.0)
  y[i, j, o] = sum(u: 3, v: 3, c: 64) p[i + u, j + v, c] * w[u, v, c, o]
}""",
    "strided_pool": """
prim @pool(x: float32[28, 28, 16]) -> y: float32[14, 14, 16] {
  y[i, j, c] = max(u: 2, v: 2) x[2 * i + u, 2 * j + v, c]
}""",
    "gather": """
prim @take(x: float32[100, 8], at: int64[5]) -> y: float32[5, 8] {
  y[i, j] = x[minimum(maximum(at[i], 0), 99), j]
}""",
    "integers": """
prim @map(x: int8[1000]) -> y: int32[1000] {
  y[i] = int32(x[i]) * 3:int32
}""",
    "two_outputs": """
prim @moments(x: float32[10, 20]) -> m: float32[10], v: float32[10] {
  m[i] = sum(k: 20) x[i, k] * 0.05
  v[i] = sum(k: 20) (x[i, k] - m[i]) * (x[i, k] - m[i])
}""",
    "nothing": """
prim @copy(x: float32[0]) -> y: float32[0] {
  y[i] = x[i]
}""",
    "scalar": """
prim @scalar(x: float64[]) -> y: bool[] {
  y[] = isnan(x[])
}""",
}

HASHES = {
    "matmul": "149dbdb98796cf8f",
    "constant_weights": "c6ea5d921ee07bd1",
    "double": "14e9657058746c1f",
    "epilogue": "5439ae433d3fabce",
    "softmax": "dece63a8a31d17a7",
    "convolution": "b305c1bcd846d303",
    "strided_pool": "239a1661c1b44ca7",
    "gather": "2d83bc3f8aab2487",
    "integers": "70b12954a3717a21",
    "two_outputs": "7fdfab52cdf5c622",
    "nothing": "78012b92be549486",
    "scalar": "15e34b77da6f1ad6",
}


@pytest.mark.parametrize("name", FROZEN)
def test_hashes_are_frozen(name):
    prim = canonical_prim(parse_prim(FROZEN[name]))
    assert workload_hash(prim) == HASHES[name]


@pytest.mark.parametrize("name", FROZEN)
def test_the_text_says_the_kernel_again(name):
    prim = canonical_prim(parse_prim(FROZEN[name]))
    again = parse_workload(workload_text(prim), prim.name)
    assert again == canonical_names(prim)
    assert workload_hash(again) == HASHES[name]


def test_a_text_that_is_no_workload_is_refused():
    for text in ("", "() -> {", "matmul", "(x0: float32[4]) -> out: float32[4] { }", "(" * 5000):
        with pytest.raises(ParseError):
            parse_workload(text)


def test_the_text():
    assert workload_text(parse_prim(FROZEN["epilogue"])) == (
        "(x0: float32[64, 512], x1: float32[512, 384] const, x2: float32[384] const)"
        " -> out: float32[64, 384] { t0[i, j]: float32[64, 384] = sum(k: 512) x0[i, k] * x1[k, j];"
        " out[i, j] = maximum(t0[i, j] + x2[j], 0.0) }"
    )


def test_different_work_has_different_hashes():
    found = {workload_hash(parse_prim(text)) for text in FROZEN.values()}
    assert len(found) == len(FROZEN)


@pytest.mark.parametrize("name", FROZEN)
def test_names_do_not_matter(name):
    prim = parse_prim(FROZEN[name])
    axes = {a.name for s in prim.stages for a in (*s.axes, *s.reduce_axes)}
    other = rename(
        prim,
        {a: f"zz.{n}" for n, a in enumerate(sorted(axes))},
        {b: f"b{n}" for n, b in enumerate(sorted(prim.buffers))},
    )
    other = PrimFunc("other", other.params, other.outputs, other.stages)
    assert workload_text(other) == workload_text(prim)
    assert canonical_names(canonical_names(prim)) == canonical_names(prim)


def test_the_text_of_shared_expressions_stays_short():
    value = read("x", (0,), FLOAT32)
    for _ in range(60):
        value = op("add", value, value)
    stage = Stage(Buffer("y", (1,), FLOAT32), (Axis("i", 1),), value)
    prim = PrimFunc("doubling", (Buffer("x", (1,), FLOAT32),), ("y",), (stage,))
    assert len(workload_text(prim)) < 3000


def test_a_size_may_have_the_name_of_an_axis():
    text = """
prim @copy(x: float32[n, i]) -> y: float32[n, i] for n in 0..9, i in 1..4 {
  y[a, b] = x[a, b]
}"""
    expected = (
        "(x0: float32[n0, n1]) -> out: float32[n0, n1] for n0 in 0..9, n1 in 1..4 "
        "{ out[i, j] = x0[i, j] }"
    )
    assert workload_text(parse_prim(text)) == expected


def test_what_is_derived_is_no_part_of_a_prim() -> None:
    prim = parse_workload("(x0: float32[4]) -> out: float32[4] { out[i] = exp(x0[i]) }")
    text = workload_text(prim)
    assert prim.derived["workload"] is workload_text(prim) == text
    again = pickle.loads(pickle.dumps(prim))
    assert again == prim and hash(again) == hash(prim)
    assert again.derived == {} and again.stage("out") == prim.stage("out")
    assert replace(prim, name="other").derived == {}

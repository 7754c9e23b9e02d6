"""PrimFuncs of which every rule makes sketches, with small sizes."""

from __future__ import annotations

import re

from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from prims import make_prim

__all__ = ["TARGET", "WORKLOADS", "prim_of"]

WORKLOADS = [
    ("matmul", (64, 96, 50)),
    ("matmul", (13, 70, 37)),
    ("matmul", (3, 5, 7)),
    ("rows", (40, 33, 1)),
    ("map", (30, 70, 1)),
    ("convolution", (28, 8, 32)),
    ("outer_sum", (50, 130, 1)),
    ("gram", (100, 40, 1)),
    ("window", (20, 50, 1)),
    ("bytes", (24, 64, 48)),
    ("mirrored", (160, 40, 1)),
    ("attention", (64, 96, 16)),
    ("pick", (40, 4, 1)),
]
MORE = {
    "bytes": """
prim @bytes(x: int8[a, c], w: int8[c, b] const) -> out: int32[a, b] {
  out[i, j] = sum(k: c) int32(x[i, k]) * int32(w[k, j])
}""",
    "mirrored": """
prim @mirrored(x: D[a, b]) -> out: D[a, a] {
  out[i, j] = sum(k: b) x[i, k] * x[j, k]
}""",
    "attention": """
prim @attention(q: D[a, c], k: D[b, c], v: D[b, c]) -> out: D[a, c] {
  s[i, j]: D[a, b] = sum(d: c) q[i, d] * k[j, d]
  m[i]: D[a] = max(r: b) s[i, r]
  e[i, j]: D[a, b] = exp(s[i, j] - m[i])
  t[i]: D[a] = sum(u: b) e[i, u]
  o[i, l]: D[a, c] = sum(w: b) e[i, w] * v[w, l]
  out[i, l] = o[i, l] / t[i]
}""",
    "pick": """
prim @pick(x: D[a, b]) -> out: D[b, a] {
  out[i, j] = where(index(i) < 1, x[j, 0], where(index(i) < 2, x[j, 1] + x[j, 2], \
where(index(i) < 3, x[j, 3], x[j, 2] - x[j, 1])))
}""",
}
TARGET = Target("x86-64-v4", "test", 2, 32 << 10, 1 << 20, 32 << 20, frozenset({"avx512vnni"}))


def prim_of(kind: str, a: int, b: int, c: int) -> PrimFunc:
    if kind not in MORE:
        return make_prim(kind, a, b, c, dtype="float32")
    sizes = {"a": a, "b": b, "c": c}
    text = re.sub(r"\b[abc]\b(?=[\],) ])", lambda m: str(sizes[m[0]]), MORE[kind])
    return parse_prim(re.sub(r"\bD\b", "float32", text))

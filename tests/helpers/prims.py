"""Small PrimFuncs of every kind the sketches know, as text with sizes to fill in."""

from __future__ import annotations

import numpy as np
from loopwright.ir.dims import as_int
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.nest import Nest
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc

__all__ = ["KINDS", "make_prim", "random_inputs", "run_nest"]

KINDS = {
    "matmul": """
prim @matmul(x: D[a, c], w: D[c, b] const, v: D[b]) -> out: D[a, b] {
  t[i, j]: D[a, b] = sum(k: c) x[i, k] * w[k, j]
  out[i, j] = maximum(t[i, j] + v[j], 0:D)
}""",
    "gram": """
prim @gram(x: D[a, b]) -> out: D[a, a] {
  t[i, j]: D[a, a] = sum(k: b) x[i, k] * x[j, k]
  out[i, j] = t[j, i] + t[i, j]
}""",
    "rows": """
prim @rows(x: D[a, b]) -> out: D[a, b] {
  m[i]: D[a] = max(k: b) x[i, k]
  e[i, j]: D[a, b] = (x[i, j] - m[i]) * 3:D
  s[i]: D[a] = sum(r: b) e[i, r]
  out[i, j] = e[i, j] - s[i]
}""",
    "map": """
prim @map(x: D[a, b]) -> out: D[b, a] {
  out[i, j] = x[j, i] * 2:D
}""",
    "two": """
prim @two(x: D[a, b]) -> p: D[a], out: D[a, b] {
  p[i] = sum(k: b) x[i, k]
  out[i, j] = x[i, j] - p[i]
}""",
    "convolution": """
prim @convolution(x: D[a, b], w: D[3, b, c] const) -> out: D[a, c] {
  p[h, g]: D[a + 2, b] = where((1 <= index(h)) and (index(h) <= a), x[h - 1, g], 0:D)
  t[i, o]: D[a, c] = sum(u: 3, l: b) p[i + u, l] * w[u, l, o]
  out[i, o] = t[i, o] + 1:D
}""",
    "window": """
prim @window(x: D[a, b]) -> out: D[a, b] {
  out[i, j] = max(k: 3) where((1 <= index(i + k)) and (index(i + k) <= a), x[i + k - 1, j], -9:D)
}""",
    "chain": """
prim @chain(x: D[a, b, c]) -> s: D[a], q: D[a, b] {
  q[i, j] = sum(k: c) x[i, j, k]
  s[i] = min(r: b) q[i, r]
}""",
    "neighbours": """
prim @neighbours(x: D[a + 2]) -> out: D[a] {
  t[h]: D[a + 2] = x[h] * 3:D
  out[i] = (t[i] + t[i + 1]) + t[i + 2]
}""",
    "gather": """
prim @gather(x: D[a, b], at: int64[a]) -> out: D[a, b] {
  t[i, j]: D[a, b] = x[i, j] + 1:D
  out[i, j] = t[at[i], j]
}""",
    "framed": """
prim @framed(x: D[a, b + 2]) -> out: D[a + 2, b + 2] {
  out[h, g] = where((1 <= index(h)) and (index(h) <= a), x[h - 1, max(g - 2, 1)], 7:D)
}""",
    "outer_sum": """
prim @outer_sum(x: D[a, b]) -> out: D[b] {
  out[j] = sum(k: a) x[k, j]
}""",
    "nothing": """
prim @nothing(x: D[a, 0]) -> out: D[a] {
  t[i]: D[a] = sum(k: 0) x[i, k]
  out[i] = t[i] + 5:D
}""",
}


def make_prim(kind: str, a: int, b: int, c: int, dtype: str = "int64") -> PrimFunc:
    """The PrimFunc ``kind`` with sizes a, b, c; integers, so that results are exact."""
    text = KINDS[kind].replace("D[", f"{dtype}[").replace(":D", f":{dtype}")
    head, *rest = text.strip().splitlines()
    sizes = {"a": a, "b": b, "c": c}
    lines = [head, *rest]
    for name, size in sizes.items():
        lines = [_filled(line, name, size) for line in lines]
    return parse_prim("\n".join(lines))


def _filled(line: str, name: str, size: int) -> str:
    """The line with a size put in where it stands as one."""
    for before, after in (
        (f"[{name}", "["),
        (f", {name}", ", "),
        (f": {name}", ": "),
        (f"<= {name}", "<= "),
    ):
        for end in ("]", ",", ")", " +"):
            line = line.replace(before + end, f"{after}{size}{end}")
    return line


def random_inputs(prim: PrimFunc, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """An array for every parameter; ``at`` holds indices of the first axis of ``x``."""
    inputs: dict[str, np.ndarray] = {}
    for param in prim.params:
        shape = [as_int(size) for size in param.shape]
        if param.name == "at":
            inputs["at"] = rng.integers(0, max(1, as_int(prim.params[0].shape[0])), shape)
        else:
            inputs[param.name] = rng.integers(-9, 10, shape).astype(param.dtype.numpy)
    return inputs


def run_nest(nest: Nest, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a loop nest, interpreted; what it leaves out keeps a strange number."""
    arrays: dict[str, np.ndarray] = {}
    for operand in nest.operands:
        buffer = operand.buffer
        if operand.pack is not None:
            arrays[buffer.name] = operand.pack.array(inputs[operand.pack.source])
        elif operand.role == "out":
            shape = [as_int(size) for size in buffer.shape]
            arrays[buffer.name] = np.full(shape, 113, buffer.dtype.numpy)
        elif operand.begins_as is not None:
            arrays[buffer.name] = inputs[operand.begins_as[1]].copy()
        else:
            arrays[buffer.name] = inputs[buffer.name]
    interpret(nest, arrays)
    return {o.buffer.name: arrays[o.buffer.name] for o in nest.operands if o.role.writes}

"""pack_grouped: panels with neighbours along another axis side by side."""

import numpy as np
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule, pack_grouped

MATMUL = """
prim @f(x: float32[4, 6], w: float32[6, 5] const) -> out: float32[4, 5] {
  out[i, j] = sum(k: 6) x[i, k] * w[k, j]
}"""


def test_pack_grouped_of_a_constant():
    nest = apply_schedule(parse_prim(MATMUL), Schedule.of(pack_grouped("w", "j", 2, "k", 4)))
    text = str(nest)
    assert "w.packed: float32[3, 2, 2, 4] packs w[6, 5] 1 by 4 of 0)" in text
    assert "x[i, k] * w.packed[(j // 2), (k // 4), (j % 2), (k % 4)]" in text
    assert parse_nest(text) == nest
    values = np.arange(30.0, dtype=np.float32).reshape(6, 5)
    pack = nest.operands[1].pack
    assert pack is not None
    made = pack.array(values)
    padded = np.pad(values, ((0, 2), (0, 1)))
    for j, k in np.ndindex(6, 8):
        assert made[j // 2, k // 4, j % 2, k % 4] == padded[k, j]


def test_pack_grouped_at_run_time():
    """Rows of a group are read together: the interleaving is left to registers."""
    text = "prim @f(x: int8[4, 8]) -> out: int8[4, 8] { out[i, j] = x[i, j] }"
    nest = apply_schedule(parse_prim(text), Schedule.of(pack_grouped("x", "j", 4, "i", 2)))
    verify_nest(nest)
    assert str(nest).splitlines()[1:-1] == [
        "  workspace x.packed: int8[2, 2, 4, 2]",
        "  for x.packed.0 in 2:",
        "    for x.packed.o in 2:",
        "      vectorize x.packed.i in 4:",
        "        unroll x.packed.g in 2:",
        "          x.packed[x.packed.o, x.packed.0, x.packed.i, x.packed.g] ="
        " x[2 * x.packed.0 + x.packed.g, x.packed.i + 4 * x.packed.o]",
        "  for i in 4:",
        "    for j in 8:",
        "      out[i, j] = x.packed[(j // 4), (i // 2), (j % 4), (i % 2)]",
    ]

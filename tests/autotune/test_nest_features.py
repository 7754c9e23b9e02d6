"""The array features agree with those read off the applied loop nest."""

import re
from collections.abc import Iterator

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.space.feature_list import FEATURE_NAMES
from loopwright.autotune.space.reading import tiling_of
from loopwright.autotune.space.rules import user
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.autotune.space.variant import Variant
from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.schedule import parallel, split, unroll, vectorize
from nest_features import nest_features
from prims import make_prim

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


def check(prim: PrimFunc, space: ScheduleSpace, rows: np.ndarray) -> None:
    """The features of rows of a space against those of their loop nests."""
    for row, columns in zip(rows, space.features(rows), strict=True):
        schedule = space.schedule(row)
        if any(step.name == "cut" for step in schedule.steps):
            continue  # no piece may be as large as a tile
        sketch = space.variants[int(row[0])].sketch
        tiling = sketch.tiling or tiling_of(prim, space.target, schedule)[0]
        shown = nest_features(apply_schedule(prim, schedule), tiling.group.main, tiling.lanes)
        for name, value in shown.items():
            told = columns[FEATURE_NAMES.index(name)]
            told = told if name == "packed" else 2.0**told
            assert told == pytest.approx(value), f"{sketch.name} {name}: {schedule}"


@pytest.mark.parametrize("kind, sizes", WORKLOADS)
def test_features_are_those_of_the_nest(kind: str, sizes: tuple[int, int, int]) -> None:
    prim = prim_of(kind, *sizes)
    space = ScheduleSpace(prim, TARGET)
    rows = np.concatenate([space.default(), space.sample(30, np.random.default_rng(1))])
    check(prim, space, rows)


def test_every_rule_is_among_them() -> None:
    names = {
        v.name.split(".")[0]
        for k, s in WORKLOADS
        for v in ScheduleSpace(prim_of(k, *s), TARGET).variants
    }
    assert names == {"tile", "mirror", "dots", "lanes", "window", "pick", "chain"}


@pytest.mark.parametrize("kind, sizes", WORKLOADS)
def test_so_are_those_of_a_sketch_that_only_builds(kind: str, sizes: tuple[int, int, int]) -> None:
    """The same schedules, from a sketch whose one knob is their number."""
    prim = prim_of(kind, *sizes)
    space = ScheduleSpace(prim, TARGET)
    rows = np.concatenate([space.default(), space.sample(30, np.random.default_rng(2))])
    schedules = [space.schedule(row) for row in rows]
    sketch = lw.Sketch("bare", lambda number: schedules[number], number=range(len(rows)))
    bare = ScheduleSpace(prim, TARGET, variants=[Variant("bare", (), sketch)])
    check(prim, bare, np.array([[0, n] for n in range(len(rows))], np.int32))


def a_users_rule(prim: PrimFunc, target: Target) -> Iterator[lw.Sketch]:
    """Vectors of a map's last axis, some of them unrolled, with knobs named as users like."""
    (stage,) = prim.stages
    *others, last = (a.name for a in stage.axes)
    extent = int(stage.axes[-1].extent)

    def build(times: int, wide: int) -> list[lw.schedule.Step]:
        steps = [split(last, (-(-extent // (times * wide)), times, wide)), unroll(f"{last}.1")]
        return [*steps, vectorize(f"{last}.2"), *(parallel(a) for a in others[:1])]

    yield lw.Sketch("flat", build, times=(1, 2, 4, 8), wide=(16, 32))


def test_features_of_a_users_rule_are_those_of_its_nests() -> None:
    lw.sketch_rule(a_users_rule)
    try:
        prim = make_prim("map", 512, 6, 1, dtype="float32")
        space = ScheduleSpace(prim, TARGET)
    finally:
        user.forget(a_users_rule)
    number = [v.name for v in space.variants].index("user.a_users_rule.flat")
    rows = np.unique(space.sample(4000, np.random.default_rng(1)), axis=0)
    rows = rows[rows[:, 0] == number]
    assert len(rows) == 8
    check(prim, space, rows)

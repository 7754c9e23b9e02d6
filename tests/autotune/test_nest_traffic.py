"""What the traffic features say is moved, and what an interpreted nest misses in small caches."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from operator import mul
from typing import Any

import numpy as np
import pytest
from loopwright.autotune.space import space as variants_of
from loopwright.autotune.space.estimate import Estimate
from loopwright.autotune.space.settings import FEATURES, SPACE
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.target import CACHE_LINE, Target
from loopwright.ir.dims import as_int
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.nest import Nest
from loopwright.ir.schedule.apply import apply_schedule
from prims import make_prim, random_inputs

SMALL = Target("x86-64-v3", "a small one", 1, 1024, 1 << 14, 1 << 22)
"""1 KB of first cache: of these kernels some tiles fit and others do not."""


class Lru:
    """Lines that a cache of so many bytes keeps, the one used last at the end."""

    def __init__(self, size: int) -> None:
        self.most, self.misses = size // CACHE_LINE, 0
        self.lines: OrderedDict[tuple[str, int], None] = OrderedDict()

    def touch(self, line: tuple[str, int]) -> None:
        if line in self.lines:
            self.lines.move_to_end(line)
            return
        self.misses += 1
        self.lines[line] = None
        if len(self.lines) > self.most:
            self.lines.popitem(last=False)


class Watched(np.ndarray[Any, Any]):
    """An array that tells a cache which of its lines are read or written."""

    cache: Lru
    label: str
    plain: np.ndarray[Any, Any]

    def __getitem__(self, at: Any) -> Any:
        self._tell(at)
        return self.plain[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self._tell(at)
        self.plain[at] = value

    def _tell(self, at: Any) -> None:
        place = sum(map(mul, at, self.strides))
        assert len(at) == len(self.strides) and place >= 0
        self.cache.touch((self.label, int(place) // CACHE_LINE))


def missed(nest: Nest, inputs: dict[str, np.ndarray], size: int) -> int:
    """Lines of its operands that a nest brings into an empty cache of so many bytes."""
    cache = Lru(size)
    arrays: dict[str, np.ndarray] = {}
    for operand in nest.operands:
        shape = [as_int(size) for size in operand.buffer.shape]
        name = operand.buffer.name
        array = inputs[name] if name in inputs else np.zeros(shape, operand.buffer.dtype.numpy)
        watched = array.view(Watched)
        watched.cache, watched.label, watched.plain = cache, name, array
        arrays[name] = watched
    interpret(nest, arrays)
    return cache.misses


def told(space: ScheduleSpace, rows: np.ndarray) -> np.ndarray:
    """float64[n]: bytes into the first cache, as the features say."""
    found = np.zeros(len(rows))
    for arrays in space.loops(rows):
        found[arrays.rows] = sum(moved.l1 for moved in Estimate(arrays, space.target).traffic)
    return found


@pytest.mark.parametrize(
    "kind, sizes, count",
    [
        ("matmul", (12, 32, 20), 12),
        ("map", (24, 40, 1), 60),
        ("convolution", (12, 16, 24), 12),  # windows that overlap
        ("window", (40, 40, 1), 25),
        ("rows", (12, 64, 1), 60),  # stages with loops of their own in one nest
        ("two", (12, 64, 1), 60),
        ("gram", (24, 32, 1), 12),
    ],
)
def test_what_is_said_to_be_moved_is_what_is_missed(
    kind: str, sizes: tuple[int, ...], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind in ("matmul", "gram"):  # also in lanes along the sums, which are slow
        monkeypatch.setattr(variants_of, "SPACE", replace(SPACE, hopeless=np.inf))
    prim = make_prim(kind, *sizes, dtype="float32")
    space = ScheduleSpace(prim, SMALL, 1)
    inputs = random_inputs(prim, np.random.default_rng(0))
    rows = space.sample(60, np.random.default_rng(3))
    rows = np.array([r for r in rows if not space.choices(r).get("pack")][:count])
    true = np.array(
        [
            CACHE_LINE * missed(apply_schedule(prim, space.schedule(row)), inputs, SMALL.l1)
            for row in rows
        ]
    )
    off = np.log2(told(space, rows) / true)
    # A cache that is a little too small keeps a part of its lines in the estimate, and none of them
    # here, where what was used last stays.
    assert off.min() > -1.2 and off.max() < 1.8, off
    assert abs(np.median(off)) < 0.7, off
    assert np.quantile(abs(off), 0.9) < 1.3, off


def test_what_all_fits_counts_little() -> None:
    prim = make_prim("map", 4, 8, 1, dtype="float32")
    space = ScheduleSpace(prim, SMALL, 1)
    bytes_in_lines = 2 * 4 * 8 * 4  # read and written, in whole lines
    assert told(space, space.default()[:1]) == pytest.approx(bytes_in_lines * FEATURES.warm)

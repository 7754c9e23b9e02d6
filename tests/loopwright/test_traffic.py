"""The model of memory traffic, against a cache that is fed what the interpreter touches."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from loopwright.codegen.reuse import bytes_between_uses
from loopwright.codegen.roofline import Traffic
from loopwright.codegen.target import CACHE_LINE as LINE
from loopwright.codegen.target import Target
from loopwright.inspect.kernel_calls import reuse_distances
from loopwright.inspect.traffic import traffic_of
from loopwright.ir.dims import as_int
from loopwright.ir.loop import interpret as interpreter
from loopwright.ir.loop.nest import Alloc, Nest, statements
from loopwright.ir.program.parser import parse_program
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    Step,
    cache_write,
    compute_at,
    fuse,
    mirror,
    parallel,
    reorder,
    split,
    unroll,
    vectorize,
)
from prims import make_prim, parse_prim, random_inputs


class Cache:
    """Fully associative, least recently used goes first; what is written is fetched if read."""

    def __init__(self, capacity: int) -> None:
        self.lines = capacity // LINE
        self.held: OrderedDict[tuple[str, int], bool] = OrderedDict()
        self.fetched = self.written = 0

    def touch(self, buffer: str, byte: int, writes: bool) -> None:
        key = (buffer, byte // LINE)
        dirty = self.held.pop(key, None)
        if dirty is None and not writes:
            self.fetched += LINE
        self.held[key] = bool(dirty) or writes
        if len(self.held) > self.lines:
            self.written += LINE * self.held.popitem(last=False)[1]

    @property
    def total(self) -> int:
        return self.fetched + self.written + LINE * sum(self.held.values())


class Watched:
    """An array that tells a cache of each access."""

    def __init__(self, name: str, array: np.ndarray[Any, Any], cache: Cache) -> None:
        self.name, self.array, self.cache = name, array, cache
        self.shape, self.ndim = array.shape, array.ndim

    def _tell(self, at: tuple[int, ...], writes: bool) -> None:
        byte = sum(i * s for i, s in zip(at, self.array.strides))
        self.cache.touch(self.name, byte, writes)

    def __getitem__(self, at: tuple[int, ...]) -> Any:
        self._tell(at, False)
        return self.array[at]

    def __setitem__(self, at: tuple[int, ...], value: Any) -> None:
        self._tell(at, True)
        self.array[at] = value


def simulated(
    nest: Nest,
    inputs: dict[str, np.ndarray[Any, Any]],
    capacity: int,
    patch: pytest.MonkeyPatch,
) -> int:
    """Bytes that move between a cache of that size and what lies behind it."""
    cache = Cache(capacity)
    arrays: dict[str, Any] = {}
    stacks = [s for s in statements(nest.body) if isinstance(s, Alloc) and s.scope == "stack"]
    own = [*nest.workspace, *(s.buffer for s in stacks)]
    names = {tuple(as_int(n) for n in b.shape): b.name for b in own}

    class Numpy:
        """The interpreter's NumPy: what it makes for the nest's own buffers is watched."""

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def full(self, shape: list[int], value: int, dtype: Any) -> Any:
            array = np.full(shape, value, dtype)
            name = names.get(tuple(shape))
            return array if name is None else Watched(name, array, cache)

    patch.setattr(interpreter, "np", Numpy())
    for operand in nest.operands:
        buffer = operand.buffer
        shape = [as_int(s) for s in buffer.shape]
        given = inputs.get(buffer.name)
        array = np.zeros(shape, buffer.dtype.numpy) if given is None else given
        arrays[buffer.name] = Watched(buffer.name, array, cache)
    interpreter.interpret(nest, arrays)
    return cache.total


TILED = [
    split("i", (3, 4)),
    split("j", (3, 8)),
    reorder("i.0", "j.0", "k", "i.1", "j.1"),
    cache_write("t", "registers", "j.0"),
    compute_at("out", "j.0"),
]
CASES: dict[str, tuple[str, tuple[int, int, int], Sequence[Step]]] = {
    "matmul": ("matmul", (12, 24, 20), ()),
    "matmul in tiles": ("matmul", (12, 24, 20), TILED),
    "map that transposes": ("map", (24, 40, 1), ()),
    "map in tiles": (
        "map",
        (24, 40, 1),
        [split("i", (5, 8)), split("j", (3, 8)), reorder("i.0", "j.0", "i.1", "j.1")],
    ),
    "map, fused": (
        "map",
        (24, 40, 1),
        [
            split("i", (5, 8)),
            split("j", (3, 8)),
            reorder("i.0", "j.0", "i.1", "j.1"),
            fuse("i.0", "j.0"),
        ],
    ),
    "map with a rest": ("map", (23, 37, 1), [split("i", (5, 8)), split("j", (3, 8))]),
    "rows": ("rows", (10, 64, 1), ()),
    "chain": ("chain", (6, 8, 16), ()),
    "sums of columns": ("outer_sum", (40, 24, 1), ()),
    "sums of columns, columns outside": ("outer_sum", (40, 24, 1), [reorder("j", "k")]),
    "window": ("window", (24, 32, 1), ()),
}
SIZES = (512, 2048, 8192, 1 << 20)


def _ratio(case: str, capacity: int, patch: pytest.MonkeyPatch) -> float:
    kind, sizes, steps = CASES[case]
    prim = make_prim(kind, *sizes)
    nest = apply_schedule(prim, Schedule(tuple(steps)))
    # As the cache it is compared with begins and ends: with nothing of the nest's own in it.
    cold = dict.fromkeys(nest.buffers, math.inf)
    modelled = traffic_of(nest, Target(l1=capacity), distances=cold)["l2"].total
    return modelled / simulated(
        nest, random_inputs(prim, np.random.default_rng(0)), capacity, patch
    )


@pytest.mark.parametrize("case", CASES)
def test_the_model_against_a_cache(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a tenth, but for one size that lies where something just fits or just does not."""
    ratios = sorted((_ratio(case, size, monkeypatch) for size in SIZES), key=lambda r: abs(r - 1))
    assert 0.7 < ratios[-1] < 1.45
    assert ratios[:-1] == pytest.approx([1.0] * (len(SIZES) - 1), rel=0.1)


def _traffic(kind: str, sizes: tuple[int, int, int], *steps: Step, **options: Any) -> Any:
    nest = apply_schedule(make_prim(kind, *sizes), Schedule(steps))
    return traffic_of(nest, Target(l1=512, l2=2048, l3=8192), **options)


def test_elements_are_loaded_once_per_unrolled_part() -> None:
    moved = _traffic("matmul", (12, 24, 20), *TILED, unroll("i.1"), vectorize("j.1"))["l1"]
    tiles, row, column = 9, 4, 8
    assert moved.read == tiles * 8 * (20 * (row + column) + column)
    assert moved.written == 12 * 24 * 8


def test_what_stays_near_does_not_move() -> None:
    x, out = 40 * 24 * 8, 24 * 40 * 8
    far = _traffic("map", (24, 40, 1))
    assert (far["dram"].read, far["dram"].written) == (x, out)
    near = _traffic("map", (24, 40, 1), distances={"x": 2000, "out": 9000})
    assert (near["dram"].read, near["dram"].written) == (0, out)
    assert near["l3"] == Traffic(far["l3"].read - x, far["l3"].written)
    assert near["l2"] == far["l2"]


def test_a_workspace_that_fits_stays_where_it_is() -> None:
    nest = apply_schedule(make_prim("rows", 10, 64, 1), Schedule())
    assert nest.workspace
    x = out = 10 * 64 * 8
    moved = traffic_of(nest, Target(l1=2048, l2=1 << 20, l3=1 << 20))
    assert (moved["l3"].read, moved["l3"].written) == (x, out)
    assert moved["l2"].read > x and moved["l2"].written > out


def test_distances_of_a_program() -> None:
    """%t is used again by the very next call; %x not before the whole program has run again."""
    program = parse_program("""
program @main(@in %x: float32[4], @out %y: float32[4]) {
  %t = alloc float32[4]
  %u = alloc float32[8]
  call @f(@in %x, @out %t)
  call @g(@in %t, @out %u)
  call @h(@in %u, @out %y)
  free %t
  free %u
}
""")
    assert reuse_distances(program) == [[16 * 5, 16 * 4], [16 * 4, 16 * 4], [16 * 4, 16 * 5]]


def test_each_thread_reads_what_all_of_them_need() -> None:
    def moved(threads: int) -> dict[str, Any]:
        return _traffic("matmul", (12, 24, 20), parallel("i"), threads=threads)

    weights = 20 * 24 * 8
    assert moved(2)["dram"] == moved(1)["dram"]
    shared = apply_schedule(
        make_prim("matmul", 12, 24, 20),
        Schedule((cache_write("t", "registers", "i"), compute_at("out", "i"), parallel("i"))),
    )
    one, two = (traffic_of(shared, Target(l1=6000), n)["l2"].read for n in (1, 2))
    assert one + weights <= two <= one + 1.2 * weights


def test_blocks_that_are_left_out_move_nothing() -> None:
    prim = parse_prim("""
        prim @gram(x: float32[400, 64]) -> out: float32[64, 64] {
          out[i, j] = sum(k: 400) x[k, i] * x[k, j]
        }""")
    steps = [split("i", (8, 8)), split("j", (8, 8)), reorder("i.0", "j.0", "k", "i.1", "j.1")]
    steps += [cache_write("out", "registers", "j.0"), unroll("i.1"), vectorize("j.1")]

    def near(*steps: Step) -> Traffic:
        return traffic_of(apply_schedule(prim, Schedule(steps)), Target())["l1"]

    whole = near(*steps)
    fused = [fuse("i.0", "j.0"), mirror("out", "i.0*j.0")]
    for half in (near(*steps, mirror("out", "j.0")), near(*steps, *fused)):
        image = 28 * 8 * 8 * 4
        assert half.read == pytest.approx(whole.read * 36 / 64 + 2 * image, rel=0.01)
        assert half.written == pytest.approx(whole.written + image)


def test_masked_lanes_move_at_most_a_vector() -> None:
    """The extent of such a loop depends on the loop around it, also where all sizes are known."""
    prim = parse_prim("prim @f(x: float32[n]) -> out: float32[n] for n in 0..999 { out[i] = x[i] }")
    nest = apply_schedule(prim, Schedule((split("i", (8, 64)), vectorize("i.1")))).at({"n": 100})
    assert 400 <= traffic_of(nest, Target())["l1"].read <= 448


def test_bytes_between_uses_go_by_memory() -> None:
    """%u lies where %t was when @g read it; weights come around once in a call of the program."""
    program = parse_program("""
program @main(@in %x: float32[4], @in %w: float32[64], @out %y: float32[4]) {
  %t = alloc float32[4] at 64
  call @f(@in %x, @in %w, @out %t)
  %s = alloc float32[8] at 0
  call @g(@in %t, @out %s)
  free %t
  %u = alloc float32[8] at 64
  call @h(@in %s, @out %u)
  free %s
  call @k(@in %u, @out %y)
  free %u
}
""")
    total = 16 + 256 + 16 + 32 + 32  # %x, %w, %y, and the arena; %t is a part of %u
    f, g, h, k = bytes_between_uses(program)
    assert f == [total - 16, total - 256, 0]  # @k read %u where %t is
    assert g == [0, total - 32]
    # One half of %u was last touched by @g, as %t; the other by @k, the whole arena but it ago.
    assert h == [0, (0 + total - 16 - 16) // 2]
    assert k == [0, total - 16]

"""Loops as arrays are those of the applied nest, for every row, rule and user's rule."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import pytest
from loopwright.autotune.space.loop_arrays import LoopArrays
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.ir.dims import as_int
from loopwright.ir.loop.nest import Accumulate, If, Loop, Stmt, Store
from loopwright.ir.loop.prim import PrimFunc, Stage
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.columns import Column, built, when
from loopwright.ir.schedule.rows import KINDS
from loopwright.ir.schedule.steps import Schedule, Step
from loopwright.schedule import split, unroll, vectorize
from prims import make_prim
from rule_workloads import TARGET, WORKLOADS, prim_of

Path = tuple[Loop, ...]


def stores(body: tuple[Stmt, ...], path: Path = ()) -> Iterator[tuple[Path, Store | Accumulate]]:
    for stmt in body:
        if isinstance(stmt, Loop):
            yield from stores(stmt.body, (*path, stmt))
        elif isinstance(stmt, If):
            yield from stores(stmt.then, path)
            yield from stores(stmt.orelse, path)
        elif isinstance(stmt, Store | Accumulate):
            yield path, stmt


def path_of(body: tuple[Stmt, ...], stage: Stage) -> Path:
    """The loops around the statement that computes a stage, where its tiles are whole."""
    names = [stage.name, f"{stage.name}.raw"]
    if stage.combiner is not None:
        names = [f"{name}.{kept}" for name in names for kept in ("rf", "acc")]
    paths = [
        path
        for path, stmt in stores(body)
        if stmt.buffer in names
        and (stage.combiner is None or isinstance(stmt, Accumulate))
        and not str(stmt.value).startswith(tuple(f"{name}[" for name in names))
    ]
    return max(paths, key=lambda path: prod(int(loop.extent) for loop in path))


def shown(path: Path) -> list[tuple[tuple[str, ...], int, int]]:
    """Axes, iterations and kind of each loop of a nest; fused loops have several axes."""
    return [
        (
            tuple(part.rpartition(".")[0] or part for part in loop.var.split("*")),
            int(loop.extent),
            KINDS[loop.kind],
        )
        for loop in path
    ]


def is_exact(prim: PrimFunc, schedule: Schedule) -> bool:
    """Whether every split divides its axis, and no loop is cut or peeled: no tile is smaller."""
    extents = {a.name: as_int(a.extent) for s in prim.stages for a in (*s.axes, *s.reduce_axes)}
    for step in schedule.steps:
        if step.name in ("cut", "peel"):
            return False
        if step.name == "split" and extents.get(step.args[0], prod(step.args[1])) != prod(
            step.args[1]
        ):
            return False
    return True


def check(arrays: LoopArrays, row: int, prim: PrimFunc, schedule: Schedule) -> bool:
    """Compares one row with its nest; returns whether loop by loop, else by axes and kinds."""
    nest = apply_schedule(prim, schedule)
    exact = is_exact(arrays.prim, schedule)
    for stage in arrays.prim.stages:
        told = arrays.loops(stage, row)
        seen = shown(path_of(nest.body, stage))
        flat = [(axis, kind) for axes, _, kind in seen for axis in axes]
        # Where a tile is not whole, no instruction runs the loop of a lane.
        named = [(axis, KINDS["unroll"] if kind == 4 else kind) for axis, _, kind in told]
        if not exact:  # a whole tile may be the only one, and its loop is then not written
            rest = iter(named)
            assert all(any(x == y for y in rest) for x in flat if x in named), str(schedule)
            continue
        for axes, extent, kind in seen:
            mine, told = told, []
            for axis, size, what in mine:
                if axis in axes and what in (kind, 4) and extent % size == 0 and extent > 1:
                    extent //= size
                    axes = tuple(a for a in axes if a != axis)
                else:
                    told.append((axis, size, what))
            assert extent == 1, (stage.name, axes, str(schedule))
        assert not told or all(what == 4 for *_, what in told), (stage.name, told, str(schedule))
    return exact


@pytest.mark.parametrize("kind, sizes", WORKLOADS)
def test_loops_are_those_of_the_nest(kind: str, sizes: tuple[int, int, int]) -> None:
    prim = prim_of(kind, *sizes)
    space = ScheduleSpace(prim, TARGET)
    rows = np.concatenate([space.default(), space.sample(30, np.random.default_rng(1))])
    seen = 0
    for arrays in space.loops(rows):
        for place, row in enumerate(arrays.rows):
            check(arrays, place, prim, space.schedule(rows[row]))
            seen += 1
    assert seen == len(rows)


def test_whole_tiles_are_compared_loop_by_loop() -> None:
    prim = make_prim("matmul", 64, 128, 96, dtype="float32")
    space = ScheduleSpace(prim, TARGET)
    rows = space.sample(240, np.random.default_rng(1))
    exact = [
        check(arrays, place, prim, space.schedule(rows[row]))
        for arrays in space.loops(rows)
        for place, row in enumerate(arrays.rows)
    ]
    assert sum(exact) > 10


def test_schedules_part_only_where_python_needs_one_answer() -> None:
    def build(rows: int, wide: int, many: int) -> list[Step]:
        steps = [split("i", (64 // rows, rows)), *when(many, unroll("i.1"))]
        return [*steps, vectorize("i.1")] if wide > 1 else steps

    values = {
        "rows": np.array([2, 4, 8, 16]),
        "wide": np.array([1, 2, 1, 4]),
        "many": np.array([0, 0, 1, 0]),
    }
    classes = sorted((members.tolist(), steps) for members, steps in built(build, values, 4))
    assert [members for members, _ in classes] == [[0, 2], [1, 3]]
    (outer, inner), (guarded,) = classes[0][1][0].args[1], classes[0][1][1:]
    assert outer.values.tolist() == [32, 8] and inner.values.tolist() == [2, 8]
    assert guarded.step == unroll("i.1") and guarded.where.tolist() == [False, True]
    assert [step.name for step in classes[1][1]] == ["split", "vectorize"]
    with pytest.raises(TypeError):
        _ = Column(np.array([1, 2])) + "a"


def test_what_columns_cannot_do_is_done_row_by_row() -> None:
    def build(rows: int) -> list[Step]:
        assert isinstance(rows, int)
        return [split("i", (64 // rows, rows))]

    classes = list(built(build, {"rows": np.array([2, 4])}, 2))
    assert [(m.tolist(), s) for m, s in classes] == [
        ([0], [split("i", (32, 2))]),
        ([1], [split("i", (16, 4))]),
    ]

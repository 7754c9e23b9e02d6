"""Features read off a loop nest: what the arrays of ``features.py`` must agree with.

Only those that a nest shows: the register tile, what is written out, trip counts, packing. They
describe the innermost statement of the stage with the most work, where its tile is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from loopwright.ir.loop.nest import Accumulate, If, Loop, Nest, Stmt, Store
from loopwright.ir.loop.prim import Stage

__all__ = ["nest_features"]

Path = tuple[Loop, ...]


def nest_features(nest: Nest, stage: Stage, lanes: int) -> dict[str, int]:
    """Numbers by feature name, not as logarithms; ``stage`` is the main one.

    ``lanes`` are the elements of a vector. ``inner_trips`` counts the turns of the innermost
    reduced loop that is not unrolled, ``code`` the vector operations written in it.
    """
    names = [
        f"{name}.{kept}" for name in (stage.name, f"{stage.name}.raw") for kept in ("rf", "acc")
    ]
    found = [
        (path, stmt)
        for path, stmt in _stores(nest.body, ())
        if stmt.buffer in names and isinstance(stmt, Accumulate) and not _joins(stmt, names)
    ]
    if not found:
        found = [(p, s) for p, s in _stores(nest.body, ()) if s.buffer == stage.name]
    path, stmt = max(found, key=lambda item: _written(_without_lane_loops(item[0]), lanes))
    path = _without_lane_loops(path)
    along = {_axis(loop.var) for loop in path if loop.kind == "vectorize"}
    wide = tuple(loop for loop in path if _axis(loop.var) in along)
    tiled = [loop for loop in path if loop.kind == "unroll" and _moves(stmt, loop)]
    vectors = _written(wide, lanes)
    reduced = {a.name for a in stage.reduce_axes}
    serial = [p.extent for p in path if p.kind == "for" and _axis(p.var) in reduced]
    parallel = [loop.extent for loop in path if loop.kind == "parallel"]
    return {
        "vectors": vectors,
        "tile": vectors * prod(loop.extent for loop in tiled if loop not in wide),
        "code": _written(path, lanes),
        "inner_trips": serial[-1] if serial else 1,
        "parallel": prod(parallel),
        "packed": int(any(".packed" in b for b in nest.buffers)),
    }


def _without_lane_loops(path: Path) -> Path:
    """The loops without those inside of the vector loop: what one instruction adds up in a lane."""
    vectors = [n for n, loop in enumerate(path) if loop.kind == "vectorize"]
    return path[: vectors[-1] + 1] if vectors else path


def _axis(loop: str) -> str:
    """The axis of a loop that is no fused one: ``k`` of ``k.1``."""
    head, _, number = loop.rpartition(".")
    return head if number.isdigit() else loop


def _written(path: Path, lanes: int) -> int:
    """Vector operations that the unrolled and vector loops of a path write out."""
    size = 1
    for loop in path:
        if loop.kind == "unroll":
            size *= loop.extent
        elif loop.kind == "vectorize":
            size *= -(-loop.extent // lanes)
    return size


def _moves(stmt: Store | Accumulate, loop: Loop) -> bool:
    return any(loop.var in str(i).replace("(", " ").split() for i in stmt.indices)


def _joins(stmt: Accumulate, buffers: list[str]) -> bool:
    """Whether the statement only joins accumulators that were kept one per lane."""
    return str(stmt.value).startswith(tuple(f"{name}[" for name in buffers))


def _stores(body: tuple[Stmt, ...], path: Path) -> Iterator[tuple[Path, Store | Accumulate]]:
    for stmt in body:
        if isinstance(stmt, Loop):
            yield from _stores(stmt.body, (*path, stmt))
        elif isinstance(stmt, If):
            yield from _stores(stmt.then, path)
            yield from _stores(stmt.orelse, path)
        elif isinstance(stmt, Store | Accumulate):
            yield path, stmt

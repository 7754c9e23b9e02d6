"""Default choices of the ``tile`` rule for reductions."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from ....ir.dims import as_int
from ..analysis import stage_points
from ..estimate import fastest, offers
from ..settings import PRODUCTS
from ..settings import TILE as LIMITS
from ..tiling import PACKS_VECTORS, Choices, Pack, Tiling
from .base import least_repeats, non_temporal_choice, parallel_depth

__all__ = ["panel_loops", "tile_defaults"]


def tile_defaults(tiling: Tiling) -> list[Choices]:
    """Returns choices for a group that reduces, best first by the estimate."""
    tables = tiling.knobs
    if tiling.row_axis is not None and _reads_all_once(tiling):
        return [_down_columns(tiling, vectors) for vectors in PRODUCTS.columns]
    # Register tiles with all rows passing over panels, the fastest first.
    packed = [Pack.VECTORS] if Pack.VECTORS in tables["pack"] else [Pack.NONE]
    shared = tiling.target.cores > 1 and least_repeats(tiling) <= 1
    tiles = offers(
        tiling,
        **{name: tables[name] for name in ("vectors", "rows", "second_rows")},
        pack=packed,
        vectors_outer=tables["vectors_outer"][-1:],
        parallel=tables["parallel"][-1:] if shared else [0],
    )
    candidates: list[Choices] = []
    for tile in fastest(tiling, tiles, PRODUCTS.most):
        v, r, q = tile["vectors"], tile["rows"], tile["second_rows"]
        c = {**tiling.base_choices(), "vectors": v, "rows": r, "second_rows": q}
        small_rows = tiling.extent(tiling.row_axis) * tiling.extent(tiling.second_row_axis) <= r * q
        # Packing: of constants always, of others if they are strided or reused often.
        if _is_skinny(tiling):
            _read_in_order(tiling, c)
        elif tiling.packable:
            always = _prepared(tiling.packable) or _strided(tiling)
            if always or _rows_that_share(tiling) >= PRODUCTS.reused:
                c["pack"] = Pack.BOTH if _prepared(tiling.packable_rows) else Pack.VECTORS
        if not c["pack"] and not _is_skinny(tiling) and _prepared(tiling.packable_rows):
            c["pack"] = Pack.ROWS
        # Cache tiles and the order of the loops around them; skinny products need none.
        if not _is_skinny(tiling):
            c["vectors_outer"] = tables["vectors_outer"][-1] if not small_rows else 0
            _block(tiling, c)
        # A small tile is unrolled along k, as the loop itself costs as much as its step, unless it
        # waits for memory.
        iterations = ceil(tiling.extent(tiling.k_axis) / c["k_blocks"])
        small = v * r * q <= PRODUCTS.small_tile and c["prefetch"] <= PRODUCTS.ahead
        if small and len(tiling.group.main.reduce_axes) == 1:
            c["k_unroll"] = max(
                u for u in tables["k_unroll"] if u <= PRODUCTS.unroll and iterations % u == 0
            )
        c["parallel"] = parallel_depth(tiling, c)
        c["non_temporal"] = non_temporal_choice(tiling)
        # Panels packed at run time are made by the core that uses them, if they stay in its cache.
        in_panels = c["pack"] in PACKS_VECTORS and not _is_skinny(tiling)
        if in_panels and not _prepared(tiling.packable):
            _pack_inside(tiling, c)
        if _panels_come(tiling, c):
            _bring_next(tiling, c)
        if _panel_stays(tiling, c):
            c["cache_vectors"] = 1
            c["parallel"] = parallel_depth(tiling, c)
        _pass_by_matrix(tiling, c)
        _divide_rows(tiling, c)
        candidates.append(c)
    return candidates


def _panel_stays(tiling: Tiling, c: Choices) -> bool:
    """True if all rows are better walked for one panel after the other: it stays in L1 while what
    the rows walk comes from L2. A tile is wider than it is tall, so that this
    moves less than all panels for every few rows (1.04 to 1.17 times as fast for products of 24 to
    96 steps)."""
    packed = c["pack"] in PACKS_VECTORS and c["pack"] != Pack.INSIDE
    if not packed or c["vectors_outer"] == 0 or c["k_blocks"] > 1:
        return False
    main, v = tiling.group.main, tiling.vector_axis or ""
    panel = c["vectors"] * tiling.lanes * _depth(tiling) * tiling.group.element_bytes
    walked = [a for a in tiling.group.accesses[main.name] if not a.depends(v)]
    size = sum(a.size * a.element_bytes for a in walked)
    return panel <= tiling.target.l1 // 2 and size <= tiling.target.l2 // 2


def _panels_come(tiling: Tiling, c: Choices) -> bool:
    """True if all rows pass over panels of a constant that come from behind L2 in every call."""
    passed = c["pack"] in (Pack.VECTORS, Pack.BOTH) and c["vectors_outer"] == 1
    return passed and 1 in tiling.knobs["next_panels"] and _comes(tiling)


def _comes(tiling: Tiling) -> bool:
    """True if constants come from the LLC or memory in every call: L2 holds what other kernels read
    in between."""
    fixed = {name for name, constant in tiling.packable if constant}
    reads = [a for a in tiling.group.accesses[tiling.group.main.name] if a.buffer in fixed]
    size = sum(a.size * a.element_bytes for a in reads)
    return size >= PRODUCTS.coming_share * tiling.target.l2


def _bring_next(tiling: Tiling, c: dict[str, int]) -> None:
    """Prefetch the next panels while all rows pass over these: both have to stay in L2. Uneven
    blocks of one of several reduced axes do not read panels in order."""
    uneven = tiling.extent(tiling.k_axis) % c["k_blocks"] != 0
    if uneven and len(tiling.group.main.reduce_axes) > 1:
        return
    width = c["vectors"] * tiling.lanes
    depth = ceil(_depth(tiling) / c["k_blocks"])
    room = int(tiling.target.l2 * PRODUCTS.cache_share)
    wide = max(1, room // (2 * width * depth * tiling.group.element_bytes))
    c["next_panels"] = 1
    c["cache_vectors"] = min(
        c["cache_vectors"], max(m for m in tiling.knobs["cache_vectors"] if m <= wide)
    )
    if tiling.outer_axes or c["k_blocks"] > 1:  # others lie between the panels of a cache tile
        c["cache_vectors"] = 1
    c["parallel"] = parallel_depth(tiling, c)


def _pass_by_matrix(tiling: Tiling, c: dict[str, int]) -> None:
    """Let all rows of one product of a batch (each second row has constant panels of its own) pass
    over panel after panel: each comes from memory once, in order, while the rows pass over the one
    before it."""
    reads, axis = tiling.group.accesses[tiling.group.main.name], tiling.second_row_axis
    names = {name for name, _ in tiling.packable}
    if not _in_prepared_panels(tiling, c) or axis is None or c["second_rows"] > 1:
        return
    if all(a.depends(axis) for a in reads if a.buffer in names):
        _panel_by_panel(tiling, c, tiling.knobs["cache_rows"])


def _divide_rows(tiling: Tiling, c: dict[str, int]) -> None:
    """Divide the rows among the cores, not the vectors, unless the panels, which each core then
    reads whole, are much larger than all else.

    Neighbours in a program divide rows as well, so that each core reads what it wrote itself: what
    another core wrote comes more slowly than from the LLC (docs/measurements.md).
    """
    cores, rows, group = tiling.target.cores, tiling.extent(tiling.row_axis), tiling.group
    divided = _in_prepared_panels(tiling, c) and cores > 1 and c["parallel"] > 0
    if not divided or tiling.second_row_axis is not None or tiling.outer_axes:
        return
    packed, params = {name for name, _ in tiling.packable}, {p.name for p in group.prim.params}
    sizes = {
        a.buffer: a.size * a.element_bytes
        for stage in group.stages
        for a in group.accesses[stage.name]
        if a.buffer in params
    }
    panels = sum(size for name, size in sizes.items() if name in packed)
    others = group.output_bytes + sum(size for name, size in sizes.items() if name not in packed)
    room = int(tiling.target.l2 * PRODUCTS.cache_share)
    tall = ceil(rows / c["rows"])
    most = PRODUCTS.uneven_panels * tall / cores
    longest = {
        m: ceil(ceil(tall / m) / cores) * m  # tiles of the core that has most
        for m in tiling.knobs["cache_rows"]
        if m * c["rows"] >= PRODUCTS.few_rows and (panels <= room or m * cores >= tall)
    }
    fair = PRODUCTS.uneven_rows * min(longest.values(), default=0)
    able = [m for m, tiles in longest.items() if tiles <= min(most, fair)]
    if panels <= PRODUCTS.panels_share * others:
        _panel_by_panel(tiling, c, able)


def _in_prepared_panels(tiling: Tiling, c: Choices) -> bool:
    """True if a reduction in one piece reads constant panels, one after the other for all rows."""
    in_panels = c["pack"] == Pack.VECTORS and _prepared(tiling.packable)
    return in_panels and c["vectors_outer"] == 1 and c["k_blocks"] == 1


def _panel_by_panel(tiling: Tiling, c: dict[str, int], cache_rows: Sequence[int]) -> None:
    """Let the most of ``cache_rows`` that stay in L2 pass over one panel after the other."""
    tile = c["rows"] * _depth(tiling) * tiling.group.element_bytes
    tall = ceil(tiling.extent(tiling.row_axis) / c["rows"])
    room = int(tiling.target.l2 * PRODUCTS.cache_share)
    able = [m for m in cache_rows if m * tile <= room and (m == 1 or m <= tall)]
    if able:
        c |= {"vectors_outer": 0, "cache_vectors": 1, "cache_rows": max(able)}
        c["parallel"] = parallel_depth(tiling, c)


def panel_loops(tiling: Tiling) -> int:
    """Returns how many outer loops, vectors before rows, decide what a cache tile reads of operands
    that are packed in it."""
    reads = tiling.group.accesses[tiling.group.main.name]
    names = {name for name, fixed in tiling.packable if not fixed}
    axis = tiling.second_row_axis
    moved = axis and any(a.depends(axis) for a in reads if a.buffer in names)
    return len(tiling.outer_axes) + (2 if moved else 1)


def _pack_inside(tiling: Tiling, c: dict[str, int]) -> bool:
    """Have panels made in each cache tile, if every core has as many tiles along the vectors as
    another; whether it is so."""
    tables, cores = tiling.knobs, tiling.target.cores
    apart = c["k_blocks"] == 1 and c["vectors_outer"] == 1 and c["parallel"]
    if tables["pack"][-1] != Pack.INSIDE or not apart:
        return False
    width = c["vectors"] * tiling.lanes
    panels = ceil(tiling.extent(tiling.vector_axis) / width)
    panel = width * _depth(tiling) * tiling.group.element_bytes * c["second_rows"]
    others = prod(tiling.extent(a) for a in tiling.outer_axes)
    if panel_loops(tiling) > len(tiling.outer_axes) + 1:
        others *= ceil(tiling.extent(tiling.second_row_axis) / c["second_rows"])
    fair = PRODUCTS.uneven_panels * others * tiling.extent(tiling.vector_axis) / width / cores
    wide = [
        m
        for m in tables["cache_vectors"]
        if m <= c["cache_vectors"] and m * panel <= LIMITS.max_panels
    ]
    even = [m for m in wide if ceil(others * ceil(panels / m) / cores) * m <= fair]
    if (cores == 1 and wide) or max(even, default=1) > 1:
        c["pack"], c["parallel"] = Pack.INSIDE, panel_loops(tiling)
        c["cache_vectors"] = max(wide if cores == 1 else even)
    return c["pack"] == Pack.INSIDE


def _reads_all_once(tiling: Tiling) -> bool:
    """True if an operand is as large as the work, and lies along the vectors: no tile uses what
    another has read, and only the order in which memory is read matters."""
    main = tiling.group.main
    reads = tiling.group.accesses[main.name]
    axis = tiling.vector_axis or ""
    return any(a.size >= stage_points(main) and a.stride(axis) == 1 for a in reads)


def _down_columns(tiling: Tiling, vectors: int) -> Choices:
    """One row after the other, and in each a few lines of neighbouring columns, in memory's order:
    several rows at once would be as many streams, often at the same place of their pages."""
    c = tiling.base_choices()
    c["vectors"] = max(v for v in tiling.knobs["vectors"] if v <= vectors)
    c["parallel"] = parallel_depth(tiling, c)
    c["non_temporal"] = non_temporal_choice(tiling)
    return c


def _block(tiling: Tiling, c: dict[str, int]) -> None:
    """Panels of a cache tile stay in a part of L2 while all rows pass over them; those too large
    for L1 are prefetched."""
    tables, room = tiling.knobs, int(tiling.target.l2 * PRODUCTS.cache_share)
    width = c["vectors"] * tiling.lanes
    panel = width * _depth(tiling) * tiling.group.element_bytes
    if panel > tiling.target.l1 // 2 and c["pack"] in PACKS_VECTORS:
        # What few rows use comes from behind L2 all the time: memory takes long to deliver it.
        rows = tiling.extent(tiling.row_axis) * tiling.extent(tiling.second_row_axis)
        far = rows <= PRODUCTS.few_rows and _comes(tiling)
        c["prefetch"] = max(p for p in tables["prefetch"] if far or p <= PRODUCTS.ahead)
    if c["vectors_outer"] == 0:  # panels that are read once need not stay
        return
    enough = [b for b in tables["k_blocks"] if panel <= room * b] or [tables["k_blocks"][-1]]
    even = [b for b in enough[:2] if tiling.extent(tiling.k_axis) % b == 0]
    c["k_blocks"] = (even or enough)[0]
    panels = -(-tiling.extent(tiling.vector_axis) // width)
    wide = max(1, min(panels, room * c["k_blocks"] // max(1, panel)))
    tall = -(-tiling.extent(tiling.row_axis) // c["rows"])
    if c["k_blocks"] == 1:
        tall = 1
    elif len(tiling.group.stages) > 1:  # a tile is kept until all pieces have been added to it
        wide = 1
        tall = min(
            tall,
            PRODUCTS.max_kept_rows,
            PRODUCTS.max_kept // (width * c["rows"] * tiling.group.element_bytes),
        )
    c["cache_vectors"] = max(m for m in tables["cache_vectors"] if m <= wide)
    c["cache_rows"] = max(m for m in tables["cache_rows"] if m <= max(1, tall))


def _is_skinny(tiling: Tiling) -> bool:
    """True if an operand too large for all L2 caches is used by few rows, with every step of
    the reduced axis on another page: reading it is the work, in the order of its pages."""
    rows = tiling.extent(tiling.row_axis) * tiling.extent(tiling.second_row_axis)
    constants = {p.name for p in tiling.group.prim.params if p.constant}
    if tiling.k_axis is None or tiling.outer_axes or _prepared(tiling.packable):
        return False  # panels lie in the order in which they are read
    return tiling.knobs["k_blocks"][-1] > 1 and any(
        a.stride(tiling.vector_axis or "") == 1
        and (a.stride(tiling.k_axis) or 0) * a.element_bytes >= tiling.core.page // 4
        and a.size * a.element_bytes > tiling.target.l2 * tiling.target.cores
        and rows <= (PRODUCTS.few_rows if a.buffer in constants else PRODUCTS.few_rows_unpacked)
        for a in tiling.group.accesses[tiling.group.main.name]
    )


def _rows_that_share(tiling: Tiling) -> int:
    """Returns how many rows read the same elements of operands that could be packed."""
    names = {name for name, _ in tiling.packable}
    reads = tiling.group.accesses[tiling.group.main.name]
    moved = [a for a in reads if a.buffer in names]
    axes = [a for a in (tiling.row_axis, tiling.second_row_axis) if a is not None]
    return prod(tiling.extent(axis) for axis in axes if not any(a.depends(axis) for a in moved))


def _prepared(packable: Sequence[tuple[str, bool]]) -> bool:
    """True if panels cost nothing, because they are packed when the kernel is compiled."""
    return bool(packable) and all(fixed for _, fixed in packable)


def _read_in_order(tiling: Tiling, c: dict[str, int]) -> None:
    """A few steps of the reduced axis at a time over as many outputs as there are for each core, so
    that memory is read in its order; what the next tile reads is prefetched."""
    tables = tiling.knobs
    rows = tiling.extent(tiling.row_axis)
    single = rows * tiling.extent(tiling.second_row_axis) == 1
    if single:
        c["vectors"] = max(v for v in tables["vectors"] if v <= PRODUCTS.skinny_vectors)
    width = c["vectors"] * tiling.lanes
    tiles = -(-tiling.extent(tiling.vector_axis) // width)
    cores = tiling.target.cores

    def even(mid: int) -> bool:
        """True if the core with most tiles has few more than its share."""
        blocks = ceil(tiles / mid)
        return ceil(blocks / cores) * mid <= PRODUCTS.uneven_tiles * ceil(tiles / cores)

    c["cache_vectors"] = max(
        (m for m in tables["cache_vectors"] if m <= tiles and even(m)), default=1
    )
    c["cache_rows"] = max(m for m in tables["cache_rows"] if m <= ceil(rows / c["rows"]))
    c["vectors_outer"], c["cache_vectors_outer"] = (
        tables["vectors_outer"][-1],
        tables["cache_vectors_outer"][-1],
    )
    depth = tiling.extent(tiling.k_axis)
    short = (
        PRODUCTS.block // 2
        if single
        else PRODUCTS.block
        if rows <= PRODUCTS.few_rows // 2
        else 2 * PRODUCTS.block
    )
    if rows > PRODUCTS.few_rows:  # they keep a core busy for as long as it takes to fetch more
        short *= 2
    c["k_blocks"] = max(b for b in tables["k_blocks"] if b == 1 or depth // b >= short)
    c["prefetch"] = 1 if 1 in tables["prefetch"] and not single else 0


def _depth(tiling: Tiling) -> int:
    return prod(as_int(a.extent) for a in tiling.group.main.reduce_axes)


def _strided(tiling: Tiling) -> bool:
    """True if vector loads of an operand that can be packed would have to be gathered."""
    names = {name for name, _ in tiling.packable}
    reads = tiling.group.accesses[tiling.group.main.name]
    return any(
        a.buffer in names and a.stride(tiling.vector_axis or "") not in (0, 1) for a in reads
    )

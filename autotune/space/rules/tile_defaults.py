"""Default choices of the ``tile`` rule: for reductions, and for maps, which move elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from math import ceil, gcd, lcm, prod

import numpy as np

from ....codegen.target import CACHE_LINE
from ....ir.dims import as_int, symbols
from ....ir.loop.cases import divisors
from ....ir.loop.expr import Index, Op, Read, walk
from ....ir.loop.work import stage_points
from ..analysis import Access
from ..estimate import cycles_of, fastest, offers, rows_of
from ..settings import MAPS, PRODUCTS, SKETCHES, SPACE
from ..tiling import PACKS_VECTORS, Choices, Pack, Tiling
from .base import least_repeats, non_temporal_choice, parallel_depth, shared_and_stored

REGISTER_TILE = "vectors", "rows", "second_rows"


def tile_defaults(tiling: Tiling) -> list[Choices]:
    """Returns choices for a group that reduces, best first by the estimate."""
    tables, skinny = tiling.knobs, _is_skinny(tiling)
    if tiling.row_axis is not None and _reads_all_once(tiling):
        return [_down_columns(tiling, vectors) for vectors in PRODUCTS.columns]
    # Register tiles with all rows passing over panels, the fastest first.
    tiles = offers(
        tiling,
        **{name: tables[name] for name in REGISTER_TILE},
        pack=[Pack.VECTORS] if Pack.VECTORS in tables["pack"] else [Pack.NONE],
        vectors_outer=tables["vectors_outer"][-1:],
        parallel=tables["parallel"][-1:] if least_repeats(tiling) <= 1 else [0],
    )
    best = fastest(tiling, tiles, PRODUCTS.most, tiling.group.reductions)
    if skinny:
        best = [tiling.base_choices() | {name: c[name] for name in REGISTER_TILE} for c in best]
    else:
        best = _blocked(tiling, best)
    for c in best:
        if skinny:
            _read_in_order(tiling, c)
        elif c["pack"] in PACKS_VECTORS:
            c["prefetch"] = _steps_ahead(tiling, c)
        # A small tile is unrolled along k, as the loop itself costs as much as its step, unless it
        # waits for memory.
        iterations = ceil(tiling.extent(tiling.k_axis) / c["k_blocks"])
        small = prod(c[name] for name in REGISTER_TILE) <= PRODUCTS.small_tile
        if small and c["prefetch"] <= PRODUCTS.ahead and len(tiling.group.main.reduce_axes) == 1:
            even = [u for u in tables["k_unroll"] if iterations % u == 0]
            c["k_unroll"] = max(u for u in even if u <= PRODUCTS.unroll)
        if c["pack"] != Pack.INSIDE:
            c["parallel"] = parallel_depth(tiling, c)
        c["non_temporal"] = non_temporal_choice(tiling)
        _pass_by_matrix(tiling, c)
        _divide_rows(tiling, c)
    return list[Choices](best)


def _blocked(tiling: Tiling, tiles: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    """Returns each of these register tiles with the packing, blocks and cache tiles of which the
    estimate is least, the fastest first."""
    tables, l2, comes = tiling.knobs, tiling.target.l2, comes_from_far(tiling)
    rows = tiling.extent(tiling.row_axis) * tiling.extent(tiling.second_row_axis)
    for c in tiles:  # panels that are read once lie in memory's order
        c["vectors_outer"] &= rows > c["rows"] * c["second_rows"]
        c["next_panels"] = c["vectors_outer"] & comes & tables["next_panels"][-1]
    depth, k, shared = _depth(tiling), tiling.extent(tiling.k_axis), tiles[0]["parallel"]
    single = len(tiling.group.main.reduce_axes) == 1
    values = offers(
        tiling,
        *tiles,
        pack=_packs(tiling),
        parallel=[*{shared, min(shared, panel_loops(tiling))}],
        cache_vectors=tables["cache_vectors"],
        k_blocks=[b for b in tables["k_blocks"] if single or k % b == 0],
        cache_rows=[m for m in tables["cache_rows"] if m in (1, PRODUCTS.max_kept_rows)],
    )
    wide, parts, inside = values["cache_vectors"], values["k_blocks"], values["pack"] == Pack.INSIDE
    width = values["vectors"] * tiling.lanes
    panel = np.maximum(1, -(-width * tiling.group.element_bytes * depth // parts))
    # All rows pass over panels that stay in L2, with the next ones if these come from afar.
    room = int(PRODUCTS.cache_share * l2)
    stays = panel * wide * (1 + comes) <= np.where(comes & (wide > 1), room, l2)
    stays |= (parts == parts.max()) & (wide == 1)
    stays &= (parts == 1) | (panel * parts > room)
    panels = -(-tiling.extent(tiling.vector_axis) // width)
    if not _prepared(tiling.packable) or not _walks_near(tiling):  # in runs as long as can be
        most = np.minimum(room // (panel * (1 + comes)), tables["cache_vectors"][-1])
        alone = (values["next_panels"] == 1) & ((parts > 1) | (len(tiling.outer_axes) > 0))
        stays &= alone | (2 * wide > np.minimum(panels, most))
    if inside.any():
        # Cores that pack what they use have as many panels as another.
        others = np.full(len(wide), prod(tiling.extent(a) for a in tiling.outer_axes))
        if panel_loops(tiling) > len(tiling.outer_axes) + 1:
            others = others * -(-tiling.extent(tiling.second_row_axis) // values["second_rows"])
        cores = tiling.target.cores
        longest = np.minimum(-(-others * -(-panels // wide) // cores) * wide, others * panels)
        stays &= ~inside | (longest * cores <= SKETCHES.uneven * others * panels)
    keep = np.where(values["vectors_outer"] == 1, stays, (parts == 1) & (wide == 1))
    keep &= ((values["cache_rows"] == 1) | (parts > 1)) & (inside | (values["parallel"] == shared))
    if (keep & inside).any():  # what another core has copied has to be fetched from there
        keep &= inside | ~np.isin(values["pack"], (Pack.VECTORS, Pack.BOTH))
    values = {name: column[keep] for name, column in values.items()}
    order = np.arange(keep.sum())
    if len(order) > len(tiles):
        cycles = cycles_of(tiling, values, tiling.group.reductions)
        order = np.lexsort((-values["cache_vectors"], cycles))
    best: dict[tuple[int, ...], int] = {}
    for place, *tile in zip(
        order.tolist(), *(values[name][order].tolist() for name in REGISTER_TILE)
    ):
        best.setdefault(tuple(tile), place)
    places = [*best.values()][: SPACE.defaults]
    return rows_of({name: column[places] for name, column in values.items()})


def _packs(tiling: Tiling) -> list[int]:
    """Returns the ways to pack that are worth trying: of constants always, of operands of a call if
    they are strided or many rows share them, best by the core that uses them."""
    rows, names = _rows_that_share(tiling), tiling.knobs["pack"]
    in_place, packed = Pack.NONE, Pack.VECTORS
    if _prepared(tiling.packable_rows):
        in_place, packed = Pack.ROWS, Pack.BOTH
    if _prepared(tiling.packable):
        return [packed]
    many = PRODUCTS.reused * tiling.target.cores
    if not tiling.packable or (rows < PRODUCTS.few_rows and not _strided(tiling)):
        return [in_place]
    shared = [Pack.INSIDE] if Pack.INSIDE in names and least_repeats(tiling) <= 1 else []
    if _strided(tiling) or (rows >= many and _depth(tiling) > tiling.core.l1_pages):
        return [*shared, packed]
    return [in_place, *(shared or [packed])]


def _steps_ahead(tiling: Tiling, c: Choices) -> int:
    """Returns how many steps ahead to prefetch panels: those too large for L1."""
    panel = c["vectors"] * tiling.target.vector_bytes * _depth(tiling)
    rows = tiling.extent(tiling.row_axis) * tiling.extent(tiling.second_row_axis)
    if panel <= tiling.target.l1 // 2 or rows <= tiling.core.streamed_rows:
        return 0
    # What few rows use comes from behind L2 all the time: memory takes long to deliver it.
    far = rows <= PRODUCTS.few_rows and comes_from_far(tiling)
    return max(p for p in tiling.knobs["prefetch"] if far or p <= PRODUCTS.ahead)


def _walks_near(tiling: Tiling) -> bool:
    """True if what the rows walk stays in L2 while they pass over one panel after the other, a part
    of it if every row of the result is on another page."""
    main = tiling.group.main
    walked = [
        a for a in tiling.group.accesses[main.name] if not a.depends(tiling.vector_axis or "")
    ]
    inner = dropwhile(lambda name: name != tiling.row_axis, (a.name for a in main.axes))
    row = prod(tiling.extent(a) for a in (*inner,)[1:]) * main.buffer.dtype.bytes
    room = tiling.target.l2 // (2 if row >= tiling.core.page else 1)
    return sum(a.size * a.element_bytes for a in walked) <= room


def comes_from_far(tiling: Tiling) -> bool:
    """True if constants come from the LLC or memory in every call: L2 holds what other kernels read
    in between."""
    size = sum(a.size * a.element_bytes for a in _packable_reads(tiling, (True,)))
    return size >= PRODUCTS.coming_share * tiling.target.l2


def _pass_by_matrix(tiling: Tiling, c: dict[str, int]) -> None:
    """Let all rows of one product of a batch (each second row has constant panels of its own) pass
    over panel after panel: each comes from memory once, in order, while the rows pass over the one
    before it."""
    axis = tiling.second_row_axis
    if not _in_prepared_panels(tiling, c) or axis is None or c["second_rows"] > 1:
        return
    if all(a.depends(axis) for a in _packable_reads(tiling)):
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
    most = SKETCHES.uneven * tall / cores
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
    axis = tiling.second_row_axis
    moved = axis and any(a.depends(axis) for a in _packable_reads(tiling, (False,)))
    return len(tiling.outer_axes) + (2 if moved else 1)


def _packable_reads(tiling: Tiling, fixed: Sequence[bool] = (True, False)) -> list[Access]:
    """Returns the reads of operands that could be packed, of constants (True) or others (False)."""
    names = {name for name, constant in tiling.packable if constant in fixed}
    return [a for a in tiling.group.accesses[tiling.group.main.name] if a.buffer in names]


def _reads_all_once(tiling: Tiling) -> bool:
    """True if an operand is as large as the work, and lies along the vectors: no tile uses what
    another has read, and only the order in which memory is read matters."""
    main, axis = tiling.group.main, tiling.vector_axis or ""
    reads = tiling.group.accesses[main.name]
    return any(a.size >= stage_points(main) and a.stride(axis) == 1 for a in reads)


def _down_columns(tiling: Tiling, vectors: int) -> Choices:
    """One row after the other, and in each a few lines of neighbouring columns, in memory's order:
    several rows at once would be as many streams, often at the same place of their pages."""
    c, row, k, tables = tiling.base_choices(), tiling.row_axis, tiling.k_axis, tiling.knobs
    c["vectors"] = max(v for v in tables["vectors"] if v <= vectors)
    if row and k and tiling.in_memory_order((row, k)) == [k, row]:
        # Each core has a part of the rows, whose sums wait in L1 while it walks the next ones.
        most = ceil(tiling.extent(row) / tiling.target.cores)
        steps = [b for b in tables["k_blocks"] if b == 1 or tiling.extent(k) // b >= PRODUCTS.block]
        c["cache_rows"] = max(m for m in tables["cache_rows"] if m <= most)
        c["k_blocks"] = max(steps)
    return shared_and_stored(tiling, c)


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
    reads = _packable_reads(tiling)
    axes = [a for a in (tiling.row_axis, tiling.second_row_axis) if a is not None]
    return prod(tiling.extent(axis) for axis in axes if not any(a.depends(axis) for a in reads))


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
    share = PRODUCTS.uneven_tiles * ceil(tiles / cores)  # of the core with most tiles
    even = [m for m in tables["cache_vectors"] if ceil(ceil(tiles / m) / cores) * m <= share]
    c["cache_vectors"] = max((m for m in even if m <= tiles), default=1)
    c["cache_rows"] = max(m for m in tables["cache_rows"] if m <= ceil(rows / c["rows"]))
    c |= {name: tables[name][-1] for name in ("vectors_outer", "cache_vectors_outer")}
    # Many rows keep a core busy for as long as it takes to fetch more.
    short = PRODUCTS.block // 2 if single else max(PRODUCTS.block, rows)
    depth = tiling.extent(tiling.k_axis)
    c["k_blocks"] = max(b for b in tables["k_blocks"] if b == 1 or depth // b >= short)
    c["prefetch"] = 1 if 1 in tables["prefetch"] and not single else 0


def _depth(tiling: Tiling) -> int:
    return prod(as_int(a.extent) for a in tiling.group.main.reduce_axes)


def _strided(tiling: Tiling) -> bool:
    """True if vector loads of an operand that can be packed would have to be gathered."""
    reads = _packable_reads(tiling)
    return any(a.stride(tiling.vector_axis or "") not in (0, 1) for a in reads)


def _guarded(tiling: Tiling) -> bool:
    """True if some reads are made under a condition that differs from lane to lane, or comes from
    data: then no block can be transposed."""
    value, v = tiling.group.typical[tiling.group.main.name], tiling.vector_axis
    tests = [n.args[0] for n in walk(value) if isinstance(n, Op) and n.name == "where"]
    leaves = [leaf for test in tests for leaf in walk(test)]
    return any(
        isinstance(n, Read) or (isinstance(n, Index) and v in symbols(n.value)) for n in leaves
    )


def map_defaults(tiling: Tiling) -> list[Choices]:
    """Choices for a group of maps, best first."""
    tables = tiling.knobs
    blocks = _can_transpose(tiling) and not _guarded(tiling)
    candidates: list[Choices] = []
    for wanted in MAPS.vectors:
        c = tiling.base_choices()
        width = 1 if blocks or _stores_across(tiling) else _pattern(tiling, wanted)
        c["vectors"] = max(v for v in tables["vectors"] if v <= width)
        c["non_temporal"] = non_temporal_choice(tiling)
        in_order = not tiling.gathers and not _stores_across(tiling)
        if in_order and tiling.group.bytes > tiling.target.l2 and not tiling.core.streamed_rows:
            c["prefetch"] = max(p for p in tables["prefetch"] if p <= MAPS.lines_ahead)
        if blocks:
            _blocks(tiling, c)
        elif _looks_up(tiling):
            c["rows"] = max(r for r in tables["rows"] if r <= MAPS.sharing)
        elif _stores_across(tiling):
            c["rows"] = max(r for r in tables["rows"] if r <= tiling.lanes)
        c["parallel"] = parallel_depth(tiling, c)
        candidates.append(c)
    return candidates


def _rough_reads(tiling: Tiling) -> list[Access]:
    reads = tiling.group.accesses[tiling.group.main.name]
    return [a for a in reads if a.stride(tiling.vector_axis or "") not in (0, 1)]


def _can_transpose(tiling: Tiling) -> bool:
    """True if an operand that is strided along the vectors is contiguous along the rows."""
    row = tiling.row_axis
    return row is not None and any(a.stride(row) == 1 for a in _rough_reads(tiling))


def _stores_across(tiling: Tiling) -> bool:
    """True if results are contiguous along the rows and strided along the vectors: with as many
    rows as there are lanes, whole vectors are stored."""
    last = tiling.group.main.axes[-1].name
    return tiling.row_axis == last != tiling.vector_axis


def _looks_up(tiling: Tiling) -> bool:
    """True if every row takes elements from the same places, which come from data."""
    v, row = tiling.vector_axis or "", tiling.row_axis
    rough = [a for a in _rough_reads(tiling) if v in a.irregular]
    return row is not None and bool(rough) and all(a.stride(row) for a in rough)


def _pattern(tiling: Tiling, vectors: int) -> int:
    """``vectors``, or the number from which on indices divided along them repeat themselves."""
    period = lcm(*divisors(tiling.group.typical[tiling.group.main.name], tiling.vector_axis or ""))
    needed = period // gcd(period, tiling.lanes)
    return needed * max(1, vectors // needed) if needed in tiling.knobs["vectors"] else vectors


def _blocks(tiling: Tiling, c: dict[str, int]) -> None:
    """Square blocks are transposed in registers.

    Down a strip two cache lines wide every line of the result is written whole and soon, and what
    is read comes in as many runs as are prefetched. An operand that lies as the result does would
    be read two lines a row, each on another page: with one, blocks are some rows of 16 lines.
    """
    group, tables, row = tiling.group, tiling.knobs, tiling.row_axis or ""
    c["rows"] = max(r for r in tables["rows"] if r <= tiling.lanes)
    lines = MAPS.lines_wide
    reads = group.accesses[group.main.name]
    if any(a.stride(tiling.vector_axis or "") == 1 and a.depends(row) for a in reads):
        lines = MAPS.lines_beside
        c["cache_rows"] = max(m for m in tables["cache_rows"] if m <= MAPS.rows_beside)
    else:
        c["vectors_outer"] = tables["vectors_outer"][-1]
    wide = max(1, CACHE_LINE // (tiling.lanes * group.main.buffer.dtype.bytes))
    if wide > 1 and c["rows"] > tiling.core.fill_buffers:
        c["non_temporal"] = 0  # lines would leave in parts, which takes ten times as long
    c["cache_vectors"] = max(m for m in tables["cache_vectors"] if m <= lines * wide)

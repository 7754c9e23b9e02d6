"""Names of the features that the cost model sees of a candidate, each with its meaning.

Sizes and counts are log2; shares are plain. The version is that of the list below: another list is
another version, and a model of another version is refused.
"""

from __future__ import annotations

__all__ = ["ABSOLUTE", "COMPARED", "FEATURES", "FEATURE_NAMES", "FEATURE_VERSION"]

FEATURE_VERSION = 4
FEATURES: dict[str, str] = {
    "flops": "log2 of the arithmetic instructions of one call",
    "bytes": "log2 of the bytes read and written at least once",
    "intensity": "log2 of instructions per byte",
    "lanes_rule": "1 if vectors run along reduced axes and are joined at the end",
    "stages": "stages that are computed, after inlining",
    "reductions": "reductions among them",
    "groups": "nests that run one after the other",
    "lanes": "log2 of the elements of a vector",
    "registers": "vector registers of the machine",
    "threads": "log2 of the threads that run the kernel",
    "vectors": "log2 of the vectors of the register tile",
    "rows": "log2 of its rows",
    "second_rows": "log2 of its second rows",
    "tile": "log2 of the vectors accumulated at once",
    "pressure": "registers wanted over registers there are",
    "chains": "accumulators over those needed to hide the latency of a multiply-add, at most 2",
    "loads_per_op": "vector loads and broadcasts per vector operation",
    "gathers_per_op": "loads that must be put together lane by lane, per vector operation",
    "unroll": "log2 of the unrolled iterations of the innermost loop",
    "code": "log2 of the vector operations that are unrolled",
    "inner_trips": "log2 of the iterations of the innermost reduced loop that is not unrolled",
    "depth": "log2 of the reduced elements per output",
    "vector_waste": "share of vector lanes that compute nothing",
    "row_tail": "share of the rows that run in a smaller tile",
    "second_row_tail": "share of the second rows that run in a smaller tile",
    "tile_bytes": "log2 of the bytes one register tile touches, over the L1 cache",
    "cache_tile_bytes": "log2 of the bytes one cache tile touches, over the L2 cache",
    "panel_bytes": "log2 of the bytes the innermost outer loop touches in one pass, over L2",
    "sweep_bytes": "log2 of the bytes the two innermost outer loops touch, over L3",
    "tile_pages": "log2 of the pages one register tile touches",
    "k_blocks": "log2 of the pieces the longest reduced axis is cut into",
    "cache_vectors": "log2 of the register tiles along the vectors in a cache tile",
    "cache_rows": "log2 of the register tiles along the rows in a cache tile",
    "vectors_outer": "1 if the vector axis stands outside the rows",
    "cache_vectors_outer": "1 if it does inside a cache tile",
    "packed": "1 if an operand is packed",
    "non_temporal": "1 if results are written by non-temporal stores",
    "prefetched": "log2 of the prefetch distance in iterations, 0 if none",
    "row_packed": "1 if an operand that rows walk is packed, too",
    "pack_bytes": "bytes packed at run time over the bytes of the call",
    "parallel": "log2 of the iterations of the parallel loop",
    "chunks": "log2 of the parallel iterations per thread",
    "imbalance": "share of the cores' time that the last iterations leave idle",
    "ideal_ratio": "log2 of the tile model's cycles over one operation per cycle",
    "cycles": "log2 of the tile model's cycles on all cores",
    "store_smooth": "1 if vectors are stored to neighbouring elements",
    "rule": "kind of loop nest: a number of ``tiling.Kind``",
    "choice": "place of the sketch among those the rules offer, most promising first",
    "element": "log2 of the bytes of an element",
    "work": "arithmetic instructions of one evaluation of the main stage",
    "inlined": "stages that were written into their readers",
    "repeated": "log2 of the instructions after inlining over those before",
    "reduction_parts": "log2 of the pieces a long reduction was cut into for the threads",
    "stored_between": "log2 of the bytes stored between nests and read again, over the L2 cache",
    "other_work": "share of the instructions outside of the main nest",
    "stage_work": "share of the instructions outside of the main stage",
    "l1_bytes": "log2 of the bytes moved into L1, per vector operation",
    "l2_bytes": "log2 of the bytes moved into L2, per vector operation",
    "memory_bytes": "log2 of the bytes moved from memory, per vector operation",
    "estimate": "log2 of the cycles per vector operation, by the tile model or by memory",
    "bound": "log2 of the cycles for memory over those of the tile model",
    "tiles": "log2 of the register tiles of one call",
    "tile_steps": "log2 of the vector operations of one register tile",
    "depth_tail": "share of the innermost reduced axis that unrolling leaves over",
    "last_lanes": "share of the lanes of the vector axis's tiles that compute nothing",
    "same_sets": "share of the operands whose rows are a multiple of a page apart",
    "page_walks": "operands whose every step of the innermost reduced axis is on another page",
    "crossing": "share of the vector loads that begin within a cache line",
    "contiguous_bytes": "log2 of the contiguous bytes that loops of the vector axis read or write",
    "core": "log2 of the core's cycles per vector operation, small tiles at the ends counted",
    "expected": "log2 of the cycles per vector operation, by the core or by memory, on all cores",
    "together": "log2 of the cycles of the core and of memory one after the other, per operation",
    "core_share": "log2 of the core's cycles over those of memory",
    "load_share": "cycles of the loads over those of the arithmetic",
    "shuffle_share": "log2 of the cycles of shuffles, and one, over those of the arithmetic",
    "latency_share": "log2 of the cycles for the latency of the chains, over the arithmetic's",
    "spill_share": "share of the core's cycles for what does not fit the registers",
    "loop_share": "share of the core's cycles for loops and for beginning and ending tiles",
    "tail_share": "share of the core's cycles in smaller tiles at the ends",
    "instructions": "log2 of the instructions of the innermost loop",
    "set_conflicts": "log2 of the lines in one set of L1 over those it keeps, and one",
    "tiles_per_iteration": "log2 of the register tiles of one iteration of the parallel loop",
    "tile_cycles": "log2 of the core's cycles in one register tile",
}
COMPARED = (
    "estimate", "cycles", "l1_bytes", "l2_bytes", "memory_bytes", "tile", "loads_per_op",
    "pressure", "code", "tiles", "vectors", "rows", "inner_trips", "tile_bytes", "chunks",
    "parallel", "last_lanes", "choice", "contiguous_bytes", "bound",
    "core", "expected", "together", "shuffle_share", "load_share", "loop_share", "instructions",
)  # fmt: skip
"""Features that are also given as their difference from those of the default schedule: how large a
number is says less than on which side of a good choice it lies."""
FEATURES.update(
    {f"{name}_beside": f"{name} beside that of the default schedule" for name in COMPARED}
)
FEATURE_NAMES = tuple(FEATURES)
ABSOLUTE = len(FEATURE_NAMES) - len(COMPARED)
"""The first so many features are those of a candidate alone."""

"""Names of the features that the cost model sees of a candidate, each with its meaning.

Sizes and counts are log2; shares are plain. The version is that of the list below: another list is
another version, and a model of another version is refused.
"""

from __future__ import annotations

from .settings import FEATURES as ESTIMATES

FEATURE_VERSION = 7
FEATURES: dict[str, str] = {
    "flops": "log2 of the arithmetic instructions of one call",
    "bytes": "log2 of the bytes read and written at least once",
    "intensity": "log2 of instructions per byte",
    "lanes": "log2 of the elements of a vector",
    "registers": "vector registers of the machine",
    "threads": "log2 of the threads that run the kernel",
    "work": "arithmetic instructions of one evaluation of the main stage",
    "repeated": "log2 of the instructions after inlining over those before",
    "stored_between": "log2 of the bytes stored between nests and read again, over the L2 cache",
    "other_work": "share of the instructions outside of the main nest",
    "stage_work": "share of the instructions outside of the main stage",
    "vectors": "log2 of the vectors along the lanes of the register tile",
    "rows": "log2 of its rows",
    "tile": "log2 of the vectors computed at once",
    "unroll": "log2 of the copies of them in reduced loops that are unrolled",
    "code": "log2 of the vector operations of the innermost loop",
    "pressure": "registers wanted over registers there are",
    "chains": "accumulators over those needed to hide the latency of a multiply-add, at most 2",
    "loads_per_op": "vector loads and broadcasts per vector operation",
    "gathers_per_op": "loads that must be put together lane by lane, per vector operation",
    "instructions": "log2 of the instructions of the innermost loop",
    "lane_waste": "share of the lanes that compute nothing",
    "tiles": "log2 of the register tiles of one call",
    "tile_steps": "log2 of the vector operations of one register tile",
    "tile_cycles": "log2 of the core's cycles in one register tile",
    "inner_trips": "log2 of the iterations of the innermost reduced loop that is not unrolled",
    "depth": "log2 of the reduced elements per output",
    "body_bytes": "log2 of the bytes that the innermost loop's body touches, over L1",
    "tile_bytes": "log2 of the bytes that one register tile touches, over L1",
    **{
        name.format(n): text.format(n)
        for n in range(1, ESTIMATES.around + 1)
        for name, text in (
            ("trips_{}", "log2 of the iterations of serial loop {} around the body, from inside"),
            ("reach_{}", "log2 of the bytes that serial loop {} touches, over L2"),
        )
    },
    "contiguous_bytes": "log2 of the contiguous bytes that loops of the lanes' axis read or write",
    "packed": "operands that are read from panels",
    "packed_inside": "1 if panels are made by the core that reads them",
    "pack_bytes": "bytes packed at run time over the bytes of the call",
    "prefetched": "log2 of the iterations that are prefetched ahead, and one",
    "prefetched_next": "1 if the panels that come next are prefetched",
    "non_temporal": "1 if results are written by non-temporal stores",
    "parallel": "log2 of the iterations of the parallel loop",
    "chunks": "log2 of the parallel iterations per thread",
    "imbalance": "share of the cores' time that the last iterations leave idle",
    "tiles_per_iteration": "log2 of the register tiles of one iteration of the parallel loop",
    "l1_bytes": "log2 of the bytes moved into L1, per vector operation",
    "l2_bytes": "log2 of the bytes moved into L2, per vector operation",
    "memory_bytes": "log2 of the bytes moved from memory, per vector operation",
    "cycles": "log2 of the core's cycles of all stages, on all cores",
    "core": "log2 of the core's cycles per vector operation",
    "expected": "log2 of the cycles per vector operation, by the core or by memory, on all cores",
    "together": "log2 of the cycles of the core and of memory one after the other, per operation",
    "core_share": "log2 of the core's cycles over those of memory",
    "load_share": "cycles of the loads over those of the arithmetic",
    "shuffle_share": "log2 of the cycles of shuffles, and one, over those of the arithmetic",
    "latency_share": "log2 of the cycles for the latency of the chains, over the arithmetic's",
    "front_share": "log2 of the cycles of the front end, and one, over those of the arithmetic",
    "spill_share": "share of the main stage's cycles for what does not fit the registers",
    "loop_share": "share of its cycles for loops and for beginning and ending tiles",
    "tail_share": "share of its cycles in smaller tiles at the ends",
    "other_share": "share of the cycles outside of the main stage",
    "pack_share": "share of the cycles in copies into panels",
}
COMPARED = (
    "cycles", "l1_bytes", "l2_bytes", "memory_bytes", "tile", "loads_per_op", "pressure", "code",
    "tiles", "vectors", "rows", "inner_trips", "tile_bytes", "chunks", "parallel",
    "contiguous_bytes", "core", "expected", "together", "core_share",
    "load_share", "loop_share", "instructions", "reach_1", "reach_2", "reach_3",
)  # fmt: skip
"""Features that are also given as their difference from those of the default schedule: how large a
number is says less than on which side of a good choice it lies."""
FEATURES.update(
    {f"{name}_beside": f"{name} beside that of the default schedule" for name in COMPARED}
)
FEATURE_NAMES = tuple(FEATURES)
OF_THREADS = tuple(
    FEATURE_NAMES.index(name)
    for name in FEATURE_NAMES
    if name.removesuffix("_beside") in ("parallel", "chunks", "imbalance", "tiles_per_iteration")
)
"""Places of features of how iterations are shared out, which mean nothing on one thread."""
ABSOLUTE = len(FEATURE_NAMES) - len(COMPARED)
"""The first so many features are those of a candidate alone."""

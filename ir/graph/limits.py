"""The machine as graph passes and decompositions of operators see it.

This layer knows no target. Where the best form of a graph depends on the machine (how long a row
stays in a cache, what a second computation costs), a pass reads the number here, and whoever has a
target gives it: ``GraphLimits.of_caches``. The defaults are those of a server core with 48 KB of
L1, 2 MB of L2 and vectors of 512 bits.
"""

from __future__ import annotations

from ..dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GraphLimits:
    """Sizes are in elements, costs in arithmetic instructions, unless a field says otherwise."""

    lanes: int = 16
    """float32 elements of a vector."""
    cache_bytes: int = 2 << 20
    """Bytes of a core's L2, in which the operands of a kernel stay between its parts."""

    has_pairs: bool = False
    """True if an instruction sums products of bfloat16 in pairs."""
    factor: str = "int8"
    """The integers whose products an instruction adds up: int8, also for uint8, int16, or none."""

    permutes_bytes: bool = True
    """True if an instruction looks the bytes of a vector up in a table that registers hold."""

    # Fusion.
    costly: float = 8.0
    """Cost per element from which storing a value is better than computing it twice."""
    large_map: int = 2
    """Elements of a cheap map for each that it is computed of, from which it is not stored."""
    segment_cost: float = 512.0
    """Cost per element of one kernel of elementwise operators: its code stays in the L1."""
    longest_row: int = 1 << 18
    """A row that one kernel reads more than once: half of the L2, in float32."""
    longest_lone_row: int = 1 << 14
    """The same if there is only one row: all threads together reduce a longer one first."""
    longest_column: int = 512
    """A strided row that is read more than once, in strips of 256 bytes: a sixteenth of the L2."""
    narrowest: int = 16
    """Rows that are contiguous with each other, from which on vectors run across them."""
    attention_rows: int = 16
    """Rows of attention scores, below which no vector is filled."""
    attention_scores: int = 16
    """Scores of a row, below which fused attention saves nothing."""
    attention_columns: int = 512
    """Columns of attention's operands, beyond which the buffers of a block leave the caches."""

    # Loops.
    few_rows: int = 32
    """Rows of a product from which on arithmetic bounds it, not the reading of its weights."""
    few_cached_rows: int = 16
    """The same if half of the L2 holds the weights."""
    hoisted_bytes: int = 64 << 20
    """Bytes of what is computed for all iterations of a loop before it."""
    sliced_share: float = 0.3
    """Mean share of weights that vectors meet one by one, from which on the product of all vectors
    with all weights takes less time."""

    # Decompositions.
    kept_iterations: int = 1 << 12
    """Iterations of which the reverse mode of a loop keeps values, if values decide how many there
    are."""
    nested_pieces: int = 3
    """Depth of the loops that such a one becomes: as many iterations as take hours."""
    slice_in_place: int = 8
    """Elements of an array over those of its slice, from which on the slice's cotangent is added in
    place: fewer are computed all."""
    softmax_piece: int = 1 << 11
    """The longest piece of a lone row: the piece and its exponentials fit in the L1."""
    softmax_shortest_piece: int = 1 << 8
    """The shortest piece of a lone row, below which joining the pieces costs too much."""
    scan_pieces: bool = True
    """True if the sums up to each element of one long row may be those of pieces."""
    arg_row: int = 1 << 14
    """A contiguous row that argmax searches whole."""
    arg_row_piece: int = 1 << 10
    """The pieces of a longer one."""
    arg_column_piece: int = 16
    """The pieces of a strided row of more than ``longest_column``, gathered one by one."""
    pool_store: int = 8
    """Reads of a pooling window that take as long as storing an element between two passes."""

    # Winograd's convolutions: times are in multiply-adds of full vectors.
    winograd_image: float = 20.0
    """Time to transform an element of the image, of each channel padded to whole vectors."""
    winograd_result: float = 15.0
    """Time to transform a product back."""
    winograd_crowded: float = 40.0
    """The same if all points of a tile map to one set of the L1."""
    winograd_product: float = 1.1
    """Time of a multiply-add in products of many small matrices."""
    direct_product: float = 1.25
    """Time of a multiply-add in sums over windows: copied borders, tiles as short as image rows."""
    fetch: float = 16.0
    """Time to read or write an element outside of the L2."""
    fetch_weights: float = 16.0
    """Time to read an element from memory, as weights are in every call of a network."""
    set_bytes: int = 4096
    """Distance in bytes of addresses that map to one set of the L1."""

    @staticmethod
    def of_caches(
        l1: int,
        l2: int,
        lanes: int,
        fetch_weights: float = 16.0,
        has_pairs: bool = False,
        factor: str = "int8",
        permutes_bytes: bool = True,
    ) -> GraphLimits:
        """The limits of a core with caches of so many bytes, and so many float32 in a vector."""
        return GraphLimits(
            lanes=lanes,
            cache_bytes=l2,
            has_pairs=has_pairs,
            factor=factor,
            permutes_bytes=permutes_bytes,
            fetch_weights=fetch_weights,
            longest_row=l2 // 2 // 4,
            longest_column=l2 // 16 // 256,
            softmax_piece=1 << (l1 // 2 // 8).bit_length() - 1,
        )


DEFAULT_LIMITS = GraphLimits()


FEW_FIRST = 64
"""Elements up to which the first of a row are found without sorting it, if they are an eighth."""


def few_first(k: int, size: int) -> bool:
    """Returns True if the first ``k`` of ``size`` elements are found without sorting them."""
    return k <= FEW_FIRST and 8 * k <= size

"""Policy of the search space: limits and preferences of rules and features, a sentence each.

What describes the machine is in ``codegen/core.py``. Measured figures behind the numbers are in
docs/measurements.md.
"""

from __future__ import annotations

from ...ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Sketches:
    """All sketches, the users' included."""

    max_choices: int = 4096  # Choices of a sketch without a tiling: all of them are listed.
    max_from_users: int = 8  # Sketches of all users' rules for one kernel.
    max_parallel: int = 4  # Outer loops that may be fused into the parallel one.
    iterations_per_core: int = 4  # Iterations of the parallel loop that balance the cores.
    uneven: float = 1.08  # Of a core's even share, where more loops are fused.
    least_per_core: int = 2  # The same at the least of symbolic sizes: deep loops cost divisions.
    copied_rows: int = 16  # Rows of a panel copied in a row: a cache line of float32.
    shared_copy: int = 1 << 15  # Elements of an operand that several threads pack.
    streamed_l3: float = 0.25  # Of the last-level cache: larger results are stored so by default.
    large_l2: int = 16  # L2 caches' worth of results: more than a core's part of a shared LLC.
    streamed_l2: int = 2  # Results of so many L2 caches may be stored by non-temporal stores.
    lanes: int = 16  # Of a vector, where schedules are the same for every target.


@dataclass(frozen=True, slots=True)
class Tile:
    """The ``tile`` rule."""

    max_statements: int = 384  # Of one register tile: beyond, LLVM takes long and gains nothing.
    plain_cost: float = 8.0  # Instructions of one statement; one with atan2 counts as many.
    min_statements: int = 8  # Of a register tile that is allowed however costly they are.
    few_rows_l2: int = 16  # Rows for which transposing an operand in L2 takes too long.
    few_rows_far: int = 32  # The same for an operand that L2 does not hold.
    short_axis: int = 4  # Elements of a last axis (colours) that fill too few lanes.
    max_kept: int = 128 * 1024  # Bytes of a cache tile on the stack between blocks of k.
    max_panels: int = 768 * 1024  # Bytes of panels on the stack, packed where they are used.


@dataclass(frozen=True, slots=True)
class Products:
    """Default choices of the ``tile`` rule for reductions."""

    cache_share: float = 0.375  # Of L2, for the panels that all rows pass over.
    max_kept_rows: int = 8  # Register tiles along the rows that are kept so.
    few_rows: int = 32  # Rows for which reading an operand takes as long as multiplying.
    few_rows_unpacked: int = 80  # The same where it would be packed at run time.
    reused: int = 256  # Rows that share an operand of a call from which packing it pays.
    ahead: int = 8  # Iterations of the reduced loop that panels are prefetched ahead.
    small_tile: int = 12  # Vectors of a tile whose reduced loop is worth unrolling.
    unroll: int = 4  # Iterations of it that are unrolled.
    uneven_tiles: float = 1.15  # Of a core's even share, where larger cache tiles are worth it.
    uneven_rows: float = 1.02  # Of the fairest share of rows, where larger blocks are worth it.
    block: int = 16  # Steps of the reduced axis at a time, where memory is read in its order.
    skinny_vectors: int = 8  # Vectors of a register tile that has one row.
    columns: tuple[int, ...] = (8, 16, 4)  # Vectors of a row at a time, where all is read once.
    panels_share: float = 2.0  # Of all else that is read and written: cores divide the rows.
    coming_share: float = 0.25  # Of L2: larger constants are fetched in every call.
    most: int = 4  # Register tiles that are tried.


@dataclass(frozen=True, slots=True)
class Maps:
    """Default choices of the ``tile`` rule for maps."""

    vectors: tuple[int, ...] = (4, 2)  # Vectors of a tile that are tried.
    lines_ahead: int = 32  # Cache lines prefetched ahead: a core sees only a few iterations.
    sharing: int = 2  # Rows that share the computation of their gathered addresses.
    lines_wide: int = 2  # Cache lines of a strip in which blocks are transposed.
    lines_beside: int = 16  # The same where another operand is read in the order of the result.
    rows_beside: int = 4  # Blocks along the rows there.


@dataclass(frozen=True, slots=True)
class Mirror:
    """The ``mirror`` rule."""

    image: float = 0.3  # Cycles to transpose and store an element of the other triangle.
    far_image: float = 4.0  # The same where L2 does not hold the result: each row is a page.
    busy: float = 0.5  # Share of the registers that hold sums; smaller tiles wait for loads.
    worth: float = 0.9  # Of the estimate for the whole, above which the whole is computed.
    short_row: int = 6  # Cache lines of a row that is read without being packed.
    min_blocks: int = 2  # Along each axis: with one there is no other triangle.
    rows: int = 48  # Rows of a register tile divide it: others would make blocks large.
    max_panels: int = 8  # Register tiles along the vectors in a block.
    max_kept: int = 128 * 1024  # Bytes of a block and its image on the stack.


@dataclass(frozen=True, slots=True)
class Window:
    """The ``window`` rule."""

    channels_share: int = 8  # Of the places of an image: cores divide the rows of one with fewer.
    max_taps: int = 64  # Of one window: each is unrolled for every element of the tile.
    max_masks: int = 7  # Masks that fit their registers.
    many_share: int = 4  # Results along another axis that read the same window.
    max_statements: int = 1500  # Of all bodies together, borders included.
    quick_statements: int = 150  # Without tuning, as many more must pay with a tenth of the time.
    slow_times: float = 8.0  # Times so many statements, beyond which each must pay in full.


@dataclass(frozen=True, slots=True)
class Lanes:
    """The ``lanes`` rule."""

    used_again: int = 8  # Rows for which transposing an operand pays.
    columns: int = 4  # Columns of a narrow matrix that are multiplied with a row at once.
    l1_share: float = 0.625  # Of L1, for the rows that are walked together.
    light_share: float = 1.2  # Times that, where a row takes few registers.
    costly: float = 8.0  # Instructions of a summed element from which few sums fit registers.
    rows: int = 4  # Rows that are walked together at most.
    costly_rows: int = 3  # The same of long rows of costly elements, or from behind L2.
    reads: tuple[float, ...] = (0.1, 0.25, 1.0)  # Time of a read from L1, L2, and behind them.
    prefetched: int = 2  # L2 caches of rows that come as fast together, if they are prefetched.
    short_row: int = 256  # Bytes of rows that are read as one, since each is a few lines.
    long_row: int = 384  # Elements of rows walked together, where L2 does not hold the operand.


@dataclass(frozen=True, slots=True)
class Dots:
    """The ``dots`` rule."""

    tile_side: int = 32  # Rows and columns of the sums in matrix registers.
    max_statements: int = 256  # Of one register tile.
    max_groups: int = 4  # Groups of the reduced axis that are unrolled, in vector registers.
    few_groups: int = 2  # Of them by default.
    leftover: int = 15  # Iterations that plain code takes for a group that is left over.
    spare: int = 2  # Registers beside sums and vectors: two elements of rows.
    shift_vectors: int = 4  # Vectors at once of the sums that correct shifted bytes.
    most: int = 2  # Register tiles that are tried of either kind.


@dataclass(frozen=True, slots=True)
class Grouped:
    """The ``grouped`` rule."""

    vectors: int = 4  # Vectors of a panel by default; twice as many if a row's bytes hold several.
    rows: int = 4  # Rows of bytes in a tile by default, if there are as many.
    unroll: int = 2  # Steps of a group that are unrolled by default.


@dataclass(frozen=True, slots=True)
class Pick:
    """The ``pick`` rule."""

    max_places: int = 8  # Values of one axis that is unrolled.
    max_unrolled: int = 64  # Values of all unrolled axes together.


@dataclass(frozen=True, slots=True)
class Chain:
    """The ``chain`` rule."""

    max_stack: int = 224 * 1024  # Bytes of the private buffers of one block of rows.
    stack_share: float = 0.75  # Of them, for the scores and results of all parts of a row.
    short_row: int = 192  # Elements of a row that is not cut.
    short_part: int = 32  # Elements of a part of a row at least.
    accumulators: int = 2  # Of a maximum or sum along the keys, to hide its latency.
    rows: tuple[int, int] = (6, 8)  # Of tiles two vectors wide, with 16 registers and with more.


@dataclass(frozen=True, slots=True)
class Space:
    """The variants of a space, and their order."""

    max_variants: int = 8  # Of one kernel.
    defaults: int = 3  # Default rows of the first variant; the others have one.
    max_stack_row: int = 64 * 1024  # Bytes of a row that is kept between two stages.
    few_outputs: int = 256  # Outputs up to which joining the parts of a reduction is cheap.
    outputs_per_core: int = 4  # Outputs that balance the cores without parts.
    min_part: int = 4096  # Elements of a part.
    parts_per_core: tuple[int, ...] = (4, 16, 64)  # Parts that are offered.
    gathering: float = 1.6  # Times the estimate, where operands are gathered in every step.
    near: float = 1.5  # Times the least cycles, up to which rules are not compared.
    doubtful: float = 6.0  # Times the least cycles, beyond which stages are tried apart.
    clearly: float = 2.0  # Times the estimate of another order that justifies it.
    hopeless: float = 5.0  # Times the estimate of the best variant: others are left out.
    max_inlined: int = 3  # Maps of which every subset is tried as inlined.
    min_piece: int = 8  # Elements of the last axis in each piece where an axis is cut.
    max_bodies: int = 64  # Bodies that all pieces of a nest make.
    max_places: int = 256  # Places along short axes whose conditions are resolved one by one.


@dataclass(frozen=True, slots=True)
class Features:
    """Estimates for the cost model; they are part of what it was trained on."""

    warm: float = 1.0 / 16  # Of moved bytes that count where all data stays in a cache.
    kept: float = 0.25  # More than a cache holds by so much of it, and it keeps nothing.
    max_load_share: float = 64.0  # Of the arithmetic, that loads are said to take.
    max_chains: float = 2.0  # Times the accumulators that hide the latency.
    around: int = 5  # Serial loops around the register tile that have features.
    most_tails: int = 3  # Axes of which smaller tiles at the end are counted.


@dataclass(frozen=True, slots=True)
class Procedures:
    """The ``procedure`` rule."""

    worth_threads: int = 50_000  # Stores of a loop that is shared among the threads by default.
    vectors: tuple[int, ...] = (4, 1, 2, 8)  # Vectors of a block of lanes, the default first.


SKETCHES, TILE, PRODUCTS, MAPS = Sketches(), Tile(), Products(), Maps()
MIRROR, WINDOW, LANES, DOTS, PICK = Mirror(), Window(), Lanes(), Dots(), Pick()
GROUPED = Grouped()
CHAIN, SPACE, FEATURES, PROCEDURES = Chain(), Space(), Features(), Procedures()

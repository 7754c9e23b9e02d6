"""Cycles that one core takes for a nest, estimated for whole populations from their loops.

The iterations of a stage's serial loops are counted register tile by register tile, the smaller
tiles at the ends of the axes for themselves. One takes as long as the fullest of the core's units:
arithmetic, loads, shuffles (strided lanes are picked, inserted, or transposed in blocks, as the
code generator does it), the front end, or the latency of its chains. What does not fit the
registers, loops, and the beginning and end of tiles come on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import gcd, prod

import numpy as np

from ...codegen.core import Core, core_of
from ...codegen.emit.cover import MAX_WINDOWS
from ...codegen.lower.shuffles import SPARSE_BLOCK
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.loop.prim import Stage
from ...ir.loop.work import vector_work
from ...ir.schedule.columns import BoolArray, FloatArray
from ...ir.schedule.rows import INSTRUCTION, UNROLL, VECTORIZE
from .analysis import Access, index_step
from .loop_arrays import LoopArrays
from .settings import FEATURES


@dataclass(frozen=True, slots=True)
class CoreCycles:
    """float64[n] each: ``cycles`` of one core for all iterations; of these, what ``arithmetic``,
    ``loads``, ``shuffles``, ``front`` end and ``latency`` take alone, ``spilled`` for what does not
    fit the registers, ``loop`` for loops and tiles, ``tails`` for smaller tiles.

    Of the whole register tile: ``vectors`` along its lanes, ``tile`` vectors that are computed at
    once, ``copies`` of that in reduced loops that are unrolled, ``loaded`` and ``gathered`` loads,
    ``wanted`` registers, ``instructions``; the number of ``tiles`` and of their ``steps``.
    ``waste`` is the share of the lanes that compute nothing.
    """

    cycles: FloatArray
    arithmetic: FloatArray
    loads: FloatArray
    shuffles: FloatArray
    front: FloatArray
    latency: FloatArray
    spilled: FloatArray
    loop: FloatArray
    tails: FloatArray
    vectors: FloatArray
    tile: FloatArray
    copies: FloatArray
    loaded: FloatArray
    gathered: FloatArray
    wanted: FloatArray
    instructions: FloatArray
    tiles: FloatArray
    steps: FloatArray
    waste: FloatArray


def core_cycles(
    arrays: LoopArrays, stage: Stage, accesses: Sequence[Access], target: Target, lanes: int
) -> CoreCycles:
    """Returns the cycles of a stage that reads ``accesses`` in vectors of so many ``lanes``."""
    return _Stage(arrays, stage, accesses, target, lanes).cycles()


def computed_share(arrays: LoopArrays, stage: Stage) -> FloatArray | None:
    """Returns the share of a mirrored stage's elements that is computed, None of all."""
    width = arrays.mirror.get(stage.name)
    if width is None:
        return None
    extent = as_int(stage.axes[-1].extent)
    block = np.maximum(1, width)
    whole, rest = extent // block, extent % block
    share = (1 + (whole * block**2 + rest**2) / extent**2) / 2
    return np.where(width > 0, share, 1.0)


class _Stage:
    def __init__(
        self,
        arrays: LoopArrays,
        stage: Stage,
        accesses: Sequence[Access],
        target: Target,
        lanes: int,
    ) -> None:
        self.arrays, self.stage, self.accesses = arrays, stage, accesses
        self.target, self.lanes = target, lanes
        self.core: Core = core_of(target)
        axes = (*stage.axes, *stage.reduce_axes)
        self.extents = {a.name: as_int(a.extent) for a in axes}
        self.reduced = {a.name for a in stage.reduce_axes}
        wide = {a: arrays.product(a, VECTORIZE) for a in self.extents}
        self.is_vector = {a: w > 1 for a, w in wide.items() if (w > 1).any()}
        sizes = {a: arrays.product(a, UNROLL) * w for a, w in wide.items()}
        #: elements of each axis that one instruction takes in a lane, and in a register tile
        self.taken = {a: arrays.product(a, INSTRUCTION) for a in self.reduced}
        self.size = {a: np.minimum(s, max(1, self.extents[a])) for a, s in sizes.items()}
        self._count_tiles()

    def _count_tiles(self) -> None:
        """Sets ``parts`` float64[C, n] for each axis: sizes of the C kinds of register tiles, whole
        ones first, and ``times``, how often each is computed within the whole nest."""
        n = self.arrays.count
        whole = {a: self.extents[a] // s for a, s in self.size.items()}
        rest = {a: self.extents[a] - whole[a] * s for a, s in self.size.items()}
        for axis, taken in self.taken.items():
            whole[axis], rest[axis] = -(-whole[axis] // taken), rest[axis] // taken
        uneven = [a for a in self.extents if rest[a].any()]
        uneven.sort(key=lambda a: -float(np.mean(rest[a] / max(1, self.extents[a]))))
        kinds = list(product((0, 1), repeat=min(FEATURES.most_tails, len(uneven))))
        self.parts: dict[str, FloatArray] = {}
        self.counts: dict[str, FloatArray] = {}
        for axis, size in self.size.items():
            if axis in uneven[: FEATURES.most_tails]:
                place = uneven.index(axis)
                ends = np.array([kind[place] for kind in kinds], np.bool_)[:, None]
                self.parts[axis] = np.where(ends, np.maximum(1, rest[axis]), size).astype(float)
                self.counts[axis] = np.where(ends, rest[axis] > 0, whole[axis]).astype(float)
            else:
                self.parts[axis] = np.broadcast_to(size.astype(float), (len(kinds), n))
                self.counts[axis] = (whole[axis] + (rest[axis] > 0))[None].astype(float)
        self.shape = (len(kinds), n)

    def cycles(self) -> CoreCycles:
        arrays, stage, core = self.arrays, self.stage, self.core
        ones = np.ones(self.shape)
        registers = dict(self.parts)  # vectors, or single steps, of each kind of tile
        for axis, vector in self.is_vector.items():
            size = self.parts[axis]
            registers[axis] = np.where(vector, np.ceil(size / self.lanes), size)
        chains, copies, vectors = ones, ones, ones
        rows_joined = ones  # accumulators per output element are joined at the end of a tile
        along_reduced = np.zeros(self.arrays.count, np.bool_)
        for axis, count in registers.items():
            vector = self.is_vector.get(axis)
            if vector is not None:
                vectors = vectors * np.where(vector, count, 1.0)
            if axis in self.reduced:
                chains = chains * np.where(vector, count, 1.0) if vector is not None else chains
                copies = copies * (np.where(vector, 1.0, count) if vector is not None else count)
                along_reduced = along_reduced | (vector if vector is not None else False)
            else:
                chains = chains * count
                rows_joined = rows_joined * count
        steps, tiles = self._steps()
        is_reduction = stage.combiner is not None
        operations = chains * copies
        loads, taken, shuffles, gathered, live, held, shared, kept = self._loads(registers, vectors)
        work = vector_work(stage)
        stores, transposed_stores = self._stores(chains)
        if not is_reduction:  # every step stores what it has computed
            shuffles = shuffles + transposed_stores
        matrix = self.arrays.matrix & is_reduction
        rate = np.where(matrix, 1.0 / core.matrix_rows, 1.0)
        width = self._width()
        arithmetic = operations * work * rate / core.fma_ports * width
        written = operations * work * rate + loads + shuffles
        written = written if is_reduction else written + stores
        taken = taken * width
        shuffle_cycles = shuffles / core.shuffles * width
        front = written / core.issue
        latency = copies * core.fma_latency if is_reduction else 0.0 * ones
        latency = np.where(matrix, 0.0, latency)
        if is_reduction:
            wanted = chains + np.minimum(live, held + 1)
        else:
            wanted = live + 2 * work
        wanted = np.where(matrix, 0.0, wanted)
        there_are = self.target.vector_registers
        # Vectors of a map keep nothing but constants, which LLVM can load again. Single elements
        # wait for each other besides: fitted.
        is_map = np.any([*self.is_vector.values()], axis=0) & (not is_reduction)
        each = np.where(is_map, core.reload * chains, core.spill)
        spilled = np.maximum(0.0, wanted - there_are) * each
        # Every iteration of the innermost serial loop, and the beginning and end of a tile.
        around = core.iteration * ones
        begin = np.where(tiles > 0, core.tile if is_reduction else 0.0, 0.0)
        if is_reduction:
            # Without a reduced loop the next tile begins before this one ends, and what tiles read
            # several times is kept.
            is_unrolled = np.all([self.size[a] >= self.extents[a] for a in self.reduced], axis=0)
            latency = np.where(is_unrolled, 0.0, latency)
            begin = np.where(is_unrolled & (tiles > 0), core.unrolled_tile, begin)
            over = np.maximum(0.0, chains + shared + kept + core.temporaries - there_are)
            reloads = np.maximum(0.0, over - kept) * chains * core.reload
            over = np.minimum(over, kept) * core.spill + reloads
            spilled = np.where(is_unrolled, over, spilled)
            # A short loop's end is foretold, and it leaves the core busy: only a burst of stores
            # keeps the next tile waiting.
            length = prod(self.extents[a] for a in self.reduced)
            short = ~is_unrolled & (length <= core.foretold)
            burst = core.unrolled_tile + core.burst * np.maximum(0.0, stores - core.held_stores)
            begin = np.where(short, burst, begin)
            crowd = np.where(transposed_stores > 0, chains + self.lanes, 0.0)
            begin = begin + core.spill * np.maximum(0.0, crowd - there_are)
            joins = np.log2(max(2, self.lanes)) * core.lane_join
            begin = begin + np.where(along_reduced, rows_joined * joins, 0.0)
            begin = begin + np.where(short, 0.0, stores / core.loads)
            begin = begin + transposed_stores / core.shuffles
            around = around + np.where(is_unrolled, 0.0, core.hidden_load * taken)
            around = np.where(short, 0.0, around)
        busy = np.maximum.reduce([arithmetic, taken, shuffle_cycles, front, latency])
        total = steps * (busy + spilled + around) + tiles * begin
        share = computed_share(arrays, stage)

        def summed(value: FloatArray) -> FloatArray:
            return np.asarray(value.sum(axis=0) if share is None else (value * share).sum(axis=0))

        first = np.argmax(steps > 0, axis=0)
        rows = np.arange(self.arrays.count)

        def whole(value: FloatArray) -> FloatArray:
            return np.asarray(np.broadcast_to(value, self.shape)[first, rows])

        lanes_run = np.ones(self.arrays.count)
        for axis, vector in self.is_vector.items():
            filled = self.counts[axis] * registers[axis]
            used = self.extents[axis] / np.maximum(1.0, self._axis_sum(filled, axis) * self.lanes)
            lanes_run = lanes_run * np.where(vector, np.minimum(1.0, used), 1.0)
        return CoreCycles(
            cycles=summed(total),
            arithmetic=summed(steps * arithmetic),
            loads=summed(steps * taken),
            shuffles=summed(steps * shuffle_cycles),
            front=summed(steps * front),
            latency=summed(steps * latency),
            spilled=summed(steps * spilled),
            loop=summed(steps * around + tiles * begin),
            tails=summed(total) - summed(total[:1]),
            vectors=whole(vectors),
            tile=whole(chains),
            copies=whole(copies),
            loaded=whole(loads),
            gathered=whole(gathered),
            wanted=whole(wanted),
            instructions=whole(written),
            tiles=summed(tiles),
            steps=summed(steps),
            waste=1.0 - lanes_run,
        )

    def _width(self) -> FloatArray:
        """Returns the share of a unit's time that a vector takes: a half where all of them have
        half of the lanes, or a quarter, and longer ones are executed in two halves. Other short
        ones are masked."""
        width = np.ones(self.arrays.count)
        for axis, vector in self.is_vector.items():
            length = self.extents[axis]
            if self.core.halved and length < self.lanes and self.lanes % length == 0:
                width = np.where(vector, 0.5, width)
        return width

    def _axis_sum(self, filled: FloatArray, axis: str) -> FloatArray:
        """Sums what both kinds of tiles along one axis take."""
        if len(self.counts[axis]) == 1:
            return np.asarray(filled[0])
        sizes, places = self.parts[axis], [0]
        for place in range(1, len(sizes)):
            if (sizes[place] != sizes[0]).any():
                places.append(place)
                break
        return np.asarray(filled[places].sum(axis=0))

    def _steps(self) -> tuple[FloatArray, FloatArray]:
        """Returns how often the body of each kind of tile runs, and how many tiles there are."""
        arrays = self.arrays
        steps, spatial = np.ones(self.shape), np.ones(self.shape)
        for axis, count in self.counts.items():
            steps = steps * count
            if axis not in self.reduced:
                spatial = spatial * count
        if self.stage.combiner is None:
            return steps, steps
        # A tile is begun again for every block of a reduced loop around it.
        depth = arrays.depths[self.stage.name]
        blocks = np.ones(arrays.count)
        for axis in self.reduced:
            for slot in arrays.slots_of[axis]:
                outside = (slot < depth) & arrays.serial[slot]
                blocks = blocks * np.where(outside, arrays.extent[slot], 1)
        return steps, np.minimum(steps, spatial * blocks)

    def _loads(
        self, registers: Mapping[str, FloatArray], vectors: FloatArray
    ) -> tuple[FloatArray, ...]:
        """Returns loads, their cycles, shuffles and gathered loads of one step, the registers of
        all operands and of vectors that rows share, and where no reduced loop is left those of what
        all rows read, and of what is put together by shuffles for all iterations but those of the
        first reduced loop."""
        rows = [a.name for a in self.stage.axes if a.name not in self.is_vector]
        first = next((self.size[a] for a in self.arrays.axes if a in self.reduced), 1)
        shared, kept, loads, taken, shuffles = (np.zeros(self.shape) for _ in range(5))
        gathered, live, most = np.zeros(self.shape), np.zeros(self.shape), vectors
        for access in self.accesses:
            count = self._places(access)
            each, shuffle, moves = np.ones(self.shape), np.zeros(self.shape), np.zeros(self.shape)
            for axis, vector in self.is_vector.items():
                if access.lane_stride(axis, self.lanes) == 0:
                    continue
                load, pick = self._vector(access, axis, access.stride(axis))
                packed = self._in_panels(access.buffer, axis)
                if packed.any():  # where an axis moves an index by more than one, so do panels
                    inside = self._vector(access, axis, index_step(self.stage, access.buffer, axis))
                    load, pick = (np.where(packed, *both) for both in zip(inside, (load, pick)))
                crossing = np.where(packed, 1.0, 1.0 + self._crossing(access, axis))
                each = each * np.where(vector, registers[axis] * load, 1.0)
                picks = np.where(vector, registers[axis] * pick, 0.0)
                shuffle = shuffle + picks
                moves = np.maximum(moves, np.where(vector, crossing, 0.0))
            loads = loads + count * each
            time = np.where(moves > 0, moves / self.core.loads, 1.0 / self.core.broadcasts)
            taken = taken + count * each * time
            if any(access.depends(a) for a in rows):
                held = count * np.minimum(each, vectors) / first
                kept = kept + np.where(shuffle > 0, held, 0.0)
            elif len(self.accesses) > 1:
                shared = shared + count * each
            shuffles = shuffles + count * shuffle
            gathered = gathered + np.where(shuffle > 0, count * each, 0.0)
            alone = len(self.accesses) == 1
            several = [self.parts[a] for a in rows if access.depends(a)]
            part = vectors * prod(several) if len(several) < len(rows) else vectors
            live = live + np.where((moves > 0) & (not alone), part, 1.0)
            most = np.where(moves > 0, np.maximum(most, part), most)
        return loads, taken, shuffles, gathered, live, most, shared, kept

    def _in_panels(self, buffer: str, axis: str) -> BoolArray:
        """True for rows in whose panels of an operand an axis is contiguous: that which they are
        cut along, or any in panels that are one element wide."""
        packed = np.zeros(self.arrays.count, np.bool_)
        for panels in self.arrays.panels.get(buffer, ()):
            packed |= (panels.tile > 0) if panels.axis == axis else (panels.tile == 1)
        return packed

    def _crossing(self, access: Access, axis: str) -> float:
        """Returns the share of an operand's vectors that lie in two cache lines: all but one of the
        places to which other axes move them, in a line."""
        step, places = self.lanes, 1
        for other, extent in self.extents.items():
            stride = access.stride(other) or 0
            if other != axis and stride % step and extent > 1:
                places *= extent
                step = gcd(step, stride)
        return 1.0 - 1.0 / min(places, self.lanes // step)

    def _places(self, access: Access) -> FloatArray:
        """Returns the elements, or vectors, of an operand that a step reads along all axes but that
        of the vectors. Windows that overlap are read once: their strides are near each other."""
        moving: list[tuple[int, FloatArray]] = []
        count = np.ones(self.shape)
        for axis, size in self.parts.items():
            if not access.depends(axis) or not (self.size[axis] > 1).any():
                continue
            if axis in self.is_vector:
                size = np.where(self.is_vector[axis], 1.0, size)
            stride = access.stride(axis)
            if stride is None:
                run = access.runs.get(axis, 1)
                is_even = (size % run == 0) | (run % size == 0)
                # A tile that does not divide a run has its iterations at different places of it.
                count = count * np.where(is_even, np.ceil(size / run), size)
            else:
                moving.append((abs(stride), size))
        span, base = np.ones(self.shape), 0
        for stride, size in sorted(moving, key=lambda item: item[0]):
            ratio = stride // base if base and stride % base == 0 else 0
            if 0 < ratio <= span.max():
                span = np.where(ratio <= span, span + (size - 1) * ratio, span * size)
            else:
                count, span, base = count * span, size, stride
        return count * span

    def _vector(self, access: Access, axis: str, step: int | None) -> tuple[FloatArray, FloatArray]:
        """Returns the loads and shuffles that put one vector of an operand together, whose elements
        lie ``step`` apart (None: irregularly)."""
        lanes, ones = self.lanes, np.ones(self.shape)
        if step is None:
            return (2.0 * ones, ones) if axis in access.runs else (lanes * ones, lanes * ones)
        if step in (1, -1):
            return ones, (0.0 if step == 1 else 1.0) * ones
        if abs(step) <= MAX_WINDOWS:
            # Several windows take their lanes from the same loads.
            taps = [a for a in self.reduced if 0 < abs(access.stride(a) or 0) < abs(step)]
            shared = ones
            for tap in taps:
                windows = abs(step) // abs(access.stride(tap) or 1)
                shared = shared * np.ceil(self.size[tap] / windows) / self.size[tap]
            return abs(step) * shared, (abs(step) - 1.0) * ones
        row = next((a for a in self.extents if a != axis and access.stride(a) == 1), None)
        if row is None:
            return lanes * ones, lanes * ones
        # A block of ``lanes`` rows of the operand is transposed: it gives as many vectors as fit.
        size = self.parts[axis]
        block = np.maximum(1, np.minimum(self.parts[row], lanes))
        transposed = block * np.minimum(size, lanes) * SPARSE_BLOCK >= lanes * lanes
        each = np.minimum(size, lanes) / block
        shuffles_each = lanes * np.log2(max(2, lanes)) / block
        return np.where(transposed, each, lanes), np.where(transposed, shuffles_each, lanes)

    def _stores(self, chains: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns the stores of one tile, and the shuffles where lanes lie across the result."""
        last = self.stage.axes[-1].name if self.stage.axes else ""
        across = np.zeros(self.arrays.count, np.bool_)
        for axis, vector in self.is_vector.items():
            if axis != last and axis not in self.reduced:
                across = across | vector
        if not across.any() or last not in self.parts:
            return chains, np.zeros(self.shape)
        run = np.maximum(1.0, self.parts[last])
        blocks = chains / run * np.ceil(run / self.lanes) * self.lanes
        transposed_stores = np.where(across, blocks, chains)
        return transposed_stores, np.where(
            across, transposed_stores * np.log2(max(2, self.lanes)), 0.0
        )

"""Emits LLVM text for the statements of a loop nest.

Unrolled and vectorised loops are unrolled here, with vectors of the target's native width; register
buffers become SSA values, carried through serial loops by phis. A parallel loop becomes a function
of its own that the thread pool calls with a range of iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ...ir.dims import IntExpr, as_int, bounds, substitute, symbol
from ...ir.errors import ScheduleError
from ...ir.loop.expr import Expr, Op, Read, index_value, walk
from ...ir.loop.kinds import Instruction, LoopKind, Scope
from ...ir.loop.nest import (
    Accumulate,
    Alloc,
    At,
    If,
    Intrinsic,
    Let,
    Loop,
    Prefetch,
    Sort,
    Stmt,
    Store,
    statements,
)
from ...ir.loop.scalar import COMBINERS
from ...ir.loop.stride import moves_by_sizes, stride_along
from ...ir.schedule.limits import LIMITS
from ..target import Target
from .access import element_bytes, is_below, is_long, is_smooth, mentions, register_axis
from .cover import SPARSE_BLOCK
from .dots import emit_dot, store_interleaved
from .memory import Env, Lanes, Place
from .registers import SHORTEST, Registers, lanes_for
from .scalars import literal
from .tiles import TileSums, tile_sums
from .together import joint_stores, store_together
from .transpose import transpose, transposing_function
from .writer import FunctionWriter, Value
from .writes import WriteEmitter

NOT_IN_VECTORS = "a vectorised loop holds only stores and unrolled loops"
MAX_REGISTER_ELEMENTS = 4096  # a larger tile is an array on the stack


class ParallelHook(Protocol):
    """Emitter of the function of a parallel loop."""

    def write(self, outer: NestEmitter, loop: Loop) -> None: ...


class NestEmitter(WriteEmitter):
    """Writes the body of one kernel function (or of one of its parallel loops)."""

    def __init__(
        self,
        target: Target,
        writer: FunctionWriter,
        places: Mapping[str, Place],
        sizes: Mapping[str, Value],
        functions: dict[str, str],
        parallel: ParallelHook | None,
    ) -> None:
        super().__init__(target, writer, places, functions)
        self.sizes = dict(sizes)  # the values of symbolic sizes by name
        self.parallel = parallel
        self.tiles: dict[str, TileSums] = {}  # buffers in tile registers
        self.stack_bytes = 0
        self.stack: dict[str, tuple[int, Place]] = {}  # bytes and place, by a private buffer's name
        self.copies: dict[int, tuple[Loop, Loop | None]] = {}  # by a loop's identity
        self.blocks: dict[tuple[str, int], Value] = {}  # rows of blocks, by type and count
        self.native = target.lanes(4)
        # Caches by the identity of a statement: unrolled loops emit it many times.
        self.moving: dict[int, frozenset[str]] = {}
        self.joining: dict[int, bool] = {}  # by the identity of a vector loop
        self.vectors: dict[tuple[int, int, int], tuple[Loop, list[Lanes]]] = {}  # and by lanes
        self.writes: dict[int, Sequence[Store | Accumulate | Sort]] = {}  # by that of a body
        self.joint: dict[int, dict[int, tuple[Loop, ...]]] = {}

    # -- statements ----------------------------------------------------------------------------

    def roots(self, stmts: Sequence[Stmt]) -> None:
        """Write a whole kernel, with as many lanes as hold the widest element in a vector loop.

        Elements of less than four bytes fill vectors only where all of them are contiguous.
        """
        vectors = [
            (loop.var, inner)
            for loop in statements(tuple(stmts))
            if isinstance(loop, Loop) and loop.kind == LoopKind.VECTORIZE
            for inner in statements(loop.body)
        ]
        least = 1 if vectors and all(is_smooth(inner, var) for var, inner in vectors) else 4
        self.native = self.target.lanes(max([least, *(element_bytes(s) for _, s in vectors)]))
        self.body(stmts, Env(self.sizes))

    def body(self, stmts: Sequence[Stmt], env: Env) -> None:
        """Write the statements of one body; buffers allocated in it end with it."""
        outer_places, outer_registers = dict(self.places), dict(self.registers)
        joint = joint_stores(self, stmts)
        for position, stmt in enumerate(stmts):
            if id(stmt) in joint:
                store_together(self, joint[id(stmt)], env)
            elif isinstance(stmt, Alloc):
                self.alloc(stmt, stmts[position + 1 :])
            elif isinstance(stmt, Let):
                env = env.bind(stmt.var, self.memory.known(stmt.value, env))
                self._let_range(stmt)
            elif isinstance(stmt, At):
                self.at(stmt, env)
            elif isinstance(stmt, Loop):
                self.loop(stmt, env)
            elif isinstance(stmt, If):
                self.condition(stmt, env)
            elif isinstance(stmt, Store):
                self.store(stmt, env)
            elif isinstance(stmt, Prefetch):
                self.prefetch(stmt, env)
            elif isinstance(stmt, Sort):
                self.sort(stmt, env)
            else:
                self.accumulate(stmt, env)
        self.places = outer_places
        self.registers = outer_registers

    def _let_range(self, stmt: Let) -> None:
        inside = bounds(stmt.value, self.ranges)
        if inside is not None:
            self.ranges[stmt.var] = inside
        elif stmt.extent is not None:
            self.ranges[stmt.var] = (0, self._most(stmt.extent) - 1)
        else:
            self.ranges.pop(stmt.var, None)  # a loop may reuse a variable's name

    def alloc(self, stmt: Alloc, rest: Sequence[Stmt]) -> None:
        buffer = stmt.buffer
        self.places.pop(buffer.name, None)
        self.registers.pop(buffer.name, None)
        count = self._most(buffer.size)  # the stack has room for any size
        self.tiles.pop(buffer.name, None)
        tiles = tile_sums(self, stmt, rest) if stmt.scope == Scope.TILES else None
        if tiles is None and count <= MAX_REGISTER_ELEMENTS and isinstance(buffer.size, int):
            layout = register_axis(buffer, rest)
            if layout is not None:
                axis, vectors = layout
                held = self.registers[buffer.name] = Registers(buffer, axis)
                held.lanes = self._lanes_for(held.width) if vectors else held.lanes
                return
        place = Place(buffer, Value("", "ptr"), True)
        size = count * buffer.dtype.bytes
        before = self.stack.get(buffer.name)
        if before is not None and size <= before[0]:
            # The array of another copy of the loop (a split's tail), which no longer uses it.
            place.base, place.version = before[1].base, before[1].version + 1
            self.stack[buffer.name] = before[0], place
        else:
            self.stack_bytes += size
            if self.stack_bytes > LIMITS.stack_bytes:
                raise ScheduleError(
                    f"private buffers take more than {LIMITS.stack_bytes} bytes of stack"
                )
            place.base = self.w.alloca(place.type, count)
            self.stack[buffer.name] = size, place
        self.places[buffer.name] = place
        if tiles is not None:
            self.tiles[buffer.name] = tiles

    def _lanes_for(self, width: int) -> int:
        return lanes_for(width, self.native)

    def loop(self, stmt: Loop, env: Env) -> None:
        last = self._most(stmt.extent) - 1
        if last < 0:
            return
        if isinstance(stmt, Intrinsic) and self.tile_intrinsic(stmt, env):
            return
        self.ranges[stmt.var] = (0, last)
        if stmt.kind == LoopKind.VECTORIZE:
            self.vector_loop(stmt, env)
        elif stmt.kind == LoopKind.UNROLL:
            if self.transposed_stores(stmt, env) or self.transposed_copy(stmt, env):
                return
            if is_long(stmt, self.registers, self.native):
                self.serial_loop(stmt, env)
                return
            for i in range(as_int(stmt.extent)):
                self.body(stmt.body, env.bind(stmt.var, i))
        elif stmt.kind == LoopKind.PARALLEL and self.parallel is not None and self._is_root(env):
            self.parallel.write(self, stmt)
        else:
            self.serial_loop(stmt, env)

    def _is_root(self, env: Env) -> bool:
        """True outside of all loops, where nothing but sizes is bound."""
        return len(env.values) == len(self.sizes)

    def _most(self, expr: IntExpr) -> int:
        """Returns the greatest value of a size."""
        if isinstance(expr, int):
            return expr
        inside = bounds(expr, self.ranges)
        assert inside is not None, f"the range of {expr} is not known"
        return inside[1]

    def tile_intrinsic(self, stmt: Intrinsic, env: Env) -> bool:
        """Write an intrinsic on a buffer in tile registers. False if its loops are to be written:
        the buffer is somewhere else, where it need not be stored."""
        written = {s.buffer for s in self._writes(stmt.body)}
        tiles = [self.tiles[name] for name in written if name in self.tiles]
        for sums in tiles:
            sums.write(self, stmt.instruction, env)
        return bool(tiles) or stmt.instruction == Instruction.AMX_STORE

    def transposed_stores(self, stmt: Loop, env: Env) -> bool:
        """Emits an unrolled loop whose iterations store vectors with strided lanes at adjacent
        elements: transposes the vectors of several iterations in registers and stores them whole.

        Vectors that are long to compute, or lie in memory, become the rows of a block there, which
        one function transposes. Returns False, and emits nothing, if the loop does not have this
        form.
        """
        inner = _only_vectors(stmt)
        if inner is None:
            return False
        lanes = self._lanes_for(inner.trips)
        stores: list[tuple[Store, Place, IntExpr]] = []
        for store in inner.body:
            if not isinstance(store, Store) or store.buffer not in self.places or lanes == 1:
                return False
            place = self.places[store.buffer]
            flat = self.memory.flat_index(place, store.indices)
            if place.buffer.dtype.is_bool or not _is_transposed(flat, inner.var, stmt.var):
                return False
            stores.append((store, place, flat))
        stored = {store.buffer for store, _, _ in stores}
        read = {n.buffer for s, _, _ in stores for n in walk(s.value) if isinstance(n, Read)}
        if len(stored) < len(stores) or stored & read:
            return False
        for inside in self.vectors_of(inner, env, lanes, least=lanes):
            assert inside.lanes is not None
            for store, place, flat in stores:
                for start in range(0, stmt.trips, lanes):
                    count = min(lanes, stmt.trips - start)
                    block = self._in_memory(store.value, stmt, inside, start)
                    if block is not None:
                        columns = self._rows(place, flat, inner.var, inside.bind(stmt.var, start))
                        shape = (count, inside.lanes.active)
                        self._transpose(place, lanes, shape, block, columns)
                        continue
                    rows = [
                        self.w.splat(self.value(store.value, inside.bind(stmt.var, t)), lanes)
                        for t in range(start, start + count)
                    ]
                    for lane, column in enumerate(transpose(self.w, rows)[: inside.lanes.active]):
                        here = inside.lane(lane).bind(stmt.var, start)
                        address = self.memory.address(place, flat, here)
                        self.memory.store(place, address, column, count)
        return True

    def _in_memory(
        self, value: Expr, loop: Loop, env: Env, start: int
    ) -> tuple[Value, Value] | None:
        """Returns the rows of a block in memory, which are the values of iterations from ``start``
        on; None if they are rather held in registers."""
        assert env.lanes is not None
        lanes, count = env.lanes.lanes, min(env.lanes.lanes, loop.trips - start)
        if isinstance(value, Read):
            place, indices = self.places.get(value.buffer), value.plain_indices
            if place is None or len(indices) < len(value.indices) or count < SHORTEST:
                return None
            flat = self.memory.flat_index(place, indices)
            if stride_along(flat, env.lanes.var) != 1 or stride_along(flat, loop.var) is None:
                return None
            return self._rows(place, flat, loop.var, env.bind(loop.var, start))
        if not is_long(loop, self.registers, self.native):
            return None
        type, size = value.dtype.llvm, lanes * value.dtype.bytes
        key = (type, count)
        if key not in self.blocks:
            self.blocks[key] = self.w.alloca(type, lanes * count)

        def row(index: Value, _: dict[str, Value]) -> dict[str, Value]:
            at = self.w.offset(self.blocks[key], type, self.w.scale(index, lanes), 0)
            index = self.w.add(index, self.w.int(start))
            wide = self.w.splat(self.value(value, env.bind(loop.var, index)), lanes)
            self.w.line(f"store {wide}, {at}, align {size}")
            return {}

        self.w.loop(count, {}, row)
        return self.blocks[key], self.w.int(size)

    def transposed_copy(self, stmt: Loop, env: Env) -> bool:
        """The same for an unrolled loop that copies vectors with strided lanes from adjacent
        elements: with its loops in each other's place, the stores are strided."""
        entry = self.copies.get(id(stmt))
        if entry is None:
            inner, copy = _only_vectors(stmt), None
            if inner is not None and all(self._is_copy(inside, stmt.var) for inside in inner.body):
                vectors = Loop(LoopKind.VECTORIZE, stmt.var, stmt.extent, inner.body)
                if self._lanes_for(stmt.trips) * SPARSE_BLOCK >= self._lanes_for(inner.trips):
                    copy = Loop(LoopKind.UNROLL, inner.var, inner.extent, (vectors,))
            entry = self.copies[id(stmt)] = stmt, copy
        return entry[1] is not None and self.transposed_stores(entry[1], env)

    def _is_copy(self, stmt: Stmt, var: str) -> bool:
        """True if a statement copies from memory, adjacent elements in the iterations of a loop."""
        value = stmt.value if isinstance(stmt, Store) and not stmt.stream else None
        if not isinstance(value, Read) or value.buffer not in self.places:
            return False
        indices = value.plain_indices
        if len(indices) < len(value.indices):  # data decides where it is
            return False
        return stride_along(self.memory.flat_index(self.places[value.buffer], indices), var) == 1

    def _rows(self, place: Place, flat: IntExpr, var: str, env: Env) -> tuple[Value, Value]:
        """The address of an element, and how many bytes further it is in the next iteration."""
        step = substitute(flat, {var: symbol(var) + 1}) - flat
        address = self.memory.address(place, flat, env)
        return address, self.memory.index(step * place.buffer.dtype.bytes, env)

    def _transpose(
        self,
        place: Place,
        lanes: int,
        shape: tuple[int, int],
        rows: tuple[Value, Value],
        columns: tuple[Value, Value],
    ) -> None:
        """Calls the function that copies a block to its transposed one in ``place``."""
        dtype = place.buffer.dtype
        symbol, text, declarations = transposing_function(self.target, dtype, lanes, *shape)
        self.scalars.functions[symbol] = text
        self.w.calls |= declarations
        self.w.line(f"call void @{symbol}({', '.join(map(str, (*rows, *columns)))})")
        place.version += 1

    def serial_loop(self, stmt: Loop, env: Env) -> None:
        written = {s.buffer for s in self._writes(stmt.body)}
        self.touch(written)
        local = {s.buffer.name for s in statements(stmt.body) if isinstance(s, Alloc)}
        # In the order of declaration: the order of a set differs from process to process.
        held = {n: r for n, r in self.registers.items() if n in written and n not in local}
        carried = {(name, key): v for name, r in held.items() for key, v in r.values.items()}

        def body(
            index: Value, values: dict[tuple[str, int], Value]
        ) -> dict[tuple[str, int], Value]:
            for (name, key), value in values.items():
                held[name].values[key] = value
            self.body(stmt.body, env.bind(stmt.var, index))
            return {(name, key): v for name, r in held.items() for key, v in r.values.items()}

        extent, least = stmt.extent, bounds(stmt.extent, self.ranges)
        count = extent if isinstance(extent, int) else self.memory.index(extent, env)
        if isinstance(count, int) or (least is not None and least[0] >= 1):
            ends = self.w.loop(count, carried, body)
        else:
            ends = self.w.loop_if_any(count, carried, body)
        for (name, key), value in ends.items():
            held[name].values[key] = value
        for registers in held.values():
            registers.leave(self.w.depth)
        self.touch(written)

    def vector_loop(self, stmt: Loop, env: Env) -> None:
        lanes = self.lanes_of(stmt)
        if lanes == 1 and not isinstance(stmt.extent, int):
            self.serial_loop(stmt, env)
            return
        if lanes == 1:
            for i in range(stmt.trips):
                self.body(stmt.body, env.bind(stmt.var, i))
            return
        if self._joins(stmt):
            self.join_lanes(stmt, env, lanes)
            return
        for vector in self.vectors_of(stmt, env, lanes):
            for inner in stmt.body:
                self.vector_statement(inner, vector)

    def vectors_of(self, stmt: Loop, env: Env, lanes: int, least: int = SHORTEST) -> list[Env]:
        """The environment of each vector of a vector loop; of a symbolic extent, with masks. The
        last vector has no more than ``lanes`` and no fewer than ``least`` lanes."""
        width = self._most(stmt.extent)
        self.ranges[stmt.var] = (0, width - 1)
        key = (id(stmt), lanes, least)
        kept, vectors = self.vectors.get(key, (None, []))
        if kept is None:
            held = [self.registers[n].width for n in self._moving_with(stmt) & set(self.registers)]
            most = max([width, *held])  # the last vectors of the registers' rows are as short
            self.vectors[key] = stmt, vectors
            for offset in range(0, width, lanes):
                count = lanes_for(most - offset, lanes, min(lanes, least))
                vectors.append(Lanes(stmt.var, offset, count, min(count, width - offset)))
        if isinstance(stmt.extent, int):
            return [Env(env.values, vector) for vector in vectors]
        masked: list[Env] = []
        for vector in vectors:
            left = self.memory.index(stmt.extent - vector.offset, env)
            mask = self.memory.lanes_before(left, vector.lanes)
            masked.append(Env(env.values, replace(vector, mask=mask)))
        return masked

    def _joins(self, stmt: Loop) -> bool:
        """True if a vector loop adds its lanes up."""
        joins = self.joining.get(id(stmt))
        if joins is None:
            inside = self._writes(stmt.body)
            joined = [
                s
                for s in inside
                if isinstance(s, Accumulate) and not any(mentions(i, stmt.var) for i in s.indices)
            ]
            if joined and len(joined) < len(inside):
                raise ScheduleError("a vector loop both joins its lanes and stores them")
            joins = self.joining[id(stmt)] = bool(joined)
        return joins

    def _writes(self, body: tuple[Stmt, ...]) -> Sequence[Store | Accumulate | Sort]:
        """Returns the statements of a body that write; unrolled loops ask again and again."""
        writes = self.writes.get(id(body))
        if writes is None:
            writes = [s for s in statements(body) if isinstance(s, Store | Accumulate | Sort)]
            self.writes[id(body)] = writes
        return writes

    def lanes_of(self, stmt: Loop) -> int:
        """Returns the number of lanes of the vectors of a vector loop."""
        width = self._most(stmt.extent)
        for name in self._moving_with(stmt):
            if name in self.registers:
                width = max(width, self.registers[name].width)
        return self._lanes_for(width)

    def _moving_with(self, loop: Loop) -> frozenset[str]:
        """The buffers of which a loop's iterations use different elements."""
        moving = self.moving.get(id(loop))
        if moving is None:
            names: set[str] = set()
            for inner in statements(loop.body):
                if isinstance(inner, Store | Accumulate):
                    uses = [(n.buffer, n.indices) for n in walk(inner.value) if isinstance(n, Read)]
                    for name, indices in ((inner.buffer, inner.indices), *uses):
                        if any(mentions(i, loop.var) for i in indices):
                            names.add(name)
            moving = self.moving[id(loop)] = frozenset(names)
        return moving

    def vector_statement(self, stmt: Stmt, env: Env) -> None:
        if isinstance(stmt, Loop) and stmt.kind == LoopKind.UNROLL:
            count = as_int(stmt.extent)
            self.ranges[stmt.var] = (0, count - 1)
            if isinstance(stmt, Intrinsic) and self.target.has_dots and emit_dot(self, stmt, env):
                return
            if store_interleaved(self, stmt, env):
                return
            for i in range(count):
                for inner in stmt.body:
                    self.vector_statement(inner, env.bind(stmt.var, i))
        elif isinstance(stmt, Store):
            self.store(stmt, env)
        elif isinstance(stmt, Accumulate):
            self.accumulate(stmt, env)
        elif isinstance(stmt, Prefetch):
            self.prefetch(stmt, env)
        else:
            raise ScheduleError(NOT_IN_VECTORS)

    def join_lanes(self, loop: Loop, env: Env, lanes: int) -> None:
        """Reductions over the lanes of a vector loop: joined vector by vector, then in a tree."""
        totals: dict[object, tuple[Accumulate, Env, Value]] = {}  # by statement and element
        for inside in self.vectors_of(loop, env, lanes, least=lanes):
            assert inside.lanes is not None
            active, mask = inside.lanes.active, inside.lanes.mask
            for stmt, here in self._unrolled_reductions(loop.body, inside):
                combiner, dtype = COMBINERS[stmt.combiner], stmt.value.dtype
                value = self.w.splat(self.value(stmt.value, here), lanes)
                if active < lanes or mask is not None:
                    identity = self.w.splat(literal(combiner.identity(dtype), dtype), lanes)
                    some = mask or self.memory.active_mask(lanes, active)
                    value = self.w.select(some, value, identity)
                key = (id(stmt), *(self.memory.index_value(i, here) for i in stmt.indices))
                if key in totals:
                    value = self.scalars.combine(combiner.op, totals[key][2], value, dtype)
                totals[key] = stmt, Env(here.values), value
        for stmt, here, total in totals.values():
            op, dtype = COMBINERS[stmt.combiner].op, stmt.value.dtype
            joined = self.scalars.horizontal(op, total, dtype)
            old = self.current(stmt.buffer, stmt.indices, here)
            joined = self.scalars.combine(op, old, joined, dtype)
            self.assign(stmt.buffer, stmt.indices, joined, here)

    def _unrolled_reductions(
        self, body: Sequence[Stmt], env: Env
    ) -> Iterator[tuple[Accumulate, Env]]:
        """The reductions in the unrolled loops of a vector loop, in order."""
        for stmt in body:
            if isinstance(stmt, Accumulate):
                yield stmt, env
            elif isinstance(stmt, Loop) and stmt.kind == LoopKind.UNROLL:
                count = as_int(stmt.extent)
                self.ranges[stmt.var] = (0, count - 1)
                for i in range(count):
                    yield from self._unrolled_reductions(stmt.body, env.bind(stmt.var, i))
            elif not isinstance(stmt, Prefetch):
                raise ScheduleError(NOT_IN_VECTORS)

    def at(self, stmt: At, env: Env) -> None:
        """Write the chosen iteration, under the condition that there is one."""
        chosen = self.value(stmt.value, env)
        inner = env.bind(stmt.var, chosen)
        ranges = dict(self.ranges)
        self.ranges[stmt.var] = (0, self._most(stmt.extent) - 1)
        if isinstance(stmt.extent, int) and is_below(stmt.value, stmt.extent):
            self.body(stmt.body, inner)
        else:
            written = {s.buffer for s in self._writes(stmt.body)}
            self.touch(written)
            extent = self.memory.index(stmt.extent, env)
            test = self.w.op("icmp ult", chosen, extent, type="i1")
            self.w.branch(test, lambda: self.body(stmt.body, inner), None)
            self.touch(written)
        self.ranges = ranges

    def condition(self, stmt: If, env: Env) -> None:
        test = self.value(stmt.condition, env)
        if test.name in ("true", "false"):
            self.body(stmt.then if test.name == "true" else stmt.orelse, env)
            return
        written = {s.buffer for s in (*self._writes(stmt.then), *self._writes(stmt.orelse))}
        self.touch(written)
        ranges = self.ranges

        def branch(body: Sequence[Stmt], holds: bool) -> None:
            self.ranges = _ranges_where(stmt.condition, holds, ranges)
            self.body(body, env)

        otherwise = (lambda: branch(stmt.orelse, False)) if stmt.orelse else None
        self.w.branch(test, lambda: branch(stmt.then, True), otherwise)
        self.ranges = ranges
        self.touch(written)


def _ranges_where(
    condition: Expr, holds: bool, ranges: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Returns the variables' ranges where a condition holds, or does not: a comparison with a
    number, which parts whole tiles from the last one, narrows that of one."""
    inside = dict(ranges)
    if isinstance(condition, Op) and condition.name == "less":
        var, end = (index_value(a) for a in condition.args)
        first, last = ranges.get(str(var), (0, 0))
        if isinstance(end, int) and str(var) in ranges:
            inside[str(var)] = (first, min(last, end - 1)) if holds else (max(first, end), last)
    return inside


def _only_vectors(loop: Loop) -> Loop | None:
    """The vector loop that is all of the body of a loop with several iterations."""
    inner = loop.body[0] if len(loop.body) == 1 and loop.trips > 1 else None
    if isinstance(inner, Loop) and inner.kind == LoopKind.VECTORIZE:
        return inner if isinstance(inner.extent, int) else None
    return None


def _is_transposed(flat: IntExpr, lanes: str, iterations: str) -> bool:
    """True if an index moves by one in an iteration, and by more from lane to lane."""
    stride = stride_along(flat, lanes)
    far = moves_by_sizes(flat, lanes) if stride is None else stride not in (0, 1)
    return far and stride_along(flat, iterations) == 1

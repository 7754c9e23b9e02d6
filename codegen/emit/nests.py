"""Emits LLVM text for the statements of a loop nest.

Unrolled loops and vectors are copied here; register buffers become SSA values, carried through
serial loops by phis. A parallel loop becomes a function of its own that the thread pool calls with
a range of iterations. ``codegen.lower`` has said which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from ...ir.dims import IntExpr, as_int, bounds, substitute, symbol
from ...ir.errors import ScheduleError
from ...ir.loop import nest as nests
from ...ir.loop.expr import Expr, Read, is_below
from ...ir.loop.intrinsics import tile_dot_behind
from ...ir.loop.kinds import Instruction, LoopKind, Scope
from ...ir.loop.nest import Accumulate, Alloc, At, If, Intrinsic, Loop, Sort, Stmt, Store, Vectors
from ...ir.loop.scalar import COMBINERS
from ...ir.loop.stride import stride_along
from ...ir.schedule.limits import LIMITS
from ..llvm.writer import FunctionWriter, Value
from ..lower.lanes import SHORTEST
from ..lower.scope import declare_range, greatest_of, ranges_where
from ..target import Target
from .dots import emit_dot, store_interleaved
from .memory import Env, Lanes, Place
from .registers import Registers
from .scalars import literal
from .tiles import TileSums
from .transpose import transpose, transposing_function
from .writes import WriteEmitter


class NestEmitter(WriteEmitter):
    """Writes the body of one kernel function (or of one of its parallel loops)."""

    def __init__(
        self,
        target: Target,
        writer: FunctionWriter,
        places: Mapping[str, Place],
        sizes: Mapping[str, Value],
        functions: dict[str, str],
        parallel: Callable[[NestEmitter, Loop], None] | None,
    ) -> None:
        super().__init__(target, writer, places, functions)
        self.sizes = dict(sizes)  # the values of symbolic sizes by name
        self.parallel = parallel  # writes a parallel loop
        self.tiles: dict[str, TileSums] = {}  # buffers in tile registers
        self.stack_bytes = 0
        self.stack: dict[str, tuple[int, Place]] = {}  # bytes and place, by a private buffer's name
        self.blocks: dict[tuple[str, int], Value] = {}  # rows of blocks, by type and count
        # Caches by the identity of a statement: unrolled loops emit it many times.
        self.vectors: dict[int, tuple[Vectors, list[Lanes]]] = {}
        self.writes: dict[int, Sequence[Store | Accumulate | Sort]] = {}  # by that of a body

    # -- statements ----------------------------------------------------------------------------

    def body(self, stmts: Sequence[Stmt], env: Env) -> None:
        """Write the statements of one body; buffers allocated in it end with it."""
        outer_places, outer_registers = dict(self.places), dict(self.registers)
        for position, stmt in enumerate(stmts):
            if isinstance(stmt, Alloc):
                self.alloc(stmt, stmts[position + 1 :])
            elif isinstance(stmt, nests.Let):
                env = env.bind(stmt.var, self.memory.known(stmt.value, env))
                declare_range(stmt, self.ranges)
            elif isinstance(stmt, At):
                self.at(stmt, env)
            elif isinstance(stmt, Loop):
                self.loop(stmt, env)
            elif isinstance(stmt, If):
                self.condition(stmt, env)
            elif isinstance(stmt, Store):
                self.store(stmt, env)
            elif isinstance(stmt, nests.Prefetch):
                self.prefetch(stmt, env)
            elif isinstance(stmt, Sort):
                self.sort(stmt, env)
            else:
                self.accumulate(stmt, env)
        self.places = outer_places
        self.registers = outer_registers

    def alloc(self, stmt: Alloc, rest: Sequence[Stmt]) -> None:
        buffer = stmt.buffer
        self.places.pop(buffer.name, None)
        self.registers.pop(buffer.name, None)
        self.tiles.pop(buffer.name, None)
        if stmt.dim is not None:
            self.registers[buffer.name] = Registers(buffer, stmt.dim, stmt.lanes)
            return
        count = greatest_of(buffer.size, self.ranges)  # the stack has room for any size
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
        if stmt.scope == Scope.TILES:
            memory = {name: place.buffer for name, place in self.places.items()}
            dot = tile_dot_behind(stmt, rest, memory)
            assert dot is not None
            self.tiles[buffer.name] = TileSums(dot)

    def loop(self, stmt: Loop, env: Env) -> None:
        last = greatest_of(stmt.extent, self.ranges) - 1
        if last < 0:
            return
        self.ranges[stmt.var] = (0, last)
        if isinstance(stmt, Vectors):
            self.vector_loop(stmt, env)
        elif isinstance(stmt, Intrinsic):
            self.intrinsic(stmt, env)
        elif stmt.kind == LoopKind.UNROLL:
            for i in range(stmt.trips):
                self.body(stmt.body, env.bind(stmt.var, i))
        elif (
            stmt.kind == LoopKind.PARALLEL and self.parallel and len(env.values) == len(self.sizes)
        ):
            self.parallel(self, stmt)  # it is outside of all others: only sizes have values
        else:
            self.serial_loop(stmt, env)

    def intrinsic(self, stmt: Intrinsic, env: Env) -> None:
        if stmt.instruction in (Instruction.TRANSPOSE, Instruction.TRANSPOSE_ROWS):
            self.transposed_stores(stmt, env)
        else:
            for name in {s.buffer for s in self._writes(stmt.body)}:
                self.tiles[name].write(self, stmt.instruction, env)

    def transposed_stores(self, stmt: Intrinsic, env: Env) -> None:
        """Emits an unrolled loop whose iterations store vectors with strided lanes at adjacent
        elements: transposes the vectors of several iterations in registers and stores them whole.

        Vectors that lie in memory, or are computed in a loop, become the rows of a block there,
        which one function transposes.
        """
        (inner,) = stmt.body
        assert isinstance(inner, Vectors)
        lanes, stores = inner.widths[0], [s for s in inner.body if isinstance(s, Store)]
        for inside in self.vectors_of(inner, env):
            assert inside.lanes is not None
            for store in stores:
                place = self.places[store.buffer]
                flat = self.memory.flat_index(place, store.indices)
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

    def _in_memory(
        self, value: Expr, loop: Intrinsic, env: Env, start: int
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
        if loop.instruction != Instruction.TRANSPOSE_ROWS:
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
        local = {s.buffer.name for s in nests.statements(stmt.body) if isinstance(s, Alloc)}
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

    def vector_loop(self, stmt: Vectors, env: Env) -> None:
        if stmt.kind == LoopKind.REDUCE:
            self.join_lanes(stmt, env)
        elif stmt.together:
            self.store_together(stmt, env)
        else:
            for vector in self.vectors_of(stmt, env):
                for inner in stmt.body:
                    self.vector_statement(inner, vector)

    def vectors_of(self, stmt: Vectors, env: Env) -> list[Env]:
        """The environment of each vector of a vector loop; of a symbolic extent, with masks."""
        width = greatest_of(stmt.extent, self.ranges)
        self.ranges[stmt.var] = (0, width - 1)
        kept, vectors = self.vectors.get(id(stmt), (None, []))
        if kept is None:
            self.vectors[id(stmt)] = stmt, vectors
            for inside, lanes in zip(stmt.lanes(width), stmt.widths, strict=True):
                vectors.append(Lanes(stmt.var, inside.start, lanes, len(inside)))
        if isinstance(stmt.extent, int):
            return [Env(env.values, vector) for vector in vectors]
        masked: list[Env] = []
        for vector in vectors:
            left = self.memory.index(stmt.extent - vector.offset, env)
            mask = self.memory.lanes_before(left, vector.lanes)
            masked.append(Env(env.values, replace(vector, mask=mask)))
        return masked

    def _writes(self, body: tuple[Stmt, ...]) -> Sequence[Store | Accumulate | Sort]:
        """Returns the statements of a body that write; unrolled loops ask again and again."""
        writes = self.writes.get(id(body))
        if writes is None:
            writes = [s for s in nests.statements(body) if isinstance(s, Store | Accumulate | Sort)]
            self.writes[id(body)] = writes
        return writes

    def vector_statement(self, stmt: Stmt, env: Env) -> None:
        if isinstance(stmt, Loop) and stmt.kind == LoopKind.UNROLL:
            count = as_int(stmt.extent)
            self.ranges[stmt.var] = (0, count - 1)
            if isinstance(stmt, Intrinsic) and stmt.instruction == Instruction.INTERLEAVE:
                store_interleaved(self, stmt, env)
                return
            if isinstance(stmt, Intrinsic) and emit_dot(self, stmt, env):
                return
            for i in range(count):
                for inner in stmt.body:
                    self.vector_statement(inner, env.bind(stmt.var, i))
        elif isinstance(stmt, Store):
            self.store(stmt, env)
        elif isinstance(stmt, Accumulate):
            self.accumulate(stmt, env)
        elif isinstance(stmt, nests.Prefetch):
            self.prefetch(stmt, env)

    def store_together(self, loop: Vectors, env: Env) -> None:
        """Writes stores operator by operator, each for all vectors."""
        vectors = self.vectors_of(loop, env)
        memos: list[dict[object, Value]] = [{} for _ in vectors]
        for store in loop.body:
            assert isinstance(store, Store)
            self._compute_together(store.value, vectors, memos)
            for inside, memo in zip(vectors, memos, strict=True):
                self.store(store, inside, memo)

    def _compute_together(
        self, expr: Expr, vectors: Sequence[Env], memos: Sequence[dict[object, Value]]
    ) -> None:
        """Emits the operators that an expression always needs, each for all vectors at once."""
        todo = [expr]
        while todo:
            node = todo[-1]
            below = self.always_needed(node, vectors[0])
            missing = [a for a in below if (id(a), "") not in memos[0]]
            if missing:
                todo += reversed(missing)
                continue
            todo.pop()
            for env, memo in zip(vectors, memos, strict=True):
                self.value(node, env, None, memo)

    def join_lanes(self, loop: Vectors, env: Env) -> None:
        """Reductions over the lanes of a vector loop: joined vector by vector, then in a tree."""
        totals: dict[object, tuple[Accumulate, Env, Value]] = {}  # by statement and element
        parts: dict[object, list[Value]] = {}  # what is joined in the order of all schedules
        lanes, order = loop.widths[0], self.target.sums
        for inside in self.vectors_of(loop, env):
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
                if order:
                    parts.setdefault(key, []).append(value)
                elif key in totals:
                    value = self.scalars.combine(combiner.op, totals[key][2], value, dtype)
                totals[key] = stmt, Env(here.values), value
        for key, values in parts.items():
            assert order is not None
            stmt, here, _ = totals[key]
            op, dtype = COMBINERS[stmt.combiner].op, stmt.value.dtype
            combine = partial(self.scalars.combine, op, dtype=dtype)
            totals[key] = stmt, here, order.joined(values, combine)
        for _, rows in groupby(totals.values(), lambda each: id(each[0])):
            self._join_rows(list(rows))

    def _join_rows(self, rows: Sequence[tuple[Accumulate, Env, Value]]) -> None:
        """Joins the lanes of what a statement adds up, at once if that is a vector of registers."""
        (stmt, _, total), count = rows[0], len(rows)
        held, op = self.registers.get(stmt.buffer), COMBINERS[stmt.combiner].op
        combine = partial(self.scalars.combine, op, dtype=stmt.value.dtype)
        if held is not None and 1 < count == held.lanes <= total.lanes:
            lanes = [self.register_place(held, stmt.indices, here)[0] for _, here, _ in rows]
            if lanes == [*range(lanes[0], lanes[0] + count)] and lanes[0] % count == 0:
                old = held.read(self.w, lanes[0], count, count)
                joined = self._joined([value for _, _, value in rows], combine)
                held.write(self.w, lanes[0], combine(old, joined), count)
                return
        for _, here, value in rows:
            old = self.current(stmt.buffer, stmt.indices, here)
            joined = combine(old, self._joined([value], combine))
            self.assign(stmt.buffer, stmt.indices, joined, here)

    def _joined(self, rows: list[Value], combine: Callable[[Value, Value], Value]) -> Value:
        """Returns what each row's lanes give, half by half: in the end, those of all rows at once,
        which are the columns of a square."""
        while rows[0].lanes > len(rows):
            rows = [combine(*self._halves(row)) for row in rows]
        while len(rows) > 1:
            columns = transpose(self.w, rows) if rows[0].lanes == len(rows) else rows
            half = len(columns) // 2
            rows = [combine(a, b) for a, b in zip(columns[:half], columns[half:], strict=True)]
        return rows[0]

    def _halves(self, vector: Value) -> list[Value]:
        half = vector.lanes // 2
        if half == 1:
            return [self.w.extract(vector, 0), self.w.extract(vector, 1)]
        halves = (range(half), range(half, 2 * half))
        return [self.w.shuffle(vector, vector, tuple(lanes)) for lanes in halves]

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

    def at(self, stmt: At, env: Env) -> None:
        """Write the chosen iteration, under the condition that there is one."""
        chosen = self.value(stmt.value, env)
        inner = env.bind(stmt.var, chosen)
        ranges = dict(self.ranges)
        self.ranges[stmt.var] = (0, greatest_of(stmt.extent, self.ranges) - 1)
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
            self.ranges = ranges_where(stmt.condition, holds, ranges)
            self.body(body, env)

        otherwise = (lambda: branch(stmt.orelse, False)) if stmt.orelse else None
        self.w.branch(test, lambda: branch(stmt.then, True), otherwise)
        self.ranges = ranges
        self.touch(written)

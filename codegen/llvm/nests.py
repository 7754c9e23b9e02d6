"""Loop nest to LLVM text: walks the statements and writes what they say.

Unrolled and vectorised loops are unrolled here, with vectors of the target's native width; register
buffers become SSA values, carried through serial loops by phis. A parallel loop becomes a function
of its own that the thread pool calls with a range of iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...ir.dims import Dim, IntExpr, as_int, bounds, symbols
from ...ir.dtype import DType
from ...ir.errors import ScheduleError
from ...ir.loop.expr import Const, Expr, Index, Op, Read, walk
from ...ir.loop.nest import Accumulate, Alloc, If, Let, Loop, Nest, Stmt, Store, statements
from ...ir.loop.prim import Buffer
from ...ir.loop.scalar import COMBINERS
from ..target import Target
from .memory import Env, Lanes, Memory, Place
from .scalars import ScalarEmitter, literal
from .writer import FunctionWriter, Value

__all__ = ["MAX_STACK_BYTES", "NestEmitter"]

MAX_STACK_BYTES = 256 * 1024  # of private buffers in one kernel; a thread's stack is 8 MiB
MAX_REGISTER_ELEMENTS = 4096  # a larger tile is an array on the stack


@dataclass
class _Registers:
    """A buffer held in SSA values: by (first element, lanes)."""

    buffer: Buffer
    values: dict[int, Value] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return as_int(self.buffer.shape[-1]) if self.buffer.shape else 1


class NestEmitter:
    """Writes the body of one kernel function (or of one of its parallel loops)."""

    def __init__(
        self,
        nest: Nest,
        target: Target,
        writer: FunctionWriter,
        places: Mapping[str, Place],
        functions: dict[str, str],
        parallel: ParallelWriter | None,
    ) -> None:
        self.nest, self.target, self.w = nest, target, writer
        self.places: dict[str, Place] = dict(places)
        self.registers: dict[str, _Registers] = {}
        self.memory = Memory(writer, target)
        self.scalars = ScalarEmitter(writer, target, functions)
        self.parallel = parallel
        self.ranges: dict[str, tuple[int, int]] = {}
        self.native = target.lanes(4)
        self.stack_bytes = 0

    # -- statements ----------------------------------------------------------------------------

    def body(self, stmts: Sequence[Stmt], env: Env) -> None:
        """Write the statements of one body; buffers allocated in it end with it."""
        outer_places, outer_registers = dict(self.places), dict(self.registers)
        for position, stmt in enumerate(stmts):
            if isinstance(stmt, Alloc):
                self.alloc(stmt, stmts[position + 1 :])
            elif isinstance(stmt, Let):
                env = env.bind(stmt.var, self._known(stmt.value, env))
                self._let_range(stmt)
            elif isinstance(stmt, Loop):
                self.loop(stmt, env)
            elif isinstance(stmt, If):
                self.condition(stmt, env)
            elif isinstance(stmt, Store):
                self.store(stmt, env)
            else:
                self.accumulate(stmt, env)
        self.places = outer_places
        self.registers = {name: self.registers.get(name, r) for name, r in outer_registers.items()}

    def _known(self, expr: IntExpr, env: Env) -> int | Value:
        value, constant = self.memory.index_value(expr, env)
        if value is None:
            return constant
        return self.w.op("add", value, self.w.int(constant)) if constant else value

    def _let_range(self, stmt: Let) -> None:
        inside = bounds(stmt.value, self.ranges)
        if inside is not None:
            self.ranges[stmt.var] = inside

    def alloc(self, stmt: Alloc, rest: Sequence[Stmt]) -> None:
        buffer = stmt.buffer
        self.places.pop(buffer.name, None)
        self.registers.pop(buffer.name, None)
        count = as_int(buffer.size)
        if count <= MAX_REGISTER_ELEMENTS and _fits_registers(buffer, rest):
            self.registers[buffer.name] = _Registers(buffer)
            return
        self.stack_bytes += count * buffer.dtype.bytes
        if self.stack_bytes > MAX_STACK_BYTES:
            raise ScheduleError(f"private buffers take more than {MAX_STACK_BYTES} bytes of stack")
        place = Place(buffer, Value("", "ptr"), True)
        place.base = self.w.alloca(place.type, count)
        self.places[buffer.name] = place

    def loop(self, stmt: Loop, env: Env) -> None:
        self.ranges[stmt.var] = (0, stmt.extent - 1)
        if stmt.kind == "vectorize":
            self.vector_loop(stmt, env)
        elif stmt.kind == "unroll":
            for i in range(stmt.extent):
                self.body(stmt.body, env.bind(stmt.var, i))
        elif stmt.kind == "parallel" and self.parallel is not None and not env.values:
            self.parallel.write(self, stmt)
        else:
            self.serial_loop(stmt, env)

    def serial_loop(self, stmt: Loop, env: Env) -> None:
        written = {s.buffer for s in statements(stmt.body) if isinstance(s, Store | Accumulate)}
        self._touch(written)
        carried = {
            (name, key): value
            for name in written
            if name in self.registers
            for key, value in self.registers[name].values.items()
        }

        def body(index: Value, values: dict[tuple[str, int], Value]) -> dict[tuple[str, int], Value]:
            for (name, key), value in values.items():
                self.registers[name].values[key] = value
            self.body(stmt.body, env.bind(stmt.var, index))
            return {k: self.registers[k[0]].values[k[1]] for k in values}

        for (name, key), value in self.w.loop(stmt.extent, carried, body).items():
            self.registers[name].values[key] = value
        self._touch(written)

    def _touch(self, names: set[str]) -> None:
        """What was loaded from these buffers before may have changed."""
        for name in names:
            if name in self.places:
                self.places[name].version += 1

    def vector_loop(self, stmt: Loop, env: Env) -> None:
        widest = max(4, *(self._element_bytes(s) for s in statements(stmt.body)))
        native = self.target.lanes(max(widest, 1))
        width = stmt.extent
        for inner in statements(stmt.body):
            if isinstance(inner, Store | Accumulate):
                reads = [n.buffer for n in walk(inner.value) if isinstance(n, Read)]
                for name in (inner.buffer, *reads):
                    if name in self.registers:
                        width = max(width, self.registers[name].width)
        lanes = native
        while lanes // 2 >= width:
            lanes //= 2
        if lanes == 1:
            for i in range(stmt.extent):
                self.body(stmt.body, env.bind(stmt.var, i))
            return
        joins = [
            s
            for s in stmt.body
            if isinstance(s, Accumulate) and not any(_mentions(i, stmt.var) for i in s.indices)
        ]
        if joins:
            if len(joins) != len(stmt.body):
                raise ScheduleError("a vector loop both joins its lanes and stores them")
            for join in joins:
                self.join_lanes(join, stmt, env, lanes)
            return
        for offset in range(0, stmt.extent, lanes):
            active = min(lanes, stmt.extent - offset)
            inside = Env(env.values, Lanes(stmt.var, offset, lanes, active))
            for inner in stmt.body:
                self.vector_statement(inner, inside)

    def vector_statement(self, stmt: Stmt, env: Env) -> None:
        if isinstance(stmt, Loop) and stmt.kind == "unroll":
            self.ranges[stmt.var] = (0, stmt.extent - 1)
            for i in range(stmt.extent):
                for inner in stmt.body:
                    self.vector_statement(inner, env.bind(stmt.var, i))
        elif isinstance(stmt, Store):
            self.store(stmt, env)
        elif isinstance(stmt, Accumulate):
            self.accumulate(stmt, env)
        else:
            raise ScheduleError("a vectorised loop holds only stores and unrolled loops")

    def _element_bytes(self, stmt: Stmt) -> int:
        if not isinstance(stmt, Store | Accumulate):
            return 1
        sizes = [1]
        for node in walk(stmt.value):
            if not isinstance(node, Index | Const):
                sizes.append(node.dtype.bytes)
        return max(sizes)

    def join_lanes(self, stmt: Accumulate, loop: Loop, env: Env, lanes: int) -> None:
        """A reduction over the lanes of a vector loop: joined vector by vector, then in a tree."""
        combiner = COMBINERS[stmt.combiner]
        dtype = stmt.value.dtype
        total: Value | None = None
        for offset in range(0, loop.extent, lanes):
            active = min(lanes, loop.extent - offset)
            inside = Env(env.values, Lanes(loop.var, offset, lanes, active))
            value = self.w.splat(self.value(stmt.value, inside), lanes)
            if active < lanes:
                identity = self.w.splat(literal(combiner.identity(dtype), dtype), lanes)
                value = self.w.select(self.memory.active_mask(lanes, active), value, identity)
            total = value if total is None else self.scalars.combine(combiner.op, total, value, dtype)
        assert total is not None
        joined = self.scalars.horizontal(combiner.op, total, dtype)
        old = self.current(stmt.buffer, stmt.indices, dtype, env)
        self.assign(
            stmt.buffer, stmt.indices, self.scalars.combine(combiner.op, old, joined, dtype), env
        )

    def condition(self, stmt: If, env: Env) -> None:
        test = self.value(stmt.condition, env)
        if test.name in ("true", "false"):
            self.body(stmt.then if test.name == "true" else stmt.orelse, env)
            return
        written = {
            s.buffer
            for s in (*statements(stmt.then), *statements(stmt.orelse))
            if isinstance(s, Store | Accumulate)
        }
        self._touch(written)
        ranges = dict(self.ranges)
        self.w.branch(
            test,
            lambda: self.body(stmt.then, env),
            (lambda: self.body(stmt.orelse, env)) if stmt.orelse else None,
        )
        self.ranges = ranges
        self._touch(written)

    # -- stores --------------------------------------------------------------------------------

    def store(self, stmt: Store, env: Env) -> None:
        value = self.value(stmt.value, env)
        if env.lanes is not None:
            value = self.w.splat(value, env.lanes.lanes)
        self.assign(stmt.buffer, stmt.indices, value, env)

    def accumulate(self, stmt: Accumulate, env: Env) -> None:
        combiner = COMBINERS[stmt.combiner]
        dtype = stmt.value.dtype
        old = self.current(stmt.buffer, stmt.indices, dtype, env)
        value = stmt.value
        if (
            combiner.name == "sum"
            and dtype.is_float
            and isinstance(value, Op)
            and value.name == "multiply"
        ):
            a, b = (self.value(arg, env) for arg in value.args)
            new = self.scalars.multiply_add(a, b, old)
        else:
            new = self.scalars.combine(combiner.op, old, self.value(value, env), dtype)
        if env.lanes is not None:
            new = self.w.splat(new, env.lanes.lanes)
            held = self.registers.get(stmt.buffer)
            if held is not None and env.lanes.active < env.lanes.lanes:
                left = held.width - env.lanes.offset
                if left > env.lanes.active:  # lanes behind the rest hold what earlier turns joined
                    mask = self.memory.active_mask(env.lanes.lanes, env.lanes.active)
                    new = self.w.select(mask, new, old)
        self.assign(stmt.buffer, stmt.indices, new, env)

    def current(
        self, name: str, indices: tuple[IntExpr, ...], dtype: DType, env: Env
    ) -> Value:
        """The value of an element (or of the lanes) before it is changed."""
        return self.read_place(name, indices, dtype, env, None)

    def assign(self, name: str, indices: tuple[IntExpr, ...], value: Value, env: Env) -> None:
        held = self.registers.get(name)
        if held is not None:
            held.values[self._register_key(held, indices, env)] = value
            return
        place = self.places[name]
        flat = self.memory.flat_index(place, indices)
        stride = self.memory.lane_stride(flat, env)
        if env.lanes is None or stride == 1:
            active = env.lanes.active if env.lanes else 1
            self.memory.store(place, self.memory.address(place, flat, env), value, active)
            return
        for lane in range(env.lanes.active):
            address = self.memory.address(place, flat, env.lane(lane))
            self.memory.store(place, address, self.w.extract(value, lane), 1)

    def _register_key(self, held: _Registers, indices: tuple[IntExpr, ...], env: Env) -> int:
        place = Place(held.buffer, Value("", "ptr"), True)
        value, constant = self.memory.index_value(self.memory.flat_index(place, indices), env)
        assert value is None
        return constant

    # -- expressions ---------------------------------------------------------------------------

    def value(
        self, expr: Expr, env: Env, guard: Value | None = None, memo: dict[object, Value] | None = None
    ) -> Value:
        """The value of an expression, a vector if it differs from lane to lane.

        ``guard`` is the condition under which it is wanted; reads that may lie outside their buffer
        are made only where it holds.
        """
        memo = {} if memo is None else memo
        key = (id(expr), guard.name if guard else "")
        found = memo.get(key)
        if found is None:
            found = memo[key] = self._compute(expr, env, guard, memo)
        return found

    def _compute(
        self, expr: Expr, env: Env, guard: Value | None, memo: dict[object, Value]
    ) -> Value:
        if isinstance(expr, Const):
            return literal(expr.value, expr.dtype)
        if isinstance(expr, Index):
            return self.index_vector(expr.value, env)
        if isinstance(expr, Read):
            return self.read(expr, env, guard, memo)
        if expr.name == "where" and self._needs_guard(expr):
            test = self.value(expr.args[0], env, guard, memo)
            if test.name in ("true", "false"):
                return self.value(expr.args[1 if test.name == "true" else 2], env, guard, memo)
            inverse = self.scalars.apply("logical_not", [test], [expr.args[0].dtype], expr.args[0].dtype)
            then = self.value(expr.args[1], env, self._both(guard, test), memo)
            orelse = self.value(expr.args[2], env, self._both(guard, inverse), memo)
            args = [test, then, orelse]
        else:
            args = [self.value(a, env, guard, memo) for a in expr.args]
        return self.scalars.apply(expr.name, args, [a.dtype for a in expr.args], expr.dtype)

    def _both(self, guard: Value | None, test: Value) -> Value:
        if guard is None:
            return test
        lanes = max(guard.lanes, test.lanes)
        return self.w.op("and", self.w.splat(guard, lanes), self.w.splat(test, lanes))

    def _needs_guard(self, expr: Op) -> bool:
        return any(
            isinstance(n, Read) and not self._inside(n) for a in expr.args[1:] for n in walk(a)
        )

    def _inside(self, node: Read) -> bool:
        """Whether the loops' ranges prove that the read lies in its buffer."""
        if node.buffer in self.registers:
            return True
        for i, size in zip(node.indices, self.places[node.buffer].buffer.shape, strict=True):
            if not isinstance(i, int | Dim):
                return False
            inside = bounds(i, self.ranges)
            if inside is None or inside[0] < 0 or inside[1] >= as_int(size):
                return False
        return True

    def index_vector(self, expr: IntExpr, env: Env) -> Value:
        """The int64 value of an index: in a vector loop one per lane, if the lanes differ."""
        stride = self.memory.lane_stride(expr, env)
        if stride == 0:
            return self.memory.index(expr, env)
        assert env.lanes is not None
        lanes = env.lanes.lanes
        if stride is not None:
            steps = ", ".join(f"i64 {stride * l}" for l in range(lanes))
            base = self.w.splat(self.memory.index(expr, env), lanes)
            return self.w.op("add", base, Value(f"<{steps}>", "i64", lanes))
        wide = Value("zeroinitializer", "i64", lanes)
        for lane in range(env.lanes.active):
            wide = self.w.insert(wide, self.memory.index(expr, env.lane(lane)), lane)
        return wide

    def read(
        self, node: Read, env: Env, guard: Value | None, memo: dict[object, Value]
    ) -> Value:
        plain = all(isinstance(i, int | Dim) for i in node.indices)
        if guard is not None and self._inside(node):
            guard = None
        if plain:
            indices = tuple(i for i in node.indices if isinstance(i, int | Dim))
            return self.read_place(node.buffer, indices, node.dtype, env, guard)
        return self.gather(node, env, guard, memo)

    def read_place(
        self,
        name: str,
        indices: tuple[IntExpr, ...],
        dtype: DType,
        env: Env,
        guard: Value | None,
    ) -> Value:
        held = self.registers.get(name)
        if held is not None:
            return self.read_registers(held, indices, env)
        place = self.places[name]
        flat = self.memory.flat_index(place, indices)
        stride = self.memory.lane_stride(flat, env)
        lanes = env.lanes
        if lanes is None or stride == 0:
            if guard is not None and guard.lanes > 1:
                return self._per_lane(place, flat, env, guard)
            return self._load_one(place, flat, env, guard)
        if stride == 1:
            address = self.memory.address(place, flat, env)
            if guard is None:
                return self.memory.load(place, address, lanes.lanes, lanes.active)
            mask = self.w.splat(guard, lanes.lanes)
            if lanes.active < lanes.lanes:
                mask = self.w.op("and", mask, self.memory.active_mask(lanes.lanes, lanes.active))
            loaded = self.memory.masked(place, address, mask)
            return self.w.convert("trunc", loaded, "i1") if dtype.is_bool else loaded
        return self._per_lane(place, flat, env, guard)

    def _load_one(
        self, place: Place, flat: IntExpr, env: Env, guard: Value | None, extra: Value | None = None
    ) -> Value:
        address = self.memory.address(place, flat, env, extra)
        if guard is not None:
            address = self.w.select(guard, address, self.nowhere)
        return self.memory.load(place, address, 1, 1)

    @property
    def nowhere(self) -> Value:
        """Where a read that is not wanted goes instead."""
        return Value("@lw_nowhere", "ptr")

    def _per_lane(self, place: Place, flat: IntExpr, env: Env, guard: Value | None) -> Value:
        lanes = env.lanes
        assert lanes is not None
        wide: Value | None = None
        for lane in range(lanes.active):
            wanted = self.w.extract(guard, lane) if guard is not None and guard.lanes > 1 else guard
            one = self._load_one(place, flat, env.lane(lane), wanted)
            wide = self.w.insert(wide or Value("zeroinitializer", one.type, lanes.lanes), one, lane)
        assert wide is not None
        return wide

    def gather(
        self, node: Read, env: Env, guard: Value | None, memo: dict[object, Value]
    ) -> Value:
        """A read whose position comes from data."""
        place = self.places[node.buffer]
        static: list[IntExpr] = []
        moving: list[tuple[Value, int]] = []
        for i, stride in zip(node.indices, place.strides, strict=True):
            if isinstance(i, int | Dim):
                static.append(i)
            else:
                static.append(0)
                moving.append((self.value(i, env, guard, memo), stride))
        flat = self.memory.flat_index(place, tuple(static))
        stride = self.memory.lane_stride(flat, env)
        uniform = all(v.lanes == 1 for v, _ in moving) and (guard is None or guard.lanes == 1)
        if uniform and (env.lanes is None or stride in (0, 1)):
            extra = self._sum([self.w.scale(v, s) for v, s in moving])
            if env.lanes is None or stride == 0:
                return self._load_one(place, flat, env, guard, extra)
            if guard is None:
                address = self.memory.address(place, flat, env, extra)
                return self.memory.load(place, address, env.lanes.lanes, env.lanes.active)
        lanes = env.lanes
        assert lanes is not None
        wide: Value | None = None
        for lane in range(lanes.active):
            parts = [
                self.w.scale(self.w.extract(v, lane) if v.lanes > 1 else v, s) for v, s in moving
            ]
            wanted = self.w.extract(guard, lane) if guard is not None and guard.lanes > 1 else guard
            one = self._load_one(place, flat, env.lane(lane), wanted, self._sum(parts))
            wide = self.w.insert(wide or Value("zeroinitializer", one.type, lanes.lanes), one, lane)
        assert wide is not None
        return wide

    def _sum(self, values: list[Value]) -> Value:
        total = values[0]
        for value in values[1:]:
            total = self.w.add(total, value)
        return total

    def read_registers(
        self, held: _Registers, indices: tuple[IntExpr, ...], env: Env
    ) -> Value:
        key = self._register_key(held, indices, env)
        found = held.values.get(key)
        if found is not None:
            return found
        for first, value in held.values.items():  # one lane of a vector
            if first < key < first + value.lanes:
                return self.w.extract(value, key - first)
        raise ScheduleError(f"{held.buffer.name} is read before it is written")


def _mentions(expr: IntExpr, var: str) -> bool:
    return isinstance(expr, Dim) and var in symbols(expr)


def _fits_registers(buffer: Buffer, rest: Sequence[Stmt]) -> bool:
    """Whether every access to the buffer is at a place known when the code is written."""
    unrolled: dict[str, str] = {}
    for stmt in statements(tuple(rest)):
        if isinstance(stmt, Loop):
            unrolled[stmt.var] = stmt.kind
    place = Place(buffer, Value("", "ptr"), True)

    def known(indices: Sequence[object]) -> bool:
        for dim, (i, stride) in enumerate(zip(indices, place.strides)):
            if not isinstance(i, int | Dim):
                return False
            for name in symbols(i):
                kind = unrolled.get(name)
                if kind == "vectorize" and (stride != 1 or dim != len(buffer.shape) - 1):
                    return False
                if kind not in ("unroll", "vectorize"):
                    return False
        return True

    for stmt in statements(tuple(rest)):
        if isinstance(stmt, If) and any(
            isinstance(s, Store | Accumulate) and s.buffer == buffer.name
            for s in (*statements(stmt.then), *statements(stmt.orelse))
        ):
            return False
        if not isinstance(stmt, Store | Accumulate):
            continue
        if stmt.buffer == buffer.name and not known(stmt.indices):
            return False
        for node in walk(stmt.value):
            if isinstance(node, Read) and node.buffer == buffer.name and not known(node.indices):
                return False
    return True


class ParallelWriter:
    """Writes each parallel loop as a function ``(context, begin, end)`` for the thread pool."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.functions: list[FunctionWriter] = []
        self.context: Value | None = None

    def write(self, outer: NestEmitter, loop: Loop) -> None:
        """The call in ``outer``, and the function it hands to ``lw_parallel_for``."""
        names = [n for n, p in outer.places.items() if p.base.depth == 0]
        w = outer.w
        if self.context is None:
            self.context = w.alloca("ptr", len(names))
            for slot, name in enumerate(names):
                where = w.offset(self.context, "ptr", None, slot)
                w.line(f"store {outer.places[name].base}, {where}, align 8")
        symbol = f"{self.name}.parallel{len(self.functions)}"
        inner = FunctionWriter(symbol, "ptr %context, i64 %begin, i64 %end")
        self.functions.append(inner)
        places: dict[str, Place] = {}
        for slot, name in enumerate(names):
            source = outer.places[name]
            where = inner.offset(Value("%context", "ptr"), "ptr", None, slot)
            base = Value(inner.fresh("base"), "ptr")
            inner.line(f"{base.name} = load ptr, {where}, align 8")
            places[name] = Place(source.buffer, base, source.written)
        emitter = NestEmitter(
            outer.nest, outer.target, inner, places, outer.scalars.functions, None
        )
        emitter.ranges = dict(outer.ranges)
        start, end = Value("%begin", "i64"), Value("%end", "i64")

        def body(index: Value, _: dict[str, Value]) -> dict[str, Value]:
            emitter.body(loop.body, Env({loop.var: index}))
            return {}

        inner.loop(end, {}, body, start)
        w.calls.add("declare void @lw_parallel_for(ptr, ptr, i64)")
        w.line(f"call void @lw_parallel_for(ptr @{symbol}, {self.context}, i64 {loop.extent})")
        outer._touch({s.buffer for s in statements(loop.body) if isinstance(s, Store | Accumulate)})

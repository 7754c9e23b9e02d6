"""Expressions to LLVM values: scalars where all lanes agree, vectors where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from typing import TypeAlias, cast

from ...ir.dims import Dim, IntExpr, as_int, bounds, resolve, substitute, symbols
from ...ir.errors import ScheduleError
from ...ir.loop.expr import Const, Expr, Index, Op, Read, reads_of
from ...ir.loop.limited_index import byte_of, limited
from ...ir.loop.prim import Buffer
from ...ir.loop.stride import flat_index, mentions, stride_along, stride_within
from ..llvm.writer import FunctionWriter, Value
from ..lower.shuffles import SPARSE_BLOCK
from ..target import Target
from .access import index_parts, is_zero
from .cover import MAX_WINDOWS, cover, lane_offsets
from .lookups import looked_up
from .memory import Env, Form, Lanes, Memory, Place, first_lanes, mask_of
from .out_of_range import checked, limited_place, needed_operands, reads_behind_test, unsure_reads
from .registers import Registers
from .scalars import ScalarEmitter, literal
from .static_conditions import StaticConditions
from .transpose import transpose

Plain: TypeAlias = tuple[IntExpr, ...]

NOWHERE = Value("@lw_nowhere", "ptr")
"""A valid address for a load whose result is discarded."""


class ValueEmitter:
    """Emits expressions on the elements of a function's buffers, whose addresses it holds."""

    def __init__(
        self,
        target: Target,
        writer: FunctionWriter,
        places: Mapping[str, Place],
        functions: dict[str, str],
    ) -> None:
        self.target, self.w = target, writer
        self.places: dict[str, Place] = dict(places)
        self.registers: dict[str, Registers] = {}
        self.memory = Memory(writer, target)
        self.scalars = ScalarEmitter(writer, target, functions)
        self.conditions: dict[str, Expr] = {}  # conditions of guards by SSA name
        self.static = StaticConditions(self.memory)
        self.chosen: list[tuple[Expr, bool]] = []  # branches around the code
        # By identities, of objects that are kept, and the layout of the registers.
        self.register_forms: dict[tuple[int, ...], tuple[object, object, Form]] = {}
        self.inside: dict[object, bool] = {}  # by a read's identity, shape and variables' ranges
        self.literals: dict[int, tuple[Const, Value]] = {}  # by the identity of the Const
        self.guarded: dict[int, tuple[Op, list[Read]]] = {}  # the reads in a choice
        self.names: dict[int, list[str]] = {}  # the variables of a read, by its identity

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """The ranges of the variables of loops and lets, both ends inclusive."""
        return self.memory.ranges

    @ranges.setter
    def ranges(self, ranges: dict[str, tuple[int, int]]) -> None:
        self.memory.ranges = ranges

    def value(
        self,
        expr: Expr,
        env: Env,
        guard: Value | None = None,
        memo: dict[object, Value] | None = None,
    ) -> Value:
        """Returns the value of an expression, a vector if it differs between lanes.

        Reads that may lie outside their buffer are made only where ``guard`` holds.
        """
        memo = {} if memo is None else memo
        if isinstance(expr, Read) and guard is None:
            memo[id(expr), ""] = value = self.read(expr, env, None, memo)
            return value
        under = guard.name if guard else ""
        # Not by recursion, which would exceed its limit on chains of hundreds of operators.
        todo = [] if (id(expr), under) in memo else [expr]
        while todo:
            node = todo[-1]
            if (id(node), under) not in memo:
                if isinstance(node, Op):
                    below = self.always_needed(node, env)
                    missing = [a for a in below if (id(a), under) not in memo]
                    if missing:
                        todo += reversed(missing)
                        continue
                memo[id(node), under] = self._compute(node, env, guard, memo)
            todo.pop()
        return memo[id(expr), under]

    def always_needed(self, expr: Expr, env: Env) -> tuple[Expr, ...]:
        """The operands that are computed wherever ``expr`` is."""
        if not isinstance(expr, Op):
            return ()
        if expr.name == "where":
            constant = self.static.mask(expr.args[0], env)
            return () if constant or self._needs_guard(expr) else needed_operands(expr)
        deciding = self.static.deciding(expr, env)
        return needed_operands(expr, env.lanes is None) if deciding is None else (deciding,)

    def _compute(
        self, expr: Expr, env: Env, guard: Value | None, memo: dict[object, Value]
    ) -> Value:
        if isinstance(expr, Const):
            if id(expr) not in self.literals:
                self.literals[id(expr)] = expr, literal(expr.value, expr.dtype)
            return self.literals[id(expr)][1]
        if isinstance(expr, Index):
            return self.index_vector(expr.value, env)
        if isinstance(expr, Read):
            return self.read(expr, env, guard, memo)
        sure = self.static.mask(expr.args[0], env) if expr.name == "where" else None
        if sure is not None:
            return self._known_choice(expr, sure, env, guard, memo)
        if expr.name == "where" and self._needs_guard(expr):
            test = self.value(expr.args[0], env, guard, memo)
            if test.name in ("true", "false"):
                return self._choice(expr, test.name == "true", env, guard, memo)
            self.conditions |= {test.name: expr.args[0]} if guard is None else {}
            if self._is_zero_outside(expr.args[1]) and is_zero(expr.args[2]):
                return self.value(expr.args[1], env, self._both(guard, test), memo)
            dtype = expr.args[0].dtype
            inverse = self.scalars.apply("logical_not", [test], [dtype], dtype)
            return self._choice_of(expr, test, inverse, env, guard, memo)
        deciding = self.static.deciding(expr, env)
        if deciding is not None:
            return self.value(deciding, env, guard, memo)
        if env.lanes is None and reads_behind_test(expr):
            (first, other), inner = expr.args, dict(memo)
            test, false = self.value(first, env, guard, memo), Value("false", "i1")
            return self.w.where(test, lambda: [self.value(other, env, guard, inner)], [false])[0]
        if left := checked(self.scalars, expr, lambda e: self.value(e, env, guard, memo)):
            return left
        args = [self.value(a, env, guard, memo) for a in expr.args]
        return self.scalars.apply(expr.name, args, [a.dtype for a in expr.args], expr.dtype)

    def _choice_of(
        self,
        expr: Op,
        test: Value,
        inverse: Value,
        env: Env,
        guard: Value | None,
        memo: dict[object, Value],
    ) -> Value:
        """A ``where`` whose branches are computed where they are chosen."""
        then = self.value(expr.args[1], env, self._both(guard, test), memo)
        orelse = self.value(expr.args[2], env, self._both(guard, inverse), memo)
        dtypes = [a.dtype for a in expr.args]
        return self.scalars.apply("where", [test, then, orelse], dtypes, expr.dtype)

    def _choice(
        self, expr: Op, then: bool, env: Env, guard: Value | None, memo: dict[object, Value]
    ) -> Value:
        """One of the branches of a ``where``."""
        self.chosen.append((expr.args[0], then))
        try:
            return self.value(expr.args[1 if then else 2], env, guard, memo)
        finally:
            self.chosen.pop()

    def _known_choice(
        self,
        expr: Op,
        sure: tuple[bool, ...],
        env: Env,
        guard: Value | None,
        memo: dict[object, Value],
    ) -> Value:
        """Returns a ``where`` whose condition is constant in every lane."""
        if all(sure) or not any(sure):
            return self._choice(expr, sure[0], env, guard, memo)
        then, orelse = expr.args[1], expr.args[2]
        if guard is None and isinstance(then, Read) and isinstance(orelse, Const):
            some = self._read_some(then, env, sure, literal(orelse.value, orelse.dtype))
            if some is not None:
                return some
        test, inverse = mask_of(sure), mask_of(tuple([not s for s in sure]))
        return self._choice_of(expr, test, inverse, env, guard, memo)

    def _read_some(
        self, node: Read, env: Env, wanted: tuple[bool, ...], other: Value
    ) -> Value | None:
        """The lanes ``wanted`` of a read, ``other`` in the rest; None if there is no short way."""
        place = self.places.get(node.buffer)
        if place is None or env.lanes is None or node.dtype.is_bool or env.lanes.mask:
            return None
        indices = node.plain_indices
        if len(indices) < len(node.indices):
            return None
        flat = self.memory.flat_index(place, indices)
        stride = self.memory.lane_stride(flat, env)
        mask = (*wanted[: env.lanes.active], *first_lanes(len(wanted) - env.lanes.active, 0))
        if not any(mask):
            return self.w.splat(other, env.lanes.lanes)
        if stride == 1:
            address = self.memory.address(place, flat, env)
            return self.memory.load_some(place, address, mask, other)
        covered = self._covered(place, flat, stride, mask, env)
        if covered is None:
            return None
        return self.w.select(mask_of(mask), covered, self.w.splat(other, len(mask)))

    def _covered(
        self, place: Place, flat: IntExpr, stride: int | None, mask: tuple[bool, ...], env: Env
    ) -> Value | None:
        """Returns a strided vector, picked from few whole ones around it; None if it takes many."""
        if place.buffer.dtype.is_bool or len(mask) < 2:
            return None
        if sum(mask) < 2 or (stride is not None and abs(stride) > MAX_WINDOWS):
            return None
        steps = lane_offsets(flat, stride, env, self.ranges)
        if steps is None:
            return None
        if stride is None:
            assert env.lanes is not None
            flat = resolve(substitute(flat, {env.lanes.var: env.lanes.offset}), self.ranges)
        offsets = {l: step for l, step in enumerate(steps) if mask[l]}
        span = max(offsets.values()) - min(offsets.values()) + 1
        if span > MAX_WINDOWS * len(mask):
            return None
        return cover(self.memory, place, flat, offsets, env, self.ranges)

    def _both(self, guard: Value | None, test: Value) -> Value:
        if guard is None:
            return test
        lanes = max(guard.lanes, test.lanes)
        return self.w.op("and", self.w.splat(guard, lanes), self.w.splat(test, lanes))

    def _is_zero_outside(self, expr: Expr) -> bool:
        """True if an expression under a guard is zero where that does not hold."""
        return isinstance(expr, Read) and expr.buffer in self.places and not self._inside(expr)

    def _needs_guard(self, expr: Op) -> bool:
        if id(expr) not in self.guarded:
            self.guarded[id(expr)] = expr, unsure_reads(expr)
        return not all(map(self._inside, self.guarded[id(expr)][1]))

    def _inside(self, node: Read) -> bool:
        """True if the loops' ranges, or limits of an index from data, prove that the read lies in
        its buffer, and so do all reads that such an index is computed from."""
        held = self.registers.get(node.buffer)
        buffer = held.buffer if held is not None else self.places[node.buffer].buffer
        names = self.names.get(id(node))
        if names is None:
            if len(node.plain_indices) < len(node.indices):
                return self._is_inside(node, buffer)
            names = sorted({name for i in node.plain_indices for name in symbols(i)})
            self.names[id(node)] = names
        key = (id(node), buffer.shape, *[self.memory.ranges.get(name) for name in names])
        inside = self.inside.get(key)
        if inside is None:
            inside = self.inside[key] = self._is_inside(node, buffer)
        return inside

    def _is_inside(self, node: Read, buffer: Buffer) -> bool:
        for i, size in zip(node.indices, buffer.shape, strict=True):
            if not isinstance(i, int | Dim):
                limits, least = limited(i), bounds(size, {})
                if limits is None or least is None or not 0 < limits.size <= least[0]:
                    return False
                if not all(map(self._inside, reads_of(i))):
                    return False
                continue
            inside, room = bounds(i, self.ranges), bounds(size - i, self.ranges)
            if inside is None or room is None or inside[0] < 0 or room[0] < 1:
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
            base = self.w.splat(self.memory.index(expr, env), lanes)
            return self.w.op("add", base, _steps(stride, lanes))
        wide = Value("zeroinitializer", "i64", lanes)
        for lane in range(env.lanes.active):
            wide = self.w.insert(wide, self.memory.index(expr, env.lane(lane)), lane)
        return wide

    def read(self, node: Read, env: Env, guard: Value | None, memo: dict[object, Value]) -> Value:
        lanes, plain = env.lanes, len(node.plain_indices) == len(node.indices)
        mask = lanes and lanes.mask
        if lanes and mask and (not plain or any(mentions(i, lanes.var) for i in node.indices)):
            guard = self._both(guard, mask)
        if guard is not None and self._inside(node):
            guard = None
        if plain:
            return self.read_place(node.buffer, cast(Plain, node.indices), env, guard)
        return self.gather(node, env, guard, memo)

    def read_place(
        self, name: str, indices: tuple[IntExpr, ...], env: Env, guard: Value | None
    ) -> Value:
        held = self.registers.get(name)
        if held is not None:
            return self.read_registers(held, indices, env, guard)
        place = self.places[name]
        form = self.memory.flat_form(place, indices)
        lanes = env.lanes
        stride = 0 if lanes is None else form.stride(lanes.var)
        if lanes is None or stride == 0:
            if guard is not None and guard.lanes > 1:
                return self._per_lane(place, form, env, guard)
            return self._load_one(place, form, env, guard)
        if stride == 1:
            parts, at = self.memory.parts(form, env)
            version, notes = self.memory.version(place), self.w.levels[-1].notes
            key = (place.base.name, parts, at, lanes.lanes, lanes.active, guard, version)
            value = notes.get(key)
            if value is None:
                address = self.memory.address_of(place, form, env)
                value = notes[key] = self._load_vector(place, address, lanes, guard)
            return value
        vector: Value | None = None
        if guard is None:
            mask = first_lanes(lanes.lanes, lanes.active)
            vector = self._covered(place, form.index, stride, mask, env)
        vector = vector or self._transposed(place, form.index, env, guard)
        return vector or self._per_lane(place, form, env, guard)

    def _load_vector(
        self, place: Place, address: Value, lanes: Lanes, guard: Value | None
    ) -> Value:
        """One element for each lane, from neighbouring places."""
        if guard is None:
            return self.memory.load(place, address, lanes.lanes, lanes.active)
        mask = self.w.splat(guard, lanes.lanes)
        if lanes.active < lanes.lanes and lanes.mask is None:
            mask = self.w.op("and", mask, self.memory.active_mask(lanes.lanes, lanes.active))
        loaded = self.memory.masked(place, address, mask)
        return self.w.convert("trunc", loaded, "i1") if place.buffer.dtype.is_bool else loaded

    def _transposed(
        self, place: Place, flat: IntExpr, env: Env, guard: Value | None
    ) -> Value | None:
        """A strided vector as a column of a block that is transposed in registers.

        If an unrolled loop walks neighbouring elements, its iterations are the columns of a square
        block: the rows are loaded as vectors and shuffled, instead of element by element. A guard
        that is the same in all lanes becomes the mask of the rows.
        """
        lanes = env.lanes
        assert lanes is not None
        count = lanes.lanes
        if not isinstance(flat, Dim) or place.buffer.dtype.is_bool:
            return None
        # Look for an unrolled loop along which the elements of each lane are contiguous.
        for name in sorted(symbols(flat) - {lanes.var}):
            iteration = env.values.get(name)
            if not isinstance(iteration, int):
                continue
            start = iteration // count * count
            wide = min(count, self.ranges.get(name, (0, 0))[1] + 1 - start)
            if wide * lanes.active * SPARSE_BLOCK < count * count:  # most of it would be empty
                continue
            apart = stride_along(flat, name)
            if apart is None:
                apart = self._stride_in_block(flat, name, (start, start + wide - 1), env)
            if apart != 1:
                continue
            if self.chosen:
                start, wide = self._iterations_chosen(
                    env, name, iteration, range(start, start + wide)
                )
                if not wide:
                    continue
            reach = Lanes(name, start, count, wide)
            masks = [guard and self._mask(guard, env.lane(n), reach) for n in range(lanes.active)]
            if guard is not None and masks[0] is None:
                return None
            # All iterations of the unrolled loop load the same block.
            around = tuple((n, env.values[n]) for n in sorted(symbols(flat) - {name, lanes.var}))
            said = (guard.name if guard is not None else "", self.memory.version(place))
            block = ("block", place.buffer.name, flat, name, start, wide, lanes, around, *said)
            made: list[Value] | None = self.w.noted(block)
            if made is not None:
                return made[iteration - start]
            # Load a row per lane, transpose, and keep the columns for the other iterations.
            rows: list[Value] = []
            for lane, mask in enumerate(masks):
                address = self.memory.address(place, flat, env.lane(lane).bind(name, start))
                rows.append(
                    self.memory.load(place, address, count, wide)
                    if mask is None
                    else self.memory.masked(place, address, mask)
                )
            rows += [Value("zeroinitializer", rows[0].type, count)] * (count - len(rows))
            depth = max(row.depth for row in rows)
            made = transpose(self.w, rows)
            self.w.note(block, depth, made)
            return made[iteration - start]
        return None

    def _iterations_chosen(
        self, env: Env, name: str, iteration: int, reach: range
    ) -> tuple[int, int]:
        """Returns the first of the iterations of an unrolled loop around ``iteration`` that take
        the same branches, and their number.

        In others the element may lie outside its buffer.
        """
        assert env.lanes is not None
        active = env.lanes.active

        def alike(other: int) -> bool:
            masks = ((self.static.mask(c, env.bind(name, other)), then) for c, then in self.chosen)
            return all(mask is not None and {*mask[:active]} == {then} for mask, then in masks)

        first = end = iteration
        while first > reach.start and alike(first - 1):
            first -= 1
        while end < reach.stop and alike(end):
            end += 1
        return first, end - first

    def _stride_in_block(
        self, flat: IntExpr, name: str, reach: tuple[int, int], env: Env
    ) -> int | None:
        """Returns the stride of an index in every lane along iterations ``reach`` of a loop."""
        assert env.lanes is not None
        lane, first = env.lanes.var, env.lanes.offset
        moving = {name: reach, lane: (first, first + env.lanes.active - 1)}
        values = {n: v for n, v in env.values.items() if isinstance(v, int) and n not in moving}
        return stride_within(flat, name, values, {**self.ranges, **moving})

    def _mask(self, guard: Value, env: Env, lanes: Lanes) -> Value | None:
        """The guard of a read, which is one for all lanes in this iteration of an unrolled loop,
        in its iterations ``lanes``, where it may depend on the lane: ``env`` is that of one. None
        if the condition behind it is not known."""
        condition = self.conditions.get(guard.name)
        if condition is None or guard.lanes > 1:
            return None
        mask = self.w.splat(self.value(condition, Env(env.values, lanes)), lanes.lanes)
        if lanes.active < lanes.lanes:
            mask = self.w.op("and", mask, self.memory.active_mask(lanes.lanes, lanes.active))
        return mask

    def _load_one(
        self, place: Place, form: Form, env: Env, guard: Value | None, extra: Value | None = None
    ) -> Value:
        address = self.memory.address_of(place, form, env, extra)
        if guard is not None:
            address = self.w.select(guard, address, NOWHERE)
        return self.memory.load(place, address, 1, 1)

    def _per_lane(
        self,
        place: Place,
        form: Form,
        env: Env,
        guard: Value | None,
        moving: Sequence[tuple[Value, IntExpr]] = (),
    ) -> Value:
        """One element for each lane, ``moving`` values times strides further on."""
        lanes = env.lanes
        assert lanes is not None
        wide: Value | None = None
        for lane in range(lanes.active):
            extra = self._distance(moving, env, lane)
            wanted = self.w.extract(guard, lane) if guard is not None and guard.lanes > 1 else guard
            one = self._load_one(place, form, env.lane(lane), wanted, extra)
            wide = self.w.insert(wide or Value("zeroinitializer", one.type, lanes.lanes), one, lane)
        assert wide is not None
        return wide

    def gather(self, node: Read, env: Env, guard: Value | None, memo: dict[object, Value]) -> Value:
        """A read whose position comes from data."""
        if held := self.registers.get(node.buffer):
            byte = self.value(byte_of(node) or node, env, guard, memo)
            return looked_up(self.w, self.target, held, byte)
        place, static = self.places[node.buffer], list[IntExpr]()
        moving: list[tuple[Value, IntExpr]] = []
        for i, stride in zip(node.indices, place.strides, strict=True):
            chosen, offset = index_parts(i)
            static.append(offset)
            if chosen is not None:
                moving.append((self._position(chosen, env, guard, memo), stride))
        form, lanes = self.memory.form(flat_index(place.buffer, tuple(static))), env.lanes
        stride = 0 if lanes is None else form.stride(lanes.var)
        if all(v.lanes == 1 for v, _ in moving) and (lanes is None or stride in (0, 1)):
            extra = self._distance(moving, env)
            if lanes is not None and stride == 1:
                address = self.memory.address_of(place, form, env, extra)
                return self._load_vector(place, address, lanes, guard)
            if guard is None or guard.lanes == 1:
                return self._load_one(place, form, env, guard, extra)
        return self._per_lane(place, form, env, guard, moving)

    def _distance(
        self, moving: Sequence[tuple[Value, IntExpr]], env: Env, lane: int = 0
    ) -> Value | None:
        """Returns the sum of values, those of a lane, times strides; None if there are none."""
        parts: list[Value] = []
        for value, stride in moving:
            value = self.w.extract(value, lane) if value.lanes > 1 else value
            if isinstance(stride, int):
                parts.append(self.w.scale(value, stride))
            else:
                parts.append(self.memory.product([value, self.memory.index(stride, env)]))
        return reduce(self.w.add, parts) if parts else None

    def _position(
        self, index: Expr, env: Env, guard: Value | None, memo: dict[object, Value]
    ) -> Value:
        """The value of an index from data. One that is limited to the range of its axis is nearly
        always in that range: a load must not wait for the limits."""
        limits = None if guard else limited(index)
        place = limits and self.value(limits.free, env, guard, memo)
        if limits and place and place.lanes == 1 and place.type == "i64":
            return limited_place(self.scalars, place, limits)
        return self.value(index, env, guard, memo)

    def read_registers(
        self, held: Registers, indices: tuple[IntExpr, ...], env: Env, guard: Value | None
    ) -> Value:
        """Returns the registers' elements of the lanes; a scalar if all lanes read one element.

        Under a guard, lanes outside of the buffer are zero.
        """
        if guard is not None:
            return self._read_guarded(held, indices, env)
        at, moves = self.register_place(held, indices, env)
        if not moves:
            return held.read(self.w, at)
        assert env.lanes is not None
        return held.read(self.w, at, env.lanes.lanes, env.lanes.active)

    def _read_guarded(self, held: Registers, indices: tuple[IntExpr, ...], env: Env) -> Value:
        lanes = env.lanes
        if lanes is None or not any(mentions(i, lanes.var) for i in indices):
            here = env if lanes is None else env.lane(0)
            return self._element(held, indices, here) or _zero(held, 1)
        wide = _zero(held, lanes.lanes)
        for lane in range(lanes.active):
            element = self._element(held, indices, env.lane(lane))
            if element is not None:
                wide = self.w.insert(wide, element, lane)
        return wide

    def _element(self, held: Registers, indices: tuple[IntExpr, ...], env: Env) -> Value | None:
        """One element held in registers; None outside of the buffer."""
        for i, size in zip(indices, held.buffer.shape, strict=True):
            value, constant = self.memory.index_value(i, env)
            if value is not None or not 0 <= constant < as_int(size):
                return None
        return held.read(self.w, self.register_place(held, indices, env)[0])

    def register_place(
        self, held: Registers, indices: tuple[IntExpr, ...], env: Env
    ) -> tuple[int, bool]:
        """The number of the element at lane 0, and whether the others are contiguous;
        if not, all lanes are at that element."""
        key = (id(held.buffer), id(indices), held.lane_axis, held.lanes)
        entry = self.register_forms.get(key)
        if entry is None:
            form = self.memory.form(held.flat_index(indices))
            entry = self.register_forms[key] = held.buffer, indices, form
        form = entry[2]
        parts, number = self.memory.parts(form, env)
        stride = 0 if env.lanes is None else form.stride(env.lanes.var)
        if parts.terms or stride not in (0, 1):
            raise ScheduleError(f"{held.buffer.name} is in registers, but not used lane by lane")
        return number, stride == 1


def _zero(held: Registers, lanes: int) -> Value:
    if lanes == 1:
        return literal(0, held.buffer.dtype)
    return Value("zeroinitializer", held.buffer.dtype.llvm, lanes)


@cache
def _steps(stride: int, lanes: int) -> Value:
    """The multiples of a stride in the lanes of a vector."""
    steps = ", ".join(f"i64 {stride * lane}" for lane in range(lanes))
    return Value(f"<{steps}>", "i64", lanes)

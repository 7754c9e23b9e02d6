"""Statements that write elements: stores, accumulations, sorts; and prefetches."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dims import IntExpr
from ...ir.loop.decide import guarded_parts
from ...ir.loop.expr import Const, Op
from ...ir.loop.nest import Accumulate, Prefetch, Sort, Store
from ...ir.loop.scalar import COMBINERS
from ..llvm.writer import FunctionWriter, Value
from ..target import CACHE_LINE, Target
from .memory import Env, Lanes, Place
from .registers import Registers
from .sorting import sort_text
from .sorting_network import sort_symbol
from .values import ValueEmitter


class WriteEmitter(ValueEmitter):
    """Emits single statements, for one element or for the lanes of a vector."""

    def __init__(
        self,
        target: Target,
        writer: FunctionWriter,
        places: Mapping[str, Place],
        functions: dict[str, str],
    ) -> None:
        super().__init__(target, writer, places, functions)
        self.borders: dict[int, list[Op]] = {}  # by the identity of a statement

    def touch(self, names: set[str]) -> None:
        """Invalidates cached loads from these buffers, which may have changed."""
        for name in names:
            if name in self.places:
                self.places[name].version += 1

    def store(self, stmt: Store, env: Env, memo: dict[object, Value] | None = None) -> None:
        value = self.value(stmt.value, env, None, memo)
        if env.lanes is not None:
            value = self.w.splat(value, env.lanes.lanes)
        self.assign(stmt.buffer, stmt.indices, value, env, stmt.stream)

    def accumulate(self, stmt: Accumulate, env: Env) -> None:
        combiner = COMBINERS[stmt.combiner]
        dtype = stmt.value.dtype
        if self._adds_nothing(stmt, env):
            return
        old = self.current(stmt.buffer, stmt.indices, env)
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
        self.assign(stmt.buffer, stmt.indices, new, env)

    def prefetch(self, stmt: Prefetch, env: Env) -> None:
        """Prefetches the line of the first lane; the others are on it, or too many to prefetch.
        Only the first of several vectors on a line prefetches it.
        """
        place = self.places.get(stmt.buffer)
        if place is None:  # a packed copy that is small enough for registers
            return
        flat = self.memory.flat_index(place, stmt.indices)
        stride = self.memory.lane_stride(flat, env)
        offset = env.lanes.offset if env.lanes is not None else 0
        if stride is not None and stride * offset * place.buffer.dtype.bytes % CACHE_LINE:
            return
        self.memory.prefetch(self.memory.address(place, flat, env), later=stmt.later)

    def sort(self, stmt: Sort, env: Env) -> None:
        """Call the function that sorts integers of this dtype, which becomes a part of the
        module."""
        place = self.places[stmt.buffer]
        dtype = place.buffer.dtype
        symbol = sort_symbol(dtype)
        if symbol not in self.scalars.functions:
            declarations, text = sort_text(dtype, self.target)
            self.scalars.functions[symbol] = text
            self.w.calls.update(declarations)
        address = self.memory.address(place, self.memory.flat_index(place, stmt.indices), env)
        self.w.line(f"call void @{symbol}({address}, {self.memory.index(stmt.count, env)})")
        self.touch({stmt.buffer})

    def _adds_nothing(self, stmt: Accumulate, env: Env) -> bool:
        """True if every lane reads outside of a border, where the identity stands (or a zero that
        is multiplied): a tap that is skipped."""
        borders = self.borders.get(id(stmt))
        if borders is None:
            borders = self.borders[id(stmt)] = [
                guarded
                for guarded, neutral in guarded_parts(stmt.value, stmt.combiner)
                if isinstance(guarded.args[2], Const) and guarded.args[2].value == neutral
            ]
        for guarded in borders:
            sure = self.static.mask(guarded.args[0], env)
            active = env.lanes.active if env.lanes is not None else 1
            if sure is not None and not any(sure[:active]):
                return True
        return False

    def current(self, name: str, indices: tuple[IntExpr, ...], env: Env) -> Value:
        """The value of an element (or of the lanes) before it is changed."""
        mask = None if env.lanes is None or name in self.registers else env.lanes.mask
        return self.read_place(name, indices, env, mask)

    def assign(
        self,
        name: str,
        indices: tuple[IntExpr, ...],
        value: Value,
        env: Env,
        stream: bool = False,
    ) -> None:
        held = self.registers.get(name)
        if held is not None:
            at, moves = self.register_place(held, indices, env)
            active = env.lanes.active if env.lanes is not None else 1
            if env.lanes is not None and env.lanes.mask is not None and value.lanes > 1:
                value = self._where_active(held, at, moves, value, env.lanes)
            if not moves and value.lanes > 1:  # the last lane's is there in the end
                value, active = self.w.extract(value, active - 1), 1
            held.write(self.w, at, value, active if moves else 1)
            return
        place = self.places[name]
        flat = self.memory.flat_index(place, indices)
        stride = self.memory.lane_stride(flat, env)
        mask = env.lanes.mask if env.lanes is not None else None
        if env.lanes is None or stride == 1:
            active = env.lanes.active if env.lanes else 1
            streamed = stream and self.memory.is_aligned(place, flat, env)
            address = self.memory.address(place, flat, env)
            self.memory.store(place, address, value, active, streamed, mask)
            return
        for lane in range(env.lanes.active):
            address = self.memory.address(place, flat, env.lane(lane))
            element = self.w.extract(value, lane)

            def store(address: Value = address, element: Value = element) -> None:
                self.memory.store(place, address, element, 1)

            if mask is None:
                store()
            else:
                self.w.branch(self.w.extract(mask, lane), store, None)

    def _where_active(
        self, held: Registers, at: int, moves: bool, value: Value, lanes: Lanes
    ) -> Value:
        """Returns what registers hold after the lanes of a mask were set to a value: in each of
        their lanes, or where all lanes are one element, in all."""
        mask = lanes.mask
        assert mask is not None
        if moves:
            old = held.read_written(self.w, at, value.lanes, lanes.active)
            return value if old is None else self.w.select(mask, value, old)
        one = held.read(self.w, at) if held.written.get(at // held.lanes) else None
        for lane in range(value.lanes):
            element = self.w.extract(value, lane)
            one = (
                element if one is None else self.w.select(self.w.extract(mask, lane), element, one)
            )
        assert one is not None
        return self.w.splat(one, value.lanes)
